import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import {
  BLOCK,
  connectionOf,
  establishedOf,
  fixedBytes,
  handshakePair,
  type PairOptions,
  PEER_R,
  recordingCrypto,
  runHandshake,
  sent,
  signerOf
} from '../../test/support/handshake-pair.ts'
import { concat, isZero, toHex } from '../bytes.ts'
import type { ProtocolErrorCode } from '../errors.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { CLOSE, decodeClose, encodeClose } from './close.ts'
import { cookie } from './cookie.ts'
import { FLAG } from './flags.ts'
import { encodeHeader, FRAME, type FrameType, frameName } from './header.ts'
import { decodeInit } from './init.ts'
import { HEARING_MS, type InitiatorStep } from './initiator.ts'
import { decodeNeg, encodeNeg, encodeRetry } from './neg.ts'
import { Responder } from './responder.ts'

/** A frame of the type with the exchange's cookies and plausible length, not sealed by anyone. */
function forged(type: FrameType, iCookie: Uint8Array, flags = 0): Uint8Array {
  const bodyBytes = { [FRAME.INIT]: 232, [FRAME.NEG]: 176, [FRAME.ACK]: 260, [FRAME.CLOSE]: 2 }[type as number] ?? 100
  const rCookie = cookie(new Uint8Array(8).fill(type === FRAME.INIT ? 0 : 3))
  return concat([encodeHeader({ type, flags, bodyBytes, iCookie: cookie(iCookie), rCookie }), new Uint8Array(bodyBytes)])
}

/** Runs up to the phase, with every secret recorded. */
function initiatorIn(phase: 'idle' | 'hearing' | 'waiting' | 'resent' | 'established', options: PairOptions = {}) {
  const { crypto, secrets } = recordingCrypto(nodeCrypto)
  const pair = handshakePair({ ...options, crypto })
  const iCookie = fixedBytes('exchange cookie', 8)
  const retry = (waitSeconds: number) => encodeRetry({ iCookie: cookie(iCookie), retryCookie: fixedBytes('retry', 16), waitSeconds })
  let step: InitiatorStep | undefined
  if (phase !== 'idle') step = pair.initiator.start(0)
  if (phase === 'waiting' || phase === 'resent') step = pair.initiator.receive(retry(5), 10)
  if (phase === 'resent') step = pair.initiator.tick(5_010)
  if (phase === 'established') step = pair.initiator.receive(sent(pair.responder.receive(sent(step), connectionOf(), 0)), 10)
  return { ...pair, iCookie, secrets, step, retry }
}

function expectClosed(step: InitiatorStep | undefined, code: ProtocolErrorCode): void {
  expect(step?.state).toBe('CLOSED')
  expect((step as { error: ProtocolError }).error).toBeInstanceOf(ProtocolError)
  expect((step as { error: ProtocolError }).error.code).toBe(code)
}

