import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { concat, toHex, utf8 } from '../../protocol/bytes.ts'
import { encodeCbor } from '../../protocol/cbor.ts'
import { announceKey, joinKey } from '../../protocol/discovery/dht-key.ts'
import { dsId, parseSpaceName } from '../../protocol/discovery/names.ts'
import { registryKeyName } from '../../protocol/discovery/registry-messages.ts'
import { ANNOUNCE_TTL_SEC, announceType, POLICY_OPEN } from '../../protocol/records/announce.ts'
import { buildRecord, decodeRecord, encodeEnvelope } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { cborCodec } from '../../src/store/store.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, type FakeNodeInit, fakeNode, pass, settle } from './fakes/fake-node.ts'

const ENERGY = 'org.agentnet/marketplace.energy@1'
const energyId = dsId(nodeCrypto, parseSpaceName(ENERGY))
const HOUR_MS = 3_600_000

let clock: ManualClock
let network: FakeNetwork
let nodes: FakeNode[]

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const mallory = fakeAgent('mallory')

/** One node for each agent, all of which know each other. */
async function nodesFor(agents: ReturnType<typeof fakeAgent>[], init: FakeNodeInit = {}): Promise<FakeNode[]> {
  for (const agent of agents) nodes.push(await fakeNode(network, clock, agent.name, [agent], init))
  network.meet(...nodes.map((node) => node.host))
  return nodes
}

beforeEach(() => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  nodes = []
})

afterEach(async () => {
  for (const node of nodes) await node.stop()
})

