import { describe, expect, it } from 'vitest'
import { utf8 } from '../bytes.ts'
import { canonicalJson } from '../canonical-json.ts'
import { ProtocolError } from '../errors.ts'
import { type JsonValue, parseCanonicalJson } from './json.ts'
import { applyJsonPatch, applyMergePatch, type JsonPatchOp, jsonPatchOf } from './patch.ts'

describe('canonical JSON', () => {
  it.each([
    [{ b: 1, a: [true, null] }, '{"a":[true,null],"b":1}'],
    [1e21, '1e+21'],
    [-0, '0'],
    [0.1 + 0.2, '0.30000000000000004'],
    ['\u0007é😀', '"\\u0007é😀"'],
    [{ '\u20ac': 1, '\r': 2, '1': 3, '😀': 4 }, '{"\\r":2,"1":3,"€":1,"😀":4}']
  ])('%j is written %s', (value, text) => {
    expect(canonicalJson(value)).toBe(text)
    expect(canonicalJson(parseCanonicalJson(utf8(text)))).toBe(text)
  })

  it.each([
    '{"b":1,"a":2}',
    ' 1',
    '1.0',
    '-0',
    '1e999',
    '9007199254740993',
    '{"a":1,"a":1}',
    '"\\u0061"',
    `${'['.repeat(65)}${']'.repeat(65)}`
  ])('refuses %s: another spelling, or no value', (text) => expect(() => parseCanonicalJson(utf8(text))).toThrow(ProtocolError))

  it.each([[Number.NaN], [Number.POSITIVE_INFINITY], [1n], [new Date(0)], [() => {}], ['\ud800'], [[undefined]]])(
    '%s is no JSON value',
    (value) => {
      expect(() => canonicalJson(value)).toThrow(ProtocolError)
    }
  )
})

describe('JSON Patch (RFC 6902)', () => {
  it.each<[string, JsonValue, JsonPatchOp[], JsonValue]>([
    ['A.1 adds a member', { foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux' }], { baz: 'qux', foo: 'bar' }],
    ['A.2 adds to a list', { foo: ['bar', 'baz'] }, [{ op: 'add', path: '/foo/1', value: 'qux' }], { foo: ['bar', 'qux', 'baz'] }],
    ['A.3 removes a member', { baz: 'qux', foo: 'bar' }, [{ op: 'remove', path: '/baz' }], { foo: 'bar' }],
    ['A.4 removes from a list', { foo: ['bar', 'qux', 'baz'] }, [{ op: 'remove', path: '/foo/1' }], { foo: ['bar', 'baz'] }],
    ['A.5 replaces', { baz: 'qux', foo: 'bar' }, [{ op: 'replace', path: '/baz', value: 'boo' }], { baz: 'boo', foo: 'bar' }],
    [
      'A.6 moves a value',
      { foo: { bar: 'baz', waldo: 'fred' }, qux: { corge: 'grault' } },
      [{ op: 'move', from: '/foo/waldo', path: '/qux/thud' }],
      { foo: { bar: 'baz' }, qux: { corge: 'grault', thud: 'fred' } }
    ],
    [
      'A.7 moves in a list',
      { foo: ['all', 'grass', 'cows', 'eat'] },
      [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
      { foo: ['all', 'cows', 'eat', 'grass'] }
    ],
    ['A.8 tests', { baz: 'qux', foo: ['a', 2, 'c'] }, [{ op: 'test', path: '/foo/1', value: 2 }], { baz: 'qux', foo: ['a', 2, 'c'] }],
    [
      'A.14 escapes',
      { '/': 9, '~1': 10 },
      [
        { op: 'test', path: '/~01', value: 10 },
        { op: 'remove', path: '/~1' }
      ],
      { '~1': 10 }
    ],
    [
      'A.16 adds a list to a list',
      { foo: ['bar'] },
      [{ op: 'add', path: '/foo/-', value: ['abc', 'def'] }],
      { foo: ['bar', ['abc', 'def']] }
    ],
    ['replaces the whole', [1], [{ op: 'replace', path: '', value: null }], null],
    [
      'copies deeply',
      { a: { b: 1 } },
      [
        { op: 'copy', from: '/a', path: '/c' },
        { op: 'add', path: '/c/b', value: 2 }
      ],
      { a: { b: 1 }, c: { b: 2 } }
    ]
  ])('%s', (_title, target, patch, result) => {
    const before = canonicalJson(target)
    expect(applyJsonPatch(target, jsonPatchOf(patch as unknown as JsonValue))).toEqual(result)
    expect(canonicalJson(target)).toBe(before)
  })

  it.each<[string, JsonValue, unknown]>([
    ['A.9 a test that fails', { baz: 'qux' }, [{ op: 'test', path: '/baz', value: 'bar' }]],
    ['A.12 a parent that is not there', { foo: 'bar' }, [{ op: 'add', path: '/baz/bat', value: 'qux' }]],
    ['A.15 a text is no number', { '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: '10' }]],
    ['a member that every object inherits', {}, [{ op: 'remove', path: '/toString' }]],
    ['a leading zero', [1, 2], [{ op: 'remove', path: '/01' }]],
    ['a place beyond the end', [1], [{ op: 'add', path: '/2', value: 1 }]],
    ['"-" where something must be', [1], [{ op: 'remove', path: '/-' }]],
    ['a value into itself', { a: {} }, [{ op: 'move', from: '/a', path: '/a/b' }]],
    ['no operation', {}, [{ op: 'merge', path: '' }]],
    ['a stray "~"', {}, [{ op: 'add', path: '/~2', value: 1 }]],
    ['no value', {}, [{ op: 'add', path: '/a' }]],
    ['no list', {}, { op: 'add' }]
  ])('refuses %s', (_title, target, patch) => {
    expect(() => applyJsonPatch(target, jsonPatchOf(patch as JsonValue))).toThrow(ProtocolError)
  })

  it('a member named __proto__ is data', () => {
    const result = applyJsonPatch({}, [{ op: 'add', path: '/__proto__', value: { polluted: true } }])
    expect(canonicalJson(result)).toBe('{"__proto__":{"polluted":true}}')
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  it('40 copies that double each time are stopped at the bound', () => {
    const patch: JsonPatchOp[] = Array.from({ length: 40 }, () => ({ op: 'copy', from: '', path: '/-' }))
    expect(() => applyJsonPatch(['x'.repeat(1_000)], patch)).toThrow(expect.objectContaining({ code: 'TOO_LARGE' }))
  })
})

describe('merge patch (RFC 7396)', () => {
  it.each<[JsonValue | undefined, JsonValue, JsonValue]>([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd']
    ],
    [{ a: 'foo' }, null, null],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [undefined, { a: { bb: { ccc: null } } }, { a: { bb: {} } }]
  ])('%j with %j is %j', (target, patch, result) => {
    expect(applyMergePatch(target, patch)).toEqual(result)
  })
})