describe('initiator, state by state', () => {
  it('[PSS-08] is CLOSED, sends PSS_INIT, is in HEARING for 10 s', () => {
    const { initiator } = handshakePair()
    expect(initiator.state).toBe('CLOSED')
    const step = initiator.start(1_000)
    expect(initiator.state).toBe('HEARING')
    expect(step).toMatchObject({ state: 'HEARING', wakeAtMs: 1_000 + HEARING_MS })
    expect(decodeInit(sent(step)).flags).toBe(0)
    expect(() => initiator.start(1_000)).toThrow(TypeError)
  })

  it('[PSS-13] puts the randomness it was given into PSS_INIT, so that no two share a nonce, key or cookie', () => {
    const one = decodeInit(sent(handshakePair({ name: 'one' }).initiator.start(0)))
    const two = decodeInit(sent(handshakePair({ name: 'two' }).initiator.start(0)))
    expect(toHex(one.nonceI)).toBe(toHex(fixedBytes('one nonce')))
    expect(toHex(one.iCookie)).toBe(toHex(fixedBytes('one cookie', 8)))
    expect(toHex(one.ephI)).toBe(toHex(nodeCrypto.x25519.publicKey(fixedBytes('one eph'))))
    for (const field of ['nonceI', 'ephI', 'iCookie', 'target'] as const) expect(toHex(one[field])).not.toBe(toHex(two[field]))
  })

  it('[PSS-09] [D-10] takes a valid PSS_NEG in HEARING, emits PSS_ACK, is ESTABLISHED; the responder is so only after that ACK', () => {
    const pair = handshakePair({ flags: FLAG.SFC | FLAG.GROUP })
    const init = sent(pair.initiator.start(0))
    expect(pair.initiator.state).toBe('HEARING')
    const answer = pair.responder.receive(init, connectionOf(), 0)
    expect(answer.kind).toBe('send')
    expect(pair.responder.held).toEqual({ spentPairs: 0 })
    const mine = pair.initiator.receive(sent(answer), 10)
    expect(pair.initiator.state).toBe('ESTABLISHED')
    const theirs = pair.responder.receive(sent(mine), connectionOf(), 20)
    expect(theirs.kind).toBe('established')
    const [a, b] = [establishedOf(mine), establishedOf(theirs)]
    expect({ ...b, role: a.role, localEid: a.localEid, remoteEid: a.remoteEid }).toEqual(a)
    expect([a.localEid, a.remoteEid]).toEqual([pair.eidI, pair.eidR])
    expect([b.localEid, b.remoteEid]).toEqual([pair.eidR, pair.eidI])
    expect([a.role, b.role]).toEqual(['initiator', 'responder'])
    expect(a.sfc).toEqual(BLOCK)
  })

  const codes = (type: FrameType, otherwise: ProtocolErrorCode): ProtocolErrorCode => (type === FRAME.CLOSE ? 'CLOSED_BY_PEER' : otherwise)
  const types = Object.values(FRAME)
  const phases = ['hearing', 'waiting', 'resent'] as const

  it.each(phases.flatMap((phase) => types.map((type) => [phase, frameName(type), type] as const)))(
    '[PSS-11] [D-10] closes and wipes in %s on a %s that is not the valid next frame',
    (phase, _, type) => {
      const { initiator, iCookie, ephSecret, secrets } = initiatorIn(phase)
      expect(isZero(ephSecret)).toBe(false)
      const step = initiator.receive(forged(type, iCookie), 20)
      // a NEG that nobody sealed gets as far as its low-order key
      expectClosed(step, codes(type, type === FRAME.NEG && phase !== 'waiting' ? 'KEY_EXCHANGE' : 'OUT_OF_ORDER'))
      expect(initiator.state).toBe('CLOSED')
      expect(isZero(ephSecret)).toBe(true)
      for (const kept of [...secrets.values()].flat()) expect(isZero(kept)).toBe(true)
      expect(step.send.length).toBe(type === FRAME.CLOSE ? 0 : 1)
      expect(initiator.receive(forged(FRAME.NEG, iCookie), 30)).toMatchObject({ state: 'CLOSED', send: [] })
    }
  )

  it.each(types.map((type) => [frameName(type), type] as const))('[PSS-11] closes on a %s before it has sent anything', (_, type) => {
    const { initiator, iCookie, ephSecret } = initiatorIn('idle')
    expectClosed(initiator.receive(forged(type, iCookie), 0), codes(type, 'OUT_OF_ORDER'))
    expect(isZero(ephSecret)).toBe(true)
    expect(() => initiator.start(0)).toThrow(TypeError)
  })

  it.each([FRAME.INIT, FRAME.NEG, FRAME.ACK, FRAME.CLOSE].map((type) => [frameName(type), type] as const))(
    '[PSS-11] [G-41] closes on a %s in ESTABLISHED and wipes the keys',
    (_, type) => {
      const { initiator, iCookie, step } = initiatorIn('established')
      const { keys } = establishedOf(step as InitiatorStep)
      expect(isZero(keys.i2r.key)).toBe(false)
      expect(initiator.receive(forged(type, iCookie), 30)).toMatchObject({ state: 'CLOSED', send: [] })
      for (const secret of [keys.i2r, keys.r2i].flatMap(({ key, iv, chain }) => [key, iv, chain])) expect(isZero(secret)).toBe(true)
      expect(isZero(keys.export)).toBe(true)
    }
  )

  it.each([FRAME.DATA_STREAM, FRAME.TEARDOWN, FRAME.REVOCATION_PUBLISH])('[PSS-17] leaves type %i in ESTABLISHED to the stream', (type) => {
    const { initiator, iCookie, step } = initiatorIn('established')
    expect(() => initiator.receive(forged(type, iCookie), 30)).toThrow(TypeError)
    expect(initiator.state).toBe('ESTABLISHED')
    expect(isZero(establishedOf(step as InitiatorStep).keys.export)).toBe(false)
  })

  it('[D-02] keeps no secret of the exchange beside the session keys once ESTABLISHED', () => {
    const { secrets, ephSecret, step } = initiatorIn('established')
    const { keys } = establishedOf(step as InitiatorStep)
    const kept = new Set([keys.i2r, keys.r2i].flatMap(({ key, iv, chain }) => [key, iv, chain]).concat(keys.export))
    expect(isZero(ephSecret)).toBe(true)
    const others = [...secrets.values()].flat().filter((secret) => !kept.has(secret))
    expect(others.length).toBeGreaterThan(4)
    for (const other of others) expect(isZero(other)).toBe(true)
  })

  it('[PSS-11] [G-43] closes when PSS_NEG is late, by the clock or by the frame', () => {
    const one = initiatorIn('hearing')
    expect(one.initiator.tick(HEARING_MS - 1)).toMatchObject({ state: 'HEARING', send: [], wakeAtMs: HEARING_MS })
    expectClosed(one.initiator.tick(HEARING_MS), 'TIMEOUT')
    expect(isZero(one.ephSecret)).toBe(true)
    expect(one.initiator.tick(HEARING_MS)).toBeUndefined()
    const two = initiatorIn('hearing')
    const neg = sent(two.responder.receive(sent(two.step), connectionOf(), 0))
    const late = two.initiator.receive(neg, HEARING_MS)
    expectClosed(late, 'TIMEOUT')
    expect(decodeClose(late.send[0] as Uint8Array).code).toBe(CLOSE.LATE)
  })

  it('[PSS-11] wipes when the caller gives up or the stream ends', () => {
    const { initiator, ephSecret } = initiatorIn('hearing')
    expectClosed(initiator.abort(new ProtocolError('CLOSED_BY_PEER', 'reset')), 'CLOSED_BY_PEER')
    expect(isZero(ephSecret)).toBe(true)
  })

  it('[PSS-11] wipes when our own policy throws', () => {
    const pair = handshakePair({
      flags: FLAG.SFC,
      contract: () => {
        throw new Error('bug')
      }
    })
    const neg = sent(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0))
    expect(() => pair.initiator.receive(neg, 0)).toThrow('bug')
    expect(pair.initiator.state).toBe('CLOSED')
    expect(isZero(pair.ephSecret)).toBe(true)
  })
})

