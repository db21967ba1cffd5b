import { describe, expect, it } from 'vitest'
import { chainNext, noHead, transactionDigest } from '../../../protocol/session/chain.ts'
import { ITEM_KINDS, type Item } from '../../../protocol/session/items.ts'
import { ReceiveSide } from '../../../protocol/session/receive-side.ts'
import { UNACKED_MAX } from '../../../protocol/session/send-side.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'

const h0 = new Uint8Array(32).fill(9)
const payload = (text: string) => new TextEncoder().encode(text)
const item = (channel: number, prev: bigint, text: string): Item => ({ kind: ITEM_KINDS.a2a, channel, prev, payload: payload(text) })

/** What an honest sender would put on the wire for one transaction a record, channels in turn. */
function history(texts: [channel: number, text: string][]) {
  const heads = new Map<number, ReturnType<typeof noHead>>()
  let hash: Uint8Array = h0
  return texts.map(([channel, text], i) => {
    const seq = BigInt(i + 1)
    const head = heads.get(channel) ?? noHead()
    const digest = transactionDigest(nodeCrypto, head, { seq, kind: ITEM_KINDS.a2a, channel, payload: payload(text) })
    hash = chainNext(nodeCrypto, hash, digest)
    heads.set(channel, { seq, digest })
    return { seq, hash, items: [item(channel, head.seq, text)] }
  })
}

const fresh = () => new ReceiveSide(nodeCrypto, { seq: 0n, hash: h0 })

describe('the receiving side against a peer that contradicts itself', () => {
  it('[PSS-19] finds one flipped bit of history at the first complete run, and hands nothing of that record over', () => {
    const records = history([
      [1, 'one'],
      [2, 'two'],
      [1, 'three']
    ])
    const receiver = fresh()
    const [one, two, three] = records as [(typeof records)[0], (typeof records)[0], (typeof records)[0]]
    expect(receiver.accept(two, two.items)).toHaveLength(1) // ahead of the run: cannot be judged yet
    const changed = payload('one')
    changed[0] = (changed[0] as number) ^ 1
    expect(() => receiver.accept(one, [{ ...item(1, 0n, 'one'), payload: changed }])).toThrow(
      expect.objectContaining({ code: 'HASH_MISMATCH' })
    )
    const honest = fresh()
    for (const record of [two, one, three]) honest.accept(record, record.items)
    expect(honest.run).toEqual({ seq: 3n, hash: three.hash })
  })

  it('[PSS-19] finds a wrong hash of a record that came ahead, once the run reaches it', () => {
    const [one, two] = history([
      [1, 'one'],
      [2, 'two']
    ])
    const receiver = fresh()
    receiver.accept({ seq: 2n, hash: new Uint8Array(32).fill(1) }, two?.items ?? [])
    expect(() => receiver.accept(one ?? { seq: 0n, hash: h0 }, one?.items ?? [])).toThrow(
      expect.objectContaining({ code: 'HASH_MISMATCH' })
    )
  })

  it.each([
    ['a gap within a channel', { seq: 3n, hash: h0 }, [item(1, 2n, 'x')], 'SEQUENCE'],
    ['one number on two channels', { seq: 1n, hash: h0 }, [item(2, 0n, 'x')], 'SEQUENCE'],
    ['a transaction without number', { seq: 0n, hash: h0 }, [item(1, 0n, 'x')], 'SEQUENCE'],
    [
      'a number without transaction',
      { seq: 7n, hash: h0 },
      [{ kind: ITEM_KINDS.live, channel: 1, prev: undefined, payload: payload('x') }],
      'SEQUENCE'
    ],
    ['a number out of reach', { seq: BigInt(UNACKED_MAX) + 1n, hash: h0 }, [item(3, 0n, 'x')], 'SEQUENCE']
  ] as [string, { seq: bigint; hash: Uint8Array }, Item[], string][])('refuses %s', (_what, record, items, code) => {
    const receiver = fresh()
    if (_what === 'one number on two channels') {
      // 2 first, so that 1 is still open, then 2 again on another channel
      receiver.accept({ seq: 2n, hash: h0 }, [item(1, 0n, 'first')])
      expect(() => receiver.accept({ seq: 2n, hash: h0 }, [item(2, 0n, 'second')])).toThrow(expect.objectContaining({ code }))
      return
    }
    expect(() => receiver.accept(record, items)).toThrow(expect.objectContaining({ code }))
  })

  it('refuses more than the window that was granted', () => {
    const receiver = fresh()
    const live = (bytes: number): Item => ({ kind: ITEM_KINDS.live, channel: 1, prev: undefined, payload: new Uint8Array(bytes) })
    receiver.accept({ seq: 0n, hash: h0 }, [live(1_048_576)])
    expect(() => receiver.accept({ seq: 0n, hash: h0 }, [live(1)])).toThrow(expect.objectContaining({ code: 'WINDOW' }))
  })

  it('refuses the 65th channel of a peer', () => {
    const receiver = fresh()
    const live = (channel: number): Item => ({ kind: ITEM_KINDS.live, channel, prev: undefined, payload: payload('x') })
    for (let channel = 0; channel < 64; channel++) receiver.accept({ seq: 0n, hash: h0 }, [live(channel)])
    expect(() => receiver.accept({ seq: 0n, hash: h0 }, [live(64)])).toThrow(expect.objectContaining({ code: 'RANGE' }))
  })

  it('[PSS-19] compares a signed point with the run: at it at once, ahead of it when the run gets there, behind it no more', () => {
    const records = history([
      [1, 'one'],
      [1, 'two']
    ])
    const [one, two] = records as [(typeof records)[0], (typeof records)[0]]
    const receiver = fresh()
    receiver.claim({ seq: 1n, hash: one.hash })
    receiver.accept(one, one.items)
    receiver.claim({ seq: 0n, hash: new Uint8Array(32) })
    expect(() => receiver.claim({ seq: 1n, hash: h0 })).toThrow(expect.objectContaining({ code: 'HASH_MISMATCH' }))
    receiver.claim({ seq: 2n, hash: h0 })
    expect(() => receiver.accept(two, two.items)).toThrow(expect.objectContaining({ code: 'HASH_MISMATCH' }))
    expect(() => receiver.claim({ seq: 10_000n, hash: h0 })).toThrow(expect.objectContaining({ code: 'SEQUENCE' }))
  })
})
