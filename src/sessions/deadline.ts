import type { Clock } from '../platform/clock.ts'

/** A signal that fires at a moment that may be moved, or when another signal does. One timer at a time. */
export class Deadline {
  readonly #clock: Clock
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal | undefined
  #cancel: (() => void) | undefined
  readonly #onOuter = () => this.#controller.abort(this.#outer?.reason)

  constructor(clock: Clock, outer?: AbortSignal) {
    this.#clock = clock
    this.#outer = outer
    if (outer?.aborted === true) this.#onOuter()
    else outer?.addEventListener('abort', this.#onOuter, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Fires with `reason` at `atMs`, monotonic, unless moved again. */
  set(atMs: number, reason: Error): void {
    this.#cancel?.()
    this.#cancel = this.#clock.after(Math.max(0, atMs - this.#clock.monotonicMs()), () => this.#controller.abort(reason))
  }

  abort(reason: Error): void {
    this.#controller.abort(reason)
  }

  dispose(): void {
    this.#cancel?.()
    this.#outer?.removeEventListener('abort', this.#onOuter)
  }
}