describe('RETRY', () => {
  it('[PSS-14] [G-44] waits as told, repeats PSS_INIT once with the cookie, and its 10 s start again', () => {
    const { initiator, step, retry } = initiatorIn('hearing')
    const first = sent(step)
    expect(initiator.receive(retry(7), 9_000)).toEqual({ state: 'HEARING', send: [], wakeAtMs: 16_000 })
    expect(initiator.tick(15_999)).toMatchObject({ state: 'HEARING', send: [] })
    const again = initiator.tick(16_000)
    expect(again).toMatchObject({ state: 'HEARING', wakeAtMs: 16_000 + HEARING_MS })
    expect(decodeInit(sent(again))).toEqual({ ...decodeInit(first), retryCookie: fixedBytes('retry', 16) })
    expectClosed(initiator.tick(26_000), 'TIMEOUT')
  })

  it('[PSS-14] repeats at once where no wait is asked', () => {
    const { initiator, retry } = initiatorIn('hearing')
    expect(decodeInit(sent(initiator.receive(retry(0), 5))).retryCookie).toEqual(fixedBytes('retry', 16))
  })

  it('[PSS-11] [G-41] closes at a second RETRY', () => {
    const { initiator, retry, ephSecret } = initiatorIn('resent')
    expectClosed(initiator.receive(retry(1), 5_020), 'OUT_OF_ORDER')
    expect(isZero(ephSecret)).toBe(true)
  })

  it('[PSS-11] closes at a RETRY while it waits, and at one for another exchange', () => {
    const waiting = initiatorIn('waiting')
    expectClosed(waiting.initiator.receive(waiting.retry(1), 20), 'OUT_OF_ORDER')
    const { initiator } = initiatorIn('hearing')
    const other = encodeRetry({ iCookie: cookie(fixedBytes('other', 8)), retryCookie: fixedBytes('retry', 16), waitSeconds: 1 })
    expectClosed(initiator.receive(other, 20), 'COOKIE_MISMATCH')
  })

  it('[PSS-14] reaches ESTABLISHED through a busy responder', () => {
    const { initiatorStep, responderStep, frames } = runHandshake(
      handshakePair({ load: () => ({ state: 'busy', waitSeconds: 3 }), flags: FLAG.SFC })
    )
    expect(frames.map((frame) => frame.length)).toEqual([256, 42, 256, 200, 284])
    expect(initiatorStep.state).toBe('ESTABLISHED')
    expect(establishedOf(responderStep as never).epoch).toEqual(establishedOf(initiatorStep).epoch)
  })
})

