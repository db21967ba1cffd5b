import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import {
  ADDR,
  BLOCK,
  connectionOf,
  establishedOf,
  fixedBytes,
  handshakePair,
  type PairOptions,
  PEER_I,
  PEER_R,
  recordingCrypto,
  runHandshake,
  sent,
  signerOf
} from '../../test/support/handshake-pair.ts'
import { concat, isZero, toHex, u64Bytes } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import type { ProtocolError, ProtocolErrorCode } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { encodeAckClear, type PssAckClear } from './ack.ts'
import { CLOSE, decodeClose } from './close.ts'
import { ConnectionGuard, FAILED_ACKS_MAX } from './connection-guard.ts'
import { cookie } from './cookie.ts'
import { FLAG } from './flags.ts'
import { FRAME, frameName } from './header.ts'
import { decodeInit, encodeInit } from './init.ts'
import { ackKey, ackSigned, handshakeSecret, sealOnce, th1, th2 } from './key-schedule.ts'
import { decodeNeg } from './neg.ts'
import { PERIOD_MS, PeriodSecrets } from './period-secrets.ts'
import type { Caller, Load, ResponderStep } from './responder.ts'
import { SPENT_MS, SpentPairs } from './spent-pairs.ts'

function expectClose(step: ResponderStep<string>, code: ProtocolErrorCode, scope: 'stream' | 'connection' = 'stream'): ProtocolError {
  if (step.kind !== 'close') throw new Error(`the step is ${step.kind}, not a close`)
  expect(step.error.code).toBe(code)
  expect(step.scope).toBe(scope)
  return step.error
}

/** An INIT, its NEG and the ACK to it, made at `atMs` and not yet delivered. */
function upToAck(options: PairOptions = {}, atMs = 0, connection = connectionOf()) {
  const pair = handshakePair(options)
  const init = sent(pair.initiator.start(atMs))
  const neg = sent(pair.responder.receive(init, connection, atMs))
  const step = pair.initiator.receive(neg, atMs)
  return { ...pair, init, neg, ack: sent(step), mine: establishedOf(step) }
}

/** Answers a NEG as the initiator would, with what the test wants to prove instead. */
function ackOf(
  initFrame: Uint8Array,
  negFrame: Uint8Array,
  ephSecret: Uint8Array,
  proof: { eid: Uint8Array; sign: (message: Uint8Array) => Uint8Array; peers?: { initiator: Uint8Array; responder: Uint8Array } }
) {
  const neg = decodeNeg(negFrame)
  if (neg.kind !== 'neg') throw new Error('no NEG')
  const eidR = signerOf(nodeCrypto, fixedBytes('seed r')).publicKey
  const peers = proof.peers ?? { initiator: PEER_I, responder: PEER_R }
  const prk = handshakeSecret(nodeCrypto, nodeCrypto.x25519.sharedSecret(ephSecret, neg.ephR) as Uint8Array)
  const clear: PssAckClear = {
    init: decodeInit(initFrame),
    flags: neg.flags,
    cookies: neg.cookies,
    ...(neg.sfc === undefined ? {} : { sfc: neg.sfc })
  }
  const ackClear = encodeAckClear(clear)
  const hash2 = th2(nodeCrypto, th1(nodeCrypto, peers, initFrame, negFrame.subarray(0, 88)), eidR, ackClear)
  const sealed = sealOnce(nodeCrypto, ackKey(nodeCrypto, prk, hash2), concat([proof.eid, proof.sign(ackSigned(hash2, proof.eid, eidR))]))
  return concat([ackClear, sealed])
}

