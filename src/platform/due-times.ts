/** Which of many ends first: a heap by time. What was set anew or taken out leaves its place when it comes to the top, or when half are such. */
export class DueTimes {
  readonly #at = new Map<string, number>()
  #heap: { id: string; atMs: number }[] = []

  /** @param atMs - undefined takes it out */
  set(id: string, atMs: number | undefined): void {
    if (this.#at.get(id) === atMs) return
    if (atMs === undefined) {
      this.#at.delete(id)
      return
    }
    this.#at.set(id, atMs)
    if (this.#heap.length > 2 * this.#at.size + 64) {
      this.#heap = [...this.#at].map(([one, ms]) => ({ id: one, atMs: ms })).sort((a, b) => a.atMs - b.atMs)
      return
    }
    this.#heap.push({ id, atMs })
    this.#up(this.#heap.length - 1)
  }

  first(): { id: string; atMs: number } | undefined {
    for (;;) {
      const top = this.#heap[0]
      if (top === undefined || this.#at.get(top.id) === top.atMs) return top
      const last = this.#heap.pop() as { id: string; atMs: number }
      if (this.#heap.length === 0) continue
      this.#heap[0] = last
      this.#down()
    }
  }

  #up(from: number): void {
    const heap = this.#heap
    const moved = heap[from] as { id: string; atMs: number }
    let at = from
    while (at > 0) {
      const above = (at - 1) >> 1
      const one = heap[above] as { id: string; atMs: number }
      if (one.atMs <= moved.atMs) break
      heap[at] = one
      at = above
    }
    heap[at] = moved
  }

  #down(): void {
    const heap = this.#heap
    const moved = heap[0] as { id: string; atMs: number }
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      const right = heap[below + 1]
      if (right !== undefined && right.atMs < (heap[below] as { atMs: number }).atMs) below++
      const one = heap[below]
      if (one === undefined || one.atMs >= moved.atMs) break
      heap[at] = one
      at = below
    }
    heap[at] = moved
  }
}
