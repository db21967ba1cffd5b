import { ProtocolError } from '../errors.ts'

/** Session capability and extension flags of the header (protocol/README.md §6, Header). */
export const FLAG = {
  /** asks for, or offers, a contract (SFC block) */
  SFC: 1 << 0,
  /** takes up the session that the resume id names */
  RESUME: 1 << 1,
  /** an ESE pair of its own, shared with no other session */
  EXCLUSIVE: 1 << 2,
  GROUP: 1 << 3,
  /** NEG only: come back with this retry cookie */
  RETRY: 1 << 4,
  /** TEARDOWN only */
  FIN_ACK: 1 << 5
} as const

/** What INIT, NEG and ACK negotiate. */
export const NEGOTIABLE_FLAGS = FLAG.SFC | FLAG.RESUME | FLAG.EXCLUSIVE | FLAG.GROUP

/** Bits 6, 7 and 15: a frame that sets one is refused. Bits 8 to 14 are ignored when unknown. */
const CRITICAL_UNKNOWN_FLAGS = (1 << 6) | (1 << 7) | (1 << 15)

export function hasFlag(flags: number, flag: number): boolean {
  return (flags & flag) !== 0
}

/** True when `flags` sets no bit that `of` lacks. */
export function isSubset(flags: number, of: number): boolean {
  return (flags & ~of) === 0
}

/** @throws ProtocolError `FRAME_FLAGS` for bits 6, 7, 15, and for any of `forbidden` */
export function checkFlags(flags: number, forbidden: number, what: string): void {
  const bad = flags & (CRITICAL_UNKNOWN_FLAGS | forbidden)
  if (bad !== 0) {
    throw new ProtocolError('FRAME_FLAGS', `${what} sets flags 0x${bad.toString(16).padStart(4, '0')}, which it must not`, {
      field: 'flags'
    })
  }
}
