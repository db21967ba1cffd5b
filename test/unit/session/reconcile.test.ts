import { describe, expect, it } from 'vitest'
import type { ChainPoint, ChannelHead } from '../../../protocol/session/chain.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { Journal } from '../../../protocol/session/journal.ts'
import type { Ready } from '../../../protocol/session/ready.ts'
import { reconcile } from '../../../protocol/session/reconcile.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { fixed, text } from './stream-pair.ts'

const H0 = fixed(7)
const RX0: ChainPoint = { seq: 0n, hash: fixed(9) }

/** Transactions 1 … 6 on channels 1, 2, 1, 2, 1, 1, of which the first `acked` are dropped. */
function journalOf(acked: bigint): Journal<string> {
  const journal = new Journal<string>(nodeCrypto, { seq: 0n, hash: H0 })
  for (const [i, channel] of [1, 2, 1, 2, 1, 1].entries()) {
    journal.append({ kind: ITEM_KINDS.a2a, channel, payload: text(`m${i + 1}`), tag: `m${i + 1}`, state: 'sent' })
  }
  journal.markSynced(6n)
  journal.ack(acked)
  return journal
}

const all = journalOf(0n)
const hash = (seq: bigint) => all.hashAt(seq) as Uint8Array
const head = (seq: bigint): ChannelHead => ({ seq, digest: all.entry(seq)?.digest as Uint8Array })

function ready(rx: bigint, change: { hash?: Uint8Array; heads?: [number, ChannelHead][]; tx?: ChainPoint } = {}): Ready {
  return {
    rx: { seq: rx, hash: change.hash ?? hash(rx) },
    tx: change.tx ?? RX0,
    eseLost: false,
    heads: new Map(change.heads ?? [])
  }
}

const held = { rx: RX0, heads: new Map<number, ChannelHead>() }

describe("what a peer's READY asks for", () => {
  it.each([
    ['all of it from the start', 0n, ready(0n), [1n, 2n, 3n, 4n, 5n, 6n]],
    ['what follows its run', 0n, ready(3n), [4n, 5n, 6n]],
    ['nothing, where it has all', 0n, ready(6n), []],
    ['nothing, where all was acknowledged before', 6n, ready(6n), []],
    ['what follows a base that it has reached exactly', 4n, ready(4n), [5n, 6n]],
    ['neither its run nor what its heads cover', 0n, ready(1n, { heads: [[1, head(5n)]] }), [2n, 4n, 6n]],
    [
      'neither of two heads',
      0n,
      ready(1n, {
        heads: [
          [1, head(3n)],
          [2, head(4n)]
        ]
      }),
      [5n, 6n]
    ]
  ] as [string, bigint, Ready, bigint[]][])('[PSS-07] resends %s, in order', (_, acked, peer, expected) => {
    const verdict = reconcile(peer, journalOf(acked), held)
    expect(verdict).toMatchObject({ kind: 'resend', ack: peer.rx.seq })
    expect(verdict.kind === 'resend' && verdict.entries.map(({ seq }) => seq)).toEqual(expected)
  })

  it.each([
    ['its run ends before the base', 4n, ready(3n)],
    ['its run ends before the base, whatever its hash', 4n, ready(2n, { hash: fixed(1) })],
    ['a head of it lies at the base', 4n, ready(1n, { heads: [[2, head(4n)]] })],
    ['a head of it lies ahead of the base', 3n, ready(1n, { heads: [[1, head(5n)]] })],
    ['an older head below the base, which nothing here can judge', 5n, ready(1n, { heads: [[1, { seq: 3n, digest: fixed(1) }]] })]
  ] as [string, bigint, Ready][])('[PSS-07] sends a snapshot where %s', (_, acked, peer) => {
    expect(reconcile(peer, journalOf(acked), held)).toEqual({ kind: 'snapshot' })
  })

  it.each([
    ['it holds more than was sent', 0n, ready(6n, { hash: fixed(1) }), held, 'rxHash'],
    ['it holds a number beyond our own', 0n, { ...ready(6n), rx: { seq: 7n, hash: fixed(1) } }, held, 'rxSeq'],
    ['its hash differs within the journal', 0n, ready(3n, { hash: fixed(1) }), held, 'rxHash'],
    ['its hash differs at the base', 4n, ready(4n, { hash: fixed(1) }), held, 'rxHash'],
    ['its hash differs at zero', 0n, ready(0n, { hash: fixed(1) }), held, 'rxHash'],
    ['a head lies beyond our own number', 0n, ready(1n, { heads: [[1, { seq: 7n, digest: fixed(1) }]] }), held, 'heads'],
    ['the digest of a head differs', 0n, ready(1n, { heads: [[1, { seq: 5n, digest: fixed(1) }]] }), held, 'heads'],
    ['a head is a transaction of another channel', 0n, ready(1n, { heads: [[2, head(5n)]] }), held, 'heads'],
    ['a head is on a channel that was never used', 0n, ready(1n, { heads: [[3, head(4n)]] }), held, 'heads'],
    ['a head at the base has another digest', 4n, ready(1n, { heads: [[2, { seq: 4n, digest: fixed(1) }]] }), held, 'heads'],
    ['a head below the base is newer than its channel was', 5n, ready(1n, { heads: [[2, { seq: 5n, digest: fixed(1) }]] }), held, 'heads'],
    [
      'it sent less than we hold of it',
      0n,
      ready(3n, { tx: { seq: 4n, hash: fixed(9) } }),
      { rx: { seq: 5n, hash: fixed(9) }, heads: new Map() },
      'txSeq'
    ],
    [
      'it sent less than a head that we hold of it',
      0n,
      ready(3n, { tx: { seq: 6n, hash: fixed(9) } }),
      { rx: { seq: 5n, hash: fixed(9) }, heads: new Map([[1, { seq: 7n, digest: fixed(2) }]]) },
      'txSeq'
    ],
    [
      'it has another chain at the number that we hold',
      0n,
      ready(3n, { tx: { seq: 5n, hash: fixed(1) } }),
      { rx: { seq: 5n, hash: fixed(9) }, heads: new Map() },
      'txHash'
    ]
  ] as [string, bigint, Ready, typeof held, string][])('[PSS-07] [D-16] has diverged where %s', (_, acked, peer, holds, field) => {
    expect(reconcile(peer, journalOf(acked), holds)).toMatchObject({ kind: 'diverged', error: expect.objectContaining({ field }) })
  })

  it('[G-50] compares with what is synced, never with what is being written', () => {
    const journal = journalOf(0n)
    journal.append({ kind: ITEM_KINDS.a2a, channel: 1, payload: text('m7'), tag: 'm7', state: 'waiting' })
    const peer = { ...ready(6n), rx: { seq: 7n, hash: journal.tx.hash } }
    expect(reconcile(peer, journal, held)).toMatchObject({ kind: 'diverged' })
    journal.markSynced(7n)
    expect(reconcile(peer, journal, held)).toMatchObject({ kind: 'resend', entries: [] })
  })
})

