import { concat, equals, equalsConstantTime, isZero, wipe } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { encodeAckClear } from './ack.ts'
import { closeCodeOf, encodeClose } from './close.ts'
import type { ContractVerdict } from './contract-policy.ts'
import { type Cookie, type CookiePair, cookie, NO_COOKIE } from './cookie.ts'
import { type Established, wipeEstablished } from './established.ts'
import { FLAG, hasFlag, isSubset, NEGOTIABLE_FLAGS } from './flags.ts'
import { FRAME, frameName, parseFrame } from './header.ts'
import { encodeInit, NO_RESUME_ID, NO_RETRY_COOKIE, type PssInit } from './init.ts'
import {
  ackKey,
  ackSigned,
  handshakeSecret,
  negKey,
  negSigned,
  openOnce,
  type PeerIds,
  sealOnce,
  sessionId,
  sessionKeys,
  th1,
  th2,
  th3
} from './key-schedule.ts'
import { decodeNeg, NEG_CLEAR_BYTES, type PssNeg, type PssRetry } from './neg.ts'
import type { SfcBlock } from './sfc.ts'
import { initTarget } from './target.ts'

/** From INIT to NEG, and again from the INIT that follows a RETRY. */
export const HEARING_MS = 10_000

export interface InitiatorInit {
  readonly crypto: CryptoProvider
  /** the agent that opens; `sign` is deterministic Ed25519 */
  readonly local: Signer
  readonly remoteEid: Eid
  /** both binary PeerIds, as the secured connection proved them */
  readonly peers: PeerIds
  /** u16 of SFC, RESUME, EXCLUSIVE, GROUP */
  readonly flags: number
  /** 16 bytes, given exactly when `flags` has RESUME */
  readonly resumeId?: Uint8Array
  /** random and fresh for every exchange; `ephSecret` is taken over and overwritten */
  readonly randomness: { readonly iCookie: Cookie; readonly nonceI: Uint8Array; readonly ephSecret: Uint8Array }
  /** asked only where `flags` has SFC; undefined stands for a plain session offered instead. The block is taken as it is or not at all */
  readonly contract: (offer: SfcBlock | undefined) => ContractVerdict
}

export type InitiatorStep =
  /** send, then call `tick` at `wakeAtMs` unless a frame comes before */
  | { readonly state: 'HEARING'; readonly send: readonly Uint8Array[]; readonly wakeAtMs: number }
  /** send the ACK; frames that follow belong to the stream, which expects READY */
  | { readonly state: 'ESTABLISHED'; readonly send: readonly Uint8Array[]; readonly established: Established }
  /** send CLOSE where there is one, then reset the stream; every secret is overwritten */
  | { readonly state: 'CLOSED'; readonly send: readonly Uint8Array[]; readonly error: ProtocolError }

type Phase =
  | { readonly name: 'idle' }
  | { readonly name: 'hearing'; readonly init: PssInit; readonly frame: Uint8Array; readonly retried: boolean; readonly deadlineMs: number }
  | { readonly name: 'waiting'; readonly init: PssInit; readonly sendAtMs: number }
  | { readonly name: 'established'; readonly established: Established }
  | { readonly name: 'closed'; readonly error: ProtocolError }

/** The initiator's side of one exchange (protocol/README.md §6): CLOSED –INIT→ HEARING –valid NEG, emits ACK→ ESTABLISHED, and anything else → CLOSED. */
export class Initiator {
  readonly #init: InitiatorInit
  #phase: Phase = { name: 'idle' }

  /**
   * @throws ProtocolError `EID_MISMATCH` for a session with oneself; RangeError for flags or a resume id that do not go together
   */
  constructor(init: InitiatorInit) {
    if (equals(init.local.publicKey, init.remoteEid)) {
      wipe(init.randomness.ephSecret)
      throw new ProtocolError('EID_MISMATCH', 'a session joins two EIDs that differ', { field: 'eid' })
    }
    if (!isSubset(init.flags, NEGOTIABLE_FLAGS) || hasFlag(init.flags, FLAG.RESUME) !== (init.resumeId !== undefined)) {
      throw new RangeError(`flags 0x${init.flags.toString(16)} cannot open ${init.resumeId === undefined ? 'a new' : 'an old'} session`)
    }
    this.#init = init
  }

  get state(): 'CLOSED' | 'HEARING' | 'ESTABLISHED' {
    switch (this.#phase.name) {
      case 'hearing':
      case 'waiting':
        return 'HEARING'
      case 'established':
        return 'ESTABLISHED'
      default:
        return 'CLOSED'
    }
  }