describe('a space and its members', () => {
  it('[DS-05] lives from announcement over joins and searches until its records run out', async () => {
    const [a, b, c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    const space = await a.spaces.announce({ name: ENERGY, curator: alice, description: 'kilowatts' })
    expect(space).toMatchObject({ name: ENERGY, curator: alice.did, description: 'kilowatts', contested: false, registrars: 3, stored: 3 })
    expect(await b.spaces.join({ name: ENERGY, agent: bob, tags: ['solar'] })).toMatchObject({ did: bob.did, registrars: 3, stored: 3 })
    const found = await c.spaces.find({ name: ENERGY })
    expect(found.spaces).toHaveLength(1)
    expect(found.members).toMatchObject([{ did: bob.did, space: ENERGY, curator: alice.did, tags: ['solar'], mode: 'always_on' }])
    expect(found.members[0]?.servedBy).toHaveLength(3)
    expect(found).toMatchObject({ registrars: { known: 3, asked: 3, answered: 3 }, complete: true })
    await a.spaces.stop()
    await b.spaces.stop()
    clock.advance(25 * HOUR_MS)
    const later = await c.spaces.find({ name: ENERGY })
    expect(later.spaces).toEqual([])
    expect(later.members).toEqual([])
  })

  it('[DS-01] has one id wherever it is computed, and that id leads both to it', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    const announced = await a.spaces.announce({ name: ENERGY, curator: alice })
    const found = await b.spaces.find({ name: ENERGY })
    expect(found.spaces[0]?.dsid).toBe(announced.dsid)
    expect(announced.dsid).toBe(toHex(energyId))
  })

  it('[DS-06] puts the announcement into the DHT under DS_ID, where a third node reads it', async () => {
    const [a, , c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const values = await collect(c.host.dht.values(announceKey(energyId)))
    expect(values).toHaveLength(1)
    expect(decodeRecord(announceType, values[0] as Uint8Array).payload).toMatchObject({
      ns: 'org.agentnet',
      topic: 'marketplace.energy',
      ver: 1
    })
  })

  it('[DS-13] puts the join under DS_ID and EID, exactly there', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob })
    const values = await collect(a.host.dht.values(joinKey(energyId, bob.eid)))
    expect(values).toHaveLength(1)
    expect(toHex(decodeRecord(joinType, values[0] as Uint8Array).payload.eid)).toBe(bob.eidHex)
  })

  it('[DS-11] refuses to join a space that nobody announced, and publishes nothing', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await expect(b.spaces.join({ name: ENERGY, agent: bob })).rejects.toMatchObject({
      code: 'SPACE_UNKNOWN',
      kind: 'notFound',
      field: 'name',
      value: ENERGY
    })
    expect(await collect(a.host.dht.values(joinKey(energyId, bob.eid)))).toEqual([])
    expect(await b.spaces.list()).toEqual([])
  })

  it('[DS-12] [D-19] sends no join for an announcement whose signature is not its curator’s', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    const forged = announceBytes(alice)
    const last = forged.length - 1
    forged[last] = (forged[last] as number) ^ 1
    await plant(a, 'announcements', forged)
    a.host.values.set(toHex(announceKey(energyId)), forged)
    await expect(b.spaces.join({ name: ENERGY, agent: bob })).rejects.toMatchObject({ code: 'SPACE_UNKNOWN' })
    expect(a.registry.stats().entries + b.registry.stats().entries).toBe(1)
    expect(a.host.values.has(toHex(joinKey(energyId, bob.eid)))).toBe(false)
  })

  it('[DS-07] refuses an announcement that lacks a field or its curator’s signature, when it is put and when it is read', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    const unsigned = announceBytes(alice)
    const last = unsigned.length - 1
    unsigned[last] = (unsigned[last] as number) ^ 1
    const { payload } = decodeRecord(announceType, announceBytes(alice))
    const payloadBytes = encodeCbor({ v: 1, ...announceType.toCbor(payload), desc: undefined, ts: payload.ts, exp: payload.exp })
    const signature = alice.signer.sign(concat([utf8('rookery/v1/record/announce'), Uint8Array.of(0), payloadBytes]))
    const lacking = encodeEnvelope({ kind: 'announce', payloadBytes, signature })
    for (const record of [unsigned, lacking]) {
      expect(await a.registry.put({ set: 'announcements', key: energyId, record })).toMatchObject({ stored: 0, answers: { invalid: 2 } })
      await expect(a.host.dht.put(announceKey(energyId), record)).rejects.toThrow()
      await plant(a, 'announcements', record)
      a.host.lies = record
      expect((await b.spaces.find({ name: ENERGY })).spaces).toEqual([])
    }
    a.host.lies = undefined
    await a.spaces.announce({ name: ENERGY, curator: alice })
    expect((await b.spaces.find({ name: ENERGY })).spaces).toHaveLength(1)
  })

  it('[DS-15] answers a search by tags and mode with matches only', async () => {
    const sleeper = fakeAgent('sleeper', { mode: 'sleep' })
    const [a, b, c, d] = (await nodesFor([alice, bob, carol, sleeper])) as [FakeNode, FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob, tags: ['solar', 'buy'] })
    await c.spaces.join({ name: ENERGY, agent: carol, tags: ['wind'] })
    await d.spaces.join({ name: ENERGY, agent: sleeper, tags: ['solar'] })
    const dids = async (query: { tags?: string[]; mode?: 'sleep' | 'always_on'; limit?: number }) =>
      (await a.spaces.find({ name: ENERGY, ...query })).members.map((member) => member.did).sort()
    expect(await dids({ tags: ['solar'] })).toEqual([bob.did, sleeper.did].sort())
    expect(await dids({ tags: ['solar', 'buy'] })).toEqual([bob.did])
    expect(await dids({ mode: 'sleep' })).toEqual([sleeper.did])
    expect(await dids({ tags: ['hydro'] })).toEqual([])
    expect(await dids({})).toHaveLength(3)
    expect(await dids({ limit: 2 })).toHaveLength(2)
  })

  it('[DS-18] lets a join go 3,601 s after it was signed, from searches, listings and the disk of registrars', async () => {
    const [a, b, c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob })
    await b.spaces.stop()
    clock.advance(3_599_000)
    expect((await c.spaces.find({ name: ENERGY })).members).toHaveLength(1)
    clock.advance(2_000)
    expect((await c.spaces.find({ name: ENERGY })).members).toEqual([])
    expect(await collect(c.host.dht.values(joinKey(energyId, bob.eid)))).toEqual([])
    await pass(clock, 120_000, [a, c])
    expect(c.registry.stats().entries).toBe(1 + 3)
  })

  it('[DS-19] [F028] is found at every minute of 24 simulated hours, under ever newer numbers', async () => {
    const [a, b, c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob })
    const expiries = new Set<number>()
    for (let minute = 0; minute < 24 * 60; minute++) {
      await pass(clock, 60_000, nodes)
      const found = await c.spaces.find({ name: ENERGY })
      expect(found.members.map((member) => member.did)).toEqual([bob.did])
      expiries.add(found.members[0]?.expiresAtMs as number)
      expect(await collect(c.host.dht.values(joinKey(energyId, bob.eid)))).toHaveLength(1)
    }
    expect(expiries.size).toBeGreaterThanOrEqual(47)
    expect(expiries.size).toBeLessThan(60)
    const values = await collect(c.host.dht.values(joinKey(energyId, bob.eid)))
    expect(decodeRecord(joinType, values[0] as Uint8Array).payload.exp * 1_000).toBe(Math.max(...expiries))
  }, 120_000)

  it('[DS-08] takes an announcement with and without seeds, and reaches members through the seeds that it lists', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const seeded = await a.spaces.announce({ name: ENERGY, curator: alice, seeds: [`/ip4/127.0.0.1/udp/4001/quic-v1/p2p/${SEED}`] })
    expect(seeded.stored).toBe(2)
    const asked = await b.spaces.find({ name: ENERGY })
    expect(asked.registrars.known).toBe(3)
    expect(asked.registrars.answered).toBe(2)
    await expect(a.spaces.announce({ name: ENERGY, curator: alice, seeds: ['/ip4/127.0.0.1/udp/1/quic-v1'] })).rejects.toMatchObject({
      code: 'SEED_INVALID',
      field: 'seeds[0]'
    })
  })

  it('[DS-10] disappears when its curator leaves it, and stays when anyone else tries', async () => {
    const [a, b, c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob })
    await b.spaces.leave({ name: ENERGY, agent: bob })
    expect((await c.spaces.find({ name: ENERGY })).members).toEqual([])
    expect((await c.spaces.find({ name: ENERGY })).spaces).toHaveLength(1)
    await a.spaces.leave({ name: ENERGY, agent: alice })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toEqual([])
    expect(await a.spaces.list()).toEqual([])
    await expect(c.spaces.leave({ name: ENERGY, agent: carol })).rejects.toMatchObject({ code: 'SPACE_NOT_JOINED' })
  })

  it('[DS-04] [G-22] only goes up in version; the new one takes the place of the old, which points to it', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await a.spaces.announce({ name: 'org.agentnet/marketplace.energy@2', curator: alice })
    await expect(a.spaces.announce({ name: ENERGY, curator: alice })).rejects.toMatchObject({ code: 'SPACE_VERSION', kind: 'conflict' })
    await a.spaces.announce({ name: 'org.agentnet/marketplace.energy@3', curator: alice })
    const found = await b.spaces.find({ name: 'org.agentnet/marketplace.energy' })
    expect(found.spaces.map((space) => space.name)).toEqual(['org.agentnet/marketplace.energy@3'])
    await expect(b.spaces.join({ name: 'org.agentnet/marketplace.energy@2', agent: bob })).rejects.toMatchObject({
      code: 'SPACE_UNKNOWN',
      data: { movedToVersion: 3 }
    })
  })
})

