import { describe, expect, it } from 'vitest'
import { runScenario } from './run-scenario.ts'
import { shippedNames } from './scenario/shipped.ts'

describe('runScenario', { timeout: 120_000 }, () => {
  it('names the scenarios there are when it does not know one', async () => {
    await expect(runScenario('second-contact')).rejects.toMatchObject({
      code: 'SCENARIO_UNKNOWN',
      kind: 'usage',
      field: 'scenario',
      value: 'second-contact',
      remedy: expect.stringContaining('first-contact')
    })
    expect(shippedNames()).toEqual(expect.arrayContaining(['first-contact', 'hostile', 'eclipse', 'discovery-flood']))
  })

  it.each([0, 1, 1.5, 1_001, 100_000, Number.NaN])('refuses %d nodes, saying how many there may be', async (nodes) => {
    await expect(runScenario('first-contact', { nodes })).rejects.toMatchObject({
      code: 'SIM_NODES_INVALID',
      field: 'nodes',
      value: nodes,
      remedy: 'give --nodes a whole number from 2 to 1000'
    })
  })

  it.each([-1, 0.5, 2 ** 32, Number.NaN])('refuses the seed %d', async (seed) => {
    await expect(runScenario('first-contact', { nodes: 2, seed })).rejects.toMatchObject({ code: 'SIM_SEED_INVALID', field: 'seed' })
  })

  it('[DS-05] [PSS-01] runs two real nodes to the end, told phase by phase', async () => {
    const phases: string[] = []
    const report = await runScenario('first-contact', {
      nodes: 2,
      onProgress: ({ phase, done, total }) => done === total && phases.push(phase)
    })
    expect(report.failures).toEqual([])
    expect(report).toMatchObject({
      success: true,
      join: { joined: 1 },
      discovery: { succeeded: 2, recall: 1 },
      sessions: { opened: 1 }
    })
    expect(report.phases.map(({ name }) => name)).toEqual([
      'boot and join the DHT',
      'fill routing tables',
      'announce the space',
      'join the space',
      'search it',
      'publish locators',
      'open sessions',
      'hand over what waits',
      'stop'
    ])
    expect(phases).toEqual(expect.arrayContaining(['boot and join the DHT', 'join the space', 'open sessions']))
    expect(report.messages.byProtocol.map(({ protocol }) => protocol)).toEqual(
      expect.arrayContaining(['/rookery/kad/1.0.0', '/rookery/registry/1.0.0', '/rookery/pss/1.0.0'])
    )
  })

  it('plays one network in two threads, connections between them included', async () => {
    const report = await runScenario('first-contact', { nodes: 8, threads: 2 })
    expect(report.failures).toEqual([])
    expect(report).toMatchObject({
      success: true,
      threads: 2,
      join: { joined: 7 },
      discovery: { succeeded: 8, recall: 1 },
      sessions: { opened: 20 }
    })
    expect(report.messages.perNode.min).toBeGreaterThan(0)
  })

  it('stops when told, and reports what was done as no success', async () => {
    const stop = new AbortController()
    const report = await runScenario('first-contact', {
      nodes: 4,
      signal: stop.signal,
      onProgress: ({ phase }) => {
        if (phase === 'join the space') stop.abort(new Error('enough'))
      }
    })
    expect(report).toMatchObject({ interrupted: true, success: false, failures: [], latencyValid: false })
    expect(report.discovery.succeeded).toBe(0)
    expect(report.phases.at(-1)?.name).toBe('stop')
  })
})
