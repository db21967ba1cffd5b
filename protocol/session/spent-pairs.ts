import { type CookiePair, cookiePairHex } from './cookie.ts'

/** Longer than a cookie lives (120 s), so that no ACK is taken twice and no keys come twice. */
export const SPENT_MS = 180_000
export const SPENT_PAIRS_MAX = 65_536

/**
 * Cookie pairs whose ACK has opened (protocol/README.md §6, Handshake): held while a session lives under them and for 180 s after. Bounded by `pairsMax`;
 * when it is full nothing is forgotten and the node is busy.
 */
export class SpentPairs {
  readonly #pairsMax: number
  readonly #live = new Set<string>()
  /** hex to the time it may go, in the order of that time, since the clock never goes back */
  readonly #released = new Map<string, number>()

  constructor({ pairsMax = SPENT_PAIRS_MAX }: { pairsMax?: number } = {}) {
    this.#pairsMax = pairsMax
  }

  get size(): number {
    return this.#live.size + this.#released.size
  }

  isFull(nowMs: number): boolean {
    this.#sweep(nowMs)
    return this.size >= this.#pairsMax
  }

  has(pair: CookiePair, nowMs: number): boolean {
    this.#sweep(nowMs)
    const key = cookiePairHex(pair)
    return this.#live.has(key) || this.#released.has(key)
  }

  /**
   * From here on the pair is spent, until {@link release} and 180 s more.
   * @throws RangeError when full: ask {@link isFull} first
   */
  spend(pair: CookiePair): void {
    if (this.size >= this.#pairsMax) throw new RangeError(`more than ${this.#pairsMax} spent cookie pairs`)
    this.#live.add(cookiePairHex(pair))
  }

  /** No session lives under the pair any more, or none ever did. Calling it again changes nothing. */
  release(pair: CookiePair, nowMs: number): void {
    const key = cookiePairHex(pair)
    if (this.#live.delete(key)) this.#released.set(key, nowMs + SPENT_MS)
  }

  #sweep(nowMs: number): void {
    for (const [key, untilMs] of this.#released) {
      if (untilMs > nowMs) return
      this.#released.delete(key)
    }
  }
}
