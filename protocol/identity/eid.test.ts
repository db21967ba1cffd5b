import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex, toHex, utf8 } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { ProtocolError } from '../errors.ts'
import { context } from './contexts.ts'
import { checkedEid, eid, eidFromDid, eidHex, eidToDid } from './eid.ts'

const vectors: { id: string; req: string; note: string; hex?: string; decoded?: string; text?: string; error?: string }[] = JSON.parse(
  readFileSync(new URL('../vectors/eid.json', import.meta.url), 'utf8')
)

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return (error as ProtocolError).code
  }
  return 'accepted'
}

describe('vectors', () => {
  for (const { id, req, note, hex, decoded, text, error } of vectors) {
    if (hex !== undefined && decoded !== undefined) {
      it(`[${req}] spells ${id} as did:key and reads it back: ${note}`, () => {
        expect(eidToDid(eid(fromHex(hex)))).toBe(decoded)
        expect(toHex(eidFromDid(decoded))).toBe(hex)
      })
    } else if (text !== undefined && error !== undefined) {
      it(`[${req}] refuses ${id}: ${note}`, () => {
        expect(codeOf(() => eidFromDid(text))).toBe(error)
      })
    } else throw new Error(`vector ${id} is neither read nor refused`)
  }
})

describe('an EID', () => {
  it('[D-19] is the public key itself, so that a signature can be checked from it alone', () => {
    const seed = new Uint8Array(32).fill(1)
    const name = eid(nodeCrypto.ed25519.publicKey(seed))
    expect(toHex(name)).not.toBe(toHex(nodeCrypto.sha256(seed)))
    const signature = nodeCrypto.ed25519.sign(seed, utf8('hello'))
    expect(nodeCrypto.ed25519.verify(eidFromDid(eidToDid(name)), utf8('hello'), signature)).toBe(true)
  })

  it('[G-36] comes back from its text, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        expect(toHex(eidFromDid(eidToDid(eid(bytes))))).toBe(toHex(bytes))
      })
    )
  })

  it('[G-36] meets any text with an EID or a ProtocolError, and one text only leads to each EID', () => {
    const near = fc.tuple(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.nat(60), fc.string({ minLength: 1, maxLength: 1 }))
    const arbText = fc.oneof(
      fc.string(),
      fc.string().map((text) => `did:key:z${text}`),
      near.map(([bytes, at, letter]) => {
        const text = eidToDid(eid(bytes))
        return text.slice(0, at % text.length) + letter + text.slice((at % text.length) + 1)
      })
    )
    fc.assert(
      fc.property(arbText, (text) => {
        try {
          expect(eidToDid(eidFromDid(text))).toBe(text)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
          expect((error as ProtocolError).code).toBe('DID_INVALID')
        }
      })
    )
  })

  it('[D-19] is refused when it is not 32 bytes, or no canonical key of prime order', () => {
    expect(codeOf(() => eid(new Uint8Array(31)))).toBe('KEY_INVALID')
    expect(codeOf(() => eid(new Uint8Array(33)))).toBe('KEY_INVALID')
    for (const crypto of [nodeCrypto, nobleCrypto]) {
      expect(codeOf(() => checkedEid(crypto, new Uint8Array(32)))).toBe('KEY_INVALID')
      const good = crypto.ed25519.publicKey(new Uint8Array(32).fill(1))
      expect(eidHex(checkedEid(crypto, good))).toBe(toHex(good))
    }
  })
})

it('[D-11] starts what is signed for one purpose with its label and a zero byte', () => {
  expect(context('record/join')).toEqual(Uint8Array.of(...utf8('rookery/v1/record/join'), 0))
})
