import { afterEach, describe, expect, it } from 'vitest'
import { type OutboxState, outboxStateText, RETRY_LAST_MS } from '../../protocol/delivery/outbox-state.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { OUTBOX_ENDED_KEPT_MS, Outbox, type OutboxBounds, type OutboxEntry } from '../../src/delivery/outbox.ts'
import { type Attempted, LANES_AT_ONCE, OutboxRunner, SEEN_AGAIN_MS } from '../../src/delivery/outbox-runner.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { bytesCodec, Store } from '../../src/store/store.ts'
import { crypto, diskFull, FaultyLevel, localAgent } from './delivery-fixtures.ts'

const ALICE = localAgent('alice').eidHex
const BOB = localAgent('bob').eidHex
const CAROL = localAgent('carol').eidHex
const DAY_MS = 86_400_000

async function open(bounds: Partial<OutboxBounds> = {}, level = new FaultyLevel(), clock = new ManualClock()) {
  const store = new Store(level)
  const outbox = await Outbox.open({ store, crypto, clock }, bounds)
  const add = async (messageId: string, to = BOB, text = 'hello', ttlMs?: number) =>
    (await outbox.add({ from: ALICE, to, message: { messageId, role: 'ROLE_USER', parts: [{ text }] }, ttlMs })).entry
  const states = () => outbox.list().map(({ messageId, state }) => `${messageId} ${outboxStateText(state)}`)
  return { outbox, store, clock, level, add, states, restart: () => open(bounds, level, clock) }
}

