import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isZero, toHex } from '../bytes.ts'
import { nobleCrypto as crypto } from '../crypto/noble.ts'
import { ProtocolError } from '../errors.ts'
import { decodeEseBatch, ESE_KEY_BYTES_MAX, ESE_VALUE_BYTES_MAX, type EseWrite, encodeEseBatch, eseBatch } from './batch.ts'
import type { JsonValue } from './json.ts'
import { EseMap } from './map.ts'

const json = fc.jsonValue({ maxDepth: 3, noUnicodeString: false }) as fc.Arbitrary<JsonValue>
const key = fc.constantFrom('a', 'b', 'task/1', 'ключ', '😀', '__proto__')
const write: fc.Arbitrary<EseWrite> = fc.oneof(
  fc.record({ op: fc.constant('set' as const), key, value: fc.oneof(json, fc.uint8Array({ maxLength: 64 })) }),
  fc.record({ op: fc.constant('delete' as const), key }),
  fc.record({ op: fc.constant('merge' as const), key, patch: json }),
  fc.record({
    op: fc.constant('patch' as const),
    key,
    patch: fc.array(fc.record({ op: fc.constant('add' as const), path: fc.constantFrom('', '/a', '/-', '/0', '/a/b'), value: json }), {
      maxLength: 3
    })
  })
)
const step = fc.record({ writes: fc.array(write, { maxLength: 5 }), clear: fc.boolean(), restart: fc.nat(9) })

