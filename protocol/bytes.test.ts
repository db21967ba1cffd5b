import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { equals, equalsConstantTime, fromHex, fromUtf8, isZero, Reader, toHex, u64Bytes, utf8, Writer, wipe } from './bytes.ts'
import { ProtocolError } from './errors.ts'

function codeOf(run: () => unknown): string | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return (error as ProtocolError).code
  }
}

describe('a reader of bytes from outside', () => {
  it('reads big-endian integers and views, and knows where it is', () => {
    const reader = new Reader(fromHex('01020304050607ffffffffffffffffaabbcc'))
    expect(reader.u8('a')).toBe(1)
    expect(reader.u16('b')).toBe(0x0203)
    expect(reader.u32('c')).toBe(0x04050607)
    expect(reader.u64('d')).toBe(0xffffffffffffffffn)
    expect(reader.position).toBe(15)
    expect(reader.bytes(2, 'e')).toEqual(fromHex('aabb'))
    expect(reader.rest()).toEqual(fromHex('cc'))
    reader.end('all')
  })

  it('[D-30] refuses to read past the end, names the field, and moves nowhere', () => {
    const reader = new Reader(Uint8Array.of(1))
    for (const read of [
      () => reader.u16('count'),
      () => reader.u32('count'),
      () => reader.u64('count'),
      () => reader.bytes(2, 'count'),
      () => reader.bytes(0xffffffff, 'count'),
      () => reader.bytes(-1, 'count'),
      () => reader.bytes(0.5, 'count'),
      () => reader.bytes(Number.NaN, 'count')
    ]) {
      expect(codeOf(read)).toBe('TRUNCATED')
      expect(reader.position).toBe(0)
    }
    expect(codeOf(() => reader.end('frame'))).toBe('TRAILING_BYTES')
    expect(reader.u8('last')).toBe(1)
    expect(codeOf(() => reader.u8('count'))).toBe('TRUNCATED')
  })

  it('[D-30] stays within a view that lies inside a greater buffer', () => {
    const whole = fromHex('aa0102bb')
    const reader = new Reader(whole.subarray(1, 3))
    expect(reader.u16('both')).toBe(0x0102)
    expect(codeOf(() => reader.u8('beyond'))).toBe('TRUNCATED')
  })

  it('[D-30] meets any reads over any bytes with a value or a ProtocolError', () => {
    const arbRead = fc.oneof(
      fc.constantFrom('u8' as const, 'u16' as const, 'u32' as const, 'u64' as const),
      fc.integer({ min: -2, max: 0x1_0000_0000 })
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.array(arbRead, { maxLength: 20 }), (bytes, reads) => {
        const reader = new Reader(bytes)
        for (const read of reads) {
          const before = reader.remaining
          const refused = codeOf(() => (typeof read === 'number' ? reader.bytes(read, 'part') : reader[read]('number'))) !== undefined
          if (refused) expect(reader.remaining).toBe(before)
          expect(reader.position + reader.remaining).toBe(bytes.length)
        }
      })
    )
  })
})

describe('a writer', () => {
  it('writes what a reader reads, growing as it needs', () => {
    fc.assert(
      fc.property(
        fc.nat(0xff),
        fc.nat(0xffff),
        fc.integer({ min: 0, max: 0xffffffff }),
        fc.bigInt({ min: 0n, max: 0xffffffffffffffffn }),
        fc.uint8Array({ maxLength: 600 }),
        (a, b, c, d, rest) => {
          const written = new Writer(1).u8(a).u16(b).u32(c).u64(d).zeros(3).bytes(rest).finish()
          const reader = new Reader(written)
          expect([reader.u8('a'), reader.u16('b'), reader.u32('c'), reader.u64('d')]).toEqual([a, b, c, d])
          expect(isZero(reader.bytes(3, 'zeros'))).toBe(true)
          expect(equals(reader.rest(), rest)).toBe(true)
        }
      )
    )
  })

  it('takes a number that does not fit for a mistake of ours', () => {
    for (const bad of [-1, 256, 0.5, Number.NaN]) expect(() => new Writer().u8(bad)).toThrow(RangeError)
    expect(() => new Writer().u16(0x1_0000)).toThrow(RangeError)
    expect(() => new Writer().u32(0x1_0000_0000)).toThrow(RangeError)
    expect(() => new Writer().u64(-1n)).toThrow(RangeError)
    expect(() => new Writer().u64(1n << 64n)).toThrow(RangeError)
    expect(toHex(u64Bytes(1n))).toBe('0000000000000001')
  })
})

describe('text', () => {
  it('[D-30] is never repaired silently: bytes that are not UTF-8 are refused', () => {
    for (const hex of ['ff', 'c3', 'c328', 'eda080', 'c080', 'f4908080']) expect(codeOf(() => fromUtf8(fromHex(hex)))).toBe('UTF8_INVALID')
    expect(fromUtf8(fromHex('efbbbf61'))).toBe('\ufeffa')
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(fromUtf8(utf8(text))).toBe(text)
      })
    )
  })

  it('[D-30] as hex is lower-case and of whole bytes only', () => {
    for (const bad of ['0', 'AB', '0x', 'zz', ' 00', '00\n']) expect(codeOf(() => fromHex(bad))).toBe('FIELD_INVALID')
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(equals(fromHex(toHex(bytes)), bytes)).toBe(true)
      })
    )
  })
})

it('compares in constant time as it does in any other', () => {
  const arbPair = fc.oneof(
    fc.tuple(fc.uint8Array({ maxLength: 4 }), fc.uint8Array({ maxLength: 4 })),
    fc.uint8Array().map((bytes) => [bytes, bytes.slice()] as [Uint8Array, Uint8Array])
  )
  fc.assert(
    fc.property(arbPair, ([a, b]) => {
      expect(equalsConstantTime(a, b)).toBe(equals(a, b))
    })
  )
})

it('[ESE-01] overwrites secrets in place', () => {
  const [a, b] = [fromHex('0102'), fromHex('03')]
  wipe(a, b)
  expect(isZero(a) && isZero(b)).toBe(true)
})
