import { fromUtf8, Reader, utf8, Writer, wipe } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type JsonValue, jsonBytes, parseCanonicalJson } from './json.ts'
import { type JsonPatchOp, jsonPatchOf } from './patch.ts'

/** UTF-8 bytes of a key, at least one. */
export const ESE_KEY_BYTES_MAX = 256
/** One value as it is held, its type byte included; patches too. */
export const ESE_VALUE_BYTES_MAX = 524_288
/** Changes of one batch. */
export const ESE_CHANGES_MAX = 1_024
/** One encoded batch: an item of a session less what is put in front of it. */
export const ESE_BATCH_BYTES_MAX = 1_048_576 - 1_024

const VALUE_JSON = 0x01
const VALUE_BLOB = 0x02
const FLAG_CLEAR = 1
const OPS = { set: 0x01, delete: 0x02, patch: 0x03, merge: 0x04 } as const

/** What a key holds: any JSON value, or bytes. */
export type EseValue = JsonValue | Uint8Array

/** A change as a program asks for it. `patch`: RFC 6902, the key must hold JSON; `merge`: RFC 7396. */
export type EseWrite =
  | { op: 'set'; key: string; value: EseValue }
  | { op: 'delete'; key: string }
  | { op: 'patch'; key: string; patch: readonly JsonPatchOp[] }
  | { op: 'merge'; key: string; patch: JsonValue }

/** A change as it travels: `bytes` is an encoded value (set), or the canonical JSON of a patch (patch, merge). */
export type EseChange = { op: 'set' | 'patch' | 'merge'; key: string; bytes: Uint8Array } | { op: 'delete'; key: string }

/** Changes that take effect together or not at all. */
export interface EseBatch {
  /** everything that was there goes first */
  readonly clear: boolean
  readonly changes: readonly EseChange[]
}

/**
 * u8 type ‖ bytes: 0x01 and canonical JSON (RFC 8785), or 0x02 and a blob.
 * @returns a buffer that nothing else shares. @throws ProtocolError `FIELD_INVALID`, `TOO_LARGE`
 */
export function encodeEseValue(value: EseValue): Uint8Array {
  const isBlob = value instanceof Uint8Array
  const content = isBlob ? value : jsonBytes(value)
  if (content.length + 1 > ESE_VALUE_BYTES_MAX) throw tooLarge('value', content.length + 1, ESE_VALUE_BYTES_MAX)
  const bytes = new Uint8Array(content.length + 1)
  bytes[0] = isBlob ? VALUE_BLOB : VALUE_JSON
  bytes.set(content, 1)
  if (!isBlob) wipe(content)
  return bytes
}

/** @returns a value of its own: nothing of `bytes` is shared. @throws ProtocolError `FIELD_INVALID`, `UTF8_INVALID`, `TRUNCATED` */
export function decodeEseValue(bytes: Uint8Array): EseValue {
  const type = new Reader(bytes).u8('value')
  if (type === VALUE_BLOB) return new Uint8Array(bytes.subarray(1))
  if (type === VALUE_JSON) return parseCanonicalJson(bytes.subarray(1))
  throw new ProtocolError('FIELD_INVALID', `a value of unknown type ${type}`, { field: 'value' })
}

/** @throws ProtocolError `FIELD_INVALID`, `TOO_LARGE`, naming the field */
export function eseBatch(writes: readonly EseWrite[], options: { clear?: boolean } = {}): EseBatch {
  if (writes.length > ESE_CHANGES_MAX) throw tooLarge('changes', writes.length, ESE_CHANGES_MAX)
  return { clear: options.clear === true, changes: writes.map(changeOf) }
}

function changeOf(write: EseWrite): EseChange {
  const { op, key } = write
  checkKey(key, utf8(key).length)
  if (op === 'delete') return { op, key }
  if (op === 'set') return { op, key, bytes: encodeEseValue(write.value) }
  if (op === 'patch') jsonPatchOf(write.patch as unknown as JsonValue)
  const bytes = jsonBytes(write.patch)
  if (bytes.length > ESE_VALUE_BYTES_MAX) throw tooLarge('patch', bytes.length, ESE_VALUE_BYTES_MAX)
  return { op, key, bytes }
}