describe('the hierarchy of topics', () => {
  it('[DS-21] [D-20] [G-26] ends at whole labels: market is no parent of marketplace, and namespaces do not nest', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await a.spaces.announce({ name: 'org.agentnet/marketplace.energy.trading@1', curator: alice })
    await b.spaces.join({ name: 'org.agentnet/marketplace.energy.trading@1', agent: bob })
    const names = async (name: string) => (await b.spaces.find({ name })).spaces.map((space) => space.name)
    expect(await names('org.agentnet/marketplace.energy')).toEqual(['org.agentnet/marketplace.energy.trading@1'])
    expect(await names('org.agentnet/marketplace')).toEqual(['org.agentnet/marketplace.energy.trading@1'])
    expect(await names('org.agentnet/market')).toEqual([])
    expect(await names('org.agentnet/marketplace.ener')).toEqual([])
    expect(await names('org/marketplace')).toEqual([])
    expect((await a.spaces.find({ name: 'org.agentnet/marketplace' })).members.map((member) => member.did)).toEqual([bob.did])
  })

  it('[DS-22] [G-25] finds all 50 topics of three levels below a parent and nothing else, the newest version of each', async () => {
    const [a, b] = (await nodesFor([alice, bob], { putsPerMinuteMax: 1_000 })) as [FakeNode, FakeNode]
    const wanted: string[] = []
    for (let i = 0; i < 7; i++) {
      wanted.push(`grid.area${i}`)
      for (let j = 0; j < 6; j++) wanted.push(`grid.area${i}.cell${j}`)
    }
    wanted.push('grid')
    expect(wanted).toHaveLength(50)
    const others = ['gridlock', 'grid-x.area0', 'water.grid', 'area0']
    for (const topic of [...wanted, ...others]) await a.spaces.announce({ name: `org.agentnet/${topic}@1`, curator: alice })
    await a.spaces.announce({ name: 'org.agentnet/grid.area3@2', curator: alice })
    await b.spaces.join({ name: 'org.agentnet/grid.area3@2', agent: bob })
    const found = await b.spaces.find({ name: 'org.agentnet/grid' })
    const expected = wanted.map((topic) => `org.agentnet/${topic}@${topic === 'grid.area3' ? 2 : 1}`).sort()
    expect(found.spaces.map((space) => space.name).sort()).toEqual(expected)
    expect(found.members.map((member) => member.space)).toEqual(['org.agentnet/grid.area3@2'])
    expect((await b.spaces.find({ name: 'org.agentnet/grid.area5' })).spaces).toHaveLength(7)
  })
})

