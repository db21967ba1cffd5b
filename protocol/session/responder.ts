import { equals, equalsConstantTime, isZero, wipe } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { ACK_CLEAR_BYTES, decodeAck, type PssAck } from './ack.ts'
import { closeCodeOf, encodeClose } from './close.ts'
import type { ConnectionGuard } from './connection-guard.ts'
import { type CookiePair, cookie, sameCookies } from './cookie.ts'
import type { Established } from './established.ts'
import { FLAG, hasFlag, NEGOTIABLE_FLAGS } from './flags.ts'
import { FRAME, frameName, parseFrame } from './header.ts'
import { decodeInit, encodeInit, type PssInit } from './init.ts'
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
import { cookieContext, ephemeralSecret, locatorBytes, responderCookie, retryCookie } from './keyed-cookies.ts'
import { encodeNeg, encodeNegClear, encodeRetry, type PssNegClear, RETRY_WAIT_SECONDS_MAX } from './neg.ts'
import { type PeriodSecret, PeriodSecrets } from './period-secrets.ts'
import type { SfcBlock } from './sfc.ts'
import { SpentPairs } from './spent-pairs.ts'
import { initTarget } from './target.ts'

export const HANDSHAKE_MS = 10_000

/** The connection that a frame came on, as it was when it opened. */
export interface ResponderConnection {
  /** both binary PeerIds, as the secured connection proved them */
  readonly peers: PeerIds
  /** the remote multiaddr at opening, binary */
  readonly remoteAddr: Uint8Array
  /** one for the life of the connection */
  readonly guard: ConnectionGuard
  /** when the NEG before this frame left on the same stream, monotonic; undefined: none did */
  readonly negSentMs?: number | undefined
}

/**
 * `busy`: the CPU budget of handshakes is used up; who comes back with a retry cookie is served, unless its own source had its share. `full`: no
 * room for another session; nobody is. `waitSeconds` is 0 to 30.
 */
export type Load = { readonly state: 'free' } | { readonly state: 'busy' | 'full'; readonly waitSeconds: number }

/** What an INIT asks of one of our agents. The caller is not known yet. */
export interface OfferRequest {
  readonly localEid: Eid
  /** INIT's */
  readonly flags: number
  readonly resumeId: Uint8Array | undefined
}

/** `sfc` is offered only where INIT asked for one; `group` says whether GROUP is granted. RESUME and EXCLUSIVE are always answered as asked. */
export interface Offer {
  readonly sfc?: SfcBlock
  readonly group?: boolean
}

/** Who has proved itself by a valid ACK. */
export interface Caller {
  readonly localEid: Eid
  readonly remoteEid: Eid
  /** NEG's */
  readonly flags: number
  readonly resumeId: Uint8Array | undefined
  readonly sfc: SfcBlock | undefined
  /** binary, as the secured connection proved it */
  readonly peerId: Uint8Array
  /** the connection's */
  readonly negSentMs: number | undefined
}

export type PolicyVerdict<Reason> = { readonly kind: 'accept' } | { readonly kind: 'refuse'; readonly reason: Reason }

export interface ResponderInit<Reason> {
  readonly crypto: CryptoProvider
  readonly random: (length: number) => Uint8Array
  /** monotonic */
  readonly nowMs: number
  /** our agents; `publicKey` is the EID, `sign` is deterministic Ed25519 */
  readonly identities: () => Iterable<Signer>
  readonly load: (nowMs: number) => Load
  /** must depend on nothing but its argument and settings that seldom change: an INIT repeated makes the same NEG */
  readonly offer: (request: OfferRequest) => Offer
  /** blacklist, grants, reputation, capacity, and both sides opening at once (`settleCrossing`) */
  readonly policy: (caller: Caller, nowMs: number) => PolicyVerdict<Reason>
  readonly spentPairsMax?: number
}

