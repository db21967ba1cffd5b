import { encode as dagCborEncode } from '@ipld/dag-cbor'
import { decode as cborgDecode } from 'cborg'
import { equals, utf8 } from './bytes.ts'
import { ProtocolError } from './errors.ts'

/** What our CBOR can say: no floats, no null, no tags. Integers stay within ±(2^53 − 1). */
export type CborValue = number | string | boolean | Uint8Array | CborValue[] | { [key: string]: CborValue }

/** Nesting deeper than this is refused before anything is decoded. */
export const CBOR_DEPTH_MAX = 16

/**
 * Deterministic CBOR (protocol/README.md §0 and §1): definite lengths, shortest integers, keys sorted by length then bytes. A member whose value is
 * undefined is left out.
 */
export function encodeCbor(value: { [key: string]: CborValue | undefined } | CborValue): Uint8Array {
  const bytes = dagCborEncode(withoutUndefined(value as CborValue))
  // On Node the encoder gives a Buffer, whose slice() shares memory where a Uint8Array's copies.
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/**
 * Decodes one whole item and refuses whatever `encodeCbor` would not have written.
 * The caller bounds `bytes.length` first.
 * @throws ProtocolError `CBOR_INVALID`, `CBOR_NOT_CANONICAL`
 */
export function decodeCbor(bytes: Uint8Array): CborValue {
  checkDepth(bytes)
  let value: CborValue
  try {
    value = cborgDecode(bytes, {
      strict: true,
      allowIndefinite: false,
      allowUndefined: false,
      allowInfinity: false,
      allowNaN: false,
      allowBigInt: false,
      rejectDuplicateMapKeys: true,
      useMaps: false
    })
  } catch (cause) {
    throw new ProtocolError('CBOR_INVALID', `not deterministic CBOR: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
  let again: Uint8Array
  try {
    checkValue(value)
    again = dagCborEncode(value)
  } catch (cause) {
    if (cause instanceof ProtocolError) throw cause
    throw new ProtocolError('CBOR_INVALID', 'holds a value that has no deterministic form', { cause })
  }
  if (!equals(again, bytes)) throw new ProtocolError('CBOR_NOT_CANONICAL', 'CBOR is valid but not in its deterministic form')
  return value
}

const FALSE = 20
const TRUE = 21

/** Walks the heads only: hostile nesting must not reach a recursive decoder. */
function checkDepth(bytes: Uint8Array): void {
  const left: number[] = [] // items still expected at each open level
  let at = 0
  while (at < bytes.length) {
    const head = bytes[at] as number
    const major = head >> 5
    const info = head & 31
    at += 1
    let argument = info
    if (info >= 24) {
      if (info > 27) throw new ProtocolError('CBOR_INVALID', `byte ${at - 1} starts an indefinite or reserved item`)
      const size = 1 << (info - 24)
      if (at + size > bytes.length) throw new ProtocolError('CBOR_INVALID', 'ends inside an item')
      argument = 0
      for (let i = 0; i < size; i++) argument = argument * 256 + (bytes[at + i] as number)
      at += size
    }
    if (major === 2 || major === 3) at += argument
    else if ((major === 4 || major === 5) && argument > 0) {
      left.push(major === 4 ? argument : argument * 2)
      if (left.length > CBOR_DEPTH_MAX) throw new ProtocolError('CBOR_INVALID', `nests deeper than ${CBOR_DEPTH_MAX}`)
      continue
    } else if (major === 6) throw new ProtocolError('CBOR_INVALID', 'tags are not allowed')
    else if (major === 7 && info !== FALSE && info !== TRUE) {
      throw new ProtocolError('CBOR_INVALID', 'floats, null and undefined are not allowed')
    }
    while (left.length > 0) {
      const top = left.length - 1
      left[top] = (left[top] as number) - 1
      if (left[top] !== 0) break
      left.pop()
    }
  }
}

function checkValue(value: unknown): void {
  if (value === null || value === undefined) throw new ProtocolError('CBOR_INVALID', 'null and undefined are not allowed')
  if (typeof value === 'number') {
    if (!Number.isSafeInteger(value)) throw new ProtocolError('CBOR_INVALID', `${value} is not an integer within 2^53 − 1`)
  } else if (typeof value === 'bigint') throw new ProtocolError('CBOR_INVALID', 'integer beyond 2^53 − 1')
  else if (Array.isArray(value)) for (const item of value) checkValue(item)
  else if (typeof value === 'object' && !(value instanceof Uint8Array)) for (const member of Object.values(value)) checkValue(member)
}

function withoutUndefined(value: CborValue): CborValue {
  if (Array.isArray(value)) return value.map(withoutUndefined)
  if (typeof value === 'object' && !(value instanceof Uint8Array)) {
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, member]) => member !== undefined)
        .map(([key, member]) => [key, withoutUndefined(member)])
    )
  }
  return value
}

/**
 * Reads the members of a decoded map by name and type; `end()` refuses members that nobody asked for.
 * Every failure is a ProtocolError (`FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN`) that names the field.
 */
export class CborFields {
  readonly #what: string
  readonly #members: Map<string, CborValue>

  constructor(value: CborValue, what: string) {
    if (typeof value !== 'object' || Array.isArray(value) || value instanceof Uint8Array) {
      throw new ProtocolError('FIELD_INVALID', `${what} is not a map`, { field: what })
    }
    this.#what = what
    this.#members = new Map(Object.entries(value))
  }

  #bad(name: string, expected: string): ProtocolError {
    return new ProtocolError('FIELD_INVALID', `${this.#what}.${name} is not ${expected}`, { field: `${this.#what}.${name}` })
  }

  #take(name: string): CborValue {
    const value = this.#members.get(name)
    if (value === undefined)
      throw new ProtocolError('FIELD_MISSING', `${this.#what}.${name} is missing`, { field: `${this.#what}.${name}` })
    this.#members.delete(name)
    return value
  }

  has(name: string): boolean {
    return this.#members.has(name)
  }

  /** Gives `undefined` when the member is absent, else what `read` makes of it. */
  optional<T>(name: string, read: (name: string) => T): T | undefined {
    return this.has(name) ? read(name) : undefined
  }

  bytes(name: string, bound: { length: number } | { max: number; min?: number }): Uint8Array {
    const value = this.#take(name)
    if (!(value instanceof Uint8Array)) throw this.#bad(name, 'bytes')
    if ('length' in bound ? value.length !== bound.length : value.length > bound.max || value.length < (bound.min ?? 0)) {
      throw this.#bad(name, 'length' in bound ? `${bound.length} bytes` : `${bound.min ?? 0} to ${bound.max} bytes`)
    }
    return value
  }

  uint(name: string, bound: { min?: number; max: number } = { max: Number.MAX_SAFE_INTEGER }): number {
    const value = this.#take(name)
    if (typeof value !== 'number' || value < (bound.min ?? 0) || value > bound.max) {
      throw this.#bad(name, `an integer from ${bound.min ?? 0} to ${bound.max}`)
    }
    return value
  }

  /** `bytesMax` counts UTF-8 bytes. */
  text(name: string, bound: { bytesMax: number; pattern?: RegExp }): string {
    const value = this.#take(name)
    if (typeof value !== 'string' || utf8(value).length > bound.bytesMax) throw this.#bad(name, `text of at most ${bound.bytesMax} bytes`)
    if (bound.pattern !== undefined && !bound.pattern.test(value)) throw this.#bad(name, `of the form ${bound.pattern}`)
    return value
  }

  oneOf<const T extends string>(name: string, allowed: readonly T[]): T {
    const value = this.#take(name)
    const found = allowed.find((one) => one === value)
    if (found === undefined) throw this.#bad(name, `one of ${allowed.join(', ')}`)
    return found
  }

  flag(name: string): boolean {
    const value = this.#take(name)
    if (typeof value !== 'boolean') throw this.#bad(name, 'true or false')
    return value
  }

  list<T>(name: string, bound: { max: number; min?: number }, read: (item: CborValue, index: number) => T): T[] {
    const value = this.#take(name)
    if (!Array.isArray(value) || value.length > bound.max || value.length < (bound.min ?? 0)) {
      throw this.#bad(name, `a list of ${bound.min ?? 0} to ${bound.max} items`)
    }
    return value.map(read)
  }

  map(name: string): CborFields {
    return new CborFields(this.#take(name), `${this.#what}.${name}`)
  }

  end(): void {
    for (const name of this.#members.keys()) {
      throw new ProtocolError('FIELD_UNKNOWN', `${this.#what} has an unknown member "${name.slice(0, 64)}"`, {
        field: `${this.#what}.${name.slice(0, 64)}`
      })
    }
  }
}
