import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { announceKey } from '../../protocol/discovery/dht-key.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import type { FakeNode } from './fakes/fake-node.ts'
import { ENERGY_NAME as ENERGY, ENERGY_KEY, HOUR_MS, SpaceNet } from './fakes/space-net.ts'

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const dave = fakeAgent('dave')

let net: SpaceNet
let a: FakeNode
let b: FakeNode
let c: FakeNode
let d: FakeNode

beforeEach(async () => {
  net = new SpaceNet()
  ;[a, b, c, d] = (await net.add([alice, bob, carol, dave])) as [FakeNode, FakeNode, FakeNode, FakeNode]
  await a.spaces.announce({ name: ENERGY, curator: alice, description: 'kilowatts', shards: 2 })
  await c.spaces.join({ name: ENERGY, agent: carol, tags: ['solar'] })
})

afterEach(() => net.stop())

const membersSeenBy = async (node: FakeNode, name = ENERGY) => (await node.spaces.find({ name })).members.map(({ did }) => did)

describe('a space that goes to another curator', () => {
  it('[DS-09] [G-22] belongs to the heir once both have signed; its members stay in sight and follow at their next refresh', async () => {
    expect(await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })).toMatchObject({ state: 'offered', to: bob.did })
    expect((await d.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: alice.did, contested: false }])
    const taken = await b.spaces.announce({ name: ENERGY, curator: bob })
    expect(taken).toMatchObject({ curator: bob.did, description: 'kilowatts', shards: 2, contested: false })
    for (const name of [ENERGY, 'org.agentnet/marketplace', `${ENERGY}#${alice.did}`, `${ENERGY}#${bob.did}`]) {
      const found = await d.spaces.find({ name })
      expect(found.spaces).toMatchObject([{ curator: bob.did, contested: false }])
      expect(found.members).toMatchObject([{ did: carol.did, curator: alice.did }])
    }
    await net.pass(HOUR_MS, async () => expect(await membersSeenBy(d)).toEqual([carol.did]))
    expect((await d.spaces.find({ name: ENERGY })).members).toMatchObject([{ did: carol.did, curator: bob.did, tags: ['solar'] }])
    expect(await c.spaces.list()).toMatchObject([{ role: 'member', curator: bob.did, space: 'announced' }])
    expect(await a.spaces.list()).toEqual([])
    const details = await d.spaces.show(ENERGY)
    expect(details).toMatchObject({ curator: bob.did, trust: 'first-seen', contested: false, members: 1, shards: 2 })
    expect(details.announcements.find(({ curator }) => curator === alice.did)).toMatchObject({
      state: 'handed-over',
      next: { curator: bob.did, version: 1 }
    })
  })

  it('[G-22] stays with its curator while the one it is offered to says nothing, and when the offer is taken back', async () => {
    await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })
    expect(await a.spaces.list()).toMatchObject([{ role: 'curator', offeredTo: bob.did }])
    await net.passFar(13 * HOUR_MS)
    expect(await a.spaces.list()).toMatchObject([{ role: 'curator', offeredTo: bob.did }])
    expect((await d.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: alice.did }])
    expect(await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: 'nobody' })).toMatchObject({ state: 'kept' })
    expect(await b.spaces.announce({ name: ENERGY, curator: bob })).toMatchObject({ contested: true, description: '' })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: alice.did, trust: 'remembered' }])
  })

  it('[G-21] [G-22] is not taken by one whom the curator did not name, and not claimed back by the one who gave it', async () => {
    await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })
    await d.spaces.announce({ name: ENERGY, curator: dave })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: alice.did }])
    await b.spaces.announce({ name: ENERGY, curator: bob })
    await net.pass(10 * 60_000)
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: bob.did, trust: 'remembered' }])
    await expect(a.spaces.announce({ name: ENERGY, curator: alice })).rejects.toMatchObject({
      code: 'SPACE_HANDED_OVER',
      kind: 'conflict',
      field: 'name',
      value: ENERGY
    })
    await b.spaces.handOverTo({ name: ENERGY, curator: bob, to: alice.eid })
    expect(await a.spaces.announce({ name: ENERGY, curator: alice })).toMatchObject({ curator: alice.did, contested: true })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: alice.did }])
  })

  it('[G-21] takes along, on disk, those who remember its first curator', async () => {
    await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })
    await b.spaces.announce({ name: ENERGY, curator: bob })
    await c.spaces.find({ name: ENERGY })
    await a.spaces.stop()
    await net.passFar(26 * HOUR_MS)
    await c.restart()
    await d.spaces.announce({ name: ENERGY, curator: dave })
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: bob.did, trust: 'remembered' }])
  })

  it('[G-22] is the heir’s in the DHT too, which the old record reached first', async () => {
    await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })
    await b.spaces.announce({ name: ENERGY, curator: bob })
    for (const { host } of net.nodes) {
      const held = decodeRecord(announceType, host.values.get(toHex(announceKey(ENERGY_KEY))) as Uint8Array).payload
      expect(toHex(held.curator)).toBe(bob.eidHex)
      expect(toHex(held.prev?.eid as Uint8Array)).toBe(alice.eidHex)
    }
  })

  it('[G-22] goes at once to another agent of the same node', async () => {
    a.agents.set(bob.eidHex, bob)
    expect(await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: bob.eid })).toMatchObject({ state: 'done', curator: bob.did })
    expect(await a.spaces.list()).toMatchObject([{ role: 'curator', agent: bob.did }])
    expect((await c.spaces.find({ name: ENERGY })).spaces).toMatchObject([{ curator: bob.did }])
    expect(await membersSeenBy(d)).toEqual([carol.did])
  })

  it('[DS-09] names what is wrong: not the curator, to itself', async () => {
    await expect(b.spaces.handOverTo({ name: ENERGY, curator: bob, to: carol.eid })).rejects.toMatchObject({
      code: 'SPACE_NOT_CURATED',
      field: 'name',
      value: ENERGY
    })
    await expect(a.spaces.handOverTo({ name: ENERGY, curator: alice, to: alice.eid })).rejects.toMatchObject({
      code: 'HANDOVER_TO_SELF',
      field: 'to',
      value: alice.did
    })
    for (const change of [
      b.spaces.update({ name: ENERGY, curator: bob, description: 'mine' }),
      b.spaces.tombstone({ name: ENERGY, curator: bob }),
      b.spaces.prune({ name: ENERGY, curator: bob, member: carol.eid })
    ]) {
      await expect(change).rejects.toMatchObject({ code: 'SPACE_NOT_CURATED' })
    }
  })
})

