import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from '../bytes.ts'
import { nobleCrypto as crypto } from '../crypto/noble.ts'
import { eid } from '../identity/eid.ts'
import { EseReplica } from './replica.ts'
import { EseOpener, EseSealer, eseId, eseSeed, nextEseSeed } from './seal.ts'
import { decodeViewPart, encodeViewPart } from './view.ts'

interface Vectors {
  exported: string
  sid: string
  writer: string
  successor: string
  id: string
  successorId: string
  seed: string
  rotatedSeed: string
  batch: string
  ops: { run: string; n: number; payload: string }[]
  rotatedOp: string
  views: { title: string; plain: string; payload: string }[]
}

const v = JSON.parse(readFileSync(new URL('../vectors/ese-seal.json', import.meta.url), 'utf8')) as Vectors
const sid = fromHex(v.sid)
const [writer, successor] = [eid(fromHex(v.writer)), eid(fromHex(v.successor))]

describe('[ESE-03] vectors of a sealed ESE pair', () => {
  it('ids and seeds come from the exporter, the session and the EID of the writer; a rotation leads on', () => {
    expect(toHex(eseId(crypto, sid, writer))).toBe(v.id)
    expect(toHex(eseId(crypto, sid, successor))).toBe(v.successorId)
    const seed = eseSeed(crypto, fromHex(v.exported), sid, writer)
    expect(toHex(seed)).toBe(v.seed)
    expect(toHex(nextEseSeed(crypto, seed, successor))).toBe(v.rotatedSeed)
  })

  it('batches are sealed to the bytes beside them, and open', () => {
    const opener = new EseOpener(crypto, fromHex(v.seed), 'op')
    const sealers = new Map<string, EseSealer>()
    for (const { run, n, payload } of v.ops) {
      const sealer = sealers.get(run) ?? new EseSealer(crypto, fromHex(v.seed), { id: fromHex(v.id), run: fromHex(run), use: 'op' })
      sealers.set(run, sealer)
      expect(toHex(sealer.seal(fromHex(v.batch)))).toBe(payload)
      const { head, plaintext } = opener.open(fromHex(payload))
      expect([toHex(head.id), toHex(head.run), head.n, toHex(plaintext)]).toEqual([v.id, run, BigInt(n), v.batch])
    }
  })

  it('views too, and their parts read back', () => {
    const opener = new EseOpener(crypto, fromHex(v.seed), 'view')
    for (const { plain, payload } of v.views) {
      expect(toHex(opener.open(fromHex(payload)).plaintext)).toBe(plain)
      expect(toHex(encodeViewPart(decodeViewPart(fromHex(plain))))).toBe(plain)
    }
  })

  it('[ESE-04] what was sealed before a rotation does not open after it, and the other way round', () => {
    const refuses = (seed: string, payload: string) =>
      expect(() => new EseOpener(crypto, fromHex(seed), 'op').open(fromHex(payload))).toThrow(
        expect.objectContaining({ code: 'AEAD_OPEN' })
      )
    refuses(v.rotatedSeed, v.ops[0]?.payload ?? '')
    refuses(v.seed, v.rotatedOp)
    const opened = new EseOpener(crypto, fromHex(v.rotatedSeed), 'op').open(fromHex(v.rotatedOp))
    expect(toHex(opened.plaintext)).toBe(v.batch)
  })

  it('[ESE-03] no bit of an item can change', () => {
    const payload = fromHex(v.ops[0]?.payload ?? '')
    for (let bit = 0; bit < payload.length * 8; bit++) {
      const bad = payload.slice()
      bad[bit >> 3] = (bad[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(() => new EseOpener(crypto, fromHex(v.seed), 'op').open(bad)).toThrow(expect.objectContaining({ code: 'AEAD_OPEN' }))
    }
  })

  it('a replica takes them in their order, and another run from its first', () => {
    const replica = new EseReplica(crypto)
    const [first, second, other] = v.ops.map(({ run, n }) => ({ run: fromHex(run), n: BigInt(n) }))
    if (first === undefined || second === undefined || other === undefined) throw new Error('three items are needed')
    expect(() => replica.apply(second, fromHex(v.batch))).toThrow(expect.objectContaining({ code: 'SEQUENCE' }))
    for (const point of [first, second, other]) replica.apply(point, fromHex(v.batch))
    expect(() => replica.apply(other, fromHex(v.batch))).toThrow(expect.objectContaining({ code: 'SEQUENCE' }))
    expect(replica.map.get('a')).toBe(1)
  })
})
