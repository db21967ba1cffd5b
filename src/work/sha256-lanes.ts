import { SHA256_INITIAL, SHA256_K } from '../../protocol/discovery/sha256-block.ts'
import {
  add,
  again,
  and,
  anyTrue,
  type Code,
  equal,
  get,
  i32,
  i32Add,
  lanes,
  loadSplat,
  loop,
  or,
  returnIf,
  set,
  shiftLeft,
  shiftRight,
  splat,
  tee,
  wasmModule,
  xor
} from './wasm-assembler.ts'

/** A word of the computation: the same in every try of a job (its place in the table), or a vector of four tries (its local). */
type Word = { fixed: number } | { local: number }

/** Words 0 to 8 of the block, as a job's table begins: the seed and the nonce's upper half. */
export const JOB_WORDS = 9
/** What the block holds behind the nonce. */
const PADDING = [0x80000000, 0, 0, 0, 0, (32 + 8) * 8]
const LO = 0
const ROUNDS_LEFT = 1
const FIRST_LOCAL = 2
const SCHEDULE = FIRST_LOCAL + 1
const STATE = SCHEDULE + 16
const T1 = STATE + 9
const AB = T1 + 1
const LOCALS = AB + 2 - FIRST_LOCAL

const rotr = (x: number, by: number) => (x >>> by) | (x << (32 - by))
const FOLD = {
  s0: (x: number) => rotr(x, 7) ^ rotr(x, 18) ^ (x >>> 3),
  s1: (x: number) => rotr(x, 17) ^ rotr(x, 19) ^ (x >>> 10),
  S0: (x: number) => rotr(x, 2) ^ rotr(x, 13) ^ rotr(x, 22),
  S1: (x: number) => rotr(x, 6) ^ rotr(x, 11) ^ rotr(x, 25)
}
const rotated = (local: number, by: number): Code => or(shiftRight(get(local), by), shiftLeft(get(local), 32 - by))
const LANES = {
  s0: (x: number) => xor(xor(rotated(x, 7), rotated(x, 18)), shiftRight(get(x), 3)),
  s1: (x: number) => xor(xor(rotated(x, 17), rotated(x, 19)), shiftRight(get(x), 10)),
  S0: (x: number) => xor(xor(rotated(x, 2), rotated(x, 13)), rotated(x, 22)),
  S1: (x: number) => xor(xor(rotated(x, 6), rotated(x, 11)), rotated(x, 25))
}
type Sigma = keyof typeof FOLD

/**
 * Emits SHA-256 of one block for four nonces at once, all rounds in a row. Whatever depends on the seed alone is worked out once a job, in
 * JavaScript, by the same walk: it becomes the job's table, which the code loads from.
 */
class LanesEmitter {
  readonly #fixed: ((table: Int32Array) => number)[] = []
  readonly #code: number[] = []

