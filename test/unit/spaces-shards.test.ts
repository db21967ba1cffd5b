import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex, utf8 } from '../../protocol/bytes.ts'
import { memberKey } from '../../protocol/discovery/names.ts'
import { memberReadKeys, SHARD_SPLIT_AT } from '../../protocol/discovery/shards.ts'
import { eid, eidToDid } from '../../protocol/identity/eid.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { type FakeNode, type FakeNodeInit, pass } from './fakes/fake-node.ts'
import { ENERGY_NAME as ENERGY, ENERGY_KEY, HOUR_MS, SpaceNet } from './fakes/space-net.ts'

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')

let net: SpaceNet
let a: FakeNode
let b: FakeNode
let c: FakeNode

async function start(init: FakeNodeInit, agents = [alice, bob, carol]): Promise<void> {
  ;[a, b, c] = (await net.add(agents, { putsPerMinuteMax: 1_000_000, ...init })) as [FakeNode, FakeNode, FakeNode]
}

beforeEach(() => {
  net = new SpaceNet()
})
afterEach(() => net.stop())

/** Agents that live on b's node. */
function members(count: number): LocalAgent[] {
  const agents = Array.from({ length: count }, (_, i) => fakeAgent(`member ${i}`))
  for (const agent of agents) b.agents.set(agent.eidHex, agent)
  return agents
}

const seen = async (node: FakeNode) => (await node.spaces.find({ name: ENERGY })).members.map(({ did }) => did).sort()

/** The members that somebody who still goes by `shards` parts finds. */
async function seenBy(shards: number): Promise<string[]> {
  const dids = new Set<string>()
  for (const key of memberReadKeys(nodeCrypto, ENERGY_KEY, shards)) {
    for (const { entry } of (await c.registry.list({ set: 'members', key })).entries) if (!entry.gone) dids.add(eidToDid(eid(entry.id)))
  }
  return [...dids].sort()
}

