import { concat, isZero, Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type Cookie, NO_COOKIE } from './cookie.ts'
import { FLAG, hasFlag } from './flags.ts'
import { encodeHeader, FRAME, HEADER_BYTES, INIT_BODY_BYTES, parseFrame } from './header.ts'
import { SESSION_ID_BYTES } from './key-schedule.ts'
import { TARGET_BYTES } from './target.ts'

export const NONCE_BYTES = 32
export const EPH_BYTES = 32
export const RETRY_COOKIE_BYTES = 16
export const NO_RETRY_COOKIE = new Uint8Array(RETRY_COOKIE_BYTES)
export const NO_RESUME_ID = new Uint8Array(SESSION_ID_BYTES)
export const INIT_BYTES = HEADER_BYTES + INIT_BODY_BYTES
/** Makes an INIT larger than its NEG, so that nobody is amplified. */
const INIT_ZERO_BYTES = 120

/** PSS_INIT (0x08): 256 bytes in all, unsigned (protocol/README.md §6, Handshake). */
export interface PssInit {
  /** u16; RETRY and FIN-ACK never set */
  readonly flags: number
  /** random, 8 bytes */
  readonly iCookie: Cookie
  /** random, 32 bytes */
  readonly nonceI: Uint8Array
  /** X25519 public key, 32 bytes */
  readonly ephI: Uint8Array
  /** 16 bytes, see `initTarget` */
  readonly target: Uint8Array
  /** 16 bytes; zero exactly when RESUME is not set */
  readonly resumeId: Uint8Array
  /** 16 bytes; zero the first time */
  readonly retryCookie: Uint8Array
}

export function encodeInit(init: PssInit): Uint8Array {
  const header = encodeHeader({
    type: FRAME.INIT,
    flags: init.flags,
    bodyBytes: INIT_BODY_BYTES,
    iCookie: init.iCookie,
    rCookie: NO_COOKIE
  })
  return new Writer(INIT_BYTES).bytes(header).bytes(initFields(init)).zeros(INIT_ZERO_BYTES).finish()
}

/** nonceI ‖ ephI ‖ target ‖ resume id ‖ retry cookie, 112 bytes: what INIT says and ACK says again. */
export function initFields(init: PssInit): Uint8Array {
  return concat([init.nonceI, init.ephI, init.target, init.resumeId, init.retryCookie])
}

/**
 * Reads what {@link initFields} wrote.
 * @throws ProtocolError `TRUNCATED`; `FIELD_INVALID` where the resume id does not go with the RESUME flag
 */
export function readInitFields(reader: Reader, flags: number, iCookie: Cookie): PssInit {
  const init: PssInit = {
    flags,
    iCookie,
    nonceI: reader.bytes(NONCE_BYTES, 'nonceI'),
    ephI: reader.bytes(EPH_BYTES, 'ephI'),
    target: reader.bytes(TARGET_BYTES, 'target'),
    resumeId: reader.bytes(SESSION_ID_BYTES, 'resumeId'),
    retryCookie: reader.bytes(RETRY_COOKIE_BYTES, 'retryCookie')
  }
  if (hasFlag(flags, FLAG.RESUME) === isZero(init.resumeId)) {
    throw new ProtocolError('FIELD_INVALID', 'PSS_INIT has a resume id without RESUME, or RESUME without one', { field: 'resumeId' })
  }
  return init
}

/**
 * @param frame - one whole frame
 * @returns the message; its byte fields are views into `frame`, so copy what you keep
 * @throws ProtocolError those of `parseFrame`; `FRAME_TYPE`, `FIELD_INVALID` (resume id), `FRAME_ZEROS`
 */
export function decodeInit(frame: Uint8Array): PssInit {
  const { header, body } = parseFrame(frame)
  if (header.type !== FRAME.INIT) throw new ProtocolError('FRAME_TYPE', 'the frame is no PSS_INIT', { field: 'type' })
  const reader = new Reader(body)
  const init = readInitFields(reader, header.flags, header.iCookie)
  if (!isZero(reader.rest())) throw new ProtocolError('FRAME_ZEROS', 'the last 120 bytes of PSS_INIT are not zero', { field: 'zeros' })
  return init
}