export type ResponderStep<Reason> =
  /** send; then the stream's next frame is due by `answerByMs`, and later is LATE */
  | { readonly kind: 'send'; readonly frame: Uint8Array; readonly answerByMs: number }
  | { readonly kind: 'established'; readonly established: Established }
  /** the ACK was valid and our policy is against it: answer TEARDOWN under these keys, then wipe them */
  | { readonly kind: 'refused'; readonly established: Established; readonly reason: Reason }
  /** send CLOSE where there is one, then reset the stream or close the connection */
  | {
      readonly kind: 'close'
      readonly frame: Uint8Array | undefined
      readonly scope: 'stream' | 'connection'
      readonly error: ProtocolError
    }

/**
 * The responder's side of the handshake (protocol/README.md §6). It has the states CLOSED and ESTABLISHED only and keeps nothing at INIT: what it needs at
 * ACK it computes again from K_e. All that a peer can make it hold is the bounded set of spent cookie pairs, and only by a valid ACK.
 */
export class Responder<Reason> {
  readonly #init: ResponderInit<Reason>
  readonly #secrets: PeriodSecrets
  readonly #spent: SpentPairs
  #stopped = false

  constructor(init: ResponderInit<Reason>) {
    this.#init = init
    this.#secrets = new PeriodSecrets({ random: init.random, nowMs: init.nowMs })
    this.#spent = new SpentPairs(init.spentPairsMax === undefined ? {} : { pairsMax: init.spentPairsMax })
  }

