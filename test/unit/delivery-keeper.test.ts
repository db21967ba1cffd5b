import { describe, expect, it } from 'vitest'
import { concat, fromUtf8, utf8 } from '../../protocol/bytes.ts'
import { encodeCbor } from '../../protocol/cbor.ts'
import { signConfirmation, verifyConfirmation } from '../../protocol/delivery/confirmation.ts'
import { decodeObject, openObject } from '../../protocol/delivery/object.ts'
import { context } from '../../protocol/identity/contexts.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { signRotation } from '../../protocol/identity/rotation.ts'
import { MAIL_TTL_SEC, type Mail, type MailRecord, mailType } from '../../protocol/records/mail.ts'
import { serveKeeper } from '../../src/delivery/keeper-service.ts'
import { KEEPER_LEASE_MS, KeeperStore } from '../../src/delivery/keeper-store.ts'
import { type KeeperHandler, mailboxChannelOf } from '../../src/delivery/mailbox-channel.ts'
import { depositObject } from '../../src/delivery/mailbox-client.ts'
import { serveMailbox } from '../../src/delivery/mailbox-service.ts'
import { OwnKeepers } from '../../src/delivery/own-keepers.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { Successions } from '../../src/identity/successions.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { bytesCodec } from '../../src/store/store.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { bench, crypto, diskFull, localAgent, principalOf, seal, sessionPair } from './delivery-fixtures.ts'

const wide = { messagesMax: 100, bytesMax: 1_000_000, messagesPerPeerMax: 50, ttlMaxMs: 86_400_000 }
const asIs = (hex: EidHex) => hex

/** A keeper's node over a disk of its own, for whoever is in `wanted`. */
async function keeperNode(wanted: Set<EidHex>, bounds = wide) {
  const b = await bench()
  const successions = await Successions.open(b)
  const kate = localAgent('kate')
  const put: MailRecord[] = []
  const open = () =>
    KeeperStore.open(
      { store: b.store, crypto, clockGuard: b.clockGuard, logger: silentLogger },
      {
        bounds,
        homeOf: (hex) => successions.rootOf(hex),
        mayKeepFor: (hex) => wanted.has(successions.rootOf(hex)),
        onMail: (_home, record) => put.push(record)
      }
    )
  const state = { keeper: await open() }
  /** A session of `peer` with the keeper; its end on the peer's side. */
  const meet = (peer: LocalAgent, change?: KeeperHandler) => {
    const pair = sessionPair(peer, kate)
    const { keeper } = state
    serveMailbox(pair.right.session, { queue: b.queue, crypto, clock: b.clock, logger: silentLogger, agent: () => undefined, keeper })
    serveKeeper(pair.right.session, {
      keeper,
      crypto,
      clock: b.clock,
      logger: silentLogger,
      identities: (one) => node.identities(one),
      successions
    })
    if (change !== undefined) mailboxChannelOf(pair.right.session, b.clock).serveKeeper(change)
    return pair.left.session
  }
  const channel = (peer: LocalAgent) => mailboxChannelOf(meet(peer), b.clock)
  const restart = async () => {
    state.keeper = await open()
  }
  const node = { identities: (one: Eid): readonly Eid[] => [one] }
  return Object.assign(node, { ...b, kate, state, put, successions, meet, channel, restart })
}

async function engaged(bounds = wide) {
  const asked = { ...wide, messagesMax: 1_000, messagesPerPeerMax: 1_000 }
  const alice = localAgent('alice')
  const bob = localAgent('bob')
  const k = await keeperNode(new Set([bob.eidHex]), bounds)
  expect(await k.channel(bob).ask({ type: 'keep', bounds: asked })).toMatchObject({ type: 'kept', bounds })
  const deposit = (object: Uint8Array, by = alice) => depositObject(k.meet(by), object, { crypto, clock: k.clock })
  const fetched = async (who: LocalAgent, after = 0) => await k.channel(who).ask({ type: 'fetch', after })
  const object = (messageId: string, from = alice) => seal(from, bob, k.clock.nowMs(), { messageId })
  const confirm = (bytes: Uint8Array, by = bob) => {
    const { id, issuer, audience } = decodeObject(bytes)
    return signConfirmation(by.signer, {
      objectHash: crypto.sha256(bytes),
      id,
      issuer,
      audience,
      state: 'delivered',
      atMs: k.clock.nowMs()
    })
  }
  return Object.assign(k, { alice, bob, deposit, fetched, object, confirm })
}

