import { describe, expect, it } from 'vitest'
import { readCorpus } from '../fuzz/engine/corpus.ts'
import { instrument } from '../fuzz/engine/instrument.ts'
import { readCbor, writeCbor } from '../fuzz/engine/mutate-cbor.ts'
import { FuzzRandom } from '../fuzz/engine/random.ts'
import { readRegressions } from '../fuzz/engine/record.ts'
import type { FuzzTarget } from '../fuzz/target.ts'
import { TARGET_FILES } from '../fuzz/targets/index.ts'

const files = Object.keys(TARGET_FILES) as (keyof typeof TARGET_FILES)[]
const targetsOf = async (file: string) => ((await import(`../fuzz/targets/${file}.ts`)) as { targets: readonly FuzzTarget[] }).targets
/** Inputs of one target that are run again here; the fuzzer itself runs all of them. */
const CORPUS_SAMPLE = 40

describe.each(files)('fuzz targets of %s', { timeout: 180_000 }, (file) => {
  it('[D-14] are those that the index names', async () => {
    expect((await targetsOf(file)).map(({ name }) => name)).toEqual([...TARGET_FILES[file]])
  })

  it('[D-14] take what is in their corpus, and what once broke them, without an untyped throw', async () => {
    for (const target of await targetsOf(file)) {
      const broke = readRegressions().filter((one) => one.target === target.name)
      for (const { input } of broke) await target.run(new Uint8Array(Buffer.from(input, 'base64')))
      const corpus = readCorpus(target.name)
      const every = Math.max(1, Math.ceil(corpus.length / CORPUS_SAMPLE))
      for (const [index, input] of corpus.entries()) if (index % every === 0) await target.run(input)
      for (const seed of [...target.seeds()].slice(0, CORPUS_SAMPLE)) await target.run(seed)
    }
  })
})

describe('the fuzzer', () => {
  const run = (source: string) => {
    const { source: instrumented, counters } = instrument(source, 0)
    const edges = new Uint8Array(64)
    const pairs: unknown[] = []
    const compare = (a: unknown, b: unknown) => {
      if (a !== b) pairs.push([a, b])
      return a === b
    }
    const body = instrumented.replace(/^const [^;]*;/, '')
    const value = new Function('__fuzzEdges', '__fuzzCompare', body)(edges, compare)
    return { value, taken: [...edges.subarray(0, counters)], pairs }
  }

  it('[D-14] counts each branch that is taken, and the one that is not there', () => {
    const { value, taken } = run('let x = 3; if (x > 5) x = 1; for (const y of [1, 2]) x += y; return x ? x || 9 : (() => 7)()')
    expect(value).toBe(6)
    // then, the absent else, the loop's body twice, the true arm, || untaken, the false arm, its function
    expect(taken).toEqual([0, 1, 2, 1, 0, 0, 0])
  })

  it('[D-14] leaves a program as it was: nesting, arrow functions, switches and lines', () => {
    const source = [
      'const f = (n) => n === 1 ? "one" : n !== 2 ? { n } : "two"',
      'const g = (n) => { switch (n) { case 1: case 2: return "low"; default: return n ?? "none" } }',
      'try { null.x } catch { return [f(1), f(2), f(3), g(1), g(9), g(undefined), f(1) === "one" && f(2)] }'
    ].join('\n')
    expect(run(source).value).toEqual(new Function(source)())
    expect(instrument(source, 0).source.split('\n').length).toBe(3)
  })

  it('[D-14] shows what a comparison that failed compared, so that an input can be made to fit', () => {
    expect(run('const kind = "a"; if (kind === "locator") return 1; return 0').pairs).toEqual([['a', 'locator']])
  })

  it('[D-14] makes the same numbers of the same seed', () => {
    const draw = (seed: number) =>
      Array.from(
        { length: 8 },
        (
          (random) => () =>
            random.below(1_000)
        )(new FuzzRandom(seed))
      )
    expect(draw(7)).toEqual(draw(7))
    expect(draw(7)).not.toEqual(draw(8))
    expect(new Set(draw(7)).size).toBeGreaterThan(5)
  })

  it('[D-14] writes the CBOR that it read, so that what it changes stays well-formed', () => {
    const bytes = Uint8Array.from([0xa2, 0x61, 0x61, 0x82, 0x01, 0x20, 0x61, 0x62, 0x42, 0x01, 0x02])
    const read = readCbor(bytes)
    expect(read?.end).toBe(bytes.length)
    const never = { oneIn: () => false } as unknown as FuzzRandom
    expect(writeCbor(read?.tree, never)).toEqual(bytes)
    expect(readCbor(bytes.subarray(0, 5))).toBeUndefined()
  })
})
