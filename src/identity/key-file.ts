import { chmodSync, statSync } from 'node:fs'
import { z } from 'zod'
import { equals } from '../../protocol/bytes.ts'
import { RookeryError } from '../errors.ts'
import { readSmallFile, writePrivateFile } from '../platform/files.ts'
import { secretFromText } from './secret-text.ts'

const KEY_FILE_BYTES_MAX = 65_536

export const secretSchema = z.string().transform((text, context) => {
  const bytes = secretFromText(text)
  if (bytes !== undefined) return bytes
  context.addIssue({ code: 'custom', message: 'is not base64url of 32 bytes' })
  return z.NEVER
})

/** Whether a key file that others may read is narrowed as it is read; who only looks leaves it. */
export type Rights = 'narrow' | 'leave'

/**
 * Reads a file that holds keys; undefined where there is none. Whatever else is wrong with it refuses the start: a node that made itself new keys would
 * lose its contacts and its mail (F100).
 * @throws RookeryError `KEY_FILE_INVALID`
 */
export function readKeyFile<T>(path: string, schema: z.ZodType<T>, rights: Rights = 'narrow'): T | undefined {
  let bytes: Uint8Array | undefined
  try {
    bytes = readSmallFile(path, KEY_FILE_BYTES_MAX)
  } catch (cause) {
    throw invalidKeyFile(path, `it cannot be read (${(cause as NodeJS.ErrnoException).code ?? (cause as Error).message})`, cause)
  }
  if (bytes === undefined) return undefined
  const value = parseKeyFile(path, bytes, schema)
  if (rights === 'narrow') narrow(path)
  return value
}

/** @param path - for errors: where the bytes came from. @throws RookeryError `KEY_FILE_INVALID` */
export function parseKeyFile<T>(path: string, bytes: Uint8Array, schema: z.ZodType<T>): T {
  if (bytes.length === 0) throw invalidKeyFile(path, 'it is empty')
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw invalidKeyFile(path, 'it is not the JSON that Rookery wrote')
  }
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw invalidKeyFile(path, `its member "${parsed.error.issues[0]?.path.join('.') ?? ''}" is missing or damaged`)
  return parsed.data
}

export function writeKeyFile(path: string, value: object): void {
  writePrivateFile(path, `${JSON.stringify(value, null, 2)}\n`)
}

/** The public key beside a seed is its check: a changed bit in either shows. */
export function checkKeyPair(path: string, named: Uint8Array, derived: Uint8Array): void {
  if (!equals(named, derived)) throw invalidKeyFile(path, 'its secret and its public key do not belong together')
}

/** The cause's text may hold parts of the file, so it is not passed on where the content is at fault. */
export function invalidKeyFile(path: string, what: string, cause?: unknown): RookeryError {
  return new RookeryError('KEY_FILE_INVALID', `the key file ${path} cannot be used: ${what}`, {
    kind: 'config',
    field: path,
    remedy: 'restore the file from a backup; to begin with a new identity instead, move it away and run `rookery init`',
    cause
  })
}

/** A file with a key or a token that others may read is narrowed to its owner; behind a link, the file that it leads to. */
export function narrow(path: string): void {
  if (process.platform === 'win32') return
  const state = statSync(path)
  if ((state.mode & 0o077) !== 0 && state.uid === process.getuid?.()) chmodSync(path, 0o600)
}
