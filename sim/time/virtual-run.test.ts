import { describe, expect, it } from 'vitest'
import { runScenario } from '../run-scenario.ts'
import { parseScenario } from '../scenario/parse.ts'
import { VIRTUAL_EPOCH_MS } from './virtual-time.ts'

const HOUR_MS = 3_600_000

/** Joins are renewed at half of their hour: after two hours whoever still shows lives by renewals. */
const TWO_HOURS = parseScenario(
  `name: two-hours
description: Few real nodes, a link that takes time, and two hours of which nobody waits for one.
nodes:
  - { group: curator, count: 1 }
  - { group: agents, count: 4 }
network: { latency: 40ms }
timeline:
  - stage: announce
  - { do: announce, who: curator, space: org.agentnet/marketplace.energy@1 }
  - stage: join
  - { do: join, who: agents, space: org.agentnet/marketplace.energy@1, atOnce: 2 }
  - { stage: two hours, lasts: 2h }
  - { do: discover, who: curator, space: org.agentnet/marketplace.energy@1, at: 119m }
  - { stage: talk, measured: true }
  - { do: openSession, who: agents, to: agents, pairs: 2 }
`,
  'two-hours.yaml'
)

describe('real nodes in virtual time', { timeout: 600_000 }, () => {
  it('live two hours of renewals in seconds, with latencies that are the links’ own', async () => {
    const report = await runScenario(TWO_HOURS, { seed: 2, time: 'virtual' })
    expect(report.failures, report.replay).toEqual([])
    expect(report.success).toBe(true)
    expect(report.time).toBe('virtual')
    expect(report.virtual?.simulatedMs).toBeGreaterThan(2 * HOUR_MS)
    expect(report.wallMs).toBeLessThan(2 * HOUR_MS)
    expect(report.discovery.membersFound.max).toBe(4)
    // one way 40 ms: an item there and its echo back, and no time of this machine's
    expect(report.sessions.roundTripMs.p50).toBeGreaterThanOrEqual(80)
    expect(report.sessions.roundTripMs.max).toBeLessThan(1_000)
    expect(report.latencyValid).toBe(true)
    expect(report.replay).toBe('rookery sim run two-hours --nodes 5 --seed 2 --time virtual')
    expect(Date.parse(report.startedAt)).not.toBe(VIRTUAL_EPOCH_MS)
  })

  it('go on after the threads that solved proofs of work have ended', async () => {
    const solved = parseScenario(
      `name: solved
description: An anonymous search asks for work, and time goes on when the threads that did it are no longer needed.
nodes:
  - { group: agents, count: 6 }
timeline:
  - stage: announce
  - { do: announce, who: { group: agents, node: 0 }, space: org.agentnet/a.b@1 }
  - stage: join
  - { do: join, who: { group: agents, count: 2 }, space: org.agentnet/a.b@1 }
  - stage: search
  - { do: discover, who: { group: agents, node: 5 }, space: org.agentnet/a.b@1, by: anonymous }
  - { stage: a while, lasts: 40s }
`,
      'solved.yaml'
    )
    const report = await runScenario(solved, { time: 'virtual' })
    expect(report.virtual?.simulatedMs).toBeGreaterThan(40_000)
    expect(report.interrupted).toBe(false)
  })

  it('end at once when told to, with a report of what was done', async () => {
    const stop = new AbortController()
    const report = await runScenario(TWO_HOURS, {
      time: 'virtual',
      signal: stop.signal,
      onProgress: ({ phase }) => phase === 'announce' && stop.abort(new Error('enough'))
    })
    expect(report).toMatchObject({ interrupted: true, success: false, time: 'virtual' })
    expect(report.phases.map(({ name }) => name)).toContain('boot and join the DHT')
  })

  it.each([
    ['the model, which has a clock of its own', { engine: 'model' }],
    ['QUIC, whose sockets know none', { transport: 'quic' }],
    ['several threads', { threads: 2 }]
  ] as const)('are no matter of %s', async (_what, options) => {
    await expect(runScenario(TWO_HOURS, { ...options, time: 'virtual' })).rejects.toMatchObject({
      code: 'SIM_OPTION_INVALID',
      field: 'time',
      value: 'virtual',
      remedy: expect.stringContaining('leave out')
    })
  })
})
