/** The fuzzer's own generator (xorshift128): the same numbers from the same seed, on every machine. */
export class FuzzRandom {
  #a: number
  #b: number
  #c: number
  #d: number

  constructor(seed: number) {
    let state = seed >>> 0
    const next = () => {
      state = (state + 0x9e3779b9) >>> 0
      let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
      return (mixed ^ (mixed >>> 15)) >>> 0
    }
    this.#a = next()
    this.#b = next()
    this.#c = next()
    this.#d = next() | 1
  }

  u32(): number {
    const t = this.#a ^ (this.#a << 11)
    this.#a = this.#b
    this.#b = this.#c
    this.#c = this.#d
    this.#d = (this.#d ^ (this.#d >>> 19) ^ t ^ (t >>> 8)) >>> 0
    return this.#d
  }

  /** 0 to `count` − 1; 0 where there is nothing to choose from. */
  below(count: number): number {
    return count <= 1 ? 0 : this.u32() % count
  }

  oneIn(count: number): boolean {
    return this.below(count) === 0
  }

  pick<T>(list: readonly T[]): T | undefined {
    return list[this.below(list.length)]
  }
}
