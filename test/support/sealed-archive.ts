import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { type SealedHeader, seal } from '../../src/backup/sealed-stream.ts'

export type Kind = SealedHeader['kind']

/** A file in clear, as a stranger may write one: well formed outside, with any text in it. */
export async function sealedFile(kind: Kind, text: Uint8Array): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of seal(Readable.from([text]), { kind, by: 'test', madeAtMs: 1, of: 'p' }, undefined)) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** A backup of any text before its compression. */
export async function backupFile(text: Uint8Array): Promise<Buffer> {
  return await sealedFile('backup', gzipSync(text))
}

export function linesText(...lines: object[]): Buffer {
  return Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
}
