import type { Clock } from '../platform/clock.ts'

const MINUTE_MS = 60_000

/**
 * How many entries each source may still write: a bucket that refills evenly over a minute. At most `sourcesMax` are remembered; when that
 * many are not yet full again, sources unknown so far are refused until one is.
 */
export class PublishBudget {
  readonly #clock: Clock
  readonly #perMinuteMax: number
  readonly #sourcesMax: number
  readonly #buckets = new Map<string, { left: number; atMs: number }>()

  constructor(clock: Clock, perMinuteMax: number, sourcesMax = 4_096) {
    this.#clock = clock
    this.#perMinuteMax = perMinuteMax
    this.#sourcesMax = sourcesMax
  }

  /** Takes one from every source or, when one of them has none left, from none. */
  take(sources: readonly string[]): 'taken' | 'refused' {
    const buckets: { left: number; atMs: number }[] = []
    for (const source of sources) {
      const bucket = this.#bucket(source)
      if (bucket === undefined || bucket.left < 1) return 'refused'
      buckets.push(bucket)
    }
    for (const bucket of buckets) bucket.left -= 1
    return 'taken'
  }

  giveBack(sources: readonly string[]): void {
    for (const source of sources) {
      const bucket = this.#buckets.get(source)
      if (bucket !== undefined) bucket.left = Math.min(this.#perMinuteMax, bucket.left + 1)
    }
  }

  #bucket(source: string): { left: number; atMs: number } | undefined {
    const nowMs = this.#clock.monotonicMs()
    const known = this.#buckets.get(source)
    if (known !== undefined) {
      this.#refill(known, nowMs)
      return known
    }
    if (this.#buckets.size >= this.#sourcesMax) this.#forgetFull(nowMs)
    if (this.#buckets.size >= this.#sourcesMax) return undefined
    const bucket = { left: this.#perMinuteMax, atMs: nowMs }
    this.#buckets.set(source, bucket)
    return bucket
  }

  #refill(bucket: { left: number; atMs: number }, nowMs: number): void {
    bucket.left = Math.min(this.#perMinuteMax, bucket.left + ((nowMs - bucket.atMs) * this.#perMinuteMax) / MINUTE_MS)
    bucket.atMs = nowMs
  }

  #forgetFull(nowMs: number): void {
    for (const [source, bucket] of this.#buckets) {
      this.#refill(bucket, nowMs)
      if (bucket.left >= this.#perMinuteMax) this.#buckets.delete(source)
    }
  }
}
