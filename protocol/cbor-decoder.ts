import type { CborValue } from './cbor.ts'
import { ProtocolError } from './errors.ts'

/** Nesting deeper than this is refused. */
export const CBOR_DEPTH_MAX = 16

const TWO_TO_32 = 4_294_967_296
const FALSE = 0xf4
const TRUE = 0xf5

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Decodes one whole item and refuses whatever `encodeCbor` would not have written. Byte strings are views into `bytes`.
 * The caller bounds `bytes.length` first.
 * @throws ProtocolError `CBOR_INVALID`, `CBOR_NOT_CANONICAL`
 */
export function decodeCbor(bytes: Uint8Array): CborValue {
  const cursor = new Cursor(bytes)
  const value = cursor.item(0)
  if (cursor.at !== bytes.length) throw invalid(`holds ${bytes.length - cursor.at} bytes after its item`)
  return value
}

class Cursor {
  at = 0
  readonly #bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** The recursion is as deep as the nesting, which is bounded; no room is made for a length before its bytes are there. */
  item(depth: number): CborValue {
    const first = this.#byte()
    switch (first >> 5) {
      case 0:
        return this.#argument(first)
      case 1:
        return this.#negative(first)
      case 2:
        // a copy: who gave the bytes may wipe or reuse them, and a short string must not keep a long frame
        return this.#take(this.#argument(first)).slice()
      case 3:
        return this.#text(this.#argument(first))
      case 4:
        return this.#list(this.#argument(first), depth)
      case 5:
        return this.#map(this.#argument(first), depth)
      case 6:
        throw invalid('tags are not allowed')
      default:
        if (first === FALSE) return false
        if (first === TRUE) return true
        throw invalid('floats, null and undefined are not allowed')
    }
  }

  #list(count: number, depth: number): CborValue[] {
    if (count > 0) checkDepth(depth)
    const items: CborValue[] = []
    for (let i = 0; i < count; i++) items.push(this.item(depth + 1))
    return items
  }

  #map(count: number, depth: number): { [key: string]: CborValue } {
    if (count > 0) checkDepth(depth)
    const map: { [key: string]: CborValue } = {}
    let before: Uint8Array | undefined
    for (let i = 0; i < count; i++) {
      const first = this.#byte()
      if (first >> 5 !== 3) throw invalid('a key is not text')
      const keyBytes = this.#take(this.#argument(first))
      if (before !== undefined) checkOrder(keyBytes, before)
      before = keyBytes
      const key = textOf(keyBytes)
      const value = this.item(depth + 1)
      if (key === '__proto__') Object.defineProperty(map, key, { value, enumerable: true, configurable: true, writable: true })
      else map[key] = value
    }
    return map
  }

  #negative(first: number): number {
    const value = -1 - this.#argument(first)
    if (!Number.isSafeInteger(value)) throw invalid('integer beyond 2^53 − 1')
    return value
  }

  #text(length: number): string {
    return textOf(this.#take(length))
  }

  #byte(): number {
    const byte = this.#bytes[this.at]
    if (byte === undefined) throw invalid('ends inside an item')
    this.at++
    return byte
  }

  #take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.at) throw invalid('ends inside an item')
    const taken = new Uint8Array(this.#bytes.buffer, this.#bytes.byteOffset + this.at, length)
    this.at += length
    return taken
  }

  /** What the head says, in the fewest bytes. */
  #argument(first: number): number {
    const info = first & 31
    if (info < 24) return info
    switch (info) {
      case 24:
        return atLeast(24, this.#byte())
      case 25:
        return atLeast(0x100, this.#byte() * 0x100 + this.#byte())
      case 26:
        return atLeast(0x1_0000, this.#uint32())
      case 27: {
        const value = atLeast(TWO_TO_32, this.#uint32() * TWO_TO_32 + this.#uint32())
        if (!Number.isSafeInteger(value)) throw invalid('integer or length beyond 2^53 − 1')
        return value
      }
      default:
        throw invalid(`byte ${this.at - 1} starts an indefinite or reserved item`)
    }
  }

  #uint32(): number {
    return this.#byte() * 0x100_0000 + this.#byte() * 0x1_0000 + this.#byte() * 0x100 + this.#byte()
  }
}

function checkDepth(depth: number): void {
  if (depth >= CBOR_DEPTH_MAX) throw invalid(`nests deeper than ${CBOR_DEPTH_MAX}`)
}

function atLeast(least: number, value: number): number {
  if (value < least) throw invalid('a number or length takes more bytes than it needs')
  return value
}

/** By length, then bytewise. */
function checkOrder(key: Uint8Array, before: Uint8Array): void {
  let order = key.length - before.length
  for (let i = 0; order === 0 && i < key.length; i++) order = (key[i] as number) - (before[i] as number)
  if (order === 0) throw invalid('a key is there twice')
  if (order < 0) throw notCanonical('keys are out of order')
}

/** Short ASCII, which most texts are, needs no decoder. */
function textOf(bytes: Uint8Array): string {
  if (bytes.length <= 16) {
    let text = ''
    for (const byte of bytes) {
      if (byte >= 0x80) return decodedUtf8(bytes)
      text += String.fromCharCode(byte)
    }
    return text
  }
  return decodedUtf8(bytes)
}

function decodedUtf8(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes)
  } catch (cause) {
    throw new ProtocolError('CBOR_NOT_CANONICAL', 'a text is not valid UTF-8', { cause })
  }
}

function invalid(why: string): ProtocolError {
  return new ProtocolError('CBOR_INVALID', `not deterministic CBOR: ${why}`)
}

function notCanonical(why: string): ProtocolError {
  return new ProtocolError('CBOR_NOT_CANONICAL', `CBOR is valid but not in its deterministic form: ${why}`)
}
