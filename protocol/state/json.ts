import { fromUtf8, utf8 } from '../bytes.ts'
import { canonicalJson } from '../canonical-json.ts'
import { ProtocolError } from '../errors.ts'

/** What JSON can say (RFC 8259). */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue }

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
  if (canonicalJson(value) !== text) {
    throw new ProtocolError('FIELD_INVALID', 'is JSON, but not in its canonical form', { field: 'json' })
  }
  return value
}

export function jsonBytes(value: unknown): Uint8Array {
  return utf8(canonicalJson(value))
}
