import { describe, expect, it } from 'vitest'
import { toHex, utf8 } from '../../protocol/bytes.ts'
import { decodeObject, OBJECT_LIFE_MAX_MS, objectIdOf } from '../../protocol/delivery/object.ts'
import { eidHex } from '../../protocol/identity/eid.ts'
import { type OutgoingInit, OutgoingObjects } from '../../src/delivery/outgoing.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { bytesCodec, Store } from '../../src/store/store.ts'
import { crypto, diskFull, FaultyLevel, localAgent } from './delivery-fixtures.ts'

const alice = localAgent('alice')
const bob = localAgent('bob')
const random = seededRandom(1)

async function open(init: OutgoingInit = {}, clock = new ManualClock(), level = new FaultyLevel()) {
  const store = new Store(level)
  const outgoing = await OutgoingObjects.open({ store, crypto, clock, random }, init)
  const seal = (messageId: string, over: { text?: string; audience?: typeof bob; ttlMs?: number } = {}) =>
    outgoing.seal({
      from: alice,
      audience: (over.audience ?? bob).eid,
      mailboxKey: (over.audience ?? bob).mailboxKey,
      messageId,
      purpose: 'a2a:message',
      plaintext: utf8(over.text ?? 'hello'),
      ...(over.ttlMs !== undefined ? { ttlMs: over.ttlMs } : {})
    })
  return { clock, level, store, outgoing, seal, restart: () => open(init, clock, level) }
}

