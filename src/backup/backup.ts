import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { Level } from 'level'
import { CONFIG_FILES } from '../config/config-file.ts'
import { RookeryError } from '../errors.ts'
import { AGENTS_DIR } from '../identity/agent-file.ts'
import { NODE_KEY_FILE } from '../identity/node-key.ts'
import { makePrivateDir, syncFolder, writePrivateFile } from '../platform/files.ts'
import { openStore, STORE_DIR } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'
import { version } from '../version.ts'
import { invalid, type SealedHeader, seal, unseal } from './sealed-stream.ts'

/** Lines of the archive, before compression: files first, then rows, the count of both last. */
type Line = { file: string; data: string } | { row: string; data: string } | { files: number; rows: number }

export interface BackupReport {
  file: string
  bytes: number
  files: number
  rows: number
  sealed: SealedHeader['sealed']
}

const LINE_CHARS_MAX = 64 * 1_048_576
const ROWS_AT_ONCE = 500
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
  if (existsSync(file)) {
    throw new RookeryError('BACKUP_EXISTS', `${file} is there already`, {
      kind: 'conflict',
      field: 'file',
      value: file,
      remedy: 'name another file'
    })
  }
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
    throw new RookeryError('BACKUP_FAILED', `${file} could not be written: ${(cause as Error).message}`, {
      kind: 'storage',
      field: 'file',
      value: file,
      remedy: 'name a file on a volume with room that this user may write to',
      cause
    })
  }
  return { file, bytes: statSync(file).size, ...count, sealed: passphrase === undefined ? 'open' : 'passphrase' }
}

/**
 * Makes a data directory from a backup: all of it or nothing.
 * @throws RookeryError `DATA_DIR_NOT_EMPTY`, `BACKUP_INVALID`, `PASSPHRASE_WRONG`, `SCHEMA_NEWER`
 */
export async function restore(
  { dataDir, file, passphrase }: { dataDir: string; file: string; passphrase: (header: SealedHeader) => Promise<string | undefined> },
  options: { signal?: AbortSignal; onProgress?: (text: string) => void } = {}
): Promise<{ header: SealedHeader; files: number; rows: number }> {
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0) {
    throw new RookeryError('DATA_DIR_NOT_EMPTY', `${dataDir} is not empty`, {
      kind: 'conflict',
      field: '--data',
      value: dataDir,
      remedy: 'name a new folder with --data: nothing is written over'
    })
  }
  const { header, text } = await unseal(sourceOf(file), { file, passphrase })
  if (header.kind !== 'backup')
    throw invalid(file, `it holds one identity: read it with \`rookery ${header.kind === 'agent' ? 'agent' : 'identity'} import\``)
  makePrivateDir(dirname(dataDir))
  const trial = mkdtempSync(`${dataDir}.restoring-`)
  try {
    const counted = await unpack(text, trial, file, options)
    // the layout is this software's or older, or nothing is kept
    await (await openStore(trial, { software: version })).close()
    if (existsSync(dataDir)) rmdirSync(dataDir)
    renameSync(trial, dataDir)
    syncFolder(dirname(dataDir))
    return { header, ...counted }
  } catch (error) {
    rmSync(trial, { recursive: true, force: true })
    throw error
  }
}

async function unpack(
  text: AsyncIterable<Uint8Array>,
  dir: string,
  file: string,
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (text: string) => void }
): Promise<{ files: number; rows: number }> {
  makePrivateDir(join(dir, STORE_DIR))
  const level = new Level<string, Uint8Array>(join(dir, STORE_DIR), { keyEncoding: 'utf8', valueEncoding: 'view' })
  await level.open()
  const count = { files: 0, rows: 0 }
  let end = undefined as { files: number; rows: number } | undefined
  let batch: { type: 'put'; key: string; value: Uint8Array }[] = []
  const flush = async (sync: boolean) => {
    await level.batch(batch, { sync } as never)
    batch = []
  }
  try {
    await pipeline(text, createGunzip(), async (unzipped: AsyncIterable<Uint8Array>) => {
      for await (const one of linesOf(unzipped, file)) {
        signal?.throwIfAborted()
        if (end !== undefined) throw invalid(file, 'something stands behind its end')
        if ('file' in one) {
          if (!isFileName(one.file)) throw invalid(file, 'it names a file that no node has')
          makePrivateDir(dirname(join(dir, one.file)))
          writePrivateFile(join(dir, one.file), Buffer.from(one.data, 'base64'))
          count.files++
        } else if ('row' in one) {
          batch.push({ type: 'put', key: one.row, value: Buffer.from(one.data, 'base64') })
          count.rows++
          if (batch.length >= ROWS_AT_ONCE) await flush(false)
          if (count.rows % 10_000 === 0) onProgress?.(`${count.rows.toLocaleString('en')} rows`)
        } else end = one
      }
    })
    await flush(true)
  } catch (error) {
    if (error instanceof RookeryError || signal?.aborted === true) throw error
    throw invalid(file, 'it is damaged', error)
  } finally {
    await level.close()
  }
  if (end === undefined || end.files !== count.files || end.rows !== count.rows) throw invalid(file, 'its end is missing')
  return count
}

const isFileName = (name: string) => NAMES.some((one) => one === name) || /^agents\/[a-z0-9-]{1,32}\.(json|token)$/.test(name)

async function* linesOf(source: AsyncIterable<Uint8Array>, file: string): AsyncGenerator<Line> {
  const decoder = new TextDecoder()
  let rest = ''
  const line = (text: string) => {
    const one = parsed(text)
    if (one === undefined) throw invalid(file, 'it holds what no backup holds')
    return one
  }
  for await (const piece of source) {
    const texts = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = texts.pop() as string
    if (rest.length > LINE_CHARS_MAX) throw invalid(file, 'one of its lines has no end')
    for (const text of texts) yield line(text)
  }
  if (rest !== '') yield line(rest)
}

function parsed(text: string): Line | undefined {
  try {
    const value = JSON.parse(text) as { [name: string]: unknown }
    const named = (typeof value.file === 'string' || typeof value.row === 'string') && typeof value.data === 'string'
    const counted = Number.isSafeInteger(value.files) && Number.isSafeInteger(value.rows)
    return named || counted ? (value as unknown as Line) : undefined
  } catch {
    return undefined
  }
}

function sourceOf(file: string): AsyncIterable<Uint8Array> {
  if (!existsSync(file)) {
    throw new RookeryError('BACKUP_UNKNOWN', `there is no file ${file}`, {
      kind: 'notFound',
      field: 'file',
      value: file,
      remedy: 'check the path'
    })
  }
  return createReadStream(file)
}
