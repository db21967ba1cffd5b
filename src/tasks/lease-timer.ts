import type { Clock } from '../platform/clock.ts'

/** A timer longer than this overflows; it is set again when it fires. */
const TIMER_MS_MAX = 86_400_000

/** One timer, for whatever ends first. */
export class LeaseTimer {
  readonly #clock: Clock
  readonly #fired: () => void
  #cancel: () => void = () => {}
  #untilMs: number | undefined
  #stopped = false

  /** @param fired - looks for what ended, and sets the timer again */
  constructor(clock: Clock, fired: () => void) {
    this.#clock = clock
    this.#fired = fired
  }

  /** @param untilMs - on the monotonic clock; undefined where nothing ends */
  set(untilMs: number | undefined): void {
    if (untilMs === this.#untilMs || this.#stopped) return
    this.#cancel()
    this.#untilMs = untilMs
    if (untilMs === undefined) return
    const inMs = Math.min(TIMER_MS_MAX, Math.max(0, untilMs - this.#clock.monotonicMs()))
    this.#cancel = this.#clock.after(inMs, () => {
      this.#untilMs = undefined
      this.#fired()
    })
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }
}