describe('outgoing objects', () => {
  it('[G-12] tells the queue what an object says of itself only where it was sealed just now: a kept one is read and verified', async () => {
    const o = await open()
    const told: unknown[] = []
    const input = {
      from: alice,
      audience: bob.eid,
      mailboxKey: bob.mailboxKey,
      messageId: 'm-1',
      purpose: 'a2a:message',
      plaintext: utf8('hello')
    }
    for (let i = 0; i < 2; i++) {
      await o.outgoing.sealInto(input, async ({ object }, ops, facts) => {
        const { issuer, id, expiresAtMs } = decodeObject(object)
        told.push(facts)
        if (facts !== undefined) expect(facts).toEqual({ issuer: eidHex(issuer), objectId: toHex(id), expiresAtMs })
        await o.store.commit(ops)
        return { value: undefined, kept: true }
      })
    }
    expect(told.map((facts) => facts !== undefined)).toEqual([true, false])
  })

  it('[OD-42] [G-02] resends the bytes of the first time, in the same life, at the same time, and after a restart', async () => {
    const o = await open()
    const [first, second] = await Promise.all([o.seal('m-1'), o.seal('m-1')])
    expect(second).toEqual({ ...first, again: true })
    expect(decodeObject(first.object).id).toEqual(objectIdOf(crypto, alice.eid, bob.eid, 'm-1'))
    o.clock.advance(60_000)
    const restarted = await o.restart()
    expect(await restarted.seal('m-1')).toEqual({ ...first, again: true })
    expect((await restarted.seal('m-2')).object).not.toEqual(first.object)
    expect((await restarted.seal('m-1', { audience: localAgent('carol') })).again).toBe(false)
  })

  it('[G-02] refuses the same messageId with other content', async () => {
    const o = await open()
    await o.seal('m-1')
    await expect(o.seal('m-1', { text: 'other' })).rejects.toMatchObject({ code: 'MESSAGE_ID_REUSED', kind: 'conflict' })
  })

  it('[OD-22] [G-02] keeps what is sealed in the batch of its user or not at all, and seals once for two at the same time', async () => {
    const o = await open()
    const table = o.store.table('used', bytesCodec)
    const use = (kept: boolean) =>
      o.outgoing.sealInto(
        { from: alice, audience: bob.eid, mailboxKey: bob.mailboxKey, messageId: 'm-1', purpose: 'a2a:message', plaintext: utf8('hello') },
        async (sealed, ops) => {
          if (kept) await o.store.commit([...ops, table.put('effect', sealed.object)])
          return { value: { ...sealed, written: ops.length }, kept }
        }
      )
    const refused = await use(false)
    expect(refused).toMatchObject({ again: false, written: 1 })
    expect(o.outgoing.usage()).toMatchObject({ objects: 0, bytes: 0 })
    const syncs = o.store.syncs
    const [first, second] = await Promise.all([use(true), use(true)])
    expect([first.again, first.written, second.again, second.written]).toEqual([false, 1, true, 0])
    expect(second.object).toEqual(first.object)
    expect(first.object).not.toEqual(refused.object)
    expect(o.store.syncs - syncs).toBe(2)
    expect((await o.restart()).outgoing.usage().objects).toBe(1)
    o.level.fault = diskFull
    await expect(
      o.outgoing.sealInto(
        { from: alice, audience: bob.eid, mailboxKey: bob.mailboxKey, messageId: 'm-2', purpose: 'a2a:message', plaintext: utf8('hello') },
        async (_sealed, ops) => {
          await o.store.commit(ops)
          return { value: undefined, kept: true }
        }
      )
    ).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    expect(o.outgoing.usage().objects).toBe(1)
  })

  it('[OD-27] seals for six days at the most, forgets what ended, and seals anew then', async () => {
    const o = await open()
    const first = await o.seal('m-1', { ttlMs: 99 * OBJECT_LIFE_MAX_MS })
    expect(first.expiresAtMs).toBe(o.clock.nowMs() + OBJECT_LIFE_MAX_MS)
    o.clock.advance(OBJECT_LIFE_MAX_MS)
    const second = await o.seal('m-1')
    expect(second.again).toBe(false)
    expect(o.outgoing.usage().objects).toBe(1)
    o.clock.advance(OBJECT_LIFE_MAX_MS)
    expect(await o.outgoing.prune()).toBe(1)
    expect(o.outgoing.usage()).toMatchObject({ objects: 0, bytes: 0 })
  })

  it('[OD-22] keeps the receipt beside the object, through a restart', async () => {
    const o = await open()
    const { key } = await o.seal('m-1')
    expect(await o.outgoing.keepReceipt(key, utf8('receipt'))).toBe(true)
    expect(await o.outgoing.keepReceipt('none', utf8('receipt'))).toBe(false)
    const restarted = await o.restart()
    expect((await restarted.outgoing.get(key))?.receipt).toEqual(utf8('receipt'))
    expect((await restarted.seal('m-1')).receipt).toEqual(utf8('receipt'))
    expect(await restarted.outgoing.get('none')).toBeUndefined()
  })

  it('[OD-24] [OD-25] refuses new messages at its bounds, also many at once, and takes them when old ones ended', async () => {
    const o = await open({ objectsMax: 3 })
    const answers = await Promise.allSettled(Array.from({ length: 6 }, (_, i) => o.seal(`m-${i}`, { ttlMs: 1_000 })))
    expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(3)
    await expect(o.seal('over')).rejects.toMatchObject({ code: 'OUTGOING_FULL', kind: 'unavailable' })
    o.clock.advance(1_000)
    expect((await o.seal('over')).again).toBe(false)
    const small = await open({ bytesMax: 1_500 })
    await small.seal('m-1')
    await small.seal('m-2')
    await expect(small.seal('m-3', { text: 'x'.repeat(800) })).rejects.toMatchObject({ code: 'OUTGOING_FULL' })
  })

  it('[G-07] refuses what fits no mailbox, before it is sealed', async () => {
    const o = await open()
    await expect(o.seal('m-1', { text: 'x'.repeat(1_048_576) })).rejects.toMatchObject({ code: 'MESSAGE_TOO_LARGE' })
    expect(o.outgoing.usage().objects).toBe(0)
  })

  it('[OD-22] keeps nothing and counts nothing when the write fails, and passes over a damaged row', async () => {
    const o = await open()
    o.level.fault = diskFull
    await expect(o.seal('m-1')).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    expect(o.outgoing.usage()).toMatchObject({ objects: 0, bytes: 0 })
    o.level.fault = undefined
    const { key } = await o.seal('m-1')
    await o.store.commit([o.store.table('outgoing', bytesCodec).put(key, utf8('torn'))])
    expect((await o.seal('m-1')).again).toBe(false)
    expect(o.outgoing.usage().objects).toBe(1)
  })
})