describe('a keeper', () => {
  it('[G-18] keeps for nobody that its owner did not name, and for nobody that did not ask', async () => {
    const bob = localAgent('bob')
    const k = await keeperNode(new Set([bob.eidHex]))
    const object = await seal(localAgent('alice'), bob, k.clock.nowMs())
    const refused = { status: 'refused', refusal: { code: 'not-keeping' } }
    expect(await depositObject(k.meet(localAgent('alice')), object, { crypto, clock: k.clock })).toMatchObject(refused)
    expect(await k.channel(localAgent('carol')).ask({ type: 'keep', bounds: wide })).toMatchObject({ type: 'refusal', code: 'not-keeping' })
  })

  it('[G-18] lets an engagement lapse that its audience does not renew', async () => {
    const t = await engaged()
    t.clock.advance(KEEPER_LEASE_MS)
    expect(await t.deposit(await t.object('late'))).toMatchObject({ refusal: { code: 'not-keeping' } })
  })

  it('[G-02] [OD-41] signs once it is on disk, the same bytes the same receipt, and has all of it after a restart', async () => {
    const t = await engaged()
    const object = await t.object('m-1')
    const first = await t.deposit(object)
    expect(first.status).toBe('stored')
    await t.restart()
    expect(await t.deposit(object)).toEqual(first)
    expect(await t.fetched(t.bob)).toMatchObject({ type: 'page', objects: [object], more: false })
  })

  it('[OD-22] signs nothing when the disk refuses the write', async () => {
    const t = await engaged()
    t.level.fault = diskFull
    expect(await t.deposit(await t.object('m-1'))).toMatchObject({ refusal: { code: 'store-failed' } })
  })

  it('[OD-32] [OD-45] [G-18] counts what a depositor brings against the EID that its session proved, whoever signed it', async () => {
    const t = await engaged({ ...wide, messagesPerPeerMax: 2 })
    const flood = []
    for (let i = 0; i < 4; i++) flood.push(await t.deposit(await t.object('m', localAgent(`stranger ${i}`)), t.alice))
    expect(flood.map(({ status }) => status)).toEqual(['stored', 'stored', 'refused', 'refused'])
    expect(flood[3]).toMatchObject({ refusal: { code: 'asleep_queue_full', kind: 'peer' } })
    expect((await t.deposit(await t.object('m', localAgent('dave')), localAgent('dave'))).status).toBe('stored')
  })

  it('[OD-24] [OD-25] keeps no more for an audience than it granted', async () => {
    const t = await engaged({ ...wide, messagesMax: 1 })
    await t.deposit(await t.object('m-1'))
    expect(await t.deposit(await t.object('m-2'))).toMatchObject({ refusal: { code: 'asleep_queue_full', kind: 'messages' } })
  })

  it('[G-12] takes other bytes under one name for a conflict', async () => {
    const t = await engaged()
    await t.deposit(await t.object('m-1'))
    expect(await t.deposit(await t.object('m-1'))).toMatchObject({ refusal: { code: 'conflict' } })
  })

  it('[G-18] [OD-50] holds ciphertext that it cannot open', async () => {
    const t = await engaged()
    await t.deposit(await seal(t.alice, t.bob, t.clock.nowMs(), { text: 'the secret of the nest' }))
    const page = await t.fetched(t.bob)
    if (page.type !== 'page') throw new Error('no page')
    const object = page.objects[0] as Uint8Array
    expect(Buffer.from(object).includes('secret of the nest')).toBe(false)
    await expect(
      openObject(
        crypto,
        decodeObject(object),
        (kid) => t.kate.mailboxSecret(kid),
        () => true
      )
    ).rejects.toMatchObject({ code: 'OBJECT_KEY' })
    expect(
      fromUtf8(
        await openObject(
          crypto,
          decodeObject(object),
          (kid) => t.bob.mailboxSecret(kid),
          () => true
        )
      )
    ).toContain('secret of the nest')
  })

  it('[G-18] hands out pages in order of arrival, each behind its cursor, and to their audience alone', async () => {
    const t = await engaged({ ...wide, messagesMax: 1_000, messagesPerPeerMax: 1_000 })
    const sent = []
    for (let i = 0; i < 300; i++) {
      const object = await t.object(`m-${i}`)
      sent.push(object)
      await t.deposit(object)
    }
    expect(await t.fetched(t.alice)).toMatchObject({ objects: [], more: false })
    const got: Uint8Array[] = []
    let pages = 0
    for (let after = 0, more = true; more; pages++) {
      const page = await t.fetched(t.bob, after)
      if (page.type !== 'page') throw new Error('no page')
      got.push(...page.objects)
      after = page.next
      more = page.more
    }
    expect(pages).toBe(2)
    expect(got).toEqual(sent)
  })

  it('[G-18] lets go on the audience’s own signed word about those very bytes, and on nobody else’s', async () => {
    const t = await engaged()
    const object = await t.object('m-1')
    await t.deposit(object)
    const release = (by: LocalAgent, confirmation: Uint8Array) => t.channel(by).ask({ type: 'release', confirmations: [confirmation] })
    expect(await release(t.alice, t.confirm(object, t.alice))).toMatchObject({
      type: 'refusal',
      code: 'invalid',
      reason: 'OBJECT_AUDIENCE'
    })
    expect(await release(t.alice, t.confirm(object))).toMatchObject({ type: 'refusal', code: 'invalid', reason: 'OBJECT_AUDIENCE' })
    const other = await t.object('m-1')
    expect(await release(t.bob, t.confirm(other))).toEqual({ type: 'released', request: expect.any(Number), count: 0 })
    expect(await t.fetched(t.bob)).toMatchObject({ objects: [object] })
    expect(await release(t.bob, t.confirm(object))).toMatchObject({ count: 1 })
    expect(await t.fetched(t.bob)).toMatchObject({ objects: [] })
  })

  it('[F088] tells the issuer, and the issuer alone, what is held and what the audience said, also after a restart, until the object ends', async () => {
    const t = await engaged()
    const [held, gone] = [await t.object('held'), await t.object('gone')]
    for (const object of [held, gone]) await t.deposit(object)
    await t.channel(t.bob).ask({ type: 'release', confirmations: [t.confirm(gone)] })
    await t.restart()
    const ids = [held, gone].map((object) => decodeObject(object).id)
    const ask = (who: LocalAgent) => t.channel(who).ask({ type: 'ask', audience: t.bob.eid, ids })
    const told = await ask(t.alice)
    if (told.type !== 'told') throw new Error('not told')
    expect(told.held).toEqual([ids[0]])
    const isBob = (by: Parameters<typeof eidHex>[0]) => eidHex(by) === t.bob.eidHex
    const confirmation = told.confirmations[0] as Uint8Array
    expect(verifyConfirmation(crypto, confirmation, { isAudience: isBob, sent: { object: decodeObject(gone), bytes: gone } }).state).toBe(
      'delivered'
    )
    expect(await ask(localAgent('eve'))).toMatchObject({ held: [], confirmations: [] })
    t.clock.advance(3_600_001)
    await t.state.keeper.sweep()
    expect(await ask(t.alice)).toMatchObject({ held: [], confirmations: [] })
  })
})

