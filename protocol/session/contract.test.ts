import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CONTRACT_GRACE_MS,
  ContractMeter,
  type ContractMeterInit,
  type Flow,
  OWN_PAYLOAD_BYTES_MAX,
  STORED_ENTRIES_MAX
} from './contract.ts'
import { judgeOffer, resumeDifference, SFC_SCOPE_NAMES, type SfcScopeName, scopeBits, scopeNames } from './contract-policy.ts'
import { ITEM_KINDS } from './items.ts'
import { RateBucket, RateWindow } from './rate.ts'
import { SFC_FIELDS, SFC_SCOPE, type SfcBlock } from './sfc.ts'

const ALL_SCOPES = 0x7f
const block: SfcBlock = {
  site: 'any',
  scopes: ALL_SCOPES,
  eseBytesMax: 512,
  messagesPerMinuteMax: 60,
  payloadBytesMax: 1_024,
  sessionSecondsMax: 3_600,
  storedBytesMax: 4_096,
  concurrentTasksMax: 2,
  region: 0
}
const eids = { sent: new Uint8Array(32).fill(1), received: new Uint8Array(32).fill(2) }
const meterOf = (change: Partial<SfcBlock> = {}, init: Partial<ContractMeterInit> = {}) =>
  new ContractMeter({ block: { ...block, ...change }, eids, nowMs: 0, ageMs: 0, start: 'new', ...init })
const item = (kind: number, bytes = 10) => ({ kind, payload: new Uint8Array(bytes) })
const { a2a, mailbox, eseOp, eseView, live, groupOp, rotation, groupKey, snapshotPart } = ITEM_KINDS

const field = (run: () => unknown): string | undefined => {
  try {
    run()
  } catch (error) {
    expect(error).toMatchObject({ name: 'ProtocolError', code: 'CONTRACT' })
    return (error as { field?: string }).field
  }
  return undefined
}

