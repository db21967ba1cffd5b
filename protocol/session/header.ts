import { isZero, Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { COOKIE_BYTES, type Cookie, cookie } from './cookie.ts'
import { checkFlags, FLAG, hasFlag } from './flags.ts'

export const FRAME_VERSION = 1
export const HEADER_BYTES = 24

/** Frame types. Their order comes from the state table, never from the numbers. */
export const FRAME = {
  INIT: 0x08,
  ACK: 0x09,
  NEG: 0x0a,
  DATA_STREAM: 0x0b,
  TEARDOWN: 0x0c,
  REVOCATION_PUBLISH: 0x0d,
  /** a hint before ESTABLISHED, never after */
  CLOSE: 0xf1
} as const
export type FrameType = (typeof FRAME)[keyof typeof FRAME]

export const INIT_BODY_BYTES = 232
export const NEG_BODY_BYTES = 176
export const RETRY_BODY_BYTES = 18
export const ACK_BODY_BYTES = 260
export const CLOSE_BODY_BYTES = 2
/** rec 8, seq 8, ack 8, hash 32, tag 16 */
export const STREAM_BODY_BYTES_MIN = 72
export const STREAM_BODY_BYTES_MAX = (1 << 20) + 4_096

/** The first 24 bytes of every frame (protocol/README.md §6, Header). */
export interface Header {
  readonly type: FrameType
  /** u16, bits as in {@link FLAG} */
  readonly flags: number
  /** bytes that follow the header */
  readonly bodyBytes: number
  readonly iCookie: Cookie
  /** zero in INIT and RETRY */
  readonly rCookie: Cookie
}

/** Flags that a frame of the type must not set, beside bits 6, 7 and 15. */
function forbiddenFlags(type: FrameType, flags: number): number {
  switch (type) {
    case FRAME.INIT:
    case FRAME.ACK:
      return FLAG.RETRY | FLAG.FIN_ACK
    case FRAME.NEG:
      return hasFlag(flags, FLAG.RETRY) ? FLAG.SFC | FLAG.RESUME | FLAG.EXCLUSIVE | FLAG.GROUP | FLAG.FIN_ACK : FLAG.FIN_ACK
    default:
      return 0
  }
}

function bodyBounds(type: FrameType, flags: number): { min: number; max: number } {
  const exactly = (bytes: number) => ({ min: bytes, max: bytes })
  switch (type) {
    case FRAME.INIT:
      return exactly(INIT_BODY_BYTES)
    case FRAME.NEG:
      return exactly(hasFlag(flags, FLAG.RETRY) ? RETRY_BODY_BYTES : NEG_BODY_BYTES)
    case FRAME.ACK:
      return exactly(ACK_BODY_BYTES)
    case FRAME.CLOSE:
      return exactly(CLOSE_BODY_BYTES)
    default:
      return { min: STREAM_BODY_BYTES_MIN, max: STREAM_BODY_BYTES_MAX }
  }
}

const TYPES: ReadonlySet<number> = new Set(Object.values(FRAME))

/**
 * Checks a header before its body is read: version, type, flags, body length, then the zero R-cookie of INIT and RETRY.
 * @param bytes - exactly 24 bytes
 * @returns the header; its cookies are views into `bytes`, so copy what you keep
 * @throws ProtocolError `LENGTH`, `FRAME_VERSION`, `FRAME_TYPE`, `FRAME_FLAGS`, `FRAME_LENGTH`, `FRAME_ZEROS`; then nothing more is read
 */
export function headerOf(bytes: Uint8Array): Header {
  if (bytes.length !== HEADER_BYTES) throw new ProtocolError('LENGTH', `a header is ${HEADER_BYTES} bytes, not ${bytes.length}`)
  const reader = new Reader(bytes)
  const version = reader.u8('version')
  if (version !== FRAME_VERSION) {
    throw new ProtocolError('FRAME_VERSION', `frame version is ${version}, not ${FRAME_VERSION}`, { field: 'version' })
  }
  const typeByte = reader.u8('type')
  if (!TYPES.has(typeByte)) throw new ProtocolError('FRAME_TYPE', `0x${typeByte.toString(16)} is no frame type`, { field: 'type' })
  const type = typeByte as FrameType
  const flags = reader.u16('flags')
  checkFlags(flags, forbiddenFlags(type, flags), frameName(type))
  const bodyBytes = reader.u32('length')
  const { min, max } = bodyBounds(type, flags)
  if (bodyBytes < min || bodyBytes > max) {
    const expected = min === max ? `${min}` : `${min} to ${max}`
    throw new ProtocolError('FRAME_LENGTH', `${frameName(type)} announces a body of ${bodyBytes} bytes, not ${expected}`, {
      field: 'length'
    })
  }
  const iCookie = cookie(reader.bytes(COOKIE_BYTES, 'iCookie'))
  const rCookie = cookie(reader.bytes(COOKIE_BYTES, 'rCookie'))
  if ((type === FRAME.INIT || (type === FRAME.NEG && hasFlag(flags, FLAG.RETRY))) && !isZero(rCookie)) {
    throw new ProtocolError('FRAME_ZEROS', 'the R-cookie of an INIT or a RETRY is not zero', { field: 'rCookie' })
  }
  return { type, flags, bodyBytes, iCookie, rCookie }
}

/** 24 bytes. What {@link headerOf} would refuse is our own mistake and not checked here. */
export function encodeHeader(header: Header): Uint8Array {
  return new Writer(HEADER_BYTES)
    .u8(FRAME_VERSION)
    .u8(header.type)
    .u16(header.flags)
    .u32(header.bodyBytes)
    .bytes(header.iCookie)
    .bytes(header.rCookie)
    .finish()
}

/**
 * Splits one whole frame into its checked header and its body.
 * @returns views into `bytes`
 * @throws ProtocolError those of {@link headerOf}; `TRUNCATED`, `TRAILING_BYTES` where the body has another length than announced
 */
export function parseFrame(bytes: Uint8Array): { header: Header; body: Uint8Array } {
  const reader = new Reader(bytes)
  const header = headerOf(reader.bytes(HEADER_BYTES, 'header'))
  const body = reader.bytes(header.bodyBytes, 'body')
  reader.end(frameName(header.type))
  return { header, body }
}

/** The draft's name of a type, for messages. */
export function frameName(type: FrameType): string {
  switch (type) {
    case FRAME.INIT:
      return 'PSS_INIT'
    case FRAME.NEG:
      return 'PSS_NEG'
    case FRAME.ACK:
      return 'PSS_ACK'
    case FRAME.DATA_STREAM:
      return 'PSS_DATA_STREAM'
    case FRAME.TEARDOWN:
      return 'PSS_TEARDOWN'
    case FRAME.REVOCATION_PUBLISH:
      return 'PSS_REVOCATION_PUBLISH'
    case FRAME.CLOSE:
      return 'PSS_CLOSE'
  }
}
