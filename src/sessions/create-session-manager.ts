import { equals, utf8 } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import type { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import { cookiePairHex } from '../../protocol/session/cookie.ts'
import { type OwnExchange, settleCrossing } from '../../protocol/session/crossing.ts'
import { type Established, wipeEstablished } from '../../protocol/session/established.ts'
import { FRAME, type Header } from '../../protocol/session/header.ts'
import { type Caller, type Load, type PolicyVerdict, Responder } from '../../protocol/session/responder.ts'
import { CONTROL_CHANNEL, SessionStream } from '../../protocol/session/stream.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { PeerAddress } from '../net/host.ts'
import type { Logger } from '../platform/logger.ts'
import { ConnectionGuards } from './connection-guards.ts'
import { Deadline } from './deadline.ts'
import { readSessionFrame } from './frame-reader.ts'
import { HandshakeBudget } from './handshake-budget.ts'
import { initiate } from './initiate.ts'
import { LiveSession } from './live-session.ts'
import { peerIds } from './peer-bytes.ts'
import type { Session, SessionInfo } from './session.ts'
import { openingFailed, sessionError } from './session-errors.ts'
import type { RunningSessionManager, SessionManagerComponents, SessionManagerHeld, SessionManagerInit } from './settings.ts'
import { withSignal } from './with-signal.ts'

export type {
  RunningSessionManager,
  SessionAgents,
  SessionManagerComponents,
  SessionManagerHeld,
  SessionManagerInit,
  SessionPolicy
} from './settings.ts'

export const PSS_PROTOCOL = '/rookery/pss/1.0.0'
/** The first frame of a stream is due within this. */
export const FIRST_FRAME_MS = 10_000
/** Streams of the protocol on one connection: sessions of all pairs of EIDs, and their channels. */
const INBOUND_STREAMS_MAX = 512
/** How long a stop waits for FIN-ACKs. */
export const STOP_MS = 3_000
/** A caller whose exchange gave way waits so long for the peer's. */
const CROSSING_WAIT_MS = 10_000
const OPEN_STREAM_MS = 10_000

type PairKey = string

interface Opening {
  readonly promise: Promise<LiveSession>
  readonly exchange: OwnExchange
  /** the peer's exchange stands: this one is wiped, and whoever waits gets the peer's session */
  yield(): void
}

/** Serves `/rookery/pss/1.0.0` and opens sessions over it. */
export async function createSessionManager(
  components: SessionManagerComponents,
  init: SessionManagerInit = {}
): Promise<RunningSessionManager> {
  const manager = new Sessions(components, init)
  await manager.start()
  return manager
}

class Sessions implements RunningSessionManager {
  readonly #c: SessionManagerComponents
  readonly #init: SessionManagerInit
  readonly #log: Logger
  readonly #sessionsMax: number
  readonly #budget: HandshakeBudget
  readonly #guards: ConnectionGuards
  readonly #responder: Responder<TeardownReason>
  /** by cookie pair; at most sessionsMax, those that say goodbye excepted */
  readonly #byCookies = new Map<string, LiveSession>()
  /** the one session of two EIDs */
  readonly #byPair = new Map<PairKey, LiveSession>()
  /** own exchanges before READY; at most sessionsMax */
  readonly #openings = new Map<PairKey, Opening>()
  /** callers whose exchange gave way, by pair; settled by the peer's session or after CROSSING_WAIT_MS */
  readonly #awaiting = new Map<PairKey, Set<(session: LiveSession) => void>>()
  readonly #listeners: ((session: Session) => void)[] = []
  readonly #stopping = new AbortController()
  #cancelTurn: (() => void) | undefined
  #offPeer: (() => void) | undefined
  #offConnection: (() => void) | undefined

  constructor(components: SessionManagerComponents, init: SessionManagerInit) {
    const { clock, random, crypto, agents } = components
    this.#c = components
    this.#init = init
    this.#log = components.logger.child('sessions')
    this.#sessionsMax = init.sessionsMax ?? 1_000
    this.#guards = new ConnectionGuards(init.sources)
    const nowMs = clock.monotonicMs()
    this.#budget = new HandshakeBudget({ perSecond: init.handshakesPerSecond ?? 100, burst: init.handshakesBurst ?? 200, nowMs })
    this.#responder = new Responder<TeardownReason>({
      crypto,
      random: (length) => random.bytes(length),
      nowMs,
      identities: () => agents.list().map(({ signer }) => signer),
      load: (atMs) => this.#load(atMs),
      offer: () => {
        this.#budget.spend(clock.monotonicMs())
        return {}
      },
      policy: (caller, atMs) => this.#judge(caller, atMs)
    })
  }

  async start(): Promise<void> {
    this.#offPeer = this.#c.host.onPeer(({ kind, peer }) => {
      if (kind === 'disconnect') this.#guards.forget(peer)
    })
    this.#offConnection = this.#c.host.onConnection((connection) => this.#onConnection(connection))
    this.#turnSecrets()
    await this.#c.host.handle(PSS_PROTOCOL, (stream) => this.#serve(stream), { inboundStreamsMax: INBOUND_STREAMS_MAX })
  }

  /** A process that was killed says no goodbye, but once restarted it dials again: what its old connections carried is asked for at once. */
  #onConnection({ peer, id }: { peer: string; id: string }): void {
    for (const session of this.#byCookies.values()) {
      if (session.peer === peer && session.connectionId !== id) session.probe()
    }
  }

  #turnSecrets(): void {
    const { clock } = this.#c
    this.#cancelTurn = clock.after(Math.max(0, this.#responder.wakeAtMs - clock.monotonicMs()), () => {
      this.#responder.tick(clock.monotonicMs())
      this.#guards.sweep(clock.monotonicMs())
      this.#turnSecrets()
    })
  }

  held(): SessionManagerHeld {
    return {
      sessions: this.#byCookies.size,
      pendingHandshakes: this.#guards.pending,
      ownExchanges: this.#openings.size,
      spentPairs: this.#responder.held.spentPairs,
      guardedConnections: this.#guards.size,
      guardedSources: this.#guards.sources
    }
  }

  list(): SessionInfo[] {
    return [...this.#byCookies.values()].filter((session) => session.readyAtMs !== undefined).map((session) => session.info())
  }

  onSession(listener: (session: Session) => void): void {
    this.#listeners.push(listener)
  }

  // ── opening ──

  async open(from: LocalAgent, to: Eid, address: PeerAddress, { signal }: { signal?: AbortSignal } = {}): Promise<Session> {
    signal?.throwIfAborted()
    if (this.#stopping.signal.aborted) throw stopped()
    if (equals(from.eid, to)) {
      throw sessionError('SESSION_REFUSED', 'a session joins two agents that differ', { field: 'to', data: { reason: 'self' } })
    }
    const pair = pairKey(from.eid, to)
    const live = this.#byPair.get(pair)
    if (live?.state === 'established') return live
    if (live !== undefined) await withSignal(live.closed, signal) // it flushes and says goodbye first
    const opening = this.#openings.get(pair) ?? this.#startOpening(pair, from, to, address)
    return withSignal(opening.promise, signal)
  }

  #startOpening(pair: PairKey, from: LocalAgent, to: Eid, address: PeerAddress): Opening {
    if (this.#byCookies.size + this.#openings.size >= this.#sessionsMax) throw this.#full()
    const deadline = new Deadline(this.#c.clock, this.#stopping.signal)
    const given = Promise.withResolvers<'gave-way'>()
    const opening: Opening = {
      exchange: { resumeId: undefined, flags: 0, readyAtMs: undefined },
      promise: this.#open(pair, from, to, address, deadline, given.promise).finally(() => {
        deadline.dispose()
        this.#openings.delete(pair)
      }),
      yield: () => {
        given.resolve('gave-way')
        deadline.abort(new ProtocolError('OUT_OF_ORDER', "the peer's exchange takes the place of ours"))
      }
    }
    opening.promise.catch(() => {}) // a caller whose own signal fired no longer waits for it
    this.#openings.set(pair, opening)
    return opening
  }

  async #open(
    pair: PairKey,
    from: LocalAgent,
    to: Eid,
    address: PeerAddress,
    deadline: Deadline,
    givenWay: Promise<'gave-way'>
  ): Promise<LiveSession> {
    const theirs = this.#nextSession(pair)
    try {
      const own = this.#exchange(from, to, address, deadline)
      own.catch(() => {})
      const winner = await Promise.race([own, givenWay])
      return winner === 'gave-way' ? await theirs.session : winner
    } catch (error) {
      if (!isSuperseded(error)) throw error
      try {
        return await theirs.session
      } catch {
        // the peer held on to a session that we no longer have: after 10 s it lets it go (wire.md §6, "Both open or resume at once")
        return await this.#exchange(from, to, address, deadline)
      }
    } finally {
      theirs.dispose()
    }
  }

  /** The session that the peer opens between the same two, if it comes in time. */
  #nextSession(pair: PairKey): { session: Promise<LiveSession>; dispose: () => void } {
    const coming = Promise.withResolvers<LiveSession>()
    coming.promise.catch(() => {})
    const waiting = this.#awaiting.get(pair) ?? new Set()
    this.#awaiting.set(pair, waiting)
    waiting.add(coming.resolve)
    const cancel = this.#c.clock.after(CROSSING_WAIT_MS, () =>
      coming.reject(
        sessionError('HANDSHAKE_FAILED', 'both sides opened at once and neither session came about', { data: { reason: 'superseded' } })
      )
    )
    const dispose = () => {
      cancel()
      waiting.delete(coming.resolve)
      if (waiting.size === 0) this.#awaiting.delete(pair)
    }
    return { session: coming.promise, dispose }
  }

  async #exchange(from: LocalAgent, to: Eid, address: PeerAddress, deadline: Deadline): Promise<LiveSession> {
    const { host, crypto, clock, random } = this.#c
    const { signal } = deadline
    const stream = await host.openStream(address, PSS_PROTOCOL, { signal })
    const { established, ack, startedMs, roundTrips } = await initiate({ crypto, clock, random, self: host.peer }, stream, from, to, {
      signal
    })
    const session = this.#begin(from, established, stream, { startedMs, roundTrips: roundTrips + 1 })
    const giveWay = () => session.lose(signal.reason)
    signal.addEventListener('abort', giveWay, { once: true })
    session.start(ack)
    try {
      await session.ready
      return session
    } catch (cause) {
      throw openingFailed(cause, await session.closed)
    } finally {
      signal.removeEventListener('abort', giveWay)
    }
  }

  #begin(local: LocalAgent, established: Established, stream: ByteStream, start: { startedMs: number; roundTrips: number }): LiveSession {
    const { host, crypto, clock } = this.#c
    const { peer } = stream.connection
    const session = new LiveSession({
      crypto,
      clock,
      logger: this.#log,
      local,
      established,
      stream,
      ...start,
      openStream: async () => {
        const deadline = new Deadline(clock, this.#stopping.signal)
        deadline.set(clock.monotonicMs() + OPEN_STREAM_MS, new ProtocolError('TIMEOUT', 'no further stream within 10 s'))
        try {
          return await host.openStream({ peer, addrs: [] }, PSS_PROTOCOL, { signal: deadline.signal })
        } finally {
          deadline.dispose()
        }
      },
      ...(this.#init.times === undefined ? {} : { times: this.#init.times }),
      onReady: (ready) => this.#onReady(ready),
      onEnd: (ended) => this.#onEnd(ended)
    })
    this.#byCookies.set(cookiePairHex(session.cookies), session)
    return session
  }

  #onReady(session: LiveSession): void {
    const pair = pairKey(session.local.eid, session.remote)
    const before = this.#byPair.get(pair)
    this.#byPair.set(pair, session)
    if (before?.state === 'established' && before !== session) before.abort('superseded')
    for (const listener of this.#listeners) {
      try {
        listener(session)
      } catch (error) {
        this.#log.error({ error: error instanceof Error ? error.message : String(error) }, 'a session listener failed')
      }
    }
    if (session.role === 'responder') for (const resolve of this.#awaiting.get(pair) ?? []) resolve(session)
  }

  #onEnd(session: LiveSession): void {
    this.#byCookies.delete(cookiePairHex(session.cookies))
    const pair = pairKey(session.local.eid, session.remote)
    if (this.#byPair.get(pair) === session) this.#byPair.delete(pair)
    if (session.role === 'responder') this.#responder.release(session.cookies, this.#c.clock.monotonicMs())
  }

  // ── responding ──

  #load(nowMs: number): Load {
    if (this.#byCookies.size >= this.#sessionsMax) return { state: 'full', waitSeconds: this.#init.fullWaitSeconds ?? 2 }
    const waitSeconds = this.#budget.waitSeconds(nowMs)
    return waitSeconds > 0 ? { state: 'busy', waitSeconds } : { state: 'free' }
  }

  #judge({ localEid, remoteEid, flags, resumeId }: Caller, nowMs: number): PolicyVerdict<TeardownReason> {
    const local = this.#c.agents.byEid(localEid)
    if (local === undefined) return { kind: 'refuse', reason: 'policy' }
    if (resumeId !== undefined) return { kind: 'refuse', reason: 'unknownSession' }
    const verdict = this.#c.policy?.({ local, remote: remoteEid }) ?? { admit: true }
    if (!verdict.admit) return { kind: 'refuse', reason: verdict.reason }
    const pair = pairKey(localEid, remoteEid)
    const opening = this.#openings.get(pair)
    const live = this.#byPair.get(pair)
    const own =
      opening?.exchange ?? (live?.role === 'initiator' ? { resumeId: undefined, flags: live.flags, readyAtMs: live.readyAtMs } : undefined)
    const crossing = settleCrossing({ localEid, remoteEid, incoming: { resumeId, flags }, own, nowMs })
    if (crossing === 'refuse') return { kind: 'refuse', reason: 'superseded' }
    if (live === undefined && this.#byCookies.size >= this.#sessionsMax) return { kind: 'refuse', reason: 'capacity' }
    if (crossing === 'yield') opening?.yield()
    return { kind: 'accept' }
  }

  /** One inbound stream: a handshake, or a further channel of a session that its first frame names. */
  async #serve(stream: ByteStream): Promise<void> {
    const { clock } = this.#c
    const entry = this.#guards.enter(stream.connection, (reason) => stream.reset(reason))
    if (entry === undefined) {
      stream.reset(new ProtocolError('BUSY', 'too many streams without a session'))
      return
    }
    const deadline = new Deadline(clock, this.#stopping.signal)
    try {
      deadline.set(clock.monotonicMs() + FIRST_FRAME_MS, late())
      const { frame, header } = await readSessionFrame(stream, { signal: deadline.signal })
      if (header.type === FRAME.DATA_STREAM) this.#adopt(stream, header, frame)
      else await this.#respond(stream, frame, entry.guard, deadline)
    } catch (error) {
      this.#log.debug(
        { peer: stream.connection.peer, error: error instanceof Error ? error.message : String(error) },
        'a stream ended before it had a session'
      )
      stream.reset(error instanceof Error ? error : new Error(String(error)))
    } finally {
      deadline.dispose()
      entry.leave()
    }
  }

  #adopt(stream: ByteStream, { iCookie, rCookie }: Header, frame: Uint8Array): void {
    const session = this.#byCookies.get(cookiePairHex({ i: iCookie, r: rCookie }))
    if (session === undefined || session.peer !== stream.connection.peer) {
      throw new ProtocolError('COOKIE_MISMATCH', 'no session of this peer has these cookies')
    }
    session.adopt(stream, frame)
  }

  async #respond(stream: ByteStream, first: Uint8Array, guard: ConnectionGuard, deadline: Deadline): Promise<void> {
    const { host, clock } = this.#c
    const { signal } = deadline
    const connection = {
      peers: peerIds(host.peer, stream.connection, 'responder'),
      remoteAddr: utf8(stream.connection.remoteAddr),
      guard
    }
    const startedMs = clock.monotonicMs()
    let frame = first
    for (let roundTrips = 1; ; roundTrips++) {
      const step = this.#responder.receive(frame, connection, clock.monotonicMs())
      switch (step.kind) {
        case 'send':
          await stream.write(step.frame, { signal })
          deadline.set(step.answerByMs, late())
          frame = (await readSessionFrame(stream, { signal })).frame
          break
        case 'established':
          this.#accept(stream, step.established, { startedMs, roundTrips })
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

  #accept(stream: ByteStream, established: Established, start: { startedMs: number; roundTrips: number }): void {
    const local = this.#c.agents.byEid(established.localEid)
    if (local === undefined) {
      wipeEstablished(established)
      throw new ProtocolError('TARGET_MISMATCH', 'the agent is gone')
    }
    const pair = pairKey(local.eid, established.remoteEid)
    const before = this.#byPair.get(pair)
    if (before?.state === 'established') before.abort('superseded')
    this.#begin(local, established, stream, start).start()
  }

  async #refuse(stream: ByteStream, established: Established, reason: TeardownReason): Promise<void> {
    const { crypto, clock, agents } = this.#c
    const signer = agents.byEid(established.localEid)?.signer
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

  // ── ending ──

  #full(): RookeryError {
    return sessionError('SESSION_BUSY', `this node already holds ${this.#sessionsMax} sessions`, {
      field: 'sessionsMax',
      value: this.#sessionsMax,
      remedy: 'close some, or raise sessionsMax',
      data: { reason: 'sessionsMax' }
    })
  }

  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return
    const { host, clock } = this.#c
    this.#cancelTurn?.()
    this.#offPeer?.()
    this.#offConnection?.()
    await host.unhandle(PSS_PROTOCOL)
    const over = Promise.withResolvers<void>()
    const cancel = clock.after(STOP_MS, over.resolve)
    const sessions = [...this.#byCookies.values()]
    await Promise.race([Promise.all(sessions.map((session) => session.close({ reason: 'shutdown' }))), over.promise])
    cancel()
    this.#stopping.abort(stopped())
    for (const session of [...this.#byCookies.values()]) session.lose(stopped())
    this.#responder.stop()
  }
}

function isSuperseded(error: unknown): boolean {
  return error instanceof RookeryError && error.data?.reason === 'superseded'
}

function pairKey(local: Eid, remote: Eid): PairKey {
  return eidHex(local) + eidHex(remote)
}

function late(): ProtocolError {
  return new ProtocolError('TIMEOUT', 'the handshake stalled')
}

function stopped(): RookeryError {
  return sessionError('SESSION_CLOSED', 'the node is stopping', { data: { reason: 'shutdown' } })
}
