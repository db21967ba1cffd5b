import { createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import { loadNodeKey, NODE_KEY_FILE } from '../identity/node-key.ts'
import { makePrivateDir, removeFile, writePrivateFile } from '../platform/files.ts'
import { version } from '../version.ts'
import { invalid, type SealedHeader, seal, unseal } from './sealed-stream.ts'

const KEY_BYTES_MAX = 65_536

/** What the head of a sealed file says it is; nothing of it is proved. @throws RookeryError `BACKUP_UNKNOWN`, `BACKUP_INVALID` */
export async function kindOfSealed(file: string): Promise<SealedHeader> {
  const read: { header?: SealedHeader } = {}
  const source = sourceOf(file)
  try {
    await unseal(source, {
      file,
      passphrase: async (header) => {
        read.header = header
        return undefined
      }
    }).then(({ header }) => {
      read.header = header
    })
  } catch (error) {
    if (!(error instanceof RookeryError) || error.code !== 'PASSPHRASE_MISSING' || read.header === undefined) throw error
  } finally {
    source.destroy()
  }
  return read.header as SealedHeader
}

/** The key of a node into a file of its own. @throws RookeryError `NOT_INITIALISED`, `IDENTITY_MISSING`, `KEY_FILE_INVALID`, `BACKUP_EXISTS` */
export async function exportNode(
  { crypto }: { crypto: CryptoProvider },
  { dataDir, file, passphrase, nowMs }: { dataDir: string; file: string; passphrase: string | undefined; nowMs: number }
): Promise<{ peer: string; file: string }> {
  const { peer } = loadNodeKey(dataDir, crypto)
  if (existsSync(file)) {
    throw new RookeryError('BACKUP_EXISTS', `${file} is there already`, {
      kind: 'conflict',
      field: 'file',
      value: file,
      remedy: 'name another file'
    })
  }
  const text = readFileSync(join(dataDir, NODE_KEY_FILE))
  const pieces: Uint8Array[] = []
  const source = async function* () {
    yield text
  }
  for await (const piece of seal(source(), { kind: 'node', by: version, madeAtMs: nowMs, of: peer }, passphrase)) pieces.push(piece)
  writePrivateFile(file, Buffer.concat(pieces))
  return { peer, file }
}

/**
 * Gives a data directory that has no key of its own the exported one: a new folder, or one that lost its key. Nothing is written over.
 * @throws RookeryError `IDENTITY_EXISTS`, `BACKUP_UNKNOWN`, `BACKUP_INVALID`, `PASSPHRASE_WRONG`, `PASSPHRASE_MISSING`
 */
export async function importNode(
  { crypto }: { crypto: CryptoProvider },
  { dataDir, file, passphrase }: { dataDir: string; file: string; passphrase: (header: SealedHeader) => Promise<string | undefined> }
): Promise<{ peer: string }> {
  const path = join(dataDir, NODE_KEY_FILE)
  if (existsSync(dataDir) && readdirSync(dataDir).some((name) => name === NODE_KEY_FILE)) {
    throw new RookeryError('IDENTITY_EXISTS', `the node of ${dataDir} has a key already`, {
      kind: 'conflict',
      field: '--data',
      value: dataDir,
      remedy: `name a new folder with --data, or move ${path} away if its identity is to be given up`
    })
  }
  const { header, text } = await unseal(sourceOf(file), { file, passphrase })
  if (header.kind !== 'node') throw invalid(file, 'it holds no identity of a node')
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of text) {
    bytes += piece.length
    if (bytes > KEY_BYTES_MAX) throw invalid(file, 'it is too large for a key')
    pieces.push(piece)
  }
  makePrivateDir(dataDir)
  writePrivateFile(path, Buffer.concat(pieces))
  try {
    return { peer: loadNodeKey(dataDir, crypto).peer }
  } catch (cause) {
    removeFile(path)
    throw invalid(file, 'it holds no key of a node', cause)
  }
}

function sourceOf(file: string) {
  if (existsSync(file)) return createReadStream(file)
  throw new RookeryError('BACKUP_UNKNOWN', `there is no file ${file}`, {
    kind: 'notFound',
    field: 'file',
    value: file,
    remedy: 'check the path'
  })
}
