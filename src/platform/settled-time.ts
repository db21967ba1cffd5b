import type { Clock } from './clock.ts'

/** A step of the wall clock against the elapsed time that is told from drift. */
const STEP_MS = 60_000
/** So long a step ahead has to stand before anything is thrown away by it. */
export const SETTLE_MS = 15 * 60_000

/**
 * The wall clock for what is thrown away for good because its time is over. A clock that jumps ahead by mistake is set right within minutes, and what was
 * thrown away meanwhile would stay lost: a step ahead counts once it has stood for {@link SETTLE_MS}, a step back at once.
 */
export class SettledTime {
  readonly #clock: Pick<Clock, 'nowMs' | 'monotonicMs'>
  /** wall clock less elapsed time, as it is believed */
  #offsetMs: number
  #aheadSinceMs: number | undefined

  constructor(clock: Pick<Clock, 'nowMs' | 'monotonicMs'>) {
    this.#clock = clock
    this.#offsetMs = clock.nowMs() - clock.monotonicMs()
  }

  /** Never later than the wall clock, and whole as that is: keys on disk are made of it. */
  nowMs(): number {
    const [wallMs, elapsedMs] = [this.#clock.nowMs(), this.#clock.monotonicMs()]
    const offsetMs = wallMs - elapsedMs
    if (offsetMs <= this.#offsetMs + STEP_MS) {
      this.#aheadSinceMs = undefined
      this.#offsetMs = offsetMs
      return wallMs
    }
    this.#aheadSinceMs ??= elapsedMs
    if (elapsedMs - this.#aheadSinceMs < SETTLE_MS) return Math.floor(elapsedMs + this.#offsetMs)
    this.#aheadSinceMs = undefined
    this.#offsetMs = offsetMs
    return wallMs
  }
}
