import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { connectionOf, establishedOf, sent, signerOf } from '../../test/support/handshake-pair.ts'
import { equals, fromHex, toHex } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import ackVectors from '../vectors/pss-ack.json' with { type: 'json' }
import handshakeVectors from '../vectors/pss-handshake.json' with { type: 'json' }
import initVectors from '../vectors/pss-init.json' with { type: 'json' }
import negVectors from '../vectors/pss-neg.json' with { type: 'json' }
import sfcVectors from '../vectors/sfc-block.json' with { type: 'json' }
import { decodeAck, encodeAckClear } from './ack.ts'
import { type CookiePair, cookie } from './cookie.ts'
import type { Established } from './established.ts'
import { decodeInit, encodeInit } from './init.ts'
import { Initiator } from './initiator.ts'
import { decodeNeg, encodeNeg, encodeRetry } from './neg.ts'
import { PERIOD_MS } from './period-secrets.ts'
import { Responder } from './responder.ts'
import { decodeSfc, encodeSfc, type SfcBlock } from './sfc.ts'

interface Vector {
  id: string
  req: string[]
  note: string
  hex: string
  decoded?: unknown
  error?: string
  field?: string
}

/** Bytes as hex, and a cookie pair as the two members that the vectors name. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return toHex(value)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).flatMap(([name, member]) =>
    name === 'cookies'
      ? [
          ['iCookie', toHex((member as CookiePair).i)],
          ['rCookie', toHex((member as CookiePair).r)]
        ]
      : [[name, plain(member)]]
  )
  return Object.fromEntries(members)
}

function check<T>(vectors: Vector[], decode: (bytes: Uint8Array) => T, encode: (value: T) => Uint8Array): void {
  for (const vector of vectors) {
    const title = `[${vector.req.join('] [')}] ${vector.id}: ${vector.note}`
    if (vector.error === undefined) {
      it(title, () => {
        const value = decode(fromHex(vector.hex))
        expect(plain(value)).toEqual(vector.decoded)
        expect(toHex(encode(value))).toBe(vector.hex)
      })
    } else {
      it(`${title} is refused with ${vector.error}`, () => {
        let error: unknown
        try {
          decode(fromHex(vector.hex))
        } catch (caught) {
          error = caught
        }
        expect(error).toBeInstanceOf(ProtocolError)
        expect((error as ProtocolError).code).toBe(vector.error)
        if (vector.field !== undefined) expect((error as ProtocolError).field).toBe(vector.field)
      })
    }
  }
}

describe('vectors of PSS_INIT', () => check(initVectors as Vector[], decodeInit, encodeInit))
describe('vectors of PSS_NEG', () =>
  check(negVectors as Vector[], decodeNeg, (neg) => (neg.kind === 'retry' ? encodeRetry(neg) : encodeNeg(neg))))
describe('vectors of PSS_ACK', () =>
  check(ackVectors as Vector[], decodeAck, (ack) => new Uint8Array([...encodeAckClear(ack), ...ack.sealed])))
describe('[G-55] vectors of the SFC block', () => check(sfcVectors as Vector[], decodeSfc, encodeSfc))

type HandshakeVector = (typeof handshakeVectors)[number]

/** Both sides with the vector's randomness, over the named provider. */
function exchange(vector: HandshakeVector, base: CryptoProvider) {
  const { inputs } = vector
  const copies = new Set<string>()
  const watch: CryptoProvider = {
    ...base,
    sha256: (...parts) => note(base.sha256(...parts)),
    hkdfExtract: (salt, ikm) => note(base.hkdfExtract(salt, ikm)),
    hkdfExpand: (prk, info, length) => note(base.hkdfExpand(prk, info, length)),
    x25519: {
      publicKey: (secret) => note(base.x25519.publicKey(secret)),
      sharedSecret: (secret, key) => {
        const dh = base.x25519.sharedSecret(secret, key)
        return dh === undefined ? undefined : note(dh)
      },
      exchange: (secret, key) => {
        const both = base.x25519.exchange(secret, key)
        return both === undefined ? undefined : { own: note(both.own), shared: note(both.shared) }
      }
    }
  }
  function note(bytes: Uint8Array): Uint8Array {
    copies.add(toHex(bytes))
    return bytes
  }
  const signing = (seed: string) => {
    const signer = signerOf(watch, fromHex(seed))
    return { publicKey: signer.publicKey, sign: (message: Uint8Array) => note(signer.sign(message)) }
  }
  const peers = { initiator: fromHex(inputs.peerInitiator), responder: fromHex(inputs.peerResponder) }
  const local = signing(inputs.seedResponder)
  const nowMs = inputs.e * PERIOD_MS
  const responder = new Responder<string>({
    crypto: watch,
    random: () => fromHex(inputs.periodSecret),
    nowMs: 0,
    identities: () => [local],
    load: () => (inputs.retryWaitSeconds === null ? { state: 'free' } : { state: 'busy', waitSeconds: inputs.retryWaitSeconds }),
    offer: () => ({ group: inputs.grantsGroup, ...(inputs.offer === null ? {} : { sfc: inputs.offer as SfcBlock }) }),
    policy: () => ({ kind: 'accept' })
  })
  const resumeId = fromHex(inputs.resumeId)
  const initiator = new Initiator({
    crypto: watch,
    local: signing(inputs.seedInitiator),
    remoteEid: eid(fromHex(vector.intermediates.eidResponder)),
    peers,
    flags: inputs.initFlags & 0xf,
    ...(inputs.initFlags & 2 ? { resumeId } : {}),
    randomness: { iCookie: cookie(fromHex(inputs.iCookie)), nonceI: fromHex(inputs.nonceI), ephSecret: fromHex(inputs.ephSecretI) },
    contract: () => ({ kind: 'accept' })
  })
  return { initiator, responder, connection: connectionOf({ peers, remoteAddr: fromHex(inputs.remoteAddr) }), nowMs, copies }
}

