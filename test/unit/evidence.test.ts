import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isZero, toHex } from '../../protocol/bytes.ts'
import { announceKey, locatorKey } from '../../protocol/discovery/dht-key.ts'
import { ESCROW_MS } from '../../protocol/evidence/escrow.ts'
import { decodeRevocation, encodeRevocation, REVOCATION_REASONS } from '../../protocol/evidence/revocation.ts'
import { signRotation } from '../../protocol/identity/rotation.ts'
import { openPom, pomKey } from '../../protocol/records/pom.ts'
import { SessionStream } from '../../protocol/session/stream.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { DISTRUST_MS } from '../../src/evidence/distrusted.ts'
import type { StandingView } from '../../src/evidence/evidence.ts'
import { type RevocableSession, revokeByCheckpoints } from '../../src/evidence/revoke.ts'
import { DhtDatastore } from '../../src/net/dht-datastore.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { recordRules } from '../../src/spaces/record-rules.ts'
import {
  announceOf,
  checkpointOf,
  checkpointPair,
  locatorOf,
  locatorPair,
  type Signed,
  signedBy,
  ticketOf,
  tombstoneOf
} from './fakes/contradictions.ts'
import { type EvidenceNode, evidenceNode, passTime, quiet } from './fakes/evidence-node.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { ENERGY_ID, joinRecord } from './fakes/fake-records.ts'
import { establishedOf, StreamPair, seedA, seedB, signerOf } from './session/stream-pair.ts'

const ENERGY = 'org.agentnet/marketplace.energy@1'
const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const malloryAgent = fakeAgent('mallory')
const mallory = signedBy(malloryAgent.signer)
const liar = (i: number): Signed => signedBy(fakeAgent(`liar ${i}`).signer)

let clock: ManualClock
let network: FakeNetwork
let a: EvidenceNode
let b: EvidenceNode
let c: EvidenceNode
let nodes: EvidenceNode[]

beforeEach(async () => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  a = await evidenceNode(network, clock, 'alice', [alice])
  b = await evidenceNode(network, clock, 'bob', [bob])
  c = await evidenceNode(network, clock, 'carol', [carol])
  nodes = [a, b, c]
  network.meet(a.host, b.host, c.host)
})

afterEach(async () => {
  for (const node of nodes) await node.stop()
})

const minutes = (n: number) => n * 60_000
const standings = () => nodes.map((node) => node.evidence.standing(mallory.eid))

