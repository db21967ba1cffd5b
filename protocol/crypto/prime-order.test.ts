import { Point } from '@noble/ed25519'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromHex } from '../bytes.ts'
import { hasPrimeOrder } from './prime-order.ts'

/** A point of order 8: its multiples are all the points of small order. */
const T8 = Point.fromHex('26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', true)
const torsion = Array.from({ length: 8 }, (_, i) => (i === 0 ? Point.ZERO : T8.multiply(BigInt(i), false)))

/** By the definition: decoded strictly, not the identity, and the identity after multiplication by L. */
function byDefinition(encoded: Uint8Array): boolean {
  try {
    const point = Point.fromBytes(encoded, false)
    return !point.isSmallOrder() && point.isTorsionFree()
  } catch {
    return false
  }
}

const scalar = fc.bigInt({ min: 1n, max: Point.CURVE().n - 1n })

describe('the prime-order check of a key', () => {
  it('takes every multiple of the base point, and none with a torsion part', () => {
    fc.assert(
      fc.property(scalar, (s) => {
        const point = Point.BASE.multiply(s, false)
        expect(torsion.map((part) => hasPrimeOrder(point.add(part).toBytes()))).toEqual([true, ...new Array<boolean>(7).fill(false)])
      }),
      { numRuns: 20 }
    )
  })

  it('refuses all points of small order, under either sign bit', () => {
    for (const point of torsion) {
      const encoded = point.toBytes()
      const other = Uint8Array.from(encoded)
      other[31] = (other[31] as number) ^ 0x80
      expect([hasPrimeOrder(encoded), hasPrimeOrder(other)]).toEqual([false, false])
    }
  })

  it('says of any 32 bytes what the multiplication by the group order says', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        expect(hasPrimeOrder(bytes)).toBe(byDefinition(bytes))
      }),
      { numRuns: 60 }
    )
  })

  it('refuses a second spelling of a key, and other lengths', () => {
    const near = Array.from({ length: 40 }, (_, i) => {
      const bytes = fromHex(`${'ff'.repeat(31)}7f`)
      bytes[0] = 0xff - i
      return bytes
    })
    expect(near.map((bytes) => hasPrimeOrder(bytes))).toEqual(near.map(byDefinition))
    expect(near.slice(0, 19).some((bytes) => hasPrimeOrder(bytes))).toBe(false) // y ≥ p
    expect(hasPrimeOrder(Point.BASE.toBytes().subarray(0, 31))).toBe(false)
    expect(hasPrimeOrder(new Uint8Array(33))).toBe(false)
  })
})
