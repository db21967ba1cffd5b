import { createReadStream, existsSync } from 'node:fs'
import { RookeryError } from '../errors.ts'
import { writePrivateFile } from '../platform/files.ts'
import { type SealedHeader, seal } from './sealed-stream.ts'

export interface SealedFile {
  readonly bytes: AsyncIterable<Uint8Array>
  /** how many were read so far */
  readonly bytesRead: () => number
}

/**
 * Lends the bytes of a sealed file to `act`, and closes it however that ends.
 * @throws RookeryError `BACKUP_UNKNOWN`, `BACKUP_UNREADABLE`; or what `act` throws
 */
export async function readSealed<T>(file: string, act: (sealed: SealedFile) => Promise<T>): Promise<T> {
  if (!existsSync(file)) {
    throw new RookeryError('BACKUP_UNKNOWN', `there is no file ${file}`, {
      kind: 'notFound',
      field: 'file',
      value: file,
      remedy: 'check the path'
    })
  }
  const stream = createReadStream(file)
  // told by the reader; a failure after the last read is nobody's
  stream.on('error', () => {})
  try {
    return await act({ bytes: told(stream, file), bytesRead: () => stream.bytesRead })
  } finally {
    stream.destroy()
  }
}

async function* told(stream: AsyncIterable<Uint8Array>, file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* stream
  } catch (cause) {
    throw new RookeryError('BACKUP_UNREADABLE', `${file} cannot be read: ${(cause as Error).message}`, {
      kind: 'storage',
      field: 'file',
      value: file,
      remedy: 'name a file that this user may read',
      cause
    })
  }
}

/** Text that has to fit into memory. @throws RookeryError `BACKUP_INVALID` */
export async function smallText(text: AsyncIterable<Uint8Array>, bytesMax: number, tooLarge: () => RookeryError): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of text) {
    bytes += piece.length
    if (bytes > bytesMax) throw tooLarge()
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** @throws RookeryError `BACKUP_EXISTS` */
export function checkNew(file: string): void {
  if (!existsSync(file)) return
  throw new RookeryError('BACKUP_EXISTS', `${file} is there already`, {
    kind: 'conflict',
    field: 'file',
    value: file,
    remedy: 'name another file'
  })
}

/** A short text into a sealed file that only its owner may read. @throws RookeryError `BACKUP_FAILED`; then there is none */
export async function writeSealed(
  file: string,
  text: Uint8Array,
  header: Omit<SealedHeader, 'sealed'>,
  passphrase: string | undefined
): Promise<void> {
  const source = async function* () {
    yield text
  }
  const pieces: Uint8Array[] = []
  for await (const piece of seal(source(), header, passphrase)) pieces.push(piece)
  try {
    writePrivateFile(file, Buffer.concat(pieces))
  } catch (cause) {
    throw writeFailed(file, cause)
  }
}

export function writeFailed(file: string, cause: unknown): RookeryError {
  return new RookeryError('BACKUP_FAILED', `${file} could not be written: ${(cause as Error).message}`, {
    kind: 'storage',
    field: 'file',
    value: file,
    remedy: 'name a file on a volume with room that this user may write to',
    cause
  })
}
