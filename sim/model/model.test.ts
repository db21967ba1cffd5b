import { describe, expect, it } from 'vitest'
import { shrink } from '../run/shrink.ts'
import { runScenario } from '../run-scenario.ts'
import { type Definition, INVARIANTS } from '../scenario/definition.ts'
import { parseScenario } from '../scenario/parse.ts'
import { planOf } from '../scenario/plan.ts'
import { loadScenario } from '../scenario/shipped.ts'
import { BUGS, type Bug } from './bugs.ts'

/** Everything that an invariant judges happens in it. */
const EVERYTHING = parseScenario(
  `name: everything
description: All that the invariants judge.
engine: model
nodes:
  - { group: awake, count: 20 }
  - { group: asleep, count: 4, reachability: sleep }
timeline:
  - stage: announce
  - { do: announce, who: { group: awake, node: 0 }, space: org.agentnet/a.b@1 }
  - stage: join
  - { do: join, who: awake, space: org.agentnet/a.b@1 }
  - stage: join again
  - { do: join, who: { group: awake, count: 3 }, space: org.agentnet/a.b@1 }
  - stage: talk
  - { do: openSession, who: awake, to: awake, pairs: 4 }
  - { do: send, who: { group: awake, node: 1 }, to: { group: asleep, node: 0 }, times: 60 }
  - { do: discover, who: { group: awake, count: 4 }, space: org.agentnet/a.b@1 }
  - stage: wake
  - { do: wake, who: asleep }
  - stage: wake again
  - { do: wake, who: asleep }
  - { stage: idle, lasts: 10m }
  - stage: fall
  - { do: kill, who: { group: awake, node: 5 } }
  - { stage: an hour later, lasts: 2h }
  - { do: discover, who: { group: awake, node: 2 }, space: org.agentnet/a.b@1, at: 90m }
`,
  'everything.yaml'
)

/** The scenario without its messages: only who wakes when. */
function quiet(name: string): Definition {
  return { ...loadScenario(name), load: [] }
}

async function broken(bug: Bug | undefined, more: { plan?: ReturnType<typeof planOf> } = {}, definition: Definition = EVERYTHING) {
  const report = await runScenario(definition, { seed: 3, ...(bug === undefined ? {} : { bug }), ...more })
  return { report, names: report.invariants.filter(({ state }) => state === 'broken').map(({ invariant }) => invariant) }
}

describe('the invariants', { timeout: 300_000 }, () => {
  it('all hold in a model without a fault, each judged at least once', async () => {
    const { report, names } = await broken(undefined)
    expect(names).toEqual([])
    expect(report.success).toBe(true)
    const seen = report.invariants.filter(({ state }) => state === 'holds').map(({ invariant }) => invariant)
    expect(seen).toEqual(
      expect.arrayContaining([
        'acked-kept',
        'notified-once',
        'hashes-agree',
        'no-expired-record',
        'cookie-before-state',
        'queue-bounds',
        'honest-found',
        'idle-memory-flat'
      ])
    )
  })

  it('have a deliberate fault each', () => {
    expect(Object.values(BUGS).sort()).toEqual([...INVARIANTS].sort())
  })

  it.each(Object.entries(BUGS))('catch the deliberate fault "%s" by %s and by nothing else', async (bug, invariant) => {
    const { report, names } = await broken(bug as Bug)
    expect(names, JSON.stringify(report.broken.slice(0, 5))).toEqual([invariant])
    expect(report.success).toBe(false)
    expect(report.broken.some((one) => one.invariant === invariant)).toBe(true)
    expect(report.replay).toBe('rookery sim run everything --nodes 24 --seed 3')
  })

  it('that are off judge nothing', async () => {
    const { report, names } = await broken('forgets-acked', {}, { ...EVERYTHING, invariants: { 'acked-kept': false } })
    expect(names).toEqual([])
    expect(report.invariants.find(({ invariant }) => invariant === 'acked-kept')).toMatchObject({ state: 'off', judged: 0 })
  })
})

describe('shrinking', { timeout: 300_000 }, () => {
  it('makes a failing run the shortest list of events that still fails, and its plan fails again', async () => {
    const plan = planOf(EVERYTHING, 24, 3)
    const fails = async (candidate: typeof plan) => (await broken('state-at-init', { plan: candidate })).names
    const shrunk = await shrink(plan, ['cookie-before-state'], fails, { runsMax: 100, goOn: () => true })
    expect(shrunk.of).toBeGreaterThan(100)
    expect(shrunk.events).toBe(1)
    expect(shrunk.plan.stages.flatMap(({ lanes }) => lanes.flatMap(({ events }) => events))).toEqual([
      expect.objectContaining({ do: 'openSession' })
    ])
    expect(await fails(shrunk.plan)).toEqual(['cookie-before-state'])
  })
})

describe('the model engine', { timeout: 300_000 }, () => {
  it('writes the same log for the same seed, byte for byte, and another for another', async () => {
    const run = async (seed: number) => {
      const lines: string[] = []
      const report = await runScenario('churn', { engine: 'model', nodes: 60, seed, onLog: (line) => lines.push(line) })
      return { log: lines.join('\n'), sha256: report.eventLog.sha256, series: report.series }
    }
    const [one, two, other] = [await run(1), await run(1), await run(2)]
    expect(one.log.split('\n').length).toBeGreaterThan(100)
    expect(two).toEqual(one)
    expect(other.log).not.toBe(one.log)
  })

  it('[OD-49] spreads wakes over the period with jitter, none of more than 2 % in one second, and shows the storm without', async () => {
    const most = async (name: string) => {
      const { wakes } = await runScenario(quiet(name), { nodes: 1_000 })
      const all = wakes.reduce((sum, { count }) => sum + count, 0)
      return Math.max(...wakes.map(({ count }) => count)) / all
    }
    expect(await most('sleepers')).toBeLessThan(0.02)
    expect(await most('sleepers-without-jitter')).toBeGreaterThan(0.3)
  })

  it('refuses attacks, which real nodes alone can play', async () => {
    await expect(runScenario('eclipse', { engine: 'model' })).rejects.toMatchObject({
      code: 'SIM_OPTION_INVALID',
      field: 'engine',
      value: 'model'
    })
  })
})
