import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex, toHex } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { nonceBytes, nonceOf, putSeed, requestSeed, requestWorkBits, WORK_HEADER_BYTES, workBits, workSeed } from './work.ts'

interface Row {
  id: string
  note: string
  key?: string
  record?: string
  seed: string
  nonce: string
  bits: number
}
const rows: Row[] = JSON.parse(readFileSync(new URL('../vectors/work.json', import.meta.url), 'utf8'))

function zeroBits(digest: Uint8Array): number {
  const binary = [...digest].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  return binary.indexOf('1') < 0 ? 256 : binary.indexOf('1')
}

describe('proof of work', () => {
  it.each(rows.map((row) => [`[AD-02] [G-30] ${row.id}: ${row.note}`, row] as const))('%s', (_title, row) => {
    expect(workBits(fromHex(row.seed), fromHex(row.nonce))).toBe(row.bits)
  })

  it('[AD-02] binds the work of a PUT to its key and its record', () => {
    const row = rows.find(({ id }) => id === 'work-put') as Row
    for (const crypto of [nodeCrypto, nobleCrypto]) {
      const record = fromHex(row.record as string)
      expect(toHex(putSeed(crypto, fromHex(row.key as string), record))).toBe(row.seed)
      record[0] = 1 - (record[0] as number)
      expect(toHex(putSeed(crypto, fromHex(row.key as string), record))).not.toBe(row.seed)
    }
  })

  it('[G-30] counts the leading zero bits that node:crypto counts, for any header', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 120, maxLength: 120 }), (header) => {
        const covered = header.slice(0, WORK_HEADER_BYTES)
        covered[4] = 0
        const seed = createHash('sha256').update('rookery/v1/pow\0').update(covered).digest()
        const digest = createHash('sha256').update(seed).update(header.subarray(WORK_HEADER_BYTES)).digest()
        expect(toHex(requestSeed(header))).toBe(seed.toString('hex'))
        expect(requestWorkBits(header)).toBe(zeroBits(digest))
        expect(workBits(seed, header.subarray(WORK_HEADER_BYTES))).toBe(zeroBits(digest))
      }),
      { numRuns: 300 }
    )
  })

  it('[G-30] [D-03] covers every byte of the header but the hops left', () => {
    const header = Uint8Array.from({ length: 120 }, (_, i) => i * 7)
    const seed = toHex(requestSeed(header))
    for (let at = 0; at < WORK_HEADER_BYTES; at++) {
      const changed = header.slice()
      changed[at] = (changed[at] as number) ^ 0x10
      if (at === 4) expect(toHex(requestSeed(changed))).toBe(seed)
      else expect(toHex(requestSeed(changed))).not.toBe(seed)
    }
  })

  it('writes a nonce big-endian and reads it back', () => {
    expect(toHex(nonceBytes(0x0102030405060708n))).toBe('0102030405060708')
    fc.assert(fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (nonce) => nonceOf(nonceBytes(nonce)) === nonce))
  })

  it('refuses a seed of another length', () => {
    expect(() => workSeed(new Uint8Array(31))).toThrow(expect.objectContaining({ code: 'LENGTH', field: 'seed' }))
  })
})
