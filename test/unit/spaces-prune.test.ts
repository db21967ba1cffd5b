import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { PRUNE_TTL_SEC, pruneType } from '../../protocol/records/prune.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import type { FakeNode } from './fakes/fake-node.ts'
import { ENERGY_NAME as ENERGY, ENERGY_KEY, HOUR_MS, SpaceNet } from './fakes/space-net.ts'

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
  await a.spaces.announce({ name: ENERGY, curator: alice })
  await b.spaces.join({ name: ENERGY, agent: bob, tags: ['solar'] })
  await m.spaces.join({ name: ENERGY, agent: mallory, tags: ['solar'] })
})

afterEach(() => net.stop())

const seenBy = async (node: FakeNode, more: { tags?: string[]; limit?: number } = {}) =>
  (await node.spaces.find({ name: ENERGY, ...more })).members.map(({ did }) => did)

describe('a member whom the curator prunes', () => {
  it('[DS-20] [G-29] is gone from every listing at once, whatever it joins again, until the time named', async () => {
    const pruned = await a.spaces.prune({ name: ENERGY, curator: alice, member: mallory.eid, untilMs: net.clock.nowMs() + 3 * HOUR_MS })
    expect(pruned).toMatchObject({ space: ENERGY, member: mallory.did, registrars: 4, stored: 4 })
    expect(await c.spaces.find({ name: ENERGY })).toMatchObject({ members: [{ did: bob.did }], pruned: 1 })
    expect(await seenBy(c, { limit: 1 })).toEqual([bob.did])
    expect(await seenBy(c, { tags: ['solar'] })).toEqual([bob.did])
    await m.spaces.join({ name: ENERGY, agent: mallory, tags: ['solar', 'cheap'] })
    expect(await seenBy(c)).toEqual([bob.did])
    expect(await c.spaces.show(ENERGY)).toMatchObject({ members: 1, pruned: 1 })
    await net.passFar(3 * HOUR_MS + 60_000)
    expect((await seenBy(c)).sort()).toEqual([bob.did, mallory.did].sort())
  })

  it('[DS-20] is shown again by the curator’s word, even within the same second', async () => {
    await a.spaces.prune({ name: ENERGY, curator: alice, member: mallory.eid })
    expect(await seenBy(c)).toEqual([bob.did])
    expect(await a.spaces.prune({ name: ENERGY, curator: alice, member: mallory.eid, untilMs: 'shown' })).toMatchObject({ stored: 4 })
    expect((await seenBy(c)).sort()).toEqual([bob.did, mallory.did].sort())
  })

  it('[DS-20] stays hidden beyond the life of one record and over a restart of the curator’s node', async () => {
    await a.spaces.prune({ name: ENERGY, curator: alice, member: mallory.eid, untilMs: net.clock.nowMs() + 40 * HOUR_MS })
    await net.passFar(10 * HOUR_MS)
    await a.restart()
    for (let half = 0; half < 2; half++) {
      await net.passFar(14 * HOUR_MS)
      expect(await seenBy(c)).toEqual([bob.did])
    }
    await net.passFar(3 * HOUR_MS)
    expect((await seenBy(c)).sort()).toEqual([bob.did, mallory.did].sort())
  })

  it('[G-29] is hidden by the heir of a space too', async () => {
    await a.spaces.prune({ name: ENERGY, curator: alice, member: mallory.eid })
    a.agents.set(carol.eidHex, carol)
    await a.spaces.handOverTo({ name: ENERGY, curator: alice, to: carol.eid })
    expect(await b.spaces.find({ name: ENERGY })).toMatchObject({ spaces: [{ curator: carol.did }], members: [{ did: bob.did }] })
  })
})

describe('a prune by anyone else', () => {
  it('[DS-20] is ignored: signed by a member, by a stranger, or by a rival who announced the space', async () => {
    const ts = Math.floor(net.clock.nowMs() / 1_000)
    const payload = { dsid: ENERGY_KEY, eid: bob.eid, curator: mallory.eid, until: ts + 3_600, ts, exp: ts + PRUNE_TTL_SEC }
    const record = buildRecord(nodeCrypto, pruneType, payload, mallory.signer).bytes
    expect(await m.registry.put({ set: 'prunes', key: ENERGY_KEY, record })).toMatchObject({ stored: 4 })
    expect((await seenBy(c)).sort()).toEqual([bob.did, mallory.did].sort())
    await c.spaces.trust({ name: ENERGY, curator: alice.eid })
    await m.spaces.announce({ name: ENERGY, curator: mallory })
    expect((await seenBy(c)).sort()).toEqual([bob.did, mallory.did].sort())
    expect((await c.spaces.find({ name: `${ENERGY}#${alice.did}` })).members).toHaveLength(2)
  })

  it('[DS-20] is refused by its own node, and one in another’s name by every registrar', async () => {
    await expect(m.spaces.prune({ name: ENERGY, curator: mallory, member: bob.eid })).rejects.toMatchObject({ code: 'SPACE_NOT_CURATED' })
    const ts = Math.floor(net.clock.nowMs() / 1_000)
    const payload = { dsid: ENERGY_KEY, eid: bob.eid, curator: alice.eid, until: ts + 3_600, ts, exp: ts + PRUNE_TTL_SEC }
    const forged = buildRecord(nodeCrypto, pruneType, payload, alice.signer).bytes.slice()
    forged[forged.length - 1] = (forged[forged.length - 1] as number) ^ 1
    expect(await m.registry.put({ set: 'prunes', key: ENERGY_KEY, record: forged })).toMatchObject({ stored: 0, answers: { invalid: 4 } })
    expect(await seenBy(c)).toHaveLength(2)
  })

  it('names a time that is no time to come', async () => {
    for (const untilMs of [net.clock.nowMs(), net.clock.nowMs() + 400 * 24 * HOUR_MS]) {
      await expect(a.spaces.prune({ name: ENERGY, curator: alice, member: bob.eid, untilMs })).rejects.toMatchObject({
        code: 'PRUNE_UNTIL',
        field: 'untilMs',
        value: untilMs
      })
    }
    expect(await seenBy(c)).toHaveLength(2)
  })
})