function refusalOf(run: () => unknown): ProtocolError {
  try {
    run()
  } catch (error) {
    if (error instanceof ProtocolError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('an ESE map', () => {
  it('[PSS-02] a replica equals its writer after any operations, refused ones, and restarts from a snapshot at any point', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const writer = new EseMap(crypto)
        let replica = new EseMap(crypto)
        for (const { writes, clear, restart } of steps) {
          const before = toHex(writer.hash())
          const bytes = encodeEseBatch(eseBatch(writes, { clear: clear && restart > 5 }))
          try {
            writer.apply(decodeEseBatch(bytes))
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError)
            expect(toHex(writer.hash())).toBe(before)
            expect(() => replica.apply(decodeEseBatch(bytes))).toThrow(ProtocolError)
            continue
          }
          replica.apply(decodeEseBatch(bytes))
          if (restart === 0) replica = EseMap.fromSnapshot(crypto, writer.bounds, writer.snapshot(64))
          expect(toHex(replica.hash())).toBe(toHex(writer.hash()))
          expect(replica.bytes).toBe(writer.bytes)
        }
        expect([...replica.keys()].sort()).toEqual([...writer.keys()].sort())
        for (const name of writer.keys()) expect(replica.get(name)).toEqual(writer.get(name))
      }),
      { numRuns: 500 }
    )
  })

  it('[ESE-01] applies a batch as a whole or not at all', () => {
    const map = new EseMap(crypto)
    map.apply(eseBatch([{ op: 'set', key: 'a', value: 1 }]))
    const before = toHex(map.hash())
    const batch = eseBatch([
      { op: 'set', key: 'a', value: 2 },
      { op: 'patch', key: 'missing', patch: [] }
    ])
    expect(refusalOf(() => map.apply(batch)).field).toBe('key')
    expect(toHex(map.hash())).toBe(before)
    expect(map.get('a')).toBe(1)
  })

  it('says which keys changed, and only those', () => {
    const map = new EseMap(crypto)
    map.apply(
      eseBatch([
        { op: 'set', key: 'a', value: 1 },
        { op: 'set', key: 'b', value: 2 }
      ])
    )
    const delta = map.apply(
      eseBatch([
        { op: 'set', key: 'a', value: 1 },
        { op: 'delete', key: 'b' },
        { op: 'delete', key: 'never' },
        { op: 'merge', key: 'c', patch: { x: 1 } }
      ])
    )
    expect(delta).toEqual({ cleared: false, keys: ['b', 'c'] })
    expect(map.apply(eseBatch([{ op: 'set', key: 'd', value: null }], { clear: true }))).toEqual({ cleared: true, keys: ['d'] })
    expect([...map.keys()]).toEqual(['d'])
  })

  it('[ESE-04] erasing overwrites every buffer, and nothing can be written any more', () => {
    const map = new EseMap(crypto)
    map.apply(
      eseBatch([
        { op: 'set', key: 'a', value: 'secret' },
        { op: 'set', key: 'b', value: Uint8Array.of(1, 2, 3) }
      ])
    )
    const buffers = ['a', 'b'].map((name) => map.held(name) as Uint8Array)
    expect(buffers.some(isZero)).toBe(false)
    map.erase()
    expect(buffers.every(isZero)).toBe(true)
    expect(map.size).toBe(0)
    expect(refusalOf(() => map.apply(eseBatch([]))).code).toBe('OUT_OF_ORDER')
  })

  it('[ESE-04] overwrites what a change replaces, a delete or a clear takes away', () => {
    const map = new EseMap(crypto)
    const held = (name: string) => map.held(name) as Uint8Array
    map.apply(eseBatch(['a', 'b', 'c'].map((name) => ({ op: 'set' as const, key: name, value: 'secret' }))))
    const [a, b, c] = [held('a'), held('b'), held('c')]
    map.apply(
      eseBatch([
        { op: 'set', key: 'a', value: 0 },
        { op: 'delete', key: 'b' }
      ])
    )
    expect([isZero(a), isZero(b), isZero(c)]).toEqual([true, true, false])
    map.apply(eseBatch([], { clear: true }))
    expect(isZero(c)).toBe(true)
  })

  it('refuses what is over a bound and names it', () => {
    const map = new EseMap(crypto, { keysMax: 2, valueBytesMax: 300, bytesMax: 200 })
    const set = (name: string, value: string) => eseBatch([{ op: 'set', key: name, value }])
    map.apply(set('a', ''))
    map.apply(set('b', ''))
    expect(refusalOf(() => map.apply(set('c', ''))).field).toBe('keysMax')
    expect(refusalOf(() => map.apply(set('b', 'x'.repeat(200)))).field).toBe('bytesMax')
    expect(refusalOf(() => map.apply(set('b', 'x'.repeat(299)))).field).toBe('valueBytesMax')
    expect(refusalOf(() => set('k'.repeat(ESE_KEY_BYTES_MAX + 1), '')).field).toBe('key')
    expect(refusalOf(() => set('', '')).field).toBe('key')
    expect(refusalOf(() => set('a', 'x'.repeat(ESE_VALUE_BYTES_MAX))).field).toBe('value')
  })

  it('a value is not shared with who reads or writes it', () => {
    const map = new EseMap(crypto)
    const blob = Uint8Array.of(1, 2, 3)
    map.apply(eseBatch([{ op: 'set', key: 'a', value: blob }]))
    blob.fill(9)
    ;(map.get('a') as Uint8Array).fill(7)
    expect(map.get('a')).toEqual(Uint8Array.of(1, 2, 3))
  })

  it('decoding any bytes gives a batch that encodes to the same bytes, or a ProtocolError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          expect(toHex(encodeEseBatch(decodeEseBatch(bytes)))).toBe(toHex(bytes))
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })

  it('refuses mutated batches without changing anything', () => {
    const good = encodeEseBatch(
      eseBatch([
        { op: 'set', key: 'a', value: { n: 1 } },
        { op: 'merge', key: 'a', patch: { m: [1.5, null] } }
      ])
    )
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const map = new EseMap(crypto)
        const bad = good.slice()
        bad[at] = (bad[at] as number) ^ flip
        try {
          map.apply(decodeEseBatch(bad))
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
          expect(map.size).toBe(0)
        }
      })
    )
  })
})
