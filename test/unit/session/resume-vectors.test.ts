import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from '../../../protocol/bytes.ts'
import { nobleCrypto } from '../../../protocol/crypto/noble.ts'
import type { CryptoProvider } from '../../../protocol/crypto/provider.ts'
import { Journal } from '../../../protocol/session/journal.ts'
import { decodeReady } from '../../../protocol/session/ready.ts'
import { reconcile } from '../../../protocol/session/reconcile.ts'
import { decodeSnapshotPart, encodeSnapshot } from '../../../protocol/session/snapshot.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'

interface Head {
  channel: number
  number: string
  digest: string
}
interface Row<Decoded, Given> {
  id: string
  req: string[]
  note: string
  given: Given
  hex: string
  decoded: Decoded
  error?: string
}
interface Sent {
  channel: number
  kind: number
  payload: string
}
interface ResumeGiven {
  h0: string
  sent: Sent[]
  acked: string
  held: { seq: string; hash: string; heads: Head[] }
}
type Verdict = { verdict: 'resend'; numbers: string[]; prev: string[] } | { verdict: 'snapshot' } | { verdict: 'diverged'; field: string }
interface Part {
  index: number
  count: number
  base: string
  hash: string
  heads: Head[]
  bytes: string
}

function rows<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../../protocol/vectors/${name}.json`, import.meta.url), 'utf8'))
}
const title = ({ req, id, note }: { req: string[]; id: string; note: string }) => `${req.map((one) => `[${one}]`).join(' ')} ${id}: ${note}`
const headsOf = (heads: Head[]) =>
  new Map(heads.map(({ channel, number, digest }) => [channel, { seq: BigInt(number), digest: fromHex(digest) }]))

function journalOf(crypto: CryptoProvider, { h0, sent, acked }: ResumeGiven): Journal<undefined> {
  const journal = new Journal<undefined>(crypto, { seq: 0n, hash: fromHex(h0) })
  for (const { channel, kind, payload } of sent) {
    journal.append({ channel, kind, payload: fromHex(payload), tag: undefined, state: 'sent' })
  }
  journal.markSynced(journal.tx.seq)
  journal.ack(BigInt(acked))
  return journal
}

function verdictOf(crypto: CryptoProvider, { hex, given }: Row<Verdict, ResumeGiven>): Verdict {
  const held = { rx: { seq: BigInt(given.held.seq), hash: fromHex(given.held.hash) }, heads: headsOf(given.held.heads) }
  const found = reconcile(decodeReady(fromHex(hex)), journalOf(crypto, given), held)
  if (found.kind === 'snapshot') return { verdict: 'snapshot' }
  if (found.kind === 'diverged') return { verdict: 'diverged', field: found.error.field ?? '' }
  return {
    verdict: 'resend',
    numbers: found.entries.map(({ seq }) => seq.toString()),
    prev: found.entries.map(({ prev }) => prev.toString())
  }
}

describe('vectors of pss-resume', () => {
  for (const row of rows<Row<Verdict, ResumeGiven>>('pss-resume')) {
    it(title(row), () => {
      for (const crypto of [nodeCrypto, nobleCrypto]) expect(verdictOf(crypto, row)).toEqual(row.decoded)
    })
  }
})

describe('vectors of pss-snapshot', () => {
  const all = rows<Row<Part, undefined> & { chain?: { number: string; prev: string; digest: string; hash: string; channel: number }[] }>(
    'pss-snapshot'
  )
  for (const row of all) {
    it(title(row), () => {
      if (row.error !== undefined) {
        expect(() => decodeSnapshotPart(fromHex(row.hex))).toThrow(expect.objectContaining({ name: 'ProtocolError', code: row.error }))
        return
      }
      const { index, count, base, bytes } = decodeSnapshotPart(fromHex(row.hex))
      expect({
        index,
        count,
        base: base.seq.toString(),
        hash: toHex(base.hash),
        heads: [...base.heads].map(([channel, { seq, digest }]) => ({ channel, number: seq.toString(), digest: toHex(digest) })),
        bytes: toHex(bytes)
      }).toEqual(row.decoded)
      if (count === 1) expect(encodeSnapshot({ base, bytes }).map(toHex)).toEqual([row.hex])
    })
  }

  it('[PSS-07] [G-50] the chain goes on behind a snapshot, whose part is base + 1, and what was unacknowledged takes new numbers', () => {
    const row = all.find(({ chain }) => chain !== undefined)
    const given = rows<Row<Verdict, ResumeGiven>>('pss-resume')[0]?.given as ResumeGiven
    const journal = journalOf(nodeCrypto, { ...given, acked: '4' })
    journal.putSnapshot(fromHex(row?.decoded.bytes ?? ''), undefined, new Map())
    expect(
      [...journal.entries].map(({ seq, prev, digest, hash, item }) => ({
        number: seq.toString(),
        prev: prev.toString(),
        digest: toHex(digest),
        hash: toHex(hash),
        channel: item.channel
      }))
    ).toEqual(row?.chain)
  })
})