const mailOf = (agent: LocalAgent, nowMs: number, change: Partial<Mail> = {}, signer = agent) => {
  const ts = Math.floor(nowMs / 1_000)
  const mail: Mail = { eid: agent.eid, mbox: agent.mailboxKey, keepers: [], gen: nowMs, ts, exp: ts + MAIL_TTL_SEC, ...change }
  const payload = encodeCbor({ v: 1, ...mailType.toCbor(mail), ts: mail.ts, exp: mail.exp, ...(mail.gone === true ? { gone: true } : {}) })
  return encodeCbor(['mail', payload, signer.signer.sign(concat([context('record/mail'), payload]))])
}

describe('an audience that took another EID since it met its keeper', () => {
  const rotation = (from: LocalAgent, to: LocalAgent) => signRotation(from.signer, to.signer, 1)

  it('[G-18] [G-73] is known by the certificates that it shows, over several rotations, and finds what waited', async () => {
    const t = await engaged()
    const object = await t.object('m-1')
    await t.deposit(object)
    const [second, third] = [localAgent('bob 2'), localAgent('bob 3')]
    const keep = (rotations?: Uint8Array[]) =>
      t.channel(third).ask({ type: 'keep', bounds: wide, ...(rotations === undefined ? {} : { rotations }) })
    expect(await keep()).toMatchObject({ code: 'not-keeping' })
    const chain = [rotation(t.bob, second), rotation(second, third)]
    expect(await keep(chain)).toMatchObject({ type: 'kept' })
    expect(await t.fetched(third)).toMatchObject({ objects: [object] })
    expect(await keep(chain)).toMatchObject({ type: 'kept' })
    expect(await keep()).toMatchObject({ type: 'kept' })
    expect(t.successions.newest(t.bob.eid)).toEqual(third.eid)
  })

  it('[F088] is heard by senders as what it is now: its keeper passes its certificates on with its word, after a restart too', async () => {
    const t = await engaged()
    const object = await t.object('m-1')
    await t.deposit(object)
    const second = localAgent('bob 2')
    const chain = [rotation(t.bob, second)]
    await t.channel(second).ask({ type: 'keep', bounds: wide, rotations: chain })
    const ask = () => t.channel(t.alice).ask({ type: 'ask', audience: t.bob.eid, ids: [decodeObject(object).id] })
    expect(await ask()).toEqual({ type: 'told', request: expect.any(Number), held: [decodeObject(object).id], confirmations: [] })
    const { id, issuer, audience } = decodeObject(object)
    const confirmation = signConfirmation(second.signer, {
      objectHash: crypto.sha256(object),
      id,
      issuer,
      audience,
      state: 'delivered',
      atMs: t.clock.nowMs()
    })
    t.identities = (peer) => [peer, ...t.successions.predecessors(peer)]
    expect(await t.channel(second).ask({ type: 'release', confirmations: [confirmation] })).toMatchObject({ count: 1 })
    await t.restart()
    expect(await ask()).toMatchObject({ held: [], confirmations: [confirmation], rotations: chain })
  })

  it('[F083] [D-26] is nobody by a chain that is forged, broken, of another, or that forks from what the keeper knows; strangers leave nothing behind', async () => {
    const t = await engaged()
    const [second, eve] = [localAgent('bob 2'), localAgent('eve')]
    const keep = (who: LocalAgent, rotations: Uint8Array[]) => t.channel(who).ask({ type: 'keep', bounds: wide, rotations })
    const forged = rotation(t.bob, eve).slice()
    forged[forged.length - 1] = (forged.at(-1) as number) ^ 1
    expect(await keep(eve, [forged])).toMatchObject({ code: 'invalid', reason: 'SIGNATURE_INVALID' })
    expect(await keep(eve, [rotation(t.bob, second)])).toMatchObject({ code: 'invalid', reason: 'EID_MISMATCH' })
    expect(await keep(eve, [rotation(t.bob, second), rotation(localAgent('x'), eve)])).toMatchObject({ reason: 'EID_MISMATCH' })
    expect(await keep(eve, [rotation(localAgent('y'), eve)])).toMatchObject({ code: 'not-keeping' })
    expect(t.successions.size).toBe(0)
    expect(await keep(second, [rotation(t.bob, second)])).toMatchObject({ type: 'kept' })
    expect(await keep(eve, [rotation(t.bob, eve)])).toMatchObject({ code: 'invalid', reason: 'EID_MISMATCH' })
    expect(t.successions.newest(t.bob.eid)).toEqual(second.eid)
  })
})

