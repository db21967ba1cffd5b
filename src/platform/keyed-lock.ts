/** Runs what shares a key one after another, in the order of asking, and everything else side by side. Holds nothing for a key that nobody uses. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>()

  /** Waits for the key, or for all of them; they are taken in one step, so no two callers wait for each other. */
  async run<T>(keys: string | readonly string[], work: () => Promise<T>): Promise<T> {
    const wanted = new Set(typeof keys === 'string' ? [keys] : keys)
    const waits: Promise<void>[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    for (const key of wanted) {
      const tail = this.#tails.get(key)
      if (tail !== undefined) waits.push(tail)
      this.#tails.set(key, promise)
    }
    try {
      await Promise.all(waits)
      return await work()
    } finally {
      for (const key of wanted) if (this.#tails.get(key) === promise) this.#tails.delete(key)
      resolve()
    }
  }
}
