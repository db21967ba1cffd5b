import type { Random } from '../../src/platform/random.ts'

/** A fast reproducible stream (splitmix32), for a model that draws millions of times. */
export class FastRandom implements Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  #next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0
    let z = this.#state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }

  /** 0 (with) to 1 (without) */
  fraction(): number {
    return this.#next() / 2 ** 32
  }

  below(count: number): number {
    return Math.floor(this.fraction() * count)
  }

  bytes(length: number): Uint8Array {
    const out = new Uint8Array(length)
    for (let at = 0; at < length; at += 4) {
      const word = this.#next()
      for (let i = 0; i < 4 && at + i < length; i++) out[at + i] = (word >>> (24 - i * 8)) & 0xff
    }
    return out
  }
}
