import { wipe } from '../bytes.ts'

export const PERIOD_MS = 60_000
export const PERIOD_SECRET_BYTES = 32

/** K_e of one period. */
export interface PeriodSecret {
  /** the period's number since start, hashed as u64 */
  readonly e: bigint
  /** 32 bytes */
  readonly secret: Uint8Array
}

/**
 * The responder's secrets K_e: a new one at start and every 60 s of monotonic time, the one before kept, older ones overwritten. So a cookie
 * lives at most 120 s, and forward secrecy sets in after that (protocol/README.md §6, Handshake). Never more than two are held.
 */
export class PeriodSecrets {
  readonly #random: (length: number) => Uint8Array
  readonly #startMs: number
  #current: PeriodSecret
  #wiped = false
  #previous: PeriodSecret | undefined

  constructor(init: { random: (length: number) => Uint8Array; nowMs: number }) {
    this.#random = init.random
    this.#startMs = init.nowMs
    this.#current = { e: 0n, secret: init.random(PERIOD_SECRET_BYTES) }
  }

  #turn(nowMs: number): void {
    if (this.#wiped) throw new TypeError('the period secrets were wiped')
    const e = BigInt(Math.floor((nowMs - this.#startMs) / PERIOD_MS))
    if (e <= this.#current.e) return
    if (this.#previous !== undefined) wipe(this.#previous.secret)
    this.#previous = undefined
    if (e === this.#current.e + 1n) this.#previous = this.#current
    else wipe(this.#current.secret)
    this.#current = { e, secret: this.#random(PERIOD_SECRET_BYTES) }
  }

  /** Secrets that are valid at `nowMs`: this period's, then the one before where there is one. Turns and wipes what is due. */
  at(nowMs: number): readonly PeriodSecret[] {
    this.#turn(nowMs)
    return this.#previous === undefined ? [this.#current] : [this.#current, this.#previous]
  }

  /** This period's. */
  current(nowMs: number): PeriodSecret {
    this.#turn(nowMs)
    return this.#current
  }

  /** When the next secret is due: call {@link at} by then, so that an old one is wiped on time though nobody calls. */
  get wakeAtMs(): number {
    return this.#startMs + (Number(this.#current.e) + 1) * PERIOD_MS
  }

  /** At shutdown. Cookies made before are void, and asking for a secret is our own mistake from here on (`TypeError`). */
  wipe(): void {
    wipe(this.#current.secret)
    if (this.#previous !== undefined) wipe(this.#previous.secret)
    this.#previous = undefined
    this.#wiped = true
  }
}
