import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readTraceparent, traceparentOf } from './traceparent.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'
const hex = (chars: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: chars, maxLength: chars }).filter((text) => !/^0+$/.test(text))

describe('a traceparent', () => {
  it('comes back as it was written', () => {
    fc.assert(
      fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, isSampled) => {
        expect(readTraceparent(traceparentOf({ traceId, spanId, isSampled }))).toEqual({ traceId, spanId, isSampled })
      })
    )
  })

  it('of a later version is read as far as version 00 goes', () => {
    expect(readTraceparent(`cc-${TRACE}-${SPAN}-03-what-comes-later`)).toEqual({ traceId: TRACE, spanId: SPAN, isSampled: true })
  })

  it('that is none is no context, whatever it holds: capitals, zeros, a version that is forbidden, too many characters, another type', () => {
    const none = [
      '',
      `00-${TRACE.toUpperCase()}-${SPAN}-01`,
      `00-${'0'.repeat(32)}-${SPAN}-01`,
      `00-${TRACE}-${'0'.repeat(16)}-01`,
      `ff-${TRACE}-${SPAN}-01`,
      `00-${TRACE}-${SPAN}-01-more`,
      `00-${TRACE}-${SPAN}`,
      ` 00-${TRACE}-${SPAN}-01`,
      `00-${TRACE}-${SPAN}-01\n`,
      `cc-${TRACE}-${SPAN}-01-${'x'.repeat(128)}`,
      7,
      null,
      undefined,
      [`00-${TRACE}-${SPAN}-01`]
    ]
    for (const text of none) expect(readTraceparent(text)).toBeUndefined()
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (text) => {
        expect(readTraceparent(text)).toBeUndefined()
      })
    )
  })
})
