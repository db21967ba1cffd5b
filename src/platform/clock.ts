/** Wall time and elapsed time, kept apart; the only place of src/ that reads them (with {@link systemClock}). */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  nowMs(): number
  /** Never goes back; its zero means nothing. */
  monotonicMs(): number
  /** Resolves after `ms`, rejects with the signal's reason when it fires. The timer keeps no process alive. */
  sleep(ms: number, options?: { signal?: AbortSignal }): Promise<void>
  /** Calls once after `ms` unless cancelled. The timer keeps no process alive. */
  after(ms: number, call: () => void): () => void
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep(ms, { signal } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const done = () => {
        signal?.removeEventListener('abort', aborted)
        resolve()
      }
      const timer = setTimeout(done, ms)
      unref(timer)
      const aborted = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', aborted, { once: true })
    })
  },
  after(ms, call) {
    const timer = setTimeout(call, ms)
    unref(timer)
    return () => clearTimeout(timer)
  }
}

/** A page's timers are numbers, and keep nothing alive. */
function unref(timer: { unref?(): void } | number): void {
  if (typeof timer === 'object') timer.unref?.()
}

/** A clock that moves when told, for tests and virtual time. */
export class ManualClock implements Clock {
  /** wall clock less the elapsed time; timers at fractions of a millisecond so leave no error in it */
  #offsetMs: number
  #monotonicMs = 0
  #next = 0
  readonly #timers = new Map<number, { atMs: number; call: () => void }>()

  constructor(nowMs = 1_767_225_600_000) {
    this.#offsetMs = nowMs
  }

  nowMs(): number {
    return Math.floor(this.#offsetMs + this.#monotonicMs)
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  sleep(ms: number, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const aborted = () => {
        cancel()
        reject(signal?.reason)
      }
      const cancel = this.after(ms, () => {
        signal?.removeEventListener('abort', aborted)
        resolve()
      })
      signal?.addEventListener('abort', aborted, { once: true })
    })
  }

  after(ms: number, call: () => void): () => void {
    const id = this.#next++
    this.#timers.set(id, { atMs: this.#monotonicMs + ms, call })
    return () => this.#timers.delete(id)
  }

  /** Moves both clocks, calling what falls due in order. */
  advance(ms: number): void {
    const untilMs = this.#monotonicMs + ms
    for (;;) {
      let due: [number, { atMs: number; call: () => void }] | undefined
      for (const entry of this.#timers) if (entry[1].atMs <= untilMs && (due === undefined || entry[1].atMs < due[1].atMs)) due = entry
      if (due === undefined) break
      this.#timers.delete(due[0])
      this.#monotonicMs = due[1].atMs
      due[1].call()
    }
    this.#monotonicMs = untilMs
  }

  /** How long until something falls due; undefined where nothing waits. */
  nextDueMs(): number | undefined {
    let nextMs: number | undefined
    for (const { atMs } of this.#timers.values()) if (nextMs === undefined || atMs < nextMs) nextMs = atMs
    return nextMs === undefined ? undefined : nextMs - this.#monotonicMs
  }

  /** A step of the wall clock alone, as an administrator or a dead battery makes it. */
  jumpWall(ms: number): void {
    this.#offsetMs += ms
  }
}
