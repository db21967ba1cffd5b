import { decode as dagDecode, encode as dagEncode } from '@ipld/dag-cbor'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { equals, fromHex, toHex, utf8 } from './bytes.ts'
import { CBOR_DEPTH_MAX, CborFields, type CborValue, decodeCbor, encodeCbor } from './cbor.ts'
import { ProtocolError } from './errors.ts'

function errorOf(run: () => unknown): ProtocolError | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return error as ProtocolError
  }
}

const arbCbor: fc.Arbitrary<CborValue> = fc.letrec<{ value: CborValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.maxSafeInteger(),
    fc.string({ unit: 'grapheme' }),
    fc.boolean(),
    fc.uint8Array({ maxLength: 40 }),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(fc.string({ unit: 'grapheme' }), tie('value'), { maxKeys: 5, noNullPrototype: true })
  )
})).value

/** A head with its length in eight bytes, whatever the length. */
function longHead(major: number, length: bigint): string {
  return toHex(Uint8Array.of((major << 5) | 27)) + length.toString(16).padStart(16, '0')
}

describe('deterministic CBOR', () => {
  it.each([
    ['00', 0],
    ['17', 23],
    ['1818', 24],
    ['1a000f4240', 1_000_000],
    ['1b001fffffffffffff', Number.MAX_SAFE_INTEGER],
    ['20', -1],
    ['3b001ffffffffffffe', Number.MIN_SAFE_INTEGER],
    ['f4', false],
    ['f5', true],
    ['60', ''],
    ['62c3bc', 'ü'],
    ['40', new Uint8Array(0)],
    ['4401020304', Uint8Array.of(1, 2, 3, 4)],
    ['80', []],
    ['83010203', [1, 2, 3]],
    ['a0', {}],
    ['a26161016162820203', { a: 1, b: [2, 3] }],
    ['a2617a0162616102', { z: 1, aa: 2 }]
  ])('[D-30] writes and reads %s', (hex, value) => {
    expect(toHex(encodeCbor(value))).toBe(hex)
    expect(decodeCbor(fromHex(hex))).toEqual(value)
  })

  it.each([
    ['no bytes', ''],
    ['a half float', 'f93c00'],
    ['a float', 'fa3f800000'],
    ['a double', 'fb3ff0000000000000'],
    ['NaN', 'f97e00'],
    ['infinity', 'f97c00'],
    ['null', 'f6'],
    ['undefined', 'f7'],
    ['null inside', '81f6'],
    ['another simple value', 'f0'],
    ['a simple value in two bytes', 'f8ff'],
    ['a tag', 'c11a514b67b0'],
    ['a CID tag', 'd82a450001711220'],
    ['an indefinite list', '9f01ff'],
    ['an indefinite map', 'bf616101ff'],
    ['indefinite bytes', '5f4101ff'],
    ['indefinite text', '7f6161ff'],
    ['a break alone', 'ff'],
    ['a reserved head', '1c'],
    ['an integer in more bytes than it needs', '1817'],
    ['a length in more bytes than it needs', '780161'],
    ['a list length in more bytes than it needs', '980101'],
    ['a map length in more bytes than it needs', 'b801616101'],
    ['unsorted keys', 'a2616201616102'],
    ['a longer key before a shorter', 'a262616101617a02'],
    ['a duplicate key', 'a2616101616101'],
    ['a key that is a number', 'a10101'],
    ['a key that is bytes', 'a1416101'],
    ['2^53', '1b0020000000000000'],
    ['2^64 − 1', '1bffffffffffffffff'],
    ['−2^53', '3b001fffffffffffff'],
    ['−2^64', '3bffffffffffffffff'],
    ['bad UTF-8', '62c328'],
    ['half a UTF-8 character', '61c3'],
    ['a surrogate in UTF-8', '63eda080'],
    ['overlong UTF-8', '62c1a1'],
    ['bad UTF-8 in a key', 'a161ff01'],
    ['one byte too many', '0100'],
    ['two items', '0101'],
    ['a list that ends early', '8201'],
    ['a map that ends early', 'a16161'],
    ['text that ends early', '636161'],
    ['bytes that end early', '43ffff'],
    ['a head that ends early', '1900']
  ])('[D-30] refuses %s (%s)', (_, hex) => {
    expect(errorOf(() => decodeCbor(fromHex(hex)))?.code).toMatch(/^CBOR_(INVALID|NOT_CANONICAL)$/)
  })

  it('[D-30] refuses lengths that nobody sent, without making room for them', () => {
    const before = process.memoryUsage()
    for (const major of [2, 3, 4, 5]) {
      for (const length of [2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 63n, 2n ** 64n - 1n]) {
        expect(errorOf(() => decodeCbor(fromHex(longHead(major, length))))?.code).toBe('CBOR_INVALID')
        expect(errorOf(() => decodeCbor(fromHex(`81${longHead(major, length)}00`)))?.code).toBe('CBOR_INVALID')
      }
    }
    const after = process.memoryUsage()
    expect(after.heapTotal + after.external - before.heapTotal - before.external).toBeLessThan(64 * 1024 * 1024)
  })

  it('[D-30] refuses hostile nesting before it decodes, however deep', () => {
    for (const head of [0x81, 0xa1]) {
      const deep = new Uint8Array(100_001).fill(head)
      deep[100_000] = 0
      expect(errorOf(() => decodeCbor(deep))?.code).toBe('CBOR_INVALID')
    }
    const nested = (levels: number) => Uint8Array.of(...new Array<number>(levels).fill(0x81), 0)
    expect(errorOf(() => decodeCbor(nested(CBOR_DEPTH_MAX)))).toBeUndefined()
    expect(errorOf(() => decodeCbor(nested(CBOR_DEPTH_MAX + 1)))?.code).toBe('CBOR_INVALID')
  })

  it('[D-30] keeps a member named __proto__ a member, and no prototype changes', () => {
    const inner = { admin: true }
    const hex = toHex(encodeCbor(JSON.parse('{"__proto__":{"admin":true}}')))
    expect(hex).toBe(`a1695f5f70726f746f5f5f${toHex(encodeCbor(inner))}`)
    const error = errorOf(() => {
      const value = decodeCbor(fromHex(hex)) as { [key: string]: CborValue }
      expect(Object.hasOwn(value, '__proto__')).toBe(true)
      expect(value.admin).toBeUndefined()
      new CborFields(value, 'thing').end()
    })
    expect(error?.code).toBe('FIELD_UNKNOWN')
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
  })

  it('[D-30] gives back whatever it wrote', () => {
    fc.assert(
      fc.property(arbCbor, (value) => {
        expect(decodeCbor(encodeCbor(value))).toEqual(value)
      })
    )
  })

  it('[D-30] writes what another implementation writes, and reads what that one wrote', () => {
    const unpaired = fc.string({ unit: 'binary', maxLength: 40 })
    fc.assert(
      fc.property(fc.oneof(arbCbor, unpaired, fc.dictionary(unpaired, fc.integer(), { noNullPrototype: true })), (value) => {
        const bytes = encodeCbor(value)
        expect(toHex(bytes)).toBe(toHex(dagEncode(value)))
        expect(decodeCbor(bytes)).toEqual(dagDecode(bytes))
      }),
      { numRuns: 1_000 }
    )
  })

  it.each([
    ['a fraction', 1.5],
    ['an integer beyond 2^53 − 1', 2 ** 53],
    ['null', null],
    ['a bigint', 1n]
  ])('[D-30] writes no %s', (_, value) => {
    expect(errorOf(() => encodeCbor(value as CborValue))?.code).toBe('CBOR_INVALID')
    expect(toHex(encodeCbor([1]))).toBe('8101')
  })

  it('writes items larger than the buffer that it keeps, one after another', () => {
    for (const length of [10, 100_000, 3, 1_100_000]) {
      const bytes = new Uint8Array(length).fill(length % 251)
      expect(decodeCbor(encodeCbor({ bytes, n: length }))).toEqual({ bytes, n: length })
    }
  })

  it('[D-30] meets arbitrary bytes with a value or a ProtocolError, and a value has these bytes only', () => {
    const near = fc.tuple(arbCbor, fc.nat(), fc.integer({ min: 1, max: 255 })).map(([value, at, change]) => {
      const bytes = encodeCbor(value).slice()
      bytes[at % bytes.length] = (bytes[at % bytes.length] as number) ^ change
      return bytes
    })
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), near), (bytes) => {
        let value: CborValue
        try {
          value = decodeCbor(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
          return
        }
        expect(equals(encodeCbor(value), bytes)).toBe(true)
      }),
      { numRuns: 1_000 }
    )
  })

  it('leaves out members that are undefined, inside lists too', () => {
    expect(toHex(encodeCbor({ a: undefined, b: [{ c: undefined, d: 1 }] as unknown as CborValue }))).toBe('a1616281a1616401')
  })
})

