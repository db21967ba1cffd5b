import { seen } from './hooks.ts'

/** Hit counts that count as different: 1, 2, 3, 4–7, 8–15, 16–31, 32–127, more. */
const BUCKET = Uint8Array.from({ length: 256 }, (_, hits) => {
  if (hits === 0) return 0
  if (hits <= 3) return 1 << (hits - 1)
  return hits < 8 ? 8 : hits < 16 ? 16 : hits < 32 ? 32 : hits < 128 ? 64 : 128
})

/** What a run of one target has reached: for each branch the set of hit-count buckets. */
export class Coverage {
  readonly #reached = new Uint8Array(seen.edges.length)
  readonly #words = new Uint32Array(seen.edges.buffer)
  edges = 0
  features = 0

  clear(): void {
    seen.edges.fill(0, 0, seen.edgeCount)
  }

  /** Takes the counters of the input that just ran. @returns how many features it was the first to reach */
  take(): number {
    let fresh = 0
    const words = (seen.edgeCount + 3) >> 2
    for (let word = 0; word < words; word++) {
      if (this.#words[word] === 0) continue
      for (let edge = word * 4; edge < word * 4 + 4; edge++) {
        const bit = BUCKET[seen.edges[edge] as number] as number
        const had = this.#reached[edge] as number
        if ((had & bit) === bit) continue
        if (had === 0) this.edges++
        this.#reached[edge] = had | bit
        fresh++
      }
    }
    this.features += fresh
    return fresh
  }
}
