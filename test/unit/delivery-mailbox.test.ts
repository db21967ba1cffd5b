import { describe, expect, it } from 'vitest'
import { utf8 } from '../../protocol/bytes.ts'
import {
  decodeMailboxMessage,
  encodeMailboxMessage,
  MAILBOX_CHANNEL,
  MAILBOX_KIND,
  signReceipt,
  verifyReceipt
} from '../../protocol/delivery/mailbox.ts'
import { decodeObject } from '../../protocol/delivery/object.ts'
import type { QueueRecord } from '../../src/delivery/asleep-queue.ts'
import { DEPOSITS_PENDING_MAX, mailboxChannelOf } from '../../src/delivery/mailbox-channel.ts'
import { depositObject } from '../../src/delivery/mailbox-client.ts'
import { serveMailbox } from '../../src/delivery/mailbox-service.ts'
import { refusalOfMailbox } from '../../src/delivery/queue-refusal.ts'
import { RookeryError } from '../../src/errors.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { type BenchInit, bench, crypto, diskFull, localAgent, principalOf, seal, sessionPair } from './delivery-fixtures.ts'

async function setUp(init: BenchInit = {}) {
  const alice = localAgent('alice')
  const bob = localAgent('bob', { mode: 'sleep' })
  const b = await bench(init)
  const pair = sessionPair(alice, bob)
  const stored: QueueRecord[] = []
  const hosted = new Map([[bob.eidHex, bob]])
  serveMailbox(pair.right.session, {
    queue: b.queue,
    crypto,
    clock: b.clock,
    logger: silentLogger,
    agent: (hex) => hosted.get(hex),
    onStored: (_, record) => stored.push(record)
  })
  const deposit = (object: Uint8Array, options: { signal?: AbortSignal; timeoutMs?: number } = {}) =>
    depositObject(pair.left.session, object, { crypto, clock: b.clock, ...options })
  return {
    ...b,
    alice,
    bob,
    pair,
    stored,
    hosted,
    deposit,
    object: (messageId = 'm-1') => seal(alice, bob, b.clock.nowMs(), { messageId })
  }
}

