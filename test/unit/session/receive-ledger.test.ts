import { describe, expect, it } from 'vitest'
import { chainNext, noHead, transactionDigest } from '../../../protocol/session/chain.ts'
import { ITEM_KINDS, type Item } from '../../../protocol/session/items.ts'
import { type Position, ReceiveLedger } from '../../../protocol/session/ledger.ts'
import { ReceiveSide } from '../../../protocol/session/receive-side.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'

const h0 = new Uint8Array(32).fill(9)

/** One transaction on each of these channels, in this order: number, chain, record and position of each. */
function history(channels: readonly number[]) {
  const heads = new Map<number, ReturnType<typeof noHead>>()
  let hash: Uint8Array = h0
  return channels.map((channel, i) => {
    const seq = BigInt(i + 1)
    const head = heads.get(channel) ?? noHead()
    const payload = Uint8Array.of(i)
    const digest = transactionDigest(nodeCrypto, head, { seq, kind: ITEM_KINDS.a2a, channel, payload })
    hash = chainNext(nodeCrypto, hash, digest)
    heads.set(channel, { seq, digest })
    const item: Item = { kind: ITEM_KINDS.a2a, channel, prev: head.seq, payload }
    const position: Position = { channel, prev: head.seq, digest }
    return { seq, hash, item, position }
  })
}

const nextEpoch = (ledger: ReceiveLedger) => new ReceiveSide(nodeCrypto, ledger.run, ledger.heads, { known: ledger.known() })

describe('an epoch that begins behind another', () => {
  it('[PSS-07] acknowledges what lay beyond the run and within its channel’s head, though it never comes again', () => {
    const [one, two, three] = history([1, 2, 2]) as [Transaction, Transaction, Transaction]
    const ledger = new ReceiveLedger(nodeCrypto, { seq: 0n, hash: h0 })
    for (const { seq, position } of [two, three]) {
      ledger.take(seq, position)
      ledger.synced(seq)
    }
    const receiver = nextEpoch(ledger)
    expect([...receiver.headsAhead().keys()]).toEqual([2])
    expect(receiver.accept(one, [one.item])).toHaveLength(1)
    expect(receiver.run).toEqual({ seq: 3n, hash: three.hash })
    expect(receiver.acked).toBe(0n)
    receiver.synced(1n)
    expect(receiver.acked).toBe(3n)
  })

  it('[PSS-07] acknowledges a transaction whose handler ended between two epochs as it comes again, and hands it over no more', () => {
    const [one] = history([1]) as [Transaction]
    const ledger = new ReceiveLedger(nodeCrypto, { seq: 0n, hash: h0 })
    ledger.take(1n, one.position)
    const receiver = nextEpoch(ledger)
    ledger.synced(1n)
    receiver.synced(1n)
    expect(receiver.accept(one, [one.item])).toEqual([])
    expect(receiver.acked).toBe(1n)
  })
})

type Transaction = ReturnType<typeof history>[number]
