import type { FuzzRandom } from './random.ts'

/** What both CBOR and JSON come to. */
export type Tree = undefined | null | boolean | number | bigint | string | Uint8Array | Tree[] | Map<string, Tree>

const NUMBERS = [0, 1, -1, 2, 23, 24, 255, 256, 65_535, 65_536, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, -(2 ** 53), 1e308, 0.5, -0]
const TEXTS = [
  '',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  '\u0000',
  '\ud800',
  'é',
  'e\u0301',
  '../../etc/passwd',
  '%2e%2e%2f',
  'a'.repeat(300),
  '\r\nx: y',
  '1e400',
  '-0',
  'null'
]

export interface TreeWords {
  readonly random: FuzzRandom
  readonly word: () => string
}

/** A copy of `tree` with one change somewhere in it. `other` lends parts. */
export function mutateTree(tree: Tree, other: Tree, words: TreeWords): Tree {
  const { random } = words
  const paths = placesOf(tree)
  const place = random.pick(paths) ?? []
  return changedAt(tree, place, 0, (value) => changed(value, other, words))
}

type Path = readonly (number | string)[]

/** At most this many places are looked at in a tree. */
const PLACES_MAX = 2_000

function placesOf(tree: Tree): Path[] {
  const places: Path[] = []
  const walk = (value: Tree, path: Path): void => {
    if (places.length >= PLACES_MAX) return
    places.push(path)
    if (Array.isArray(value)) for (const [at, item] of value.entries()) walk(item, [...path, at])
    else if (value instanceof Map) for (const [key, item] of value) walk(item, [...path, key])
  }
  walk(tree, [])
  return places
}

function changedAt(tree: Tree, path: Path, at: number, change: (value: Tree) => Tree): Tree {
  const step = path[at]
  if (step === undefined) return change(tree)
  if (Array.isArray(tree)) return tree.map((item, index) => (index === step ? changedAt(item, path, at + 1, change) : item))
  if (tree instanceof Map)
    return new Map([...tree].map(([key, item]) => [key, key === step ? changedAt(item, path, at + 1, change) : item]))
  return tree
}

function changed(value: Tree, other: Tree, words: TreeWords): Tree {
  const { random, word } = words
  const lent = () => partOf(other, random)
  if (random.oneIn(6)) return anything(words)
  if (random.oneIn(8)) return lent()
  if (Array.isArray(value)) {
    const list = value.slice()
    const at = random.below(list.length)
    switch (random.below(5)) {
      case 0:
        list.splice(at, 1)
        return list
      case 1:
        list.splice(at, 0, list[random.below(list.length)] ?? anything(words))
        return list
      case 2:
        return Array.from({ length: Math.min(300, list.length * (2 + random.below(20))) }, (_, i) => list[i % list.length])
      case 3:
        list.splice(random.below(list.length + 1), 0, lent())
        return list
      default:
        return list.reverse()
    }
  }
  if (value instanceof Map) {
    const keys = [...value.keys()]
    const key = random.pick(keys)
    const made = new Map(value)
    switch (random.below(5)) {
      case 0:
        if (key !== undefined) made.delete(key)
        return made
      case 1:
        return made.set(random.oneIn(4) ? (random.pick(TEXTS) ?? '') : word(), anything(words))
      case 2:
        return made.set(word(), lent())
      case 3:
        if (key === undefined) return made
        made.delete(key)
        return made.set(word(), value.get(key))
      default:
        return key === undefined ? made : made.set(key, made.get(random.pick(keys) ?? key))
    }
  }
  if (value instanceof Uint8Array) {
    const bytes = value.slice()
    switch (random.below(4)) {
      case 0:
        if (bytes.length > 0) bytes[random.below(bytes.length)] = random.below(256)
        return bytes
      case 1:
        return bytes.subarray(0, random.below(bytes.length + 1))
      case 2: {
        const longer = new Uint8Array(bytes.length + 1 + random.below(random.oneIn(6) ? 2_000 : 8))
        longer.set(bytes)
        return longer
      }
      default:
        return new Uint8Array(random.pick([0, 1, 15, 16, 31, 32, 33, 63, 64, 65]) ?? 0).fill(random.below(256))
    }
  }
  if (typeof value === 'number' || typeof value === 'bigint') {
    if (random.oneIn(2)) return random.pick(NUMBERS) ?? 0
    return Number(value) + (random.oneIn(2) ? 1 : -1) * (random.oneIn(4) ? random.u32() : 1 + random.below(64))
  }
  if (typeof value === 'string') return changedText(value, words)
  if (typeof value === 'boolean') return !value
  return anything(words)
}

function changedText(text: string, { random, word }: TreeWords): string {
  const at = random.below(text.length + 1)
  switch (random.below(7)) {
    case 0:
      return random.pick(TEXTS) ?? ''
    case 1:
      return word()
    case 2:
      return text.slice(0, at) + text.slice(at + 1)
    case 3:
      return text.slice(0, at) + String.fromCharCode(random.oneIn(3) ? random.below(0x1_0000) : random.below(128)) + text.slice(at)
    case 4:
      return text.slice(0, at) + word() + text.slice(at)
    case 5:
      return text.repeat(1 + random.below(12)).slice(0, 5_000)
    default:
      return random.oneIn(2) ? text.toUpperCase() : text.slice(at) + text.slice(0, at)
  }
}

function anything({ random, word }: TreeWords): Tree {
  switch (random.below(9)) {
    case 0:
      return random.pick(NUMBERS)
    case 1:
      return random.pick(TEXTS)
    case 2:
      return word()
    case 3:
      return random.oneIn(2)
    case 4:
      return null
    case 5:
      return []
    case 6:
      return new Map([[word(), random.below(300)]])
    case 7:
      return new Uint8Array(random.below(70)).fill(random.below(256))
    default: {
      let deep: Tree = 1
      for (let depth = 1 + random.below(random.oneIn(10) ? 400 : 20); depth > 0; depth--)
        deep = random.oneIn(2) ? [deep] : new Map([['a', deep]])
      return deep
    }
  }
}

function partOf(tree: Tree, random: FuzzRandom): Tree {
  let at = tree
  for (let depth = 1 + random.below(4); depth > 0; depth--) {
    const children: Tree[] = Array.isArray(at) ? at : at instanceof Map ? [...at.values()] : []
    if (children.length === 0) return at
    at = random.pick(children)
  }
  return at
}