function sessionOf({ sid, epoch, keys }: Established) {
  return {
    sid: toHex(sid),
    epoch: toHex(epoch),
    keys: {
      'i2r-key': toHex(keys.i2r.key),
      'i2r-iv': toHex(keys.i2r.iv),
      'i2r-chain': toHex(keys.i2r.chain),
      'r2i-key': toHex(keys.r2i.key),
      'r2i-iv': toHex(keys.r2i.iv),
      'r2i-chain': toHex(keys.r2i.chain),
      export: toHex(keys.export)
    }
  }
}

describe.each([
  ['node', nodeCrypto],
  ['noble', nobleCrypto]
])('vectors of the whole handshake, %s provider', (_, base) => {
  for (const vector of handshakeVectors) {
    const { inputs, frames, intermediates, session } = vector
    const expected = { sid: session.sid, epoch: intermediates.th3, keys: session.keys }

    it(`[${vector.req.join('] [')}] ${vector.id}: the responder answers and ends as the vector says`, () => {
      const { responder, connection, nowMs, copies } = exchange(vector, base)
      const init = 'initAgain' in frames ? frames.initAgain : frames.init
      if ('retry' in frames) expect(toHex(sent(responder.receive(fromHex(frames.init), connection, nowMs)))).toBe(frames.retry)
      expect(toHex(sent(responder.receive(fromHex(init), connection, nowMs)))).toBe(frames.neg)
      expect(sessionOf(establishedOf(responder.receive(fromHex(frames.ack), connection, nowMs)))).toEqual(expected)
      const { th1, th2, th3, dh, prk, kNeg, kAck, ephSecretR, ephR, sigR } = intermediates
      for (const value of [th1, th2, th3, dh, prk, kNeg, kAck, ephSecretR, ephR, sigR]) expect(copies).toContain(value)
    })

    // the initiator never sets a flag it does not know, so bit 9 is the responder's matter alone
    if (inputs.initFlags === (inputs.initFlags & 0xf)) {
      it(`[${vector.req.join('] [')}] ${vector.id}: the initiator sends and ends as the vector says`, () => {
        const { initiator, nowMs, copies } = exchange(vector, base)
        expect(toHex(sent(initiator.start(nowMs)))).toBe(frames.init)
        let laterMs = nowMs
        if ('retry' in frames) {
          const waiting = initiator.receive(fromHex(frames.retry), nowMs)
          expect(waiting).toMatchObject({ state: 'HEARING', send: [], wakeAtMs: nowMs + 5_000 })
          laterMs += 5_000
          expect(toHex(sent(initiator.tick(laterMs)))).toBe(frames.initAgain)
        }
        const step = initiator.receive(fromHex(frames.neg), laterMs)
        expect(toHex(sent(step))).toBe(frames.ack)
        expect(sessionOf(establishedOf(step))).toEqual(expected)
        const { th1, th2, th3, dh, prk, kNeg, kAck, ephI, sigI } = intermediates
        for (const value of [th1, th2, th3, dh, prk, kNeg, kAck, ephI, sigI]) expect(copies).toContain(value)
      })
    }
  }

  it('[D-02] derives from dh alone what a recorder of all frames lacks: the keys of the directions differ from each other', () => {
    for (const { session } of handshakeVectors) expect(new Set(Object.values(session.keys)).size).toBe(7)
  })

  it('[PSS-12] [SFC-03] needs three frames, and NEG is smaller than the INIT it answers', () => {
    for (const { frames } of handshakeVectors) {
      expect([frames.init.length / 2, frames.neg.length / 2, frames.ack.length / 2]).toEqual([256, 200, 284])
      if ('retry' in frames && frames.retry !== undefined) expect(frames.retry.length / 2).toBe(42)
    }
  })

  it('[D-11] covers both PeerIds, INIT and NEG in the first hash of the transcript', () => {
    const first = handshakeVectors[0] as HandshakeVector
    const peer = fromHex(first.inputs.peerInitiator)
    const hash = base.sha256(
      Uint8Array.of(0, peer.length),
      peer,
      Uint8Array.of(0, peer.length),
      fromHex(first.inputs.peerResponder),
      fromHex(first.frames.init),
      fromHex(first.frames.neg.slice(0, 176))
    )
    expect(equals(hash, fromHex(first.intermediates.th1))).toBe(true)
  })
})
