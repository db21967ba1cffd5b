import { compressBlock, SHA256_INITIAL, SHA256_K } from '../../protocol/discovery/sha256-block.ts'
import { createLanesSearch, JOB_WORDS, type LanesSearch } from './sha256-lanes.ts'

/** Looks for a nonce, a slice at a time, so that whoever runs it can stop between two. */
export interface Search {
  readonly kind: 'simd' | 'js'
  /**
   * @param seed - 32 bytes
   * @param hi - the nonce's upper half, the same in all slices
   * @param bits - 0 to 32 leading zero bits
   */
  begin(seed: Uint8Array, hi: number, bits: number): void
  /**
   * @param lo - the nonce's lower half to start at, a multiple of four
   * @param tries - a multiple of four
   * @returns the lower half of the first nonce that has the work, or undefined
   */
  slice(lo: number, tries: number): number | undefined
}

/** The fastest search that the platform has. */
export function createSearch(): Search {
  const lanes = createLanesSearch()
  return lanes === undefined ? new ScalarSearch() : new SimdSearch(lanes)
}

/** A seed's eight words and the upper half of the nonce. */
function jobWords(seed: Uint8Array, hi: number): Int32Array {
  const words = new Int32Array(JOB_WORDS)
  const view = new DataView(seed.buffer, seed.byteOffset, seed.byteLength)
  for (let i = 0; i < 8; i++) words[i] = view.getInt32(i * 4)
  words[8] = hi
  return words
}

const rotr = (x: number, by: number) => (x >>> by) | (x << (32 - by))
const FIRST_ROUND = 9

/** In plain JavaScript: the nine rounds and the parts of the schedule that do not see the nonce's lower half are worked out once a job. */
export class ScalarSearch implements Search {
  readonly kind = 'js'
  readonly #w = new Int32Array(64)
  readonly #start = new Int32Array(8)
  #mask = 0
  #w16 = 0
  #w17 = 0
  #w18 = 0
  #w19 = 0

  begin(seed: Uint8Array, hi: number, bits: number): void {
    const w = this.#w
    w.set(jobWords(seed, hi))
    w[9] = 0
    w[10] = 0x80000000
    w.fill(0, 11, 15)
    w[15] = 40 * 8
    this.#mask = bits === 0 ? 0 : -1 << (32 - bits)
    let [a, b, c, d, e, f, g, h] = SHA256_INITIAL as unknown as [number, number, number, number, number, number, number, number]
    for (let i = 0; i < FIRST_ROUND; i++) {
      const s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)
      const t1 = (h + s1 + (g ^ (e & (f ^ g))) + (SHA256_K[i] as number) + (w[i] as number)) | 0
      const t2 = ((rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)))) | 0
      h = g
      g = f
      f = e
      e = (d + t1) | 0
      d = c
      c = b
      b = a
      a = (t1 + t2) | 0
    }
    this.#start.set([a, b, c, d, e, f, g, h])
    const s0 = (i: number) => rotr(w[i] as number, 7) ^ rotr(w[i] as number, 18) ^ ((w[i] as number) >>> 3)
    const s1 = (x: number) => rotr(x, 17) ^ rotr(x, 19) ^ (x >>> 10)
    this.#w16 = ((w[0] as number) + s0(1)) | 0
    this.#w17 = ((w[1] as number) + s0(2) + (w[10] as number) + s1(w[15] as number)) | 0
    this.#w18 = ((w[2] as number) + s0(3)) | 0
    this.#w19 = ((w[3] as number) + s0(4) + s1(this.#w17)) | 0
  }

  slice(lo: number, tries: number): number | undefined {
    const w = this.#w
    const mask = this.#mask | 0
    const start = this.#start
    const w16 = this.#w16 | 0
    w[17] = this.#w17
    w[19] = this.#w19
    const w18 = this.#w18 | 0
    for (let at = 0; at < tries; at++) {
      const nonce = (lo + at) | 0 // integers all the way: one that might be a double makes the loop three times slower
      w[9] = nonce
      const y16 = (w16 + nonce) | 0
      w[16] = y16
      w[18] = (w18 + (((y16 >>> 17) | (y16 << 15)) ^ ((y16 >>> 19) | (y16 << 13)) ^ (y16 >>> 10))) | 0
      for (let i = 20; i < 64; i++) {
        const x = w[i - 15] as number
        const y = w[i - 2] as number
        const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)
        const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)
        w[i] = ((w[i - 16] as number) + s0 + (w[i - 7] as number) + s1) | 0
      }
      let a = start[0] as number
      let b = start[1] as number
      let c = start[2] as number
      let d = start[3] as number
      let e = start[4] as number
      let f = start[5] as number
      let g = start[6] as number
      let h = start[7] as number
      for (let i = FIRST_ROUND; i < 64; i++) {
        const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))
        const t1 = (h + s1 + (g ^ (e & (f ^ g))) + (SHA256_K[i] as number) + (w[i] as number)) | 0
        const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))
        const t2 = (s0 + ((a & b) | (c & (a | b)))) | 0
        h = g
        g = f
        f = e
        e = (d + t1) | 0
        d = c
        c = b
        b = a
        a = (t1 + t2) | 0
      }
      if (((a + (SHA256_INITIAL[0] as number)) & mask) === 0) return nonce >>> 0
    }
    return undefined
  }
}

/** Four tries at once in WebAssembly; a hit among four is looked up by hashing each once more. */
class SimdSearch implements Search {
  readonly kind = 'simd'
  readonly #lanes: LanesSearch
  readonly #block = new Int32Array(64)
  readonly #state = new Int32Array(8)
  #words: Int32Array = new Int32Array(JOB_WORDS)
  #bits = 0

  constructor(lanes: LanesSearch) {
    this.#lanes = lanes
  }

  begin(seed: Uint8Array, hi: number, bits: number): void {
    this.#words = jobWords(seed, hi)
    this.#bits = bits
    this.#lanes.begin(this.#words, bits)
  }

  slice(lo: number, tries: number): number | undefined {
    const hit = this.#lanes.run(lo, tries / 4)
    if (hit === undefined) return undefined
    for (let nonce = hit; nonce < hit + 4; nonce++) if (this.#hasWork(nonce)) return nonce
    throw new TypeError('the lanes tell of a hit that is none')
  }

  #hasWork(lo: number): boolean {
    const w = this.#block
    w.set(this.#words)
    w[9] = lo
    w[10] = 0x80000000
    w.fill(0, 11, 15)
    w[15] = 40 * 8
    this.#state.set(SHA256_INITIAL)
    compressBlock(this.#state, w)
    return Math.clz32(this.#state[0] as number) >= this.#bits
  }
}
