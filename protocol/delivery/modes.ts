/**
 * How an agent can be reached (requirements OD-05 … OD-12), by the short names seen in the field. In the order of the draft's table:
 * AlwaysAvailable, SessionOnly, PeriodicallyAvailable, UnavailableStoreForward.
 */
export const REACHABILITY_MODES = ['always_on', 'session', 'hourly_wake', 'sleep'] as const
export type ReachabilityMode = (typeof REACHABILITY_MODES)[number]

/** A published wake window: open for `openSec` from `offsetSec` on in every `periodSec` since the Unix epoch, jitter included (G-14). */
export interface WakeWindow {
  periodSec: number
  openSec: number
  offsetSec: number
}
