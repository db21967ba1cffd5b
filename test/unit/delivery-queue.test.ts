import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toHex, utf8 } from '../../protocol/bytes.ts'
import { QUEUE_BOUNDS_DEFAULT } from '../../protocol/delivery/bounds.ts'
import type { QueueAnswer } from '../../src/delivery/asleep-queue.ts'
import { refusalOfAnswer } from '../../src/delivery/queue-refusal.ts'
import { RookeryError } from '../../src/errors.ts'
import { bytesCodec } from '../../src/store/store.ts'
import { asEidHex, bench, crypto, diskFull, localAgent, principalOf, seal } from './delivery-fixtures.ts'

const HOUR_MS = 3_600_000
const alice = localAgent('alice')
const carol = localAgent('carol')
const bob = localAgent('bob')

async function put(
  b: Awaited<ReturnType<typeof bench>>,
  messageId: string,
  over: { from?: typeof alice; principal?: string; text?: string; lifeMs?: number; ttlMs?: number } = {}
) {
  const from = over.from ?? alice
  const object = await seal(from, bob, b.clock.nowMs(), {
    messageId,
    ...(over.text !== undefined ? { text: over.text } : {}),
    ...(over.lifeMs !== undefined ? { lifeMs: over.lifeMs } : {})
  })
  return b.queue.enqueue({
    audience: bob.eidHex,
    principal: over.principal ?? principalOf(from),
    object,
    ...(over.ttlMs !== undefined ? { ttlMs: over.ttlMs } : {})
  })
}

const kinds = (answers: QueueAnswer[]) => answers.map((answer) => (answer.status === 'full' ? answer.kind : answer.status))

