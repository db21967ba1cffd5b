import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { nodeStatus } from '../../src/api/node-status.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { Traffic } from '../../src/net/traffic.ts'
import { createNode, type NodeOverrides, type RookeryNode } from '../../src/node.ts'
import { type Clock, ManualClock, systemClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { bytesCodec, Store } from '../../src/store/store.ts'
import { recordingLogger } from './host-fixture.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

type Level = MemoryLevel<string, Uint8Array>

/** A whole node of the product in memory, with a store that outlives it and the test's clock. */
interface Real {
  node: RookeryNode
  agent: HostedAgent
  level: Level
  traffic: Traffic
}

const running = new Set<RookeryNode>()
/** Keys and randomness follow from the place of a node in this file: who is near to what is the same in every run. */
let started = 0
afterEach(async () => {
  await Promise.all([...running].map((node) => node.stop()))
  running.clear()
})

async function start(
  clock: Clock,
  bootstrap: readonly Real[] = [],
  config: ConfigInput = {},
  overrides: NodeOverrides = {}
): Promise<Real> {
  const number = started++
  const traffic = new Traffic()
  const level: Level = new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' })
  const node = await createNode(
    {
      bootstrap: bootstrap.flatMap(({ node }) => node.host.addresses().map((addr) => `${addr}/p2p/${node.peer}`)),
      http: { enabled: false },
      logs: { level: 'silent' },
      ...config
    },
    {
      level,
      nodeSeed: nodeCrypto.sha256(Uint8Array.of(0xca, number)),
      random: seededRandom(number),
      transport: 'memory',
      http: 'off',
      records: 'leave',
      clock,
      traffic,
      ...overrides
    }
  )
  running.add(node)
  return { node, level, traffic, agent: await node.addAgent({ name: 'agent', seed: nodeCrypto.sha256(Uint8Array.of(0xcb, number)) }) }
}

async function stop({ node }: Real): Promise<void> {
  running.delete(node)
  await node.stop()
}

async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await check())) await systemClock.sleep(10)
}

/** All connected through the first. */
async function network(clock: Clock, count: number): Promise<Real[]> {
  const first = await start(clock)
  const others = await Promise.all(Array.from({ length: count - 1 }, () => start(clock, [first])))
  await until(() => [first, ...others].every(({ node }) => node.host.dht.routingTableSize() > 0))
  return [first, ...others]
}

type Idle = { idle(): Promise<void> }

async function settled(nodes: readonly Real[]): Promise<void> {
  for (const { node } of nodes) {
    await (node.spaces as unknown as Idle).idle()
    await (node.locators as unknown as Idle).idle()
    await node.registry.idle()
  }
}

/** Waits until no node has sent anything for a while: look-ups are under way that nobody can wait for, and to them a step of the clock is silence. */
async function quiet(nodes: readonly Real[]): Promise<void> {
  const sent = () => nodes.reduce((sum, { traffic }) => sum + traffic.sent().reduce((all, one) => all + one.messages, 0), 0)
  for (let still = 0, before = sent(); still < 2; ) {
    await systemClock.sleep(10)
    const now = sent()
    still = now === before ? still + 1 : 0
    before = now
  }
}

async function pass(clock: ManualClock, ms: number, nodes: readonly Real[], stepMs: number): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.advance(Math.min(stepMs, left))
    await quiet(nodes)
    await settled(nodes)
  }
}

/** What a node has on disk of others: rows of the sets and DHT values. */
async function rowsOf({ level }: Real): Promise<number> {
  const store = new Store(level)
  let rows = 0
  for (const name of ['registry-entries', 'registry-expiries', 'dht-values']) {
    for await (const _ of store.table(name, bytesCodec).keys()) rows++
  }
  return rows
}

const found = async ({ node }: Real) => (await node.spaces.find({ name: SPACE })).members.map(({ did }) => did).sort()

