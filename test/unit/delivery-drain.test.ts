import { describe, expect, it } from 'vitest'
import { concat, utf8 } from '../../protocol/bytes.ts'
import { decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import { reachabilityAt } from '../../protocol/delivery/reachability.ts'
import type { DrainEvent } from '../../src/delivery/asleep-queue.ts'
import { DRAIN_BATCH_MAX } from '../../src/delivery/drain.ts'
import { RookeryError } from '../../src/errors.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { SETTLE_MS } from '../../src/platform/settled-time.ts'
import { bytesCodec } from '../../src/store/store.ts'
import { bench, crypto, diskFull, localAgent, principalOf, type SealOptions, seal } from './delivery-fixtures.ts'

const HOUR_MS = 3_600_000
type Bench = Awaited<ReturnType<typeof bench>>
const alice = localAgent('alice')
const bob = localAgent('bob')

async function put(b: Bench, messageId: string, options: SealOptions = {}, to: LocalAgent = bob): Promise<Uint8Array> {
  const object = await seal(alice, to, b.clock.nowMs(), { messageId, ...options })
  expect((await b.queue.enqueue({ audience: to.eidHex, principal: principalOf(alice), object })).status).toBe('queued')
  return object
}

const again = (b: Bench, object: Uint8Array) => b.queue.enqueue({ audience: bob.eidHex, principal: principalOf(alice), object })
const ids = (b: Bench) => b.todos.messages().map((message) => message.messageId)
const outcomes = (events: DrainEvent[]) => events.map(({ outcome, reason }) => (reason === undefined ? outcome : `${outcome} ${reason}`))

/** Changes a queued row as someone with the disk in hand could: with a checksum that fits. */
async function rewrite(b: Bench, change: (row: Record<string, unknown>) => void): Promise<void> {
  const rows = b.store.table('asleep-queue', bytesCodec)
  for await (const [key, row] of rows.entries()) {
    const members = decodeCbor(row.subarray(8)) as Record<string, never>
    change(members)
    const body = encodeCbor(members)
    await b.store.commit([rows.put(key, concat([crypto.sha256(body).subarray(0, 8), body]))])
  }
}

describe('the drain', () => {
  it('[OD-40] hands over what waited, in order of arrival, as Todos that wait for approval', async () => {
    const b = await bench()
    for (const id of ['m-1', 'm-2', 'm-3']) await put(b, id)
    const report = await b.drain.drain(bob)
    expect(report).toMatchObject({ accepted: 3, discarded: 0, waiting: 0 })
    expect(ids(b)).toEqual(['m-1', 'm-2', 'm-3'])
    for (const created of b.todos.created) {
      expect(created).toMatchObject({
        agent: bob.eidHex,
        door: 'asleep-queue',
        approval: 'needed',
        caller: { id: principalOf(alice), eid: alice.eidHex }
      })
    }
    expect(await b.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
  })

  it('leaves nothing behind that came after its last look, where a drain was asked for meanwhile', async () => {
    const b = await bench()
    await put(b, 'm-1')
    const records = b.queue.records.bind(b.queue)
    let late = 0
    b.queue.records = async function* (audience, options) {
      let seen = 0
      for await (const record of records(audience, options)) {
        seen++
        yield record
      }
      if (seen > 0 || late++ > 0) return
      await put(b, 'm-2')
      void b.drain.drain(bob)
    }
    expect(await b.drain.drain(bob)).toMatchObject({ accepted: 2 })
    expect(ids(b)).toEqual(['m-1', 'm-2'])
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(0)
  })

  it('[OD-40] needs no approval only where the policy says that nothing consequential can follow', async () => {
    const b = await bench({ approvalFor: (agent, message) => (agent === bob && message.messageId === 'harmless' ? 'none' : 'needed') })
    await put(b, 'harmless')
    await put(b, 'harmful')
    await b.drain.drain(bob)
    expect(b.todos.created.map((created) => created.approval)).toEqual([undefined, 'needed'])
  })

  it('[OD-03] [OD-33] discards a record altered on disk, whatever its checksum says, and nothing of it reaches the Todo store', async () => {
    const b = await bench()
    await put(b, 'm-1')
    await rewrite(b, (row) => {
      const object = (row.object as Uint8Array).slice()
      object[object.length - 70] = (object[object.length - 70] as number) ^ 1
      row.object = object
    })
    const report = await (await b.restart()).drain.drain(bob)
    expect(outcomes(report.events)).toEqual(['invalid SIGNATURE_INVALID'])
    expect(await b.todos.count()).toBe(0)
    expect(await b.queue.list(bob.eidHex)).toHaveLength(0)
  })

  it('[OD-33] discards an object put under another audience on disk', async () => {
    const b = await bench()
    const carol = localAgent('carol')
    const object = await seal(alice, carol, b.clock.nowMs())
    await put(b, 'm-1')
    await rewrite(b, (row) => {
      row.object = object
    })
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['invalid OBJECT_AUDIENCE'])
  })

  it('[OD-34] does not act on a purpose that was allowed at enqueue and withdrawn before the wake', async () => {
    let allowed = true
    const b = await bench({ allowsPurpose: () => allowed })
    await put(b, 'm-1')
    allowed = false
    const report = await b.drain.drain(bob)
    expect(outcomes(report.events)).toEqual(['invalid OBJECT_PURPOSE'])
    expect(await b.todos.count()).toBe(0)
  })

  it('[OD-35] discards what was valid at enqueue and has ended at the wake', async () => {
    const b = await bench()
    await put(b, 'short', { lifeMs: 60_000 })
    await put(b, 'long', { lifeMs: HOUR_MS })
    b.clock.advance(60_000)
    const report = await b.drain.drain(bob)
    expect(outcomes(report.events)).toEqual(['expired OBJECT_EXPIRED', 'accepted'])
    expect(ids(b)).toEqual(['long'])
  })

  it('[OD-35] [G-10] neither hands over nor throws away what has ended only by a clock that has just jumped ahead', async () => {
    const b = await bench()
    await put(b, 'short', { lifeMs: HOUR_MS })
    b.clock.jumpWall(2 * HOUR_MS)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['waits OBJECT_EXPIRED'])
    expect(await b.queue.sweep()).toBe(0)
    b.clock.jumpWall(-2 * HOUR_MS)
    await b.clockGuard.trust()
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['accepted'])
    await put(b, 'late', { lifeMs: HOUR_MS })
    b.clock.jumpWall(2 * HOUR_MS)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['waits OBJECT_EXPIRED'])
    b.clock.advance(SETTLE_MS)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['expired OBJECT_EXPIRED'])
  })

  it('[OD-35] goes by the object’s own end even where the row on disk claims a later one', async () => {
    const b = await bench()
    await put(b, 'short', { lifeMs: 60_000 })
    await rewrite(b, (row) => {
      row.exp = b.clock.nowMs() + HOUR_MS
    })
    const restarted = await b.restart()
    b.clock.advance(60_000)
    expect(outcomes((await restarted.drain.drain(bob)).events)).toEqual(['expired OBJECT_EXPIRED'])
    expect(await restarted.todos.count()).toBe(0)
  })

  it('[OD-36] [OD-42] drops an object that had its effect, in the same life and after a restart', async () => {
    const b = await bench()
    const object = await put(b, 'm-1')
    expect((await b.drain.drain(bob)).accepted).toBe(1)
    await again(b, object)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['replayed OBJECT_REPLAYED'])
    const restarted = await b.restart()
    await again(restarted, object)
    expect(outcomes((await restarted.drain.drain(bob)).events)).toEqual(['replayed OBJECT_REPLAYED'])
    expect(await restarted.todos.count()).toBe(1)
    expect(await restarted.queue.list(bob.eidHex)).toHaveLength(0)
  })

  it('[OD-42] makes one Todo of a message that came live before its queued copy, and remembers the copy', async () => {
    const b = await bench()
    await b.todos.create({
      agent: bob.eidHex,
      caller: { id: principalOf(alice), eid: alice.eidHex },
      message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hello' }] },
      door: 'a2a-pss'
    })
    const object = await put(b, 'm-1')
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['replayed TODO_EXISTS'])
    expect(await b.todos.count()).toBe(1)
    await again(b, object)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['replayed OBJECT_REPLAYED'])
  })

  it('[OD-37] hands over the good record behind a bad head in the same drain', async () => {
    const b = await bench()
    await put(b, 'bad json', { plaintext: utf8('{') })
    await put(b, 'bad method', { plaintext: utf8('{"method":"CancelTask","params":{"message":{}}}') })
    await put(b, 'bad message', {
      plaintext: utf8('{"method":"SendMessage","params":{"message":{"messageId":"x","role":"ROLE_AGENT","parts":[{}]}}}')
    })
    await put(b, 'bad text', { plaintext: Uint8Array.of(0xff, 0xfe) })
    await put(b, 'good')
    const report = await b.drain.drain(bob)
    expect(outcomes(report.events)).toEqual([
      'invalid FIELD_INVALID',
      'invalid FIELD_INVALID',
      'invalid FIELD_INVALID',
      'invalid UTF8_INVALID',
      'accepted'
    ])
    expect(ids(b)).toEqual(['good'])
  })

  it('[OD-37] [G-08] discards what no mailbox key opens any more', async () => {
    const b = await bench()
    await put(b, 'm-1')
    const later: LocalAgent = { ...bob, mailboxSecret: () => undefined }
    expect(outcomes((await b.drain.drain(later)).events)).toEqual(['invalid OBJECT_KEY'])
  })

  it('[OD-37] discards what the Todo store finds wrong with a message, but keeps what only a limit of ours stopped', async () => {
    const b = await bench()
    await put(b, 'm-1')
    await put(b, 'm-2')
    b.todos.refusal = () => new RookeryError('TODO_LIMIT', 'full', { kind: 'refused' })
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['waits TODO_LIMIT', 'waits TODO_LIMIT'])
    b.todos.refusal = () => new RookeryError('TODO_UNKNOWN', 'no task', { kind: 'notFound' })
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['invalid TODO_UNKNOWN', 'invalid TODO_UNKNOWN'])
    expect(await b.queue.list(bob.eidHex)).toHaveLength(0)
  })

  it('[OD-38] [OD-39] lets opaque blobs and unknown purposes wait, counted and ending, while messages behind them pass', async () => {
    const b = await bench({ bounds: { messagesMax: 4 } })
    await b.queue.enqueue({ audience: bob.eidHex, principal: 'eid:aa', object: utf8('blob'), kind: 'opaque', ttlMs: HOUR_MS })
    await put(b, 'unknown', { purpose: 'frames:later', lifeMs: HOUR_MS })
    await put(b, 'm-1')
    const report = await b.drain.drain(bob)
    expect(outcomes(report.events)).toEqual(['waits', 'waits OBJECT_PURPOSE', 'accepted'])
    expect(report).toMatchObject({ accepted: 1, waiting: 2 })
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(2)
    await put(b, 'm-2')
    await put(b, 'm-3')
    expect(await again(b, await seal(alice, bob, b.clock.nowMs(), { messageId: 'm-4' }))).toEqual({ status: 'full', kind: 'messages' })
    b.clock.advance(HOUR_MS)
    expect(await b.queue.sweep()).toBe(4)
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(0)
  })

  it('[OD-43] [G-15] writes removal, replay name and Todo in one batch: a crash at any write yields one Todo or a record to try again', async () => {
    for (let failAt = 0; failAt < 6; failAt++) {
      const b = await bench()
      const object = await put(b, 'm-1')
      b.clock.advance(20_000)
      let writes = 0
      b.level.fault = () => (writes++ === failAt ? diskFull() : undefined)
      await b.drain.drain(bob).catch((error) => expect(error).toMatchObject({ code: 'STORE_WRITE_FAILED' }))
      b.level.fault = undefined
      const restarted = await b.restart()
      const queued = (await restarted.queue.list(bob.eidHex)).length
      expect(queued + (await restarted.todos.count())).toBe(1)
      expect(restarted.replay.size).toBe(1 - queued)
      await restarted.drain.drain(bob)
      await again(restarted, object)
      await restarted.drain.drain(bob)
      expect(await restarted.todos.count()).toBe(1)
      expect((await restarted.queue.usage(bob.eidHex)).messages).toBe(0)
    }
  })

  it('[OD-43] goes on in the same life after a failed commit, with the counters still true', async () => {
    const b = await bench()
    await put(b, 'm-1')
    b.level.fault = diskFull
    await expect(b.drain.drain(bob)).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    b.level.fault = undefined
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(1)
    expect((await b.drain.drain(bob)).accepted).toBe(1)
    expect(b.replay.size).toBe(1)
  })

  it('[G-10] holds the drain while the clock reads earlier than the highest time on disk, says so, and goes on when it is right', async () => {
    const b = await bench()
    await put(b, 'm-1', { lifeMs: 5 * HOUR_MS })
    b.clock.advance(HOUR_MS)
    await b.clockGuard.persist()
    b.clock.jumpWall(-HOUR_MS)
    const restarted = await b.restart()
    const held = await restarted.drain.drain(bob)
    expect(held.held).toMatch(/3600 s before the highest time on disk/)
    expect(held).toMatchObject({ accepted: 0, events: [] })
    expect(await restarted.queue.list(bob.eidHex)).toHaveLength(1)
    b.clock.jumpWall(HOUR_MS - 60_000)
    expect((await restarted.drain.drain(bob)).accepted).toBe(1)
  })

  it('[G-10] revives nothing that had ended when the clock fell back', async () => {
    const b = await bench()
    await put(b, 'm-1', { lifeMs: HOUR_MS })
    b.clock.advance(2 * HOUR_MS)
    await b.clockGuard.persist()
    b.clock.jumpWall(-2 * HOUR_MS)
    expect((await (await b.restart()).drain.drain(bob)).held).toBeDefined()
    expect(await b.todos.count()).toBe(0)
  })

  it('[G-10] takes the owner’s word for the clock', async () => {
    const b = await bench()
    b.clock.jumpWall(1_000 * HOUR_MS)
    await b.clockGuard.persist()
    b.clock.jumpWall(-1_000 * HOUR_MS)
    const restarted = await b.restart()
    await put(restarted, 'm-1')
    expect((await restarted.drain.drain(bob)).held).toBeDefined()
    await restarted.clockGuard.trust()
    expect((await restarted.drain.drain(bob)).accepted).toBe(1)
    expect((await (await restarted.restart()).drain.drain(bob)).held).toBeUndefined()
  })

  it('[G-10] lets an object wait that a small step back of our own clock put into the future', async () => {
    const b = await bench()
    await put(b, 'm-1', { issuedAtMs: b.clock.nowMs() + 59_000 })
    b.clock.jumpWall(-30_000)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['waits OBJECT_FUTURE'])
    b.clock.jumpWall(30_000)
    expect((await b.drain.drain(bob)).accepted).toBe(1)
  })

  it('[G-11] lets new objects wait at the replay cache’s bound, and takes them once old names ended', async () => {
    const b = await bench({ namesMax: 2 })
    for (const id of ['m-1', 'm-2', 'm-3']) await put(b, id, { lifeMs: id === 'm-3' ? 5 * HOUR_MS : HOUR_MS })
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['accepted', 'accepted', 'waits REPLAY_CACHE_FULL'])
    b.clock.advance(HOUR_MS + 61_000)
    expect(outcomes((await b.drain.drain(bob)).events)).toEqual(['accepted'])
    expect(b.replay.size).toBe(1)
  })

  it('[OD-49] spreads a full queue over time at its rate instead of letting it fall on the agent at once', async () => {
    const b = await bench({ perSecMax: 10, bounds: { messagesPerPeerMax: 100 } })
    for (let i = 0; i < 25; i++) await put(b, `m-${i}`)
    const at: number[] = []
    const startMs = b.clock.monotonicMs()
    let done = false
    const drained = b.drain.drain(bob, { onEvent: () => at.push(b.clock.monotonicMs() - startMs) }).finally(() => {
      done = true
    })
    while (!done) {
      await new Promise((resolve) => setImmediate(resolve))
      b.clock.advance(10)
    }
    expect((await drained).accepted).toBe(25)
    for (const start of at) expect(at.filter((time) => time >= start && time < start + 900).length).toBeLessThanOrEqual(20)
    expect(at[24] as number).toBeGreaterThanOrEqual(1_900)
  })

  it('[OD-37] joins a drain that is under way, stops between two records when asked, and goes on later', async () => {
    const b = await bench()
    for (const id of ['m-1', 'm-2', 'm-3']) await put(b, id)
    expect(b.drain.drain(bob)).toBe(b.drain.drain(bob))
    await b.drain.drain(bob)
    const more = Array.from({ length: DRAIN_BATCH_MAX + 1 }, (_, i) => `m-${i + 4}`)
    for (const id of more) await put(b, id)
    const stop = new AbortController()
    await expect(b.drain.drain(bob, { signal: stop.signal, onEvent: () => stop.abort(new Error('enough')) })).rejects.toThrow('enough')
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(1)
    await b.drain.drain(bob)
    expect(ids(b)).toEqual(['m-1', 'm-2', 'm-3', ...more])
  })

  it('[G-15] moves several records with one sync, each whole or not at all and in order, discards among them', async () => {
    const b = await bench()
    const order = Array.from({ length: DRAIN_BATCH_MAX }, (_, i) => `m-${i}`)
    for (const id of order) await put(b, id)
    const bad = await put(b, 'bad', { lifeMs: 1_000 })
    expect(bad.length).toBeGreaterThan(0)
    b.clock.advance(1_000)
    await b.clockGuard.persist()
    const all = Promise.withResolvers<void>()
    b.todos.onIssued = (count) => {
      if (count === DRAIN_BATCH_MAX) all.resolve()
    }
    b.level.gate = all.promise
    const before = b.store.syncs
    expect(await b.drain.drain(bob)).toMatchObject({ accepted: DRAIN_BATCH_MAX, discarded: 1 })
    expect(b.store.syncs - before).toBeLessThanOrEqual(4)
    expect(ids(b)).toEqual(order)
    expect(b.replay.size).toBe(DRAIN_BATCH_MAX)
  })

  it('[OD-43] [G-15] loses nothing and doubles nothing when the disk fails in the middle of many', async () => {
    for (const at of [1, 2, 3]) {
      const b = await bench()
      const order = Array.from({ length: 20 }, (_, i) => `m-${i}`)
      for (const id of order) await put(b, id)
      let writes = 0
      b.level.fault = () => (++writes >= at ? diskFull() : undefined)
      await expect(b.drain.drain(bob)).rejects.toMatchObject({ kind: 'storage' })
      b.level.fault = undefined
      b.clock.advance(60_000)
      const again = await b.restart()
      const first = await again.todos.count()
      expect(first + (await again.queue.usage(bob.eidHex)).messages).toBe(order.length)
      await again.drain.drain(bob)
      expect([...b.todos.messages(), ...again.todos.messages()].map(({ messageId }) => messageId)).toEqual(order)
      expect((await again.queue.usage(bob.eidHex)).messages).toBe(0)
    }
  })

  it('[OD-37] takes along what arrives during the drain', async () => {
    const b = await bench()
    await put(b, 'm-1')
    let late: Promise<unknown> | undefined
    const report = await b.drain.drain(bob, {
      onEvent: () => {
        late ??= put(b, 'm-2')
      }
    })
    await late
    const rest = await b.drain.drain(bob)
    expect(report.accepted + rest.accepted).toBe(2)
    expect(ids(b)).toEqual(['m-1', 'm-2'])
  })

  it('[OD-05] [OD-06] [OD-07] [OD-10] queues for the modes that keep, never for the others, and makes no Todo while asleep', async () => {
    const b = await bench()
    const at = (mode: 'always_on' | 'session' | 'sleep', attached: boolean) =>
      reachabilityAt({ mode }, { nowMs: b.clock.nowMs(), attached })
    expect([at('always_on', false).state, at('session', true).state]).toEqual(['accepts', 'accepts'])
    for (const answer of [at('session', false), at('sleep', true)]) {
      if (answer.state !== 'asleep') throw new Error('should be asleep')
      if (answer.queues) await put(b, 'm-1')
    }
    expect((await b.queue.usage(bob.eidHex)).messages).toBe(1)
    expect(b.todos.created).toHaveLength(0)
  })
})
