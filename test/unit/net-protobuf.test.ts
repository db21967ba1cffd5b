import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { concat } from '../../protocol/bytes.ts'
import { delimited, FieldWriter, fieldsOf } from '../../src/net/protobuf.ts'

describe('fields of protobuf', () => {
  it('come back as they were written', () => {
    const field = fc.oneof(
      fc.record({ number: fc.integer({ min: 1, max: 2_000 }), value: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }) }),
      fc.record({ number: fc.integer({ min: 1, max: 2_000 }), bytes: fc.uint8Array({ maxLength: 300 }) })
    )
    fc.assert(
      fc.property(fc.array(field, { maxLength: 10 }), (fields) => {
        const writer = new FieldWriter()
        for (const one of fields) 'value' in one ? writer.varint(one.number, one.value) : writer.bytes(one.number, one.bytes)
        const read = [...fieldsOf(writer.finish())]
        expect(read.map(({ number }) => number)).toEqual(fields.map(({ number }) => number))
        fields.forEach((one, i) => {
          if ('value' in one) expect(read[i]?.value).toBe(one.value)
          else expect([...(read[i]?.bytes ?? [])]).toEqual([...one.bytes])
        })
      })
    )
  })

  it('are refused where a length or a varint passes the end, and where the kind is unknown', () => {
    for (const bytes of [
      [0x0a, 0x02, 0x01],
      [0x80],
      [0x08],
      [0x08, ...new Array(11).fill(0x80)],
      [0x0b],
      [0x0d, 1, 2, 3],
      [0x0a, 0xff, 0xff, 0xff, 0x7f]
    ]) {
      expect(() => [...fieldsOf(Uint8Array.from(bytes))]).toThrow(RangeError)
    }
  })

  it('never take longer or throw anything else, whatever a peer sends', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          for (const { bytes: part } of fieldsOf(bytes)) expect(part.length).toBeLessThanOrEqual(bytes.length)
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError)
        }
      })
    )
  })

  it('pass over fixed numbers', () => {
    expect([...fieldsOf(Uint8Array.of(0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 5))].map(({ number, value }) => [number, value])).toEqual([
      [1, 0n],
      [2, 5n]
    ])
  })
})

describe('messages after their lengths', () => {
  it('are taken apart, and one that has not all come is left out', () => {
    const frame = (bytes: Uint8Array) => new FieldWriter().length(bytes.length).finish()
    const first = new Uint8Array(200).fill(1)
    const second = Uint8Array.of(2)
    const all = concat([frame(first), first, frame(second), second])
    expect(delimited(all, 200).map((one) => one.length)).toEqual([200, 1])
    expect(delimited(all.subarray(0, all.length - 1), 200).map((one) => one.length)).toEqual([200])
    expect(delimited(Uint8Array.of(0xc8), 200)).toEqual([])
  })

  it('are refused from the bound on, before their bytes come', () => {
    expect(() => delimited(Uint8Array.of(0xc9, 0x01), 200)).toThrow(RangeError)
    expect(() => delimited(new Uint8Array(11).fill(0x80), 200)).toThrow(RangeError)
  })
})
