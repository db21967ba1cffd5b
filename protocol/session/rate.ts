const MINUTE_MS = 60_000
/** A window is counted in slices of this many to the span: exact to a sixtieth, in memory that no peer can grow. */
const SLICES = 60

/**
 * What a sender saves up: half a minute's messages at most, so that no delay on the way can press more than twice the rate into a receiver's
 * minute. A rate of zero never holds one.
 */
export class RateBucket {
  readonly #perMs: number
  readonly #tokensMax: number
  #tokens: number
  #atMs: number

  constructor({ perMinute, start, nowMs }: { perMinute: number; start: 'full' | 'empty'; nowMs: number }) {
    this.#perMs = perMinute / MINUTE_MS
    this.#tokensMax = perMinute === 0 ? 0 : Math.max(1, Math.floor(perMinute / 2))
    this.#tokens = start === 'full' ? this.#tokensMax : 0
    this.#atMs = nowMs
  }

  holds(nowMs: number): boolean {
    this.#refill(nowMs)
    return this.#tokens >= 1
  }

  take(nowMs: number): void {
    this.#refill(nowMs)
    this.#tokens = Math.max(0, this.#tokens - 1)
  }

  /** When one is there, monotonic; never for a rate of zero. */
  get nextAtMs(): number {
    if (this.#tokens >= 1) return this.#atMs
    return this.#perMs === 0 ? Number.POSITIVE_INFINITY : this.#atMs + Math.ceil((1 - this.#tokens) / this.#perMs)
  }

  #refill(nowMs: number): void {
    if (nowMs <= this.#atMs) return
    this.#tokens = Math.min(this.#tokensMax, this.#tokens + (nowMs - this.#atMs) * this.#perMs)
    this.#atMs = nowMs
    // a sum of thirds never quite reaches the whole
    if (this.#tokens > 1 - 1e-9 && this.#tokens < 1 && this.#tokensMax > 0) this.#tokens = 1
  }
}

/** Counts what happened in the span before now, in fixed memory; an event counts for at most the span, at least the span less one slice. */
export class RateWindow {
  readonly #sliceMs: number
  readonly #counts = new Float64Array(SLICES)
  /** number of the newest slice since the clock's start */
  #slice = Number.NEGATIVE_INFINITY
  #total = 0

  constructor(spanMs: number) {
    this.#sliceMs = spanMs / SLICES
  }

  add(nowMs: number): void {
    this.#turn(nowMs)
    const at = this.#slice % SLICES
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#total += 1
  }

  total(nowMs: number): number {
    this.#turn(nowMs)
    return this.#total
  }

  #turn(nowMs: number): void {
    const slice = Math.max(this.#slice, Math.floor(nowMs / this.#sliceMs))
    if (slice - this.#slice >= SLICES) {
      this.#counts.fill(0)
      this.#total = 0
    } else {
      for (let gone = this.#slice + 1; gone <= slice; gone++) {
        this.#total -= this.#counts[gone % SLICES] ?? 0
        this.#counts[gone % SLICES] = 0
      }
    }
    this.#slice = slice
  }
}