describe('the asleep queue', () => {
  it('[OD-24] refuses message 501 and says which bound it hit', async () => {
    const b = await bench({ bounds: { messagesPerPeerMax: 1_000 } })
    const answers = []
    for (let i = 0; i < 501; i++)
      answers.push(await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8(`blob ${i}`), kind: 'opaque' }))
    expect(answers.slice(0, 500).every((answer) => answer.status === 'queued')).toBe(true)
    expect(answers[500]).toEqual({ status: 'full', kind: 'messages' })
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(500)
  })

  it('[OD-25] [G-07] refuses the byte over the bound, to the byte, before and after a restart', async () => {
    let b = await bench({ bounds: { bytesMax: 100 } })
    const blob = (size: number, fill: number) =>
      b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: new Uint8Array(size).fill(fill), kind: 'opaque' })
    expect(kinds([await blob(60, 1), await blob(41, 2)])).toEqual(['queued', 'bytes'])
    b = await b.restart()
    expect((await b.queue.usage(bob.eidHex)).bytes).toBe(60)
    expect(kinds([await blob(41, 2), await blob(40, 3), await blob(1, 4)])).toEqual(['bytes', 'queued', 'bytes'])
  })

  it('[G-07] says too-large for what is above the size of an object, and counts nothing', async () => {
    const b = await bench({ objectBytesMax: 1_000 })
    const answer = await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: new Uint8Array(1_001) })
    expect(answer).toEqual({ status: 'too-large', bytesMax: 1_000 })
    expect(await b.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
  })

  it('[OD-26] stops one peer at its bound while another still gets in', async () => {
    const b = await bench({ bounds: { messagesPerPeerMax: 2 } })
    expect(kinds([await put(b, '1'), await put(b, '2'), await put(b, '3'), await put(b, '4', { from: carol })])).toEqual([
      'queued',
      'queued',
      'peer',
      'queued'
    ])
    const again = await b.restart()
    expect(kinds([await put(again, '5'), await put(again, '6', { from: carol }), await put(again, '7', { from: carol })])).toEqual([
      'peer',
      'queued',
      'peer'
    ])
  })

  it('[OD-31] [OD-32] accounts by the verified principal: 60 issuers behind one depositor stop at 50, two depositors do not share', async () => {
    const b = await bench()
    const answers: QueueAnswer[] = []
    for (let i = 0; i < 60; i++) answers.push(await put(b, 'm', { from: localAgent(`issuer ${i}`), principal: 'eid:one' }))
    expect(answers.filter((answer) => answer.status === 'queued')).toHaveLength(50)
    expect(kinds(answers.slice(50))).toEqual(Array(10).fill('peer'))
    expect((await put(b, 'other', { principal: 'eid:two' })).status).toBe('queued')
  })

  it('[OD-27] [OD-39] [G-09] lets a record live for the least of the object’s end, the wish and the maximum, opaque ones too, and releases what it counted', async () => {
    const b = await bench({ bounds: { ttlMaxMs: 2 * HOUR_MS } })
    const startMs = b.clock.nowMs()
    const lives: [QueueAnswer, number][] = [
      [await put(b, 'object end', { lifeMs: HOUR_MS }), HOUR_MS],
      [await put(b, 'wish', { lifeMs: 5 * HOUR_MS, ttlMs: 60_000 }), 60_000],
      [await put(b, 'maximum', { lifeMs: 5 * HOUR_MS }), 2 * HOUR_MS],
      [await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8('opaque'), kind: 'opaque', ttlMs: 1_000 }), 1_000]
    ]
    for (const [answer, lifeMs] of lives) expect(answer).toMatchObject({ status: 'queued', record: { expiresAtMs: startMs + lifeMs } })
    b.clock.advance(1_000)
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(3)
    expect(await b.queue.list(bob.eidHex)).toHaveLength(3)
    b.clock.advance(HOUR_MS)
    expect(await b.queue.sweep()).toBe(3)
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(1)
    b.clock.advance(HOUR_MS)
    expect(await b.queue.sweep()).toBe(1)
    expect(await b.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
    const restarted = await b.restart()
    expect(await restarted.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
  })

  it('[OD-27] judges bounds after what has ended is gone', async () => {
    const b = await bench({ bounds: { messagesMax: 1 } })
    expect((await put(b, 'short', { lifeMs: 1_000 })).status).toBe('queued')
    expect(kinds([await put(b, 'next')])).toEqual(['messages'])
    b.clock.advance(1_000)
    expect((await put(b, 'next')).status).toBe('queued')
  })

  it('[OD-35] does not take what has ended, and wants no wish below a millisecond', async () => {
    const b = await bench()
    const object = await seal(alice, bob, b.clock.nowMs() - 2 * HOUR_MS, { lifeMs: HOUR_MS })
    expect(await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object })).toEqual({ status: 'expired' })
    expect(await put(b, 'no wish', { ttlMs: 0 })).toEqual({ status: 'expired' })
    expect(await put(b, 'bad wish', { ttlMs: Number.NaN })).toEqual({ status: 'expired' })
  })

  it('[G-02] answers the same bytes alike and counts them once, before and after a restart; other bytes of that name are a conflict', async () => {
    const b = await bench()
    const object = await seal(alice, bob, b.clock.nowMs())
    const input = { audience: bob.eidHex, principal: principalOf(alice), object }
    const first = await b.queue.enqueue(input)
    const second = await b.queue.enqueue(input)
    expect(first).toMatchObject({ status: 'queued', again: false })
    expect(second).toEqual({ ...first, again: true })
    const restarted = await b.restart()
    expect(await restarted.queue.enqueue(input)).toEqual({ ...first, again: true })
    expect((await restarted.queue.usage(bob.eidHex)).messages).toBe(1)
    const other = await seal(alice, bob, b.clock.nowMs(), { text: 'other' })
    expect(await restarted.queue.enqueue({ ...input, object: other })).toEqual({ status: 'conflict' })
  })

  it('[G-02] counts one of 20 equal enqueues at the same time', async () => {
    const b = await bench()
    const object = await seal(alice, bob, b.clock.nowMs())
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object }))
    )
    expect(answers.filter((answer) => answer.status === 'queued' && !answer.again)).toHaveLength(1)
    expect(await b.queue.list(bob.eidHex)).toHaveLength(1)
  })

  it('[OD-24] lets no 40 enqueues at the same time pass a bound of 10, in shared syncs', async () => {
    const b = await bench({ bounds: { messagesMax: 10 } })
    const syncsBefore = b.store.syncs
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8(`${i}`), kind: 'opaque' })
      )
    )
    expect(answers.filter((answer) => answer.status === 'queued')).toHaveLength(10)
    expect(await b.queue.list(bob.eidHex)).toHaveLength(10)
    expect(b.store.syncs - syncsBefore).toBeLessThan(10)
  })

  it('[OD-48] says full only of what is stored: a place whose write failed goes to the next', async () => {
    const b = await bench({ bounds: { messagesMax: 1 } })
    let failures = 1
    b.level.fault = () => (failures-- > 0 ? diskFull() : undefined)
    const answers = await Promise.allSettled([put(b, 'first'), put(b, 'second')])
    expect(answers.map((answer) => (answer.status === 'fulfilled' ? answer.value.status : 'failed')).sort()).toEqual(['failed', 'queued'])
    expect(await b.queue.list(bob.eidHex)).toHaveLength(1)
  })

  it('[OD-22] [OD-48] fails with STORE_WRITE_FAILED on a full disk, counts nothing, and takes messages again once there is room', async () => {
    const b = await bench()
    b.level.fault = diskFull
    await expect(put(b, 'm')).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED', kind: 'storage' })
    expect(await b.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
    b.level.fault = undefined
    expect(await put(b, 'm')).toMatchObject({ status: 'queued', again: false })
  })

  it('[OD-48] [OD-22] keeps answers true of the disk through random failures, sizes, peers and times', async () => {
    const arbStep = fc.record({
      kind: fc.constantFrom(
        'put' as const,
        'put' as const,
        'put' as const,
        'pair' as const,
        'time' as const,
        'restart' as const,
        'drop' as const
      ),
      id: fc.nat(5),
      size: fc.integer({ min: 1, max: 40 }),
      peer: fc.constantFrom('eid:a', 'eid:b'),
      fails: fc.boolean(),
      ttlMs: fc.integer({ min: 1, max: 3_000 })
    })
    await fc.assert(
      fc.asyncProperty(fc.array(arbStep, { maxLength: 30 }), async (steps) => {
        let b = await bench({ bounds: { messagesMax: 6, bytesMax: 120, messagesPerPeerMax: 4 } })
        const onDisk = async () => new Set((await (await b.restart()).queue.list(bob.eidHex)).map((record) => toHex(record.object)))
        for (const step of steps) {
          b.level.fault = step.fails ? diskFull : undefined
          const one = (id: number) =>
            b.queue.enqueue({
              audience: bob.eidHex,
              principal: step.peer,
              object: new Uint8Array(step.size).fill(id + 1),
              kind: 'opaque',
              ttlMs: step.ttlMs
            })
          if (step.kind === 'time') b.clock.advance(step.ttlMs)
          else if (step.kind === 'restart') {
            b.level.fault = undefined
            b = await b.restart()
          } else if (step.kind === 'drop') {
            const [record] = await b.queue.list(bob.eidHex, { limit: 1 })
            if (record !== undefined)
              await b.queue.drop(bob.eidHex, record.key).catch((error) => expect(error).toBeInstanceOf(RookeryError))
          } else {
            const ids = step.kind === 'pair' ? [step.id, step.id + 1] : [step.id]
            const before = await b.queue.usage(bob.eidHex)
            const answers = await Promise.allSettled(ids.map(one))
            b.level.fault = undefined
            const disk = await onDisk()
            for (const [i, answer] of answers.entries()) {
              if (answer.status === 'rejected') {
                expect(answer.reason).toMatchObject({ code: 'STORE_WRITE_FAILED' })
                expect(step.fails).toBe(true)
              } else if (answer.value.status === 'queued') {
                expect(disk.has(toHex(new Uint8Array(step.size).fill((ids[i] as number) + 1)))).toBe(true)
              } else {
                expect(refusalOfAnswer(answer.value).reason).not.toBe('asleep')
                if (answer.value.status === 'full' && ids.length === 1) {
                  const { kind } = answer.value
                  if (kind === 'messages') expect(before.messages).toBe(6)
                  if (kind === 'bytes') expect(before.bytes + step.size).toBeGreaterThan(120)
                }
              }
            }
          }
          b.level.fault = undefined
          const records = await b.queue.list(bob.eidHex)
          expect(await b.queue.usage(bob.eidHex)).toMatchObject({
            messages: records.length,
            bytes: records.reduce((sum, record) => sum + record.object.length, 0)
          })
          expect(records.length).toBeLessThanOrEqual(6)
        }
      }),
      { numRuns: 60 }
    )
  })

  it('[OD-41] finds every record again after a restart, in order of arrival, even if the clock stepped back', async () => {
    const b = await bench()
    for (let i = 0; i < 5; i++) {
      await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8(`${i}`), kind: 'opaque' })
      b.clock.jumpWall(-5_000)
    }
    const restarted = await b.restart()
    expect((await restarted.queue.list(bob.eidHex)).map((record) => Number(new TextDecoder().decode(record.object)))).toEqual([
      0, 1, 2, 3, 4
    ])
    await restarted.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8('5'), kind: 'opaque' })
    expect((await restarted.queue.list(bob.eidHex)).at(-1)?.object).toEqual(utf8('5'))
  })

  it('[OD-30] publishes the bounds that apply and fills to them and no further', async () => {
    const b = await bench({ bounds: { messagesMax: 3 } })
    const { bounds } = await b.queue.usage(bob.eidHex)
    for (let i = 0; i < bounds.messagesMax; i++) expect((await put(b, `${i}`)).status).toBe('queued')
    expect(kinds([await put(b, 'over')])).toEqual(['messages'])
    b.bounds.messagesMax = 4
    expect((await b.queue.usage(bob.eidHex)).bounds.messagesMax).toBe(4)
    expect((await put(b, 'over')).status).toBe('queued')
    expect(QUEUE_BOUNDS_DEFAULT.messagesMax).toBe(500)
  })

  it('[OD-23] holds random bytes without any decryption', async () => {
    const b = await bench()
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 100 }), async (object) => {
        const answer = await b.queue.enqueue({ audience: bob.eidHex, principal: toHex(crypto.sha256(object)), object, kind: 'opaque' })
        expect(answer.status).toBe('queued')
      }),
      { numRuns: 30 }
    )
  })

  it('[G-12] [G-08] lets nobody take a name that is not theirs: forged, foreign or malformed objects are refused before they count', async () => {
    const b = await bench()
    const good = await seal(alice, bob, b.clock.nowMs())
    const forged = good.slice()
    forged[forged.length - 1] = (forged.at(-1) as number) ^ 1
    const enqueue = (object: Uint8Array) => b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:mallory', object })
    await expect(enqueue(forged)).rejects.toMatchObject({ code: 'SIGNATURE_INVALID' })
    await expect(enqueue(await seal(alice, carol, b.clock.nowMs()))).rejects.toMatchObject({ code: 'OBJECT_AUDIENCE' })
    await expect(enqueue(utf8('nothing'))).rejects.toMatchObject({ name: 'ProtocolError' })
    await expect(enqueue(await seal(alice, bob, b.clock.nowMs() + 90_000))).rejects.toMatchObject({ code: 'OBJECT_FUTURE' })
    expect(await b.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
    expect(await enqueue(good)).toMatchObject({ status: 'queued', again: false })
  })

  it('[F041] keeps odd principals and neighbouring audiences apart, and lists one audience alone', async () => {
    const b = await bench({ bounds: { messagesPerPeerMax: 1 } })
    const principals = ['a', 'a/b', 'a!', 'queue', '__proto__', 'constructor', 'é\u0000ü', 'x'.repeat(200)]
    const audiences = ['00', '01', 'ff'].map((byte) => asEidHex(byte.repeat(32)))
    for (const audience of audiences) {
      for (const principal of principals) {
        const object = utf8(`${audience} ${principal}`)
        expect((await b.queue.enqueue({ audience, principal, object, kind: 'opaque' })).status).toBe('queued')
        expect(await b.queue.enqueue({ audience, principal, object: utf8(`more ${principal}`), kind: 'opaque' })).toEqual({
          status: 'full',
          kind: 'peer'
        })
      }
    }
    const restarted = await b.restart()
    for (const audience of audiences) {
      const records = await restarted.queue.list(audience)
      expect(records.map((record) => record.principal)).toEqual(principals)
      expect(records.every((record) => record.audience === audience)).toBe(true)
    }
    for (const audience of ['', 'a', `${audiences[0]}/`, 'FF'.repeat(32), '__proto__']) {
      await expect(b.queue.list(asEidHex(audience))).rejects.toThrow(TypeError)
    }
  })

  it('[F064] sets damaged rows aside, keeps at most 64 of them, and still hands out all others', async () => {
    const b = await bench({ bounds: { messagesPerPeerMax: 1_000 } })
    for (let i = 0; i < 100; i++)
      await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8(`blob ${i}`), kind: 'opaque' })
    const rows = b.store.table('asleep-queue', bytesCodec)
    const keys: string[] = []
    for await (const key of rows.keys()) keys.push(key)
    for (const [i, key] of keys.slice(0, 70).entries()) {
      const row = (await rows.get(key)) as Uint8Array
      const damaged =
        i % 3 === 0
          ? new Uint8Array(row.length)
          : i % 3 === 1
            ? row.subarray(0, row.length >> 1)
            : row.map((byte, at) => (at === 20 ? byte ^ 1 : byte))
      await b.store.commit([rows.put(key, damaged)])
    }
    await b.store.commit([rows.put('garbage', utf8('row'))])
    const restarted = await b.restart()
    expect(restarted.queue.damaged).toBe(71)
    expect(await restarted.queue.list(bob.eidHex)).toHaveLength(30)
    expect((await restarted.queue.usage(bob.eidHex)).messages).toBe(30)
    let kept = 0
    for await (const _ of restarted.store.table('asleep-damaged', bytesCodec).keys()) kept++
    expect(kept).toBe(64)
    expect((await restarted.restart()).queue.damaged).toBe(0)
  })

  it('[F064] puts rows that were set aside back once they can be read, within the bounds, and counts them', async () => {
    const b = await bench({ bounds: { messagesMax: 2 } })
    const audience = bob.eidHex
    const enqueue = (object: Uint8Array) => b.queue.enqueue({ audience, principal: 'eid:a', object, kind: 'opaque' })
    await enqueue(Uint8Array.of(1))
    const rows = b.store.table('asleep-queue', bytesCodec)
    const aside = b.store.table('asleep-damaged', bytesCodec)
    const [key, row] = (await Array.fromAsync(rows.entries()))[0] as [string, Uint8Array]
    await b.store.commit([
      rows.put(
        key,
        row.map((byte) => byte ^ 1)
      )
    ])
    const again = await b.restart()
    expect([again.queue.damaged, (await again.queue.usage(audience)).messages]).toEqual([1, 0])
    expect(await again.queue.restore(audience)).toBe(0)
    await again.store.commit([aside.put(key, row)])
    expect(await again.queue.restore(audience)).toBe(1)
    expect((await again.queue.list(audience)).map((record) => record.key)).toEqual([key])
    expect((await again.queue.usage(audience)).messages).toBe(1)
    expect(await again.queue.restore(audience)).toBe(0)
    await again.store.commit([aside.put(key, row)])
    expect(await again.queue.restore(audience)).toBe(0)
  })

  it('[F064] notices a row that turned bad while running, and releases what it counted', async () => {
    const b = await bench()
    const first = await put(b, '1')
    await put(b, '2')
    if (first.status !== 'queued') throw new Error('not queued')
    const rows = b.store.table('asleep-queue', bytesCodec)
    await b.store.commit([rows.put(first.record.key, utf8('torn'))])
    expect(await b.queue.list(bob.eidHex)).toHaveLength(1)
    expect(b.queue.damaged).toBe(1)
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(1)
  })

  it('[OD-30] drops one record by its key and no other, and not for another audience', async () => {
    const b = await bench()
    const one = await put(b, '1')
    await put(b, '2')
    if (one.status !== 'queued') throw new Error('not queued')
    expect(await b.queue.drop(carol.eidHex, one.record.key)).toBe(false)
    expect(await b.queue.drop(bob.eidHex, `${bob.eidHex}/${'0'.repeat(14)}`)).toBe(false)
    expect(await b.queue.drop(bob.eidHex, one.record.key)).toBe(true)
    expect(await b.queue.drop(bob.eidHex, one.record.key)).toBe(false)
    expect(await b.queue.list(bob.eidHex)).toHaveLength(1)
  })
})
