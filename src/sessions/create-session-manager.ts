import { equals, toHex, utf8 } from '../../protocol/bytes.ts'
import type { Signer } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import type { Rotation } from '../../protocol/identity/rotation.ts'
import { closeCodeOf, encodeClose } from '../../protocol/session/close.ts'
import type { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import { CONTRACT_GRACE_MS } from '../../protocol/session/contract.ts'
import { NO_BLOCK, resumeDifference } from '../../protocol/session/contract-policy.ts'
import { cookiePairHex } from '../../protocol/session/cookie.ts'
import { type OwnExchange, settleCrossing } from '../../protocol/session/crossing.ts'
import { type Established, wipeEstablished } from '../../protocol/session/established.ts'
import { FLAG, NEGOTIABLE_FLAGS } from '../../protocol/session/flags.ts'
import { FRAME, type Header } from '../../protocol/session/header.ts'
import { type Caller, type Load, type PolicyVerdict, Responder } from '../../protocol/session/responder.ts'
import { decodeSfc, encodeSfc, type SfcBlock, sfcShortfall } from '../../protocol/session/sfc.ts'
import { SessionStream } from '../../protocol/session/stream.ts'
import { CONTROL_CHANNEL } from '../../protocol/session/stream-init.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { PeerAddress } from '../net/host.ts'
import type { Logger } from '../platform/logger.ts'
import { ConnectionGuards } from './connection-guards.ts'
import { Deadline } from './deadline.ts'
import { DurableSession } from './durable-session.ts'
import type { DurableSessionInit } from './durable-session-init.ts'
import { readSessionFrame } from './frame-reader.ts'
import { HandshakeBudget } from './handshake-budget.ts'
import { initiate, type ResumePurpose } from './initiate.ts'
import { type EpochEnd, LiveSession } from './live-session.ts'
import { peerIds } from './peer-bytes.ts'
import { Reconnects } from './reconnects.ts'
import type { Session, SessionEvent, SessionInfo, SessionOpenOptions } from './session.ts'
import { openingFailed, sessionError } from './session-errors.ts'
import { type IndexEntry, type PairKey, pairKey, SessionIndex } from './session-index.ts'
import type { SessionRecord } from './session-record.ts'
import { SessionStore, type Tombstone } from './session-store.ts'
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
/** How long a stop waits for writes under way. */
export const STOP_MS = 3_000
/** A caller whose exchange gave way waits so long for the peer's. */
const CROSSING_WAIT_MS = 10_000
const OPEN_STREAM_MS = 10_000
/** An attempt in the background to take a session up again. */
const RESUME_MS = 20_000
const EVENTS_MAX = 256
const PARK_CHECK_MS = 60_000
const DISSOLVE_CHECK_MS = 3_600_000
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** What an exchange of ours is for. */
interface Purpose {
  address: PeerAddress
  held: DurableSession | undefined
  resume: ResumePurpose | undefined
  /** asks for a contract */
  needs: Partial<SfcBlock> | undefined
}

interface Opening {
  readonly promise: Promise<DurableSession>
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
  /** the one session of two EIDs, in memory or not */
  readonly #index = new SessionIndex()
  readonly #store: SessionStore
  readonly #reconnects: Reconnects
  /** own exchanges before READY; at most sessionsMax */
  readonly #openings = new Map<PairKey, Opening>()
  /** callers whose exchange gave way, by pair; settled by the peer's session or after CROSSING_WAIT_MS */
  readonly #awaiting = new Map<PairKey, Set<(session: DurableSession) => void>>()
  readonly #listeners: ((session: Session) => void)[] = []
  readonly #settledListeners: ((agent: LocalAgent) => void)[] = []
  readonly #eventListeners = new Set<(event: SessionEvent) => void>()
  /** the newest; at most EVENTS_MAX */
  readonly #events: SessionEvent[] = []
  readonly #stopping = new AbortController()
  #cancelTurn: (() => void) | undefined
  #cancelUpkeep: (() => void) | undefined
  #offAddresses: (() => void) | undefined
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
      identities: () => agents.identities?.() ?? agents.list().map(({ signer }) => signer),
      load: (atMs) => this.#load(atMs),
      offer: ({ resumeId }) => {
        this.#budget.spend(clock.monotonicMs())
        if (resumeId === undefined) return init.contract === undefined ? {} : { sfc: init.contract }
        const held = this.#index.byId(toHex(resumeId))
        return held?.sfc === undefined ? {} : { sfc: decodeSfc(held.sfc) }
      },
      policy: (caller, atMs) => this.#judge(caller, atMs)
    })
    this.#store = new SessionStore(components.store)
    this.#reconnects = new Reconnects(
      { clock, random },
      { msMax: init.reconnectMsMax ?? 60_000, attempt: (id, failures) => this.#resumeInBackground(id, failures) }
    )
  }

  async start(): Promise<void> {
    const { clock } = this.#c
    for await (const record of this.#store.records()) {
      if (this.#agentOf(record.local) !== undefined) this.#index.add(record, this.#pairOf(record.local, record.remote))
    }
    const unacked = await this.#store.unacked()
    for (const { id, activeAtMs } of this.#index.entries()) {
      if (unacked.has(id) || clock.nowMs() - activeAtMs < this.#parkAfterMs) this.#reconnects.schedule(id)
    }
    this.#offAddresses = this.#c.host.onAddressesChanged(() => this.#addressesChanged())
    this.#upkeep(clock.nowMs())
    this.#offPeer = this.#c.host.onPeer(({ kind, peer }) => {
      if (kind === 'disconnect') this.#guards.forget(peer)
    })
    this.#offConnection = this.#c.host.onConnection((connection) => this.#onConnection(connection))
    this.#turnSecrets()
    await this.#c.host.handle(PSS_PROTOCOL, (stream) => this.#serve(stream), { inboundStreamsMax: INBOUND_STREAMS_MAX })
  }

  get #storedMax(): number {
    return this.#init.storedMax ?? 10_000
  }

  get #parkAfterMs(): number {
    return this.#init.parkAfterMs ?? 30 * MINUTE_MS
  }

  /**
   * A process that was killed says no goodbye, but once restarted it dials again: what its old connections carried is asked for at once, and what
   * is lost is taken up.
   */
  #onConnection({ peer, id }: { peer: string; id: string }): void {
    for (const session of this.#index.loaded()) {
      if (session.epoch === undefined) {
        if (session.record.address.peer === peer) this.#reconnects.now(session.id)
      } else if (session.epoch.peer === peer && session.epoch.connection.id !== id) session.epoch.probe()
    }
  }

  /** Our own addresses changed: what is open must show that it still works, what is lost is tried at once. */
  #addressesChanged(): void {
    for (const session of this.#index.loaded()) {
      if (session.epoch === undefined) this.#reconnects.now(session.id)
      else session.epoch.probe()
    }
  }

  locatorSeen(remote: Eid, address: PeerAddress): void {
    for (const session of this.#index.loaded()) {
      if (!equals(session.remote, remote)) continue
      session.reachedAt(address)
      if (session.epoch === undefined) this.#reconnects.now(session.id)
      else session.epoch.probe()
    }
  }

  /** Sessions without use let go of memory, and those without use for very long are dissolved (G-46). */
  #upkeep(dissolvedAtMs: number): void {
    const { clock } = this.#c
    this.#cancelUpkeep = clock.after(Math.min(PARK_CHECK_MS, this.#parkAfterMs), () => {
      for (const entry of [...this.#index.entries()]) {
        const session = entry.loaded
        if (session !== undefined && this.#isIdle(session)) void this.#park(entry, session)
      }
      const nowMs = clock.nowMs()
      const isDue = nowMs - dissolvedAtMs >= DISSOLVE_CHECK_MS
      if (isDue)
        void this.#dissolve(nowMs).catch((error: unknown) => this.#log.warn({ err: error }, 'idle sessions could not be dissolved'))
      this.#upkeep(isDue ? nowMs : dissolvedAtMs)
    })
  }

  #isIdle(session: DurableSession): boolean {
    return !session.hasUnacked && this.#c.clock.nowMs() - session.activeAtMs >= this.#parkAfterMs
  }

  async #park(entry: IndexEntry, session: DurableSession): Promise<void> {
    this.#reconnects.forget(entry.id)
    entry.loaded = undefined
    entry.activeAtMs = session.activeAtMs
    entry.parked = new WeakRef(session)
    await session.release(new Error('the session was idle and is parked'))
  }

  async #dissolve(nowMs: number): Promise<void> {
    const limitMs = this.#init.parkedMaxMs ?? 90 * DAY_MS
    for (const entry of [...this.#index.entries()]) {
      const activeAtMs = entry.loaded?.activeAtMs ?? entry.activeAtMs
      const contractIsOver = nowMs > (entry.expiresAtMs ?? Number.POSITIVE_INFINITY) + CONTRACT_GRACE_MS
      if (nowMs - activeAtMs < limitMs && !contractIsOver) continue
      const session = await this.#hold(entry)
      await session?.finish(contractIsOver ? 'contract' : 'expired', undefined, undefined)
    }
    await this.#store.sweep()
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
      loaded: [...this.#index.loaded()].length,
      stored: this.#index.size,
      pendingHandshakes: this.#guards.pending,
      ownExchanges: this.#openings.size,
      spentPairs: this.#responder.held.spentPairs,
      guardedConnections: this.#guards.size,
      guardedSources: this.#guards.sources
    }
  }

  list(): SessionInfo[] {
    return [...this.#index.loaded()].map((session) => session.info())
  }

  async listAll(): Promise<SessionInfo[]> {
    const all: SessionInfo[] = []
    for (const entry of [...this.#index.entries()]) {
      const session = await this.#read(entry)
      if (session !== undefined) all.push(session.info())
    }
    return all
  }

  async get(id: string): Promise<Session | undefined> {
    const entry = this.#index.byId(id)
    return entry === undefined ? undefined : await this.#hold(entry)
  }

  ended(): Promise<Tombstone[]> {
    return this.#store.tombstones()
  }

  recent(): readonly SessionEvent[] {
    return this.#events
  }

  onEvent(listener: (event: SessionEvent) => void): () => void {
    this.#eventListeners.add(listener)
    return () => this.#eventListeners.delete(listener)
  }

  #tell(event: SessionEvent): void {
    this.#events.push(event)
    if (this.#events.length > EVENTS_MAX) this.#events.shift()
    const { kind } = event
    const facts = { session: event.session.id, remote: event.session.remote, ...('reason' in event ? { reason: event.reason } : {}) }
    if (kind === 'diverged' || kind === 'gap' || kind === 'outcome-unknown') this.#log.warn({ kind, ...facts }, 'a session lost something')
    else this.#log.debug({ kind, ...facts }, 'a session changed')
    for (const listener of this.#eventListeners) {
      try {
        listener(event)
      } catch (error) {
        this.#log.error({ err: error }, 'a listener of session events failed')
      }
    }
  }

  /** The listener learns of sessions that are in memory already, too. */
  onSession(listener: (session: Session) => void): void {
    this.#listeners.push(listener)
    for (const session of this.#index.loaded()) this.#callListener(listener, session)
  }

  #callListener(listener: (session: Session) => void, session: Session): void {
    try {
      listener(session)
    } catch (error) {
      this.#log.error({ error: error instanceof Error ? error.message : String(error) }, 'a session listener failed')
    }
  }

  // ── sessions on disk ──

  /** A session in memory: as it was held, or read back. */
  async #hold(entry: IndexEntry): Promise<DurableSession | undefined> {
    if (entry.loaded !== undefined) return entry.loaded
    const parked = entry.parked?.deref()
    if (parked !== undefined && !parked.isOver) {
      entry.loaded = parked
      return parked
    }
    entry.loading ??= this.#read(entry).then((session) => {
      entry.loading = undefined
      if (session === undefined || this.#index.byId(entry.id) !== entry) return undefined
      entry.loaded = session
      session.announce()
      return session
    })
    return await entry.loading
  }

  async #read(entry: IndexEntry): Promise<DurableSession | undefined> {
    const held = entry.loaded ?? entry.parked?.deref()
    if (held !== undefined) return held
    const local = this.#agentOf(entry.local)
    const found = await this.#store.load(entry.id, this.#c.crypto)
    if (local === undefined || found === undefined) {
      this.#index.remove(entry.id)
      return undefined
    }
    const { record, journal, ledger, totals, broken } = found
    const session = this.#session(local, record, { journal, ledger, totals })
    if (broken) {
      entry.loaded = session
      await session.finish('diverged', undefined, {
        reason: 'diverged',
        by: 'local',
        lost: false,
        error: new Error('the journal on disk has a gap')
      })
      return undefined
    }
    return session
  }

  #session(local: LocalAgent, record: SessionRecord, held?: DurableSessionInit['held'], first?: Established): DurableSession {
    const { crypto, clock, snapshot, ready, evidence } = this.#c
    return new DurableSession(
      {
        crypto,
        clock,
        logger: this.#log,
        store: this.#store,
        local,
        record,
        ...(held === undefined ? {} : { held }),
        snapshot,
        ready,
        evidence,
        onOpen: (session) => {
          for (const listener of this.#listeners) this.#callListener(listener, session)
        },
        onReady: (session, epoch) => this.#onReady(session, epoch),
        onDisconnected: (session) => this.#onDisconnected(session),
        onEnd: (session) => this.#onEnd(session),
        onEvent: (event) => this.#tell(event),
        onRotation: (of, rotation, certificate) => this.#onRotation(of, rotation, certificate),
        onRenamed: (of, side, state) => this.#onRenamed(of, side, state),
        onWanted: (session) => this.#onWanted(session)
      },
      first
    )
  }

  #onDisconnected(session: DurableSession): void {
    if (this.#stopping.signal.aborted) return
    const entry = this.#index.byId(session.id)
    if (entry?.loaded !== session) return
    if (this.#isIdle(session)) void this.#park(entry, session)
    else this.#reconnects.schedule(session.id)
  }

  #onWanted(session: DurableSession): void {
    const entry = this.#index.byId(session.id)
    if (entry === undefined || this.#stopping.signal.aborted) return
    entry.loaded ??= session
    this.#reconnects.schedule(session.id)
  }

  async #resumeInBackground(id: string, failures: number): Promise<'done' | 'failed'> {
    const entry = this.#index.byId(id)
    const session = entry === undefined ? undefined : await this.#hold(entry)
    if (entry === undefined || session === undefined || session.isOver || session.epoch !== undefined) return 'done'
    const { clock } = this.#c
    if (this.#isRefused(session.remote)) {
      await session.finish('policy', undefined, undefined)
      return 'done'
    }
    if (session.contractIsOver) {
      await session.finish('contract', undefined, undefined)
      return 'done'
    }
    const oldestMs = session.oldestUnackedAtMs
    if (oldestMs !== undefined && clock.nowMs() - oldestMs >= (this.#init.unackedMaxMs ?? 7 * DAY_MS)) {
      await session.finish('expired', undefined, undefined)
      return 'done'
    }
    if (this.#isIdle(session)) {
      await this.#park(entry, session)
      return 'done'
    }
    const deadline = new Deadline(clock, this.#stopping.signal)
    deadline.set(clock.monotonicMs() + RESUME_MS, new ProtocolError('TIMEOUT', 'the session could not be taken up in time'))
    try {
      const address = await this.#addressOf(session, { signal: deadline.signal, fresh: failures > 0 })
      const opening = this.#openings.get(entry.pair) ?? this.#startOpening(entry.pair, session.local, session.remote, address, session)
      await withSignal(opening.promise, deadline.signal)
      return 'done'
    } catch (error) {
      this.#log.debug({ session: id, err: error }, 'a session could not be taken up yet')
      return session.isOver || session.epoch !== undefined ? 'done' : 'failed'
    } finally {
      deadline.dispose()
    }
  }

  #isRefused(remote: Eid): boolean {
    try {
      this.#c.evidence?.admit(remote)
      return false
    } catch {
      return true
    }
  }

  async dismiss(isRefused: (remote: Eid) => boolean): Promise<void> {
    for (const entry of [...this.#index.entries()]) {
      if (!isRefused(entry.remote)) continue
      const session = await this.#hold(entry)
      session?.abort('policy')
    }
  }

  /** Where its locator says, looked up anew once an attempt failed; where that cannot be had, where it was reached last. */
  async #addressOf(session: DurableSession, options: { signal: AbortSignal; fresh: boolean }): Promise<PeerAddress> {
    const { locate } = this.#c
    if (locate !== undefined) {
      try {
        return await locate(session.remote, options)
      } catch {
        options.signal.throwIfAborted()
      }
    }
    return session.record.address
  }

  // ── opening ──

  async open(from: LocalAgent, to: Eid, address: PeerAddress, { signal, contract: needs }: SessionOpenOptions = {}): Promise<Session> {
    signal?.throwIfAborted()
    if (this.#stopping.signal.aborted) throw stopped()
    if (equals(from.eid, to)) {
      throw sessionError('SESSION_REFUSED', 'a session joins two agents that differ', { field: 'to', data: { reason: 'self' } })
    }
    this.#c.evidence?.admit(to)
    const pair = this.#pairOf(from.eid, to)
    for (;;) {
      const session = await this.#heldBy(pair)
      if (session?.state === 'established') return fitting(session, needs)
      if (session?.state === 'closing') {
        await withSignal(session.closed, signal) // it flushes and says goodbye first
        continue
      }
      if (session?.isOver === true) continue
      if (session?.contractIsOver === true) {
        await session.finish('contract', undefined, undefined)
        continue
      }
      if (session !== undefined) fitting(session, needs)
      const opening = this.#openings.get(pair) ?? this.#startOpening(pair, from, to, address, session, needs)
      try {
        return fitting(await withSignal(opening.promise, signal), needs)
      } catch (error) {
        if (session === undefined || !session.isOver) throw error // else it was forgotten or has diverged: a new one takes its place
      }
    }
  }

  async #heldBy(pair: PairKey): Promise<DurableSession | undefined> {
    const entry = this.#index.byPair(pair)
    return entry === undefined ? undefined : await this.#hold(entry)
  }

  #startOpening(pair: PairKey, from: LocalAgent, to: Eid, address: PeerAddress, held?: DurableSession, needs?: Partial<SfcBlock>): Opening {
    if (this.#byCookies.size + this.#openings.size >= this.#sessionsMax) throw this.#full()
    if (held === undefined && this.#index.size >= this.#storedMax) throw this.#full()
    const resume = held === undefined ? undefined : purposeOf(held)
    const deadline = new Deadline(this.#c.clock, this.#stopping.signal)
    const given = Promise.withResolvers<'gave-way'>()
    const opening: Opening = {
      exchange: { resumeId: resume?.sid, flags: resume?.flags ?? (needs === undefined ? 0 : FLAG.SFC), readyAtMs: undefined },
      promise: this.#open(pair, from, to, { address, held, resume, needs }, deadline, given.promise).finally(() => {
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
    what: Purpose,
    deadline: Deadline,
    givenWay: Promise<'gave-way'>
  ): Promise<DurableSession> {
    const theirs = this.#nextSession(pair)
    try {
      const own = this.#exchange(from, to, what, deadline)
      own.catch(() => {})
      const winner = await Promise.race([own, givenWay])
      return winner === 'gave-way' ? await theirs.session : winner
    } catch (error) {
      if (!isSuperseded(error)) throw error
      try {
        return await theirs.session
      } catch {
        // the peer held on to a session that we no longer have: after 10 s it lets it go (protocol/README.md §6, "Both open or resume at once")
        return await this.#exchange(from, to, what, deadline)
      }
    } finally {
      theirs.dispose()
    }
  }

  /** The session that the peer opens between the same two, if it comes in time. */
  #nextSession(pair: PairKey): { session: Promise<DurableSession>; dispose: () => void } {
    const coming = Promise.withResolvers<DurableSession>()
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

  /** As the agent is now; a session whose peer may not know that yet is tried under the older EIDs next (protocol/README.md §6). */
  async #exchange(from: LocalAgent, to: Eid, what: Purpose, deadline: Deadline): Promise<DurableSession> {
    const { held } = what
    let failure: unknown
    for (const signer of held === undefined ? [from.signer] : this.#signersOf(held)) {
      try {
        return await this.#exchangeAs(signer, from, held?.remote ?? to, what, deadline)
      } catch (error) {
        if (held === undefined || held.isOver || !isUnknownSession(error)) throw error
        failure = error
      }
    }
    await held?.finish('unknownSession', undefined, { reason: 'unknownSession', by: 'peer', lost: false })
    throw failure
  }

  async #exchangeAs(
    signer: Signer,
    from: LocalAgent,
    to: Eid,
    { address, held, resume, needs }: Purpose,
    deadline: Deadline
  ): Promise<DurableSession> {
    const { host, crypto, clock, random } = this.#c
    const { signal } = deadline
    const stream = await host.openStream(address, PSS_PROTOCOL, { signal })
    const { established, ack, startedMs, roundTrips } = await initiate({ crypto, clock, random, self: host.peer }, stream, { signer }, to, {
      signal,
      resume,
      needs
    })
    if (held !== undefined) {
      await held.settled()
      if (held.isOver || signal.aborted) {
        wipeEstablished(established)
        void stream.close()
        signal.throwIfAborted()
        throw sessionError('SESSION_CLOSED', 'the session ended meanwhile', { data: { reason: held.info().endReason } })
      }
    }
    const session = held ?? this.#newSession(from, established, address)
    session.reachedAt(address)
    const epoch = this.#begin(session, established, stream, { startedMs, roundTrips: roundTrips + 1 })
    const giveWay = () => epoch.lose(signal.reason)
    signal.addEventListener('abort', giveWay, { once: true })
    epoch.start(ack)
    try {
      await epoch.ready
      return session
    } catch (cause) {
      throw openingFailed(cause, await epoch.closed)
    } finally {
      signal.removeEventListener('abort', giveWay)
    }
  }

  #newSession(local: LocalAgent, established: Established, address: PeerAddress): DurableSession {
    const { keys, role, sid, localEid, remoteEid, flags, sfc } = established
    const [mine, theirs] = role === 'initiator' ? [keys.i2r, keys.r2i] : [keys.r2i, keys.i2r]
    const nowMs = this.#c.clock.nowMs()
    const record: SessionRecord = {
      sid: sid.slice(),
      local: localEid,
      remote: remoteEid,
      direction: role === 'initiator' ? 0 : 1,
      flags: flags & NEGOTIABLE_FLAGS & ~FLAG.RESUME,
      sfc: sfc === undefined ? undefined : encodeSfc(sfc),
      openedAtMs: nowMs,
      activeAtMs: nowMs,
      address,
      tx: { seq: 0n, hash: mine.chain.slice(), heads: new Map() },
      rx: { seq: 0n, hash: theirs.chain.slice(), heads: new Map() }
    }
    return this.#session(local, record, undefined, established)
  }

  #begin(
    session: DurableSession,
    established: Established,
    stream: ByteStream,
    start: { startedMs: number; roundTrips: number }
  ): LiveSession {
    const { host, crypto, clock } = this.#c
    const { peer } = stream.connection
    const epoch = new LiveSession({
      crypto,
      clock,
      logger: this.#log,
      local: session.local,
      signer: this.#signer(established.localEid) ?? session.local.signer,
      established,
      stream,
      ...start,
      carried: () => session.carried(),
      owner: session,
      contract: session.contract,
      openStream: async () => {
        const deadline = new Deadline(clock, this.#stopping.signal)
        deadline.set(clock.monotonicMs() + OPEN_STREAM_MS, new ProtocolError('TIMEOUT', 'no further stream within 10 s'))
        try {
          return await host.openStream({ peer, addrs: [] }, PSS_PROTOCOL, { signal: deadline.signal })
        } finally {
          deadline.dispose()
        }
      },
      ...(this.#init.times === undefined ? {} : { times: this.#init.times })
    })
    session.begin(epoch)
    this.#byCookies.set(cookiePairHex(epoch.cookies), epoch)
    void epoch.closed.then((end) => this.#onEpochEnd(epoch, end))
    return epoch
  }

  #onReady(session: DurableSession, epoch: LiveSession): void {
    const pair = this.#pairOf(session.local.eid, session.remote)
    const before = this.#index.byPair(pair)
    if (this.#index.byId(session.id) === undefined) {
      this.#index.add(session.record, pair, session)
      if (before !== undefined) void this.#supersede(before)
    }
    this.#reconnects.forget(session.id)
    if (!equals(session.record.local, session.local.eid))
      session.sendRotations(this.#certificatesSince(session.local, session.record.local))
    if (epoch.role === 'responder') for (const resolve of this.#awaiting.get(pair) ?? []) resolve(session)
  }

  /** The peer no longer has it, and a new session of the same two takes its place. */
  async #supersede(entry: IndexEntry): Promise<void> {
    const session = await this.#hold(entry)
    session?.abort('superseded')
  }

  #onEpochEnd(epoch: LiveSession, _end: EpochEnd): void {
    this.#byCookies.delete(cookiePairHex(epoch.cookies))
    if (!equals(epoch.established.localEid, epoch.local.eid) && !this.#stopping.signal.aborted) this.#tellSettled(epoch.local)
    if (epoch.role === 'responder') this.#responder.release(epoch.cookies, this.#c.clock.monotonicMs())
  }

  #onEnd(session: DurableSession): void {
    this.#reconnects.forget(session.id)
    if (this.#index.byId(session.id)?.loaded === session) this.#index.remove(session.id)
    if (!this.#stopping.signal.aborted) this.#tellSettled(session.local)
  }

  // ── rotation ──

  #agentOf(eid: Eid): LocalAgent | undefined {
    const { agents } = this.#c
    return agents.byEid(eid) ?? agents.ofAnyEid?.(eid)
  }

  #pairOf(local: Eid, remote: Eid): PairKey {
    const agent = this.#agentOf(local)
    return pairKey(agent === undefined ? eidHex(local) : homeOf(agent), remote)
  }

  #signer(eid: Eid): Signer | undefined {
    const { agents } = this.#c
    return agents.byEid(eid)?.signer ?? agents.ofAnyEid?.(eid)?.signerOf(eid)
  }

  /** As the agent is, then as it was, back to what the peer surely knows; without those whose secrets are gone. */
  #signersOf({ local, record }: DurableSession): Signer[] {
    const signers = [local.signer]
    if (equals(local.eid, record.local)) return signers
    const { agents } = this.#c
    const rotating = agents.ofAnyEid?.(local.eid)
    for (const { eid } of [...(rotating?.former ?? [])].reverse()) {
      const signer = rotating?.signerOf(eid)
      if (signer !== undefined) signers.push(signer)
      if (equals(eid, record.local)) break
    }
    return signers
  }

  async rotated(agent: LocalAgent): Promise<void> {
    for (const epoch of [...this.#byCookies.values()]) {
      const { localEid } = epoch.established
      if (this.#agentOf(localEid) === agent && this.#signer(localEid) === undefined) epoch.lose(new Error('the secret of its EID is gone'))
    }
    for (const entry of [...this.#index.entries()]) {
      if (this.#agentOf(entry.local) !== agent || equals(entry.local, agent.eid)) continue
      const session = await this.#hold(entry)
      if (session === undefined) continue
      session.sendRotations(this.#certificatesSince(agent, session.record.local))
      await session.journaled()
    }
  }

  #certificatesSince(agent: LocalAgent, known: Eid): Uint8Array[] {
    const former = this.#c.agents.ofAnyEid?.(agent.eid)?.former ?? []
    const from = former.findIndex(({ eid }) => equals(eid, known))
    return former.slice(from).flatMap(({ retiring }) => (retiring === undefined ? [] : [retiring.certificate]))
  }

  unsettled(agent: LocalAgent): Eid[] {
    const names = new Map<string, Eid>()
    for (const { local } of this.#index.entries()) {
      if (!equals(local, agent.eid) && this.#agentOf(local) === agent) names.set(eidHex(local), local)
    }
    for (const { established } of this.#byCookies.values()) {
      const { localEid } = established
      if (!equals(localEid, agent.eid) && this.#agentOf(localEid) === agent) names.set(eidHex(localEid), localEid)
    }
    return [...names.values()]
  }

  onSettled(listener: (agent: LocalAgent) => void): void {
    this.#settledListeners.push(listener)
  }

  #tellSettled(agent: LocalAgent): void {
    for (const listener of this.#settledListeners) listener(agent)
  }

  /** The new EID must be nobody's that we hold a session with, nor ours: an honest rotation makes a fresh key. */
  async #onRotation(session: DurableSession, rotation: Rotation, certificate: Uint8Array): Promise<void> {
    if (this.#agentOf(rotation.new) !== undefined || this.#index.byPair(this.#pairOf(session.local.eid, rotation.new)) !== undefined) {
      throw new ProtocolError('EID_MISMATCH', 'the certificate leads to an EID that is in use here', { field: 'new' })
    }
    await this.#c.rotated?.(certificate, rotation)
    await this.#c.evidence?.onRotation(certificate)
  }

  #onRenamed(session: DurableSession, side: 'local' | 'remote', state: 'now' | 'stored'): void {
    const entry = this.#index.byId(session.id)
    if (entry !== undefined) {
      const { local, remote } = session.record
      const pair = this.#pairOf(local, remote)
      this.#index.rename(entry, { local, remote, pair })
      if (side === 'remote') for (const resolve of this.#awaiting.get(pair) ?? []) resolve(session)
    }
    if (side === 'remote' || state === 'now' || this.#stopping.signal.aborted) return
    this.#tellSettled(session.local)
    this.#proveAnew(session)
  }

  /** What the peer has applied is proved at once: the session goes on under keys that the new EID signed for. */
  #proveAnew(session: DurableSession): void {
    const entry = this.#index.byId(session.id)
    const { epoch } = session
    if (entry === undefined || epoch === undefined || !epoch.isOpen || equals(epoch.established.localEid, session.local.eid)) return
    if (this.#openings.has(entry.pair)) return
    try {
      const opening = this.#startOpening(entry.pair, session.local, session.remote, { peer: epoch.peer, addrs: [] }, session)
      opening.promise.catch((error: unknown) => epoch.lose(error)) // the secret of the old EID goes: nothing may be left that signs with it
    } catch (error) {
      this.#log.debug({ err: error }, 'the new identity is proved at the next resume')
    }
  }

  // ── responding ──

  #load(nowMs: number): Load {
    if (this.#byCookies.size >= this.#sessionsMax) return { state: 'full', waitSeconds: this.#init.fullWaitSeconds ?? 2 }
    const waitSeconds = this.#budget.waitSeconds(nowMs)
    return waitSeconds > 0 ? { state: 'busy', waitSeconds } : { state: 'free' }
  }

  #judge({ localEid, remoteEid, flags, resumeId, sfc }: Caller, nowMs: number): PolicyVerdict<TeardownReason> {
    const local = this.#agentOf(localEid)
    if (local === undefined) return { kind: 'refuse', reason: 'policy' }
    const isCurrent = equals(local.eid, localEid)
    const held = resumeId === undefined ? undefined : this.#index.byId(toHex(resumeId))
    if (resumeId !== undefined) {
      const isTheirs =
        held !== undefined &&
        this.#agentOf(held.local) === local &&
        (isCurrent || !equals(held.local, local.eid)) &&
        equals(held.remote, remoteEid)
      if (!isTheirs || held.loaded?.isOver === true) return { kind: 'refuse', reason: 'unknownSession' }
      if (
        (flags & ~FLAG.RESUME) !== held.flags ||
        resumeDifference(sfc, held.sfc === undefined ? undefined : decodeSfc(held.sfc)) !== undefined
      )
        return { kind: 'refuse', reason: 'contract' }
    } else if (!isCurrent) return { kind: 'refuse', reason: 'policy' }
    const policy = this.#c.policy ?? this.#c.evidence?.policy
    const verdict = policy?.({ local, remote: remoteEid }) ?? { admit: true }
    if (!verdict.admit) return { kind: 'refuse', reason: verdict.reason }
    const pair = this.#pairOf(localEid, remoteEid)
    const opening = this.#openings.get(pair)
    const other = this.#index.byPair(pair)
    if (resumeId === undefined && other !== undefined && !equals(other.local, local.eid)) {
      this.#reconnects.now(other.id) // the peer has not seen our certificate: it learns there that this session is ours
      return { kind: 'refuse', reason: 'superseded' }
    }
    const live = other?.loaded?.epoch
    const isOfTheSame = live !== undefined && equals(live.established.remoteEid, remoteEid) && equals(live.established.localEid, localEid)
    const own = opening?.exchange ?? (isOfTheSame && live.role === 'initiator' ? exchangeOf(live) : undefined)
    const crossing = settleCrossing({ localEid, remoteEid, incoming: { resumeId, flags }, own, nowMs })
    if (crossing === 'refuse') return { kind: 'refuse', reason: 'superseded' }
    if (live === undefined && this.#byCookies.size >= this.#sessionsMax) return { kind: 'refuse', reason: 'capacity' }
    if (resumeId === undefined && this.#index.byPair(pair) === undefined && this.#index.size >= this.#storedMax) {
      return { kind: 'refuse', reason: 'capacity' }
    }
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
      await turnAway(stream, error)
    } finally {
      deadline.dispose()
      entry.leave()
    }
  }

  #adopt(stream: ByteStream, { iCookie, rCookie }: Header, frame: Uint8Array): void {
    const session = this.#byCookies.get(cookiePairHex({ i: iCookie, r: rCookie }))
    if (session === undefined || session.peer !== stream.connection.peer) {
      stream.reset(new ProtocolError('COOKIE_MISMATCH', 'no session of this peer has these cookies'))
      return
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

  async #accept(stream: ByteStream, established: Established, start: { startedMs: number; roundTrips: number }): Promise<void> {
    const local = this.#agentOf(established.localEid)
    if (local === undefined) {
      wipeEstablished(established)
      this.#responder.release(established.cookies, this.#c.clock.monotonicMs())
      throw new ProtocolError('TARGET_MISMATCH', 'the agent is gone')
    }
    const isResume = (established.flags & FLAG.RESUME) !== 0
    if (!isResume) {
      this.#index.byPair(this.#pairOf(local.eid, established.remoteEid))?.loaded?.epoch?.abort('superseded')
      const session = this.#newSession(local, established, { peer: stream.connection.peer, addrs: [] })
      this.#begin(session, established, stream, start).start()
      return
    }
    const entry = this.#index.byId(toHex(established.sid))
    const session = entry === undefined ? undefined : await this.#hold(entry)
    await session?.settled()
    if (session === undefined || session.isOver || this.#stopping.signal.aborted) {
      await this.#refuse(stream, established, 'unknownSession')
      this.#responder.release(established.cookies, this.#c.clock.monotonicMs())
      return
    }
    this.#begin(session, established, stream, start).start()
  }

  async #refuse(stream: ByteStream, established: Established, reason: TeardownReason): Promise<void> {
    const { crypto, clock } = this.#c
    const signer = this.#signer(established.localEid)
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
    this.#cancelUpkeep?.()
    this.#offPeer?.()
    this.#offConnection?.()
    this.#offAddresses?.()
    this.#reconnects.stop()
    await host.unhandle(PSS_PROTOCOL)
    this.#stopping.abort(stopped())
    const over = Promise.withResolvers<void>()
    const cancel = clock.after(STOP_MS, over.resolve)
    const released = [...this.#index.loaded()].map((session) => session.shutDown(stopped()))
    for (const epoch of [...this.#byCookies.values()]) epoch.lose(stopped())
    await Promise.race([Promise.all(released), over.promise])
    cancel()
    this.#responder.stop()
  }
}

function purposeOf({ record }: DurableSession): ResumePurpose {
  return { sid: record.sid, flags: record.flags, sfc: record.sfc }
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

/** The session, where its contract grants what is asked for. @throws RookeryError `CONTRACT_UNMET` naming the field */
function fitting(session: DurableSession, needs: Partial<SfcBlock> | undefined): DurableSession {
  if (needs === undefined) return session
  const field = session.contract === undefined ? NO_BLOCK : sfcShortfall(session.contract.block, needs)
  if (field === undefined) return session
  throw sessionError('CONTRACT_UNMET', `the open session of the two does not grant what is asked for: ${field}`, {
    field: `sfc.${field}`,
    remedy: 'close it first, or ask for less',
    data: { id: session.id }
  })
}

function isUnknownSession(error: unknown): boolean {
  return error instanceof RookeryError && error.data?.reason === 'unknownSession'
}

function isSuperseded(error: unknown): boolean {
  return error instanceof RookeryError && error.data?.reason === 'superseded'
}

function late(): ProtocolError {
  return new ProtocolError('TIMEOUT', 'the handshake stalled')
}

function stopped(): RookeryError {
  return sessionError('SESSION_CLOSED', 'the node is stopping', { data: { reason: 'shutdown' } })
}
