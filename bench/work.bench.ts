/** How many tries a second does the solver make, and how many tokens does a node check, beside a bare loop of SHA-256 compressions in JavaScript? */
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { compressBlock, SHA256_INITIAL } from '../protocol/discovery/sha256-block.ts'
import { requestWorkBits } from '../protocol/discovery/work.ts'
import { systemClock } from '../src/platform/clock.ts'
import { systemRandom } from '../src/platform/random.ts'
import { createSearch, ScalarSearch, type Search } from '../src/work/search.ts'
import { createWorkSolver } from '../src/work/solver.ts'
import type { WorkProgress } from '../src/work/work-solver.ts'
import { compare } from './harness.ts'

const ROUNDS = 9
const SAMPLE_MS = 300
const SLICE = 16_384
const BARE = 'bare loop: one compression a try from the initial state, JavaScript'

/** Calls a second of `slice`, `count` of them at a time, by the time that this thread had a core: others share the machine. */
function rate(count: number, slice: (from: number) => void): number {
  const started = process.threadCpuUsage()
  let done = 0
  for (;;) {
    slice(done)
    done += count
    const { user, system } = process.threadCpuUsage(started)
    if (user + system >= SAMPLE_MS * 1_000) return (done / (user + system)) * 1e6
  }
}

const block = new Int32Array(64)
const state = new Int32Array(8)
function bare(from: number): void {
  for (let i = 0; i < SLICE; i++) {
    block[9] = from + i
    state.set(SHA256_INITIAL)
    compressBlock(state, block)
  }
}

const seed = new Uint8Array(randomBytes(32))
const searching = (search: Search) => {
  search.begin(seed, 1, 32)
  return () => rate(SLICE, (from) => search.slice(from, SLICE))
}
const scalar = searching(new ScalarSearch())
const best = createSearch()
const simd = searching(best)
const header = new Uint8Array(randomBytes(120))

await compare(
  {
    id: 'work',
    question: 'Tries and checks a second on one core',
    unit: '1/s',
    better: 'higher',
    placement: 'one thread, by its CPU time',
    baseline: BARE,
    rounds: ROUNDS
  },
  [
    { name: BARE, sample: async () => rate(SLICE, bare) },
    { name: 'solver, plain JavaScript', sample: async () => scalar() },
    { name: `solver, ${best.kind}`, sample: async () => simd() },
    {
      name: 'tokens verified (seed and try)',
      sample: async () =>
        rate(1_024, (from) => {
          for (let i = 0; i < 1_024; i++) {
            header[40] = from + i
            requestWorkBits(header)
          }
        })
    }
  ]
)

const threads = availableParallelism()
const solver = createWorkSolver({ clock: systemClock, random: systemRandom }, { bitsMax: 32 })

/** Tries a second between two reports, by the wall clock: what others leave of all cores. */
async function together(): Promise<number> {
  const enough = new AbortController()
  let first: WorkProgress | undefined
  let last: WorkProgress | undefined
  const onProgress = (progress: WorkProgress) => {
    if (progress.tries === 0) return
    first ??= progress
    last = progress
    if (progress.elapsedMs - first.elapsedMs > 2 * SAMPLE_MS) enough.abort()
  }
  await solver.solve(systemRandom.bytes(32), 32, { signal: enough.signal, onProgress }).catch(() => {})
  if (first === undefined || last === undefined || last === first) return Number.NaN
  return ((last.tries - first.tries) / (last.elapsedMs - first.elapsedMs)) * 1_000
}

/** The bare loop by the wall clock, beside the one above. */
async function bareByWall(): Promise<number> {
  const startedMs = performance.now()
  let tries = 0
  while (performance.now() - startedMs < SAMPLE_MS) {
    bare(tries)
    tries += SLICE
  }
  return (tries / (performance.now() - startedMs)) * 1_000
}

await compare(
  {
    id: 'work-all-cores',
    question: `Tries a second of the solver on ${threads} threads`,
    unit: '1/s',
    better: 'higher',
    placement: 'by the wall clock',
    baseline: BARE,
    rounds: ROUNDS
  },
  [
    { name: BARE, sample: bareByWall },
    { name: `solver, ${threads} threads`, sample: together }
  ]
)
await solver.stop()
