import type { Clock } from '../platform/clock.ts'

/** Lets `burst` through at once and `perSec` a second after that, by the monotonic clock. */
export class TokenBucket {
  readonly #clock: Clock
  readonly #burst: number
  readonly #perSec: number
  #left: number
  #atMs: number

  constructor(clock: Clock, { burst, perSec }: { burst: number; perSec: number }) {
    this.#clock = clock
    this.#burst = burst
    this.#perSec = perSec
    this.#left = burst
    this.#atMs = clock.monotonicMs()
  }

  /** @returns 0 when one was taken, else the whole seconds after which there is one */
  take(): number {
    const nowMs = this.#clock.monotonicMs()
    this.#left = Math.min(this.#burst, this.#left + ((nowMs - this.#atMs) * this.#perSec) / 1_000)
    this.#atMs = nowMs
    if (this.#left < 1) return Math.ceil((1 - this.#left) / this.#perSec)
    this.#left -= 1
    return 0
  }
}
