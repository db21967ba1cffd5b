import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { equals, fromHex, toHex, utf8 } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import {
  CLOCK_SKEW_MAX_MS,
  decodeObject,
  mailboxKid,
  OBJECT_LIFE_MAX_MS,
  OBJECT_OVERHEAD_BYTES_MAX,
  objectIdOf,
  openObject,
  sealObject,
  verifyObject
} from './object.ts'

interface Row {
  id: string
  req: string
  note: string
  hex: string
  keys?: Record<'issuerSeed' | 'audience' | 'mailboxSecret' | 'mailboxKey' | 'ephemeralSecret', string> & { nowMs: number }
  decoded?: Record<string, string> & { issuedAtMs: number; expiresAtMs: number }
  error?: string
}

const rows = JSON.parse(readFileSync(new URL('../vectors/governed-object.json', import.meta.url), 'utf8')) as Row[]
const keys = rows[0]?.keys
if (keys === undefined) throw new Error('the vector file starts with its keys')
const seed = fromHex(keys.issuerSeed)
const signer = { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
const issuer = eid(signer.publicKey)
const audience = eid(fromHex(keys.audience))
const mailboxKey = fromHex(keys.mailboxKey)
const secretOf = (kidHex: string) => (kidHex === toHex(mailboxKid(nodeCrypto, mailboxKey)) ? fromHex(keys.mailboxSecret) : undefined)
const allows = (purpose: string) => purpose === 'a2a:message'

async function read(bytes: Uint8Array, crypto = nodeCrypto) {
  const object = decodeObject(bytes)
  verifyObject(crypto, object, { nowMs: keys?.nowMs ?? 0, audience })
  return { object, plaintext: await openObject(crypto, object, secretOf, allows) }
}

const codeOf = async (work: () => unknown): Promise<string> => {
  try {
    await work()
  } catch (error) {
    if (error instanceof ProtocolError) return error.code
    throw error
  }
  return 'none'
}

const sealInput = (over: Partial<Parameters<typeof sealObject>[1]> = {}) => ({
  signer,
  audience,
  mailboxKey,
  id: objectIdOf(nodeCrypto, issuer, audience, 'm-1'),
  purpose: 'a2a:message',
  issuedAtMs: keys.nowMs,
  expiresAtMs: keys.nowMs + 3_600_000,
  plaintext: utf8('{"method":"SendMessage"}'),
  ephemeralSecret: fromHex(keys.ephemeralSecret),
  ...over
})

describe('governed objects', () => {
  for (const row of rows.slice(1)) {
    it(`[${row.req}] vector ${row.id}: ${row.note}`, async () => {
      const bytes = fromHex(row.hex)
      if (row.decoded === undefined) {
        expect(await codeOf(() => read(bytes))).toBe(row.error)
        return
      }
      const { object, plaintext } = await read(bytes)
      const { messageId, plaintext: expected, ...members } = row.decoded
      expect({
        id: toHex(object.id),
        issuer: toHex(object.issuer),
        audience: toHex(object.audience),
        kid: toHex(object.kid),
        purpose: object.purpose,
        issuedAtMs: object.issuedAtMs,
        expiresAtMs: object.expiresAtMs
      }).toEqual(members)
      expect(toHex(plaintext)).toBe(expected)
      expect(toHex(objectIdOf(nodeCrypto, issuer, audience, messageId as string))).toBe(members.id)
      const again = await sealObject(nodeCrypto, sealInput({ issuedAtMs: object.issuedAtMs, expiresAtMs: object.expiresAtMs, plaintext }))
      expect(toHex(again)).toBe(row.hex)
      expect(toHex((await read(bytes, nobleCrypto)).plaintext)).toBe(expected)
    })
  }

  it('[OD-03] opens to what was sealed, for any plaintext, and adds no more than the stated overhead', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 4_096 }),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        async (plaintext, ephemeralSecret) => {
          const bytes = await sealObject(nodeCrypto, sealInput({ plaintext, ephemeralSecret }))
          expect(bytes.length - plaintext.length).toBeLessThanOrEqual(OBJECT_OVERHEAD_BYTES_MAX)
          expect(equals((await read(bytes)).plaintext, plaintext)).toBe(true)
        }
      ),
      { numRuns: 50 }
    )
  })

  it('[OD-33] refuses an object with any one bit flipped', async () => {
    const bytes = await sealObject(nodeCrypto, sealInput())
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length * 8 - 1), async (bit) => {
        const changed = bytes.slice()
        changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
        expect(await codeOf(() => read(changed))).not.toBe('none')
      }),
      { numRuns: 300 }
    )
  })

  it('[OD-33] meets arbitrary bytes with a ProtocolError and nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 1_024 }), (bytes) => {
        expect(() => decodeObject(bytes)).toThrow(ProtocolError)
      }),
      { numRuns: 500 }
    )
  })

  it('[G-08] refuses by size before it decodes, times before audience, audience before signature, signature before keys', async () => {
    const bytes = await sealObject(nodeCrypto, sealInput())
    expect(await codeOf(() => decodeObject(new Uint8Array(1_000), { bytesMax: 999 }))).toBe('TOO_LARGE')
    const object = { ...decodeObject(bytes), signature: new Uint8Array(64) }
    const elsewhere = issuer
    expect(await codeOf(() => verifyObject(nodeCrypto, object, { nowMs: object.expiresAtMs, audience: elsewhere }))).toBe('OBJECT_EXPIRED')
    expect(await codeOf(() => verifyObject(nodeCrypto, object, { nowMs: object.issuedAtMs, audience: elsewhere }))).toBe('OBJECT_AUDIENCE')
    expect(await codeOf(() => verifyObject(nodeCrypto, object, { nowMs: object.issuedAtMs, audience }))).toBe('SIGNATURE_INVALID')
  })

  it('[F083] takes a clock up to 60 s ahead and names the clock skew beyond it; the end gets no grace', async () => {
    const atOffset = async (skewMs: number) => {
      const issuedAtMs = keys.nowMs + skewMs
      const bytes = await sealObject(nodeCrypto, sealInput({ issuedAtMs, expiresAtMs: issuedAtMs + 60_000 }))
      return codeOf(() => verifyObject(nodeCrypto, decodeObject(bytes), { nowMs: keys.nowMs, audience }))
    }
    expect(await atOffset(1_000)).toBe('none')
    expect(await atOffset(-50_000)).toBe('none')
    expect(await atOffset(CLOCK_SKEW_MAX_MS)).toBe('none')
    expect(await atOffset(90_000)).toBe('OBJECT_FUTURE')
    expect(await atOffset(86_400_000)).toBe('OBJECT_FUTURE')
    expect(await atOffset(-86_400_000)).toBe('OBJECT_EXPIRED')
    const far = await sealObject(nodeCrypto, sealInput({ issuedAtMs: keys.nowMs + 90_000, expiresAtMs: keys.nowMs + 150_000 }))
    expect(() => verifyObject(nodeCrypto, decodeObject(far), { nowMs: keys.nowMs, audience })).toThrow(/clock skew/)
  })

  it('[OD-03] seals for no longer than six days, for no purpose out of its grammar, to no key of low order', async () => {
    const life = (ms: number) => sealInput({ expiresAtMs: keys.nowMs + ms })
    expect(await codeOf(() => sealObject(nodeCrypto, life(OBJECT_LIFE_MAX_MS)))).toBe('none')
    expect(await codeOf(() => sealObject(nodeCrypto, life(OBJECT_LIFE_MAX_MS + 1)))).toBe('OBJECT_LIFETIME')
    expect(await codeOf(() => sealObject(nodeCrypto, life(0)))).toBe('OBJECT_LIFETIME')
    expect(await codeOf(() => sealObject(nodeCrypto, sealInput({ purpose: 'no spaces' })))).toBe('FIELD_INVALID')
    expect(await codeOf(() => sealObject(nodeCrypto, sealInput({ mailboxKey: new Uint8Array(32) })))).toBe('KEY_INVALID')
    expect(await codeOf(() => sealObject(nodeCrypto, sealInput({ mailboxKey: new Uint8Array(31) })))).toBe('LENGTH')
  })

  it('[OD-42] names the same message alike, and other messages, issuers or audiences apart', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const same = equals(objectIdOf(nodeCrypto, issuer, audience, a), objectIdOf(nodeCrypto, issuer, audience, b))
        expect(same).toBe(equals(utf8(a), utf8(b)))
        expect(equals(objectIdOf(nodeCrypto, issuer, audience, a), objectIdOf(nodeCrypto, audience, issuer, a))).toBe(false)
      })
    )
  })
})
