import type { Clock } from '../platform/clock.ts'

/** A timer longer than this overflows; it is set again when it fires. */
const TIMER_MS_MAX = 86_400_000

/** One timer, for the lease that ends first. */
export class LeaseTimer {
  readonly #clock: Clock
  readonly #fired: () => void
  #cancel: () => void = () => {}
  #stopped = false

  /** @param fired - looks for leases that ended, and sets the timer again */
  constructor(clock: Clock, fired: () => void) {
    this.#clock = clock
    this.#fired = fired
  }

  /** @param untilMs - end of the first lease, Unix ms; undefined where nothing is leased */
  set(untilMs: number | undefined): void {
    this.#cancel()
    if (untilMs === undefined || this.#stopped) return
    const inMs = Math.min(TIMER_MS_MAX, Math.max(0, untilMs - this.#clock.nowMs()))
    this.#cancel = this.#clock.after(inMs, this.#fired)
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }
}
