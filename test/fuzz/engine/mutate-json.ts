import { type Mutator, mutateBytes, word } from './mutate-bytes.ts'
import { mutateTree, type Tree } from './mutate-tree.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** JSON in, a tree out; maps keep `__proto__` as an ordinary member. */
export function readJson(text: string): Tree {
  return JSON.parse(text, (_, value: unknown) =>
    value !== null && typeof value === 'object' && !Array.isArray(value) ? new Map(Object.entries(value)) : value
  ) as Tree
}

/** Byte strings are written as texts, as nothing in JSON is one. */
export function writeJson(tree: Tree): string {
  if (tree === undefined || tree === null) return 'null'
  if (typeof tree === 'string') return JSON.stringify(tree)
  if (typeof tree === 'number' || typeof tree === 'bigint' || typeof tree === 'boolean') return Object.is(tree, -0) ? '-0' : String(tree)
  if (tree instanceof Uint8Array) return JSON.stringify(Buffer.from(tree).toString('base64url'))
  if (Array.isArray(tree)) return `[${tree.map(writeJson).join(',')}]`
  return `{${[...tree].map(([key, value]) => `${JSON.stringify(key)}:${writeJson(value)}`).join(',')}}`
}

function treeOf(bytes: Uint8Array): Tree {
  try {
    return readJson(decoder.decode(bytes))
  } catch {
    return undefined
  }
}

/** What stands before the JSON of an input: nothing, a line of plain text, or lines up to an empty one. */
type Lead = 'none' | 'line' | 'head'

function startOf(bytes: Uint8Array, lead: Lead): number {
  if (lead === 'none') return 0
  if (lead === 'line') return bytes.indexOf(10) + 1
  const end = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf('\n\n')
  return end < 0 ? bytes.length : end + 2
}

/** Changes the tree of an input that is JSON, behind its lead. */
export function mutateJson(own: readonly string[], lead: Lead = 'none'): Mutator {
  return (bytes, random, other) => {
    const start = startOf(bytes, lead)
    const tree = treeOf(bytes.subarray(start))
    if (tree === undefined) return mutateBytes(bytes, random, other)
    const lent = treeOf(other.subarray(startOf(other, lead)))
    const words = { random, word: () => word(random, own) }
    let made: Tree = tree
    for (let times = 1 + random.below(3); times > 0; times--) made = mutateTree(made, lent, words)
    return Buffer.concat([bytes.subarray(0, start), encoder.encode(writeJson(made))])
  }
}

/** Changes one line of an input, puts one of another input in its place, leaves it out or doubles it. */
export function mutateLines(changed: Mutator): Mutator {
  return (bytes, random, other) => {
    const lines = Buffer.from(bytes).toString('latin1').split('\n')
    const at = random.below(lines.length)
    const one = lines[at] ?? ''
    const lent = random.pick(Buffer.from(other).toString('latin1').split('\n')) ?? ''
    const made = Buffer.from(changed(Buffer.from(one, 'latin1'), random, Buffer.from(lent, 'latin1'))).toString('latin1')
    const put = [[made], [made], [lent], [], [one, made]][random.below(5)] ?? []
    return Buffer.from(lines.toSpliced(at, 1, ...put).join('\n'), 'latin1')
  }
}
