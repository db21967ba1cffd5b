import { seen } from './hooks.ts'
import type { FuzzRandom } from './random.ts'

const INTERESTING = [
  0,
  1,
  2,
  3,
  4,
  7,
  8,
  15,
  16,
  23,
  24,
  31,
  32,
  63,
  64,
  127,
  128,
  255,
  256,
  1_024,
  4_096,
  32_767,
  32_768,
  65_535,
  65_536,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1
]
const encoder = new TextEncoder()

export type Mutator = (bytes: Uint8Array, random: FuzzRandom, other: Uint8Array) => Uint8Array

/** `bytes` with `drop` bytes at `at` replaced. */
export function spliced(bytes: Uint8Array, at: number, drop: number, put: Uint8Array): Uint8Array {
  const made = new Uint8Array(bytes.length - drop + put.length)
  made.set(bytes.subarray(0, at))
  made.set(put, at)
  made.set(bytes.subarray(at + drop), at + put.length)
  return made
}

/** An integer, big-endian mostly, in 1, 2, 4 or 8 bytes. */
export function integerBytes(value: number | bigint, width: number, order: 'big' | 'little' = 'big'): Uint8Array {
  const bytes = new Uint8Array(width)
  let rest = BigInt.asUintN(64, BigInt(value))
  for (let i = 0; i < width; i++, rest >>= 8n) bytes[order === 'big' ? width - 1 - i : i] = Number(rest & 255n)
  return bytes
}

const WIDTHS = [1, 2, 4, 8] as const

const BYTE_MUTATORS: readonly Mutator[] = [
  (bytes, random) => {
    const made = bytes.slice()
    const bit = random.below(made.length * 8)
    if (made.length > 0) made[bit >> 3] = (made[bit >> 3] as number) ^ (1 << (bit & 7))
    return made
  },
  (bytes, random) => {
    const made = bytes.slice()
    if (made.length > 0) made[random.below(made.length)] = random.below(256)
    return made
  },
  (bytes, random) => {
    const made = bytes.slice()
    const at = random.below(made.length)
    if (made.length > 0) made[at] = (made[at] as number) + (random.oneIn(2) ? 1 + random.below(16) : -1 - random.below(16))
    return made
  },
  (bytes, random) => {
    const width = random.pick(WIDTHS) ?? 1
    const put = integerBytes(random.pick(INTERESTING) ?? 0, width, random.oneIn(4) ? 'little' : 'big')
    const at = random.below(bytes.length + 1)
    return spliced(bytes, at, random.oneIn(3) ? 0 : Math.min(width, bytes.length - at), put)
  },
  (bytes, random) => {
    const at = random.below(bytes.length)
    return spliced(bytes, at, Math.min(1 + random.below(random.oneIn(4) ? bytes.length : 8), bytes.length - at), new Uint8Array(0))
  },
  (bytes, random) => {
    const put = new Uint8Array(1 + random.below(random.oneIn(8) ? 256 : 8)).fill(random.below(256))
    return spliced(bytes, random.below(bytes.length + 1), 0, put)
  },
  (bytes, random) => {
    const from = random.below(bytes.length)
    const part = bytes.slice(from, from + 1 + random.below(32))
    const at = random.below(bytes.length + 1)
    return spliced(bytes, at, random.oneIn(2) ? 0 : Math.min(part.length, bytes.length - at), part)
  },
  (bytes, random, other) => {
    const from = random.below(other.length)
    const part = other.subarray(from, from + 1 + random.below(random.oneIn(3) ? other.length : 32))
    const at = random.below(bytes.length + 1)
    return spliced(bytes, at, random.oneIn(2) ? 0 : Math.min(part.length, bytes.length - at), part)
  },
  (bytes, random, other) => {
    const cut = random.below(bytes.length + 1)
    return spliced(bytes, cut, bytes.length - cut, other.subarray(random.below(other.length + 1)))
  },
  (bytes, random) => bytes.slice(0, random.below(bytes.length + 1)),
  comparedValue,
  comparedValue
]

/** Where the input holds one side of a comparison that failed, puts the other side there. */
function comparedValue(bytes: Uint8Array, random: FuzzRandom): Uint8Array {
  const pair = random.pick(seen.pairs)
  if (pair === undefined) return bytes
  const [from, to] = random.oneIn(2) ? pair : ([pair[1], pair[0]] as const)
  if (typeof from === 'string' || typeof to === 'string')
    return replaced(bytes, encoder.encode(String(from)), encoder.encode(String(to)), random)
  if (!Number.isInteger(Number(from)) || !Number.isInteger(Number(to))) return bytes
  for (const width of WIDTHS) {
    const made = replaced(bytes, integerBytes(from, width), integerBytes(to, width), random)
    if (made !== bytes && random.oneIn(2)) return made
  }
  return replaced(bytes, encoder.encode(String(from)), encoder.encode(String(to)), random)
}

function replaced(bytes: Uint8Array, from: Uint8Array, to: Uint8Array, random: FuzzRandom): Uint8Array {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const start = random.below(bytes.length)
  const later = whole.indexOf(from, start)
  const at = later < 0 ? whole.indexOf(from) : later
  return at < 0 ? bytes : spliced(bytes, at, from.length, to)
}

export const mutateBytes: Mutator = (bytes, random, other) => {
  const mutator = random.pick(BYTE_MUTATORS) as Mutator
  return mutator(bytes, random, other)
}

/** A word of the code or of the target. */
export function word(random: FuzzRandom, own: readonly string[]): string {
  if (own.length > 0 && !random.oneIn(4)) return random.pick(own) ?? ''
  return random.pick(seen.words) ?? ''
}

/** Puts a word somewhere. */
export function mutateWords(own: readonly string[]): Mutator {
  return (bytes, random) => {
    const put = encoder.encode(word(random, own))
    const at = random.below(bytes.length + 1)
    return spliced(bytes, at, random.oneIn(2) ? 0 : Math.min(put.length, bytes.length - at), put)
  }
}