/** Primitives that cost nothing, for tests that count state and not security. */
const cheapCrypto: CryptoProvider = {
  ...nodeCrypto,
  hkdfExtract: () => new Uint8Array(32).fill(1),
  hkdfExpand: (_, __, length) => new Uint8Array(length).fill(2),
  aead: { ...nodeCrypto.aead, seal: (_, __, ___, plaintext) => new Uint8Array(plaintext.length + 16).fill(3) },
  x25519: {
    publicKey: () => new Uint8Array(32).fill(9),
    sharedSecret: () => new Uint8Array(32).fill(7),
    exchange: () => ({ own: new Uint8Array(32).fill(9), shared: new Uint8Array(32).fill(7) })
  },
  ed25519: { ...nodeCrypto.ed25519, sign: () => new Uint8Array(64).fill(5) }
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

describe('responder before the ACK', () => {
  it.each([
    ['answers every one', { state: 'free' }],
    ['is busy', { state: 'busy', waitSeconds: 5 }]
  ] as [string, Load][])(
    '[PSS-16] [PSS-12] [D-08] holds nothing more after 100,000 PSS_INIT when it %s',
    { timeout: 120_000 },
    (_, load) => {
      const pair = handshakePair({ crypto: cheapCrypto, load: () => load, flags: FLAG.SFC })
      const init = sent(pair.initiator.start(0)).slice()
      const template = decodeInit(init)
      let connection = connectionOf()
      const sendInits = (from: number, count: number) => {
        for (let i = from; i < from + count; i++) {
          if (i % 8 === 0) connection = connectionOf({ remoteAddr: concat([ADDR, u64Bytes(BigInt(i))]) })
          const frame = encodeInit({ ...template, iCookie: cookie(u64Bytes(BigInt(i))) })
          const step = pair.responder.receive(frame, connection, i / 1_000)
          if (step.kind !== 'send') throw step.kind === 'close' ? step.error : new Error(step.kind)
        }
      }
      sendInits(0, 2_000)
      collectGarbage()
      const before = process.memoryUsage().heapUsed
      sendInits(2_000, 98_000)
      collectGarbage()
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(1 << 20)
      expect(pair.responder.held).toEqual({ spentPairs: 0 })
    }
  )

  it('[D-08] [PSS-12] makes the same PSS_NEG of a repeated PSS_INIT, on any stream of the connection, plain or with a contract or RETRY', () => {
    for (const options of [{}, { flags: FLAG.SFC | FLAG.GROUP }, { load: (): Load => ({ state: 'busy', waitSeconds: 4 }) }]) {
      const pair = handshakePair(options)
      const init = sent(pair.initiator.start(0))
      const one = sent(pair.responder.receive(init, connectionOf(), 0))
      const two = sent(pair.responder.receive(init, connectionOf(), PERIOD_MS - 1))
      expect(toHex(two)).toBe(toHex(one))
      expect(toHex(sent(pair.responder.receive(init, connectionOf(), PERIOD_MS)))).not.toBe(toHex(one))
    }
  })

  it('[PSS-15] [D-09] gives another cookie to the same PSS_INIT from another address, PeerId, to another PeerId, and in another period', () => {
    const pair = handshakePair()
    const init = sent(pair.initiator.start(0))
    const cookieAt = (connection = connectionOf(), nowMs = 0) => toHex(sent(pair.responder.receive(init, connection, nowMs)).slice(16, 24))
    const cookies = [
      cookieAt(),
      cookieAt(connectionOf({ remoteAddr: concat([ADDR, Uint8Array.of(1)]) })),
      cookieAt(connectionOf({ peers: { initiator: fixedBytes('another', 38), responder: PEER_R } })),
      cookieAt(connectionOf({ peers: { initiator: PEER_I, responder: fixedBytes('another', 38) } })),
      cookieAt(connectionOf(), PERIOD_MS)
    ]
    expect(new Set(cookies).size).toBe(5)
  })

  it('[G-38] [PSS-15] binds the cookie to the flags and the contract it offers', () => {
    let offer: { sfc?: typeof BLOCK; group?: boolean } = { sfc: BLOCK, group: true }
    const pair = handshakePair({ flags: FLAG.SFC | FLAG.GROUP, offer: () => offer })
    const init = sent(pair.initiator.start(0))
    const cookieNow = () => toHex(sent(pair.responder.receive(init, connectionOf(), 0)).slice(16, 24))
    const cookies = [cookieNow()]
    for (const other of [{ sfc: BLOCK }, { group: true }, { sfc: { ...BLOCK, region: 1 }, group: true }]) {
      offer = other
      cookies.push(cookieNow())
    }
    expect(new Set(cookies).size).toBe(4)
  })

  it('[PSS-14] [G-44] answers RETRY when busy, does no curve arithmetic for it, and serves who comes back with the cookie', () => {
    let curves = 0
    const counting: CryptoProvider = {
      ...nodeCrypto,
      x25519: {
        ...nodeCrypto.x25519,
        exchange: (secret, key) => {
          curves += 1
          return nodeCrypto.x25519.exchange(secret, key)
        }
      }
    }
    const pair = handshakePair({ crypto: counting, load: () => ({ state: 'busy', waitSeconds: 2.4 }) })
    const init = sent(pair.initiator.start(0))
    const step = pair.responder.receive(init, connectionOf(), 0)
    expect(decodeNeg(sent(step))).toMatchObject({ kind: 'retry', waitSeconds: 3 })
    expect(step).toMatchObject({ answerByMs: 13_000 })
    expect(curves).toBe(0)
    pair.initiator.receive(sent(step), 0)
    const again = sent(pair.initiator.tick(3_000))
    expect(decodeNeg(sent(pair.responder.receive(again, connectionOf(), 3_000))).kind).toBe('neg')
    expect(curves).toBe(1)
  })

  it('[PSS-14] takes a retry cookie of this period or the one before, from the same connection, for the same PSS_INIT only', () => {
    const pair = handshakePair({ load: () => ({ state: 'busy', waitSeconds: 30 }) })
    const first = sent(pair.initiator.start(0))
    const retry = decodeNeg(sent(pair.responder.receive(first, connectionOf(), 59_000)))
    if (retry.kind !== 'retry') throw new Error('no RETRY')
    const again = { ...decodeInit(first), retryCookie: retry.retryCookie }
    const at = (nowMs: number, init = again, connection = connectionOf()) => pair.responder.receive(encodeInit(init), connection, nowMs)
    expect(at(59_000).kind).toBe('send')
    expect(at(119_999).kind).toBe('send')
    expectClose(at(119_999, { ...again, nonceI: fixedBytes('another nonce') }), 'COOKIE_MISMATCH')
    expectClose(at(119_999, again, connectionOf({ remoteAddr: fixedBytes('another address') })), 'COOKIE_MISMATCH')
    expectClose(at(120_000), 'COOKIE_MISMATCH')
  })

  it('[PSS-14] gives no ordinary PSS_NEG at capacity, not even for a retry cookie', () => {
    const pair = handshakePair({ load: () => ({ state: 'full', waitSeconds: 99 }) })
    const step = pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0)
    expect(decodeNeg(sent(step))).toMatchObject({ kind: 'retry', waitSeconds: 30 })
    pair.initiator.receive(sent(step), 0)
    const again = pair.responder.receive(sent(pair.initiator.tick(30_000)), connectionOf(), 30_000)
    expectClose(again, 'BUSY')
    expect(decodeClose((again as { frame: Uint8Array }).frame).code).toBe(CLOSE.BUSY)
  })

  it('[PSS-11] refuses a retry cookie that it never made though it is not busy', () => {
    const pair = handshakePair()
    const init = decodeInit(sent(pair.initiator.start(0)))
    const step = pair.responder.receive(encodeInit({ ...init, retryCookie: fixedBytes('made up', 16) }), connectionOf(), 0)
    expectClose(step, 'COOKIE_MISMATCH')
  })

  it('[PSS-11] refuses a target that is no agent of this node', () => {
    const elsewhere = eid(signerOf(nodeCrypto, fixedBytes('seed of nobody here')).publicKey)
    const pair = handshakePair({ remoteEid: elsewhere })
    const error = expectClose(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0), 'TARGET_MISMATCH')
    expect(error.field).toBe('target')
  })

  it('[D-02] refuses an ephemeral key of low order', () => {
    const pair = handshakePair()
    const init = decodeInit(sent(pair.initiator.start(0)))
    expectClose(pair.responder.receive(encodeInit({ ...init, ephI: new Uint8Array(32) }), connectionOf(), 0), 'KEY_EXCHANGE')
  })

  it('[PSS-12] takes at most 8 PSS_INIT a connection in any minute', () => {
    const pair = handshakePair()
    const init = sent(pair.initiator.start(0))
    const connection = connectionOf()
    for (let i = 0; i < 8; i++) expect(pair.responder.receive(init, connection, i * 1_000).kind).toBe('send')
    expectClose(pair.responder.receive(init, connection, 59_999), 'BUSY')
    expect(pair.responder.receive(init, connectionOf(), 59_999).kind).toBe('send')
    expect(pair.responder.receive(init, connection, 60_000).kind).toBe('send')
    expectClose(pair.responder.receive(init, connection, 60_000), 'BUSY')
  })

  it.each(
    [FRAME.NEG, FRAME.DATA_STREAM, FRAME.TEARDOWN, FRAME.REVOCATION_PUBLISH, FRAME.CLOSE].map((type) => [frameName(type), type] as const)
  )('[PSS-11] [G-41] closes the stream on a %s in CLOSED', (_, type) => {
    const pair = handshakePair()
    const length = { [FRAME.NEG]: 176, [FRAME.CLOSE]: 2 }[type as number] ?? 100
    const frame = concat([Uint8Array.of(1, type, 0, 0, 0, 0, 0, length), new Uint8Array(16 + length)])
    const step = pair.responder.receive(frame, connectionOf(), 0)
    expectClose(step, type === FRAME.CLOSE ? 'CLOSED_BY_PEER' : 'OUT_OF_ORDER')
    expect((step as { frame?: Uint8Array }).frame === undefined).toBe(type === FRAME.CLOSE)
  })

  it('[PSS-11] answers with CLOSE, BUSY, once it is stopping, and has wiped its secrets', () => {
    const handed: Uint8Array[] = []
    const secrets = new PeriodSecrets({
      random: (length) => {
        handed.push(fixedBytes(`handed ${handed.length}`, length))
        return handed.at(-1) as Uint8Array
      },
      nowMs: 0
    })
    secrets.at(PERIOD_MS)
    secrets.wipe()
    expect(handed.length).toBe(2)
    for (const secret of handed) expect(isZero(secret)).toBe(true)
    expect(() => secrets.at(PERIOD_MS)).toThrow(TypeError)
    const pair = handshakePair()
    pair.responder.stop()
    expectClose(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0), 'BUSY')
    pair.responder.tick(PERIOD_MS)
  })
})

