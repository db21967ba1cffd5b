interface Entry {
  atMs: number
  order: number
  call: () => void
}

/** What is to happen, by time; what is due at one instant happens in the order in which it was asked for. */
export class EventQueue {
  readonly #heap: Entry[] = []
  #order = 0
  #nowMs = 0
  /** events that have happened */
  happened = 0

  get nowMs(): number {
    return this.#nowMs
  }

  /** when the next falls due; infinite where nothing waits */
  get nextAtMs(): number {
    return this.#heap[0]?.atMs ?? Number.POSITIVE_INFINITY
  }

  get size(): number {
    return this.#heap.length
  }

  after(ms: number, call: () => void): void {
    this.at(this.#nowMs + Math.max(0, ms), call)
  }

  at(atMs: number, call: () => void): void {
    const entry = { atMs: Math.max(atMs, this.#nowMs), order: this.#order++, call }
    const heap = this.#heap
    let i = heap.push(entry) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      const above = heap[parent] as Entry
      if (!isBefore(entry, above)) break
      heap[i] = above
      i = parent
    }
    heap[i] = entry
  }

  /** Lets everything happen that is due by then, and moves the clock there. */
  runUntil(untilMs: number): void {
    for (let next = this.#heap[0]; next !== undefined && next.atMs <= untilMs; next = this.#heap[0]) this.#step()
    this.#nowMs = Math.max(this.#nowMs, untilMs)
  }

  /** Lets things happen while `more` says so. @returns false when nothing was left to happen */
  runWhile(more: () => boolean): boolean {
    while (more()) {
      if (this.#heap.length === 0) return false
      this.#step()
    }
    return true
  }

  #step(): void {
    const heap = this.#heap
    const first = heap[0] as Entry
    const last = heap.pop() as Entry
    if (heap.length > 0) {
      let i = 0
      for (;;) {
        let child = 2 * i + 1
        if (child >= heap.length) break
        const right = heap[child + 1]
        if (right !== undefined && isBefore(right, heap[child] as Entry)) child++
        const below = heap[child] as Entry
        if (!isBefore(below, last)) break
        heap[i] = below
        i = child
      }
      heap[i] = last
    }
    this.#nowMs = first.atMs
    this.happened++
    first.call()
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}