describe('what a contract lets through', () => {
  it.each([
    ['an A2A message', a2a, SFC_SCOPE.SEND_MESSAGES],
    ['a mailbox item', mailbox, SFC_SCOPE.MAILBOX],
    ['an ESE op', eseOp, SFC_SCOPE.WRITE_ESE],
    ['a live item', live, SFC_SCOPE.STREAM],
    ['a group op', groupOp, SFC_SCOPE.WRITE_ESE]
  ])('[SFC-06] [SFC-08] needs its scope for %s, in both directions', (_name, kind, scope) => {
    const own = (flow: Flow) => {
      const payload = new Uint8Array(100)
      payload.set(eids[flow], 20)
      return { kind, payload }
    }
    for (const flow of ['sent', 'received'] as const) {
      expect(meterOf({ scopes: scope }).refusal(flow, own(flow))).toBeUndefined()
      expect(meterOf({ scopes: ALL_SCOPES & ~scope }).refusal(flow, own(flow))).toMatchObject({ code: 'CONTRACT', field: 'sfc.scopes' })
    }
  })

  it('[SFC-06] takes an ESE view under either ESE scope, and a group op that is passed on only under relay', () => {
    for (const scopes of [SFC_SCOPE.READ_ESE, SFC_SCOPE.WRITE_ESE])
      expect(meterOf({ scopes }).refusal('sent', item(eseView))).toBeUndefined()
    expect(meterOf({ scopes: 0 }).refusal('sent', item(eseView))?.field).toBe('sfc.scopes')
    expect(meterOf({ scopes: ALL_SCOPES & ~SFC_SCOPE.RELAY }).refusal('sent', item(groupOp, 100))?.field).toBe('sfc.scopes')
    expect(meterOf().refusal('sent', item(groupOp, 100))).toBeUndefined()
  })

  it('[SFC-08] lets a payload of exactly the limit pass and not one byte more', () => {
    expect(meterOf().refusal('sent', item(a2a, 1_024))).toBeUndefined()
    expect(meterOf().refusal('sent', item(a2a, 1_025))).toMatchObject({ field: 'sfc.payloadBytesMax' })
    expect(field(() => meterOf().received([item(a2a, 1_025)], 0))).toBe('sfc.payloadBytesMax')
  })

  it('[SFC-08] holds each ESE item, and all that is held at once, to the ESE limit', () => {
    expect(meterOf().refusal('sent', item(eseOp, 513))).toMatchObject({ field: 'sfc.eseBytesMax' })
    const meter = meterOf()
    expect(meter.hold('received', 'eseBytes', 500)).toBeUndefined()
    expect(meter.hold('received', 'eseBytes', 13)).toMatchObject({ field: 'sfc.eseBytesMax' })
    expect(meter.hold('sent', 'eseBytes', 512)).toBeUndefined()
    meter.release('received', 'eseBytes', 500)
    expect(meter.hold('received', 'eseBytes', 512)).toBeUndefined()
  })

  it('[SFC-08] counts tasks that run at once, each way', () => {
    const meter = meterOf()
    expect([1, 2, 3].map(() => meter.hold('received', 'concurrentTasks', 1)?.field)).toEqual([
      undefined,
      undefined,
      'sfc.concurrentTasksMax'
    ])
    meter.release('received', 'concurrentTasks', 1)
    expect(meter.hold('received', 'concurrentTasks', 1)).toBeUndefined()
    expect(meter.usage(0).sent.concurrentTasks).toBe(0)
  })

  it('[SFC-08] counts stored bytes until they are let go, the same object once', () => {
    const meter = meterOf()
    const object = (name: string, bytes: number, untilMs: number) => ({ name, bytes, untilMs })
    expect(meter.store('sent', object('a', 4_000, 1_000), 0)).toBeUndefined()
    expect(meter.store('sent', object('a', 4_000, 1_000), 0)).toBeUndefined()
    expect(meter.store('sent', object('b', 97, 1_000), 999)).toMatchObject({ field: 'sfc.storedBytesMax' })
    expect(meter.store('sent', object('b', 96, 9_000), 999)).toBeUndefined()
    expect(meter.usage(999).sent.storedBytes).toBe(4_096)
    expect(meter.usage(1_000).sent.storedBytes).toBe(96)
    meter.unstore('sent', 'b')
    expect(meter.usage(1_000).sent.storedBytes).toBe(0)
  })

  it('[SFC-08] keeps a bounded list of what is stored, and loses none of its bytes', () => {
    const meter = meterOf({ storedBytesMax: 2 * STORED_ENTRIES_MAX })
    for (let i = 0; i < 2 * STORED_ENTRIES_MAX; i++) {
      expect(meter.store('received', { name: `${i}`, bytes: 1, untilMs: 10 + i }, 0)).toBeUndefined()
    }
    expect(meter.usage(0).received.storedBytes).toBe(2 * STORED_ENTRIES_MAX)
    expect(meter.usage(10 + STORED_ENTRIES_MAX).received.storedBytes).toBe(STORED_ENTRIES_MAX)
    expect(meter.usage(10 + 2 * STORED_ENTRIES_MAX).received.storedBytes).toBe(0)
  })

  it.each([
    ['payloadBytesMax', (meter: ContractMeter) => meter.refusal('sent', item(a2a, 1))],
    ['messagesPerMinuteMax', (meter: ContractMeter) => meter.refusal('sent', item(a2a, 0))],
    ['eseBytesMax', (meter: ContractMeter) => meter.refusal('sent', item(eseOp, 1))],
    ['eseBytesMax', (meter: ContractMeter) => meter.hold('sent', 'eseBytes', 1)],
    ['storedBytesMax', (meter: ContractMeter) => meter.store('sent', { name: 'a', bytes: 1, untilMs: 1 }, 0)],
    ['concurrentTasksMax', (meter: ContractMeter) => meter.hold('sent', 'concurrentTasks', 1)]
  ] as const)('[SFC-06] reads a zero in %s as none of it', (name, run) => {
    expect(run(meterOf({ [name]: 0 }))).toMatchObject({ code: 'CONTRACT', field: `sfc.${name}` })
  })

  it('[SFC-06] reads zero seconds as none: the session is over as it begins', () => {
    const meter = meterOf({ sessionSecondsMax: 0 }, { nowMs: 5_000 })
    expect(meter.expiresAtMs).toBe(5_000)
    expect(meter.usage(5_000).secondsLeft).toBe(0)
  })

  it('[SFC-08] [G-46] counts its seconds from the first handshake, and takes nothing once the goodbye is over too', () => {
    const meter = meterOf({}, { nowMs: 100_000, ageMs: 60_000, start: 'resumed' })
    expect(meter.expiresAtMs).toBe(40_000 + 3_600_000)
    expect(meter.usage(100_000)).toMatchObject({ seconds: 60, secondsLeft: 3_540 })
    expect(field(() => meter.received([item(a2a)], meter.expiresAtMs + CONTRACT_GRACE_MS))).toBeUndefined()
    expect(field(() => meter.received([item(a2a)], meter.expiresAtMs + CONTRACT_GRACE_MS + 1))).toBe('sfc.sessionSecondsMax')
  })

  it("leaves the protocol's own items alone: no contract stands in the way of a rotation", () => {
    const none = meterOf({ scopes: 0, payloadBytesMax: 0, messagesPerMinuteMax: 0, eseBytesMax: 0 })
    for (const own of [
      item(rotation, 400),
      item(groupKey, 52),
      item(snapshotPart, 65_536),
      item(ITEM_KINDS.ping),
      item(ITEM_KINDS.window)
    ]) {
      expect(none.refusal('sent', own)).toBeUndefined()
      expect(none.maySend(own.kind, 0)).toBe(true)
      expect(field(() => none.received([own], 0))).toBeUndefined()
    }
    expect(none.refusal('sent', item(rotation, OWN_PAYLOAD_BYTES_MAX + 1))?.field).toBe('sfc.payloadBytesMax')
  })

  it('measures a kind of a later version by payload and rate, though it has no effect', () => {
    expect(meterOf({ scopes: 0 }).refusal('received', item(0x7f))).toBeUndefined()
    expect(meterOf({ scopes: 0 }).refusal('received', item(0x7f, 1_025))?.field).toBe('sfc.payloadBytesMax')
    expect(meterOf().maySend(0x7f, 0)).toBe(true)
  })

  it('names a scope that the application asks for', () => {
    expect(meterOf().scopeRefusal('CREATE_TASKS')).toBeUndefined()
    expect(meterOf({ scopes: SFC_SCOPE.SEND_MESSAGES }).scopeRefusal('CREATE_TASKS')?.field).toBe('sfc.scopes')
  })
})