/** Bytes that a change takes in an encoded batch. */
export function changeBytes(change: EseChange): number {
  return 3 + utf8(change.key).length + (change.op === 'delete' ? 0 : 4 + change.bytes.length)
}

/** u8 flags (bit 0 clear) ‖ u16 count ‖ (u8 op ‖ u16 length ‖ key ‖ [u32 length ‖ bytes])*. @throws ProtocolError `TOO_LARGE` */
export function encodeEseBatch({ clear, changes }: EseBatch): Uint8Array {
  if (changes.length > ESE_CHANGES_MAX) throw tooLarge('changes', changes.length, ESE_CHANGES_MAX)
  let size = 3
  for (const change of changes) size += changeBytes(change)
  if (size > ESE_BATCH_BYTES_MAX) throw tooLarge('batch', size, ESE_BATCH_BYTES_MAX)
  const writer = new Writer(size).u8(clear ? FLAG_CLEAR : 0).u16(changes.length)
  for (const change of changes) {
    const key = utf8(change.key)
    writer.u8(OPS[change.op]).u16(key.length).bytes(key)
    if (change.op !== 'delete') writer.u32(change.bytes.length).bytes(change.bytes)
  }
  return writer.finish()
}

/**
 * @returns byte fields are views into `bytes`; the values in them are checked when they are applied
 * @throws ProtocolError `TRUNCATED`, `TRAILING_BYTES`, `RANGE`, `TOO_LARGE`, `FIELD_INVALID`, `UTF8_INVALID`
 */
export function decodeEseBatch(bytes: Uint8Array): EseBatch {
  if (bytes.length > ESE_BATCH_BYTES_MAX) throw tooLarge('batch', bytes.length, ESE_BATCH_BYTES_MAX)
  const reader = new Reader(bytes)
  const flags = reader.u8('flags')
  if ((flags & ~FLAG_CLEAR) !== 0) throw new ProtocolError('RANGE', `a batch has unknown flags ${flags}`, { field: 'flags' })
  const count = reader.u16('count')
  if (count > ESE_CHANGES_MAX) throw tooLarge('changes', count, ESE_CHANGES_MAX)
  const changes: EseChange[] = []
  for (let i = 0; i < count; i++) {
    const op = reader.u8('op')
    const length = reader.u16('key')
    if (length === 0 || length > ESE_KEY_BYTES_MAX) throw tooLarge('key', length, ESE_KEY_BYTES_MAX)
    const key = fromUtf8(reader.bytes(length, 'key'))
    if (op === OPS.delete) {
      changes.push({ op: 'delete', key })
      continue
    }
    const name = op === OPS.set ? 'set' : op === OPS.patch ? 'patch' : op === OPS.merge ? 'merge' : undefined
    if (name === undefined) throw new ProtocolError('RANGE', `a change of unknown kind ${op}`, { field: 'op' })
    const size = reader.u32('value')
    if (size > ESE_VALUE_BYTES_MAX) throw tooLarge('value', size, ESE_VALUE_BYTES_MAX)
    changes.push({ op: name, key, bytes: reader.bytes(size, 'value') })
  }
  reader.end('a batch')
  return { clear: (flags & FLAG_CLEAR) !== 0, changes }
}

function checkKey(key: string, bytes: number): void {
  if (!key.isWellFormed()) throw new ProtocolError('FIELD_INVALID', 'a key holds half a surrogate pair', { field: 'key' })
  if (bytes === 0 || bytes > ESE_KEY_BYTES_MAX) throw tooLarge('key', bytes, ESE_KEY_BYTES_MAX)
}

function tooLarge(field: string, value: number, max: number): ProtocolError {
  return new ProtocolError('TOO_LARGE', `${field}: ${value}, ${field === 'key' ? '1 to' : 'at most'} ${max}`, { field })
}