describe('a keeper on a damaged disk', () => {
  it('[F065] starts without an engagement that it cannot read, hands out what it holds, and is engaged again', async () => {
    const t = await engaged()
    const object = await t.object('m-1')
    await t.deposit(object)
    await t.store.commit([t.store.table('keeper-for', bytesCodec).put(t.bob.eidHex, Uint8Array.of(0xa1, 0x61, 0x6e, 0x01))])
    await t.restart()
    expect(t.state.keeper.keepsFor(t.bob.eidHex)).toBe(false)
    expect(await t.fetched(t.bob)).toMatchObject({ objects: [object] })
    expect(await t.channel(t.bob).ask({ type: 'keep', bounds: wide })).toMatchObject({ type: 'kept' })
  })
})

describe('a word that comes after another', () => {
  it('[F088] takes handled in place of delivered for the same bytes alone, and never the other way', async () => {
    const t = await engaged()
    const [object, other, held] = [await t.object('m-1'), await t.object('m-2'), await t.object('m-3')]
    for (const one of [object, other, held]) await t.deposit(one)
    const word = (bytes: Uint8Array, state: 'delivered' | 'handled' | 'refused', objectHash = crypto.sha256(bytes)) => {
      const { id, issuer, audience } = decodeObject(bytes)
      const reason = state === 'refused' ? { reason: 'OBJECT_PURPOSE' } : {}
      return signConfirmation(t.bob.signer, { objectHash, id, issuer, audience, state, ...reason, atMs: t.clock.nowMs() })
    }
    const release = (...confirmations: Uint8Array[]) => t.channel(t.bob).ask({ type: 'release', confirmations })
    const told = async (bytes: Uint8Array) => {
      const answer = await t.channel(t.alice).ask({ type: 'ask', audience: t.bob.eid, ids: [decodeObject(bytes).id] })
      return answer.type === 'told' ? answer.confirmations : []
    }
    const [delivered, handled] = [word(object, 'delivered'), word(object, 'handled')]
    expect(await release(delivered)).toMatchObject({ count: 1 })
    expect(await release(word(object, 'handled', new Uint8Array(32)))).toMatchObject({ count: 0 })
    expect(await told(object)).toEqual([delivered])
    expect(await release(handled)).toMatchObject({ count: 0 })
    expect(await told(object)).toEqual([handled])
    await release(delivered)
    await t.restart()
    expect(await told(object)).toEqual([handled])
    const never = word(other, 'refused')
    await release(never)
    await release(word(other, 'handled'))
    expect(await told(other)).toEqual([never])
    expect(await release(word(held, 'handled'))).toMatchObject({ count: 1 })
    expect(await t.fetched(t.bob)).toMatchObject({ objects: [] })
  })
})

