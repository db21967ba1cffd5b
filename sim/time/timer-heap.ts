export interface HeapTimer {
  atMs: number
  /** of two at one instant, the one set first goes first */
  order: number
  /** where it stands in the heap; -1: in none */
  place: number
}

/** Timers by when they are due: a binary heap from which any can be taken out. */
export class TimerHeap<T extends HeapTimer> {
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  first(): T | undefined {
    return this.#items[0]
  }

  add(timer: T): void {
    timer.place = this.#items.length
    this.#items.push(timer)
    this.#rise(timer.place)
  }

  remove(timer: T): void {
    const { place } = timer
    if (place === -1) return
    timer.place = -1
    const last = this.#items.pop() as T
    if (last === timer) return
    this.#items[place] = last
    last.place = place
    this.#rise(place)
    this.#sink(last.place)
  }

  #rise(from: number): void {
    for (let at = from; at > 0; ) {
      const parent = (at - 1) >> 1
      if (!isEarlier(this.#items[at] as T, this.#items[parent] as T)) return
      this.#swap(at, parent)
      at = parent
    }
  }

  #sink(from: number): void {
    for (let at = from; ; ) {
      let least = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.#items.length && isEarlier(this.#items[child] as T, this.#items[least] as T)) least = child
      }
      if (least === at) return
      this.#swap(at, least)
      at = least
    }
  }

  #swap(a: number, b: number): void {
    const [one, other] = [this.#items[a] as T, this.#items[b] as T]
    this.#items[a] = other
    this.#items[b] = one
    one.place = b
    other.place = a
  }
}

function isEarlier(a: HeapTimer, b: HeapTimer): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}