describe('the reader of members', () => {
  const read = (value: CborValue) => new CborFields(value, 'thing')
  const field = (run: () => unknown) => {
    const error = errorOf(run)
    return [error?.code, error?.field]
  }

  it('gives each member once, by name and type', () => {
    const fields = read({ b: Uint8Array.of(1), n: 7, t: 'ü', f: false, l: [1, 2], m: { x: 'in' }, mode: 'sleep' })
    expect(fields.bytes('b', { length: 1 })).toEqual(Uint8Array.of(1))
    expect(fields.uint('n', { max: 7 })).toBe(7)
    expect(fields.text('t', { bytesMax: 2 })).toBe('ü')
    expect(fields.flag('f')).toBe(false)
    expect(fields.list('l', { max: 2 }, (item) => item)).toEqual([1, 2])
    expect(fields.oneOf('mode', ['sleep'])).toBe('sleep')
    expect(fields.optional('absent', (name) => fields.uint(name))).toBeUndefined()
    const inner = fields.map('m')
    expect(inner.oneOf('x', ['in', 'out'])).toBe('in')
    inner.end()
    fields.end()
  })

  it('[DS-07] names the member that is missing, wrong or unknown', () => {
    expect(field(() => read({}).uint('n'))).toEqual(['FIELD_MISSING', 'thing.n'])
    expect(field(() => read({ zz: 1 }).end())).toEqual(['FIELD_UNKNOWN', 'thing.zz'])
    expect(
      field(() =>
        read({ m: { zz: 1 } })
          .map('m')
          .end()
      )
    ).toEqual(['FIELD_UNKNOWN', 'thing.m.zz'])
    expect(field(() => read([]))).toEqual(['FIELD_INVALID', 'thing'])
    expect(field(() => read(utf8('x')))).toEqual(['FIELD_INVALID', 'thing'])
    expect(field(() => read('x'))).toEqual(['FIELD_INVALID', 'thing'])
  })

  it.each<[string, CborValue, (fields: CborFields) => unknown]>([
    ['bytes that are text', 'x', (f) => f.bytes('n', { length: 1 })],
    ['bytes of another length', new Uint8Array(2), (f) => f.bytes('n', { length: 1 })],
    ['too many bytes', new Uint8Array(2), (f) => f.bytes('n', { max: 1 })],
    ['too few bytes', new Uint8Array(0), (f) => f.bytes('n', { min: 1, max: 1 })],
    ['a negative number', -1, (f) => f.uint('n')],
    ['a number over its bound', 8, (f) => f.uint('n', { max: 7 })],
    ['a number under its bound', 0, (f) => f.uint('n', { min: 1, max: 7 })],
    ['a number that is text', '7', (f) => f.uint('n')],
    ['text of too many bytes', 'ü', (f) => f.text('n', { bytesMax: 1 })],
    ['text of another form', 'x', (f) => f.text('n', { bytesMax: 9, pattern: /^y$/ })],
    ['text that is a number', 7, (f) => f.text('n', { bytesMax: 9 })],
    ['a word that is none of the allowed', 'x', (f) => f.oneOf('n', ['y'])],
    ['a flag that is a number', 1, (f) => f.flag('n')],
    ['a list that is too long', [1, 2], (f) => f.list('n', { max: 1 }, (item) => item)],
    ['a list that is too short', [], (f) => f.list('n', { min: 1, max: 1 }, (item) => item)],
    ['a list that is a map', {}, (f) => f.list('n', { max: 1 }, (item) => item)],
    ['a map that is a list', [], (f) => f.map('n')]
  ])('[D-30] refuses %s', (_, value, take) => {
    const [code, name] = field(() => take(read({ n: value })))
    expect([code, name]).toEqual(['FIELD_INVALID', 'thing.n'])
  })

  it('gives byte strings of their own: what they were read from may be wiped or used again', () => {
    const bytes = encodeCbor({ a: Uint8Array.of(1, 2, 3), b: [Uint8Array.of(4)] })
    const value = decodeCbor(bytes) as { a: Uint8Array; b: [Uint8Array] }
    bytes.fill(0)
    expect([...value.a, ...value.b[0]]).toEqual([1, 2, 3, 4])
    expect(value.a.buffer.byteLength).toBe(3)
  })
})