describe('the mail record that an audience hands to its keeper', () => {
  it('[G-18] is on disk before it is put, put again after a restart, and the newest stays', async () => {
    const t = await engaged()
    const nowMs = t.clock.nowMs()
    const keep = (mail: Uint8Array) => t.channel(t.bob).ask({ type: 'keep', bounds: wide, mail })
    const [first, older, newer] = [mailOf(t.bob, nowMs), mailOf(t.bob, nowMs, { gen: nowMs - 1 }), mailOf(t.bob, nowMs, { gen: nowMs + 1 })]
    expect(await keep(first)).toMatchObject({ type: 'kept' })
    expect(await keep(first)).toMatchObject({ type: 'kept' })
    expect(await keep(older)).toMatchObject({ type: 'kept' })
    expect(t.put.map(({ bytes }) => bytes)).toEqual([first])
    expect(await keep(newer)).toMatchObject({ type: 'kept' })
    expect(await t.channel(t.bob).ask({ type: 'keep', bounds: wide })).toMatchObject({ type: 'kept' })
    await t.restart()
    expect(t.state.keeper.mailRecords()).toMatchObject([[t.bob.eidHex, { bytes: newer }]])
  })

  it('[OD-22] is not put when the disk refuses it', async () => {
    const t = await engaged()
    t.level.fault = diskFull
    const mail = mailOf(t.bob, t.clock.nowMs())
    expect(await t.channel(t.bob).ask({ type: 'keep', bounds: wide, mail })).toMatchObject({ type: 'refusal', code: 'store-failed' })
    expect(t.put).toEqual([])
    expect(t.state.keeper.mailRecords()).toEqual([])
  })

  it('[D-26] [F035] is refused when it is of another agent, forged, ended, dated ahead, a tombstone or no record at all', async () => {
    const t = await engaged()
    const nowMs = t.clock.nowMs()
    const ts = Math.floor(nowMs / 1_000)
    const bad = {
      RECORD_KEY_MISMATCH: mailOf(t.alice, nowMs),
      SIGNATURE_INVALID: mailOf(t.bob, nowMs, {}, t.alice),
      RECORD_EXPIRED: mailOf(t.bob, nowMs, { ts: ts - 100, exp: ts }),
      RECORD_FUTURE: mailOf(t.bob, nowMs, { ts: ts + 121, exp: ts + 122 }),
      RECORD_SEQUENCE: mailOf(t.bob, nowMs, { gen: nowMs + 120_000 }),
      FIELD_INVALID: mailOf(t.bob, nowMs, { gone: true }),
      CBOR_INVALID: Uint8Array.of(0xff)
    }
    for (const [reason, mail] of Object.entries(bad)) {
      expect(await t.channel(t.bob).ask({ type: 'keep', bounds: wide, mail })).toMatchObject({ type: 'refusal', code: 'invalid', reason })
    }
    expect(t.put).toEqual([])
    const eve = localAgent('eve')
    for (const mail of [mailOf(eve, nowMs), mailOf(t.bob, nowMs)])
      expect(await t.channel(eve).ask({ type: 'keep', bounds: wide, mail })).toMatchObject({ code: 'not-keeping' })
  })
})

