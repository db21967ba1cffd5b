/** How long the next caller waits at most for what callers with a cookie had beyond the budget. */
export const DEBT_SECONDS_MAX = 1

export interface BudgetInit {
  perSecond: number
  burst: number
  nowMs: number
}

/**
 * A token bucket of handshakes. One bounds what the node computes in all, so that a flood of INITs takes a bounded share of the processor
 * (protocol/README.md §6, Busy); one for each source bounds what one PeerId or one network takes of it.
 */
export class HandshakeBudget {
  readonly #perSecond: number
  readonly #burst: number
  #tokens: number
  #atMs: number

  constructor({ perSecond, burst, nowMs }: BudgetInit) {
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

  /**
   * One is being computed, also for a caller that already waited: the debt makes the next one wait longer, but no more than a second. Who comes
   * back is served anyway, so a longer wait would keep out the honest, not the flood.
   */
  spend(nowMs: number): void {
    this.#refill(nowMs)
    const floor = Math.min(0, 1 - this.#perSecond * DEBT_SECONDS_MAX)
    this.#tokens = Math.max(floor, -this.#burst, this.#tokens - 1)
  }

  /** Nothing is owed any more: a fresh one would be the same. */
  isFull(nowMs: number): boolean {
    this.#refill(nowMs)
    return this.#tokens >= this.#burst
  }
}
