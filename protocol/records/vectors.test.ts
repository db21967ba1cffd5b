import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex, toHex } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { type ProtocolError as ErrorOfOurs, ProtocolError } from '../errors.ts'
import { validateDhtValue } from './dht-value.ts'
import { recordExpiresAtMs } from './envelope.ts'

interface Vector {
  id: string
  req: string
  note: string
  nowMs: number
  key: string
  hex: string
  decoded?: Record<string, unknown>
  error?: string
}

function load(name: string): Vector[] {
  return JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), 'utf8'))
}

/** Bytes as hex, all else as it is: the form of the vector files. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return toHex(value)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]))
  return value
}

function refusal(run: () => unknown): ErrorOfOurs | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    if (error instanceof ProtocolError) return error
    throw error
  }
}

describe.each([
  { name: 'node:crypto', crypto: nodeCrypto },
  { name: 'noble', crypto: nobleCrypto }
])('records under their DHT keys, with $name', ({ crypto }) => {
  describe.each(['locator', 'announce', 'join', 'mail'])('%s', (kind) => {
    for (const vector of load(kind)) {
      it(`[${vector.req}] ${vector.error === undefined ? 'reads' : `refuses as ${vector.error}`} ${kind} ${vector.id}: ${vector.note}`, () => {
        const open = () => validateDhtValue(crypto, fromHex(vector.key), fromHex(vector.hex), vector.nowMs)
        if (vector.error === undefined) {
          const record = open()
          expect(plain(record.payload)).toEqual(vector.decoded)
          expect(recordExpiresAtMs(record)).toBe((vector.decoded?.exp as number) * 1_000)
        } else expect(refusal(open)?.code).toBe(vector.error)
      })
    }
  })
})

it('[DS-07] meets every refusal of a record with a vector', () => {
  const seen = new Set(['locator', 'announce', 'join'].flatMap((kind) => load(kind).map((vector) => vector.error)))
  const expected = [
    'TOO_LARGE',
    'CBOR_INVALID',
    'CBOR_NOT_CANONICAL',
    'RECORD_KIND',
    'FIELD_MISSING',
    'FIELD_UNKNOWN',
    'FIELD_INVALID',
    'NAME_INVALID',
    'RECORD_TTL',
    'RECORD_FUTURE',
    'RECORD_EXPIRED',
    'RECORD_SEQUENCE',
    'RECORD_KEY_MISMATCH',
    'SIGNATURE_INVALID'
  ]
  expect(expected.filter((code) => !seen.has(code))).toEqual([])
})