describe('curators', () => {
  it('[DS-09] [G-21] [D-18] gains a hijacker no members: joins follow the curator known before', async () => {
    const [a, b, c, m] = (await nodesFor([alice, bob, carol, mallory])) as [FakeNode, FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob })
    expect((await c.spaces.find({ name: ENERGY })).members).toHaveLength(1)
    await c.spaces.join({ name: ENERGY, agent: carol })
    expect(await m.spaces.announce({ name: ENERGY, curator: mallory })).toMatchObject({ contested: true })
    const held = decodeRecord(announceType, c.host.values.get(toHex(announceKey(energyId))) as Uint8Array)
    expect(toHex(held.payload.curator)).toBe(alice.eidHex)
    const found = await c.spaces.find({ name: ENERGY })
    expect(found.spaces).toMatchObject([{ curator: alice.did, contested: false }])
    expect(found.members.map((member) => member.did).sort()).toEqual([bob.did, carol.did].sort())
    expect((await b.spaces.find({ name: `${ENERGY}#${mallory.did}` })).members).toEqual([])
    await expect(m.spaces.announce({ name: `${ENERGY}#${alice.did}`, curator: mallory })).rejects.toMatchObject({ code: 'SPACE_PIN' })
  })

  it('[G-21] calls a tie by name and lets a pin settle it', async () => {
    const [a, b, m] = (await nodesFor([alice, bob, mallory])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    await expect(b.spaces.join({ name: ENERGY, agent: bob })).rejects.toMatchObject({
      code: 'SPACE_CONTESTED',
      kind: 'conflict',
      data: { curators: expect.arrayContaining([alice.did, mallory.did]) }
    })
    expect(await b.spaces.join({ name: `${ENERGY}#${mallory.did}`, agent: bob })).toMatchObject({ curator: mallory.did })
    expect(await b.spaces.join({ name: ENERGY, agent: bob })).toMatchObject({ curator: mallory.did })
    const parent = await a.spaces.find({ name: 'org.agentnet/marketplace' })
    expect(parent.spaces).toMatchObject([{ curator: alice.did, contested: false }])
  })

  it('[G-21] remembers the curator over a restart', async () => {
    const [a, b, m] = (await nodesFor([alice, bob, mallory])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob })
    await b.restart()
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    expect(await b.spaces.join({ name: ENERGY, agent: bob })).toMatchObject({ curator: alice.did })
  })
})