describe('an audience that comes back', () => {
  /** Bob's node, with keepers that he can meet. */
  async function returned(
    keepers: { kate: LocalAgent; session: (bob: LocalAgent) => ReturnType<typeof sessionPair>['left']['session'] }[],
    bob: LocalAgent,
    { isFormer = false, mail }: { isFormer?: boolean; mail?: Uint8Array } = {}
  ) {
    const tasks = { ended: false }
    const home = await bench({ isAudience: (agent, eid) => eidHex(eid) === agent.eidHex, approvalFor: () => 'none' })
    const own = new OwnKeepers({
      queue: home.queue,
      replay: home.replay,
      clockGuard: home.clockGuard,
      crypto,
      clock: home.clock,
      random: seededRandom(1),
      logger: silentLogger,
      agents: () => [bob],
      keepersOf: () => (isFormer ? [] : keepers.map(({ kate }) => kate.eid)),
      formerOf: () => (isFormer ? keepers.map(({ kate }) => kate.eid) : []),
      mailOf: () => mail,
      bounds: () => wide,
      open: async (agent, keeper) => {
        const found = keepers.find(({ kate }) => kate.eidHex === eidHex(keeper))
        if (found === undefined) throw new Error('unknown keeper')
        return found.session(agent)
      },
      drain: (agent) => home.drain.drain(agent),
      rootOf: asIs,
      taskEnded: async () => tasks.ended,
      slotOf: (_agent, issuer) => `eid:${issuer}`,
      isOwn: (agent, eid) => eidHex(eid) === agent.eidHex
    })
    const messages = () => home.todos.messages().map((message: JsonObject) => message.messageId)
    return { ...home, own, messages, tasks }
  }
  const of = (k: { kate: LocalAgent; meet: (peer: LocalAgent) => ReturnType<typeof sessionPair>['left']['session'] }) => ({
    kate: k.kate,
    session: (bob: LocalAgent) => k.meet(bob)
  })

  it('[G-15] [OD-36] puts what two keepers hold between them into the order in which it was sealed, takes each once, and both let go', async () => {
    const first = await engaged()
    const { alice, bob } = first
    const second = await keeperNode(new Set([bob.eidHex]))
    await second.channel(bob).ask({ type: 'keep', bounds: wide })
    for (const [messageId, places] of [
      ['1', [first, second]],
      ['2', [second]],
      ['3', [first, second]],
      ['4', [first]]
    ] as const) {
      const object = await seal(alice, bob, first.clock.nowMs(), { messageId })
      for (const place of places)
        expect((await depositObject(place.meet(alice), object, { crypto, clock: place.clock })).status).toBe('stored')
      first.clock.advance(10)
      second.clock.advance(10)
    }
    const t = await returned([of(first), of(second)], bob)
    t.clock.advance(1_000)
    expect(await t.own.round(bob)).toEqual({ met: 2, missed: 0, fetched: 4, faults: 0, confirmed: 4 })
    expect(t.messages()).toEqual(['1', '2', '3', '4'])
    for (const place of [first, second]) expect((await place.state.keeper.usage())[0]?.messages).toBe(0)
    expect(await t.own.round(bob)).toMatchObject({ fetched: 0, confirmed: 0 })
    expect(t.messages()).toHaveLength(4)
  })

  it('[F088] tells its keeper when the task has ended, so that a sender who never meets the audience learns that it was handled', async () => {
    const k = await engaged()
    const object = await k.object('m-1')
    await k.deposit(object)
    const t = await returned([of(k)], k.bob)
    const told = async () => {
      const answer = await k.channel(k.alice).ask({ type: 'ask', audience: k.bob.eid, ids: [decodeObject(object).id] })
      if (answer.type !== 'told') throw new Error('not told')
      const sent = { object: decodeObject(object), bytes: object }
      return answer.confirmations.map((bytes) => verifyConfirmation(crypto, bytes, { isAudience: () => true, sent }).state)
    }
    expect(await t.own.round(k.bob)).toMatchObject({ confirmed: 1 })
    expect(await told()).toEqual(['delivered'])
    await t.own.round(k.bob)
    expect(await told()).toEqual(['delivered'])
    t.tasks.ended = true
    expect(await t.own.round(k.bob)).toMatchObject({ fetched: 0, confirmed: 0 })
    await k.restart()
    expect(await told()).toEqual(['handled'])
  })

  it('[F088] says at once that a message was handled whose task has ended by then', async () => {
    const k = await engaged()
    const object = await k.object('m-1')
    await k.deposit(object)
    const t = await returned([of(k)], k.bob)
    t.tasks.ended = true
    await t.own.round(k.bob)
    const answer = await k.channel(k.alice).ask({ type: 'ask', audience: k.bob.eid, ids: [decodeObject(object).id] })
    expect(answer.type === 'told' && answer.confirmations).toHaveLength(1)
  })

  it('[G-18] asks its keepers at once: one that does not answer holds up no other', async () => {
    const k = await engaged()
    await k.deposit(await k.object('m-1'))
    const slow = await keeperNode(new Set([k.bob.eidHex]))
    const other = Promise.withResolvers<void>()
    const afterTheOther: KeeperHandler = async () => {
      await other.promise
      return { type: 'refusal', code: 'not-keeping', nowMs: 0 }
    }
    const t = await returned([{ kate: slow.kate, session: (bob) => slow.meet(bob, afterTheOther) }, of(k)], k.bob)
    const held = k.state.keeper.held.bind(k.state.keeper)
    k.state.keeper.held = (...args) => {
      other.resolve()
      return held(...args)
    }
    expect(await t.own.round(k.bob)).toMatchObject({ met: 1, missed: 1, fetched: 1 })
    expect(t.messages()).toEqual(['m-1'])
  })

  it('[G-18] asks a keeper that it let go of for what waits there, and engages it no longer', async () => {
    const k = await engaged()
    await k.deposit(await k.object('m-1'))
    const t = await returned([of(k)], k.bob, { isFormer: true, mail: mailOf(k.bob, k.clock.nowMs()) })
    k.clock.advance(KEEPER_LEASE_MS - 1)
    expect(await t.own.round(k.bob)).toMatchObject({ met: 1, missed: 0 })
    expect(k.state.keeper.keepsFor(k.bob.eidHex)).toBe(true)
    k.clock.advance(1)
    expect(k.state.keeper.keepsFor(k.bob.eidHex)).toBe(false)
    expect(k.put).toEqual([])
  })

  it('[OD-36] confirms what a keeper hands out again, and nothing has its effect twice', async () => {
    const k = await engaged()
    await k.deposit(await k.object('m-1'))
    const forgetful = { kate: k.kate, session: (bob: LocalAgent) => k.meet(bob) }
    const t = await returned([forgetful], k.bob)
    const release = k.state.keeper.release.bind(k.state.keeper)
    k.state.keeper.release = async () => 0
    expect(await t.own.round(k.bob)).toMatchObject({ fetched: 1, confirmed: 1 })
    expect(await t.own.round(k.bob)).toMatchObject({ fetched: 1, confirmed: 1 })
    expect(t.messages()).toEqual(['m-1'])
    k.state.keeper.release = release
    await t.own.round(k.bob)
    expect((await k.state.keeper.usage())[0]?.messages).toBe(0)
  })

  it('[F083] takes nothing that no issuer signed for it from a keeper that swaps, forges and repeats without end, and still hears the honest one', async () => {
    const honest = await engaged()
    const { alice, bob } = honest
    await honest.deposit(await honest.object('good'))
    const liar = await keeperNode(new Set([bob.eidHex]))
    const good = await honest.object('other')
    const forged = good.slice()
    forged[forged.length - 1] = (forged.at(-1) as number) ^ 1
    const forCarol = await seal(alice, localAgent('carol'), honest.clock.nowMs())
    let pages = 0
    const lies: KeeperHandler = async (request) => {
      if (request.type === 'keep') return { type: 'kept', bounds: wide, untilMs: Number.MAX_SAFE_INTEGER }
      if (request.type !== 'fetch') return { type: 'released', count: 0 }
      pages++
      return { type: 'page', objects: [forged, forCarol, utf8('nothing')], next: request.after + 1, more: true }
    }
    const t = await returned([{ kate: liar.kate, session: (one) => liar.meet(one, lies) }, of(honest)], bob)
    const report = await t.own.round(bob)
    expect(report).toMatchObject({ met: 2, fetched: 1, confirmed: 1 })
    expect(report.faults).toBe(pages * 3)
    expect(pages).toBeLessThan(200)
    expect(t.messages()).toEqual(['good'])
  })

  it('[G-18] gets from one keeper what another withholds', async () => {
    const honest = await engaged()
    const { alice, bob } = honest
    const silent = await keeperNode(new Set([bob.eidHex]))
    await silent.channel(bob).ask({ type: 'keep', bounds: wide })
    const object = await honest.object('m-1')
    for (const place of [silent, honest]) await depositObject(place.meet(alice), object, { crypto, clock: place.clock })
    const withholds: KeeperHandler = async (request) =>
      request.type === 'keep' ? { type: 'kept', bounds: wide, untilMs: 1e15 } : { type: 'page', objects: [], next: 0, more: false }
    const t = await returned([{ kate: silent.kate, session: (one) => silent.meet(one, withholds) }, of(honest)], bob)
    expect(await t.own.round(bob)).toMatchObject({ met: 2, fetched: 1, confirmed: 1 })
    expect(t.messages()).toEqual(['m-1'])
  })

  it('[G-18] asks again, sooner, when a keeper was not reached or answers something else, and takes from the others meanwhile', async () => {
    const k = await engaged()
    await k.deposit(await k.object('m-1'))
    const dead = localAgent('dead')
    const odd = await keeperNode(new Set())
    const t = await returned(
      [
        {
          kate: dead,
          session: () => {
            throw new Error('unreachable')
          }
        },
        { kate: odd.kate, session: (one) => odd.meet(one, async () => ({ type: 'released', count: 1 })) },
        of(k)
      ],
      k.bob
    )
    expect(await t.own.round(k.bob)).toMatchObject({ met: 1, missed: 2, confirmed: 1 })
    expect(t.messages()).toEqual(['m-1'])
  })

  it('[G-10] asks for nothing while its clock reads too early, since it could judge nothing', async () => {
    const k = await engaged()
    await k.deposit(await k.object('m-1'))
    const t = await returned([of(k)], k.bob)
    t.clock.advance(3_600_000)
    t.clockGuard.now()
    await t.clockGuard.persist()
    t.clock.jumpWall(-600_000)
    expect(await t.own.round(k.bob)).toMatchObject({ met: 0, fetched: 0 })
    expect(t.messages()).toEqual([])
  })

  it('[OD-24] [G-18] takes as much as its own queue holds, hands that over, and goes on with the rest', async () => {
    const k = await engaged()
    for (let i = 0; i < 5; i++) {
      await k.deposit(await k.object(`m-${i}`))
      k.clock.advance(1)
    }
    const t = await returned([of(k)], k.bob)
    t.clock.advance(10)
    t.bounds.messagesMax = 2
    expect(await t.own.round(k.bob)).toMatchObject({ fetched: 5, confirmed: 5 })
    expect(t.messages()).toEqual(['m-0', 'm-1', 'm-2', 'm-3', 'm-4'])
    expect(principalOf(k.alice)).toBe(t.todos.created[0]?.caller.id)
  })
})