describe('a proof of malfeasance', () => {
  it('[TRM-05] [TRM-07] is built at once from two checkpoints, published whatever the session does, and verified by a third node that saw nothing', async () => {
    const { a: one, b: two } = checkpointPair(mallory)
    const record = a.evidence.onCheckpointPair(mallory.eid, one, two) as Uint8Array
    expect(openPom(nodeCrypto, record, { nowMs: clock.nowMs() }).payload).toMatchObject({
      kind: 'checkpoint',
      a: one,
      b: two,
      accuser: alice.eid
    })
    await quiet(nodes)
    expect(a.evidence.view(mallory.eid)).toMatchObject({
      standing: 'challenged',
      ticket: 'published',
      evidence: { origin: 'own', kind: 'checkpoint' }
    })
    const served = await c.registry.list({ set: 'poms', key: pomKey(nodeCrypto, mallory.eid) })
    expect(served.entries.map(({ entry }) => toHex(entry.record.bytes))).toEqual([toHex(record)])
    // the registrars that took it verified it too; a node that comes later fetches it
    expect(standings()).toEqual(['challenged', 'challenged', 'challenged'])
    const late = await evidenceNode(network, clock, 'dave', [])
    nodes.push(late)
    network.meet(late.host, c.host)
    expect(late.evidence.list()).toEqual([])
    expect(await late.evidence.check(mallory.eid)).toBe('challenged')
    expect(late.evidence.view(mallory.eid).evidence).toMatchObject({ accuser: alice.did, origin: 'told' })
  })

  it('[TRM-05] [G-52] is not made of a leak or a broken contract: those are kept from others, and end after a day', async () => {
    await a.evidence.distrust(mallory.eid, 'contract: messages a minute')
    await quiet(nodes)
    expect(a.evidence.policy({ local: alice, remote: mallory.eid })).toEqual({ admit: false, reason: 'policy' })
    expect(() => a.evidence.admit(mallory.eid)).toThrow(expect.objectContaining({ code: 'AGENT_REFUSED', kind: 'refused' }))
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'nominal', refused: true, ticket: 'none' })
    expect((await c.registry.list({ set: 'poms', key: pomKey(nodeCrypto, mallory.eid) })).entries).toEqual([])
    expect(await c.evidence.check(mallory.eid)).toBe('nominal')
    await a.restart()
    expect(a.evidence.list().map(({ did, distrusted }) => [did, distrusted?.reason])).toEqual([
      [malloryAgent.did, 'contract: messages a minute']
    ])
    clock.advance(DISTRUST_MS)
    expect(a.evidence.policy({ local: alice, remote: mallory.eid })).toEqual({ admit: true })
    expect(a.evidence.list()).toEqual([])
  })

  it('[TRM-08] makes nodes that verified it refuse sessions from and to its target, and an invalid one changes nothing', async () => {
    const nowMs = clock.nowMs()
    const pair = locatorPair(mallory, nowMs)
    const invalid = [
      ticketOf({ ...pair, b: pair.a }, signedBy(bob.signer), nowMs).bytes,
      ticketOf({ ...pair, target: carol.eid }, signedBy(bob.signer), nowMs).bytes,
      ticketOf({ ...pair, b: locatorOf(mallory, nowMs, { gen: nowMs + 1 }).bytes }, signedBy(bob.signer), nowMs).bytes,
      new Uint8Array([1, 2])
    ]
    const before = a.store.syncs
    for (const record of invalid) await expect(a.evidence.accept(record)).rejects.toMatchObject({ name: 'ProtocolError' })
    expect(a.evidence.list()).toEqual([])
    expect(a.store.syncs).toBe(before)
    expect(a.evidence.policy({ local: alice, remote: mallory.eid })).toEqual({ admit: true })
    a.evidence.admit(mallory.eid)

    expect(await a.evidence.accept(ticketOf(pair, signedBy(bob.signer), nowMs).bytes)).toBe('challenged')
    expect(a.evidence.policy({ local: alice, remote: mallory.eid })).toEqual({ admit: false, reason: 'policy' })
    expect(() => a.evidence.admit(mallory.eid)).toThrow(expect.objectContaining({ code: 'AGENT_REFUSED', value: malloryAgent.did }))
    a.evidence.admit(bob.eid)
    clock.advance(ESCROW_MS)
    await quiet(nodes)
    expect(a.evidence.standing(mallory.eid)).toBe('slashed')
    expect(a.evidence.policy({ local: alice, remote: mallory.eid })).toEqual({ admit: false, reason: 'policy' })
  })

  it('[TRM-08] makes registrars drop the joins of its target, those held and those to come', async () => {
    await b.spaces.announce({ name: ENERGY, curator: bob })
    const join = (seq: number) => joinRecord(malloryAgent, bob.eid, clock.nowMs(), { seq })
    const put = () => b.registry.put({ set: 'members', key: ENERGY_ID, record: join(clock.nowMs()) })
    expect(await put()).toMatchObject({ stored: 3 })
    const members = async () => (await b.spaces.find({ name: ENERGY })).members.map(({ did }) => did)
    expect(await members()).toEqual([malloryAgent.did])
    const ticket = ticketOf(checkpointPair(mallory), signedBy(carol.signer), clock.nowMs()).bytes
    await b.evidence.accept(ticket)
    expect(await members()).toEqual([])
    expect((await c.spaces.find({ name: ENERGY })).members.map(({ servedBy }) => servedBy.length)).toEqual([2])
    for (const node of [a, c]) await node.evidence.accept(ticket)
    expect((await c.spaces.find({ name: ENERGY })).members).toEqual([])
    clock.advance(1_000)
    expect(await put()).toMatchObject({ stored: 0, answers: { invalid: 3 } })
    expect(await b.registry.put({ set: 'members', key: ENERGY_ID, record: joinRecord(alice, bob.eid, clock.nowMs()) })).toMatchObject({
      stored: 3
    })
    expect(await members()).toEqual([alice.did])
  })

  it('[TRM-08] reaches a registrar that saw nothing: it looks its members up, at most one in 30 s, and again after an hour at the earliest', async () => {
    await a.evidence.found(checkpointPair(mallory))
    await quiet(nodes)
    const late = await evidenceNode(network, clock, 'dave', [])
    nodes.push(late)
    network.meet(late.host, a.host, b.host, c.host)
    await quiet(nodes)
    const members = Array.from({ length: 300 }, (_, i) => fakeAgent(`member ${i}`))
    late.evidence.onMember(mallory.eid)
    for (const member of members) late.evidence.onMember(member.eid)
    expect(late.evidence.held().checks).toBe(256)
    expect(late.evidence.standing(mallory.eid)).toBe('nominal')
    await passTime(clock, 29_000, nodes, 29_000)
    expect(late.evidence.standing(mallory.eid)).toBe('nominal')
    await passTime(clock, 1_000, nodes)
    expect(late.evidence.standing(mallory.eid)).toBe('challenged')
    expect(late.evidence.held().checks).toBe(255)
    late.evidence.onMember(mallory.eid)
    expect(late.evidence.held().checks).toBe(255)
  })

  it('[TRM-09] [D-25] tells the ledger once, with the evidence, when the hour is over', async () => {
    const ticket = ticketOf(locatorPair(mallory, clock.nowMs()), signedBy(bob.signer), clock.nowMs()).bytes
    await a.evidence.accept(ticket)
    await passTime(clock, ESCROW_MS - 1, [a], minutes(1))
    expect(a.ledger.calls).toEqual([])
    await passTime(clock, 1, [a])
    expect(a.ledger.calls).toEqual([{ target: mallory.eid, evidence: ticket, atMs: clock.nowMs() }])
    expect(await a.ledger.local.taken(mallory.eid)).toEqual(ticket)
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'slashed', ledger: 'told' })
    await a.evidence.accept(ticketOf(checkpointPair(mallory), signedBy(carol.signer), clock.nowMs()).bytes)
    await a.restart()
    await passTime(clock, minutes(180), [a], minutes(30))
    expect(a.ledger.calls).toHaveLength(1)
  })

  it('[TRM-09] tells the ledger once across restarts: during the escrow, over its end, and while the ledger is down', async () => {
    await a.evidence.accept(ticketOf(locatorPair(mallory, clock.nowMs()), signedBy(bob.signer), clock.nowMs()).bytes)
    const { deadlineMs } = a.evidence.view(mallory.eid).evidence as NonNullable<StandingView['evidence']>
    clock.advance(minutes(20))
    await a.restart()
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'challenged', evidence: { deadlineMs } })
    await a.restart({ begin: 'later' })
    clock.advance(minutes(60))
    expect(a.evidence.standing(mallory.eid)).toBe('challenged')
    a.ledger.down = true
    a.evidence.begin(a.registry)
    await quiet([a])
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'slashed', ledger: 'due' })
    await a.restart()
    await quiet([a])
    a.ledger.down = false
    await passTime(clock, minutes(1), [a])
    expect(a.evidence.view(mallory.eid).ledger).toBe('told')
    expect(a.ledger.calls).toHaveLength(1)
    await a.restart()
    await passTime(clock, minutes(120), [a], minutes(30))
    expect(a.ledger.calls).toHaveLength(1)
  })
})

