/** One at a time for each key, in the order of asking. Holds nothing for a key that nobody uses. */
export class KeyLock {
  readonly #tails = new Map<string, Promise<void>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const turn = Promise.withResolvers<void>()
    this.#tails.set(key, turn.promise)
    await before
    try {
      return await work()
    } finally {
      turn.resolve()
      if (this.#tails.get(key) === turn.promise) this.#tails.delete(key)
    }
  }
}
