import type { StreamClose } from './stream-effects.ts'
import { teardownReasonName } from './teardown.ts'

export interface StreamTimes {
  /** quiet for so long: ask */
  pingAfterMs: number
  /** nothing heard for so long: the epoch is over */
  lostAfterMs: number
  /** between two TEARDOWNs */
  teardownRetryMs: number
  /** after the first TEARDOWN, or without progress of what is flushed before it */
  teardownLimitMs: number
}

export const STREAM_TIMES: StreamTimes = { pingAfterMs: 15_000, lostAfterMs: 30_000, teardownRetryMs: 10_000, teardownLimitMs: 30_000 }

/** A session on its way to CLOSED (protocol/README.md §6, TEARDOWN): what is flushed first, then TEARDOWN until FIN-ACK comes, or FIN-ACK itself. */
export class Closing {
  readonly #times: StreamTimes
  readonly reason: number
  readonly #by: 'local' | 'peer'
  #answers = false
  #tries = 0
  #sendAtMs: number
  #limitMs: number

  constructor(init: { reason: number; by: 'local' | 'peer'; times: StreamTimes; nowMs: number }) {
    this.reason = init.reason
    this.#by = init.by
    this.#times = init.times
    this.#sendAtMs = init.nowMs
    this.#limitMs = init.nowMs + init.times.teardownLimitMs
  }

  /** Our TEARDOWN went out at least once. */
  get sent(): boolean {
    return this.#tries > 0
  }

  /** The peer's TEARDOWN is there, so ours carries FIN-ACK. */
  get answers(): boolean {
    return this.#answers
  }

  get outcome(): StreamClose {
    return { reason: teardownReasonName(this.reason), by: this.#by }
  }

  get unanswered(): StreamClose {
    return { reason: 'unanswered', by: this.#by }
  }

  peerClosed(): void {
    this.#answers = true
  }

  due(nowMs: number): boolean {
    return nowMs >= this.#sendAtMs
  }

  /** FIN-ACK did not come, or what is flushed did not move, for too long. */
  expired(nowMs: number): boolean {
    return nowMs >= this.#limitMs
  }

  wakeAtMs(flushed: boolean): number {
    return flushed ? Math.min(this.#sendAtMs, this.#limitMs) : this.#limitMs
  }

  /** The flush moves on. */
  progressed(nowMs: number): void {
    if (this.#tries === 0) this.#limitMs = nowMs + this.#times.teardownLimitMs
  }

  /** A TEARDOWN goes out now. */
  tried(nowMs: number): void {
    if (this.#tries === 0) this.#limitMs = nowMs + this.#times.teardownLimitMs
    this.#tries += 1
    this.#sendAtMs = nowMs + this.#times.teardownRetryMs
  }
}
