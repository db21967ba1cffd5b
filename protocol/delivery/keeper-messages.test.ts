import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto as crypto } from '../../src/crypto/node-crypto.ts'
import { utf8 } from '../bytes.ts'
import { decodeCbor, encodeCbor } from '../cbor.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { CONFIRMATION_BYTES_MAX, signConfirmation, verifyConfirmation } from './confirmation.ts'
import { grantedBounds, type KeeperMessage, NAMES_MAX, PAGE_OBJECT_OVERHEAD_BYTES, PAGE_OVERHEAD_BYTES } from './keeper-messages.ts'
import { DEPOSIT_OBJECT_BYTES_MAX, decodeMailboxMessage, encodeMailboxMessage, MAILBOX_MESSAGE_BYTES_MAX } from './mailbox.ts'
import { objectId } from './object.ts'

const bounds = { messagesMax: 5, bytesMax: 1_000, messagesPerPeerMax: 2, ttlMaxMs: 60_000 }
const id = objectId(new Uint8Array(16).fill(7))
const signerOf = (byte: number) => {
  const seed = new Uint8Array(32).fill(byte)
  return { publicKey: crypto.ed25519.publicKey(seed), sign: (bytes: Uint8Array) => crypto.ed25519.sign(seed, bytes) }
}
const bob = signerOf(1)
const mallory = signerOf(2)
const said = {
  objectHash: new Uint8Array(32).fill(1),
  id,
  issuer: eid(signerOf(3).publicKey),
  audience: eid(bob.publicKey),
  state: 'delivered' as const,
  atMs: 1_000
}
const isBob = (by: Uint8Array, audience: Uint8Array) => crypto.sha256(by).join() === crypto.sha256(audience).join()
const codeOf = (run: () => unknown) => {
  try {
    run()
    return undefined
  } catch (error) {
    if (error instanceof ProtocolError) return error.code
    throw error
  }
}

describe('messages between an audience, an issuer and a keeper', () => {
  const messages: KeeperMessage[] = [
    { type: 'keep', bounds },
    { type: 'keep', bounds, mail: utf8('a mail record'), rotations: [utf8('a certificate'), utf8('another')] },
    { type: 'kept', bounds, untilMs: 9 },
    { type: 'fetch', after: 0 },
    { type: 'page', objects: [utf8('a'), utf8('bc')], next: 12, more: true },
    { type: 'release', confirmations: [utf8('c')] },
    { type: 'released', count: 1 },
    { type: 'ask', audience: eid(bob.publicKey), ids: [id] },
    { type: 'told', held: [id], confirmations: [utf8('c')] },
    { type: 'told', held: [], confirmations: [utf8('c')], rotations: [utf8('a certificate')] }
  ]

  it('[G-18] come out of their bytes as they went in', () => {
    for (const message of messages)
      expect(decodeMailboxMessage(encodeMailboxMessage({ ...message, request: 3 }))).toEqual({ ...message, request: 3 })
  })

  it('carry the largest object that a deposit can bring, and no more names than their bound', () => {
    const page = (bytes: number) =>
      encodeMailboxMessage({
        type: 'page',
        request: 0xffffffff,
        objects: [new Uint8Array(bytes)],
        next: Number.MAX_SAFE_INTEGER,
        more: false
      })
    expect(page(DEPOSIT_OBJECT_BYTES_MAX).length).toBeLessThanOrEqual(
      DEPOSIT_OBJECT_BYTES_MAX + PAGE_OVERHEAD_BYTES + PAGE_OBJECT_OVERHEAD_BYTES
    )
    expect(page(DEPOSIT_OBJECT_BYTES_MAX).length).toBeLessThanOrEqual(MAILBOX_MESSAGE_BYTES_MAX)
    const ask = (names: number) =>
      encodeMailboxMessage({ type: 'ask', request: 1, audience: eid(bob.publicKey), ids: Array(names).fill(id) })
    expect(codeOf(() => decodeMailboxMessage(ask(NAMES_MAX)))).toBeUndefined()
    expect(codeOf(() => decodeMailboxMessage(ask(NAMES_MAX + 1)))).toBe('FIELD_INVALID')
  })

  it('[F083] are refused with a code, never anything else, when a byte of them was changed', () => {
    fc.assert(
      fc.property(fc.constantFrom(...messages), fc.nat(), fc.integer({ min: 1, max: 255 }), (message, at, flip) => {
        const bytes = encodeMailboxMessage({ ...message, request: 3 })
        const where = at % bytes.length
        bytes[where] = (bytes[where] as number) ^ flip
        codeOf(() => decodeMailboxMessage(bytes))
      })
    )
  })

  it('[G-18] grant of each bound what was asked, at most what is allowed', () => {
    expect(grantedBounds({ ...bounds, messagesMax: 99, ttlMaxMs: 1 }, bounds)).toEqual({ ...bounds, ttlMaxMs: 1 })
  })
})

describe('a confirmation', () => {
  it('[F088] stands when the audience signed it about that very object', () => {
    const bytes = signConfirmation(bob, said)
    expect(bytes.length).toBeLessThanOrEqual(CONFIRMATION_BYTES_MAX)
    expect(verifyConfirmation(crypto, bytes, { isAudience: isBob })).toEqual({ ...said, by: eid(bob.publicKey) })
    const refused = signConfirmation(bob, { ...said, state: 'refused', reason: 'OBJECT_KEY' })
    expect(verifyConfirmation(crypto, refused, { isAudience: isBob })).toMatchObject({ state: 'refused', reason: 'OBJECT_KEY' })
  })

  it('[F088] is nothing when somebody else signed it, a keeper included, or when it was changed', () => {
    expect(codeOf(() => verifyConfirmation(crypto, signConfirmation(mallory, said), { isAudience: isBob }))).toBe('OBJECT_AUDIENCE')
    const [payload, signature] = decodeCbor(signConfirmation(bob, said)) as [Uint8Array, Uint8Array]
    const forged = encodeCbor([payload, mallory.sign(payload)])
    expect(codeOf(() => verifyConfirmation(crypto, forged, { isAudience: isBob }))).toBe('SIGNATURE_INVALID')
    const later = signConfirmation(bob, { ...said, atMs: 2_000 })
    const mixed = encodeCbor([(decodeCbor(later) as [Uint8Array])[0], signature])
    expect(codeOf(() => verifyConfirmation(crypto, mixed, { isAudience: isBob }))).toBe('SIGNATURE_INVALID')
    const bare = signConfirmation(bob, { ...said, state: 'refused' })
    expect(codeOf(() => verifyConfirmation(crypto, bare, { isAudience: isBob }))).toBe('FIELD_INVALID')
  })
})
