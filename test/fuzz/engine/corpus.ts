import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A target's inputs that are kept: base64, one a line, shortest first. */
const CORPUS = new URL('../corpus/', import.meta.url).pathname

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
  const lines = [...inputs]
    .sort((a, b) => a.length - b.length || Buffer.compare(a, b))
    .map((input) => (input.length === 0 ? '-' : Buffer.from(input).toString('base64')))
  const file = fileOf(target)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, `${lines.join('\n')}\n`)
  renameSync(`${file}.new`, file)
}
