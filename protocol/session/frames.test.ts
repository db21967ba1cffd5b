import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { concat } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { decodeAck, encodeAckClear } from './ack.ts'
import { CLOSE, closeCodeOf, decodeClose, encodeClose } from './close.ts'
import { cookie, cookiePairHex, sameCookies } from './cookie.ts'
import { FLAG, isSubset } from './flags.ts'
import { encodeHeader, FRAME, type FrameType, frameName, HEADER_BYTES, headerOf, parseFrame } from './header.ts'
import { decodeInit, encodeInit, type PssInit } from './init.ts'
import { decodeNeg, encodeNeg, encodeRetry } from './neg.ts'
import { decodeSfc, encodeSfc, SFC_FIELDS, SFC_SITES, type SfcBlock, sfcDifference, sfcShortfall } from './sfc.ts'

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const arbCookie = bytes(8).map(cookie)
const u16 = fc.nat(0xffff)
const u32 = fc.nat(0xffffffff)
const arbSfc: fc.Arbitrary<SfcBlock> = fc.record({
  site: fc.constantFrom(...SFC_SITES),
  scopes: fc.nat(0x7f),
  eseBytesMax: u32,
  messagesPerMinuteMax: u32,
  payloadBytesMax: u32,
  sessionSecondsMax: u32,
  storedBytesMax: u32,
  concurrentTasksMax: u16,
  region: u16
})
/** Negotiable flags, and bits 8 to 14. */
const arbFlags = fc.nat(0x7fff).map((flags) => flags & 0x7f0f)
const arbInit: fc.Arbitrary<PssInit> = fc
  .record({
    flags: arbFlags,
    iCookie: arbCookie,
    nonceI: bytes(32),
    ephI: bytes(32),
    target: bytes(16),
    resumeId: bytes(16).map((id) => concat([Uint8Array.of(1), id.subarray(1)])),
    retryCookie: bytes(16)
  })
  .map((init) => (init.flags & FLAG.RESUME ? init : { ...init, resumeId: new Uint8Array(16) }))

const codeOf = (run: () => unknown): string | undefined => {
  try {
    run()
    return undefined
  } catch (error) {
    if (error instanceof ProtocolError) return error.code
    throw error
  }
}

describe('frames of the handshake', () => {
  it('[PSS-08] [G-38] gives back every PSS_INIT it encoded', () => {
    fc.assert(
      fc.property(arbInit, (init) => {
        expect(decodeInit(encodeInit(init))).toEqual(init)
      })
    )
  })

  it('[PSS-09] [SFC-05] gives back every PSS_NEG it encoded', () => {
    fc.assert(
      fc.property(arbFlags, arbCookie, arbCookie, bytes(32), bytes(112), arbSfc, (flags, i, r, ephR, sealed, block) => {
        const sfc = flags & FLAG.SFC ? { sfc: block } : {}
        const neg = { kind: 'neg' as const, flags, cookies: { i, r }, ephR, sealed, ...sfc }
        expect(decodeNeg(encodeNeg(neg))).toEqual(neg)
      })
    )
  })

  it('[PSS-14] gives back every RETRY it encoded', () => {
    fc.assert(
      fc.property(arbCookie, bytes(15), fc.nat(30), (iCookie, rest, waitSeconds) => {
        const retry = { kind: 'retry' as const, iCookie, retryCookie: concat([Uint8Array.of(7), rest]), waitSeconds }
        expect(decodeNeg(encodeRetry(retry))).toEqual(retry)
      })
    )
  })

  it('[PSS-09] [SFC-07] gives back every PSS_ACK it encoded', () => {
    fc.assert(
      fc.property(arbInit, u16, arbCookie, bytes(112), arbSfc, (init, mask, r, sealed, block) => {
        const flags = init.flags & mask
        const sfc = flags & FLAG.SFC ? { sfc: block } : {}
        const ack = { init, flags, cookies: { i: init.iCookie, r }, ...sfc }
        expect(decodeAck(concat([encodeAckClear(ack), sealed]))).toEqual({ ...ack, sealed })
      })
    )
  })

  it('[PSS-11] meets arbitrary bytes with a message or a ProtocolError, nothing else', () => {
    const decoders = [decodeInit, decodeNeg, decodeAck, decodeClose, decodeSfc, headerOf, parseFrame]
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 320 }), (input) => {
        for (const decode of decoders) codeOf(() => decode(input))
      })
    )
  })

  it('[PSS-11] meets a plausible header before arbitrary bytes with a message or a ProtocolError, nothing else', () => {
    const types = fc.constantFrom(...Object.values(FRAME))
    const lengths = fc.constantFrom(232, 176, 18, 260, 2)
    fc.assert(
      fc.property(types, u16, lengths, arbCookie, arbCookie, fc.uint8Array({ maxLength: 300 }), (type, flags, bodyBytes, i, r, body) => {
        const frame = concat([encodeHeader({ type, flags, bodyBytes, iCookie: i, rCookie: r }), body])
        for (const decode of [decodeInit, decodeNeg, decodeAck, decodeClose]) codeOf(() => decode(frame))
      })
    )
  })

  it('[PSS-11] accepts no second encoding: whatever decodes encodes to the same bytes', () => {
    fc.assert(
      fc.property(arbInit, fc.nat(255), fc.nat(255), (init, at, value) => {
        const frame = encodeInit(init)
        frame[at] = value
        let decoded: PssInit
        try {
          decoded = decodeInit(frame)
        } catch {
          return
        }
        expect(encodeInit(decoded)).toEqual(frame)
      })
    )
  })
})