describe('a forced teardown', () => {
  it('[TRM-06] [G-53] builds the ticket, destroys keys and values, and only then sends the first byte; the accused gets the ticket', async () => {
    const pair = new StreamPair().opened()
    const target = signedBy(signerOf(seedB))
    const { a: one, b: two } = checkpointPair(target)
    const seen: string[] = []
    const session: RevocableSession = {
      remote: target.eid,
      revoke: (payload) => pair.a.stream.revoke(payload, 0),
      async send(frame) {
        seen.push(pair.a.stream.phase)
        pair.b.take(pair.b.stream.receive(0, frame, 0))
      }
    }
    expect(await revokeByCheckpoints(a.evidence, session, { a: one, b: two, firstSeenMs: clock.nowMs() })).toBe('revoked')
    expect(seen).toEqual(['closed'])
    const [revocation] = pair.b.effects.filter((effect) => effect.kind === 'revocation')
    const { reason, pom } = decodeRevocation((revocation as { payload: Uint8Array }).payload)
    expect(reason).toBe(REVOCATION_REASONS.sequence)
    expect(openPom(nodeCrypto, pom, { nowMs: clock.nowMs() }).payload).toMatchObject({ target: target.eid, a: one, b: two })
  })

  it('[TRM-06] leaves no key of the epoch when the first byte goes out', async () => {
    const established = establishedOf('initiator')
    const { i2r, r2i, export: exported } = established.keys
    const secrets = () => [i2r.key, i2r.iv, i2r.chain, r2i.key, r2i.iv, r2i.chain, exported]
    const stream = new SessionStream<string>({ crypto: nodeCrypto, established, signer: signerOf(seedA), nowMs: 0 })
    expect(secrets().every(isZero)).toBe(false)
    const zeroAtSend: boolean[] = []
    const target = signedBy(signerOf(seedB))
    const { a: one, b: two } = checkpointPair(target)
    await revokeByCheckpoints(
      a.evidence,
      {
        remote: target.eid,
        revoke: (payload) => stream.revoke(payload, 0),
        async send() {
          zeroAtSend.push(secrets().every(isZero))
        }
      },
      { a: one, b: two, firstSeenMs: clock.nowMs() }
    )
    expect(zeroAtSend).toEqual([true])
  })

  it('[TRM-07] publishes whether or not the accused ever reads the frame', async () => {
    const { a: one, b: two } = checkpointPair(mallory)
    const hangs: RevocableSession = { remote: mallory.eid, revoke: (payload) => payload, send: () => new Promise(() => {}) }
    void revokeByCheckpoints(a.evidence, hangs, { a: one, b: two, firstSeenMs: clock.nowMs() })
    const gone: RevocableSession = { ...hangs, send: () => Promise.reject(new Error('reset')) }
    expect(await revokeByCheckpoints(b.evidence, gone, { a: one, b: two, firstSeenMs: clock.nowMs() })).toBe('revoked')
    await quiet(nodes)
    const { entries } = await c.registry.list({ set: 'poms', key: pomKey(nodeCrypto, mallory.eid) })
    expect(entries.map(({ entry }) => toHex(entry.id)).sort()).toEqual([alice.eidHex, bob.eidHex].sort())
  })

  it('[TRM-05] does not happen where nothing is proven: no frame, no ticket, and the session is left to its owner', async () => {
    let touched = 0
    const session: RevocableSession = {
      remote: mallory.eid,
      revoke(payload) {
        touched++
        return payload
      },
      async send() {
        touched++
      }
    }
    const honest = { a: checkpointOf(mallory), b: checkpointOf(mallory, { seq: 2_048n, hash: 2 }), firstSeenMs: 0 }
    expect(await revokeByCheckpoints(a.evidence, session, honest)).toBe('unproven')
    const nobody = await evidenceNode(network, clock, 'nobody', [])
    nodes.push(nobody)
    const { a: one, b: two } = checkpointPair(mallory)
    expect(await revokeByCheckpoints(nobody.evidence, session, { a: one, b: two, firstSeenMs: 0 })).toBe('unproven')
    await quiet(nodes)
    expect(touched).toBe(0)
    expect(nodes.flatMap((node) => node.evidence.list())).toEqual([])
  })
})