describe('what the initiator makes sure of', () => {
  it('[PSS-01] refuses a session with its own EID before it sends anything', () => {
    const own = eid(signerOf(nodeCrypto, fixedBytes('seed i')).publicKey)
    expect(() => handshakePair({ remoteEid: own })).toThrow(expect.objectContaining({ code: 'EID_MISMATCH', field: 'eid' }))
  })

  /** A responder that answers an INIT for EID_R though it holds another key: it knows the target, not the secret. */
  function impostor(seed: Uint8Array, crypto = nodeCrypto) {
    const real = signerOf(crypto, fixedBytes('seed r'))
    const mine = signerOf(crypto, seed)
    let asked = 0
    const chameleon = {
      // the target is looked up under the EID asked for, what is sealed is the impostor's own
      get publicKey() {
        return asked++ === 0 ? real.publicKey : mine.publicKey
      },
      sign: mine.sign
    }
    return new Responder<string>({
      crypto,
      random: (length) => fixedBytes('impostor', length),
      nowMs: 0,
      identities: () => [chameleon],
      load: () => ({ state: 'free' }),
      offer: () => ({}),
      policy: () => ({ kind: 'accept' })
    })
  }

  it.each([
    ['another EID than the one asked for', 'seed of someone else'],
    ['its own EID (reflection)', 'seed i']
  ])('[PSS-11] [D-11] refuses a PSS_NEG that proves %s', (_, seed) => {
    const { initiator } = handshakePair()
    const neg = sent(impostor(fixedBytes(seed)).receive(sent(initiator.start(0)), connectionOf(), 0))
    const step = initiator.receive(neg, 0)
    expectClosed(step, 'EID_MISMATCH')
    expect(decodeClose(step.send[0] as Uint8Array).code).toBe(CLOSE.TARGET)
  })

  it('[D-11] [G-39] refuses a PSS_NEG whose signature is not the EID’s', () => {
    const forger = signerOf(nodeCrypto, fixedBytes('seed of someone else'))
    const responder = new Responder<string>({
      crypto: nodeCrypto,
      random: (length) => fixedBytes('forger', length),
      nowMs: 0,
      identities: () => [{ publicKey: signerOf(nodeCrypto, fixedBytes('seed r')).publicKey, sign: forger.sign }],
      load: () => ({ state: 'free' }),
      offer: () => ({}),
      policy: () => ({ kind: 'accept' })
    })
    const { initiator } = handshakePair()
    expectClosed(initiator.receive(sent(responder.receive(sent(initiator.start(0)), connectionOf(), 0)), 0), 'SIGNATURE_INVALID')
  })

  it('[D-11] refuses a PSS_NEG made for another pair of PeerIds', () => {
    const { initiator, responder } = handshakePair()
    const elsewhere = connectionOf({ peers: { initiator: fixedBytes('the man in the middle', 38), responder: PEER_R } })
    expectClosed(initiator.receive(sent(responder.receive(sent(initiator.start(0)), elsewhere, 0)), 0), 'AEAD_OPEN')
  })

  it('[PSS-09] refuses a PSS_NEG with another I-cookie, and one with another R-cookie', () => {
    for (const [at, code] of [
      [8, 'COOKIE_MISMATCH'],
      [16, 'AEAD_OPEN']
    ] as const) {
      const { initiator, responder } = handshakePair()
      const neg = sent(responder.receive(sent(initiator.start(0)), connectionOf(), 0)).slice()
      neg[at] = (neg[at] as number) ^ 1
      expectClosed(initiator.receive(neg, 0), code)
    }
  })

  it('[PSS-11] [G-41] takes no second PSS_NEG, not even the same again', () => {
    const { initiator, responder } = handshakePair()
    const neg = sent(responder.receive(sent(initiator.start(0)), connectionOf(), 0))
    expect(initiator.receive(neg, 0).state).toBe('ESTABLISHED')
    expectClosed(initiator.receive(neg, 0), 'OUT_OF_ORDER')
  })

  it('[D-11] refuses a PSS_NEG whose flags exceed what it asked, or that drops RESUME or EXCLUSIVE', () => {
    const cases: [PairOptions, number][] = [
      [{ flags: 0 }, FLAG.GROUP],
      [{ flags: FLAG.SFC }, FLAG.GROUP],
      [{ flags: 0 }, 1 << 9],
      [{ flags: FLAG.EXCLUSIVE }, 0],
      [{ flags: FLAG.RESUME, resumeId: fixedBytes('resume', 16) }, 0]
    ]
    for (const [options, flags] of cases) {
      const { initiator, responder } = handshakePair({ ...options, offer: () => ({}) })
      const neg = decodeNeg(sent(responder.receive(sent(initiator.start(0)), connectionOf(), 0)))
      if (neg.kind !== 'neg') throw new Error('no NEG')
      expectClosed(initiator.receive(encodeNeg({ ...neg, flags }), 0), 'FRAME_FLAGS')
    }
  })

  it('[D-11] finds a stripped SFC or GROUP flag by the transcript', () => {
    for (const flag of [FLAG.SFC, FLAG.GROUP]) {
      const { initiator, responder } = handshakePair({ flags: FLAG.SFC | FLAG.GROUP })
      const neg = decodeNeg(sent(responder.receive(sent(initiator.start(0)), connectionOf(), 0)))
      if (neg.kind !== 'neg') throw new Error('no NEG')
      const { sfc, ...rest } = neg
      const stripped = { ...rest, flags: neg.flags & ~flag, ...(flag === FLAG.SFC || sfc === undefined ? {} : { sfc }) }
      expectClosed(initiator.receive(encodeNeg(stripped), 0), 'AEAD_OPEN')
    }
  })

  it('[D-02] refuses an ephemeral key of low order', () => {
    for (const point of [new Uint8Array(32), Uint8Array.of(1, ...new Uint8Array(31))]) {
      const { initiator, responder } = handshakePair()
      const neg = decodeNeg(sent(responder.receive(sent(initiator.start(0)), connectionOf(), 0)))
      if (neg.kind !== 'neg') throw new Error('no NEG')
      expectClosed(initiator.receive(encodeNeg({ ...neg, ephR: point }), 0), 'KEY_EXCHANGE')
    }
  })

  it('[PSS-11] does not answer CLOSE with CLOSE', () => {
    const { initiator } = initiatorIn('hearing')
    expect(initiator.receive(encodeClose(CLOSE.BUSY), 1)).toMatchObject({ state: 'CLOSED', send: [] })
  })

  it('[PSS-08] is built with flags it can negotiate and a resume id that goes with them, or not at all', () => {
    for (const options of [{ flags: FLAG.RETRY }, { flags: 1 << 8 }, { flags: FLAG.RESUME }, { resumeId: fixedBytes('r', 16) }]) {
      expect(() => handshakePair(options)).toThrow(RangeError)
    }
  })
})