describe('header', () => {
  const headerBytes = (type: number, flags: number, bodyBytes: number) =>
    encodeHeader({ type: type as FrameType, flags, bodyBytes, iCookie: cookie(new Uint8Array(8)), rCookie: cookie(new Uint8Array(8)) })
  const exact: [string, FrameType, number, number][] = [
    ['PSS_INIT', FRAME.INIT, 0, 232],
    ['PSS_NEG', FRAME.NEG, 0, 176],
    ['RETRY', FRAME.NEG, FLAG.RETRY, 18],
    ['PSS_ACK', FRAME.ACK, 0, 260],
    ['CLOSE', FRAME.CLOSE, 0, 2]
  ]

  it.each(exact)('[PSS-11] knows the one body length of %s before it reads a body', (_, type, flags, length) => {
    expect(headerOf(headerBytes(type, flags, length)).bodyBytes).toBe(length)
    for (const wrong of [0, length - 1, length + 1, 0xffffffff]) {
      expect(codeOf(() => headerOf(headerBytes(type, flags, wrong)))).toBe('FRAME_LENGTH')
    }
  })

  it.each([FRAME.DATA_STREAM, FRAME.TEARDOWN, FRAME.REVOCATION_PUBLISH])(
    '[PSS-17] bounds the body of type %i at 1 MiB and 4,096 bytes',
    (type) => {
      expect(headerOf(headerBytes(type, 0, (1 << 20) + 4_096)).type).toBe(type)
      expect(codeOf(() => headerOf(headerBytes(type, 0, (1 << 20) + 4_097)))).toBe('FRAME_LENGTH')
      expect(codeOf(() => headerOf(headerBytes(type, 0, 71)))).toBe('FRAME_LENGTH')
    }
  )

  it('[G-40] knows seven types and no other', () => {
    const known = new Set<number>(Object.values(FRAME))
    expect(known.size).toBe(7)
    for (let type = 0; type < 256; type++) {
      if (known.has(type)) expect(frameName(type as FrameType)).toMatch(/^PSS_/)
      else expect(codeOf(() => headerOf(headerBytes(type, 0, 232)))).toBe('FRAME_TYPE')
    }
  })

  it('[PSS-11] refuses flags 6, 7 and 15 in every type, and ignores 8 to 14', () => {
    const lengths = new Map<number, number>(exact.map(([, type, flags, length]) => [flags === 0 ? type : -1, length]))
    for (const type of Object.values(FRAME)) {
      for (let bit = 6; bit < 16; bit++) {
        const code = codeOf(() => headerOf(headerBytes(type, 1 << bit, lengths.get(type) ?? 100)))
        expect(code, `${frameName(type)} bit ${bit}`).toBe(bit >= 8 && bit <= 14 ? undefined : 'FRAME_FLAGS')
      }
    }
  })

  it('[PSS-11] refuses a header that is not 24 bytes', () => {
    for (const length of [0, 23, 25]) expect(codeOf(() => headerOf(new Uint8Array(length)))).toBe('LENGTH')
    expect(headerOf(headerBytes(FRAME.INIT, 0, 232))).toBeDefined()
    expect(HEADER_BYTES).toBe(24)
  })
})

