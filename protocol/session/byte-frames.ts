import { fromUtf8, Reader, utf8, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'

/** Bytes of a stream's id. */
export const BYTE_STREAM_ID_BYTES = 16
/** What the writer says of a stream, in UTF-8. */
export const BYTE_STREAM_LABEL_BYTES_MAX = 1_024
/** What a writer puts into one DATA frame: with its head it fills one record. */
export const BYTE_STREAM_CHUNK_BYTES = 65_496
const SHA256_BYTES = 32
const LENGTH_UNKNOWN = 0xffff_ffff_ffff_ffffn
const LENGTH_MAX = BigInt(Number.MAX_SAFE_INTEGER)

/** Why a stream ends before its end; u16. */
export const BYTE_STREAM_CODES = { cancelled: 0, refused: 1, corrupt: 2, gap: 3, failed: 4, abandoned: 5 } as const
export type ByteStreamCode = keyof typeof BYTE_STREAM_CODES

/** One item of a byte stream on its channel (protocol/README.md §6, Byte streams). OPEN, DATA, FIN and RESET are the writer's, the rest the reader's. */
export type ByteFrame = { id: Uint8Array } & (
  | { type: 'open'; length: bigint | undefined; label: string }
  | { type: 'data'; offset: bigint; bytes: Uint8Array }
  | { type: 'fin'; total: bigint; sha256: Uint8Array }
  | { type: 'reset'; code: number }
  /** the reader has so much of it and waits for the rest */
  | { type: 'accept'; offset: bigint }
  /** length and SHA-256 agreed */
  | { type: 'done' }
  | { type: 'stop'; code: number }
)

const TYPES = { open: 0x01, data: 0x02, fin: 0x03, reset: 0x04, accept: 0x11, done: 0x12, stop: 0x13 } as const
const NAMES = new Map<number, ByteFrame['type']>(Object.entries(TYPES).map(([name, type]) => [type, name as ByteFrame['type']]))

export function byteStreamCodeName(code: number): string {
  return Object.entries(BYTE_STREAM_CODES).find(([, value]) => value === code)?.[0] ?? `code-${code}`
}

/** type u8 ‖ id 16 ‖ what the type has. */
export function encodeByteFrame(frame: ByteFrame): Uint8Array {
  const writer = new Writer(frame.type === 'data' ? 25 + frame.bytes.length : 64).u8(TYPES[frame.type]).bytes(frame.id)
  switch (frame.type) {
    case 'open': {
      const label = utf8(frame.label)
      return writer
        .u64(frame.length ?? LENGTH_UNKNOWN)
        .u16(label.length)
        .bytes(label)
        .finish()
    }
    case 'data':
      return writer.u64(frame.offset).bytes(frame.bytes).finish()
    case 'fin':
      return writer.u64(frame.total).bytes(frame.sha256).finish()
    case 'accept':
      return writer.u64(frame.offset).finish()
    case 'reset':
    case 'stop':
      return writer.u16(frame.code).finish()
    case 'done':
      return writer.finish()
  }
}

/**
 * @returns byte fields are views of `payload`
 * @throws ProtocolError `TRUNCATED`, `TRAILING_BYTES`, `FIELD_INVALID` (type), `LENGTH` (a DATA frame without bytes), `RANGE` (a place beyond
 *   2^53 − 1), `TOO_LARGE` (label), `UTF8_INVALID`
 */
export function decodeByteFrame(payload: Uint8Array): ByteFrame {
  const reader = new Reader(payload)
  const number = reader.u8('type')
  const type = NAMES.get(number)
  if (type === undefined) throw new ProtocolError('FIELD_INVALID', `byte-stream frame ${number} has no meaning`, { field: 'type' })
  const id = reader.bytes(BYTE_STREAM_ID_BYTES, 'id')
  const frame = readBody(reader, type, id)
  reader.end('byte-stream frame')
  return frame
}

function readBody(reader: Reader, type: ByteFrame['type'], id: Uint8Array): ByteFrame {
  switch (type) {
    case 'open': {
      const length = reader.u64('length')
      if (length !== LENGTH_UNKNOWN) checkPlace(length, 'length')
      const labelBytes = reader.u16('label length')
      if (labelBytes > BYTE_STREAM_LABEL_BYTES_MAX) {
        throw new ProtocolError('TOO_LARGE', `a label of ${labelBytes} bytes`, { field: 'label' })
      }
      const label = fromUtf8(reader.bytes(labelBytes, 'label'))
      return { type, id, length: length === LENGTH_UNKNOWN ? undefined : length, label }
    }
    case 'data': {
      const offset = reader.u64('offset')
      const bytes = reader.rest()
      if (bytes.length === 0) throw new ProtocolError('LENGTH', 'a DATA frame without bytes', { field: 'bytes' })
      checkPlace(offset + BigInt(bytes.length), 'offset')
      return { type, id, offset, bytes }
    }
    case 'fin':
      return { type, id, total: checkPlace(reader.u64('total'), 'total'), sha256: reader.bytes(SHA256_BYTES, 'sha256') }
    case 'accept':
      return { type, id, offset: checkPlace(reader.u64('offset'), 'offset') }
    case 'reset':
    case 'stop':
      return { type, id, code: reader.u16('code') }
    case 'done':
      return { type, id }
  }
}

function checkPlace(place: bigint, field: string): bigint {
  if (place > LENGTH_MAX) throw new ProtocolError('RANGE', `${field} ${place} lies beyond 2^53 − 1`, { field })
  return place
}
