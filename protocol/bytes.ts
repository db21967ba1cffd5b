import { alloc } from 'uint8arrays/alloc'
import { compare } from 'uint8arrays/compare'
import { concat } from 'uint8arrays/concat'
import { equals } from 'uint8arrays/equals'
import { fromString } from 'uint8arrays/from-string'
import { ProtocolError } from './errors.ts'

export { alloc as zeros, compare, concat, equals }

/** Lower-case hex of `bytes`. Use it for map keys: two equal Uint8Arrays are two different keys. */
export function toHex(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += HEX_OF_BYTE[byte]
  return text
}

const HEX_OF_BYTE = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** @throws ProtocolError `FIELD_INVALID` unless `text` is lower-case hex of whole bytes */
export function fromHex(text: string): Uint8Array {
  if (text.length % 2 !== 0 || !/^[0-9a-f]*$/.test(text)) {
    throw new ProtocolError('FIELD_INVALID', `"${text.slice(0, 80)}" is not lower-case hex`)
  }
  return fromString(text, 'base16')
}

export function utf8(text: string): Uint8Array {
  return fromString(text, 'utf8')
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @throws ProtocolError `UTF8_INVALID`; nothing is replaced silently */
export function fromUtf8(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes)
  } catch (cause) {
    throw new ProtocolError('UTF8_INVALID', 'bytes are not valid UTF-8', { cause })
  }
}

/** True when every byte is zero. */
export function isZero(bytes: Uint8Array): boolean {
  let seen = 0
  for (const byte of bytes) seen |= byte
  return seen === 0
}

/** Compares in time that depends on the lengths only. */
export function equalsConstantTime(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= (a[i] as number) ^ (b[i] as number)
  return difference === 0
}

/** Overwrites secrets. */
export function wipe(...secrets: Uint8Array[]): void {
  for (const secret of secrets) secret.fill(0)
}

/**
 * A cursor over bytes from outside. Integers are big-endian. Each read compares the length with what remains before it slices;
 * byte fields are views into the input, so copy what you keep.
 */
export class Reader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get remaining(): number {
    return this.#bytes.length - this.#at
  }

  get position(): number {
    return this.#at
  }

  #take(length: number, what: string): number {
    if (!Number.isSafeInteger(length) || length < 0 || length > this.remaining) {
      throw new ProtocolError('TRUNCATED', `${what} needs ${length} bytes, ${this.remaining} are left`, { field: what })
    }
    const at = this.#at
    this.#at += length
    return at
  }

  u8(what: string): number {
    return this.#view.getUint8(this.#take(1, what))
  }

  u16(what: string): number {
    return this.#view.getUint16(this.#take(2, what))
  }

  u32(what: string): number {
    return this.#view.getUint32(this.#take(4, what))
  }

  /** All 64 bits: counters pass 2^53 − 1 without rounding. */
  u64(what: string): bigint {
    return this.#view.getBigUint64(this.#take(8, what))
  }

  bytes(length: number, what: string): Uint8Array {
    const at = this.#take(length, what)
    return this.#bytes.subarray(at, at + length)
  }

  /** The rest, perhaps empty. */
  rest(): Uint8Array {
    return this.bytes(this.remaining, 'rest')
  }

  /** @throws ProtocolError `TRAILING_BYTES` */
  end(what: string): void {
    if (this.remaining !== 0) throw new ProtocolError('TRAILING_BYTES', `${what} has ${this.remaining} bytes too many`, { field: what })
  }
}

/** Builds a frame. Integers are big-endian; a number that does not fit its width is our own mistake (`RangeError`). */
export class Writer {
  #bytes: Uint8Array
  #view: DataView
  #at = 0

  constructor(sizeHint = 256) {
    this.#bytes = new Uint8Array(sizeHint)
    this.#view = new DataView(this.#bytes.buffer)
  }

  /** May replace `#view`: read that only after this. */
  #room(length: number): number {
    const at = this.#at
    const needed = at + length
    if (needed > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2))
      grown.set(this.#bytes)
      this.#bytes = grown
      this.#view = new DataView(grown.buffer)
    }
    this.#at = needed
    return at
  }

  u8(value: number): this {
    const fits = checked(value, 0xff)
    const at = this.#room(1)
    this.#view.setUint8(at, fits)
    return this
  }

  u16(value: number): this {
    const fits = checked(value, 0xffff)
    const at = this.#room(2)
    this.#view.setUint16(at, fits)
    return this
  }

  u32(value: number): this {
    const fits = checked(value, 0xffffffff)
    const at = this.#room(4)
    this.#view.setUint32(at, fits)
    return this
  }

  u64(value: bigint): this {
    if (value < 0n || value > 0xffffffffffffffffn) throw new RangeError(`${value} is no u64`)
    const at = this.#room(8)
    this.#view.setBigUint64(at, value)
    return this
  }

  bytes(value: Uint8Array): this {
    const at = this.#room(value.length)
    this.#bytes.set(value, at)
    return this
  }

  zeros(length: number): this {
    this.#room(length)
    return this
  }

  get length(): number {
    return this.#at
  }

  /** A view of what was written; the writer is done with. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#at)
  }
}

function checked(value: number, max: number): number {
  if (!Number.isInteger(value) || value < 0 || value > max) throw new RangeError(`${value} is not an integer from 0 to ${max}`)
  return value
}

export function u64Bytes(value: bigint): Uint8Array {
  return new Writer(8).u64(value).finish()
}