  fix(evaluate: (table: Int32Array) => number): { fixed: number } {
    this.#fixed.push(evaluate)
    return { fixed: JOB_WORDS + this.#fixed.length - 1 }
  }

  constant(value: number): { fixed: number } {
    return this.fix(() => value)
  }

  emit(code: Code): void {
    for (const byte of code) this.#code.push(byte)
  }

  code(word: Word): Code {
    return 'local' in word ? get(word.local) : loadSplat(word.fixed * 4)
  }

  sigma(kind: Sigma, word: Word): Word | { code: Code } {
    if ('local' in word) return { code: LANES[kind](word.local) }
    return this.fix((table) => FOLD[kind](table[word.fixed] as number))
  }

  /** The sum: what is fixed of it becomes one entry of the table. */
  sum(terms: (Word | { code: Code })[]): { fixed: number } | { code: Code } {
    const fixed = terms.filter((term) => 'fixed' in term)
    const moving = terms.flatMap((term) => ('code' in term ? [term.code] : 'local' in term ? [get(term.local)] : []))
    const slots = fixed.map((term) => term.fixed)
    const constant =
      slots.length === 1
        ? { fixed: slots[0] as number }
        : this.fix((table) => slots.reduce((sum, slot) => (sum + (table[slot] as number)) | 0, 0))
    if (moving.length === 0) return constant
    return { code: [...(fixed.length > 0 ? [loadSplat(constant.fixed * 4)] : []), ...moving].reduce((a, b) => add(a, b)) }
  }

  /** Keeps a sum: one that moves goes into `local`. */
  keep(local: number, value: { fixed: number } | { code: Code }): Word {
    if ('fixed' in value) return value
    this.emit(set(local, value.code))
    return { local }
  }

  finish(): { body: Code; table: (words: Int32Array) => Int32Array } {
    const fixed = [...this.#fixed]
    return {
      body: this.#code,
      table: (words) => {
        const table = new Int32Array(JOB_WORDS + fixed.length)
        table.set(words.subarray(0, JOB_WORDS))
        for (const [i, evaluate] of fixed.entries()) table[JOB_WORDS + i] = evaluate(table)
        return table
      }
    }
  }
}

function choose(e: LanesEmitter, x: Word, y: Word, z: Word): Word | { code: Code } {
  if ('fixed' in x && 'fixed' in y && 'fixed' in z) {
    const [a, b, c] = [x.fixed, y.fixed, z.fixed]
    return e.fix((t) => (t[c] as number) ^ ((t[a] as number) & ((t[b] as number) ^ (t[c] as number))))
  }
  return { code: xor(e.code(z), and(e.code(x), xor(e.code(y), e.code(z)))) }
}

/** Majority of a, b, c as b ^ ((a ^ b) & (b ^ c)); the next round needs this one's a ^ b as its b ^ c. */
function majority(e: LanesEmitter, [a, b, c]: [Word, Word, Word], bc: number | undefined, ab: number): Word | { code: Code } {
  if ('fixed' in a && 'fixed' in b && 'fixed' in c) {
    const [i, j, k] = [a.fixed, b.fixed, c.fixed]
    return e.fix((t) => {
      const [x, y, z] = [t[i] as number, t[j] as number, t[k] as number]
      return (x & y) | (z & (x | y))
    })
  }
  const left = tee(ab, xor(e.code(a), e.code(b)))
  const right = bc === undefined ? xor(e.code(b), e.code(c)) : get(bc)
  return { code: xor(e.code(b), and(left, right)) }
}

function emitSearch(): { module: Uint8Array<ArrayBuffer>; table: (words: Int32Array) => Int32Array; maskAddress: number; bytes: number } {
  const e = new LanesEmitter()
  const w: Word[] = Array.from({ length: JOB_WORDS }, (_, i) => ({ fixed: i }))
  w.push({ local: SCHEDULE + 9 })
  for (const value of PADDING) w.push(e.constant(value))
  e.emit(set(SCHEDULE + 9, add(splat(get(LO)), lanes(0, 1, 2, 3))))

  let state: Word[] = [...SHA256_INITIAL].map((value) => e.constant(value))
  const free = Array.from({ length: 9 }, (_, i) => STATE + i)
  const keepIn = (locals: number[], value: { fixed: number } | { code: Code }): Word =>
    'fixed' in value ? value : e.keep(locals.pop() as number, value)
  let bc: number | undefined
  for (let round = 0; round < 64; round++) {
    if (round >= 16) {
      const at = (back: number) => w[round - back] as Word
      w.push(e.keep(SCHEDULE + (round % 16), e.sum([e.sigma('s0', at(15)), e.sigma('s1', at(2)), at(16), at(7)])))
    }
    const [a, b, c, d, x, f, g, h] = state as [Word, Word, Word, Word, Word, Word, Word, Word]
    const t1 = e.keep(T1, e.sum([h, e.constant(SHA256_K[round] as number), w[round] as Word, choose(e, x, f, g), e.sigma('S1', x)]))
    if ('local' in h) free.push(h.local)
    const ab = AB + (round % 2)
    const most = majority(e, [a, b, c], bc, ab)
    bc = 'code' in most ? ab : undefined
    const newA = keepIn(free, e.sum([t1, e.sigma('S0', a), most]))
    if (round === 63) {
      state = [newA]
      break
    }
    // d is used for the last time here, so its local may take the new e
    if ('local' in d) free.push(d.local)
    const newE = keepIn(free, e.sum([d, t1]))
    state = [newA, a, b, c, newE, x, f, g]
  }
  const mask = e.fix(() => 0)
  const first = e.sum([state[0] as Word, e.constant(SHA256_INITIAL[0] as number)])
  const hit = anyTrue(equal(and((first as { code: Code }).code, loadSplat(mask.fixed * 4)), lanes(0, 0, 0, 0)))
  e.emit(returnIf(hit, get(LO)))
  e.emit(set(LO, i32Add(get(LO), i32(4))))
  e.emit(again(tee(ROUNDS_LEFT, i32Add(get(ROUNDS_LEFT), i32(-1)))))
  const { body, table } = e.finish()
  return {
    module: wasmModule({ params: 2, locals: LOCALS, body: [...loop(body), ...i32(-1)] }),
    table,
    maskAddress: mask.fixed * 4,
    bytes: body.length
  }
}

export interface LanesSearch {
  /** Sets the nine words that all tries share, and how many leading zero bits (at most 32) end the search. */
  begin(words: Int32Array, bits: number): void
  /**
   * Tries `4 · rounds` nonces from `lo` on, a multiple of four.
   * @returns the first of the four among which a hit is, or undefined
   */
  run(lo: number, rounds: number): number | undefined
}

/** The search in WebAssembly SIMD, or undefined where the platform has none. */
export function createLanesSearch(): LanesSearch | undefined {
  const { module, table, maskAddress } = emitSearch()
  if (typeof WebAssembly === 'undefined' || !WebAssembly.validate(module)) return undefined
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module))
  const memory = new Int32Array((exports.memory as WebAssembly.Memory).buffer)
  const run = exports.run as (lo: number, rounds: number) => number
  return {
    begin(words, bits) {
      memory.set(table(words))
      memory[maskAddress / 4] = bits === 0 ? 0 : -1 << (32 - bits)
    },
    run(lo, rounds) {
      const hit = run(lo | 0, rounds)
      return hit === -1 ? undefined : hit >>> 0
    }
  }
}
