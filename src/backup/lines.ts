import { invalid } from './sealed-stream.ts'

/** Lines of the archive, before compression: files first, then rows, the count of both last. */
export type Line = { file: string; data: string } | { row: string; data: string } | { files: number; rows: number }

const LINE_BYTES_MAX = 64 * 1_048_576
const NEW_LINE = 10

/** @param file - for errors. @throws RookeryError `BACKUP_INVALID` */
export async function* linesOf(source: AsyncIterable<Uint8Array>, file: string): AsyncGenerator<Line> {
  let pieces: Uint8Array[] = []
  let bytes = 0
  const line = (): Line => {
    const one = parsed(Buffer.concat(pieces))
    pieces = []
    bytes = 0
    if (one === undefined) throw invalid(file, 'it holds what no backup holds')
    return one
  }
  const add = (piece: Uint8Array) => {
    bytes += piece.length
    if (bytes > LINE_BYTES_MAX) throw invalid(file, `one of its lines is above ${LINE_BYTES_MAX} bytes`)
    pieces.push(piece)
  }
  for await (const piece of source) {
    let start = 0
    for (let end = piece.indexOf(NEW_LINE); end >= 0; end = piece.indexOf(NEW_LINE, start)) {
      add(piece.subarray(start, end))
      yield line()
      start = end + 1
    }
    if (start < piece.length) add(piece.subarray(start))
  }
  if (bytes > 0) yield line()
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function parsed(bytes: Uint8Array): Line | undefined {
  try {
    const value = JSON.parse(decoder.decode(bytes)) as { [name: string]: unknown }
    const named = (typeof value.file === 'string' || typeof value.row === 'string') && typeof value.data === 'string'
    const counted = Number.isSafeInteger(value.files) && Number.isSafeInteger(value.rows)
    return named || counted ? (value as unknown as Line) : undefined
  } catch {
    return undefined
  }
}
