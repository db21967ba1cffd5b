import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { EDGES_MAX, instrument } from './instrument.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** What a comparison that failed compared, newest last; overwritten in a ring. */
const PAIRS_MAX = 256

const known = new Set<string>()

type Compared = string | number | bigint

/** What the instrumented modules write to while an input runs. */
export const seen = {
  edges: new Uint8Array(EDGES_MAX),
  /** counters given out so far */
  edgeCount: 0,
  words: [] as string[],
  pairs: [] as [Compared, Compared][],
  pairAt: 0
}

function isCompared(value: unknown): value is Compared {
  return typeof value === 'number' || typeof value === 'bigint' || (typeof value === 'string' && value.length > 0 && value.length <= 64)
}

function compare(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a === typeof b && isCompared(a) && isCompared(b)) {
    seen.pairs[seen.pairAt] = [a, b]
    seen.pairAt = (seen.pairAt + 1) % PAIRS_MAX
  }
  return false
}

Object.assign(globalThis, { __fuzzEdges: seen.edges, __fuzzCompare: compare })

/** Every module of protocol/, src/ and sim/ that is loaded from here on is instrumented. */
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    if (!url.startsWith('file:') || loaded.format !== 'module-typescript' || loaded.source == null) return loaded
    const path = fileURLToPath(url)
    if (!['protocol/', 'src/', 'sim/'].some((part) => path.startsWith(ROOT + part))) return loaded
    const source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source as Uint8Array)
    const instrumented = instrument(source, seen.edgeCount)
    if (seen.edgeCount + instrumented.counters > EDGES_MAX) throw new RangeError(`more than ${EDGES_MAX} branches: raise EDGES_MAX`)
    seen.edgeCount += instrumented.counters
    for (const word of instrumented.words) if (!known.has(word)) seen.words.push(word)
    for (const word of instrumented.words) known.add(word)
    return { ...loaded, source: instrumented.source }
  }
})
