import { describe, expect, it } from 'vitest'
import { utf8 } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { rememberingSignatures } from '../../src/crypto/remembered-signatures.ts'

const seed = new Uint8Array(32).fill(7)
const key = nodeCrypto.ed25519.publicKey(seed)
const message = utf8('a join')
const signature = nodeCrypto.ed25519.sign(seed, message)

function counting(max?: number) {
  let verified = 0
  const { ed25519 } = nodeCrypto
  const counted: typeof ed25519 = {
    ...ed25519,
    verify: (...given) => {
      verified++
      return ed25519.verify(...given)
    }
  }
  return { crypto: rememberingSignatures({ ...nodeCrypto, ed25519: counted }, max), verified: () => verified }
}

describe('signatures that are remembered', () => {
  it('[DS-17] are checked once, and any bit of key, message or signature that differs is checked anew and refused', () => {
    const { crypto, verified } = counting()
    for (let i = 0; i < 3; i++) expect(crypto.ed25519.verify(key, message, signature)).toBe(true)
    expect(verified()).toBe(1)
    const flipped = (bytes: Uint8Array) => bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte))
    for (let i = 0; i < 2; i++) {
      expect(crypto.ed25519.verify(flipped(key), message, signature)).toBe(false)
      expect(crypto.ed25519.verify(key, flipped(message), signature)).toBe(false)
      expect(crypto.ed25519.verify(key, message, flipped(signature))).toBe(false)
    }
    expect(verified()).toBe(7)
  })

  it('do not take a shifted boundary between the parts for the same', () => {
    const { crypto } = counting()
    expect(crypto.ed25519.verify(key, message, signature)).toBe(true)
    const longer = new Uint8Array([...signature, ...message.slice(0, 1)])
    expect(crypto.ed25519.verify(key, message.slice(1), longer)).toBe(false)
    expect(crypto.ed25519.verify(key.slice(0, 31), message, signature)).toBe(false)
  })

  it('are as many as the bound, the oldest going first', () => {
    const { crypto, verified } = counting(2)
    const texts = ['a', 'b', 'c'].map((text) => ({ text: utf8(text), sig: nodeCrypto.ed25519.sign(seed, utf8(text)) }))
    for (const { text, sig } of texts) crypto.ed25519.verify(key, text, sig)
    crypto.ed25519.verify(key, texts[2]?.text as Uint8Array, texts[2]?.sig as Uint8Array)
    expect(verified()).toBe(3)
    crypto.ed25519.verify(key, texts[0]?.text as Uint8Array, texts[0]?.sig as Uint8Array)
    expect(verified()).toBe(4)
  })
})