describe('the rate', () => {
  it('[SFC-08] lets half a minute of messages go at once, then one at a time', () => {
    const meter = meterOf()
    for (let i = 0; i < 30; i++) {
      expect(meter.maySend(a2a, 0)).toBe(true)
      meter.sent(item(a2a), 0)
    }
    expect(meter.maySend(a2a, 0)).toBe(false)
    expect(meter.nextSendAtMs).toBe(1_000)
    expect(meter.maySend(a2a, 999)).toBe(false)
    expect(meter.maySend(a2a, 1_000)).toBe(true)
  })

  it('begins a resumed session without saved-up messages', () => {
    expect(meterOf({}, { start: 'resumed' }).maySend(a2a, 0)).toBe(false)
    expect(meterOf({}, { start: 'resumed' }).maySend(a2a, 1_000)).toBe(true)
  })

  it('[SFC-08] closes as a receiver above twice the rate within 60 s, not at it', () => {
    const meter = meterOf()
    for (let i = 0; i < 120; i++) expect(field(() => meter.received([item(a2a)], i * 10))).toBeUndefined()
    expect(field(() => meter.received([item(a2a)], 30_000))).toBe('sfc.messagesPerMinuteMax')
  })

  it('[SFC-08] forgets what is more than 60 s ago', () => {
    const meter = meterOf()
    for (let minute = 0; minute < 5; minute++) {
      const nowMs = minute * 61_000
      expect(
        field(() =>
          meter.received(
            Array.from({ length: 120 }, () => item(a2a)),
            nowMs
          )
        )
      ).toBeUndefined()
    }
  })

  it('never brings an honest sender over what a receiver takes, whatever the delay below half a minute', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 25_000 })), { minLength: 20, maxLength: 200 }),
        (messagesPerMinuteMax, steps) => {
          const sender = meterOf({ messagesPerMinuteMax })
          const receiver = meterOf({ messagesPerMinuteMax })
          let nowMs = 0
          let arrivedMs = 0
          for (const [waitMs, delayMs] of steps) {
            nowMs += waitMs
            while (sender.maySend(a2a, nowMs)) {
              sender.sent(item(a2a), nowMs)
              arrivedMs = Math.max(arrivedMs, nowMs + delayMs)
              receiver.received([item(a2a)], arrivedMs)
            }
          }
        }
      )
    )
  })

  it('agrees with a list of times to within one slice', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 20_000 }), { maxLength: 300 }), (steps) => {
        const window = new RateWindow(60_000)
        const times: number[] = []
        let nowMs = 0
        for (const step of steps) {
          nowMs += step
          window.add(nowMs)
          times.push(nowMs)
          const total = window.total(nowMs)
          expect(total).toBeLessThanOrEqual(times.filter((at) => at > nowMs - 60_000).length)
          expect(total).toBeGreaterThanOrEqual(times.filter((at) => at > nowMs - 59_000).length)
        }
      })
    )
  })

  it('never fills a bucket of rate zero', () => {
    const bucket = new RateBucket({ perMinute: 0, start: 'full', nowMs: 0 })
    expect(bucket.holds(1e12)).toBe(false)
    expect(bucket.nextAtMs).toBe(Number.POSITIVE_INFINITY)
  })

  it('shows what was used, each way, and goes on from the totals of before a restart', () => {
    const meter = meterOf()
    meter.sent(item(a2a, 100), 1_000)
    meter.received([item(live, 40), item(live, 60), item(rotation, 400)], 2_000)
    expect(meter.usage(2_000)).toEqual({
      seconds: 2,
      secondsLeft: 3_598,
      sent: {
        messages: 1,
        messagesLastMinute: 1,
        payloadBytes: 100,
        payloadBytesLargest: 100,
        eseBytes: 0,
        storedBytes: 0,
        concurrentTasks: 0
      },
      received: {
        messages: 2,
        messagesLastMinute: 2,
        payloadBytes: 500,
        payloadBytesLargest: 400,
        eseBytes: 0,
        storedBytes: 0,
        concurrentTasks: 0
      }
    })
    const again = meterOf({}, { totals: meter.totals(), start: 'resumed' })
    expect(again.usage(0).received).toMatchObject({ messages: 2, messagesLastMinute: 0, payloadBytes: 500, payloadBytesLargest: 400 })
  })
})