describe('the escrow of a node', () => {
  it('[D-25] keeps its deadline under a stream of new tickets, from ever new accusers and with ever new evidence', async () => {
    const startMs = clock.nowMs()
    await a.evidence.accept(ticketOf(locatorPair(mallory, startMs), signedBy(bob.signer), startMs).bytes)
    for (let minute = 1; minute < 60; minute++) {
      clock.advance(minutes(1))
      const verdict = await a.evidence.accept(ticketOf(locatorPair(mallory, clock.nowMs()), liar(minute), clock.nowMs()).bytes)
      expect(verdict).toBe('known')
    }
    expect(a.evidence.standing(mallory.eid)).toBe('challenged')
    clock.advance(minutes(1))
    await quiet([a])
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'slashed', evidence: { slashedAtMs: startMs + ESCROW_MS } })
  })

  it('[D-25] lets a tombstone clear only what was first seen after it, and only where this node held it', async () => {
    const startMs = clock.nowMs()
    const honest = locatorOf(mallory, startMs)
    a.evidence.onLocator(honest)
    clock.advance(1_000)
    a.evidence.onLocator(tombstoneOf(mallory, clock.nowMs()))
    const holder = recordRules(nodeCrypto, b.evidence)
    holder.validate(locatorKey(mallory.eid), tombstoneOf(mallory, clock.nowMs()).bytes, clock.nowMs())
    await quiet(nodes)
    clock.advance(1_000)
    const thief = locatorPair(mallory, clock.nowMs())
    const ticket = ticketOf(thief, signedBy(carol.signer), clock.nowMs()).bytes
    expect(await Promise.all(nodes.map((node) => node.evidence.accept(ticket)))).toEqual(['rebutted', 'rebutted', 'challenged'])
    // c learns of the same tombstone now: its date proves nothing
    c.evidence.onLocator(tombstoneOf(mallory, startMs - 86_000_000))
    await quiet(nodes)
    expect(standings()).toEqual(['nominal', 'nominal', 'challenged'])
    // a saw this item before the tombstone came, over a restart too; b never did
    await a.restart()
    const old = ticketOf(
      { target: mallory.eid, kind: 'locator', a: honest.bytes, b: locatorOf(mallory, startMs, { mode: 'session' }).bytes },
      signedBy(carol.signer),
      clock.nowMs()
    ).bytes
    expect(await a.evidence.accept(old)).toBe('challenged')
    expect(await b.evidence.accept(old)).toBe('rebutted')
    await passTime(clock, ESCROW_MS, nodes, minutes(10))
    expect(standings()).toEqual(['slashed', 'nominal', 'slashed'])
  })

  it('[D-25] takes a rotation certificate with both signatures for a rebuttal, and no single byte', async () => {
    const next = fakeAgent('mallory next')
    await expect(a.evidence.onRotation(new Uint8Array([0x13]))).rejects.toMatchObject({ code: 'FIELD_INVALID' })
    await a.evidence.onRotation(signRotation(malloryAgent.signer, next.signer, 0))
    clock.advance(1)
    await a.restart()
    expect(await a.evidence.accept(ticketOf(checkpointPair(mallory), signedBy(bob.signer), clock.nowMs()).bytes)).toBe('rebutted')
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'nominal', refused: false, retired: { by: 'rotation' } })
    const firstSeenMs = clock.nowMs() - 10
    const { a: one, b: two } = checkpointPair(mallory)
    expect(a.evidence.onCheckpointPair(mallory.eid, one, two, { firstSeenMs })).toBeDefined()
    await quiet([a])
    expect(a.evidence.standing(mallory.eid)).toBe('challenged')
  })

  it('[IX-28] tells of every change of standing once', async () => {
    const told: string[] = []
    a.evidence.onStanding((eid, standing) => told.push(`${eid === malloryAgent.eidHex} ${standing}`))
    for (let i = 0; i < 3; i++) await a.evidence.accept(ticketOf(checkpointPair(mallory), liar(i), clock.nowMs()).bytes)
    await passTime(clock, ESCROW_MS, [a], minutes(30))
    expect(told).toEqual(['true challenged', 'true slashed'])
  })
})

