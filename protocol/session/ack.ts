import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import type { CookiePair } from './cookie.ts'
import { checkFlags, FLAG, isSubset } from './flags.ts'
import { ACK_BODY_BYTES, encodeHeader, FRAME, HEADER_BYTES, parseFrame } from './header.ts'
import { initFields, type PssInit, readInitFields } from './init.ts'
import { encodeOptionalSfc, readOptionalSfc, SEALED_PROOF_BYTES } from './neg.ts'
import type { SfcBlock } from './sfc.ts'

export const ACK_BYTES = HEADER_BYTES + ACK_BODY_BYTES
export const ACK_CLEAR_BYTES = ACK_BYTES - SEALED_PROOF_BYTES

/** The part of PSS_ACK that travels in clear, 172 bytes: INIT and NEG said again, so that the responder need not have kept them. */
export interface PssAckClear {
  /** the INIT that this exchange was opened with, the repeated one after a RETRY */
  readonly init: PssInit
  /** u16: NEG's flags, in the header and in the body */
  readonly flags: number
  readonly cookies: CookiePair
  /** present exactly when `flags` has SFC: ratified as it is */
  readonly sfc?: SfcBlock
}

/** PSS_ACK (0x09): 284 bytes in all (protocol/README.md §6, Handshake). */
export interface PssAck extends PssAckClear {
  /** AEAD(Kack, EID_I ‖ sigI), 112 bytes */
  readonly sealed: Uint8Array
}

/** 172 bytes. */
export function encodeAckClear(ack: PssAckClear): Uint8Array {
  const header = encodeHeader({
    type: FRAME.ACK,
    flags: ack.flags,
    bodyBytes: ACK_BODY_BYTES,
    iCookie: ack.cookies.i,
    rCookie: ack.cookies.r
  })
  return new Writer(ACK_CLEAR_BYTES)
    .bytes(header)
    .bytes(initFields(ack.init))
    .u16(ack.init.flags)
    .u16(ack.flags)
    .bytes(encodeOptionalSfc(ack.sfc))
    .finish()
}

/**
 * @param frame - one whole frame
 * @returns the message; its byte fields are views into `frame`, so copy what you keep
 * @throws ProtocolError those of `parseFrame` and `decodeSfc`; `FRAME_TYPE`, `FIELD_INVALID` (resume id), `FRAME_ZEROS`, `FRAME_FLAGS` where the
 * header's flags are not NEG's, or NEG's no subset of INIT's
 */
export function decodeAck(frame: Uint8Array): PssAck {
  const { header, body } = parseFrame(frame)
  if (header.type !== FRAME.ACK) throw new ProtocolError('FRAME_TYPE', 'the frame is no PSS_ACK', { field: 'type' })
  const reader = new Reader(body)
  const fields = reader.bytes(body.length - 4 - 32 - SEALED_PROOF_BYTES, 'fields')
  const initFlags = reader.u16('initFlags')
  const negFlags = reader.u16('negFlags')
  checkFlags(initFlags, FLAG.RETRY | FLAG.FIN_ACK, "PSS_ACK's copy of INIT")
  if (negFlags !== header.flags || !isSubset(negFlags, initFlags)) {
    throw new ProtocolError('FRAME_FLAGS', "PSS_ACK does not repeat NEG's flags, or they exceed INIT's", { field: 'flags' })
  }
  const sfc = readOptionalSfc(reader, negFlags)
  const ack: PssAck = {
    init: readInitFields(new Reader(fields), initFlags, header.iCookie),
    flags: negFlags,
    cookies: { i: header.iCookie, r: header.rCookie },
    sealed: reader.bytes(SEALED_PROOF_BYTES, 'sealed')
  }
  return sfc === undefined ? ack : { ...ack, sfc }
}
