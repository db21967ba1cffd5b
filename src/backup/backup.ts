import { createWriteStream, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { CONFIG_FILES } from '../config/config-file.ts'
import { RookeryError } from '../errors.ts'
import { AGENTS_DIR } from '../identity/agent-file.ts'
import { AGENTS_MAX } from '../identity/agents.ts'
import { NODE_KEY_FILE } from '../identity/node-key.ts'
import { makeFolders, makePrivateDir, syncFolder, unusable, writePrivateFile } from '../platform/files.ts'
import { openStore, STORE_DIR } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'
import { version } from '../version.ts'
import { type DataFolder, dataFolder } from './data-folder.ts'
import { type Line, linesOf } from './lines.ts'
import { RowWriter } from './row-writer.ts'
import { checkNew, readSealed, writeFailed } from './sealed-file.ts'
import { invalid, type SealedHeader, seal, unseal } from './sealed-stream.ts'

export interface BackupReport {
  file: string
  bytes: number
  files: number
  rows: number
  sealed: SealedHeader['sealed']
}

/** Of the folder of a node: keys, tokens, settings. Keys of other sides' state stay out: what they destroy stays destroyed, and comes back from the peers. */
const NAMES = [NODE_KEY_FILE, ...CONFIG_FILES]

function filesOf(dataDir: string): string[] {
  const agents = join(dataDir, AGENTS_DIR)
  const named = existsSync(agents) ? readdirSync(agents).filter((name) => /^[a-z0-9-]{1,32}\.(json|token)$/.test(name)) : []
  return [...NAMES.filter((name) => existsSync(join(dataDir, name))), ...named.sort().map((name) => `${AGENTS_DIR}/${name}`)]
}

async function* lines(dataDir: string, store: Store, count: { files: number; rows: number }): AsyncGenerator<string> {
  // One reading of the store is one moment of it; files come before, so that no row speaks of a key that is missing.
  const line = (one: Line) => `${JSON.stringify(one)}\n`
  for (const file of filesOf(dataDir)) {
    count.files++
    yield line({ file, data: readFileSync(join(dataDir, file)).toString('base64') })
  }
  for await (const [row, value] of store.dump()) {
    count.rows++
    yield line({ row, data: Buffer.from(value).toString('base64') })
  }
  yield line({ ...count })
}

/**
 * Writes everything that a node cannot get back from others into one file, also while it runs.
 * @param init.passphrase - undefined: in clear; the file then holds the keys of the node and its agents for anyone to read
 * @throws RookeryError `BACKUP_EXISTS`, `BACKUP_FAILED`; then no file is left
 */
export async function backUp(
  { store, peer, nowMs }: { store: Store; peer: string; nowMs: number },
  { dataDir, file, passphrase }: { dataDir: string; file: string; passphrase: string | undefined },
  options: { signal?: AbortSignal; onProgress?: (text: string) => void } = {}
): Promise<BackupReport> {
  checkNew(file)
  const count = { files: 0, rows: 0 }
  const trial = `${file}.partial`
  const told = async function* () {
    for await (const one of lines(dataDir, store, count)) {
      if (count.rows % 10_000 === 0 && count.rows > 0) options.onProgress?.(`${count.rows.toLocaleString('en')} rows`)
      yield one
    }
  }
  try {
    const sealed = (text: AsyncIterable<Uint8Array>) => seal(text, { kind: 'backup', by: version, madeAtMs: nowMs, of: peer }, passphrase)
    rmSync(trial, { force: true })
    const sink: Writable = createWriteStream(trial, { flags: 'wx', mode: 0o600, flush: true })
    await pipeline(Readable.from(told()), createGzip(), sealed, sink, options.signal === undefined ? {} : { signal: options.signal })
    renameSync(trial, file)
    syncFolder(dirname(file))
  } catch (cause) {
    rmSync(trial, { force: true })
    options.signal?.throwIfAborted()
    if (cause instanceof RookeryError) throw cause
    throw writeFailed(file, cause)
  }
  return { file, bytes: statSync(file).size, ...count, sealed: passphrase === undefined ? 'open' : 'passphrase' }
}

/** What a backup may unpack to: so many bytes, and so many for each byte that it weighs. Honest ones are far below; what was made to fill a disk is not. */
export const UNPACKED_BYTES_FREE = 64 * 1_048_576
export const UNPACKED_RATIO_MAX = 200
/** As many files as a node can have: a key and a token of each agent. */
export const FILES_MAX = NAMES.length + 2 * AGENTS_MAX

export interface RestoreOptions {
  signal?: AbortSignal
  onProgress?: (text: string) => void
  /** `any`: also what unpacks to more than the bound; for a file that is one's own */
  size?: 'bounded' | 'any'
}

/**
 * Makes a data directory from a backup: all of it or nothing. Behind a link it is made where the link leads to.
 * @throws RookeryError `DATA_DIR_NOT_EMPTY`, `DATA_DIR_UNUSABLE`, `BACKUP_UNKNOWN`, `BACKUP_UNREADABLE`, `BACKUP_INVALID`, `PASSPHRASE_WRONG`, `SCHEMA_NEWER`
 */
export async function restore(
  { dataDir, file, passphrase }: { dataDir: string; file: string; passphrase: (header: SealedHeader) => Promise<string | undefined> },
  options: RestoreOptions = {}
): Promise<{ header: SealedHeader; files: number; rows: number }> {
  const place = dataFolder(dataDir)
  if (place.names !== undefined && place.names.length > 0) {
    throw new RookeryError('DATA_DIR_NOT_EMPTY', `${dataDir} is not empty`, {
      kind: 'conflict',
      field: '--data',
      value: dataDir,
      remedy: 'name a new folder with --data: nothing is written over'
    })
  }
  return await readSealed(file, async ({ bytes, bytesRead }) => {
    const { header, text } = await unseal(bytes, { file, passphrase })
    if (header.kind !== 'backup')
      throw invalid(file, `it holds one identity: read it with \`rookery ${header.kind === 'agent' ? 'agent' : 'identity'} import\``)
    const weight = () => Math.max(statSync(file).size, bytesRead())
    const counted = await made(place, (trial) => unpack(text, { dir: trial, file, weight }, options))
    return { header, ...counted }
  })
}

/** Fills a folder beside `place`, and puts it there once it is whole. */
async function made<T>({ path, names }: DataFolder, fill: (trial: string) => Promise<T>): Promise<T> {
  let trial: string | undefined
  try {
    makeFolders(dirname(path))
    trial = mkdtempSync(`${path}.restoring-`)
    const filled = await fill(trial)
    if (names !== undefined) rmdirSync(path)
    renameSync(trial, path)
    syncFolder(dirname(path))
    return filled
  } catch (error) {
    if (trial !== undefined) rmSync(trial, { recursive: true, force: true })
    throw isErrno(error) || isErrno(error, 'LEVEL_') ? unusable(path, error) : error
  }
}

async function unpack(
  text: AsyncIterable<Uint8Array>,
  { dir, file, weight }: { dir: string; file: string; weight: () => number },
  { signal, onProgress, size = 'bounded' }: RestoreOptions
): Promise<{ files: number; rows: number }> {
  const count = { files: 0, rows: 0 }
  const rows = await RowWriter.open(join(dir, STORE_DIR))
  try {
    await pipeline(text, createGunzip(), async (unzipped: AsyncIterable<Uint8Array>) => {
      let end: { files: number; rows: number } | undefined
      for await (const one of linesOf(size === 'any' ? unzipped : bounded(unzipped, { file, weight }), file)) {
        signal?.throwIfAborted()
        if (end !== undefined) throw invalid(file, 'something stands behind its end')
        if ('file' in one) {
          if (!isFileName(one.file)) throw invalid(file, 'it names a file that no node has')
          if (count.files++ >= FILES_MAX) throw invalid(file, `it has more than ${FILES_MAX} files`)
          makePrivateDir(dirname(join(dir, one.file)))
          writePrivateFile(join(dir, one.file), Buffer.from(one.data, 'base64'))
        } else if ('row' in one) {
          await rows.put(one.row, Buffer.from(one.data, 'base64'))
          if (++count.rows % 10_000 === 0) onProgress?.(`${count.rows.toLocaleString('en')} rows`)
        } else end = one
      }
      if (end === undefined || end.files !== count.files || end.rows !== count.rows) throw invalid(file, 'its end is missing')
    })
    await rows.end()
    // the layout is this software's or older, or nothing is kept
    await (await openStore(dir, { software: version })).close()
    return count
  } catch (error) {
    await rows.close()
    if (isErrno(error, 'Z_')) throw invalid(file, 'it is damaged', error)
    if (error instanceof RookeryError && error.code === 'STORE_CORRUPT') throw invalid(file, 'its store is damaged', error)
    throw error
  }
}

/** @throws RookeryError `BACKUP_INVALID` as soon as more came than the file may hold */
async function* bounded(
  unzipped: AsyncIterable<Uint8Array>,
  { file, weight }: { file: string; weight: () => number }
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of unzipped) {
    bytes += piece.length
    const bytesMax = UNPACKED_BYTES_FREE + UNPACKED_RATIO_MAX * weight()
    if (bytes > bytesMax) {
      throw new RookeryError(
        'BACKUP_INVALID',
        `${file} cannot be used: it unpacks to more than ${UNPACKED_RATIO_MAX} times its size and ${UNPACKED_BYTES_FREE} bytes, as what is made to fill a disk does`,
        {
          kind: 'storage',
          field: 'file',
          value: file,
          data: { bytesMax },
          remedy: 'leave it if it is another’s; a backup of your own is restored with --any-size'
        }
      )
    }
    yield piece
  }
}

/** The system's errors, those of zlib (`Z_`) and of LevelDB (`LEVEL_`) bear codes; Node's own begin with `ERR_`. */
function isErrno(error: unknown, prefix = 'E'): boolean {
  const { code } = error as { code?: unknown }
  return !(error instanceof RookeryError) && typeof code === 'string' && code.startsWith(prefix) && !code.startsWith('ERR_')
}

const isFileName = (name: string) => NAMES.some((one) => one === name) || /^agents\/[a-z0-9-]{1,32}\.(json|token)$/.test(name)
