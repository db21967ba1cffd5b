import { describe, expect, it } from 'vitest'
import { workBits } from '../../protocol/discovery/work.ts'
import { PageSolver } from '../../src/browser/page-solver.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'

const SEED = new Uint8Array(32).fill(3)
const newSolver = () => new PageSolver({ clock: systemClock, random: seededRandom(1) })

describe('the solver of a page', () => {
  it('finds work of the bits that are asked for, and tells how far it is', async () => {
    const told: number[] = []
    const nonce = await newSolver().solve(SEED, 16, { onProgress: ({ tries }) => told.push(tries) })
    expect(workBits(SEED, nonce)).toBeGreaterThanOrEqual(16)
    expect(told.length).toBeGreaterThan(0)
    expect(told).toEqual(told.toSorted((a, b) => a - b))
  })

  it('lets the page run between two slices, so that a search can be given up', async () => {
    const giving = new AbortController()
    const search = newSolver().solve(SEED, 24, { signal: giving.signal, onProgress: () => giving.abort(new Error('given up')) })
    await expect(search).rejects.toThrow('given up')
  })

  it('refuses what is too hard at once', async () => {
    await expect(newSolver().solve(SEED, 25)).rejects.toMatchObject({ code: 'WORK_TOO_HARD', kind: 'refused' })
  })

  it('ends a search that is under way, and those that wait, when it is stopped', async () => {
    const solver = newSolver()
    const begun = Promise.withResolvers<void>()
    const searches = [solver.solve(SEED, 24, { onProgress: () => begun.resolve() }), solver.solve(SEED, 24)]
    const ends = Promise.allSettled(searches)
    await begun.promise
    await solver.stop()
    for (const end of await ends) expect(end).toMatchObject({ status: 'rejected', reason: { code: 'SOLVER_STOPPED' } })
  })
})
