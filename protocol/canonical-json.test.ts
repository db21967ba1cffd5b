import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from './canonical-json.ts'
import { ProtocolError } from './errors.ts'

/** RFC 8785, appendix B: the bits of a double, big-endian, and its text. */
const NUMBERS: [bits: string, text: string][] = [
  ['0000000000000000', '0'],
  ['8000000000000000', '0'],
  ['0000000000000001', '5e-324'],
  ['8000000000000001', '-5e-324'],
  ['7fefffffffffffff', '1.7976931348623157e+308'],
  ['ffefffffffffffff', '-1.7976931348623157e+308'],
  ['4340000000000000', '9007199254740992'],
  ['c340000000000000', '-9007199254740992'],
  ['4430000000000000', '295147905179352830000'],
  ['44b52d02c7e14af5', '9.999999999999997e+22'],
  ['44b52d02c7e14af6', '1e+23'],
  ['44b52d02c7e14af7', '1.0000000000000001e+23'],
  ['444b1ae4d6e2ef4e', '999999999999999700000'],
  ['444b1ae4d6e2ef4f', '999999999999999900000'],
  ['444b1ae4d6e2ef50', '1e+21'],
  ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
  ['3eb0c6f7a0b5ed8d', '0.000001'],
  ['41b3de4355555553', '333333333.3333332'],
  ['41b3de4355555554', '333333333.33333325'],
  ['41b3de4355555555', '333333333.3333333'],
  ['41b3de4355555556', '333333333.3333334'],
  ['41b3de4355555557', '333333333.33333343'],
  ['becbf647612f3696', '-0.0000033333333333333333'],
  ['43143ff3c1cb0959', '1424953923781206.2']
]

function double(bits: string): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, BigInt(`0x${bits}`))
  return view.getFloat64(0)
}

const arbJson = fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' }).filter((value) => JSON.stringify(value).isWellFormed())
const arbWellFormed = arbJson.filter((value) => !/\\ud[89a-f][0-9a-f]{2}/i.test(JSON.stringify(value)))

describe('RFC 8785', () => {
  it.each(NUMBERS)('[G-68] writes the double %s as %s (appendix B)', (bits, text) => {
    expect(canonicalJson(double(bits))).toBe(text)
  })

  it.each(['7fffffffffffffff', '7ff0000000000000', 'fff0000000000000'])('[G-68] has no text for the double %s', (bits) => {
    expect(() => canonicalJson(double(bits))).toThrow(ProtocolError)
  })

  it('[G-68] gives the example of section 3.2.2 its text', () => {
    const input = String.raw`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
      "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`
    expect(canonicalJson(JSON.parse(input))).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
    )
  })

  it('[G-68] sorts members by UTF-16 code units, as section 3.2.3 does', () => {
    const input = {
      '\u20ac': 'Euro Sign',
      '\r': 'CR',
      '\ufb33': 'Hebrew',
      '1': 'One',
      '\ud83d\ude00': 'Emoji',
      '\u0080': 'Control',
      ö: 'o'
    }
    expect(Object.values(JSON.parse(canonicalJson(input)) as object)).toContain('Emoji')
    expect([...canonicalJson(input).matchAll(/:"(\w+)/g)].map((match) => match[1])).toEqual([
      'CR',
      'One',
      'Control',
      'o',
      'Euro',
      'Emoji',
      'Hebrew'
    ])
  })

  it.each(['\ud800', 'a\udc00b', '\udc00\ud800'])('[G-68] refuses half a surrogate pair, in values and in names: %j', (text) => {
    expect(() => canonicalJson(text)).toThrow(ProtocolError)
    expect(() => canonicalJson({ [text]: 1 })).toThrow(ProtocolError)
    expect(() => canonicalJson([{ a: [text] }])).toThrow(ProtocolError)
  })

  it('[G-68] is read back as the same value', () => {
    fc.assert(
      fc.property(arbWellFormed, (value) => {
        const text = canonicalJson(value)
        expect(canonicalJson(JSON.parse(text))).toBe(text)
        expect(JSON.stringify(JSON.parse(text))).toHaveLength(text.length)
      })
    )
  })

  it('[G-68] does not depend on the order of members or on spacing', () => {
    const backwards = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(backwards)
      if (typeof value !== 'object' || value === null) return value
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([name, one]) => [name, backwards(one)])
      )
    }
    fc.assert(
      fc.property(arbWellFormed, (value) => {
        expect(canonicalJson(JSON.parse(JSON.stringify(backwards(value), null, 2)))).toBe(canonicalJson(value))
      })
    )
  })

  it('bounds how deep it walks, for whom it is told', () => {
    const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)])
    expect(canonicalJson(nested(64))).toBe(`${'['.repeat(64)}1${']'.repeat(64)}`)
    expect(() => canonicalJson(nested(65))).toThrow(ProtocolError)
    expect(canonicalJson(nested(72), 72)).toHaveLength(145)
    expect(() => canonicalJson(nested(73), 72)).toThrow(ProtocolError)
  })
})