describe('over time', () => {
  it('[F043] is found whichever comes first: alone at first, it is put to peers as they arrive', async () => {
    const a = await fakeNode(network, clock, 'alice', [alice])
    const b = await fakeNode(network, clock, 'bob', [bob])
    nodes.push(a, b)
    expect(await a.spaces.announce({ name: ENERGY, curator: alice })).toMatchObject({ registrars: 1, stored: 1 })
    await expect(b.spaces.join({ name: ENERGY, agent: bob })).rejects.toMatchObject({ code: 'SPACE_UNKNOWN' })
    const alone = await b.spaces.find({ name: ENERGY })
    expect(alone).toMatchObject({ spaces: [], registrars: { known: 1, asked: 1, answered: 1 } })
    await pass(clock, 10_000, nodes)
    network.meet(a.host, b.host)
    await pass(clock, 5_000, nodes, 1_000)
    expect(b.registry.stats().entries).toBe(4)
    await b.spaces.join({ name: ENERGY, agent: bob })
    expect((await a.spaces.find({ name: ENERGY })).members).toHaveLength(1)
  })

  it('goes on after a restart with what it announced and joined, under higher numbers', async () => {
    const [a, b, c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.spaces.join({ name: ENERGY, agent: bob, tags: ['solar'] })
    const before = await c.spaces.find({ name: ENERGY })
    await b.spaces.stop({ withdraw: 'yes' })
    expect((await c.spaces.find({ name: ENERGY })).members).toEqual([])
    await b.restart()
    await settle(nodes)
    const after = await c.spaces.find({ name: ENERGY })
    expect(after.members).toMatchObject([{ did: bob.did, tags: ['solar'] }])
    expect(after.members[0]?.expiresAtMs).toBeGreaterThanOrEqual(before.members[0]?.expiresAtMs as number)
    expect(await b.spaces.list()).toMatchObject([{ role: 'member', agent: bob.did, name: ENERGY }])
  })

  it('keeps what its owner just changed though a refresh was under way', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice, description: 'old words' })
    clock.advance(12 * HOUR_MS)
    await a.spaces.announce({ name: ENERGY, curator: alice, description: 'new words' })
    await settle(nodes)
    await pass(clock, 13 * HOUR_MS, [a], HOUR_MS)
    expect((await b.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ description: 'new words' }])
    clock.advance(HOUR_MS)
    const leaving = a.spaces.leave({ name: ENERGY, agent: alice })
    clock.advance(12 * HOUR_MS)
    await leaving
    await settle(nodes)
    expect((await b.spaces.find({ name: ENERGY })).spaces).toEqual([])
    expect(await a.spaces.list()).toEqual([])
  })

  it('passes the number that a lost disk had used, so that its next record wins', async () => {
    const [a, b, c] = (await nodesFor([alice, bob, carol])) as [FakeNode, FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const nowSec = Math.floor(clock.nowMs() / 1_000)
    const ahead = nowSec * 1_000 + 59_000
    await plant(c, 'members', joinBytes(bob, ahead, ['old disk']))
    await b.spaces.join({ name: ENERGY, agent: bob, tags: ['new disk'] })
    expect((await c.spaces.find({ name: ENERGY })).members).toMatchObject([{ tags: ['new disk'] }])
  })

  it('ends a stop within three seconds though registrars hang', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await b.registry.stop()
    await b.host.handle('/rookery/registry/1.0.0', () => new Promise(() => {}))
    const stopped = a.spaces.stop({ withdraw: 'yes' })
    let done = false
    void stopped.then(() => {
      done = true
    })
    await settle([])
    for (let i = 0; i < 20; i++) await settle([])
    expect(done).toBe(false)
    clock.advance(3_000)
    await stopped
  })

  it('tells few withdrawals at once, so that a stop with many spaces is not late with all of them', async () => {
    const [a, b] = (await nodesFor([alice, bob])) as [FakeNode, FakeNode]
    for (let i = 0; i < 40; i++) await a.spaces.announce({ name: `org.agentnet/market-${i}@1`, curator: alice })
    expect(a.spaces.counts()).toEqual({ curator: 40, member: 0 })
    await b.registry.stop()
    let asked = 0
    await b.host.handle('/rookery/registry/1.0.0', () => {
      asked++
      return new Promise(() => {})
    })
    const stopped = a.spaces.stop({ withdraw: 'yes' })
    for (let i = 0; i < 60; i++) await settle([])
    expect(asked).toBeGreaterThan(0)
    expect(asked).toBeLessThanOrEqual(16 * 3) // an announcement has its own set and two of children
    clock.advance(3_000)
    await stopped
  })

  it('names what is wrong with a value and changes nothing', async () => {
    const [a] = (await nodesFor([alice])) as [FakeNode]
    for (const name of ['energy', 'org.agentnet/Energy@1', 'org.agentnet/energy', 'org.agentnet/energy@0', `${ENERGY}#did:key:nonsense`]) {
      await expect(a.spaces.announce({ name, curator: alice })).rejects.toMatchObject({ kind: 'usage', field: 'name', value: name })
    }
    await expect(a.spaces.announce({ name: ENERGY, curator: alice, description: 'é'.repeat(129) })).rejects.toMatchObject({
      code: 'DESCRIPTION_TOO_LONG',
      field: 'description'
    })
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await expect(a.spaces.join({ name: ENERGY, agent: alice, tags: ['ü'] })).rejects.toMatchObject({ kind: 'usage', field: 'tags' })
    await expect(a.spaces.find({ name: ENERGY, limit: 0 })).rejects.toMatchObject({ code: 'LIMIT_INVALID', field: 'limit' })
    expect(await a.spaces.list()).toHaveLength(1)
  })
})

