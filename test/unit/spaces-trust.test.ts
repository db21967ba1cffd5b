import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fakeAgent } from './fakes/fake-agent.ts'
import type { FakeNode } from './fakes/fake-node.ts'
import { ENERGY_NAME as ENERGY, SpaceNet } from './fakes/space-net.ts'

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const mallory = fakeAgent('mallory')

let net: SpaceNet
let a: FakeNode
let b: FakeNode
let c: FakeNode
let m: FakeNode

beforeEach(async () => {
  net = new SpaceNet()
  ;[a, b, c, m] = (await net.add([alice, bob, carol, mallory])) as [FakeNode, FakeNode, FakeNode, FakeNode]
})

afterEach(() => net.stop())

describe('[G-21] whom a node follows, and why', () => {
  it('is told with every space: own, first seen, remembered, pinned, contested', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice })
    const trust = async (node: FakeNode, name = ENERGY) => (await node.spaces.find({ name })).spaces.map((space) => space.trust)
    expect(await trust(a)).toEqual(['own'])
    expect(await trust(c)).toEqual(['first-seen'])
    await c.spaces.join({ name: ENERGY, agent: carol })
    expect(await trust(c)).toEqual(['remembered'])
    expect(await trust(c, 'org.agentnet/marketplace')).toEqual(['remembered'])
    expect(await trust(c, `${ENERGY}#${alice.did}`)).toEqual(['pinned'])
    expect(await trust(c, `org.agentnet/marketplace#${alice.did}`)).toEqual(['pinned'])
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    expect(await trust(b, 'org.agentnet/marketplace')).toEqual(['contested', 'contested'])
    expect(await trust(b)).toEqual(['contested', 'contested'])
    await expect(b.spaces.join({ name: ENERGY, agent: bob })).rejects.toMatchObject({ code: 'SPACE_CONTESTED' })
    expect(await trust(c)).toEqual(['remembered'])
  })

  it('is told by how many registrars hold the announcement, or that the DHT alone does', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ known: 'registry', heldBy: 4, shards: 1 }])
    for (const node of [a, b, c, m]) {
      await node.host.unhandle('/rookery/registry/1.0.0')
    }
    await clearRegistry(c)
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ known: 'dht', heldBy: 1, curator: alice.did }])
  })

  it('is not moved by a later pin: only by the owner’s word, and then over a restart too', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await c.spaces.join({ name: ENERGY, agent: carol })
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    await c.spaces.join({ name: `${ENERGY}#${mallory.did}`, agent: carol })
    expect(await c.spaces.join({ name: ENERGY, agent: carol })).toMatchObject({ curator: alice.did })
    await c.spaces.trust({ name: ENERGY, curator: mallory.eid })
    await c.restart()
    expect(await c.spaces.join({ name: ENERGY, agent: carol })).toMatchObject({ curator: mallory.did })
    await c.spaces.trust({ name: ENERGY, curator: 'nobody' })
    await expect(c.spaces.join({ name: ENERGY, agent: carol })).rejects.toMatchObject({ code: 'SPACE_CONTESTED' })
  })

  it('is nobody once the curator it knew is gone, though another announces the space; the way out is named', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await c.spaces.join({ name: ENERGY, agent: carol })
    await a.spaces.tombstone({ name: ENERGY, curator: alice })
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toEqual([])
    await expect(c.spaces.join({ name: ENERGY, agent: carol })).rejects.toMatchObject({
      code: 'SPACE_UNKNOWN',
      remedy: expect.stringContaining(`rookery space trust ${ENERGY} ${mallory.did}`),
      data: { curators: [mallory.did] }
    })
    expect(await c.spaces.show(ENERGY)).toMatchObject({ trust: 'none', remembered: alice.did, contested: false })
  })
})

describe('what is shown of one space', () => {
  it('[DS-07] [G-22] has every curator’s word, the versions of the topic, size and parts, and our own roles', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice, description: 'kilowatts', shards: 4 })
    await b.spaces.join({ name: ENERGY, agent: bob })
    await c.spaces.join({ name: ENERGY, agent: carol })
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    await a.spaces.announce({ name: 'org.agentnet/marketplace.energy.trading@7', curator: alice })
    const details = await c.spaces.show(ENERGY)
    expect(details).toMatchObject({
      name: ENERGY,
      curator: alice.did,
      trust: 'remembered',
      remembered: alice.did,
      contested: false,
      shards: 4,
      members: 2,
      pruned: 0,
      complete: true,
      registrars: { known: 4, answered: 4 },
      ours: [{ role: 'member', agent: carol.did }]
    })
    expect(details.announcements.map(({ curator, state }) => [curator, state]).sort()).toEqual(
      [
        [alice.did, 'live'],
        [mallory.did, 'live']
      ].sort()
    )
    expect(details.versions.map(({ version }) => version)).toEqual([1, 1])
    await a.spaces.announce({ name: 'org.agentnet/marketplace.energy@2', curator: alice })
    const later = await c.spaces.show(ENERGY)
    expect(later.versions.map(({ version, state, curator }) => [version, state, curator]).slice(0, 1)).toEqual([[2, 'live', alice.did]])
    expect(later).toMatchObject({ trust: 'none', movedToVersion: 2, members: 0 })
    expect(await b.spaces.show('org.agentnet/nothing.here@1')).toMatchObject({ trust: 'none', announcements: [], versions: [], members: 0 })
  })

  it('[G-21] tells a tie', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    expect(await b.spaces.show(ENERGY)).toMatchObject({ trust: 'tie', contested: true })
  })
})

describe('how a member is known', () => {
  it('[DS-17] by this node alone, or by registrars', async () => {
    await a.spaces.announce({ name: ENERGY, curator: alice })
    await c.spaces.join({ name: ENERGY, agent: carol })
    expect((await b.spaces.find({ name: ENERGY })).members).toMatchObject([{ known: 'registry', servedBy: expect.any(Array) }])
    const alone = new SpaceNet()
    const [one] = (await alone.add([alice])) as [FakeNode]
    await one.spaces.announce({ name: ENERGY, curator: alice })
    await one.spaces.join({ name: ENERGY, agent: alice })
    expect((await one.spaces.find({ name: ENERGY })).members).toMatchObject([{ known: 'local', servedBy: [one.host.peer] }])
    await alone.stop()
  })
})

/** What this registrar holds is gone, as after a lost disk. */
async function clearRegistry(node: FakeNode): Promise<void> {
  const rows = node.store.table('registry-entries', { encode: (bytes: Uint8Array) => bytes, decode: (bytes) => bytes })
  for await (const key of rows.keys()) await node.store.commit([rows.del(key)])
}