describe('an announcement said anew', () => {
  it('[DS-09] changes what is given and keeps the rest', async () => {
    await a.spaces.announce({
      name: ENERGY,
      curator: alice,
      description: 'kilowatts',
      seeds: [`/ip4/127.0.0.1/udp/4001/quic-v1/p2p/${SEED}`]
    })
    await a.spaces.update({ name: ENERGY, curator: alice, description: 'megawatts' })
    expect((await d.spaces.show(ENERGY)).announcements).toMatchObject([
      { description: 'megawatts', shards: 2, seeds: [expect.stringContaining(SEED)] }
    ])
  })

  it('[G-22] keeps its way back to the version before', async () => {
    const second = 'org.agentnet/marketplace.energy@2'
    await a.spaces.announce({ name: second, curator: alice })
    await a.spaces.announce({ name: second, curator: alice, description: 'again' })
    const [now] = (await d.spaces.show(second)).announcements
    expect(now).toMatchObject({ description: 'again', prev: { curator: alice.did, version: 1 } })
    expect(await d.spaces.show(ENERGY)).toMatchObject({ trust: 'none', movedToVersion: 2 })
    await net.pass(HOUR_MS)
    expect(await c.spaces.list()).toMatchObject([{ name: ENERGY, space: 'gone', movedToVersion: 2 }])
  })

  it('[DS-10] is withdrawn by its curator alone, who stays a member where it is one', async () => {
    await a.spaces.join({ name: ENERGY, agent: alice })
    await a.spaces.tombstone({ name: ENERGY, curator: alice })
    expect((await d.spaces.find({ name: ENERGY })).spaces).toEqual([])
    expect((await a.spaces.list()).map(({ role }) => role)).toEqual(['member'])
  })
})

const SEED = '12D3KooWEYdxXTvaXfTNRoJzZPoXxV8R2PcWkeyHUMfjSPbjuYxL'
