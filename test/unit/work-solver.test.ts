import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { nonceBytes, workBits } from '../../protocol/discovery/work.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { seededRandom, systemRandom } from '../../src/platform/random.ts'
import { createSearch, ScalarSearch } from '../../src/work/search.ts'
import { createLanesSearch } from '../../src/work/sha256-lanes.ts'
import { createWorkSolver, type WorkSolverInit } from '../../src/work/solver.ts'
import { type WorkProgress, type WorkSolver, workProgress } from '../../src/work/work-solver.ts'

/** The first nonce of a slice that node:crypto finds, the plain way. */
function plainSearch(seed: Uint8Array, hi: number, lo: number, tries: number, bits: number): number | undefined {
  for (let at = lo; at < lo + tries; at++) {
    const digest = createHash('sha256')
      .update(seed)
      .update(nonceBytes((BigInt(hi >>> 0) << 32n) | BigInt(at)))
      .digest()
    if (bits === 0 || digest.readUInt32BE(0) >>> (32 - bits) === 0) return at
  }
  return undefined
}

describe('the search for work', () => {
  it('[AD-02] finds in WebAssembly SIMD and in plain JavaScript the first nonce that node:crypto finds', () => {
    const searches = [createSearch(), new ScalarSearch()]
    expect(searches.map((search) => search.kind)).toEqual(['simd', 'js'])
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.integer(),
        fc.constantFrom(0, 4_096, 2 ** 31 - 256, 2 ** 32 - 512),
        fc.integer({ min: 0, max: 12 }),
        (seed, hi, lo, bits) => {
          const expected = plainSearch(seed, hi, lo, 512, bits)
          for (const search of searches) {
            search.begin(seed, hi, bits)
            expect([search.kind, search.slice(lo, 512)]).toEqual([search.kind, expected])
          }
        }
      ),
      { numRuns: 100 }
    )
  })

  it('does without WebAssembly where the platform has none or knows no SIMD', () => {
    vi.stubGlobal('WebAssembly', undefined)
    try {
      expect(createLanesSearch()).toBeUndefined()
      expect(createSearch().kind).toBe('js')
      vi.stubGlobal('WebAssembly', { validate: () => false })
      expect(createSearch().kind).toBe('js')
    } finally {
      vi.unstubAllGlobals()
    }
  })
})

describe('the solver', () => {
  let solver: WorkSolver
  const open = (init: WorkSolverInit = {}) => {
    solver = createWorkSolver({ clock: systemClock, random: systemRandom }, { threads: 2, ...init })
    return solver
  }
  afterEach(() => solver.stop())

  it('[AD-02] finds the work asked for, one search after the other, in threads that it keeps', async () => {
    open()
    const seeds = Array.from({ length: 4 }, (_, i) => seededRandom(i).bytes(32))
    const nonces = await Promise.all(seeds.map((seed) => solver.solve(seed, 14)))
    for (const [i, nonce] of nonces.entries()) expect(workBits(seeds[i] as Uint8Array, nonce)).toBeGreaterThanOrEqual(14)
  })

  it('[AD-02] gives up above its own limit of 24 bits, whatever it is asked for', async () => {
    open()
    await expect(solver.solve(new Uint8Array(32), 25)).rejects.toMatchObject({ code: 'WORK_TOO_HARD', field: 'difficulty', value: 25 })
  })

  it('ends the search itself when its signal fires, and goes on with the next', async () => {
    open({ bitsMax: 32 })
    const seed = seededRandom(7).bytes(32)
    const giveUp = new AbortController()
    const told = Promise.withResolvers<WorkProgress>()
    const onProgress = (progress: WorkProgress) => {
      if (progress.tries > 0) told.resolve(progress)
    }
    const hard = solver.solve(seed, 32, { signal: giveUp.signal, onProgress })
    hard.catch(() => {})
    const progress = await told.promise
    giveUp.abort(new Error('enough'))
    await expect(hard).rejects.toThrow('enough')
    expect(progress).toMatchObject({ bits: 32, expected: 2 ** 32 })
    expect(progress.etaMs).toBeGreaterThan(0)
    expect(workBits(seed, await solver.solve(seed, 8))).toBeGreaterThanOrEqual(8)
  })

  it('ends what is under way and what waits when it is stopped', async () => {
    open({ threads: 1, bitsMax: 32 })
    const both = [solver.solve(seededRandom(8).bytes(32), 32), solver.solve(seededRandom(9).bytes(32), 32)]
    const outcomes = Promise.allSettled(both)
    await solver.stop()
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'SOLVER_STOPPED' } })
    }
  })

  it('refuses the 65th that waits', async () => {
    open({ threads: 1, bitsMax: 32 })
    const giveUp = new AbortController()
    const waiting = Array.from({ length: 64 }, () => solver.solve(seededRandom(1).bytes(32), 32, { signal: giveUp.signal }))
    const ended = Promise.allSettled(waiting)
    await expect(solver.solve(new Uint8Array(32), 1)).rejects.toMatchObject({ code: 'SOLVER_BUSY' })
    giveUp.abort(new Error('enough'))
    await ended
  })
})

describe('the estimate of a search', () => {
  it('tells the chance to be done by now and what is still to come on average', () => {
    const half = workProgress(16, 45_426, 1_000)
    expect(half.probability).toBeCloseTo(0.5, 4)
    expect(half.triesPerSec).toBe(45_426)
    expect(half.etaMs).toBeCloseTo((65_536 / 45_426) * 1_000, 6)
    expect(workProgress(24, 0, 0)).toMatchObject({ probability: 0, etaMs: Number.POSITIVE_INFINITY, expected: 16_777_216 })
    expect(workProgress(24, 10 * 2 ** 24, 1).probability).toBeLessThan(1)
  })
})