describe('period secrets', () => {
  it('[PSS-15] [D-09] are new at start and every 60 s, the one before kept, older ones overwritten', () => {
    const handed: Uint8Array[] = []
    const random = (length: number) => {
      handed.push(fixedBytes(`handed ${handed.length}`, length))
      return handed.at(-1) as Uint8Array
    }
    const secrets = new PeriodSecrets({ random, nowMs: 5_000 })
    const numbers = (nowMs: number) => secrets.at(nowMs).map(({ e }) => e)
    expect(secrets.wakeAtMs).toBe(65_000)
    expect(numbers(64_999)).toEqual([0n])
    expect(numbers(65_000)).toEqual([1n, 0n])
    expect(secrets.wakeAtMs).toBe(125_000)
    expect(handed.map(isZero)).toEqual([false, false])
    expect(numbers(125_000)).toEqual([2n, 1n])
    expect(handed.map(isZero)).toEqual([true, false, false])
    // a node that slept through whole periods keeps none of before
    expect(numbers(125_000 + 2 * PERIOD_MS)).toEqual([4n])
    expect(handed.map(isZero)).toEqual([true, true, true, false])
  })
})

describe('responder at the ACK', () => {
  it('[PSS-16] is ESTABLISHED only by the ACK, with what the initiator has', () => {
    const { responder, ack, mine } = upToAck({ flags: FLAG.SFC })
    expect(responder.held).toEqual({ spentPairs: 0 })
    const theirs = establishedOf(responder.receive(ack, connectionOf(), 1))
    expect(theirs.keys).toEqual(mine.keys)
    expect(theirs.sid).toEqual(mine.sid)
    expect(responder.held).toEqual({ spentPairs: 1 })
  })

  it('[PSS-07] names a resumed session by its resume id', () => {
    const resumeId = fixedBytes('resume', 16)
    const { responder, ack, mine } = upToAck({ flags: FLAG.RESUME, resumeId })
    const theirs = establishedOf(responder.receive(ack, connectionOf(), 1))
    expect(theirs.sid).toEqual(resumeId)
    expect(mine.sid).toEqual(resumeId)
    expect(theirs.epoch).toEqual(mine.epoch)
    expect(theirs.flags & FLAG.RESUME).toBe(FLAG.RESUME)
  })

  it('[PSS-15] takes a cookie of the period before, and refuses it after two rotations', () => {
    for (const [atMs, accepted] of [
      [PERIOD_MS - 1, true],
      [PERIOD_MS, true],
      [2 * PERIOD_MS - 1, true],
      [2 * PERIOD_MS, false]
    ] as const) {
      const { responder, ack } = upToAck()
      const step = responder.receive(ack, connectionOf(), atMs)
      if (accepted) expect(step.kind).toBe('established')
      else expectClose(step, 'COOKIE_MISMATCH')
    }
  })

  it.each([
    ['remote address', { remoteAddr: concat([ADDR, Uint8Array.of(1)]) }],
    ['remote PeerId', { peers: { initiator: fixedBytes('another', 38), responder: PEER_R } }],
    ['local PeerId', { peers: { initiator: PEER_I, responder: fixedBytes('another', 38) } }]
  ])('[G-42] [PSS-16] [D-09] refuses an ACK that comes on a connection with another %s', (_, change) => {
    const { responder, ack } = upToAck()
    expectClose(responder.receive(ack, connectionOf(change), 1), 'COOKIE_MISMATCH')
    expect(responder.held).toEqual({ spentPairs: 0 })
  })

  it('[G-42] takes it on another connection object that has the same addresses, as a cookie names no object', () => {
    const { responder, ack } = upToAck()
    expect(responder.receive(ack, connectionOf(), 1).kind).toBe('established')
  })

  it('[D-10] compares both cookies of an ACK', () => {
    for (const at of [8, 15, 16, 23]) {
      const { responder, ack } = upToAck()
      const other = ack.slice()
      other[at] = (other[at] as number) ^ 1
      expectClose(responder.receive(other, connectionOf(), 1), 'COOKIE_MISMATCH')
    }
  })

  it('[D-08] [PSS-16] takes an ACK once: the pair is spent while its session lives and 180 s after', () => {
    const { responder, ack, mine } = upToAck()
    expect(responder.receive(ack, connectionOf(), 1).kind).toBe('established')
    expectClose(responder.receive(ack, connectionOf(), 2), 'COOKIE_SPENT')
    responder.release(mine.cookies, 3)
    expectClose(responder.receive(ack, connectionOf(), 4), 'COOKIE_SPENT')
    expect(responder.held).toEqual({ spentPairs: 1 })
    expectClose(responder.receive(ack, connectionOf(), 3 + SPENT_MS), 'COOKIE_MISMATCH')
    responder.receive(sent(handshakePair({ name: 'later' }).initiator.start(0)), connectionOf(), 3 + SPENT_MS)
    expect(responder.held).toEqual({ spentPairs: 0 })
  })

  it('[PSS-16] refuses by policy under the new keys, after the signature, and the pair is spent all the same', () => {
    const { responder, ack, mine } = upToAck({ policy: () => ({ kind: 'refuse', reason: 'blacklisted' }) })
    const step = responder.receive(ack, connectionOf(), 1)
    expect(step).toMatchObject({ kind: 'refused', reason: 'blacklisted' })
    expect(establishedOf(step).keys).toEqual(mine.keys)
    expectClose(responder.receive(ack, connectionOf(), 2), 'COOKIE_SPENT')
  })

  it('[PSS-16] forgets the pair of a refused caller, or of a policy that failed, after 180 s: no session will release it', () => {
    const ends: (() => { kind: 'refuse'; reason: string })[] = [
      () => ({ kind: 'refuse', reason: 'blacklisted' }),
      () => {
        throw new Error('bug')
      }
    ]
    for (const policy of ends) {
      const { responder, ack, initiatorOf } = upToAck({ policy })
      try {
        responder.receive(ack, connectionOf(), 1)
      } catch (error) {
        expect(error).toMatchObject({ message: 'bug' })
      }
      expect(responder.held).toEqual({ spentPairs: 1 })
      responder.receive(sent(initiatorOf('later').initiator.start(0)), connectionOf(), SPENT_MS)
      expect(responder.held).toEqual({ spentPairs: 1 })
      responder.receive(sent(initiatorOf('later still').initiator.start(0)), connectionOf(), 1 + SPENT_MS)
      expect(responder.held).toEqual({ spentPairs: 0 })
    }
  })

  it('[D-10] shows the policy who called, for whom, and what was agreed', () => {
    const seen: Caller[] = []
    const resumeId = fixedBytes('resume', 16)
    const pair = handshakePair({ flags: FLAG.SFC | FLAG.RESUME, resumeId })
    const policy = (...args: unknown[]) => {
      seen.push(args[0] as Caller)
      return { kind: 'accept' as const }
    }
    runHandshake(handshakePair({ flags: FLAG.SFC | FLAG.RESUME, resumeId, policy }))
    const agreed = { localEid: pair.eidR, remoteEid: pair.eidI, flags: FLAG.SFC | FLAG.RESUME, resumeId, sfc: BLOCK }
    expect(seen).toEqual([{ ...agreed, peerId: expect.any(Uint8Array), negSentMs: undefined }])
  })

  it('[D-11] never asks the policy about a caller that has not proved itself', () => {
    let asked = 0
    const policy = () => {
      asked += 1
      return { kind: 'accept' as const }
    }
    const pair = handshakePair({ policy })
    const init = sent(pair.initiator.start(0))
    const neg = sent(pair.responder.receive(init, connectionOf(), 0))
    const someone = signerOf(nodeCrypto, fixedBytes('someone'))
    const forger = signerOf(nodeCrypto, fixedBytes('forger'))
    const ack = ackOf(init, neg, fixedBytes('exchange eph'), { eid: someone.publicKey, sign: forger.sign })
    expectClose(pair.responder.receive(ack, connectionOf(), 1), 'SIGNATURE_INVALID')
    expect(asked).toBe(0)
    // its AEAD opened, so the pair is spent whatever follows
    const honest = ackOf(init, neg, fixedBytes('exchange eph'), { eid: someone.publicKey, sign: someone.sign })
    expectClose(pair.responder.receive(honest, connectionOf(), 2), 'COOKIE_SPENT')
  })

  it('[PSS-01] refuses an ACK that proves the responder’s own EID', () => {
    const pair = handshakePair()
    const init = sent(pair.initiator.start(0))
    const neg = sent(pair.responder.receive(init, connectionOf(), 0))
    const self = signerOf(nodeCrypto, fixedBytes('seed r'))
    const ack = ackOf(init, neg, fixedBytes('exchange eph'), { eid: self.publicKey, sign: self.sign })
    expectClose(pair.responder.receive(ack, connectionOf(), 1), 'EID_MISMATCH')
  })

  it('[D-11] refuses an ACK signed for another pair of PeerIds', () => {
    const pair = handshakePair()
    const init = sent(pair.initiator.start(0))
    const neg = sent(pair.responder.receive(init, connectionOf(), 0))
    const honest = signerOf(nodeCrypto, fixedBytes('seed i'))
    const peers = { initiator: fixedBytes('the man in the middle', 38), responder: PEER_R }
    const ack = ackOf(init, neg, fixedBytes('exchange eph'), { eid: honest.publicKey, sign: honest.sign, peers })
    expectClose(pair.responder.receive(ack, connectionOf(), 1), 'AEAD_OPEN')
  })

  it('[D-11] refuses an ACK that strips what NEG said or INIT asked', () => {
    const { responder, ack } = upToAck({ flags: FLAG.SFC | FLAG.GROUP })
    const put = (changes: [number, number][]) => {
      const other = ack.slice()
      for (const [at, value] of changes) other[at] = value
      return other
    }
    // header flags, INIT flags, NEG flags at 3, 137, 139
    expectClose(
      responder.receive(
        put([
          [3, FLAG.SFC],
          [139, FLAG.SFC]
        ]),
        connectionOf(),
        1
      ),
      'COOKIE_MISMATCH'
    )
    expectClose(
      responder.receive(
        put([
          [137, FLAG.SFC],
          [3, FLAG.SFC],
          [139, FLAG.SFC]
        ]),
        connectionOf(),
        1
      ),
      'COOKIE_MISMATCH'
    )
    expectClose(responder.receive(put([[137, FLAG.SFC]]), connectionOf(), 1), 'FRAME_FLAGS')
    expectClose(responder.receive(put([[171 - 4, 9]]), connectionOf(), 1), 'COOKIE_MISMATCH')
    expect(responder.receive(ack, connectionOf(), 1).kind).toBe('established')
  })

  it('[PSS-12] closes the stream for a failing ACK and the connection for the fourth', () => {
    const { responder, ack } = upToAck()
    const connection = connectionOf()
    const bad = ack.slice()
    bad[283] = (bad[283] as number) ^ 1
    for (let i = 1; i < FAILED_ACKS_MAX; i++) expectClose(responder.receive(bad, connection, i), 'AEAD_OPEN', 'stream')
    expectClose(responder.receive(bad, connection, 4), 'AEAD_OPEN', 'connection')
    expectClose(responder.receive(bad, connectionOf(), 5), 'AEAD_OPEN', 'stream')
    expect(responder.held).toEqual({ spentPairs: 0 })
  })

  it('[PSS-14] is busy while its spent pairs are full, forgets none of them, and counts no ACK against the caller', () => {
    const pair = handshakePair({ spentPairsMax: 2 })
    const connection = connectionOf()
    const acks = ['one', 'two', 'three'].map((name) => {
      const { initiator } = pair.initiatorOf(name)
      return sent(initiator.receive(sent(pair.responder.receive(sent(initiator.start(0)), connection, 0)), 0))
    })
    const established = acks.slice(0, 2).map((ack) => establishedOf(pair.responder.receive(ack, connection, 1)))
    for (let i = 0; i < 5; i++) expectClose(pair.responder.receive(acks[2] as Uint8Array, connection, 2), 'BUSY')
    const blocked = pair.responder.receive(sent(pair.initiatorOf('four').initiator.start(2)), connection, 2)
    expect(decodeNeg(sent(blocked)).kind).toBe('retry')
    expectClose(pair.responder.receive(acks[0] as Uint8Array, connection, 3), 'COOKIE_SPENT')
    for (const { cookies } of established) pair.responder.release(cookies, 4)
    const later = pair.responder.receive(sent(pair.initiatorOf('five').initiator.start(2)), connection, 4 + SPENT_MS)
    expect(decodeNeg(sent(later)).kind).toBe('neg')
  })

  it('[D-02] keeps no secret of the exchange beside the session keys, whatever the end', () => {
    for (const policy of [() => ({ kind: 'accept' as const }), () => ({ kind: 'refuse' as const, reason: 'no' })]) {
      const { ack, responder } = upToAck({ policy })
      expect(responder.receive(ack, connectionOf(), 1).kind).not.toBe('close')
    }
    const { crypto, secrets } = recordingCrypto(nodeCrypto)
    const recorded = handshakePair({ crypto })
    const made = upToAck()
    const step = recorded.responder.receive(made.ack, connectionOf(), 1)
    const { keys } = establishedOf(step)
    const kept = new Set([keys.i2r, keys.r2i].flatMap(({ key, iv, chain }) => [key, iv, chain]).concat(keys.export))
    const others = [...secrets.values()].flat().filter((secret) => !kept.has(secret))
    expect(others.length).toBeGreaterThan(4)
    for (const other of others) expect(isZero(other)).toBe(true)
  })

  it('[D-02] opens nothing for a recorder of all frames who later gets both long-term keys', () => {
    const { init, neg, ack } = upToAck()
    const recorded = [init, neg, ack]
    const longTerm = [fixedBytes('seed i'), fixedBytes('seed r')]
    const publicParts = [decodeInit(init).ephI, (decodeNeg(neg) as { ephR: Uint8Array }).ephR]
    for (const secret of longTerm) {
      for (const point of publicParts) {
        const dh = nodeCrypto.x25519.sharedSecret(secret, point)
        const prk = handshakeSecret(nodeCrypto, dh as Uint8Array)
        const hash1 = th1(nodeCrypto, { initiator: PEER_I, responder: PEER_R }, init, neg.subarray(0, 88))
        const hash2 = th2(nodeCrypto, hash1, signerOf(nodeCrypto, fixedBytes('seed r')).publicKey, ack.subarray(0, 172))
        const opened = nodeCrypto.aead.open(ackKey(nodeCrypto, prk, hash2), new Uint8Array(12), new Uint8Array(0), ack.subarray(172))
        expect(opened).toBeUndefined()
      }
    }
    const eidI = signerOf(nodeCrypto, fixedBytes('seed i')).publicKey
    for (const frame of recorded) expect(toHex(frame)).not.toContain(toHex(eidI))
  })
})