const SEED = '12D3KooWEYdxXTvaXfTNRoJzZPoXxV8R2PcWkeyHUMfjSPbjuYxL'

function announceBytes(curator: ReturnType<typeof fakeAgent>): Uint8Array {
  const ts = Math.floor(clock.nowMs() / 1_000)
  const payload = {
    ns: 'org.agentnet',
    topic: 'marketplace.energy',
    ver: 1,
    desc: '',
    curator: curator.eid,
    seeds: [],
    policy: POLICY_OPEN,
    shards: 1,
    seq: clock.nowMs(),
    ts,
    exp: ts + ANNOUNCE_TTL_SEC
  }
  return encodeEnvelope({ ...buildRecord(nodeCrypto, announceType, payload, curator.signer) })
}

function joinBytes(agent: ReturnType<typeof fakeAgent>, seq: number, tags: string[]): Uint8Array {
  const ts = Math.floor(clock.nowMs() / 1_000)
  const payload = { dsid: energyId, eid: agent.eid, curator: alice.eid, tags, mode: 'always_on' as const, seq, ts, exp: ts + JOIN_TTL_SEC }
  return buildRecord(nodeCrypto, joinType, payload, agent.signer).bytes
}

/** Lays a row into a registrar's disk behind its back, as a registrar that lies would hold it. */
async function plant(node: FakeNode, set: 'announcements' | 'members', record: Uint8Array): Promise<void> {
  const rows = node.store.table('registry-entries', cborCodec())
  const id = set === 'members' ? decodeRecord(joinType, record).payload : { eid: alice.eid, seq: 0, curator: alice.eid }
  const key = `${toHex(registryKeyName(set, energyId))}:${toHex(id.eid)}`
  const row = { r: record, e: Math.floor(clock.nowMs() / 1_000) + JOIN_TTL_SEC, n: id.seq, g: false, c: alice.eid, t: [] }
  await node.store.commit([rows.put(key, row)])
  await node.restart()
}

async function collect<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const value of values) all.push(value)
  return all
}
