import type { Clock } from '../platform/clock.ts'

/** Failures in a row of one receiver, over all its webhooks, after which it is left alone. */
export const CIRCUIT_FAILURES = 5
/** For so long; then one try tells. */
export const CIRCUIT_OPEN_MS = 60_000
/** Receivers that fail now; at the bound the one that failed longest ago is forgotten. */
const FAILING_MAX = 1_000
/** Calls to one receiver at a time. */
export const PER_RECEIVER_MAX = 4

/** Which receivers (scheme, host and port) are called now, and which are left alone for a while: one that is down costs no more than a try a minute. */
export class Circuits {
  readonly #clock: Clock
  readonly #failing = new Map<string, { failures: number; openUntilMs: number }>()
  readonly #calls = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How long the receiver is left alone; 0 where it may be called. */
  waitMs(origin: string): number {
    const failing = this.#failing.get(origin)
    return failing === undefined ? 0 : Math.max(0, failing.openUntilMs - this.#clock.monotonicMs())
  }

  /** @returns whether there is room for another call; then {@link ended} has to follow */
  begin(origin: string): boolean {
    const calls = this.#calls.get(origin) ?? 0
    const isProbing = (this.#failing.get(origin)?.failures ?? 0) >= CIRCUIT_FAILURES
    if (calls >= (isProbing ? 1 : PER_RECEIVER_MAX)) return false
    this.#calls.set(origin, calls + 1)
    return true
  }

  ended(origin: string, how: 'answered' | 'failed' | 'abandoned'): void {
    const calls = (this.#calls.get(origin) ?? 1) - 1
    if (calls > 0) this.#calls.set(origin, calls)
    else this.#calls.delete(origin)
    if (how === 'answered') this.#failing.delete(origin)
    if (how !== 'failed') return
    const failures = (this.#failing.get(origin)?.failures ?? 0) + 1
    this.#failing.delete(origin)
    if (this.#failing.size >= FAILING_MAX) this.#failing.delete(this.#failing.keys().next().value as string)
    const openUntilMs = failures >= CIRCUIT_FAILURES ? this.#clock.monotonicMs() + CIRCUIT_OPEN_MS : 0
    this.#failing.set(origin, { failures, openUntilMs })
  }
}