  /** Sends INIT. Once only. */
  start(nowMs: number): InitiatorStep {
    if (this.#phase.name !== 'idle') throw new TypeError('an exchange starts once')
    const { crypto, randomness, remoteEid, flags, resumeId } = this.#init
    return this.#send(
      {
        flags,
        iCookie: cookie(randomness.iCookie.slice()),
        nonceI: randomness.nonceI.slice(),
        ephI: crypto.x25519.publicKey(randomness.ephSecret),
        target: initTarget(crypto, remoteEid, randomness.nonceI),
        resumeId: resumeId?.slice() ?? NO_RESUME_ID,
        retryCookie: NO_RETRY_COOKIE
      },
      nowMs
    )
  }

  #send(init: PssInit, nowMs: number): InitiatorStep {
    const frame = encodeInit(init)
    const deadlineMs = nowMs + HEARING_MS
    this.#phase = { name: 'hearing', init, frame, retried: !isZero(init.retryCookie), deadlineMs }
    return { state: 'HEARING', send: [frame], wakeAtMs: deadlineMs }
  }

  /** Time has come to `nowMs`, monotonic. */
  tick(nowMs: number): InitiatorStep | undefined {
    const phase = this.#phase
    if (phase.name === 'waiting') {
      return nowMs >= phase.sendAtMs ? this.#send(phase.init, nowMs) : { state: 'HEARING', send: [], wakeAtMs: phase.sendAtMs }
    }
    if (phase.name !== 'hearing') return undefined
    if (nowMs < phase.deadlineMs) return { state: 'HEARING', send: [], wakeAtMs: phase.deadlineMs }
    return this.#close(new ProtocolError('TIMEOUT', `no PSS_NEG within ${HEARING_MS / 1_000} s`))
  }

  /** The stream ended, or the caller gave up. */
  abort(error: ProtocolError): InitiatorStep {
    return this.#close(error)
  }

  /**
   * Takes one whole frame of the exchange's stream. In ESTABLISHED only what is not the stream's comes here, and closes: a `TypeError` for
   * DATA_STREAM, TEARDOWN and REVOCATION_PUBLISH then.
   * @param nowMs - monotonic
   */
  receive(frame: Uint8Array, nowMs: number): InitiatorStep {
    const phase = this.#phase
    if (phase.name === 'closed') return { state: 'CLOSED', send: [], error: phase.error }
    if (phase.name === 'established' && isStreamFrame(frame)) throw new TypeError('the frame belongs to the stream')
    try {
      const { header } = parseFrame(frame)
      if (header.type === FRAME.CLOSE) return this.#close(new ProtocolError('CLOSED_BY_PEER', 'the peer closed'), 'silent')
      if (phase.name !== 'hearing' || header.type !== FRAME.NEG) {
        throw new ProtocolError('OUT_OF_ORDER', `${frameName(header.type)} in ${this.state}`)
      }
      if (nowMs >= phase.deadlineMs) throw new ProtocolError('TIMEOUT', `PSS_NEG came after ${HEARING_MS / 1_000} s`)
      const neg = decodeNeg(frame)
      if (!equalsConstantTime(header.iCookie, phase.init.iCookie)) {
        throw new ProtocolError('COOKIE_MISMATCH', "PSS_NEG does not carry this exchange's I-cookie", { field: 'iCookie' })
      }
      if (!isSubset(header.flags & ~FLAG.RETRY, phase.init.flags)) {
        throw new ProtocolError('FRAME_FLAGS', 'PSS_NEG grants what was not asked for', { field: 'flags' })
      }
      return neg.kind === 'retry'
        ? this.#onRetry(neg, phase.init, phase.retried ? 'again' : 'first', nowMs)
        : this.#onNeg(neg, frame, phase.init, phase.frame)
    } catch (error) {
      if (error instanceof ProtocolError) return this.#close(error)
      this.#close(new ProtocolError('OUT_OF_ORDER', 'our own side failed', { cause: error }))
      throw error
    }
  }

  #onRetry(retry: PssRetry, init: PssInit, time: 'first' | 'again', nowMs: number): InitiatorStep {
    if (time === 'again') throw new ProtocolError('OUT_OF_ORDER', 'a second RETRY')
    const again: PssInit = { ...init, retryCookie: retry.retryCookie.slice() }
    if (retry.waitSeconds === 0) return this.#send(again, nowMs)
    const sendAtMs = nowMs + retry.waitSeconds * 1_000
    this.#phase = { name: 'waiting', init: again, sendAtMs }
    return { state: 'HEARING', send: [], wakeAtMs: sendAtMs }
  }

  #onNeg(neg: PssNeg, negFrame: Uint8Array, init: PssInit, initFrame: Uint8Array): InitiatorStep {
    const { crypto, local, peers, randomness, resumeId } = this.#init
    const asConditions = init.flags & (FLAG.RESUME | FLAG.EXCLUSIVE)
    if (!isSubset(asConditions, neg.flags)) {
      throw new ProtocolError('FRAME_FLAGS', 'PSS_NEG drops RESUME or EXCLUSIVE', { field: 'flags' })
    }
    const dh = crypto.x25519.sharedSecret(randomness.ephSecret, neg.ephR)
    if (dh === undefined) throw new ProtocolError('KEY_EXCHANGE', "the responder's ephemeral key is of low order", { field: 'ephR' })
    const prk = handshakeSecret(crypto, dh)
    wipe(dh)
    try {
      const hash1 = th1(crypto, peers, initFrame, negFrame.subarray(0, NEG_CLEAR_BYTES))
      const remoteEid = this.#provenEid(hash1, openOnce(crypto, negKey(crypto, prk, hash1), neg.sealed))
      if (hasFlag(init.flags, FLAG.SFC)) {
        const verdict = this.#init.contract(neg.sfc)
        if (verdict.kind === 'refuse') {
          throw new ProtocolError('CONTRACT_REFUSED', `the contract offered is not acceptable: ${verdict.field}`, {
            field: `sfc.${verdict.field}`
          })
        }
      }
      const cookies: CookiePair = { i: init.iCookie, r: cookie(neg.cookies.r.slice()) }
      const sfc = neg.sfc === undefined ? {} : { sfc: neg.sfc }
      const ackClear = encodeAckClear({ init, flags: neg.flags, cookies, ...sfc })
      const hash2 = th2(crypto, hash1, remoteEid, ackClear)
      const localEid = eid(local.publicKey)
      const proof = concat([localEid, local.sign(ackSigned(hash2, localEid, remoteEid))])
      const ackSealed = sealOnce(crypto, ackKey(crypto, prk, hash2), proof)
      const epoch = th3(crypto, hash2, ackSealed)
      const established: Established = {
        role: 'initiator',
        sid: resumeId?.slice() ?? sessionId(crypto, epoch),
        epoch,
        localEid,
        remoteEid,
        cookies,
        flags: neg.flags,
        ...sfc,
        keys: sessionKeys(crypto, prk, epoch)
      }
      wipe(randomness.ephSecret)
      this.#phase = { name: 'established', established }
      return { state: 'ESTABLISHED', send: [concat([ackClear, ackSealed])], established }
    } finally {
      wipe(prk)
    }
  }

  /** The responder's EID once NEG's seal, its name and its signature hold. */
  #provenEid(hash1: Uint8Array, plaintext: Uint8Array | undefined): Eid {
    const { crypto, local, remoteEid } = this.#init
    if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', "PSS_NEG's proof does not open")
    const found = eid(plaintext.slice(0, 32))
    if (equals(found, local.publicKey)) throw new ProtocolError('EID_MISMATCH', 'PSS_NEG comes from oneself', { field: 'eid' })
    if (!equals(found, remoteEid)) throw new ProtocolError('EID_MISMATCH', 'another EID answered than the one asked for', { field: 'eid' })
    if (!crypto.ed25519.verify(found, negSigned(hash1, found), plaintext.subarray(32))) {
      throw new ProtocolError('SIGNATURE_INVALID', "PSS_NEG's signature does not verify")
    }
    return found
  }

  #close(error: ProtocolError, answer: 'tell' | 'silent' = 'tell'): InitiatorStep {
    const phase = this.#phase
    if (phase.name === 'closed') return { state: 'CLOSED', send: [], error: phase.error }
    if (phase.name === 'established') wipeEstablished(phase.established)
    wipe(this.#init.randomness.ephSecret)
    this.#phase = { name: 'closed', error }
    const quiet = answer === 'silent' || (phase.name !== 'hearing' && phase.name !== 'waiting')
    const cookies = { i: this.#init.randomness.iCookie, r: NO_COOKIE }
    return { state: 'CLOSED', send: quiet ? [] : [encodeClose(closeCodeOf(error.code), cookies)], error }
  }
}

function isStreamFrame(frame: Uint8Array): boolean {
  const type = frame[1]
  return type === FRAME.DATA_STREAM || type === FRAME.TEARDOWN || type === FRAME.REVOCATION_PUBLISH
}
