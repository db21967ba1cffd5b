import { describe, expect, it } from 'vitest'
import { ContractMeter } from '../../../protocol/session/contract.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'
import { eidA, eidB, type Side, StreamPair, text } from './stream-pair.ts'

const { a2a, live, mailbox, eseOp } = ITEM_KINDS
const block: SfcBlock = {
  site: 'any',
  scopes: SFC_SCOPE.SEND_MESSAGES | SFC_SCOPE.STREAM | SFC_SCOPE.WRITE_ESE,
  eseBytesMax: 8,
  messagesPerMinuteMax: 6,
  payloadBytesMax: 16,
  sessionSecondsMax: 600,
  storedBytesMax: 0,
  concurrentTasksMax: 0,
  region: 0
}
const meter = (side: 'a' | 'b', change: Partial<SfcBlock> = {}) =>
  new ContractMeter({
    block: { ...block, ...change },
    eids: side === 'a' ? { sent: eidA, received: eidB } : { sent: eidB, received: eidA },
    nowMs: 0,
    ageMs: 0,
    start: 'new'
  })
/** `a` was changed and keeps to no contract; `b` holds it to one. */
const against = (change: Partial<SfcBlock> = {}) => new StreamPair({ contracts: { b: meter('b', change) } }).opened()
const both = (change: Partial<SfcBlock> = {}) => new StreamPair({ contracts: { a: meter('a', change), b: meter('b', change) } }).opened()
const ended = ({ effects }: Side) => effects.find((effect) => effect.kind === 'closed')
const words = (side: Side) => side.delivered.map((one) => one.text)

describe('a peer that does not keep to the contract', () => {
  it.each([
    ['scopes', mailbox, 'x'],
    ['payloadBytesMax', a2a, 'x'.repeat(17)],
    ['payloadBytesMax', live, 'x'.repeat(17)],
    ['eseBytesMax', eseOp, 'x'.repeat(9)]
  ])(
    '[SFC-08] goes over %s with an item of kind %i: nothing is handed over, the session is closed with CONTRACT',
    (field, kind, payload) => {
      const pair = against()
      pair.a.stream.queue(1, kind, text(payload), 'over')
      pair.run()
      expect(pair.b.delivered).toEqual([])
      expect(ended(pair.b)).toMatchObject({
        close: { reason: 'contract', by: 'local', error: { code: 'CONTRACT', field: `sfc.${field}` } }
      })
      expect(ended(pair.a)).toMatchObject({ close: { reason: 'contract', by: 'peer' } })
    }
  )

  it('[SFC-08] is held to it whichever of the two it is', () => {
    const pair = new StreamPair({ contracts: { a: meter('a') } }).opened()
    pair.b.stream.queue(1, mailbox, text('x'), 'over')
    pair.run()
    expect(ended(pair.a)).toMatchObject({ close: { reason: 'contract', by: 'local' } })
  })

  it('[SFC-08] sends above twice the rate within 60 s', () => {
    const pair = against()
    for (let i = 0; i < 12; i++) pair.a.stream.queue(1, a2a, text(`${i}`), `${i}`)
    pair.run()
    expect(ended(pair.b)).toBeUndefined()
    pair.tick(10_000)
    pair.a.stream.queue(1, a2a, text('12'), '12')
    pair.run()
    expect(ended(pair.b)).toMatchObject({ close: { error: { field: 'sfc.messagesPerMinuteMax' } } })
    expect(words(pair.b)).toHaveLength(12)
  })

  it('[SFC-08] goes on after the last second and the time to say goodbye', () => {
    const pair = against({ sessionSecondsMax: 1 })
    for (let i = 0; i < 7; i++) {
      pair.tick(10_000)
      pair.a.stream.queue(1, live, text('x'), 'x')
      pair.run()
    }
    expect(ended(pair.b)).toMatchObject({ close: { error: { field: 'sfc.sessionSecondsMax' } } })
  })

  it('tells who waited what was acknowledged by the record that broke the contract', () => {
    const pair = against()
    pair.b.stream.queue(1, a2a, text('mine'), 'mine')
    pair.b.flush()
    pair.deliver(pair.b, 1)
    pair.a.stream.queue(1, mailbox, text('x'), 'over')
    for (const channel of pair.a.stream.channels(0)) {
      if (channel !== 1) continue
      const frame = pair.a.stream.next(channel, 0)
      pair.b.take(pair.b.stream.receive(1, frame?.bytes as Uint8Array, 0))
    }
    expect(pair.b.ackedTags).toEqual(['mine'])
    expect(ended(pair.b)).toMatchObject({ close: { reason: 'contract' } })
  })
})

describe('a side that keeps to the contract', () => {
  it('[SFC-08] lets a burst go, then paces, and the other side never minds', () => {
    const pair = both()
    for (let i = 0; i < 10; i++) pair.a.stream.queue(1, a2a, text(`${i}`), `${i}`)
    pair.run()
    expect(words(pair.b)).toEqual(['0', '1', '2'])
    expect(pair.a.stream.wakeAtMs).toBe(10_000)
    for (let i = 3; i < 10; i++) {
      pair.tick(10_000)
      pair.run()
      expect(words(pair.b)).toHaveLength(i + 1)
    }
    expect(ended(pair.b)).toBeUndefined()
    expect(ended(pair.a)).toBeUndefined()
  })

  it('[SFC-08] lets control items pass while messages wait for the rate', () => {
    const pair = both({ messagesPerMinuteMax: 1 })
    for (let i = 0; i < 3; i++) pair.a.stream.queue(1, a2a, text(`${i}`), `${i}`)
    pair.run()
    pair.a.stream.measure()
    pair.run()
    expect(pair.a.effects.at(-1)).toEqual({ kind: 'pong', rttMs: 0 })
    expect(words(pair.b)).toEqual(['0'])
  })

  it('[SFC-09] [G-46] tells once when its time is over, and TEARDOWN ends it in order on both sides', () => {
    const pair = both({ sessionSecondsMax: 10 })
    pair.a.stream.queue(1, a2a, text('last'), 'last')
    pair.run()
    expect(pair.a.stream.wakeAtMs).toBe(10_000)
    pair.tick(9_999)
    pair.run()
    expect(pair.a.effects.some(({ kind }) => kind === 'expired')).toBe(false)
    pair.tick(1)
    expect(pair.a.effects.filter(({ kind }) => kind === 'expired')).toHaveLength(1)
    pair.a.stream.close('contract', pair.nowMs)
    pair.run()
    expect(ended(pair.a)).toMatchObject({ close: { reason: 'contract', by: 'local' } })
    expect(ended(pair.b)).toMatchObject({ close: { reason: 'contract' } })
    expect(pair.a.ackedTags).toEqual(['last'])
  })
})

describe('a round trip', () => {
  it('is measured by a ping of its own, one at a time', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.measure()
    pair.a.stream.measure()
    pair.a.flush(0)
    pair.nowMs = 7
    pair.run()
    expect(pair.a.effects.filter(({ kind }) => kind === 'pong')).toEqual([{ kind: 'pong', rttMs: 7 }])
    pair.a.stream.measure()
    pair.run()
    expect(pair.a.effects.at(-1)).toEqual({ kind: 'pong', rttMs: 0 })
  })

  it('is not measured by an answer that nobody asked for', () => {
    const pair = new StreamPair().opened()
    pair.b.stream.queue(0, ITEM_KINDS.pong, text('12345678'), 'x')
    pair.a.stream.measure()
    pair.b.flush(0)
    pair.deliver(pair.b, 0)
    expect(pair.a.effects.some(({ kind }) => kind === 'pong')).toBe(false)
  })
})