describe('contradictions that a node sees by itself', () => {
  const datastore = (node: EvidenceNode) => new DhtDatastore({ clock, crypto: nodeCrypto, rules: recordRules(nodeCrypto, node.evidence) })

  it('[IX-27] are two locators of one generation put to it as a DHT holder: it makes a ticket of them after a while', async () => {
    const held = datastore(a)
    const pair = locatorPair(mallory, clock.nowMs())
    await held.putValue(locatorKey(mallory.eid), pair.a)
    await expect(held.putValue(locatorKey(mallory.eid), pair.b)).rejects.toMatchObject({ code: 'DHT_RECORD_STALE' })
    await quiet(nodes)
    expect(a.evidence.view(mallory.eid)).toMatchObject({ standing: 'challenged', ticket: 'waiting', evidence: { origin: 'own' } })
    await passTime(clock, 30_000, nodes)
    expect(a.evidence.view(mallory.eid).ticket).toBe('published')
    expect(await c.evidence.check(mallory.eid)).toBe('challenged')
  })

  it('are published by one of many that see the same: who finds a ticket at the registrars adds none', async () => {
    for (const node of nodes) {
      const held = datastore(node)
      const pair = locatorPair(mallory, clock.nowMs())
      await held.putValue(locatorKey(mallory.eid), pair.a)
      await held.putValue(locatorKey(mallory.eid), pair.b).catch(() => {})
    }
    await passTime(clock, 30_000, nodes, 250)
    const { entries } = await c.registry.list({ set: 'poms', key: pomKey(nodeCrypto, mallory.eid) })
    expect(entries).toHaveLength(1)
    expect(standings()).toEqual(['challenged', 'challenged', 'challenged'])
    expect(nodes.map((node) => node.evidence.view(mallory.eid).ticket).sort()).toEqual(['none', 'none', 'published'])
  })

  it('are two announcements of one number at a DHT key, in a set, and in a listing', async () => {
    const [one, two] = [announceOf(mallory, clock.nowMs()), announceOf(mallory, clock.nowMs(), { desc: 'Energy bids' })]
    const held = datastore(a)
    await held.putValue(announceKey(ENERGY_ID), one)
    await held.putValue(announceKey(ENERGY_ID), two).catch(() => {})
    await quiet(nodes)
    expect(a.evidence.view(mallory.eid).evidence?.kind).toBe('announce')

    const put = (record: Uint8Array) => b.registry.put({ set: 'announcements', key: ENERGY_ID, record })
    for (const node of [a, c]) node.host.online = false
    await put(one)
    expect(await put(two)).toMatchObject({ answers: { stale: 1 } })
    await quiet([b])
    expect(b.evidence.view(mallory.eid).evidence?.kind).toBe('announce')

    const [d, e] = [await evidenceNode(network, clock, 'dave', []), await evidenceNode(network, clock, 'eve', [carol])]
    nodes.push(d, e)
    await d.registry.put({ set: 'announcements', key: ENERGY_ID, record: one })
    await e.registry.put({ set: 'announcements', key: ENERGY_ID, record: two })
    network.meet(d.host, e.host)
    await e.registry.list({ set: 'announcements', key: ENERGY_ID })
    await quiet([d, e])
    expect(e.evidence.view(mallory.eid).evidence?.kind).toBe('announce')
    expect(await d.evidence.found(locatorPair(liar(1), clock.nowMs()))).toBe('unsigned')
  })

  it('are two locators that a look-up brings', async () => {
    const pair = locatorPair(mallory, clock.nowMs())
    a.host.values.set(toHex(locatorKey(mallory.eid)), pair.a)
    b.host.values.set(toHex(locatorKey(mallory.eid)), pair.b)
    await c.locators.resolve(mallory.eid)
    await quiet(nodes)
    expect(c.evidence.standing(mallory.eid)).toBe('challenged')
  })

  it('are none when records succeed one another, in any order of arrival', async () => {
    const held = datastore(a)
    const startMs = clock.nowMs()
    for (const step of [3, 1, 2, 3, 0]) {
      const locator = locatorOf(mallory, startMs, { gen: startMs + step, addrs: [`/ip4/127.0.0.1/udp/${4_000 + step}/quic-v1`] })
      await held.putValue(locatorKey(mallory.eid), locator.bytes).catch(() => {})
    }
    await quiet(nodes)
    expect(a.evidence.list()).toEqual([])
  })
})

