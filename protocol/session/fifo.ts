/** A first-in-first-out list whose removal costs nothing. */
export class Fifo<V> {
  #items: V[] = []
  #start = 0

  get length(): number {
    return this.#items.length - this.#start
  }

  push(item: V): void {
    this.#items.push(item)
  }

  first(): V | undefined {
    return this.#items[this.#start]
  }

  last(): V | undefined {
    return this.length === 0 ? undefined : this.#items.at(-1)
  }

  /** @param index - 0 for the first */
  at(index: number): V | undefined {
    return index < 0 ? undefined : this.#items[this.#start + index]
  }

  shift(): V | undefined {
    if (this.length === 0) return undefined
    const item = this.#items[this.#start] as V
    this.#items[this.#start] = undefined as V
    this.#start += 1
    if (this.#start > 1_024 && this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start)
      this.#start = 0
    }
    return item
  }

  /** Takes the newest back. */
  pop(): V | undefined {
    return this.length === 0 ? undefined : this.#items.pop()
  }

  /** Keeps, in their order, the items for which `keep` holds. */
  retain(keep: (item: V) => boolean): void {
    this.#items = this.#items.slice(this.#start).filter(keep)
    this.#start = 0
  }

  clear(): void {
    this.#items = []
    this.#start = 0
  }

  *[Symbol.iterator](): Iterator<V> {
    for (let i = this.#start; i < this.#items.length; i++) yield this.#items[i] as V
  }
}