describe('a space that grows', () => {
  it('[G-24] goes to more parts by itself, and at no minute is a member out of sight, for readers of the old number and the new', async () => {
    await start({ shardSplitAt: 5 })
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const agents = members(16)
    const all = agents.map(({ did }) => did).sort()
    for (const agent of agents) await b.spaces.join({ name: ENERGY, agent })
    const numbers = new Set<number>([1])
    let isOldSeen = 0
    await net.pass(100 * 60_000, async () => {
      const now = (await c.spaces.find({ name: ENERGY })).spaces[0]?.shards as number
      numbers.add(now)
      expect(await seen(c)).toEqual(all)
      if (now > 1 && isOldSeen++ < 60) expect(await seenBy(1)).toEqual(all)
    })
    expect([...numbers].slice(0, 2)).toEqual([1, 2])
    const shards = Math.max(...numbers)
    expect(shards).toBeGreaterThanOrEqual(4)
    expect(await seenBy(shards)).toEqual(all)
    for (const agent of agents) {
      const key = memberKey(nodeCrypto, ENERGY_KEY, agent.eid, shards)
      const held = (await c.registry.list({ set: 'members', key })).entries.map(({ entry }) => toHex(entry.id))
      expect(held).toContain(agent.eidHex)
    }
    await b.spaces.leave({ name: ENERGY, agent: agents[0] as LocalAgent })
    expect(await seen(c)).toEqual(all.filter((did) => did !== agents[0]?.did))
  }, 60_000)

  it('[G-24] never goes back to fewer parts: not when it shrinks, is changed or announced anew, or its curator lost its disk', async () => {
    await start({ shardSplitAt: 4 })
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const agents = members(6)
    for (const agent of agents) await b.spaces.join({ name: ENERGY, agent })
    await net.pass(16 * 60_000)
    const shards = async () => (await c.spaces.find({ name: ENERGY })).spaces[0]?.shards
    expect(await shards()).toBe(2)
    for (const agent of agents) await b.spaces.leave({ name: ENERGY, agent })
    await net.passFar(2 * HOUR_MS)
    await a.spaces.update({ name: ENERGY, curator: alice, description: 'smaller' })
    expect(await shards()).toBe(2)
    await a.spaces.announce({ name: ENERGY, curator: alice })
    expect(await shards()).toBe(2)
    await a.spaces.stop()
    b.agents.set(alice.eidHex, alice)
    await b.spaces.announce({ name: ENERGY, curator: alice, description: 'from a new disk' })
    expect(await shards()).toBe(2)
    await b.spaces.announce({ name: 'org.agentnet/marketplace.energy@2', curator: alice })
    expect((await c.spaces.find({ name: 'org.agentnet/marketplace.energy@2' })).spaces).toMatchObject([{ shards: 2 }])
  })

  it('[G-24] shows a newcomer to readers who still go by the number before', async () => {
    await start({})
    await a.spaces.announce({ name: ENERGY, curator: alice, shards: 2 })
    const agents = members(4)
    for (const agent of agents) await b.spaces.join({ name: ENERGY, agent })
    expect(await seenBy(1)).toEqual(agents.map(({ did }) => did).sort())
    expect(await seenBy(2)).toEqual(await seenBy(1))
  })

  it('[G-24] does not count joins that wait under the earlier number again', async () => {
    await start({ shardSplitAt: 10 })
    await a.spaces.announce({ name: ENERGY, curator: alice })
    for (const agent of members(12)) await b.spaces.join({ name: ENERGY, agent })
    await net.passFar(6 * HOUR_MS)
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ shards: 2 }])
  })

  it('[DS-15] starts with as many parts as its curator asks, a power of two', async () => {
    await start({})
    await expect(a.spaces.announce({ name: ENERGY, curator: alice, shards: 3 })).rejects.toMatchObject({
      code: 'SHARDS_INVALID',
      field: 'shards',
      value: 3
    })
    expect(await a.spaces.announce({ name: ENERGY, curator: alice, shards: 8 })).toMatchObject({ shards: 8 })
    const agents = members(20)
    for (const agent of agents) await b.spaces.join({ name: ENERGY, agent, tags: ['x'] })
    expect((await c.spaces.find({ name: ENERGY, tags: ['x'] })).members).toHaveLength(20)
    expect((await c.registry.list({ set: 'members', key: ENERGY_KEY })).entries).toEqual([])
  })
})

describe('thousands of members', () => {
  it(`[G-24] [DS-15] at ${SHARD_SPLIT_AT} joins under one key the real threshold doubles the parts, and all of them are found`, async () => {
    await start({ registrarsMax: 1 }, [alice, carol])
    c = b
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const ts = Math.floor(net.clock.nowMs() / 1_000)
    for (let i = 0; i < SHARD_SPLIT_AT; i++) {
      const seed = nodeCrypto.sha256(utf8(`thousands ${i}`))
      const own = eid(nodeCrypto.ed25519.publicKey(seed))
      const payload = {
        dsid: ENERGY_KEY,
        eid: own,
        curator: alice.eid,
        tags: i % 1_000 === 0 ? ['rare'] : ['common'],
        mode: 'always_on' as const,
        seq: net.clock.nowMs(),
        ts,
        exp: ts + JOIN_TTL_SEC
      }
      const signer = { publicKey: own, sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
      const record = Uint8Array.from(buildRecord(nodeCrypto, joinType, payload, signer).bytes)
      await a.registry.put({ set: 'members', key: ENERGY_KEY, record })
    }
    const found = await c.spaces.find({ name: ENERGY })
    expect(found.members).toHaveLength(SHARD_SPLIT_AT)
    expect(found.complete).toBe(true)
    expect((await c.spaces.find({ name: ENERGY, tags: ['rare'] })).members).toHaveLength(SHARD_SPLIT_AT / 1_000)
    await pass(net.clock, 16 * 60_000, net.nodes)
    const grown = await c.spaces.find({ name: ENERGY })
    expect(grown.spaces).toMatchObject([{ shards: 2 }])
    expect(grown.members).toHaveLength(SHARD_SPLIT_AT)
  }, 180_000)
})