describe('mailbox deposit over a session', () => {
  it('[OD-14] [OD-31] stores, synced, under the EID that the session proved, and answers the keeper’s receipt', async () => {
    const t = await setUp()
    const object = await t.object()
    const result = await t.deposit(object)
    if (result.status !== 'stored') throw new Error(`not stored: ${result.refusal.code}`)
    const [record] = await t.queue.list(t.bob.eidHex)
    expect(record).toMatchObject({ principal: principalOf(t.alice), issuer: t.alice.eidHex, expiresAtMs: result.storedUntilMs })
    expect(record?.object).toEqual(object)
    expect(t.stored).toHaveLength(1)
    expect(
      verifyReceipt(crypto, result.receipt, { keeper: t.bob.eid, deposited: { object: decodeObject(object), bytes: object } }).storedUntilMs
    ).toBe(result.storedUntilMs)
  })

  it('[G-02] gives the same bytes the same receipt, byte for byte, also after a restart of the keeper', async () => {
    const t = await setUp()
    const object = await t.object()
    const first = await t.deposit(object)
    t.clock.advance(60_000)
    expect(await t.deposit(object)).toEqual(first)
    expect(t.stored).toHaveLength(1)
    const restarted = await t.restart()
    const pair = sessionPair(t.alice, t.bob)
    serveMailbox(pair.right.session, { queue: restarted.queue, crypto, clock: t.clock, logger: silentLogger, agent: () => t.bob })
    expect(await depositObject(pair.left.session, object, { crypto, clock: t.clock })).toEqual(first)
  })

  it('[OD-32] accounts an object that another signed to who deposited it', async () => {
    const t = await setUp({ bounds: { messagesPerPeerMax: 2 } })
    const results = []
    for (const name of ['x', 'y', 'z']) results.push(await t.deposit(await seal(localAgent(name), t.bob, t.clock.nowMs())))
    expect(results.map((result) => result.status)).toEqual(['stored', 'stored', 'refused'])
    expect(results[2]).toMatchObject({ refusal: { code: 'asleep_queue_full', kind: 'peer' } })
  })

  it('[G-13] [OD-26] counts all strangers as one, whoever has a grant by itself, and knows so after a restart', async () => {
    const b = await bench({ bounds: { messagesPerPeerMax: 2 } })
    const [bob, friend] = [localAgent('bob', { mode: 'sleep' }), localAgent('friend')]
    const from = async (queue: typeof b.queue, who: LocalAgent, messageId: string) => {
      const pair = sessionPair(who, bob)
      serveMailbox(pair.right.session, {
        queue,
        crypto,
        clock: b.clock,
        logger: silentLogger,
        agent: () => bob,
        slotOf: (_agent, depositor) => (depositor === friend.eidHex ? `eid:${depositor}` : 'strangers')
      })
      const result = await depositObject(pair.left.session, await seal(who, bob, b.clock.nowMs(), { messageId }), {
        crypto,
        clock: b.clock
      })
      return result.status === 'stored' ? 'stored' : `${result.refusal.code} ${result.refusal.kind}`
    }
    expect(await from(b.queue, localAgent('eve'), '1')).toBe('stored')
    expect(await from(b.queue, localAgent('mallory'), '2')).toBe('stored')
    expect(await from(b.queue, localAgent('another'), '3')).toBe('asleep_queue_full peer')
    expect(await from(b.queue, friend, '4')).toBe('stored')
    const { queue } = await b.restart()
    expect(await from(queue, localAgent('one more'), '5')).toBe('asleep_queue_full peer')
    expect(await from(queue, friend, '6')).toBe('stored')
    expect(await from(queue, friend, '7')).toBe('asleep_queue_full peer')
    const [first] = await queue.list(bob.eidHex)
    await queue.drop(bob.eidHex, (first as QueueRecord).key)
    expect(await from(queue, localAgent('the next'), '8')).toBe('stored')
    const principals = (await queue.list(bob.eidHex)).map(({ principal }) => principal)
    expect(new Set(principals).size).toBe(3)
  })

  it('[OD-44] [OD-46] [OD-47] names the bound that a deposit hit', async () => {
    const t = await setUp({ bounds: { messagesMax: 1 } })
    await t.deposit(await t.object('1'))
    const result = await t.deposit(await t.object('2'))
    expect(result).toMatchObject({ status: 'refused', refusal: { code: 'asleep_queue_full', kind: 'messages', nowMs: t.clock.nowMs() } })
    if (result.status !== 'refused') throw new Error('stored')
    expect(refusalOfMailbox(result.refusal, { objectBytesMax: 1 })).toEqual({ reason: 'queue-full', kind: 'messages' })
  })

  it('[OD-09] [OD-11] [OD-07] keeps nothing for agents that are not hosted here, nor in a mode that does not keep', async () => {
    const t = await setUp()
    const object = await t.object()
    t.hosted.clear()
    expect(await t.deposit(object)).toMatchObject({ refusal: { code: 'not-keeping' } })
    t.hosted.set(t.bob.eidHex, t.bob)
    for (const mode of ['always_on', 'session'] as const) {
      t.bob.reachability = { mode }
      expect(await t.deposit(object)).toMatchObject({ refusal: { code: 'not-keeping' } })
    }
    expect((await t.queue.usage(t.bob.eidHex)).messages).toBe(0)
    t.bob.reachability = { mode: 'hourly_wake' }
    expect((await t.deposit(object)).status).toBe('stored')
  })

  it('[G-08] [F083] refuses what is malformed, forged, ended or of the future before it counts, and says why', async () => {
    const t = await setUp()
    const nowMs = t.clock.nowMs()
    const raw = async (object: Uint8Array) => {
      const answer = await mailboxChannelOf(t.pair.left.session, t.clock).deposit(object)
      return answer.type === 'refusal' ? [answer.code, answer.reason] : ['stored']
    }
    const good = await t.object()
    const forged = good.slice()
    forged[forged.length - 1] = (forged.at(-1) as number) ^ 1
    expect(await raw(utf8('nothing'))).toEqual(['invalid', 'CBOR_INVALID'])
    expect(await raw(forged)).toEqual(['invalid', 'SIGNATURE_INVALID'])
    expect(await raw(await seal(t.alice, t.bob, nowMs + 90_000))).toEqual(['invalid', 'OBJECT_FUTURE'])
    expect(await raw(await seal(t.alice, t.bob, nowMs - 90_000, { lifeMs: 60_000 }))).toEqual(['expired', undefined])
    expect((await t.queue.usage(t.bob.eidHex)).messages).toBe(0)
    expect(await raw(good)).toEqual(['stored'])
    expect(await raw(await t.object())).toEqual(['conflict', undefined])
  })

  it('[OD-22] [OD-48] signs no receipt when the write failed', async () => {
    const t = await setUp()
    t.level.fault = diskFull
    expect(await t.deposit(await t.object())).toMatchObject({ status: 'refused', refusal: { code: 'store-failed' } })
    t.level.fault = undefined
    expect(await t.queue.list(t.bob.eidHex)).toHaveLength(0)
    expect(t.stored).toHaveLength(0)
  })

  it('[OD-22] counts nothing as stored on a receipt of another signer, of another object, or on bytes that are none', async () => {
    const t = await setUp()
    const object = await t.object()
    const decoded = decodeObject(object)
    const facts = {
      objectHash: crypto.sha256(object),
      id: decoded.id,
      issuer: decoded.issuer,
      audience: decoded.audience,
      storedUntilMs: 1
    }
    const forgeries = [
      [signReceipt(t.alice.signer, facts), 'SIGNATURE_INVALID'],
      [signReceipt(t.bob.signer, { ...facts, objectHash: new Uint8Array(32) }), 'OBJECT_CONFLICT'],
      [utf8('receipt'), 'CBOR_INVALID']
    ] as const
    for (const [receipt, reason] of forgeries) {
      t.pair.right.change = (item) => {
        const message = decodeMailboxMessage(item.payload)
        return { ...item, payload: encodeMailboxMessage({ type: 'receipt', request: message.request, receipt }) }
      }
      await expect(t.deposit(object)).rejects.toMatchObject({ code: 'RECEIPT_INVALID', data: { reason } })
    }
  })

  it('[OD-22] counts nothing as stored without an answer: a lost one times out, an ended session or an abort rejects, and the resend gets the receipt', async () => {
    const t = await setUp()
    const object = await t.object()
    t.pair.right.lose = () => true
    const timedOut = t.deposit(object, { timeoutMs: 1_000 })
    await new Promise((resolve) => setImmediate(resolve))
    t.clock.advance(1_000)
    await expect(timedOut).rejects.toMatchObject({ code: 'RECEIPT_TIMEOUT', kind: 'timeout' })
    await expect(t.deposit(object, { signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
    const stop = new AbortController()
    const aborted = t.deposit(object, { signal: stop.signal })
    stop.abort(new Error('later'))
    await expect(aborted).rejects.toThrow('later')
    t.pair.right.lose = undefined
    expect((await t.deposit(object)).status).toBe('stored')
    t.pair.right.lose = () => true
    const lost = t.deposit(object)
    t.pair.end('reset')
    await expect(lost).rejects.toMatchObject({ code: 'SESSION_LOST' })
    await expect(t.deposit(object)).rejects.toMatchObject({ code: 'SESSION_LOST' })
  })

  it('[OD-24] bounds the deposits that wait for an answer', async () => {
    const t = await setUp({ bounds: { messagesPerPeerMax: 10_000 } })
    t.pair.left.lose = () => true
    const object = await t.object()
    const stop = new AbortController()
    const waiting = Array.from({ length: DEPOSITS_PENDING_MAX }, () =>
      t.deposit(object, { signal: stop.signal }).catch((error: Error) => error.message)
    )
    await new Promise((resolve) => setImmediate(resolve))
    await expect(t.deposit(object)).rejects.toMatchObject({ code: 'DEPOSITS_PENDING' })
    stop.abort(new Error('enough'))
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['enough']))
  })

  it('[OD-22] ignores what is no mailbox message and answers nobody waits for, and keeps serving', async () => {
    const t = await setUp()
    const hostile = [
      { kind: MAILBOX_KIND, payload: utf8('junk') },
      { kind: 0x02, payload: utf8('{}') },
      { kind: MAILBOX_KIND, payload: encodeMailboxMessage({ type: 'receipt', request: 99, receipt: utf8('x') }) },
      { kind: MAILBOX_KIND, payload: encodeMailboxMessage({ type: 'refusal', request: 99, code: 'conflict', nowMs: 0 }) }
    ]
    for (const item of hostile) await t.pair.right.receive({ channel: MAILBOX_CHANNEL, position: () => [], ...item })
    expect(mailboxChannelOf(t.pair.right.session, t.clock).ignored).toBe(4)
    expect(t.pair.right.sent).toHaveLength(0)
    expect((await t.deposit(await t.object())).status).toBe('stored')
  })

  it('[G-01] answers not-keeping where no mailbox is served', async () => {
    const t = await setUp()
    const pair = sessionPair(t.alice, t.bob)
    mailboxChannelOf(pair.right.session, t.clock)
    const result = await depositObject(pair.left.session, await t.object(), { crypto, clock: t.clock })
    expect(result).toMatchObject({ status: 'refused', refusal: { code: 'not-keeping' } })
    if (result.status === 'refused')
      expect(refusalOfMailbox(result.refusal, { objectBytesMax: 1 })).toEqual({ reason: 'asleep', queued: false })
  })

  it('[OD-14] serves both directions of one session at once', async () => {
    const t = await setUp()
    const carol = localAgent('carol')
    const other = await bench()
    serveMailbox(t.pair.left.session, { queue: other.queue, crypto, clock: t.clock, logger: silentLogger, agent: () => carol })
    const [there, back] = await Promise.all([
      t.deposit(await t.object()),
      depositObject(t.pair.right.session, await seal(t.bob, carol, t.clock.nowMs()), { crypto, clock: t.clock })
    ])
    expect([there.status, back.status]).toEqual(['stored', 'stored'])
  })

  it('[OD-22] lets an unforeseen fault of the queue answer as a failed store, not as a closed session', async () => {
    const t = await setUp()
    t.queue.enqueue = () => Promise.reject(new RookeryError('STORE_CLOSED', 'closed', { kind: 'storage' }))
    expect(await t.deposit(await t.object())).toMatchObject({ refusal: { code: 'store-failed' } })
  })
})