describe('a flood', () => {
  it('[D-24] of tickets costs a peer its minute, and the node no more than it can hold', async () => {
    const verdicts: string[] = []
    for (let i = 0; i < 40; i++) {
      const payload = encodeRevocation({
        reason: REVOCATION_REASONS.sequence,
        pom: ticketOf(checkpointPair(liar(i)), signedBy(bob.signer), clock.nowMs()).bytes
      })
      verdicts.push(await a.evidence.onRevocation(payload, { peer: 'the flooder' }))
    }
    expect(verdicts.filter((verdict) => verdict === 'challenged')).toHaveLength(8)
    expect(verdicts.filter((verdict) => verdict === 'busy')).toHaveLength(32)
    expect(a.evidence.held().verdicts).toBe(8)
    const other = encodeRevocation({ reason: 1, pom: ticketOf(checkpointPair(mallory), signedBy(bob.signer), clock.nowMs()).bytes })
    expect(await a.evidence.onRevocation(other, { peer: 'somebody else' })).toBe('challenged')
  })

  it('[D-24] of contradictions is judged 256 at a time, published 8 a minute, and the rest is acted upon here alone', async () => {
    const pairs = Array.from({ length: 300 }, (_, i) => checkpointPair(liar(i)))
    for (const pair of pairs) a.evidence.onEquivocation(pair)
    expect(a.evidence.held().judging).toBe(256)
    await quiet([a])
    expect(a.evidence.held()).toMatchObject({ judging: 0, verdicts: 256 })
    const waiting = a.evidence.list().filter(({ ticket }) => ticket === 'waiting')
    expect(waiting).toHaveLength(8)
  })

  it('[D-24] of verdicts fills what is kept for the word of others; what this node finds itself has room beside it, and none is forgotten', async () => {
    const small = await evidenceNode(network, clock, 'small', [alice], { verdictsMax: 3, verdictsOwnMax: 2 })
    nodes.push(small)
    const told = (i: number) => small.evidence.accept(ticketOf(checkpointPair(liar(i)), signedBy(bob.signer), clock.nowMs()).bytes)
    expect([await told(0), await told(1), await told(2), await told(3), await told(0)]).toEqual([
      'challenged',
      'challenged',
      'challenged',
      'full',
      'known'
    ])
    const found = (i: number) => small.evidence.found(checkpointPair(liar(i)))
    expect([await found(4), await found(5), await found(6)]).toEqual(['challenged', 'challenged', 'full'])
    await small.restart()
    expect(small.evidence.held().verdicts).toBe(5)
    expect([0, 1, 2, 4, 5].map((i) => small.evidence.standing(liar(i).eid))).toEqual(Array(5).fill('challenged'))
  })

  it('[D-24] [TRM-08] of verdicts locks out no further ones: those that are over and whose target was never met make room, on disk too', async () => {
    const small = await evidenceNode(network, clock, 'roomy', [alice], { verdictsMax: 3, verdictsOwnMax: 0 })
    nodes.push(small)
    const told = (i: number) => small.evidence.accept(ticketOf(checkpointPair(liar(i)), signedBy(bob.signer), clock.nowMs()).bytes)
    for (const i of [0, 1, 2]) expect(await told(i)).toBe('challenged')
    expect(await told(3)).toBe('full') // all escrows are open
    clock.advance(ESCROW_MS)
    await small.evidence.idle()
    expect(small.evidence.policy({ local: alice, remote: liar(0).eid })).toEqual({ admit: false, reason: 'policy' }) // it was met
    expect([await told(3), await told(4)]).toEqual(['challenged', 'challenged'])
    expect([0, 1, 2].map((i) => small.evidence.standing(liar(i).eid))).toEqual(['slashed', 'nominal', 'nominal'])
    expect(await told(5)).toBe('challenged') // now also the one that was met longest ago
    expect(await told(6)).toBe('full')
    await small.restart()
    expect(small.evidence.held().verdicts).toBe(3)
    expect([0, 1, 2, 3, 4, 5].map((i) => small.evidence.standing(liar(i).eid))).toEqual([
      'nominal',
      'nominal',
      'nominal',
      'challenged',
      'challenged',
      'challenged'
    ])
  })

  it('[D-24] of replays changes nothing and writes nothing', async () => {
    const ticket = ticketOf(checkpointPair(mallory), signedBy(bob.signer), clock.nowMs()).bytes
    await a.evidence.accept(ticket)
    const view = a.evidence.view(mallory.eid)
    const { syncs } = a.store
    for (let i = 0; i < 50; i++) expect(await a.evidence.accept(ticket)).toBe('known')
    expect(a.evidence.view(mallory.eid)).toEqual(view)
    expect(a.store.syncs).toBe(syncs)
  })
})

