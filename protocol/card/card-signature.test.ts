import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { ProtocolError } from '../errors.ts'
import { eid, eidFromDid } from '../identity/eid.ts'
import { parseStrictJson } from '../strict-json.ts'
import { canonicalCard } from './canonical-card.ts'
import { CARD_CHARS_MAX, signCard, verifyCard } from './card-signature.ts'

interface Vector {
  id: string
  note: string
  agent: string
  text: string
  canonical?: string
  error?: string
}
const file = JSON.parse(readFileSync(new URL('../vectors/agent-card.json', import.meta.url), 'utf8')) as {
  seeds: { agent: string }
  vectors: Vector[]
}
const good = file.vectors.filter(({ error }) => error === undefined)
const bad = file.vectors.filter(({ error }) => error !== undefined)
const seed = fromHex(file.seeds.agent)
const signer = { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
const own = eid(signer.publicKey)

describe.each([
  ['node', nodeCrypto],
  ['noble', nobleCrypto]
] as const)('signed cards with the primitives of %s', (_name, crypto) => {
  it.each(good)('[ECC-12] verifies the card $id: $note', ({ agent, text, canonical }) => {
    expect(verifyCard(crypto, text, eidFromDid(agent))).toEqual(JSON.parse(text))
    expect(canonicalCard(JSON.parse(text))).toBe(canonical)
  })

  it.each(bad)('[ECC-12] refuses the card $id: $note', ({ agent, text, error }) => {
    expect(() => verifyCard(crypto, text, eidFromDid(agent))).toThrow(expect.objectContaining({ name: 'ProtocolError', code: error }))
  })
})

it('[ECC-12] signs the very bytes that another implementation signs', () => {
  const [{ text }] = good as [Vector]
  const { signatures, ...card } = JSON.parse(text)
  expect(signCard(card, [signer]).signatures).toEqual(signatures)
})

describe('what a signature covers', () => {
  const { signatures: _, ...card } = JSON.parse((good[0] as Vector).text)
  const signed = signCard(card, [signer])

  it('[ECC-12] covers every member: any other card does not verify', () => {
    const paths = (value: unknown, at: (string | number)[] = []): (string | number)[][] =>
      typeof value === 'object' && value !== null
        ? Object.entries(value).flatMap(([name, one]) => [[...at, name], ...paths(one, [...at, name])])
        : []
    fc.assert(
      fc.property(fc.constantFrom(...paths(card)), fc.jsonValue({ maxDepth: 2 }), (path, value) => {
        const other = structuredClone(signed) as Record<string, unknown>
        let holder = other as Record<string | number, never>
        for (const step of path.slice(0, -1)) holder = holder[step as string] as never
        holder[path.at(-1) as string] = value as never
        let isSame: boolean
        try {
          isSame = canonicalCard(other) === canonicalCard(signed)
        } catch {
          isSame = false
        }
        if (isSame) expect(verifyCard(nodeCrypto, other, own)).toBe(other)
        else expect(() => verifyCard(nodeCrypto, other, own)).toThrow(ProtocolError)
      }),
      { numRuns: 150 }
    )
  })

  it('meets any value with a ProtocolError, nothing else', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.json(), fc.string(), fc.anything()), (value) => {
        expect(() => verifyCard(nodeCrypto, value, own)).toThrow(ProtocolError)
      })
    )
  })

  it('[TD-28] signs anew what was signed before, and lets signatures out of what it signs', () => {
    expect(signCard(signed, [signer])).toEqual(signed)
  })

  it('does not read a text that is larger than a card may be', () => {
    const large = JSON.stringify({ ...signed, description: 'x'.repeat(CARD_CHARS_MAX) })
    expect(() => verifyCard(nodeCrypto, large, own)).toThrow(expect.objectContaining({ code: 'TOO_LARGE' }))
  })
})

describe('strict JSON', () => {
  it.each([
    '{"a":1,"b":{"a":1}}',
    '[{"a":1},{"a":1}]',
    '{"a":"}\\"{,","b":["\\\\",{"c":-1.5e3}]}',
    '"\\ud83d\\ude00"',
    '9007199254740991',
    '-0',
    '1E+2',
    ' { } '
  ])('reads %s as JSON does', (text) => expect(parseStrictJson(text)).toEqual(JSON.parse(text)))

  it.each([
    ['{"a":1,"a":1}', 'a name twice'],
    ['{"x":[{"b":{},"c":0,"b":{}}]}', 'a name twice, inside'],
    ['{"a":1,"\\u0061":2}', 'a name twice, in another spelling'],
    ['9007199254740992', 'a whole number above what doubles hold'],
    ['[-9007199254740993]', 'one below'],
    ['1e400', 'one that is infinite'],
    ['"\\udc00"', 'half a pair'],
    ['{', 'no JSON'],
    [`${'['.repeat(65)}${']'.repeat(65)}`, 'too deep']
  ])('refuses %s: %s', (text) => expect(() => parseStrictJson(text)).toThrow(ProtocolError))

  it('reads whatever JSON writes', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 4, stringUnit: 'grapheme' }).filter((value) => !/\d{16}/.test(JSON.stringify(value))),
        (value) => {
          const text = JSON.stringify(value)
          expect(JSON.stringify(parseStrictJson(text))).toBe(text)
        }
      )
    )
  })
})
