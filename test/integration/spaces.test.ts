import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { announceKey, joinKey, locatorKey } from '../../protocol/discovery/dht-key.ts'
import { REGISTRY_PROTOCOL } from '../../protocol/discovery/registry-messages.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import type { Host } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { createLocators } from '../../src/spaces/create-locators.ts'
import { createSpaces } from '../../src/spaces/create-spaces.ts'
import { recordRules } from '../../src/spaces/record-rules.ts'
import { createRegistry, type Registry } from '../../src/spaces/registry.ts'
import type { Locators, Spaces } from '../../src/spaces/spaces.ts'
import { Store } from '../../src/store/store.ts'
import { fakeAgent } from '../unit/fakes/fake-agent.ts'
import { plainSolver } from '../unit/fakes/fake-node.ts'
import { announceRecord, ENERGY_ID, joinRecord } from '../unit/fakes/fake-records.ts'
import { addressOf, type Carrier, startHost, stopHosts, until } from './host-fixture.ts'

const ENERGY = 'org.agentnet/marketplace.energy@1'

interface Node {
  host: Host
  registry: Registry
  spaces: Spaces
  locators: Locators
}

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const nodes: Node[] = []

async function start(carrier: Carrier, agents: readonly LocalAgent[], bootstrap?: Host): Promise<Node> {
  const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
  const init = bootstrap === undefined ? {} : { bootstrap: [`${bootstrap.addresses()[0]}/p2p/${bootstrap.peer}`] }
  const host = await startHost({ carrier, store, rules: recordRules(nodeCrypto), init })
  const parts = { host, store, clock: systemClock, random: seededRandom(nodes.length), crypto: nodeCrypto, logger: silentLogger }
  const registry = await createRegistry({ ...parts, solver: plainSolver })
  const byHex = (hex: string) => agents.find((agent) => agent.eidHex === hex)
  const spaces = await createSpaces({ ...parts, registry, agents: byHex })
  const locators = await createLocators({ ...parts, agents: byHex })
  const node = { host, registry, spaces, locators }
  nodes.push(node)
  return node
}

/** Each knows all the others, as a network does a moment after its start. */
async function network(carrier: Carrier, agents: readonly LocalAgent[][]): Promise<Node[]> {
  const first = await start(carrier, agents[0] ?? [])
  await Promise.all(agents.slice(1).map((own) => start(carrier, own, first.host)))
  for (const { host } of nodes) await until(host, () => host.dht.routingTableSize() >= 1)
  await until(first.host, () => first.host.dht.routingTableSize() === agents.length - 1)
  return nodes
}

afterEach(async () => {
  for (const node of nodes.splice(0)) {
    await node.spaces.stop()
    await node.locators.stop()
    await node.registry.stop()
  }
  await stopHosts()
})

async function collect(values: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = []
  for await (const value of values) all.push(value)
  return all
}