describe('what lasts beyond a process', () => {
  it('[SFC-08] [SFC-09] counts tasks that go on and stored objects after a restart as before it, until they end', () => {
    const before = meterOf({ concurrentTasksMax: 3, storedBytesMax: 1_000 }, { nowMs: 5_000, ageMs: 1_000 })
    for (const id of ['t1', 't2']) {
      expect(before.hold('received', 'concurrentTasks', 1)).toBeUndefined()
      expect(before.taskGoesOn('received', id)).toBe(true)
    }
    expect(before.taskGoesOn('received', 't2')).toBe(false)
    expect(before.hold('received', 'concurrentTasks', 1)).toBeUndefined() // no answer yet: it is not known under any id
    expect(before.store('sent', { name: 'one', bytes: 600, untilMs: 65_000 }, 5_000)).toBeUndefined()
    const kept = JSON.parse(JSON.stringify(before.totals()))

    const after = meterOf({ concurrentTasksMax: 3, storedBytesMax: 1_000 }, { nowMs: 900, ageMs: 31_000, totals: kept, start: 'resumed' })
    expect([...after.tasks('received')]).toEqual(['t1', 't2'])
    expect(after.usage(900).received.concurrentTasks).toBe(2)
    expect(after.store('sent', { name: 'two', bytes: 500, untilMs: 99_000 }, 900)).toMatchObject({ field: 'sfc.storedBytesMax' })
    expect(after.store('sent', { name: 'one', bytes: 600, untilMs: 99_000 }, 900)).toBeUndefined() // the same again
    expect(after.store('sent', { name: 'two', bytes: 500, untilMs: 99_000 }, 30_900)).toBeUndefined() // 61 s after the first handshake it is gone
    after.taskEnded('received', 't1')
    after.taskEnded('received', 't1')
    expect(after.usage(900).received.concurrentTasks).toBe(1)
  })
})

