import { equals, toHex, utf8 } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { closeCodeOf, encodeClose } from '../../protocol/session/close.ts'
import type { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import { resumeDifference } from '../../protocol/session/contract-policy.ts'
import { type CookiePair, cookiePairHex } from '../../protocol/session/cookie.ts'
import { type OwnExchange, settleCrossing } from '../../protocol/session/crossing.ts'
import { type Established, wipeEstablished } from '../../protocol/session/established.ts'
import { FLAG, hasFlag } from '../../protocol/session/flags.ts'
import { FRAME, HEADER_BYTES, type Header, headerOf } from '../../protocol/session/header.ts'
import { type Caller, type Load, type PolicyVerdict, Responder } from '../../protocol/session/responder.ts'
import { decodeSfc } from '../../protocol/session/sfc.ts'
import { SessionStream } from '../../protocol/session/stream.ts'
import { CONTROL_CHANNEL } from '../../protocol/session/stream-init.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import { ConnectionGuards } from './connection-guards.ts'
import { Deadline } from './deadline.ts'
import type { Epochs, ExchangeStart } from './epochs.ts'
import { readSessionFrame } from './frame-reader.ts'
import { HandshakeBudget } from './handshake-budget.ts'
import type { LiveSession } from './live-session.ts'
import type { ManagerState } from './manager-state.ts'
import type { Openings } from './openings.ts'
import { peerIds, peerText } from './peer-bytes.ts'
import type { Reconnects } from './reconnects.ts'
import type { SessionShelf } from './session-shelf.ts'

/** The first frame of a stream is due within this. */
export const FIRST_FRAME_MS = 10_000
/** From this share of what callers may have on disk on, sessions that hold nothing are dissolved. */
const MAKE_ROOM_AT = 0.95

export interface InboundParts {
  shelf: SessionShelf
  epochs: Epochs
  openings: Openings
  reconnects: Reconnects
}

/** Exchanges that peers begin, and the further streams of their sessions (protocol/README.md §6, States). */
export class InboundExchanges {
  readonly #m: ManagerState
  readonly #parts: InboundParts
  readonly #budget: HandshakeBudget
  readonly #guards: ConnectionGuards
  readonly #responder: Responder<TeardownReason>
  #cancelTurn: (() => void) | undefined

  constructor(state: ManagerState, parts: InboundParts) {
    const { clock, random, crypto } = state.components
    const { init } = state
    this.#m = state
    this.#parts = parts
    this.#guards = new ConnectionGuards(init.sources)
    const nowMs = clock.monotonicMs()
    this.#budget = new HandshakeBudget({ perSecond: init.handshakesPerSecond ?? 100, burst: init.handshakesBurst ?? 200, nowMs })
    this.#responder = new Responder<TeardownReason>({
      crypto,
      random: (length) => random.bytes(length),
      nowMs,
      identities: () => state.own.all(),
      load: (atMs) => this.#load(atMs),
      offer: ({ localEid, flags, resumeId }) => {
        this.#budget.spend(clock.monotonicMs())
        if (resumeId === undefined) {
          const agent = state.own.agentOf(localEid)
          const sfc = (agent === undefined ? undefined : init.contractOf?.(agent)) ?? init.contract
          const group = state.components.ready?.groups !== undefined && !hasFlag(flags, FLAG.EXCLUSIVE)
          return sfc === undefined || sfc === 'off' ? { group } : { sfc, group }
        }
        const held = state.index.byId(toHex(resumeId))
        const group = held !== undefined && hasFlag(held.flags, FLAG.GROUP)
        return held?.sfc === undefined ? { group } : { sfc: decodeSfc(held.sfc), group }
      },
      policy: (caller, atMs) => this.#judge(caller, atMs)
    })
  }

  /** Begins to change the cookie secrets, until {@link stop}. */
  start(): void {
    this.#turnSecrets()
  }

  /** No secret turns any more. */
  stop(): void {
    this.#cancelTurn?.()
  }

  /** Destroys the cookie secrets. */
  wipe(): void {
    this.#responder.stop()
  }

  forget(peer: string): void {
    this.#guards.forget(peer)
  }

  /** The epoch of an exchange that a peer began is over. */
  release(cookies: CookiePair): void {
    this.#responder.release(cookies, this.#m.components.clock.monotonicMs())
  }

  held(): { pendingHandshakes: number; spentPairs: number; guardedConnections: number; guardedSources: number } {
    return {
      pendingHandshakes: this.#guards.pending,
      spentPairs: this.#responder.held.spentPairs,
      guardedConnections: this.#guards.size,
      guardedSources: this.#guards.sources
    }
  }

  #turnSecrets(): void {
    const { clock } = this.#m.components
    this.#cancelTurn = clock.after(Math.max(0, this.#responder.wakeAtMs - clock.monotonicMs()), () => {
      this.#responder.tick(clock.monotonicMs())
      this.#guards.sweep(clock.monotonicMs())
      this.#turnSecrets()
    })
  }

  #load(nowMs: number): Load {
    if (this.#m.byCookies.size >= this.#m.sessionsMax) return { state: 'full', waitSeconds: this.#m.init.fullWaitSeconds ?? 2 }
    const waitSeconds = this.#budget.waitSeconds(nowMs)
    return waitSeconds > 0 ? { state: 'busy', waitSeconds } : { state: 'free' }
  }

  #judge({ localEid, remoteEid, flags, resumeId, sfc, peerId, negSentMs }: Caller, nowMs: number): PolicyVerdict<TeardownReason> {
    const local = this.#m.own.agentOf(localEid)
    if (local === undefined) return { kind: 'refuse', reason: 'policy' }
    const isCurrent = equals(local.eid, localEid)
    const held = resumeId === undefined ? undefined : this.#m.index.byId(toHex(resumeId))
    if (resumeId !== undefined) {
      const isTheirs =
        held !== undefined &&
        this.#m.own.agentOf(held.local) === local &&
        (isCurrent || !equals(held.local, local.eid)) &&
        equals(held.remote, remoteEid)
      if (!isTheirs || held.loaded?.isOver === true) return { kind: 'refuse', reason: 'unknownSession' }
      if (
        (flags & ~FLAG.RESUME) !== held.flags ||
        resumeDifference(sfc, held.sfc === undefined ? undefined : decodeSfc(held.sfc)) !== undefined
      )
        return { kind: 'refuse', reason: 'contract' }
    } else if (!isCurrent) return { kind: 'refuse', reason: 'policy' }
    const policy = this.#m.components.policy ?? this.#m.components.evidence?.policy
    const verdict = policy?.({ local, remote: remoteEid }) ?? { admit: true }
    if (!verdict.admit) return { kind: 'refuse', reason: verdict.reason }
    const pair = this.#m.own.pairOf(localEid, remoteEid)
    const opening = this.#parts.openings.of(pair)
    const other = this.#m.index.byPair(pair)
    if (resumeId === undefined && other !== undefined && !equals(other.local, local.eid)) {
      this.#parts.reconnects.now(other.id) // the peer has not seen our certificate: it learns there that this session is ours
      return { kind: 'refuse', reason: 'superseded' }
    }
    const live = other?.loaded?.epoch
    const isOfTheSame = live !== undefined && equals(live.established.remoteEid, remoteEid) && equals(live.established.localEid, localEid)
    const own = opening?.exchange ?? (isOfTheSame && live.role === 'initiator' ? exchangeOf(live) : undefined)
    const crossing = settleCrossing({ localEid, remoteEid, incoming: { resumeId, flags, negSentMs }, own, nowMs })
    if (crossing === 'refuse') return { kind: 'refuse', reason: 'superseded' }
    if (live === undefined && (this.#m.byCookies.size >= this.#m.sessionsMax || this.#m.isPeerFull(peerText(peerId)))) {
      return { kind: 'refuse', reason: 'capacity' }
    }
    if (resumeId === undefined && this.#m.index.byPair(pair) === undefined && !this.#hasRoomOnDisk(peerText(peerId))) {
      return { kind: 'refuse', reason: 'capacity' }
    }
    if (crossing === 'yield') opening?.yield()
    return { kind: 'accept' }
  }

  #hasRoomOnDisk(peer: string): boolean {
    const { index, storedMax } = this.#m
    if (index.size >= storedMax * MAKE_ROOM_AT) this.#parts.shelf.makeRoom()
    return index.size < storedMax && !this.#m.isPeerStoredFull(peer)
  }

  /** One inbound stream: a handshake, or a further channel of a session that its first frame names. */
  async serve(stream: ByteStream): Promise<void> {
    const { clock } = this.#m.components
    const entry = this.#guards.enter(stream.connection, (reason) => stream.reset(reason))
    if (entry === undefined) {
      stream.reset(new ProtocolError('BUSY', 'too many streams without a session'))
      return
    }
    const deadline = new Deadline(clock, this.#m.stopping.signal)
    try {
      deadline.set(clock.monotonicMs() + FIRST_FRAME_MS, late())
      const { frame, header } = await readSessionFrame(stream, {
        signal: deadline.signal,
        admit: (header) => this.#admit(stream, header),
        room: this.#m.largeFrames.of(stream.connection.peer)
      })
      if (header.type === FRAME.DATA_STREAM) this.#adopt(stream, header, frame)
      else await this.#respond(stream, frame, entry.guard, deadline)
    } catch (error) {
      this.#m.log.debug(
        { peer: stream.connection.peer, error: error instanceof Error ? error.message : String(error) },
        'a stream ended before it had a session'
      )
      await turnAway(stream, error)
    } finally {
      deadline.dispose()
      entry.leave()
    }
  }

  /** Only a session's own peer may make us read more than a handshake's few bytes, and only once its READY is there. */
  #admit(stream: ByteStream, header: Header): Promise<void> | undefined {
    if (header.type === FRAME.TEARDOWN || header.type === FRAME.REVOCATION_PUBLISH) {
      throw new ProtocolError('OUT_OF_ORDER', 'the first frame of a stream ends no session')
    }
    if (header.type !== FRAME.DATA_STREAM) return undefined
    const session = this.#sessionOf(stream, header)
    if (session === undefined) throw noSession()
    return session.readyAtMs === undefined ? session.ready : undefined
  }

  #sessionOf(stream: ByteStream, { iCookie, rCookie }: Header): LiveSession | undefined {
    const session = this.#m.byCookies.get(cookiePairHex({ i: iCookie, r: rCookie }))
    return session?.peer === stream.connection.peer ? session : undefined
  }

  #adopt(stream: ByteStream, header: Header, frame: Uint8Array): void {
    const session = this.#sessionOf(stream, header)
    if (session === undefined) throw noSession()
    session.adopt(stream, frame)
  }

  async #respond(stream: ByteStream, first: Uint8Array, guard: ConnectionGuard, deadline: Deadline): Promise<void> {
    const { host, clock } = this.#m.components
    const { signal } = deadline
    const connection = {
      peers: peerIds(host.peer, stream.connection, 'responder'),
      remoteAddr: utf8(stream.connection.remoteAddr),
      guard
    }
    const startedMs = clock.monotonicMs()
    let frame = first
    let negSentMs: number | undefined
    for (let roundTrips = 1; ; roundTrips++) {
      const step = this.#responder.receive(frame, { ...connection, negSentMs }, clock.monotonicMs())
      switch (step.kind) {
        case 'send':
          negSentMs = isRetry(step.frame) ? undefined : clock.monotonicMs()
          await stream.write(step.frame, { signal })
          deadline.set(step.answerByMs, late())
          frame = (await readSessionFrame(stream, { signal })).frame
          break
        case 'established':
          await this.#accept(stream, step.established, { startedMs, roundTrips })
          return
        case 'refused':
          await this.#refuse(stream, step.established, step.reason)
          return
        case 'close':
          if (step.frame !== undefined) await stream.write(step.frame, { signal })
          if (step.scope === 'connection') stream.connection.abort(step.error)
          else await stream.close()
          return
      }
    }
  }

  async #accept(stream: ByteStream, established: Established, start: ExchangeStart): Promise<void> {
    const local = this.#m.own.agentOf(established.localEid)
    if (local === undefined) {
      wipeEstablished(established)
      this.release(established.cookies)
      throw new ProtocolError('TARGET_MISMATCH', 'the agent is gone')
    }
    const isResume = (established.flags & FLAG.RESUME) !== 0
    if (!isResume) {
      this.#m.index.byPair(this.#m.own.pairOf(local.eid, established.remoteEid))?.loaded?.epoch?.abort('superseded')
      const session = this.#parts.epochs.newSession(local, established, { peer: stream.connection.peer, addrs: [] })
      this.#parts.epochs.begin(session, established, stream, start).start()
      return
    }
    const entry = this.#m.index.byId(toHex(established.sid))
    const session = entry === undefined ? undefined : await this.#parts.shelf.hold(entry)
    await session?.settled()
    if (session === undefined || session.isOver || this.#m.isStopping) {
      await this.#refuse(stream, established, 'unknownSession')
      this.release(established.cookies)
      return
    }
    this.#parts.epochs.begin(session, established, stream, start).start()
  }

  async #refuse(stream: ByteStream, established: Established, reason: TeardownReason): Promise<void> {
    const { crypto, clock } = this.#m.components
    const signer = this.#m.own.signer(established.localEid)
    const nowMs = clock.monotonicMs()
    try {
      if (signer === undefined) return
      const core = new SessionStream<undefined>({ crypto, established, signer, nowMs })
      core.abort(reason)
      const last = core.next(CONTROL_CHANNEL, nowMs)
      core.wipe()
      if (last !== undefined) await stream.write(last.bytes)
    } finally {
      wipeEstablished(established)
      await stream.close()
    }
  }
}

/**
 * A frame that was malformed or late during the handshake is answered CLOSE (protocol/README.md §6, States). The end takes the place of a reset, which would
 * overtake it on QUIC; what the peer still sends is refused at once.
 */
async function turnAway(stream: ByteStream, error: unknown): Promise<void> {
  if (!(error instanceof ProtocolError)) {
    stream.reset(error instanceof Error ? error : new Error(String(error)))
    return
  }
  await stream.write(encodeClose(closeCodeOf(error.code))).catch(() => {})
  void stream.close()
}

function exchangeOf({ established, readyAtMs }: LiveSession): OwnExchange {
  const { flags, sid } = established
  return { resumeId: (flags & FLAG.RESUME) === 0 ? undefined : sid, flags, readyAtMs }
}

function isRetry(neg: Uint8Array): boolean {
  return (headerOf(neg.subarray(0, HEADER_BYTES)).flags & FLAG.RETRY) !== 0
}

/** Not a word in answer: the stream is reset. */
function noSession(): Error {
  return new Error('no session of this peer has these cookies')
}

function late(): ProtocolError {
  return new ProtocolError('TIMEOUT', 'the handshake stalled')
}