  /** Entries of every collection held. */
  get held(): { spentPairs: number } {
    return { spentPairs: this.#spent.size }
  }

  /** Call {@link tick} by then. */
  get wakeAtMs(): number {
    return this.#secrets.wakeAtMs
  }

  /** Turns K_e when it is due, so that the one before last is gone on time. */
  tick(nowMs: number): void {
    if (!this.#stopped) this.#secrets.at(nowMs)
  }

  /** The session under the pair has ended: 180 s later the pair is forgotten. */
  release(pair: CookiePair, nowMs: number): void {
    this.#spent.release(pair, nowMs)
  }

  /** Wipes K_e. From here on every frame is answered CLOSE (BUSY). */
  stop(): void {
    this.#stopped = true
    this.#secrets.wipe()
  }

  /**
   * Takes one whole frame of a stream that has no session yet.
   * @param nowMs - monotonic
   */
  receive(frame: Uint8Array, connection: ResponderConnection, nowMs: number): ResponderStep<Reason> {
    let cookies: CookiePair | undefined
    let isAck = false
    try {
      const { header } = parseFrame(frame)
      cookies = { i: header.iCookie, r: header.rCookie }
      if (this.#stopped) throw new ProtocolError('BUSY', 'the node is stopping')
      switch (header.type) {
        case FRAME.INIT:
          return this.#onInit(frame, connection, nowMs)
        case FRAME.ACK:
          isAck = true
          return this.#onAck(frame, connection, nowMs)
        case FRAME.CLOSE:
          return { kind: 'close', frame: undefined, scope: 'stream', error: new ProtocolError('CLOSED_BY_PEER', 'the peer closed') }
        default:
          throw new ProtocolError('OUT_OF_ORDER', `${frameName(header.type)} before the session is established`)
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      const scope = isAck && error.code !== 'BUSY' ? connection.guard.ackFailed() : 'stream'
      return { kind: 'close', frame: encodeClose(closeCodeOf(error.code), cookies), scope, error }
    }
  }

  #onInit(frame: Uint8Array, connection: ResponderConnection, nowMs: number): ResponderStep<Reason> {
    if (connection.guard.admitInit(nowMs) === 'too-many') {
      throw new ProtocolError('BUSY', 'more than 8 PSS_INIT in a minute on one connection')
    }
    const { crypto } = this.#init
    const init = decodeInit(frame)
    const addr = locatorBytes(connection.peers, connection.remoteAddr)
    const returned = !isZero(init.retryCookie)
    if (returned && !this.#madeRetryCookie(init, addr, nowMs)) {
      throw new ProtocolError('COOKIE_MISMATCH', 'the retry cookie is not one of ours, or outlived', { field: 'retryCookie' })
    }
    const load = this.#loadAt(nowMs, connection.guard)
    if (load.state !== 'free' && !returned) {
      const waitSeconds = Math.min(RETRY_WAIT_SECONDS_MAX, Math.max(0, Math.ceil(load.waitSeconds)))
      const retry = retryCookie(crypto, this.#secrets.current(nowMs), addr, init)
      return {
        kind: 'send',
        frame: encodeRetry({ iCookie: init.iCookie, retryCookie: retry, waitSeconds }),
        answerByMs: nowMs + waitSeconds * 1_000 + HANDSHAKE_MS
      }
    }
    if (load.state === 'full') throw new ProtocolError('BUSY', 'no room for another session')
    if (connection.guard.source.waitSeconds(nowMs) > 0) {
      throw new ProtocolError('BUSY', 'more handshakes of this peer, or of its network, than one source gets')
    }

    const signer = this.#identityOf(init)
    const localEid = eid(signer.publicKey)
    const offer = this.#init.offer({ localEid, flags: init.flags, resumeId: resumeIdOf(init) })
    const sfc = hasFlag(init.flags, FLAG.SFC) ? offer.sfc : undefined
    let flags = init.flags & NEGOTIABLE_FLAGS
    if (sfc === undefined) flags &= ~FLAG.SFC
    if (offer.group !== true) flags &= ~FLAG.GROUP

    connection.guard.source.spend(nowMs)
    const period = this.#secrets.current(nowMs)
    const ctx = cookieContext(crypto, period.e, addr, frame)
    const exchange = this.#exchange(period, ctx, init.ephI)
    const clear: PssNegClear = {
      flags,
      cookies: { i: init.iCookie, r: responderCookie(crypto, period, ctx, flags, sfc) },
      ephR: exchange.ephR,
      ...(sfc === undefined ? {} : { sfc })
    }
    const hash1 = th1(crypto, connection.peers, frame, encodeNegClear(clear))
    const plaintext = new Uint8Array(96)
    plaintext.set(localEid)
    plaintext.set(signer.sign(negSigned(hash1, localEid)), 32)
    const sealed = sealOnce(crypto, negKey(crypto, exchange.prk, hash1), plaintext)
    wipe(exchange.prk)
    return { kind: 'send', frame: encodeNeg({ ...clear, sealed }), answerByMs: nowMs + HANDSHAKE_MS }
  }

  #onAck(frame: Uint8Array, connection: ResponderConnection, nowMs: number): ResponderStep<Reason> {
    const { crypto } = this.#init
    const ack = decodeAck(frame)
    const addr = locatorBytes(connection.peers, connection.remoteAddr)
    const initFrame = encodeInit(ack.init)
    const { period, ctx } = this.#checkedCookie(ack, addr, initFrame, nowMs)
    if (this.#spent.has(ack.cookies, nowMs)) throw new ProtocolError('COOKIE_SPENT', 'an ACK under this cookie pair was taken before')
    if (this.#spent.isFull(nowMs)) throw new ProtocolError('BUSY', 'no room for another spent cookie pair')
    const localEid = eid(this.#identityOf(ack.init).publicKey)

    const { ephR, prk } = this.#exchange(period, ctx, ack.init.ephI)
    try {
      const negClear = encodeNegClear({ flags: ack.flags, cookies: ack.cookies, ephR, ...(ack.sfc === undefined ? {} : { sfc: ack.sfc }) })
      const hash1 = th1(crypto, connection.peers, initFrame, negClear)
      const hash2 = th2(crypto, hash1, localEid, frame.subarray(0, ACK_CLEAR_BYTES))
      const plaintext = openOnce(crypto, ackKey(crypto, prk, hash2), ack.sealed)
      if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', "PSS_ACK's proof does not open")
      const cookies = ownCookies(ack.cookies)
      this.#spent.spend(cookies)
      let held = false
      try {
        const remoteEid = eid(plaintext.slice(0, 32))
        if (equals(remoteEid, localEid)) throw new ProtocolError('EID_MISMATCH', 'a session with oneself', { field: 'eid' })
        if (!crypto.ed25519.verify(remoteEid, ackSigned(hash2, remoteEid, localEid), plaintext.subarray(32))) {
          throw new ProtocolError('SIGNATURE_INVALID', "PSS_ACK's signature does not verify")
        }
        const resumeId = resumeIdOf(ack.init)
        const caller = { localEid, remoteEid, flags: ack.flags, resumeId, sfc: ack.sfc, peerId: connection.peers.initiator }
        const verdict = this.#init.policy({ ...caller, negSentMs: connection.negSentMs }, nowMs)
        const epoch = th3(crypto, hash2, ack.sealed)
        const established: Established = {
          role: 'responder',
          sid: resumeId ?? sessionId(crypto, epoch),
          epoch,
          localEid,
          remoteEid,
          cookies,
          flags: ack.flags,
          ...(ack.sfc === undefined ? {} : { sfc: ack.sfc }),
          keys: sessionKeys(crypto, prk, epoch)
        }
        if (verdict.kind === 'refuse') return { kind: 'refused', established, reason: verdict.reason }
        held = true
        return { kind: 'established', established }
      } finally {
        if (!held) this.#spent.release(cookies, nowMs)
      }
    } finally {
      wipe(prk)
    }
  }

  /** The spent set has its say: without room in it no ACK can be taken. So has the source: one that had its share is asked to wait. */
  #loadAt(nowMs: number, guard: ConnectionGuard): Load {
    const load = this.#init.load(nowMs)
    if (this.#spent.isFull(nowMs)) {
      return { state: 'full', waitSeconds: load.state === 'free' ? RETRY_WAIT_SECONDS_MAX : load.waitSeconds }
    }
    const sourceWait = guard.source.waitSeconds(nowMs)
    if (sourceWait === 0 || load.state === 'full') return load
    return { state: 'busy', waitSeconds: load.state === 'busy' ? Math.max(load.waitSeconds, sourceWait) : sourceWait }
  }

  #madeRetryCookie(init: PssInit, addr: Uint8Array, nowMs: number): boolean {
    return this.#secrets
      .at(nowMs)
      .some((period) => equalsConstantTime(retryCookie(this.#init.crypto, period, addr, init), init.retryCookie))
  }

  #identityOf(init: PssInit): Signer {
    for (const signer of this.#init.identities()) {
      if (equals(initTarget(this.#init.crypto, signer.publicKey, init.nonceI), init.target)) return signer
    }
    throw new ProtocolError('TARGET_MISMATCH', 'no agent of this node is the target', { field: 'target' })
  }

  #checkedCookie(ack: PssAck, addr: Uint8Array, initFrame: Uint8Array, nowMs: number): { period: PeriodSecret; ctx: Uint8Array } {
    const { crypto } = this.#init
    for (const period of this.#secrets.at(nowMs)) {
      const ctx = cookieContext(crypto, period.e, addr, initFrame)
      const expected = responderCookie(crypto, period, ctx, ack.flags, ack.sfc)
      if (sameCookies({ i: ack.cookies.i, r: expected }, ack.cookies)) return { period, ctx }
    }
    throw new ProtocolError('COOKIE_MISMATCH', "PSS_ACK's cookie is not ours, of another connection, or outlived", { field: 'rCookie' })
  }

  /** ephR's public key and prk. The caller wipes prk. */
  #exchange(period: PeriodSecret, ctx: Uint8Array, ephI: Uint8Array): { ephR: Uint8Array; prk: Uint8Array } {
    const { crypto } = this.#init
    const secret = ephemeralSecret(crypto, period, ctx)
    const exchanged = crypto.x25519.exchange(secret, ephI)
    wipe(secret)
    if (exchanged === undefined) {
      throw new ProtocolError('KEY_EXCHANGE', "the initiator's ephemeral key is of low order", { field: 'ephI' })
    }
    const { own: ephR, shared } = exchanged
    const prk = handshakeSecret(crypto, shared)
    wipe(shared)
    return { ephR, prk }
  }
}

function resumeIdOf(init: PssInit): Uint8Array | undefined {
  return hasFlag(init.flags, FLAG.RESUME) ? init.resumeId.slice() : undefined
}

/** Copies: a frame's buffer may be reused. */
function ownCookies({ i, r }: CookiePair): CookiePair {
  return { i: cookie(i.slice()), r: cookie(r.slice()) }
}
