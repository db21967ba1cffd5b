import type { Clock } from '../platform/clock.ts'

export interface TokenRate {
  burst: number
  perSec: number
}

/** A token that came in many small parts may lack their rounding. */
const WHOLE = 1 - 1e-9

/** Lets `burst` through at once and `perSec` a second after that, by the monotonic clock. */
export class TokenBucket {
  readonly #clock: Clock
  #burst: number
  #perSec: number
  #left: number
  #atMs: number

  constructor(clock: Clock, { burst, perSec }: TokenRate) {
    this.#clock = clock
    this.#burst = burst
    this.#perSec = perSec
    this.#left = burst
    this.#atMs = clock.monotonicMs()
  }

  /** Whole tokens and the part of the next one. */
  get left(): number {
    this.#refill()
    return this.#left
  }

  /** @returns 0 when one was taken, else the whole seconds after which there is one */
  take(): number {
    this.#refill()
    if (this.#left < WHOLE) return Math.ceil((1 - this.#left) / this.#perSec)
    this.#left = Math.max(0, this.#left - 1)
    return 0
  }

  /** Undoes a {@link take}. */
  giveBack(): void {
    this.#left = Math.min(this.#burst, this.#left + 1)
  }

  /** From now on; a bucket that held more than the new burst holds that much. */
  retune({ burst, perSec }: TokenRate): void {
    this.#refill()
    this.#burst = burst
    this.#perSec = perSec
    this.#left = Math.min(this.#left, burst)
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#left = Math.min(this.#burst, this.#left + ((nowMs - this.#atMs) * this.#perSec) / 1_000)
    this.#atMs = nowMs
  }
}
