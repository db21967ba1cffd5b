import { type Mutator, mutateBytes, spliced, word } from './mutate-bytes.ts'
import { mutateTree, type Tree } from './mutate-tree.ts'
import type { FuzzRandom } from './random.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const DEPTH_MAX = 64

/** Reads one CBOR item leniently: definite lengths only, anything else is refused. @returns undefined where it is none */
export function readCbor(bytes: Uint8Array, start = 0): { tree: Tree; end: number } | undefined {
  let at = start
  const fail = Symbol('fail')
  const take = (count: number) => {
    if (count > bytes.length - at) throw fail
    at += count
    return bytes.subarray(at - count, at)
  }
  const argument = (info: number): number => {
    if (info < 24) return info
    if (info > 27) throw fail
    let value = 0
    for (const byte of take(1 << (info - 24))) value = value * 256 + byte
    return value
  }
  const item = (depth: number): Tree => {
    if (depth > DEPTH_MAX) throw fail
    const head = take(1)[0] as number
    const major = head >> 5
    if (major === 7) {
      if (head === 0xf4 || head === 0xf5) return head === 0xf5
      if (head === 0xf6) return null
      throw fail
    }
    const value = argument(head & 31)
    if (major === 0) return value
    if (major === 1) return -1 - value
    if (major === 2) return take(value).slice()
    if (major === 3) return decoder.decode(take(value))
    if (major === 6 || value > bytes.length - at) throw fail
    if (major === 4) return Array.from({ length: value }, () => item(depth + 1))
    const map = new Map<string, Tree>()
    for (let i = 0; i < value; i++) {
      const key = item(depth + 1)
      map.set(typeof key === 'string' ? key : String(key), item(depth + 1))
    }
    return map
  }
  try {
    const tree = item(0)
    return { tree, end: at }
  } catch (error) {
    if (error === fail) return undefined
    throw error
  }
}

/** Writes a tree in its deterministic form, or, one time in thirty, with a head that is too long or keys in another order. */
export function writeCbor(tree: Tree, random: FuzzRandom): Uint8Array {
  const parts: number[] = []
  const head = (major: number, value: number) => {
    const sizes = [24, 256, 65_536, 2 ** 32]
    let width = sizes.findIndex((size) => value < size)
    if (width < 0) width = 4
    if (random.oneIn(60)) width = Math.min(4, width + 1)
    if (width === 0) parts.push((major << 5) | value)
    else {
      parts.push((major << 5) | (23 + width))
      let rest = BigInt(value)
      const bytes: number[] = []
      for (let i = 0; i < 1 << (width - 1); i++, rest >>= 8n) bytes.unshift(Number(rest & 255n))
      parts.push(...bytes)
    }
  }
  const put = (bytes: Uint8Array) => {
    for (const byte of bytes) parts.push(byte)
  }
  const item = (value: Tree): void => {
    if (value === undefined || value === null) parts.push(0xf6)
    else if (typeof value === 'boolean') parts.push(value ? 0xf5 : 0xf4)
    else if (typeof value === 'number' || typeof value === 'bigint') {
      const number = Number(value)
      if (!Number.isInteger(number) || Math.abs(number) >= 2 ** 64) {
        const float = new Uint8Array(9)
        new DataView(float.buffer).setFloat64(1, number)
        float[0] = 0xfb
        put(float)
      } else if (number < 0) head(1, -1 - number)
      else head(0, number)
    } else if (typeof value === 'string') {
      const bytes = encoder.encode(value)
      head(3, bytes.length)
      put(bytes)
    } else if (value instanceof Uint8Array) {
      head(2, value.length)
      put(value)
    } else if (Array.isArray(value)) {
      head(4, value.length)
      value.forEach(item)
    } else {
      const entries = [...value].map(([key, one]) => [encoder.encode(key), one] as const)
      if (!random.oneIn(30)) entries.sort(([a], [b]) => a.length - b.length || Buffer.compare(a, b))
      head(5, entries.length)
      for (const [key, one] of entries) {
        head(3, key.length)
        put(key)
        item(one)
      }
    }
  }
  item(tree)
  return Uint8Array.from(parts)
}

/** Byte strings that hold CBOR open up, now and then, so that what is inside gets changed too. */
function mutateInside(tree: Tree, random: FuzzRandom, mutate: (tree: Tree) => Tree): Tree {
  const holders: { bytes: Uint8Array; tree: Tree }[] = []
  const look = (value: Tree): void => {
    if (value instanceof Uint8Array) {
      const read = value.length > 2 ? readCbor(value) : undefined
      if (read !== undefined && read.end === value.length && typeof read.tree === 'object') holders.push({ bytes: value, tree: read.tree })
    } else if (Array.isArray(value)) value.forEach(look)
    else if (value instanceof Map) for (const one of value.values()) look(one)
  }
  look(tree)
  const chosen = random.pick(holders)
  if (chosen === undefined || random.oneIn(4)) return mutate(tree)
  const within = writeCbor(mutateInside(chosen.tree, random, mutate), random)
  const put = (value: Tree): Tree => {
    if (value === chosen.bytes) return within
    if (Array.isArray(value)) return value.map(put)
    return value instanceof Map ? new Map([...value].map(([key, one]) => [key, put(one)])) : value
  }
  return put(tree)
}

/** Changes the tree of a CBOR item, at the start of the input or behind a prefix of up to eight bytes. */
export function mutateCbor(own: readonly string[]): Mutator {
  return (bytes, random, other) => {
    const prefix = random.oneIn(4) ? random.below(9) : 0
    const read = readCbor(bytes, prefix) ?? readCbor(bytes)
    if (read === undefined) return mutateBytes(bytes, random, other)
    const start = read === undefined ? 0 : readCbor(bytes, prefix) === undefined ? 0 : prefix
    const lent = readCbor(other)?.tree
    const words = { random, word: () => word(random, own) }
    let { tree } = read
    for (let times = 1 + random.below(3); times > 0; times--) tree = mutateInside(tree, random, (one) => mutateTree(one, lent, words))
    return spliced(bytes, start, read.end - start, writeCbor(tree, random))
  }
}
