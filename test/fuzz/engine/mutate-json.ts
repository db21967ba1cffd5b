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

/** Changes the tree of an input that is JSON, after a first line of plain text where `lead` says that there is one. */
export function mutateJson(own: readonly string[], lead: 'none' | 'line' = 'none'): Mutator {
  return (bytes, random, other) => {
    const start = lead === 'line' ? bytes.indexOf(10) + 1 : 0
    const tree = treeOf(bytes.subarray(start))
    if (tree === undefined) return mutateBytes(bytes, random, other)
    const lent = treeOf(lead === 'line' ? other.subarray(other.indexOf(10) + 1) : other)
    const words = { random, word: () => word(random, own) }
    let made: Tree = tree
    for (let times = 1 + random.below(3); times > 0; times--) made = mutateTree(made, lent, words)
    return Buffer.concat([bytes.subarray(0, start), encoder.encode(writeJson(made))])
  }
}
