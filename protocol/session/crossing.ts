import { compare, equals } from '../bytes.ts'
import type { Eid } from '../identity/eid.ts'
import { FLAG, hasFlag } from './flags.ts'

/** An own exchange stays in the way of the peer's for so long after it got its READY. */
export const CROSSING_MS = 10_000

/** What an exchange is for. */
export interface ExchangePurpose {
  /** the session taken up; undefined for a new one */
  readonly resumeId: Uint8Array | undefined
  /** u16, bit EXCLUSIVE is looked at */
  readonly flags: number
}

/** An exchange that this side opened with the same EID. */
export interface OwnExchange extends ExchangePurpose {
  /** monotonic time of the peer's READY; undefined while the exchange is unfinished */
  readonly readyAtMs: number | undefined
}

/**
 * Settles, at a valid ACK, whether both sides opened or resumed the same session at once (protocol/README.md §6, "Both open or resume at once").
 * @returns `clear`: nothing in the way, go on. `refuse`: mine stands, answer TEARDOWN(SUPERSEDED) under the refused exchange's keys.
 * `yield`: the peer's stands, wipe mine and go on. Both sides come to the same end, as the smaller EID's exchange stands.
 */
export function settleCrossing(facts: {
  localEid: Eid
  remoteEid: Eid
  /** `negSentMs`: when NEG of that exchange left, monotonic; undefined: not known */
  incoming: ExchangePurpose & { readonly negSentMs?: number | undefined }
  own: OwnExchange | undefined
  nowMs: number
}): 'clear' | 'refuse' | 'yield' {
  const { localEid, remoteEid, incoming, own, nowMs } = facts
  if (own === undefined || !samePurpose(incoming, own)) return 'clear'
  if (own.readyAtMs !== undefined) {
    if (nowMs - own.readyAtMs >= CROSSING_MS) return 'clear'
    // who sent me READY had let its own exchange go: an answer to a NEG that left after READY came is of an exchange that began later
    if (incoming.negSentMs !== undefined && incoming.negSentMs > own.readyAtMs) return 'clear'
  }
  return compare(localEid, remoteEid) < 0 ? 'refuse' : 'yield'
}

function samePurpose(a: ExchangePurpose, b: ExchangePurpose): boolean {
  if (a.resumeId !== undefined && b.resumeId !== undefined) return equals(a.resumeId, b.resumeId)
  if (a.resumeId !== undefined || b.resumeId !== undefined) return false
  return !hasFlag(a.flags | b.flags, FLAG.EXCLUSIVE)
}