describe('contract', () => {
  it('[SFC-04] [D-12] asks by bit 0 of PSS_INIT, and no block comes unasked', () => {
    const { initiatorStep, frames } = runHandshake(handshakePair({ offer: () => ({ sfc: BLOCK }) }))
    expect(decodeInit(frames[0] as Uint8Array).flags & FLAG.SFC).toBe(0)
    expect(establishedOf(initiatorStep).sfc).toBeUndefined()
    expect(isZero((frames[1] as Uint8Array).subarray(56, 88))).toBe(true)
  })

  it('[SFC-03] [SFC-05] [SFC-07] ratifies the block in three frames, the same on both sides', () => {
    const { initiatorStep, responderStep, frames } = runHandshake(handshakePair({ flags: FLAG.SFC, offer: () => ({ sfc: BLOCK }) }))
    expect(frames.length).toBe(3)
    expect(establishedOf(initiatorStep).sfc).toEqual(BLOCK)
    expect(establishedOf(responderStep as never).sfc).toEqual(BLOCK)
    expect((frames[2] as Uint8Array).subarray(140, 172)).toEqual((frames[1] as Uint8Array).subarray(56, 88))
  })

  it('[SFC-07] sends no PSS_ACK for a block it cannot accept: CLOSED, naming the field', () => {
    const { initiatorStep, responderStep, frames } = runHandshake(
      handshakePair({ flags: FLAG.SFC, contract: () => ({ kind: 'refuse', field: 'payloadBytesMax' }) })
    )
    expect(frames.length).toBe(2)
    expectClosed(initiatorStep, 'CONTRACT_REFUSED')
    expect((initiatorStep as { error: ProtocolError }).error.field).toBe('sfc.payloadBytesMax')
    expect(decodeClose(initiatorStep.send[0] as Uint8Array).code).toBe(CLOSE.CONTRACT)
    expect(responderStep?.kind).toBe('send')
  })

  it('[G-44] [SFC-05] leaves a plain session, offered where a contract was asked, to the initiator to take or not', () => {
    const seen: unknown[] = []
    const plainOffer = (kind: 'accept' | 'refuse') =>
      runHandshake(
        handshakePair({
          flags: FLAG.SFC,
          offer: () => ({}),
          contract: (offer) => {
            seen.push(offer)
            return kind === 'accept' ? { kind } : { kind, field: 'absent' }
          }
        })
      )
    const taken = plainOffer('accept')
    expect(establishedOf(taken.responderStep as never)).toMatchObject({ flags: 0 })
    expect(establishedOf(taken.initiatorStep).sfc).toBeUndefined()
    expectClosed(plainOffer('refuse').initiatorStep, 'CONTRACT_REFUSED')
    expect(seen).toEqual([undefined, undefined])
  })

  it('[SFC-06] refuses a block with an unknown bit, though the transcript covers it', () => {
    const pair = handshakePair({ flags: FLAG.SFC, offer: () => ({ sfc: { ...BLOCK, scopes: 0x80 } }) })
    const neg = sent(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0))
    const step = pair.initiator.receive(neg, 0)
    expectClosed(step, 'FIELD_INVALID')
    expect((step as { error: ProtocolError }).error.field).toBe('sfc.scopes')
  })
})
