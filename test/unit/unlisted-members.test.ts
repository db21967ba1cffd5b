import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { encodeCbor } from '../../protocol/cbor.ts'
import { joinKey } from '../../protocol/discovery/dht-key.ts'
import { encodeListResponse, REGISTRY_PROTOCOL } from '../../protocol/discovery/registry-messages.ts'
import { validateDhtValue } from '../../protocol/records/dht-value.ts'
import { decodeRecord, encodeEnvelope, signedBytes } from '../../protocol/records/envelope.ts'
import { joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, fakeNode, pass } from './fakes/fake-node.ts'
import { ENERGY_ID, joinRecord } from './fakes/fake-records.ts'

const NAME = 'org.agentnet/marketplace.energy@1'
const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const members = { set: 'members' as const, key: ENERGY_ID }

let clock: ManualClock
let nodes: FakeNode[]

beforeEach(async () => {
  clock = new ManualClock()
  const network = new FakeNetwork(clock)
  nodes = []
  for (const agent of [alice, bob, carol]) nodes.push(await fakeNode(network, clock, agent.name, [agent]))
  network.meet(...nodes.map(({ host }) => host))
})

afterEach(async () => {
  for (const node of nodes) await node.stop()
})

const at = (i: number) => nodes[i] as FakeNode
const unlisted = (agent = bob) => joinRecord(agent, alice.eid, clock.nowMs(), { unlisted: true })
const everything = { verb: 'list' as const, ...members, cursor: new Uint8Array(0), limit: 100 }

describe('a join that says unlisted', () => {
  it('[G-27] [DS-14] is a record like another, signed, and never says that it is not', () => {
    expect(decodeRecord(joinType, unlisted()).payload.unlisted).toBe(true)
    const { payload } = decodeRecord(joinType, joinRecord(bob, alice.eid, clock.nowMs()))
    const payloadBytes = encodeCbor({ v: 1, ...joinType.toCbor(payload), ts: payload.ts, exp: payload.exp, unlisted: false })
    const signature = bob.signer.sign(signedBytes('join', payloadBytes))
    const said = encodeEnvelope({ kind: 'join', payloadBytes, signature })
    expect(() => decodeRecord(joinType, said)).toThrow(expect.objectContaining({ code: 'FIELD_INVALID', field: 'join.unlisted' }))
  })

  it('[G-27] [DS-13] has no place in the DHT, where everyone who knows the EID would find it', () => {
    const key = joinKey(ENERGY_ID, bob.eid)
    const listed = joinRecord(bob, alice.eid, clock.nowMs())
    expect(validateDhtValue(nodeCrypto, key, listed, clock.nowMs()).kind).toBe('join')
    expect(() => validateDhtValue(nodeCrypto, key, unlisted(), clock.nowMs())).toThrow(
      expect.objectContaining({ code: 'RECORD_KEY_MISMATCH' })
    )
  })

  it('[G-27] is taken by a registrar, told to no LIST and to no PUT of an older one, and only the node itself passes requests on to it', async () => {
    const { registry } = at(0)
    const older = joinRecord(bob, alice.eid, clock.nowMs())
    clock.advance(1_000)
    expect(await at(1).registry.put({ ...members, record: unlisted() })).toMatchObject({ registrars: 3, stored: 3 })
    expect((await registry.held(everything)).records).toEqual([])
    expect((await registry.held({ ...everything, tags: [] })).records).toEqual([])
    expect((await registry.held(everything, { unlisted: 'too' })).records).toHaveLength(1)
    expect(await at(2).registry.put({ ...members, record: older })).toMatchObject({ stored: 0, answers: { stale: 3 }, seen: -1 })
    expect((await at(2).registry.list({ ...members, id: bob.eid })).entries).toEqual([])
  })

  it('[G-27] accuses no registrar that keeps it to itself, and reports one that shows it', async () => {
    await at(1).registry.put({ ...members, record: joinRecord(bob, alice.eid, clock.nowMs()) })
    clock.advance(1_000)
    const record = unlisted()
    await at(1).registry.put({ ...members, record })
    clock.advance(61_000)
    await at(1).registry.list(members)
    expect(at(1).registry.faulty()).toEqual([])
    await at(0).host.handle(REGISTRY_PROTOCOL, async (stream) => {
      await readFrame(stream, 16_384)
      await writeFrame(stream, encodeListResponse({ status: 'ok', records: [record] }), 2 ** 20)
      await stream.closeWrite()
    })
    expect((await at(2).registry.list(members)).entries).toEqual([])
    expect(at(2).registry.faulty()).toMatchObject([{ peer: at(0).host.peer, hidden: 0, invented: 1 }])
  })
})

describe('an unlisted member', () => {
  it('[G-27] [DS-15] is in no listing, its own included, stays so when its join is signed anew and over a restart, and is told so', async () => {
    await at(0).spaces.announce({ name: NAME, curator: alice })
    await at(2).spaces.join({ name: NAME, agent: carol })
    await at(1).spaces.join({ name: NAME, agent: bob, listing: 'unlisted' })
    const first = at(1).spaces.joins()[0]
    const look = async () => {
      for (const node of nodes) expect((await node.spaces.find({ name: NAME })).members.map(({ did }) => did)).toEqual([carol.did])
      expect((await at(0).spaces.show(NAME)).members).toBe(1)
      for (const node of nodes) expect(node.host.values.has(toHex(joinKey(ENERGY_ID, bob.eid)))).toBe(false)
    }
    await look()
    await pass(clock, 40 * 60_000, nodes)
    await look()
    await at(1).restart()
    await pass(clock, 40 * 60_000, nodes)
    await look()
    const now = at(1).spaces.joins()[0]
    expect(now?.payload.seq).toBeGreaterThan(first?.payload.seq as number)
    expect(now?.payload.unlisted).toBe(true)
    expect((await at(1).spaces.list()).map(({ listing }) => listing)).toEqual(['unlisted'])
    for (const node of nodes) expect((await node.registry.held(everything, { unlisted: 'too' })).records).toHaveLength(2)
  })

  it('[G-27] is listed once it joins anew without the word, and out of sight again after the next change', async () => {
    await at(0).spaces.announce({ name: NAME, curator: alice })
    const shown = async () => (await at(2).spaces.find({ name: NAME })).members.length
    await at(1).spaces.join({ name: NAME, agent: bob, listing: 'unlisted' })
    expect(await shown()).toBe(0)
    clock.advance(1_000)
    await at(1).spaces.join({ name: NAME, agent: bob })
    expect(await shown()).toBe(1)
    clock.advance(1_000)
    await at(1).spaces.join({ name: NAME, agent: bob, listing: 'unlisted' })
    expect(await shown()).toBe(0)
    await at(1).spaces.leave({ name: NAME, agent: bob })
    expect(at(1).spaces.joins()).toEqual([])
  })
})
