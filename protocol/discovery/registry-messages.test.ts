import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import {
  cursorBefore,
  decodeKeysResponse,
  decodeListResponse,
  decodePutResponse,
  decodeRegistryRequest,
  encodeKeysResponse,
  encodeListResponse,
  encodePutResponse,
  encodeRegistryRequest,
  type KeysResponse,
  type ListResponse,
  type PutResponse,
  REGISTRY_REQUEST_BYTES_MAX,
  REGISTRY_SETS,
  type RegistryRequest
} from './registry-messages.ts'

type Vector = { id: string; req: string; note: string; message: 'request' | 'put' | 'list' | 'keys'; hex: string } & (
  | { decoded: unknown }
  | { error: string }
)
const vectors = JSON.parse(readFileSync(new URL('../vectors/registry.json', import.meta.url), 'utf8')) as Vector[]

const decoders = { request: decodeRegistryRequest, put: decodePutResponse, list: decodeListResponse, keys: decodeKeysResponse }
const encoders = {
  request: (value: unknown) => encodeRegistryRequest(value as RegistryRequest),
  put: (value: unknown) => encodePutResponse(value as PutResponse),
  list: (value: unknown) => encodeListResponse(value as ListResponse),
  keys: (value: unknown) => encodeKeysResponse(value as KeysResponse)
}

/** Bytes as hex strings with the prefix `0x`, as JSON can say them. */
const asJson = (value: unknown): unknown =>
  value instanceof Uint8Array
    ? `0x${toHex(value)}`
    : Array.isArray(value)
      ? value.map(asJson)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, asJson(member)]))
        : value
const fromJson = (value: unknown): unknown =>
  typeof value === 'string' && value.startsWith('0x')
    ? fromHex(value.slice(2))
    : Array.isArray(value)
      ? value.map(fromJson)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, fromJson(member)]))
        : value

describe('registry vectors', () => {
  for (const vector of vectors) {
    if ('decoded' in vector) {
      it(`[${vector.req}] ${vector.id}: ${vector.note}`, () => {
        expect(asJson(decoders[vector.message](fromHex(vector.hex)))).toEqual(vector.decoded)
        expect(toHex(encoders[vector.message](fromJson(vector.decoded)))).toBe(vector.hex)
      })
    } else {
      it(`[${vector.req}] ${vector.id} is refused: ${vector.note}`, () => {
        expect(() => decoders[vector.message](fromHex(vector.hex))).toThrow(expect.objectContaining({ code: vector.error }))
      })
    }
  }
})

const key = fc.uint8Array({ minLength: 32, maxLength: 32 })
const set = fc.constantFrom(...REGISTRY_SETS)
const record = fc.uint8Array({ minLength: 1, maxLength: 300 })
const tag = fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), minLength: 1, maxLength: 64 })
const request: fc.Arbitrary<RegistryRequest> = fc.oneof(
  fc.record(
    { verb: fc.constant('put' as const), set, key, record, pow: fc.uint8Array({ minLength: 8, maxLength: 8 }) },
    { requiredKeys: ['verb', 'set', 'key', 'record'] }
  ),
  fc.record(
    {
      verb: fc.constant('list' as const),
      set,
      key,
      curator: key,
      tags: fc.array(tag, { minLength: 1, maxLength: 16 }),
      cursor: fc.uint8Array({ maxLength: 64 }),
      limit: fc.integer({ min: 1, max: 100 })
    },
    { requiredKeys: ['verb', 'set', 'key', 'cursor', 'limit'] }
  ),
  fc.record({ verb: fc.constant('keys' as const), cursor: fc.constantFrom(new Uint8Array(0), new Uint8Array(33).fill(1)) })
)

describe('registry messages', () => {
  it('[DS-15] gives back every request it encoded', () => {
    fc.assert(
      fc.property(request, (value) => {
        expect(decodeRegistryRequest(encodeRegistryRequest(value))).toEqual(value)
      })
    )
  })

  it('[F104] meets arbitrary bytes with a value or a ProtocolError, nothing else', () => {
    const anything = fc.oneof(fc.uint8Array({ maxLength: 300 }), request.map(encodeRegistryRequest).chain(damaged))
    fc.assert(
      fc.property(anything, (bytes) => {
        for (const decode of Object.values(decoders)) {
          try {
            decode(bytes)
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError)
          }
        }
      }),
      { numRuns: 500 }
    )
  })

  it('[F104] refuses a request above 16 KiB before it looks inside', () => {
    const big = new Uint8Array(REGISTRY_REQUEST_BYTES_MAX + 1)
    expect(() => decodeRegistryRequest(big)).toThrow(expect.objectContaining({ code: 'TOO_LARGE' }))
  })

  it('names the cursor just before an entry, whatever the entry is called', () => {
    fc.assert(
      fc.property(key, key, (id, other) => {
        const cursor = toHex(cursorBefore(id))
        expect(cursor < toHex(id) || cursor === '').toBe(true)
        expect(toHex(other) > cursor && toHex(other) < toHex(id) && cursor !== '').toBe(false)
      })
    )
    expect(cursorBefore(new Uint8Array(32))).toHaveLength(0)
    expect(toHex(cursorBefore(fromHex('0100')))).toBe('00ff')
  })
})

function damaged(bytes: Uint8Array): fc.Arbitrary<Uint8Array> {
  return fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)).map(([at, byte]) => {
    const copy = bytes.slice()
    copy[at] = byte
    return copy
  })
}

describe('the nonces of a LIST', () => {
  const records = [Uint8Array.of(1), Uint8Array.of(2)]
  const nonce = new Uint8Array(8).fill(7)

  it('go one with each record, empty where it has none, and are left out where none has one', () => {
    const pows = [nonce, new Uint8Array(0)]
    expect(decodeListResponse(encodeListResponse({ status: 'ok', records, pows }))).toEqual({ status: 'ok', records, pows })
    expect(decodeListResponse(encodeListResponse({ status: 'ok', records }))).toEqual({ status: 'ok', records })
  })

  it('are refused in any other number or length', () => {
    for (const pows of [[nonce], [nonce, nonce, nonce], [nonce, new Uint8Array(7)], [nonce, new Uint8Array(9)]]) {
      const bytes = encodeListResponse({ status: 'ok', records, pows })
      expect(() => decodeListResponse(bytes)).toThrow(expect.objectContaining({ code: 'FIELD_INVALID' }))
    }
  })
})
