import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A target's inputs that are kept: base64, one a line, shortest first. */
const CORPUS = new URL('../corpus/', import.meta.url).pathname

/** Of one target; the longest are left out, and found again by the next run. */
const CORPUS_BYTES_MAX = 65_536

function fileOf(target: string): string {
  return join(CORPUS, `${target}.txt`)
}

export function readCorpus(target: string): Uint8Array[] {
  const file = fileOf(target)
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (line === '-' ? new Uint8Array(0) : new Uint8Array(Buffer.from(line, 'base64'))))
}

export function writeCorpus(target: string, inputs: readonly Uint8Array[]): void {
  const lines: string[] = []
  let bytes = 0
  for (const input of [...inputs].sort((a, b) => a.length - b.length || Buffer.compare(a, b))) {
    bytes += input.length
    if (bytes > CORPUS_BYTES_MAX) break
    lines.push(input.length === 0 ? '-' : Buffer.from(input).toString('base64'))
  }
  const file = fileOf(target)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, `${lines.join('\n')}\n`)
  renameSync(`${file}.new`, file)
}