describe('a journal', () => {
  it('takes back what could not be written, and gives the numbers again', () => {
    const journal = journalOf(2n)
    const before = { tx: journal.tx, heads: new Map(journal.heads) }
    const item = { kind: ITEM_KINDS.a2a, channel: 3, payload: text('x'), tag: 'x', state: 'waiting' as const }
    journal.append(item)
    journal.append({ ...item, channel: 1 })
    expect(journal.rollBack().map(({ seq }) => seq)).toEqual([8n, 7n])
    expect({ tx: journal.tx, heads: new Map(journal.heads) }).toEqual(before)
    expect(journal.append(item).seq).toBe(7n)
  })

  it('refuses an acknowledgment of what is not synced', () => {
    const journal = journalOf(0n)
    journal.append({ kind: ITEM_KINDS.a2a, channel: 1, payload: text('m7'), tag: 'm7', state: 'waiting' })
    expect(() => journal.ack(7n)).toThrow(expect.objectContaining({ code: 'SEQUENCE' }))
    expect(journal.ack(6n)).toHaveLength(6)
    expect(new Map(journal.base.heads)).toEqual(
      new Map([
        [1, head(6n)],
        [2, head(4n)]
      ])
    )
  })

  it('puts a snapshot at base + 1 and renumbers what is unacknowledged; what the peer holds by a head falls out', () => {
    const journal = journalOf(3n)
    const { parts, fallen } = journal.putSnapshot(new Uint8Array(300_000), 'part', new Map([[1, head(5n)]]))
    expect(parts.map(({ seq, prev }) => [seq, prev])).toEqual([
      [4n, 0n],
      [5n, 4n]
    ])
    expect(fallen.map(({ tag }) => tag)).toEqual(['m5'])
    expect([...journal.entries].slice(2).map(({ seq, prev, item }) => [seq, prev, item.tag])).toEqual([
      [6n, 2n, 'm4'],
      [7n, 3n, 'm6']
    ])
    const again = journal.putSnapshot(new Uint8Array(0), 'part', new Map())
    expect(again.parts).toHaveLength(1)
    expect([...journal.entries].map(({ item }) => item.tag)).toEqual(['part', 'm4', 'm6'])
  })
})
