import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from '../../../protocol/bytes.ts'
import { ProtocolError } from '../../../protocol/errors.ts'
import { type ByteFrame, decodeByteFrame, encodeByteFrame } from '../../../protocol/session/byte-frames.ts'
import { decodeChannelControl, encodeChannelControl } from '../../../protocol/session/channel-control.ts'
import { ContractMeter } from '../../../protocol/session/contract.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'

interface Row {
  id: string
  req: string[]
  note: string
  hex: string
  decoded?: Record<string, unknown>
  error?: string
}

const rows = (name: string): Row[] => JSON.parse(readFileSync(new URL(`../../../protocol/vectors/${name}.json`, import.meta.url), 'utf8'))
const title = ({ req, id, note }: Row) => `${req.map((one) => `[${one}]`).join(' ')} ${id}: ${note}`

/** As the vectors write it: bytes in hex, counts as text. */
function plain(value: object): Record<string, unknown> {
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  return Object.fromEntries(
    entries.map(([key, one]) => [key, one instanceof Uint8Array ? toHex(one) : typeof one === 'bigint' ? one.toString() : one])
  )
}

function holds<T extends object>(name: string, decode: (bytes: Uint8Array) => T, encode: (value: T) => Uint8Array): void {
  describe(`vectors of ${name}`, () => {
    for (const row of rows(name)) {
      it(title(row), () => {
        const bytes = fromHex(row.hex)
        if (row.error !== undefined) {
          expect(() => decode(bytes)).toThrow(expect.objectContaining({ name: 'ProtocolError', code: row.error }))
          return
        }
        expect(plain(decode(bytes))).toEqual(row.decoded)
        expect(toHex(encode(decode(bytes)))).toBe(row.hex)
      })
    }
  })
}

holds('pss-byte-stream', decodeByteFrame, encodeByteFrame)
holds('pss-channel-control', decodeChannelControl, encodeChannelControl)

describe('byte-stream frames', () => {
  const id = fc.uint8Array({ minLength: 16, maxLength: 16 })
  const place = fc.bigInt({ min: 0n, max: 2n ** 52n })
  const code = fc.nat({ max: 65_535 })
  const frame: fc.Arbitrary<ByteFrame> = fc.oneof(
    fc.record({
      type: fc.constant('open' as const),
      id,
      length: fc.option(place, { nil: undefined }),
      label: fc.string({ maxLength: 50, unit: 'grapheme' })
    }),
    fc.record({ type: fc.constant('data' as const), id, offset: place, bytes: fc.uint8Array({ minLength: 1 }) }),
    fc.record({ type: fc.constant('fin' as const), id, total: place, sha256: fc.uint8Array({ minLength: 32, maxLength: 32 }) }),
    fc.record({ type: fc.constantFrom('reset' as const, 'stop' as const), id, code }),
    fc.record({ type: fc.constant('accept' as const), id, offset: place }),
    fc.record({ type: fc.constant('done' as const), id })
  )

  it('[PSS-17] give back every frame that was encoded', () => {
    fc.assert(
      fc.property(frame, (one) => {
        expect(decodeByteFrame(encodeByteFrame(one))).toEqual(one)
      })
    )
  })

  it('[PSS-17] meet arbitrary bytes with a frame or a ProtocolError, nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), fc.constantFrom(decodeByteFrame, decodeChannelControl), (bytes, decode) => {
        try {
          decode(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })
})

describe('channel control under a contract', () => {
  const block = (scopes: number): SfcBlock => ({
    site: 'any',
    scopes,
    eseBytesMax: 0,
    messagesPerMinuteMax: 60,
    payloadBytesMax: 1_024,
    sessionSecondsMax: 600,
    storedBytesMax: 0,
    concurrentTasksMax: 0,
    region: 0
  })
  const refusal = (scopes: number) =>
    new ContractMeter({
      block: block(scopes),
      eids: { sent: new Uint8Array(32), received: new Uint8Array(32) },
      nowMs: 0,
      ageMs: 0,
      start: 'new'
    }).refusal('received', { kind: ITEM_KINDS.channelControl, payload: encodeChannelControl({ op: 'end' }) })

  it('[SFC-08] needs leave to send messages or to stream, either of them', () => {
    expect(refusal(SFC_SCOPE.SEND_MESSAGES)).toBeUndefined()
    expect(refusal(SFC_SCOPE.STREAM)).toBeUndefined()
    expect(refusal(SFC_SCOPE.MAILBOX)).toMatchObject({ code: 'CONTRACT', field: 'sfc.scopes' })
  })
})
