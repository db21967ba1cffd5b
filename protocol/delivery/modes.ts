/**
 * How an agent can be reached (requirements OD-05 … OD-12), by the short names seen in the field. In the order of the draft's table:
 * AlwaysAvailable, SessionOnly, PeriodicallyAvailable, UnavailableStoreForward.
 */
export const REACHABILITY_MODES = ['always_on', 'session', 'hourly_wake', 'sleep'] as const
export type ReachabilityMode = (typeof REACHABILITY_MODES)[number]

/** What the draft's table calls them (OD-12). */
export const MODE_NAMES: Readonly<Record<ReachabilityMode, string>> = {
  always_on: 'AlwaysAvailable',
  session: 'SessionOnly',
  hourly_wake: 'PeriodicallyAvailable',
  sleep: 'UnavailableStoreForward'
}

export const MODE_WORDS = [
  ...REACHABILITY_MODES,
  'AlwaysAvailable',
  'SessionOnly',
  'PeriodicallyAvailable',
  'UnavailableStoreForward'
] as const

/** The mode that a short name or one of the draft's table stands for; undefined for anything else. */
export function modeOf(name: string): ReachabilityMode | undefined {
  return REACHABILITY_MODES.find((mode) => mode === name || MODE_NAMES[mode] === name)
}

/** A published wake window: open for `openSec` from `offsetSec` on in every `periodSec` since the Unix epoch, jitter included (G-14). */
export interface WakeWindow {
  periodSec: number
  openSec: number
  offsetSec: number
}