it('[G-53] publishes again after a restart in between, and under the same evidence when half the ticket’s life is over', async () => {
  for (const node of [b, c]) node.host.online = false
  const pair = checkpointPair(mallory)
  await a.evidence.found(pair)
  await a.restart()
  await quiet([a])
  expect(a.evidence.view(mallory.eid).ticket).toBe('published')
  for (const node of [b, c]) node.host.online = true
  await passTime(clock, 16 * 86_400_000, [a], 6 * 3_600_000)
  const { entries } = await c.registry.list({ set: 'poms', key: pomKey(nodeCrypto, mallory.eid) })
  const pom = entries.map(({ entry }) => openPom(nodeCrypto, entry.record.bytes, { nowMs: clock.nowMs() }).payload)
  expect(pom).toHaveLength(1)
  expect(pom[0]).toMatchObject({ a: pair.a, b: pair.b, accuser: alice.eid })
  expect((pom[0]?.ts as number) * 1_000).toBeGreaterThan(clock.nowMs() - 3 * 86_400_000)
})

it('does not accuse an agent of its own, but says that there is proof', async () => {
  expect(await a.evidence.found({ ...checkpointPair(signedBy(alice.signer)) })).toBe('challenged')
  await quiet(nodes)
  expect(a.evidence.view(alice.eid)).toMatchObject({ standing: 'challenged', ticket: 'none' })
  expect(checkpointOf(signedBy(alice.signer))).toHaveLength(185)
})
