import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type BackupReport, backUp } from '../../backup/backup.ts'
import { nodeCrypto } from '../../crypto/node-crypto.ts'
import { RookeryError } from '../../errors.ts'
import { loadNodeKey } from '../../identity/node-key.ts'
import { systemClock } from '../../platform/clock.ts'
import { openStore, STORE_DIR } from '../../store/open-store.ts'
import { version } from '../../version.ts'
import type { Invocation } from '../context.ts'

/** Backs up a data directory on which no node runs. @throws RookeryError `NODE_UNKNOWN`, as `backUp` */
export async function backUpStopped(
  { dataDir, out, signal }: Invocation,
  file: string,
  passphrase: string | undefined
): Promise<BackupReport> {
  if (!existsSync(join(dataDir, STORE_DIR))) {
    throw new RookeryError('NODE_UNKNOWN', `no node has run in ${dataDir}`, {
      kind: 'notFound',
      field: '--data',
      value: dataDir,
      remedy: 'name its folder with --data'
    })
  }
  const { peer } = loadNodeKey(dataDir, nodeCrypto)
  const store = await openStore(dataDir, { software: version })
  try {
    return await backUp(
      { store, peer, nowMs: systemClock.nowMs() },
      { dataDir, file, passphrase },
      { signal, onProgress: (text) => out.progress(text) }
    )
  } finally {
    out.done()
    await store.close()
  }
}
