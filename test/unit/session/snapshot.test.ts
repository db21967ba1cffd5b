import { describe, expect, it } from 'vitest'
import type { ChannelHead } from '../../../protocol/session/chain.ts'
import { ITEM_KINDS, type Item } from '../../../protocol/session/items.ts'
import { Journal, type Unacked } from '../../../protocol/session/journal.ts'
import { ReceiveSide } from '../../../protocol/session/receive-side.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { fixed, text } from './stream-pair.ts'

const H0 = fixed(7)

/** A sender that dropped 1 … 4 of five, and the snapshot it sends. */
function sender(bytes: Uint8Array) {
  const journal = new Journal<string>(nodeCrypto, { seq: 0n, hash: H0 })
  for (const [i, channel] of [1, 2, 1, 2, 1].entries()) {
    journal.append({ kind: ITEM_KINDS.a2a, channel, payload: text(`m${i + 1}`), tag: '', state: 'sent' })
  }
  journal.markSynced(5n)
  journal.ack(4n)
  const { parts } = journal.putSnapshot(bytes, '', new Map())
  return { journal, parts, rest: [...journal.entries].slice(parts.length) }
}

const record = ({ seq, hash, prev, item }: Unacked<string>): [{ seq: bigint; hash: Uint8Array }, Item[]] => [
  { seq, hash },
  [{ kind: item.kind, channel: item.channel, prev, payload: item.payload }]
]
const resumed = (rx = 0n, hash: Uint8Array = H0, heads = new Map<number, ChannelHead>()) =>
  new ReceiveSide(nodeCrypto, { seq: rx, hash }, heads, { known: new Map() })

describe('a snapshot', () => {
  it('[PSS-07] is handed over whole, with what it replaces, and sets run and heads to the last part', () => {
    const { journal, parts, rest } = sender(new Uint8Array(600_000).fill(5))
    expect(parts).toHaveLength(3)
    const receiver = resumed()
    expect(receiver.accept(...record(parts[0] as Unacked<string>))).toEqual([])
    expect(receiver.accept(...record(parts[1] as Unacked<string>))).toEqual([])
    expect(receiver.acked).toBe(0n)
    const [arrived] = receiver.accept(...record(parts[2] as Unacked<string>))
    expect(arrived?.snapshot).toMatchObject({ lostFrom: 1n, base: 4n, run: { seq: 7n, hash: parts[2]?.hash } })
    expect(arrived?.snapshot?.bytes).toEqual(new Uint8Array(600_000).fill(5))
    expect(arrived?.snapshot?.heads.get(2)).toEqual(journal.base.heads.get(2))
    receiver.snapshotSynced(7n)
    expect(receiver.acked).toBe(7n)
    expect(receiver.accept(...record(rest[0] as Unacked<string>))).toMatchObject([{ channel: 1, seq: 8n }])
    expect(receiver.run.hash).toEqual(journal.tx.hash)
  })

  it('[PSS-07] is refused in the first epoch of a session', () => {
    const receiver = new ReceiveSide(nodeCrypto, { seq: 0n, hash: H0 })
    expect(() => receiver.accept(...record(sender(text('x')).parts[0] as Unacked<string>))).toThrow(
      expect.objectContaining({ code: 'OUT_OF_ORDER' })
    )
  })

  it('[PSS-07] is refused where READY said that nothing before its base is missing', () => {
    const { journal, parts } = sender(text('x'))
    const receiver = resumed(4n, journal.base.hash, new Map(journal.base.heads))
    expect(() => receiver.accept(...record(parts[0] as Unacked<string>))).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
  })

  it('[PSS-07] is refused behind another transaction of the epoch, and a second time', () => {
    const { parts } = sender(text('x'))
    const plain = new Journal<string>(nodeCrypto, { seq: 0n, hash: H0 })
    const one = plain.append({ kind: ITEM_KINDS.a2a, channel: 1, payload: text('m1'), tag: '', state: 'sent' })
    const receiver = resumed()
    receiver.accept(...record(one))
    expect(() => receiver.accept(...record(parts[0] as Unacked<string>))).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
    const again = resumed()
    again.accept(...record(parts[0] as Unacked<string>))
    again.snapshotSynced(5n)
    expect(() => again.accept(...record(parts[0] as Unacked<string>))).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
  })

  it('[PSS-07] is refused from its middle, with a part of another one, and with a transaction in between', () => {
    const { parts, rest } = sender(new Uint8Array(600_000))
    const other = sender(new Uint8Array(300_000)).parts
    expect(() => resumed().accept(...record(parts[1] as Unacked<string>))).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
    const mixed = resumed()
    mixed.accept(...record(parts[0] as Unacked<string>))
    expect(() => mixed.accept(...record(other[1] as Unacked<string>))).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
    const between = resumed()
    between.accept(...record(parts[0] as Unacked<string>))
    expect(() => between.accept(...record(rest[0] as Unacked<string>))).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
  })
})

describe('what was met in an earlier epoch', () => {
  const journal = new Journal<string>(nodeCrypto, { seq: 0n, hash: H0 })
  const entries = [1, 1, 2].map((channel, i) =>
    journal.append({ kind: ITEM_KINDS.a2a, channel, payload: text(`m${i + 1}`), tag: '', state: 'sent' })
  )
  const [one, two, three] = entries as [Unacked<string>, Unacked<string>, Unacked<string>]

  it('[PSS-07] is not handed over again: synced, it counts when it comes; in hand, when its handler is done', () => {
    const known = new Map([
      [2n, { digest: two.digest, synced: true, comesAgain: true }],
      [1n, { digest: one.digest, synced: false, comesAgain: true }]
    ])
    const receiver = new ReceiveSide(nodeCrypto, { seq: 0n, hash: H0 }, new Map(), { known })
    expect(receiver.accept(...record(one))).toEqual([])
    expect(receiver.accept(...record(two))).toEqual([])
    expect(receiver.accept(...record(three))).toMatchObject([{ seq: 3n }])
    expect(receiver.acked).toBe(0n)
    receiver.synced(1n)
    expect(receiver.acked).toBe(2n)
  })

  it('[PSS-07] counts where its handler is done before it comes again', () => {
    const known = new Map([[1n, { digest: one.digest, synced: false, comesAgain: true }]])
    const receiver = new ReceiveSide(nodeCrypto, { seq: 0n, hash: H0 }, new Map(), { known })
    receiver.synced(1n)
    expect(receiver.acked).toBe(0n)
    expect(receiver.accept(...record(one))).toEqual([])
    expect(receiver.accept(...record(two))).toHaveLength(1)
    receiver.synced(2n)
    expect(receiver.acked).toBe(2n)
  })

  it('[PSS-07] [D-16] has diverged where it comes as something else', () => {
    const known = new Map([[1n, { digest: fixed(1), synced: true, comesAgain: true }]])
    const receiver = new ReceiveSide(nodeCrypto, { seq: 0n, hash: H0 }, new Map(), { known })
    expect(() => receiver.accept(...record(one))).toThrow(expect.objectContaining({ code: 'DIVERGED' }))
  })
})