for (const carrier of ['quic', 'memory'] as const) {
  describe(`spaces of five hosts over ${carrier}`, () => {
    let a: Node
    let b: Node
    let c: Node
    let d: Node

    beforeEach(async () => {
      ;[a, b, c, d] = (await network(carrier, [[alice], [bob], [carol], [], []])) as [Node, Node, Node, Node]
    })

    it('[DS-05] [DS-06] [DS-13] [DS-22] announced on one, joined from two, is found from a fourth by topic and by parent', async () => {
      const announced = await a.spaces.announce({ name: ENERGY, curator: alice, description: 'energy traded by agents' })
      expect(announced.stored).toBeGreaterThanOrEqual(4)
      await b.spaces.join({ name: ENERGY, agent: bob, tags: ['solar'] })
      await c.spaces.join({ name: ENERGY, agent: carol, tags: ['wind'] })
      const byTopic = await d.spaces.find({ name: ENERGY })
      expect(byTopic.members.map((member) => member.did).sort()).toEqual([bob.did, carol.did].sort())
      expect(byTopic.complete).toBe(true)
      const byParent = await d.spaces.find({ name: 'org.agentnet/marketplace', tags: ['wind'] })
      expect(byParent.spaces).toMatchObject([{ name: ENERGY, curator: alice.did, description: 'energy traded by agents' }])
      expect(byParent.members.map((member) => member.did)).toEqual([carol.did])
      const [announce] = await collect(d.host.dht.values(announceKey(ENERGY_ID)))
      expect(toHex(decodeRecord(announceType, announce as Uint8Array).payload.curator)).toBe(alice.eidHex)
      const [join] = await collect(d.host.dht.values(joinKey(ENERGY_ID, bob.eid)))
      expect(decodeRecord(joinType, join as Uint8Array).payload.tags).toEqual(['solar'])
    })

    it('[DS-10] [DS-11] left and withdrawn, is found no more and cannot be joined', async () => {
      await a.spaces.announce({ name: ENERGY, curator: alice })
      await b.spaces.join({ name: ENERGY, agent: bob })
      await b.spaces.leave({ name: ENERGY, agent: bob })
      expect((await d.spaces.find({ name: ENERGY })).members).toEqual([])
      await a.spaces.stop({ withdraw: 'yes' })
      expect((await d.spaces.find({ name: ENERGY })).spaces).toEqual([])
      await expect(c.spaces.join({ name: ENERGY, agent: carol })).rejects.toMatchObject({ code: 'SPACE_UNKNOWN' })
    })

    it('[DS-20] [G-22] goes to another curator with its members, and hides whom it prunes', async () => {
      await a.spaces.announce({ name: ENERGY, curator: alice, description: 'energy', shards: 2 })
      await c.spaces.join({ name: ENERGY, agent: carol })
      await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })
      expect(await b.spaces.announce({ name: ENERGY, curator: bob })).toMatchObject({ description: 'energy', shards: 2 })
      const found = await d.spaces.find({ name: ENERGY })
      expect(found.spaces).toMatchObject([{ curator: bob.did, contested: false }])
      expect(found.members).toMatchObject([{ did: carol.did, curator: alice.did, known: 'registry' }])
      await b.spaces.prune({ name: ENERGY, curator: bob, member: carol.eid })
      expect(await d.spaces.find({ name: ENERGY })).toMatchObject({ members: [], pruned: 1 })
      expect(await d.spaces.show(ENERGY)).toMatchObject({ curator: bob.did, shards: 2, members: 0, pruned: 1 })
    })

    it('[D-18] [DS-12] holders refuse forged and foreign records, in the DHT and in the sets', async () => {
      const forged = announceRecord(alice, Date.now())
      forged[forged.length - 1] = (forged[forged.length - 1] as number) ^ 1
      await expect(a.host.dht.put(announceKey(ENERGY_ID), forged)).rejects.toMatchObject({ code: 'SIGNATURE_INVALID' })
      const foreign = joinRecord(bob, alice.eid, Date.now())
      await expect(a.host.dht.put(joinKey(ENERGY_ID, carol.eid), foreign)).rejects.toMatchObject({ code: 'RECORD_KEY_MISMATCH' })
      const outcome = await a.registry.put({ set: 'announcements', key: ENERGY_ID, record: forged })
      expect(outcome.stored).toBe(0)
      expect(outcome.answers).toEqual({ invalid: outcome.registrars })
    })

    it('resolves a locator on another host to an address that can be dialled', async () => {
      const published = await a.locators.publish(alice)
      const resolved = await d.locators.resolve(alice.eid)
      expect(resolved).toMatchObject({ did: alice.did, gen: published.gen, address: { peer: a.host.peer } })
      const stream = await d.host.openStream(resolved.address, REGISTRY_PROTOCOL)
      expect(stream.connection.peer).toBe(a.host.peer)
      await stream.close()
      expect(await collect(d.host.dht.values(locatorKey(alice.eid)))).toHaveLength(1)
      await expect(d.locators.resolve(carol.eid)).rejects.toMatchObject({ code: 'AGENT_UNKNOWN' })
    })
  })
}

describe('the registry protocol over QUIC', () => {
  it('[F104] resets streams of garbage and serves the next one', async () => {
    const [a, b] = (await network('quic', [[alice], [bob]])) as [Node, Node]
    const garbage = [new Uint8Array(0), Uint8Array.of(1), Uint8Array.of(0x80, 0, 0, 0), new Uint8Array(1_000_000).fill(0x81)]
    for (const bytes of garbage) {
      const stream = await b.host.openStream(addressOf(a.host), REGISTRY_PROTOCOL)
      await stream.write(bytes).catch(() => undefined)
      await stream.closeWrite().catch(() => undefined)
      await expect(stream.read(1)).rejects.toMatchObject({ code: expect.stringMatching(/^STREAM_/) })
    }
    await until(a.host, () => a.registry.stats().failed === garbage.length)
    await a.spaces.announce({ name: ENERGY, curator: alice })
    expect(await b.spaces.join({ name: ENERGY, agent: bob })).toMatchObject({ stored: 2 })
  })

  it('[F043] finds what was announced before the network was there', async () => {
    const a = await start('quic', [alice])
    expect(await a.spaces.announce({ name: ENERGY, curator: alice })).toMatchObject({ registrars: 1, stored: 1 })
    const b = await start('quic', [bob], a.host)
    await until(b.host, () => b.host.dht.routingTableSize() === 1)
    await b.spaces.join({ name: ENERGY, agent: bob })
    expect((await a.spaces.find({ name: ENERGY })).members).toMatchObject([{ did: bob.did }])
    await until(b.host, () => b.registry.stats().entries >= 1 + 4)
  })
})
