import { describe, expect, it } from 'vitest'
import { signConfirmation } from '../../protocol/delivery/confirmation.ts'
import { signReceipt } from '../../protocol/delivery/mailbox.ts'
import { decodeObject } from '../../protocol/delivery/object.ts'
import { type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { signRotation } from '../../protocol/identity/rotation.ts'
import { OutboxDelivery } from '../../src/a2a/deliver-outbox.ts'
import type { SendOutcome } from '../../src/a2a/send-message.ts'
import { type KeeperHandler, mailboxChannelOf } from '../../src/delivery/mailbox-channel.ts'
import { Outbox, type OutboxEntry } from '../../src/delivery/outbox.ts'
import { OutgoingObjects } from '../../src/delivery/outgoing.ts'
import { RookeryError } from '../../src/errors.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import type { Mailbox } from '../../src/spaces/mail-records.ts'
import { bench, crypto, localAgent, seal, sessionPair } from './delivery-fixtures.ts'

/** What a keeper does; by default it keeps, and tells the truth. */
interface Keeper {
  agent: LocalAgent
  held: Map<string, Uint8Array>
  deposits: number
  isOff: boolean
  sign: (object: Uint8Array) => Uint8Array
  tell: KeeperHandler | undefined
}

const UNREACHABLE = new RookeryError('AGENT_UNREACHABLE', 'nobody is there', { kind: 'unavailable' })
const never = new AbortController().signal

async function setUp(keepers: number, { copies = 2 } = {}) {
  const b = await bench()
  const alice = localAgent('alice')
  const bob = localAgent('bob')
  const outbox = await Outbox.open({ store: b.store, crypto, clock: b.clock })
  const outgoing = await OutgoingObjects.open({ store: b.store, crypto, clock: b.clock, random: seededRandom(1) })
  const keep = Array.from({ length: keepers }, (_, i): Keeper => {
    const agent = localAgent(`keeper ${i}`)
    const sign = (object: Uint8Array) => {
      const { id, issuer, audience, expiresAtMs } = decodeObject(object)
      return signReceipt(agent.signer, { objectHash: crypto.sha256(object), id, issuer, audience, storedUntilMs: expiresAtMs })
    }
    return { agent, held: new Map(), deposits: 0, isOff: false, sign, tell: undefined }
  })
  const live: { answer: SendOutcome | RookeryError } = { answer: UNREACHABLE }
  const mailbox: Mailbox = { mailboxKey: bob.mailboxKey, keepers: keep.map(({ agent }) => agent.eid), by: 'locator' }
  const delivery = new OutboxDelivery(
    {
      outbox,
      outgoing,
      mailRecords: { mailbox: async () => mailbox },
      crypto,
      clock: b.clock,
      logger: silentLogger,
      agent: (home) => (home === alice.eidHex ? alice : undefined),
      newest: (eid) => eid,
      send: async () => {
        if (live.answer instanceof RookeryError) throw live.answer
        return live.answer
      },
      open: async (from, to) => {
        const keeper = keep.find(({ agent }) => agent.eidHex === eidHex(to))
        if (keeper === undefined || keeper.isOff) throw new RookeryError('DIAL_FAILED', 'nobody is there', { kind: 'unavailable' })
        const pair = sessionPair(from, keeper.agent)
        const channel = mailboxChannelOf(pair.right.session, b.clock)
        channel.serve(async (object) => {
          keeper.deposits++
          keeper.held.set(decodeObject(object).id.join(), object)
          return { type: 'receipt', receipt: keeper.sign(object) }
        })
        channel.serveKeeper(
          keeper.tell ??
            (async (request) =>
              request.type === 'ask'
                ? { type: 'told', held: request.ids.filter((id) => keeper.held.has(id.join())), confirmations: [] }
                : { type: 'refusal', code: 'not-keeping', nowMs: 0 })
        )
        return pair.left.session
      }
    },
    { copies }
  )
  const post = async (messageId = 'm-1') =>
    (await outbox.add({ from: alice.eidHex, to: bob.eidHex, message: { messageId, role: 'ROLE_USER', parts: [{ text: 'x' }] } })).entry
  /** One attempt, and what it brought written down. */
  const attempt = async (entry: OutboxEntry, audience: 'try' | 'away' = 'try') => {
    const tried = await delivery.attempt(outbox.get(entry.id) ?? entry, audience, never)
    if (tried.news !== undefined) await outbox.learn(entry.id, tried.news, tried)
    return tried
  }
  const confirm = (object: Uint8Array, by: LocalAgent, state: 'delivered' | 'handled' = 'delivered') => {
    const { id, issuer, audience } = decodeObject(object)
    return signConfirmation(by.signer, { objectHash: crypto.sha256(object), id, issuer, audience, state, atMs: 1 })
  }
  return { ...b, alice, bob, outbox, outgoing, keep, live, post, attempt, confirm }
}

const only = (keepers: Keeper[], i: number) => keepers[i] as Keeper
const firstHeld = (keeper: Keeper) => [...keeper.held.values()][0] as Uint8Array

describe('an attempt while the audience is away', () => {
  it('[G-18] leaves the message with as many keepers as copies are wanted, takes another in place of one that is off, and counts receipts that verify', async () => {
    const t = await setUp(3)
    only(t.keep, 0).isOff = true
    const entry = await t.post()
    expect(await t.attempt(entry)).toMatchObject({ news: { name: 'kept', by: 2 }, audience: 'away' })
    expect(t.keep.map(({ deposits }) => deposits)).toEqual([0, 1, 1])
    expect(t.outbox.get(entry.id)?.keepers).toEqual([only(t.keep, 1).agent.eidHex, only(t.keep, 2).agent.eidHex])
    const [one, two] = [firstHeld(only(t.keep, 1)), firstHeld(only(t.keep, 2))]
    expect(one).toEqual(two)
    await t.attempt(entry)
    expect(t.keep.map(({ deposits }) => deposits)).toEqual([0, 1, 1])
  })

  it('[F083] counts no receipt that another signed, or that is about another object', async () => {
    const t = await setUp(2)
    const honest = only(t.keep, 1).sign
    only(t.keep, 0).sign = honest
    only(t.keep, 1).sign = () => {
      const other = firstHeld(only(t.keep, 0)).slice()
      const { id, issuer, audience } = decodeObject(other)
      return signReceipt(only(t.keep, 1).agent.signer, { objectHash: new Uint8Array(32), id, issuer, audience, storedUntilMs: 1e15 })
    }
    const entry = await t.post()
    expect(await t.attempt(entry)).toMatchObject({ news: undefined, why: 'AGENT_UNREACHABLE' })
    expect(t.outbox.get(entry.id)?.state.name).toBe('queued-here')
  })

  it('[F088] gives a keeper that lost what it signed for the same bytes again, and says less when it does not take them', async () => {
    const t = await setUp(1)
    const [keeper] = t.keep as [Keeper]
    const entry = await t.post()
    await t.attempt(entry)
    const before = firstHeld(keeper)
    keeper.held.clear()
    expect(await t.attempt(entry)).toMatchObject({ news: { name: 'kept', by: 1 } })
    expect(firstHeld(keeper)).toEqual(before)
    keeper.isOff = true
    expect(await t.attempt(entry)).toMatchObject({ news: { name: 'kept', by: 1 } })
    keeper.isOff = false
    keeper.held.clear()
    keeper.sign = () => new Uint8Array([1])
    await t.attempt(entry)
    expect(t.outbox.get(entry.id)?.state.name).toBe('queued-here')
  })

  it('[F088] believes the audience’s word from a keeper, and no keeper’s own', async () => {
    const t = await setUp(1)
    const [keeper] = t.keep as [Keeper]
    const entry = await t.post()
    await t.attempt(entry)
    const object = firstHeld(keeper)
    const tell =
      (...confirmations: Uint8Array[]): KeeperHandler =>
      async (request) => ({ type: 'told', held: request.type === 'ask' ? request.ids : [], confirmations })
    keeper.tell = tell(t.confirm(object, keeper.agent), t.confirm(object, t.alice))
    await t.attempt(entry)
    expect(t.outbox.get(entry.id)?.state.name).toBe('kept')
    keeper.tell = tell(t.confirm(object, t.bob))
    await t.attempt(entry)
    expect(t.outbox.get(entry.id)?.state.name).toBe('delivered')
    expect((await t.outbox.evidence(entry)).confirmation).toEqual(t.confirm(object, t.bob))
  })

  it('[F088] learns from a keeper that what was delivered is handled, by the audience’s word about these very bytes alone', async () => {
    const t = await setUp(1)
    const [keeper] = t.keep as [Keeper]
    const entry = await t.post()
    await t.attempt(entry)
    const object = firstHeld(keeper)
    let words = [t.confirm(object, t.bob)]
    keeper.tell = async () => ({ type: 'told', held: [], confirmations: words })
    await t.attempt(entry)
    const now = () => t.outbox.get(entry.id) as OutboxEntry
    expect(now().state.name).toBe('delivered')
    const other = await seal(t.alice, t.bob, t.clock.nowMs(), { messageId: 'other' })
    words = [t.confirm(object, keeper.agent, 'handled'), t.confirm(other, t.bob, 'handled'), t.confirm(object, t.bob)]
    await t.attempt(now(), 'away')
    expect(now().state.name).toBe('delivered')
    words = [t.confirm(object, t.bob, 'handled')]
    expect(await t.attempt(now(), 'away')).toMatchObject({ news: { name: 'handled' }, audience: 'away' })
    expect(now().state.name).toBe('handled')
    expect((await t.outbox.evidence(entry)).confirmation).toEqual(words[0])
    expect(keeper.deposits).toBe(1)
  })

  it('[F088] [G-73] believes the audience as what it is now by its certificates, and nobody by others', async () => {
    const t = await setUp(1)
    const [keeper] = t.keep as [Keeper]
    const entry = await t.post()
    await t.attempt(entry)
    const object = firstHeld(keeper)
    const [next, eve] = [localAgent('bob 2'), localAgent('eve')]
    const rotation = (from: LocalAgent, to: LocalAgent) => signRotation(from.signer, to.signer, 1)
    const tell = (by: LocalAgent, ...rotations: Uint8Array[]) => {
      keeper.tell = async (request) => ({
        type: 'told',
        held: request.type === 'ask' ? request.ids : [],
        confirmations: [t.confirm(object, by)],
        rotations
      })
    }
    const forged = rotation(t.bob, eve).slice()
    forged[forged.length - 1] = (forged.at(-1) as number) ^ 1
    for (const rotations of [
      [],
      [rotation(keeper.agent, eve)],
      [rotation(t.bob, next)],
      [forged],
      [rotation(t.bob, next), rotation(keeper.agent, eve)]
    ]) {
      tell(eve, ...rotations)
      await t.attempt(entry)
      expect(t.outbox.get(entry.id)?.state.name).toBe('kept')
    }
    tell(next, rotation(t.bob, next))
    await t.attempt(entry)
    expect(t.outbox.get(entry.id)?.state.name).toBe('delivered')
  })

  it('[OD-36] deposits nothing that the audience has already, though it cannot be asked now', async () => {
    const t = await setUp(1)
    const entry = await t.post()
    t.live.answer = { outcome: 'task', task: { id: 'task-1', status: { state: 'TASK_STATE_WORKING' } } }
    await t.attempt(entry)
    expect(t.outbox.get(entry.id)).toMatchObject({ state: { name: 'delivered' }, task: 'task-1' })
    t.live.answer = UNREACHABLE
    expect(await t.attempt(entry)).toMatchObject({ news: undefined, audience: 'away' })
    expect(t.keep.map(({ deposits }) => deposits)).toEqual([0])
  })
})

describe('an attempt that the audience answers', () => {
  const answered: [string, SendOutcome | RookeryError, string][] = [
    ['a task that has ended', { outcome: 'task', task: { id: '1', status: { state: 'TASK_STATE_FAILED' } } }, 'handled'],
    ['a message', { outcome: 'message', message: {} }, 'handled'],
    ['asleep, nothing kept', { outcome: 'asleep', asleep: { status: 503, queued: false } }, 'queued-here'],
    ['a full queue', { outcome: 'queue-full', asleep: { status: 429, queued: false, kind: 'peer' } }, 'queued-here'],
    ['too large', new RookeryError('MESSAGE_TOO_LARGE', 'x', { kind: 'refused' }), 'refused'],
    ['too many', new RookeryError('RATE_LIMITED', 'x', { kind: 'unavailable' }), 'queued-here']
  ]
  it.each(answered)('[F088] says of "%s" what is true of it, and asks no keeper', async (_, answer, state) => {
    const t = await setUp(1)
    const entry = await t.post()
    t.live.answer = answer
    expect((await t.attempt(entry)).audience).toBe('met')
    expect(t.outbox.get(entry.id)?.state.name).toBe(state)
    expect(t.keep.map(({ deposits }) => deposits)).toEqual([0])
  })

  it('[G-18] waits until the audience means to be back, and counts its own node as one that keeps', async () => {
    const t = await setUp(0)
    const entry = await t.post()
    t.live.answer = { outcome: 'queued', asleep: { status: 503, queued: true, retryAfterSec: 90 } }
    expect(await t.attempt(entry)).toMatchObject({ news: { name: 'kept', by: 1 }, retryAfterMs: 90_000 })
    expect(t.outbox.get(entry.id)?.keepers).toEqual([t.bob.eidHex satisfies EidHex])
  })
})