describe('contract block', () => {
  it('[SFC-06] [G-55] gives back every block it encoded', () => {
    fc.assert(
      fc.property(arbSfc, (block) => {
        expect(decodeSfc(encodeSfc(block))).toEqual(block)
      })
    )
  })

  it('[SFC-06] names the first field in which two blocks differ', () => {
    fc.assert(
      fc.property(arbSfc, arbSfc, (a, b) => {
        const field = sfcDifference(a, b)
        expect(field).toBe(SFC_FIELDS.find((name) => a[name] !== b[name]))
        expect(sfcDifference(a, { ...a })).toBeUndefined()
      })
    )
  })

  const offer: SfcBlock = {
    site: 'cloud',
    scopes: 0b101,
    eseBytesMax: 10,
    messagesPerMinuteMax: 20,
    payloadBytesMax: 30,
    sessionSecondsMax: 40,
    storedBytesMax: 50,
    concurrentTasksMax: 6,
    region: 276
  }

  it.each([
    ['site', { site: 'edge' }],
    ['scopes', { scopes: 0b111 }],
    ['eseBytesMax', { eseBytesMax: 11 }],
    ['messagesPerMinuteMax', { messagesPerMinuteMax: 21 }],
    ['payloadBytesMax', { payloadBytesMax: 31 }],
    ['sessionSecondsMax', { sessionSecondsMax: 41 }],
    ['storedBytesMax', { storedBytesMax: 51 }],
    ['concurrentTasksMax', { concurrentTasksMax: 7 }],
    ['region', { region: 250 }]
  ] as [string, Partial<SfcBlock>][])('[SFC-07] names %s where the offer falls short of the need', (field, needs) => {
    expect(sfcShortfall(offer, needs)).toBe(field)
  })

  it('[SFC-07] finds no shortfall where the offer gives as much or more', () => {
    expect(sfcShortfall(offer, {})).toBeUndefined()
    expect(sfcShortfall(offer, offer)).toBeUndefined()
    expect(sfcShortfall(offer, { site: 'any', region: 0, scopes: 0b100, eseBytesMax: 9 })).toBeUndefined()
  })
})

describe('CLOSE', () => {
  it('[PSS-11] is 26 bytes and gives back its code, known or not', () => {
    for (const code of Object.values(CLOSE)) {
      const frame = encodeClose(code)
      expect(frame.length).toBe(26)
      expect(decodeClose(frame).code).toBe(code)
    }
    const unknown = encodeClose(CLOSE.BUSY)
    unknown[24] = 0xab
    expect(decodeClose(unknown).code).toBe(0xab04)
  })

  it('[PSS-11] tells seal, key exchange and signature by one code', () => {
    expect(new Set([closeCodeOf('AEAD_OPEN'), closeCodeOf('KEY_EXCHANGE'), closeCodeOf('SIGNATURE_INVALID')]).size).toBe(1)
  })
})

describe('cookies and flags', () => {
  it('[PSS-09] tells pairs apart by either half', () => {
    fc.assert(
      fc.property(arbCookie, arbCookie, arbCookie, (a, b, c) => {
        const same = cookiePairHex({ i: a, r: b }) === cookiePairHex({ i: a, r: c })
        expect(sameCookies({ i: a, r: b }, { i: a, r: c })).toBe(same)
        expect(sameCookies({ i: b, r: a }, { i: c, r: a })).toBe(same)
      })
    )
    expect(codeOf(() => cookie(new Uint8Array(7)))).toBe('LENGTH')
  })

  it('[D-11] finds a flag that exceeds what was asked', () => {
    expect(isSubset(FLAG.SFC, FLAG.SFC | FLAG.GROUP)).toBe(true)
    expect(isSubset(FLAG.SFC | 0x200, FLAG.SFC | FLAG.GROUP)).toBe(false)
  })
})
