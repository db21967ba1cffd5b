import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import { loadNodeKey, NODE_KEY_FILE, parseNodeKey } from '../identity/node-key.ts'
import { makePrivateDir, writePrivateFile } from '../platform/files.ts'
import { version } from '../version.ts'
import { dataFolder } from './data-folder.ts'
import { checkNew, readSealed, smallText, writeSealed } from './sealed-file.ts'
import { invalid, type SealedHeader, unseal } from './sealed-stream.ts'

const KEY_BYTES_MAX = 65_536

/** What the head of a sealed file says it is; nothing of it is proved. @throws RookeryError `BACKUP_UNKNOWN`, `BACKUP_UNREADABLE`, `BACKUP_INVALID` */
export async function kindOfSealed(file: string): Promise<SealedHeader> {
  return await readSealed(file, async ({ bytes }) => {
    let read: SealedHeader | undefined
    const passphrase = async (header: SealedHeader) => {
      read = header
      return undefined
    }
    try {
      return (await unseal(bytes, { file, passphrase })).header
    } catch (error) {
      if (!(error instanceof RookeryError) || error.code !== 'PASSPHRASE_MISSING' || read === undefined) throw error
      return read
    }
  })
}

/** The key of a node into a file of its own. @throws RookeryError `NOT_INITIALISED`, `IDENTITY_MISSING`, `KEY_FILE_INVALID`, `BACKUP_EXISTS`, `BACKUP_FAILED` */
export async function exportNode(
  { crypto }: { crypto: CryptoProvider },
  { dataDir, file, passphrase, nowMs }: { dataDir: string; file: string; passphrase: string | undefined; nowMs: number }
): Promise<{ peer: string; file: string }> {
  const { peer } = loadNodeKey(dataDir, crypto)
  checkNew(file)
  await writeSealed(file, readFileSync(join(dataDir, NODE_KEY_FILE)), { kind: 'node', by: version, madeAtMs: nowMs, of: peer }, passphrase)
  return { peer, file }
}

/**
 * Gives a data directory that has no key of its own the exported one: a new folder, or one that lost its key. Nothing is written over.
 * @throws RookeryError `IDENTITY_EXISTS`, `DATA_DIR_UNUSABLE`, `BACKUP_UNKNOWN`, `BACKUP_INVALID`, `PASSPHRASE_WRONG`, `PASSPHRASE_MISSING`
 */
export async function importNode(
  { crypto }: { crypto: CryptoProvider },
  { dataDir, file, passphrase }: { dataDir: string; file: string; passphrase: (header: SealedHeader) => Promise<string | undefined> }
): Promise<{ peer: string }> {
  const path = join(dataDir, NODE_KEY_FILE)
  if (dataFolder(dataDir).names?.includes(NODE_KEY_FILE) === true) {
    throw new RookeryError('IDENTITY_EXISTS', `the node of ${dataDir} has a key already`, {
      kind: 'conflict',
      field: '--data',
      value: dataDir,
      remedy: `name a new folder with --data, or move ${path} away if its identity is to be given up`
    })
  }
  const text = await readSealed(file, async ({ bytes }) => {
    const { header, text: sealed } = await unseal(bytes, { file, passphrase })
    if (header.kind !== 'node') throw invalid(file, 'it holds no identity of a node')
    return await smallText(sealed, KEY_BYTES_MAX, () => invalid(file, 'it is too large for a key'))
  })
  const peer = peerIn(text, file, crypto)
  makePrivateDir(dataDir)
  writePrivateFile(path, text)
  return { peer }
}

/** @throws RookeryError `BACKUP_INVALID` */
function peerIn(text: Uint8Array, file: string, crypto: CryptoProvider): string {
  try {
    return parseNodeKey(file, text, crypto).peer
  } catch (cause) {
    throw invalid(file, 'it holds no key of a node', cause)
  }
}
