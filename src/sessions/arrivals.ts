import { LazySet } from '../../protocol/lazy.ts'
import { withSignal } from '../platform/with-signal.ts'

/** Those who wait for something to come; whoever stops waiting is forgotten. */
export class Arrivals {
  readonly #waiting = new LazySet<() => void>()

  get size(): number {
    return this.#waiting.size
  }

  /** Resolves at the next {@link wake}; rejects with the signal's reason. */
  async next(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    try {
      await withSignal(promise, signal)
    } finally {
      this.#waiting.delete(resolve)
    }
  }

  wake(): void {
    for (const resolve of [...this.#waiting]) resolve()
  }
}