describe('the judgement of an offer', () => {
  it('[SFC-07] accepts what gives at least what is needed, and names the first field that does not', () => {
    expect(judgeOffer(block, { needs: {} })).toEqual({ kind: 'accept' })
    expect(judgeOffer(block, { needs: { payloadBytesMax: 1_024 } })).toEqual({ kind: 'accept' })
    expect(judgeOffer(block, { needs: { payloadBytesMax: 1_025 } })).toEqual({ kind: 'refuse', field: 'payloadBytesMax' })
    expect(judgeOffer({ ...block, scopes: 0 }, { needs: { scopes: SFC_SCOPE.MAILBOX } })).toEqual({ kind: 'refuse', field: 'scopes' })
  })

  it('[SFC-07] refuses a contract of no seconds, whoever needs how many', () => {
    expect(judgeOffer({ ...block, sessionSecondsMax: 0 }, { needs: {} })).toEqual({ kind: 'refuse', field: 'sessionSecondsMax' })
  })

  it('[G-44] names the block where a plain session is offered in place of a contract', () => {
    expect(judgeOffer(undefined, { needs: {} })).toEqual({ kind: 'refuse', field: 'block' })
    expect(judgeOffer(undefined, { stored: block })).toEqual({ kind: 'refuse', field: 'block' })
  })

  it('[SFC-09] takes at a resume nothing but the stored block, better or worse', () => {
    expect(judgeOffer(block, { stored: { ...block } })).toEqual({ kind: 'accept' })
    for (const name of SFC_FIELDS) {
      const other = { ...block, [name]: name === 'site' ? 'edge' : (block[name] as number) ^ 1 }
      expect(judgeOffer(other, { stored: block })).toEqual({ kind: 'refuse', field: name })
      expect(resumeDifference(other, block)).toBe(name)
    }
    expect(resumeDifference(block, { ...block })).toBeUndefined()
    expect(resumeDifference(undefined, undefined)).toBeUndefined()
    expect(resumeDifference(undefined, block)).toBe('block')
    expect(resumeDifference(block, undefined)).toBe('block')
  })

  it('[SFC-06] gives scopes their names and back', () => {
    const names = Object.keys(SFC_SCOPE_NAMES) as SfcScopeName[]
    expect(scopeBits(names)).toBe(ALL_SCOPES)
    fc.assert(
      fc.property(fc.integer({ min: 0, max: ALL_SCOPES }), (bits) => {
        expect(scopeBits(scopeNames(bits))).toBe(bits)
      })
    )
  })
})
