/** Handshakes that a node computes: a token bucket, so that a flood of INITs takes a bounded share of the processor (wire.md §6, Busy). */
export class HandshakeBudget {
  readonly #perSecond: number
  readonly #burst: number
  #tokens: number
  #atMs: number

  constructor({ perSecond, burst, nowMs }: { perSecond: number; burst: number; nowMs: number }) {
    this.#perSecond = perSecond
    this.#burst = burst
    this.#tokens = burst
    this.#atMs = nowMs
  }

  #refill(nowMs: number): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + (Math.max(0, nowMs - this.#atMs) / 1_000) * this.#perSecond)
    this.#atMs = nowMs
  }

  /** Seconds until a handshake may be computed again; 0: now. */
  waitSeconds(nowMs: number): number {
    this.#refill(nowMs)
    return this.#tokens >= 1 ? 0 : (1 - this.#tokens) / this.#perSecond
  }

  /** One is being computed, also for a caller that already waited: the debt makes the next one wait longer. */
  spend(nowMs: number): void {
    this.#refill(nowMs)
    this.#tokens = Math.max(-this.#burst, this.#tokens - 1)
  }
}
