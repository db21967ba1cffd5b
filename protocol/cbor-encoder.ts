import type { CborValue } from './cbor.ts'
import { ProtocolError } from './errors.ts'

const FIRST_BYTES = 1_024
/** A larger buffer than this is let go after the item that needed it. */
const KEPT_BYTES_MAX = 65_536
const TWO_TO_32 = 4_294_967_296
const ASCII_ONLY = /^[ -~]*$/
const UINT = 0
const NEGATIVE = 1
const BYTES = 2
const TEXT = 3
const LIST = 4
const MAP = 5
const FALSE = 0xf4
const TRUE = 0xf5

const encoder = new TextEncoder()

/** Grows as an item is written; one item at a time, since nothing here waits. */
let buffer = new Uint8Array(FIRST_BYTES)
let at = 0

/**
 * Deterministic CBOR (protocol/README.md §0): definite lengths, shortest integers, keys sorted by the length of their bytes, then bytewise. A member whose
 * value is undefined is left out. Lone surrogates of a text become U+FFFD.
 * @throws ProtocolError `CBOR_INVALID` for what has no form: fractions, integers beyond 2^53 − 1, null
 */
export function encodeCbor(value: { [key: string]: CborValue | undefined } | CborValue): Uint8Array {
  at = 0
  write(value as CborValue)
  const bytes = buffer.slice(0, at)
  if (buffer.length > KEPT_BYTES_MAX) buffer = new Uint8Array(FIRST_BYTES)
  return bytes
}

function write(value: CborValue): void {
  if (typeof value === 'string') writeText(value)
  else if (typeof value === 'number') writeInteger(value)
  else if (typeof value === 'boolean') writeByte(value ? TRUE : FALSE)
  else if (value instanceof Uint8Array) writeBytes(value)
  else if (Array.isArray(value)) {
    writeHead(LIST, value.length)
    for (const item of value) write(item)
  } else if (typeof value === 'object' && value !== null) writeMap(value)
  else throw new ProtocolError('CBOR_INVALID', `${typeof value} has no deterministic form`)
}

function writeMap(map: { [key: string]: CborValue }): void {
  const keys = Object.keys(map).filter((key) => map[key] !== undefined)
  if (keys.length > 1) keys.sort(keys.every((key) => ASCII_ONLY.test(key)) ? byLength : byUtf8)
  writeHead(MAP, keys.length)
  for (const key of keys) {
    writeText(key)
    write(map[key] as CborValue)
  }
}

/** Of ASCII: one code unit is one byte. */
function byLength(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1)
}

function byUtf8(a: string, b: string): number {
  const [left, right] = [encoder.encode(a), encoder.encode(b)]
  if (left.length !== right.length) return left.length - right.length
  const differs = left.findIndex((byte, i) => byte !== right[i])
  return differs === -1 ? 0 : (left[differs] as number) - (right[differs] as number)
}

function writeInteger(value: number): void {
  if (!Number.isSafeInteger(value)) throw new ProtocolError('CBOR_INVALID', `${value} is not an integer within 2^53 − 1`)
  if (value >= 0) writeHead(UINT, value)
  else writeHead(NEGATIVE, -1 - value)
}

function writeBytes(bytes: Uint8Array): void {
  writeHead(BYTES, bytes.length)
  reserve(bytes.length)
  buffer.set(bytes, at)
  at += bytes.length
}

function writeText(text: string): void {
  if (text.length < 24 && ASCII_ONLY.test(text)) {
    reserve(text.length + 1)
    buffer[at++] = (TEXT << 5) | text.length
    for (let i = 0; i < text.length; i++) buffer[at++] = text.charCodeAt(i)
    return
  }
  const bytes = encoder.encode(text)
  writeHead(TEXT, bytes.length)
  reserve(bytes.length)
  buffer.set(bytes, at)
  at += bytes.length
}

function writeByte(byte: number): void {
  reserve(1)
  buffer[at++] = byte
}

function writeHead(major: number, argument: number): void {
  reserve(9)
  const head = major << 5
  if (argument < 24) {
    buffer[at++] = head | argument
  } else if (argument < 0x100) {
    buffer[at++] = head | 24
    buffer[at++] = argument
  } else if (argument < 0x1_0000) {
    buffer[at++] = head | 25
    buffer[at++] = argument >> 8
    buffer[at++] = argument & 0xff
  } else if (argument < TWO_TO_32) {
    buffer[at++] = head | 26
    writeUint32(argument)
  } else {
    buffer[at++] = head | 27
    writeUint32(Math.floor(argument / TWO_TO_32))
    writeUint32(argument % TWO_TO_32)
  }
}

function writeUint32(value: number): void {
  buffer[at++] = value >>> 24
  buffer[at++] = (value >>> 16) & 0xff
  buffer[at++] = (value >>> 8) & 0xff
  buffer[at++] = value & 0xff
}

function reserve(more: number): void {
  if (at + more <= buffer.length) return
  const grown = new Uint8Array(Math.max(buffer.length * 2, at + more))
  grown.set(buffer.subarray(0, at))
  buffer = grown
}
