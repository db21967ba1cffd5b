import { readFileSync } from 'node:fs'
import { Writable } from 'node:stream'
import { RookeryError } from '../errors.ts'
import type { Invocation } from './context.ts'

const CHARS_MIN = 8
const FILE_BYTES_MAX = 4_096

/**
 * A passphrase from a file, from `ROOKERY_PASSPHRASE`, or typed on a terminal without being shown; undefined where there is none of them.
 * @throws RookeryError `PASSPHRASE_INVALID`
 */
export async function readPassphrase(
  invocation: Invocation,
  { file, use }: { file: string | undefined; use: 'new' | 'open' }
): Promise<string | undefined> {
  const { env, out } = invocation
  const given = file !== undefined ? fromFile(file) : env.ROOKERY_PASSPHRASE || undefined
  const text =
    given ?? (out.json || process.stdin.isTTY !== true || process.stderr.isTTY !== true ? undefined : await typed(invocation, use))
  if (text === undefined || use === 'open' || [...text].length >= CHARS_MIN) return text
  throw new RookeryError('PASSPHRASE_INVALID', `the passphrase has fewer than ${CHARS_MIN} characters`, {
    kind: 'usage',
    field: 'passphrase',
    remedy: 'take several words; who has the file can try as many as a machine can'
  })
}

function fromFile(file: string): string {
  try {
    const text = readFileSync(file, 'utf8')
    if (text.length <= FILE_BYTES_MAX) return text.replace(/\r?\n$/, '')
  } catch (cause) {
    throw new RookeryError('PASSPHRASE_INVALID', `${file} cannot be read: ${(cause as NodeJS.ErrnoException).code}`, {
      kind: 'usage',
      field: '--passphrase-file',
      value: file,
      remedy: 'check the path',
      cause
    })
  }
  throw new RookeryError('PASSPHRASE_INVALID', `${file} holds more than ${FILE_BYTES_MAX} characters`, {
    kind: 'usage',
    field: '--passphrase-file',
    value: file,
    remedy: 'is it the right file?'
  })
}

async function typed({ signal }: Invocation, use: 'new' | 'open'): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true })
  const ask = async (question: string) => {
    process.stderr.write(question)
    const text = await lines.question('', { signal })
    process.stderr.write('\n')
    return text
  }
  try {
    const first = await ask('passphrase: ')
    if (use === 'open' || (await ask('once more: ')) === first) return first
  } finally {
    lines.close()
  }
  throw new RookeryError('PASSPHRASE_INVALID', 'the two passphrases differ; nothing was written', {
    kind: 'usage',
    field: 'passphrase',
    remedy: 'try again'
  })
}
