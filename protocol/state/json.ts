import { fromUtf8, utf8 } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'

/** What JSON can say (RFC 8259). */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue }

/** Lists and objects inside each other; deeper is refused. */
export const JSON_DEPTH_MAX = 64

/**
 * The one text of a JSON value (RFC 8785): no white space, members sorted by UTF-16 code units, numbers as ECMAScript writes them. A member whose
 * value is undefined is left out.
 * @throws ProtocolError `FIELD_INVALID`: no JSON value (NaN, a function, a class instance, half a surrogate pair …), or nested deeper than JSON_DEPTH_MAX
 */
export function canonicalJson(value: unknown): string {
  return textOf(value, 0)
}

function textOf(value: unknown, depth: number): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return stringText(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw invalid(`${value} is no JSON number`)
    return JSON.stringify(value)
  }
  if (typeof value !== 'object') throw invalid(`a ${typeof value} is no JSON value`)
  if (depth === JSON_DEPTH_MAX) throw invalid(`nests deeper than ${JSON_DEPTH_MAX}`)
  if (Array.isArray(value)) return `[${Array.from(value, (item) => textOf(item, depth + 1)).join(',')}]`
  const kind = Object.getPrototypeOf(value)
  if (kind !== Object.prototype && kind !== null) throw invalid('an object of a class is no JSON value')
  const members: string[] = []
  for (const name of Object.keys(value).sort()) {
    const member = (value as Record<string, unknown>)[name]
    if (member !== undefined) members.push(`${stringText(name)}:${textOf(member, depth + 1)}`)
  }
  return `{${members.join(',')}}`
}

function stringText(text: string): string {
  if (!text.isWellFormed()) throw invalid('a text holds half a surrogate pair')
  return JSON.stringify(text)
}

/**
 * Reads the text of one JSON value and refuses every other spelling of it. The caller bounds `bytes.length` first.
 * @throws ProtocolError `UTF8_INVALID`, `FIELD_INVALID`
 */
export function parseCanonicalJson(bytes: Uint8Array): JsonValue {
  const text = fromUtf8(bytes)
  let value: JsonValue
  try {
    value = JSON.parse(text) as JsonValue
  } catch (cause) {
    throw new ProtocolError('FIELD_INVALID', 'is not JSON', { field: 'json', cause })
  }
  if (canonicalJson(value) !== text) throw invalid('is JSON, but not in its canonical form')
  return value
}

export function jsonBytes(value: unknown): Uint8Array {
  return utf8(canonicalJson(value))
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', message, { field: 'json' })
}
