import { Reader, Writer } from '../bytes.ts'
import { ProtocolError, type ProtocolErrorCode } from '../errors.ts'
import { type CookiePair, NO_COOKIE } from './cookie.ts'
import { CLOSE_BODY_BYTES, encodeHeader, FRAME, HEADER_BYTES, parseFrame } from './header.ts'

/** u16 codes of CLOSE. A hint for people: nobody acts on one but by closing. */
export const CLOSE = {
  /** the bytes are no frame that this side takes: version, type, length, flags, zeros, contract block */
  MALFORMED: 1,
  /** a frame that the state does not expect */
  OUT_OF_ORDER: 2,
  /** more than 10 s */
  LATE: 3,
  /** no capacity, or more INITs than a connection may send */
  BUSY: 4,
  /** no such agent here, or another than the one asked for */
  TARGET: 5,
  /** cookie wrong, outlived or spent */
  COOKIE: 6,
  /** key exchange, seal or signature: one code, as the difference helps attackers only */
  PROOF: 7,
  /** the contract offered, or its absence, is not acceptable */
  CONTRACT: 8
} as const
export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE]

/** What the other side is told of an error of ours. */
export function closeCodeOf(code: ProtocolErrorCode): CloseCode {
  switch (code) {
    case 'OUT_OF_ORDER':
      return CLOSE.OUT_OF_ORDER
    case 'TIMEOUT':
      return CLOSE.LATE
    case 'BUSY':
      return CLOSE.BUSY
    case 'TARGET_MISMATCH':
    case 'EID_MISMATCH':
      return CLOSE.TARGET
    case 'COOKIE_MISMATCH':
    case 'COOKIE_SPENT':
      return CLOSE.COOKIE
    case 'KEY_EXCHANGE':
    case 'AEAD_OPEN':
    case 'SIGNATURE_INVALID':
      return CLOSE.PROOF
    case 'CONTRACT_REFUSED':
      return CLOSE.CONTRACT
    default:
      return CLOSE.MALFORMED
  }
}

/** CLOSE (0xF1): 26 bytes. The cookies are those of the frame it answers, zero where none could be read. */
export function encodeClose(code: CloseCode, cookies?: CookiePair): Uint8Array {
  const header = encodeHeader({
    type: FRAME.CLOSE,
    flags: 0,
    bodyBytes: CLOSE_BODY_BYTES,
    iCookie: cookies?.i ?? NO_COOKIE,
    rCookie: cookies?.r ?? NO_COOKIE
  })
  return new Writer(HEADER_BYTES + CLOSE_BODY_BYTES).bytes(header).u16(code).finish()
}

/**
 * @param frame - one whole frame
 * @returns the code, known to us or not
 * @throws ProtocolError those of `parseFrame`; `FRAME_TYPE`
 */
export function decodeClose(frame: Uint8Array): { code: number; cookies: CookiePair } {
  const { header, body } = parseFrame(frame)
  if (header.type !== FRAME.CLOSE) throw new ProtocolError('FRAME_TYPE', 'the frame is no PSS_CLOSE', { field: 'type' })
  return { code: new Reader(body).u16('code'), cookies: { i: header.iCookie, r: header.rCookie } }
}