describe('records of real nodes', () => {
  it('[DS-19] [F028] live on while their owner runs, and [DS-18] [G-23] [F029] are gone everywhere within their TTL and a minute after it ended', async () => {
    const clock = new ManualClock(systemClock.nowMs())
    const nodes = await network(clock, 4)
    const [curator, member, ...others] = nodes as [Real, Real, ...Real[]]
    await curator.node.spaces.announce({ name: SPACE, curator: curator.agent })
    await member.node.spaces.join({ name: SPACE, agent: member.agent })
    const reader = others[1] as Real
    let gen = 0
    for (let i = 0; i < 8; i++) {
      await pass(clock, 10 * MINUTE_MS, nodes, 10 * MINUTE_MS)
      expect(await found(reader)).toEqual([member.agent.did])
      const locator = await reader.node.locators.resolve(member.agent.eid, { fresh: true })
      expect(locator.gen).toBeGreaterThanOrEqual(gen)
      gen = locator.gen
    }
    await stop(member)
    const alive = nodes.filter((one) => one !== member)
    await pass(clock, HOUR_MS, alive, 20 * MINUTE_MS)
    expect(await found(reader)).toEqual([])
    await stop(curator)
    const left = alive.filter((one) => one !== curator)
    for (const one of left) await one.node.locators.withdraw(one.agent)
    expect(Math.max(...(await Promise.all(left.map(rowsOf))))).toBeGreaterThan(0)
    await pass(clock, DAY_MS, left, 6 * HOUR_MS)
    await pass(clock, MINUTE_MS, left, MINUTE_MS)
    // the sweep that fell due writes in its own time
    await until(async () => (await Promise.all(left.map(rowsOf))).every((rows) => rows === 0))
    expect((await reader.node.spaces.find({ name: SPACE })).spaces).toEqual([])
    await expect(reader.node.locators.resolve(member.agent.eid, { fresh: true })).rejects.toMatchObject({ code: 'AGENT_NOT_SERVED' })
  })
})

describe('a real node that starts alone', () => {
  for (const [what, bootstrap] of [
    ['without a bootstrap list', []],
    ['with one entry that does not answer', ['/memory/nobody/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf']]
  ] as const) {
    it(`[F037] ${what}: starts at once, says that it waits, and is found by the first peer that comes`, async () => {
      const logger = recordingLogger()
      const alone = await start(systemClock, [], { bootstrap: [...bootstrap] }, { logger })
      expect(await nodeStatus(alone.node)).toMatchObject({ network: 'isolated', peers: 0 })
      await until(() => logger.lines.some(({ level, message }) => level === 'info' && message.startsWith('no peer')))
      expect(logger.lines.filter(({ message }) => message.startsWith('no peer'))).toHaveLength(1)
      expect(await alone.node.spaces.announce({ name: SPACE, curator: alone.agent })).toMatchObject({ stored: 1 })
      await alone.node.spaces.join({ name: SPACE, agent: alone.agent })
      const first = await start(systemClock, [alone])
      await until(async () => (await found(first)).length === 1)
      expect(await nodeStatus(alone.node)).toMatchObject({ network: 'connected', peers: 1 })
      expect(logger.lines.map(({ message }) => message)).toContain('a peer is there: no longer alone')
      expect((await first.node.locators.resolve(alone.agent.eid)).address.peer).toBe(alone.node.peer)
    })
  }
})

describe('two islands of real nodes', () => {
  it('[F038] grow into one network over a single connection: tables, spaces and locators of each are found from everywhere in the other', async () => {
    const clock = new ManualClock(systemClock.nowMs())
    const [east, west] = await Promise.all([network(clock, 6), network(clock, 6)])
    const all = [...east, ...west]
    for (const island of [east, west]) {
      await (island[0] as Real).node.spaces.announce({ name: SPACE, curator: (island[0] as Real).agent })
    }
    const a = east[1] as Real
    const b = west[1] as Real
    await a.node.spaces.join({ name: SPACE, agent: a.agent })
    await b.node.spaces.join({ name: SPACE, agent: b.agent })
    await expect(a.node.locators.resolve(b.agent.eid)).rejects.toMatchObject({ code: 'AGENT_UNKNOWN' })
    const bridge = { peer: (west[5] as Real).node.peer, addrs: (west[5] as Real).node.host.addresses() }
    await (await (east[5] as Real).node.host.openStream(bridge, '/ipfs/ping/1.0.0')).close()
    for (let i = 0; i < 60; i++) {
      await pass(clock, 2_000, all, 2_000)
      if (all.every(({ node }) => node.host.dht.routingTableSize() === all.length - 1)) break
    }
    expect(all.map(({ node }) => node.host.dht.routingTableSize())).toEqual(all.map(() => all.length - 1))
    await pass(clock, 6 * MINUTE_MS, all, 10_000)
    for (const [island, far] of [
      [east, b],
      [west, a]
    ] as const) {
      for (const reader of island) {
        const { members } = await reader.node.spaces.find({
          name: `${SPACE}#${far === b ? (west[0] as Real).agent.did : (east[0] as Real).agent.did}`
        })
        expect(members.map(({ did }) => did)).toEqual([far.agent.did])
        expect((await reader.node.locators.resolve(far.agent.eid)).address.peer).toBe(far.node.peer)
      }
    }
    // an announcement, its three parents and a join of each island, at every node, as twelve are fewer than the registrars of a key. A round of
    // hand-over pulls a key from two of eight neighbours: four rounds have asked each of them once, and no record here outlives these two hours.
    const entries = () => all.map(({ node }) => node.registry.stats().entries)
    for (let i = 0; i < 120 && entries().some((count) => count !== 10); i++) await pass(clock, MINUTE_MS, all, 30_000)
    expect(entries()).toEqual(all.map(() => 10))
  })
})
