import { isZero, Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type CookiePair, NO_COOKIE } from './cookie.ts'
import { FLAG, hasFlag } from './flags.ts'
import { encodeHeader, FRAME, HEADER_BYTES, NEG_BODY_BYTES, parseFrame, RETRY_BODY_BYTES } from './header.ts'
import { EPH_BYTES, RETRY_COOKIE_BYTES } from './init.ts'
import { decodeSfc, encodeSfc, SFC_BYTES, type SfcBlock } from './sfc.ts'

/** AEAD of an EID and a signature: 32 + 64 + 16 bytes. */
export const SEALED_PROOF_BYTES = 112
export const NEG_CLEAR_BYTES = HEADER_BYTES + EPH_BYTES + SFC_BYTES
export const RETRY_WAIT_SECONDS_MAX = 30

/** The part of PSS_NEG that travels in clear, 88 bytes. */
export interface PssNegClear {
  /** u16, a subset of INIT's */
  readonly flags: number
  readonly cookies: CookiePair
  /** X25519 public key, 32 bytes */
  readonly ephR: Uint8Array
  /** present exactly when `flags` has SFC */
  readonly sfc?: SfcBlock
}

/** PSS_NEG (0x0A): 200 bytes in all (protocol/README.md §6, Handshake). NEG stands for negotiation. */
export interface PssNeg extends PssNegClear {
  readonly kind: 'neg'
  /** AEAD(Kneg, EID_R ‖ sigR), 112 bytes */
  readonly sealed: Uint8Array
}

/** PSS_NEG with RETRY: 42 bytes in all. */
export interface PssRetry {
  readonly kind: 'retry'
  readonly iCookie: CookiePair['i']
  /** 16 bytes */
  readonly retryCookie: Uint8Array
  /** 0 to 30 */
  readonly waitSeconds: number
}

/** 32 bytes: the block, or zeros where there is none. */
export function encodeOptionalSfc(sfc: SfcBlock | undefined): Uint8Array {
  return sfc === undefined ? new Uint8Array(SFC_BYTES) : encodeSfc(sfc)
}

/**
 * @throws ProtocolError those of `decodeSfc`; `FRAME_ZEROS` where a block is present though `flags` lacks SFC
 */
export function readOptionalSfc(reader: Reader, flags: number): SfcBlock | undefined {
  const bytes = reader.bytes(SFC_BYTES, 'sfc')
  if (hasFlag(flags, FLAG.SFC)) return decodeSfc(bytes)
  if (!isZero(bytes)) throw new ProtocolError('FRAME_ZEROS', 'an SFC block without the SFC flag', { field: 'sfc' })
  return undefined
}

/** 88 bytes. */
export function encodeNegClear(neg: PssNegClear): Uint8Array {
  const header = encodeHeader({
    type: FRAME.NEG,
    flags: neg.flags,
    bodyBytes: NEG_BODY_BYTES,
    iCookie: neg.cookies.i,
    rCookie: neg.cookies.r
  })
  return new Writer(NEG_CLEAR_BYTES).bytes(header).bytes(neg.ephR).bytes(encodeOptionalSfc(neg.sfc)).finish()
}

export function encodeNeg(neg: PssNegClear & { readonly sealed: Uint8Array }): Uint8Array {
  return new Writer(NEG_CLEAR_BYTES + SEALED_PROOF_BYTES).bytes(encodeNegClear(neg)).bytes(neg.sealed).finish()
}

export function encodeRetry(retry: Omit<PssRetry, 'kind'>): Uint8Array {
  const header = encodeHeader({
    type: FRAME.NEG,
    flags: FLAG.RETRY,
    bodyBytes: RETRY_BODY_BYTES,
    iCookie: retry.iCookie,
    rCookie: NO_COOKIE
  })
  return new Writer(HEADER_BYTES + RETRY_BODY_BYTES).bytes(header).bytes(retry.retryCookie).u16(retry.waitSeconds).finish()
}

/**
 * Either form of PSS_NEG.
 * @param frame - one whole frame
 * @returns the message; its byte fields are views into `frame`, so copy what you keep
 * @throws ProtocolError those of `parseFrame` and `decodeSfc`; `FRAME_TYPE`, `FRAME_ZEROS`, `FIELD_INVALID` (retry cookie), `RANGE` (wait)
 */
export function decodeNeg(frame: Uint8Array): PssNeg | PssRetry {
  const { header, body } = parseFrame(frame)
  if (header.type !== FRAME.NEG) throw new ProtocolError('FRAME_TYPE', 'the frame is no PSS_NEG', { field: 'type' })
  const reader = new Reader(body)
  if (hasFlag(header.flags, FLAG.RETRY)) {
    const retryCookie = reader.bytes(RETRY_COOKIE_BYTES, 'retryCookie')
    const waitSeconds = reader.u16('waitSeconds')
    if (isZero(retryCookie)) throw new ProtocolError('FIELD_INVALID', 'the retry cookie is zero', { field: 'retryCookie' })
    if (waitSeconds > RETRY_WAIT_SECONDS_MAX) {
      throw new ProtocolError('RANGE', `RETRY asks to wait ${waitSeconds} s, more than ${RETRY_WAIT_SECONDS_MAX}`, { field: 'waitSeconds' })
    }
    return { kind: 'retry', iCookie: header.iCookie, retryCookie, waitSeconds }
  }
  const ephR = reader.bytes(EPH_BYTES, 'ephR')
  const sfc = readOptionalSfc(reader, header.flags)
  const neg: PssNeg = {
    kind: 'neg',
    flags: header.flags,
    cookies: { i: header.iCookie, r: header.rCookie },
    ephR,
    sealed: reader.bytes(SEALED_PROOF_BYTES, 'sealed')
  }
  return sfc === undefined ? neg : { ...neg, sfc }
}
