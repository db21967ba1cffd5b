import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { NetworkReport } from '../../src/api/methods.ts'
import { cleanUp, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const NOBODY = '/ip4/127.0.0.1/udp/9/quic-v1/p2p/12D3KooWJ8wsKdrjmyyVnYzsJpxXSRmYzdGmzkMWKFSkLtxNDQwQ'
const POLLING = { timeout: 60_000, interval: 100 }

let first: StartedNode
const started = async (agent: string, ...flags: string[]) => {
  const dataDir = tempDir()
  await rookery('init', '--data', dataDir, '--agent', agent, '--json')
  return await startNode(dataDir, ...flags)
}
const examined = async ({ dataDir }: StartedNode) => {
  const run = await rookery('doctor', 'network', '--data', dataDir, '--json')
  return { code: run.code, ...run.json<NetworkReport & Record<string, unknown>>() }
}
const known = async ({ dataDir }: StartedNode) =>
  (await rookery('status', '--data', dataDir, '--json')).json<{ routingTableSize: number }>().routingTableSize

beforeAll(async () => {
  first = await started('alice')
})
afterAll(cleanUp)

describe('rookery doctor network', () => {
  it('[F037] tells a node that knows nobody what is wrong and what to do, exits 4, and no longer once a peer has come', async () => {
    const alone = await examined(first)
    expect(alone).toMatchObject({
      code: 4,
      findings: [{ code: 'NO_PEERS', severity: 'problem', remedy: expect.stringContaining('bootstrap') }],
      facts: { peers: 0, udp: { outcome: 'works' }, dhtMode: 'server' }
    })
    const text = await rookery('doctor', 'network', '--data', first.dataDir)
    expect(text.code).toBe(4)
    expect(text.stdout).toMatch(/^problem {2}this node is connected to nobody {2}\(NO_PEERS\)\n {4}seen: up for /)
    expect(text.stdout).toMatch(/ {4}do: {3}name a node that runs under bootstrap/)

    const address = `${first.status.addresses[0]}/p2p/${first.status.node.peer}`
    const second = await started('bob', '--bootstrap', `${address},${NOBODY}`)
    await expect.poll(() => known(first), POLLING).toBe(1)
    await expect.poll(() => known(second), POLLING).toBe(1)
    await rookery('space', 'announce', SPACE, '--agent', 'alice', '--data', first.dataDir, '--json')
    const joined = await rookery('space', 'join', SPACE, '--agent', 'bob', '--data', second.dataDir, '--json')
    expect(joined.code).toBe(0)
    const both = await examined(second)
    expect(both).toMatchObject({
      code: 0,
      findings: [{ code: 'BOOTSTRAP_UNREACHED', severity: 'warning', evidence: [expect.stringContaining(NOBODY)] }],
      facts: {
        peers: 1,
        routingTableSize: 1,
        connections: [{ transport: 'quic', count: 1 }],
        dialBacks: { failed: 0 },
        peerTimes: [{ peer: first.status.node.peer }]
      }
    })
    const [time] = both.facts.peerTimes
    expect(Math.abs((time?.newestSignedMs ?? 0) - both.facts.nowMs)).toBeLessThan(60_000)
    expect((await examined(first)).code).toBe(0)
  })

  it('says that the node does not run, as every command does', async () => {
    const run = await rookery('doctor', 'network', '--data', tempDir(), '--json')
    expect([run.code, run.error().remedy]).toEqual([4, expect.stringContaining('rookery')])
  })
})
