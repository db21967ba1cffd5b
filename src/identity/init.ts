import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import { makePrivateDir } from '../platform/files.ts'
import type { Random } from '../platform/random.ts'
import { createNodeKey, hasNodeKey, loadNodeKey } from './node-key.ts'
import type { NodeKey } from './peer-id.ts'

/**
 * Makes a data directory with a node key. The only place where an identity comes into being (F100).
 * @throws RookeryError `ALREADY_INITIALISED`, `KEY_FILE_INVALID`, `DATA_DIR_UNUSABLE`
 */
export function initDataDir(dataDir: string, components: { crypto: CryptoProvider; random: Random }): NodeKey {
  if (hasNodeKey(dataDir)) {
    const { peer } = loadNodeKey(dataDir, components.crypto)
    throw new RookeryError('ALREADY_INITIALISED', `${dataDir} holds the node ${peer} already; nothing was changed`, {
      kind: 'conflict',
      field: 'dataDir',
      value: dataDir,
      remedy: 'start it with `rookery start`, or name another folder with --data',
      data: { peer }
    })
  }
  makePrivateDir(dataDir)
  return createNodeKey(dataDir, components)
}