describe('the outbox', () => {
  it('[OD-41] [OD-22] has on disk what it says it has: order, states, receipts and the audience’s word after a restart, and nothing when the write failed', async () => {
    const t = await open()
    const one = await t.add('1')
    await t.add('2')
    t.level.fault = diskFull
    await expect(t.add('3')).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    t.level.fault = undefined
    await t.outbox.learn(one.id, { name: 'kept', by: 1 }, { receipts: [{ keeper: CAROL, receipt: new Uint8Array([1]) }] })
    await t.outbox.learn(one.id, { name: 'delivered' }, { confirmation: new Uint8Array([2]), task: 'task-1' })
    const again = await t.restart()
    expect(again.states()).toEqual(['1 delivered', '2 queued-here'])
    expect(again.outbox.get(one.id)).toEqual(t.outbox.get(one.id))
    expect(await again.outbox.evidence(one)).toEqual({
      receipts: [{ keeper: CAROL, receipt: new Uint8Array([1]) }],
      confirmation: new Uint8Array([2])
    })
    expect((await again.outbox.message(one)).parts).toEqual([{ text: 'hello' }])
  })

  it('[F065] starts over a row that it cannot read, tells so, and delivers the others', async () => {
    const t = await open()
    const bad = await t.add('1')
    await t.add('2')
    await t.store.commit([t.store.table('outbox', bytesCodec).put(bad.key, Uint8Array.of(0xff))])
    const again = await t.restart()
    expect(again.states()).toEqual(['2 queued-here'])
    expect(again.outbox.usage()).toMatchObject({ messages: 1, damaged: 1 })
    await again.add('3')
    expect(again.states()).toEqual(['2 queued-here', '3 queued-here'])
  })

  it('[G-02] takes the same message once, and other content under its id never', async () => {
    const t = await open()
    const first = await t.add('1')
    expect(await t.add('1')).toEqual(first)
    await expect(t.add('1', BOB, 'other')).rejects.toMatchObject({ code: 'MESSAGE_ID_REUSED', field: 'messageId' })
    expect((await t.add('1', CAROL)).id).not.toBe(first.id)
    expect(t.outbox.usage().messages).toBe(2)
  })

  it('[OD-24] refuses above its bounds by name, also all at once, and makes room only from what has ended', async () => {
    const t = await open({ messagesMax: 3, messagesPerAudienceMax: 2 })
    const many = await Promise.allSettled(['1', '2', '3', '4'].map((id) => t.add(id)))
    expect(many.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected'])
    await expect(t.add('5')).rejects.toMatchObject({ code: 'OUTBOX_FULL', data: { kind: 'audience' } })
    await t.add('6', CAROL)
    await expect(t.add('7', ALICE)).rejects.toMatchObject({ code: 'OUTBOX_FULL', data: { kind: 'messages' } })
    await t.outbox.learn((t.outbox.list()[0] as OutboxEntry).id, { name: 'handled' })
    await t.add('7', ALICE)
    expect(t.states()).toEqual(['2 queued-here', '6 queued-here', '7 queued-here'])
    const small = await open({ bytesMax: 200 })
    await small.add('1')
    await expect(small.add('2', CAROL, 'x'.repeat(200))).rejects.toMatchObject({ data: { kind: 'bytes' } })
  })

  it('[G-09] [F088] says expired once its time is out and no copy of it lives any longer, and forgets what ended long ago', async () => {
    const t = await open()
    const [short, kept] = [await t.add('short', BOB, 'x', 60_000), await t.add('kept', BOB, 'x', 60_000)]
    await t.outbox.learn(kept.id, { name: 'kept', by: 1 }, { untilMs: t.clock.nowMs() + 2 * DAY_MS })
    t.clock.advance(60_000)
    await t.outbox.sweep()
    expect(t.states()).toEqual(['short expired', 'kept kept-by-1'])
    await t.outbox.learn(short.id, { name: 'delivered' })
    expect(t.outbox.get(short.id)?.state.name).toBe('expired')
    t.clock.advance(2 * DAY_MS)
    await t.outbox.sweep()
    expect(t.states()).toEqual(['short expired', 'kept expired'])
    t.clock.advance(OUTBOX_ENDED_KEPT_MS)
    await t.outbox.sweep()
    expect((await t.restart()).states()).toEqual([])
  })

  it('[F088] tells its listeners of every change once it is on disk, and of nothing else', async () => {
    const t = await open()
    const heard: string[] = []
    t.outbox.onEvent(({ entry, before }) => heard.push(`${before?.name ?? 'new'} ${outboxStateText(entry.state)}`))
    const { id } = await t.add('1')
    await t.outbox.learn(id, { name: 'kept', by: 1 })
    await t.outbox.learn(id, { name: 'kept', by: 1 })
    t.level.fault = diskFull
    await expect(t.outbox.learn(id, { name: 'delivered' })).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    expect(t.outbox.get(id)?.state.name).toBe('kept')
    t.level.fault = undefined
    await t.outbox.learn(id, { name: 'delivered' })
    expect(heard).toEqual(['new queued-here', 'queued-here kept-by-1', 'kept delivered'])
  })
})

const stops: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

/** A runner whose attempts answer what `answers` says, by messageId; absent: the audience is away. */
async function running() {
  const t = await open()
  const answers = new Map<string, OutboxState>()
  const tried: string[] = []
  let world: 'away' | 'met' = 'away'
  let atOnce = 0
  let most = 0
  const runner = new OutboxRunner({
    outbox: t.outbox,
    clock: t.clock,
    random: seededRandom(3),
    logger: silentLogger,
    rootOf: (hex) => hex,
    attempt: async ({ messageId }, audience): Promise<Attempted> => {
      most = Math.max(most, ++atOnce)
      await Promise.resolve()
      atOnce--
      tried.push(audience === 'away' ? `${messageId} (keepers)` : messageId)
      return { news: answers.get(messageId), audience: world, why: world === 'away' ? 'AGENT_UNREACHABLE' : undefined }
    }
  })
  stops.push(() => runner.stop())
  const round = (to: EidHex = BOB) => runner.kick(ALICE, to)
  return { ...t, answers, tried, runner, round, world: (now: 'away' | 'met') => (world = now), most: () => most }
}

describe('delivery of what the outbox holds', () => {
  it('lets nothing overtake what is neither delivered nor kept', async () => {
    const t = await running()
    for (const id of ['1', '2', '3']) await t.add(id)
    await t.round()
    expect(t.tried).toEqual(['1'])
    t.tried.length = 0
    for (const id of ['1', '2', '3']) t.answers.set(id, { name: 'kept', by: 1 })
    await t.round()
    expect(t.tried).toEqual(['1', '2 (keepers)', '3 (keepers)'])
    expect(t.states()).toEqual(['1 kept-by-1', '2 kept-by-1', '3 kept-by-1'])
    t.tried.length = 0
    t.world('met')
    for (const id of ['1', '2', '3']) t.answers.set(id, { name: 'handled' })
    await t.round()
    expect(t.tried).toEqual(['1', '2', '3'])
    await t.round()
    expect(t.tried).toHaveLength(3)
  })

  it('[F082] waits longer after every failure, and not at all once the peer is seen; a notice about another peer changes nothing', async () => {
    const t = await running()
    const entry = await t.add('1')
    await t.round()
    const waits: number[] = []
    for (let i = 0; i < 12; i++) {
      const { nextAttemptAtMs = 0 } = t.runner.progress(entry)
      waits.push(nextAttemptAtMs - t.clock.nowMs())
      t.clock.advance(waits.at(-1) as number)
      await t.round()
    }
    expect(waits.every((wait, i) => i === 0 || wait >= (waits[i - 1] as number) * 0.74)).toBe(true)
    expect(waits.at(-1)).toBeGreaterThan(RETRY_LAST_MS / 2)
    expect(t.runner.progress(entry)).toMatchObject({ lastError: 'AGENT_UNREACHABLE' })
    const before = t.tried.length
    t.world('met')
    t.answers.set('1', { name: 'delivered' })
    t.runner.seen(CAROL)
    expect(t.tried).toHaveLength(before)
    const delivered = new Promise<void>((resolve) => t.outbox.onEvent(({ entry: { state } }) => state.name === 'delivered' && resolve()))
    t.runner.seen(BOB)
    await delivered
    expect(t.states()).toEqual(['1 delivered'])
  })

  it('[F082] is brought forward by a peer that comes and goes no more than once in its time', async () => {
    const t = await running()
    await t.add('1')
    await t.round()
    const before = t.tried.length
    const comeAndGo = async (times: number) => {
      for (let i = 0; i < times; i++) {
        t.runner.seen(BOB)
        for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
      }
    }
    await comeAndGo(10)
    expect(t.tried.length - before).toBe(1)
    t.clock.advance(SEEN_AGAIN_MS)
    await comeAndGo(10)
    expect(t.tried.length - before).toBe(2)
  })

  it(`[OD-49] tries at most ${LANES_AT_ONCE} audiences at once, and all of them after a start`, async () => {
    const t = await running()
    const audiences = Array.from({ length: 3 * LANES_AT_ONCE }, (_, i) => localAgent(`a${i}`).eidHex)
    for (const to of audiences) await t.add('1', to)
    t.world('met')
    t.answers.set('1', { name: 'handled' })
    const all = new Promise<void>((resolve) => {
      t.outbox.onEvent(() => {
        if (t.outbox.list({ isOpen: true }).length === 0) resolve()
      })
    })
    t.runner.start()
    await all
    expect(t.tried).toHaveLength(audiences.length)
    expect(t.most()).toBeLessThanOrEqual(LANES_AT_ONCE)
  })

  it('[OD-22] learns nothing that it could not write down, and tries again', async () => {
    const t = await running()
    await t.add('1')
    t.world('met')
    t.answers.set('1', { name: 'delivered' })
    t.level.fault = diskFull
    await t.round()
    expect(t.states()).toEqual(['1 queued-here'])
    t.level.fault = undefined
    await t.round()
    expect(t.states()).toEqual(['1 delivered'])
  })
})
