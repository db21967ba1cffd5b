import { describe, expect, it } from 'vitest'
import { runScenario } from './run-scenario.ts'

const SEED = 1

describe(`a network of 50 real nodes of which 10 are hostile, then 15 and 20 ground identities more (seed ${SEED})`, () => {
  it('[D-18] [G-21] [AD-03] [G-31] keeps every bound, shows no forgery, and finds honest members', { timeout: 300_000 }, async () => {
    const report = await runScenario('hostile-short', { nodes: 50, seed: SEED })
    expect(report.failures, report.replay).toEqual([])
    expect(
      report.checks.filter(({ holds }) => !holds),
      report.replay
    ).toEqual([])
    expect(report.success).toBe(true)
    expect(report.checks.length).toBeGreaterThan(30)
  })
})