describe('spent pairs', () => {
  const pair = (n: number) => ({ i: cookie(u64Bytes(BigInt(n))), r: cookie(u64Bytes(7n)) })

  it('[PSS-16] outlive their session by 180 s and are then forgotten', () => {
    const spent = new SpentPairs()
    spent.spend(pair(1))
    expect(spent.has(pair(1), 1e9)).toBe(true)
    spent.release(pair(1), 1_000)
    spent.release(pair(1), 500_000)
    expect(spent.has(pair(1), 1_000 + SPENT_MS - 1)).toBe(true)
    expect(spent.has(pair(1), 1_000 + SPENT_MS)).toBe(false)
    expect(spent.size).toBe(0)
  })

  it('[PSS-16] are bounded, and no entry is forgotten for another', () => {
    const spent = new SpentPairs({ pairsMax: 3 })
    for (let n = 0; n < 3; n++) spent.spend(pair(n))
    expect(spent.isFull(0)).toBe(true)
    expect(() => spent.spend(pair(3))).toThrow(RangeError)
    for (let n = 0; n < 3; n++) expect(spent.has(pair(n), 0)).toBe(true)
  })
})

describe('connection guard', () => {
  it('[PSS-12] holds at most 8 times, however many PSS_INIT come', () => {
    const guard = new ConnectionGuard()
    const admitted = Array.from({ length: 1_000 }, (_, i) => guard.admitInit(i)).filter((verdict) => verdict === 'admitted')
    expect(admitted.length).toBe(8)
  })
})
