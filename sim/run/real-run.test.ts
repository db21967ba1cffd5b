import { describe, expect, it } from 'vitest'
import { runScenario } from '../run-scenario.ts'
import { parseScenario } from '../scenario/parse.ts'

const TIMEOUT_MS = 300_000

/** Sleep, a crash and a partition on a few real nodes. */
const TROUBLE = parseScenario(
  `name: trouble
description: Sleep, a crash, a partition.
nodes:
  - { group: stable, count: 6 }
  - { group: asleep, count: 1, reachability: sleep }
  - { group: falls, count: 1 }
network: { latency: 2ms, jitter: 0.2 }
timeline:
  - stage: announce
  - { do: announce, who: { group: stable, node: 0 }, space: org.agentnet/a.b@1 }
  - stage: join
  - { do: join, who: { group: stable, count: 3 }, space: org.agentnet/a.b@1, atOnce: 2 }
  - stage: mail
  - { do: send, who: { group: stable, node: 1 }, to: asleep, times: 3 }
  - { do: send, who: { group: stable, node: 2 }, to: { group: stable, node: 3 } }
  - stage: fall
  - { do: kill, who: falls }
  - stage: rise
  - { do: restart, who: falls }
  - stage: apart
  - { do: partition, islands: [[stable], [asleep, falls]] }
  - stage: together
  - { do: heal }
  - stage: wake
  - { do: wake, who: asleep }
`,
  'trouble.yaml'
)

describe('a plan on real nodes', { timeout: TIMEOUT_MS }, () => {
  it('plays sleep, crash and partition, keeps every acknowledged message and hands each over once', async () => {
    const report = await runScenario(TROUBLE)
    expect(report.failures).toEqual([])
    expect(report.broken).toEqual([])
    expect(report.sends).toMatchObject({ wanted: 4, acked: 4 })
    const state = (name: string) => report.invariants.find(({ invariant }) => invariant === name)
    expect(state('acked-kept')).toMatchObject({ state: 'holds', judged: 4 })
    expect(state('notified-once')).toMatchObject({ state: 'holds', judged: 4 })
    expect(state('queue-bounds')).toMatchObject({ state: 'holds' })
    expect(report.actions).toMatchObject({ kill: { ok: 1, failed: 0 }, restart: { ok: 1 }, partition: { ok: 1 }, wake: { ok: 1 } })
    expect(report.success).toBe(true)
  })

  it('plays on real QUIC at loopback too', async () => {
    const report = await runScenario('first-contact', { nodes: 6, transport: 'quic' })
    expect(report.failures).toEqual([])
    expect(report).toMatchObject({ success: true, transport: 'quic', join: { joined: 5 }, discovery: { succeeded: 6 } })
    expect(report.sessions.opened).toBeGreaterThan(5)
    expect(report.sessions.opened).toBe(report.sessions.wanted)
  })
})
