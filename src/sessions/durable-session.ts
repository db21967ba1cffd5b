import { equals } from '../../protocol/bytes.ts'
import type { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { LazySet } from '../../protocol/lazy.ts'
import type { ContractMeter } from '../../protocol/session/contract.ts'
import type { Established } from '../../protocol/session/established.ts'
import { FLAG, hasFlag } from '../../protocol/session/flags.ts'
import { ITEM_KINDS, isTransaction } from '../../protocol/session/items.ts'
import type { Journal, Outgoing } from '../../protocol/session/journal.ts'
import type { CheckpointConflict, ReadyFacts } from '../../protocol/session/stream-effects.ts'
import type { CarriedState, ReadyGroups } from '../../protocol/session/stream-init.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'
import { withSignal } from '../platform/with-signal.ts'
import type { SessionEse } from '../state/session-ese.ts'
import { OwnState, type SessionStates, State } from '../state/state.ts'
import { channelItems } from './channel-items.ts'
import type { DurableSessionInit } from './durable-session-init.ts'
import { endsSession, whyOf } from './epoch-end.ts'
import type { DeliverEffect, EpochEnd, EpochOwner, ItemTag, SnapshotEffect } from './epoch-owner.ts'
import { Housekeeping } from './housekeeping.ts'
import { Inbox, type ItemHandler } from './inbox.ts'
import type { LiveSession } from './live-session.ts'
import { makeEse } from './make-ese.ts'
import { Outbox } from './outbox.ts'
import type { ReadyAdditions } from './ready-additions.ts'
import type { Inbound, Session, SessionEvent, SessionInfo } from './session.ts'
import type { SessionDetails, SessionVectors } from './session-details.ts'
import { contractLimit, neverSent, outcomeUnknown } from './session-errors.ts'
import { answerContradiction, distrust, judgeRevocation } from './session-misconduct.ts'
import type { SessionRecord } from './session-record.ts'
import { detailsOf, infoOf, vectorsOf } from './session-report.ts'
import { SessionRotations } from './session-rotations.ts'
import { applySnapshot, type SnapshotContext, sendSnapshot } from './session-snapshots.ts'
import { SessionState } from './session-state.ts'
import type { JournalTag } from './session-store.ts'

/** What a session handles itself. */
const OWN_KINDS: ReadonlySet<number> = new Set([ITEM_KINDS.rotation, ITEM_KINDS.eseOp, ITEM_KINDS.eseView])

/** A {@link Session} that outlives its connections and its processes: the journal and what it holds of the peer are on disk (protocol/README.md §6). */
export class DurableSession implements Session, EpochOwner {
  readonly local: LocalAgent
  readonly id: string
  readonly closed: Promise<{ reason: string }>
  readonly contract: ContractMeter | undefined
  readonly states: SessionStates
  readonly #init: DurableSessionInit
  readonly #s: SessionState
  readonly #housekeeping: Housekeeping
  readonly #outbox: Outbox
  readonly #inbox: Inbox
  readonly #rotations: SessionRotations
  readonly #snapshots: SnapshotContext
  readonly #ese: SessionEse
  readonly #resumeListeners = new LazySet<() => void>()
  readonly #listeners = new LazySet<(event: SessionEvent) => void>()
  readonly #closing = Promise.withResolvers<{ reason: string }>()
  #announced = false
  /** the peer came back without its ESE values: it gets a view once everything up to this is here */
  #viewDue: bigint | undefined

  constructor(init: DurableSessionInit, first?: Established) {
    this.#init = init
    this.local = init.local
    this.closed = this.#closing.promise
    const state = new SessionState(init, first === undefined ? 'held' : 'new')
    this.#s = state
    this.id = state.id
    this.contract = state.contract
    this.#housekeeping = new Housekeeping(state)
    this.#outbox = new Outbox(state, this.#housekeeping, () => this.#closeIfDrained())
    this.#inbox = new Inbox(state, this.#housekeeping)
    this.#ese = makeEse(state, first === undefined ? 'held' : 'new', {
      checkRoom: (bytes) => this.#outbox.checkRoom(bytes),
      send: (channel, kind, payload, tag) => void this.#sendDurable(channel, kind, payload, tag),
      breach: (error) => this.breach(error)
    })
    this.states = {
      own: new OwnState(this.#ese, this.#ese.own),
      peer: new State(this.#ese, this.#ese.peer),
      exclusive: hasFlag(init.record.flags, FLAG.EXCLUSIVE)
    }
    state.runMoved = () => this.#sendViewIfDue()
    const tell = (event: SessionEvent) => this.#tell(event)
    this.#rotations = new SessionRotations(state, {
      session: this,
      ese: this.#ese,
      outbox: this.#outbox,
      send: (channel, kind, payload, tag) => void this.#sendDurable(channel, kind, payload, tag),
      tidy: () => this.tidy(),
      tell
    })
    this.#snapshots = { session: this, state, outbox: this.#outbox, housekeeping: this.#housekeeping, tell }
    this.#inbox.onKind(ITEM_KINDS.rotation, (item, epoch) => this.#rotations.take(epoch, item))
    for (const kind of [ITEM_KINDS.eseOp, ITEM_KINDS.eseView]) this.#inbox.onKind(kind, (item) => this.#ese.take(item))
  }

  #sendViewIfDue(): void {
    if (this.#viewDue === undefined || this.#s.ledger.run.seq < this.#viewDue) return
    this.#viewDue = undefined
    this.#ese.sendViews()
  }

  get remote(): Eid {
    return this.#s.record.remote
  }

  get record(): SessionRecord {
    return this.#s.record
  }

  get state(): SessionInfo['state'] {
    return this.#s.phase
  }

  get epoch(): LiveSession | undefined {
    return this.#s.epoch
  }

  get isOver(): boolean {
    return this.#s.end !== undefined
  }

  /** It holds values that are in memory only. */
  get holdsState(): boolean {
    return this.#ese.holdsValues
  }

  /** Something of ours is not acknowledged, or waits. */
  get hasUnacked(): boolean {
    return this.#s.journal.length > 0 || this.#outbox.hasPending
  }

  /** What waits to be sent or acknowledged. */
  get sendBytes(): number {
    return this.#outbox.bytes
  }

  /** Somebody waits for what was sent in it: not only certificates of ours are under way. */
  get isAwaited(): boolean {
    if (this.#outbox.hasPending) return true
    for (const { item } of this.#s.journal.entries) if (item.kind !== ITEM_KINDS.rotation) return true
    return false
  }

  /** Nothing was ever sent in it, either way: who dissolves it loses nothing. */
  get isUnused(): boolean {
    const { journal, ledger } = this.#s
    return journal.tx.seq === 0n && !this.hasUnacked && ledger.isUntouched
  }

  /** Wall time at which the oldest unacknowledged transaction was journaled. */
  get oldestUnackedAtMs(): number | undefined {
    for (const { item } of this.#s.journal.entries) return item.tag.atMs
    return undefined
  }

  get activeAtMs(): number {
    return this.#s.record.activeAtMs
  }

  info(): SessionInfo {
    return infoOf(this.#s)
  }

  vectors(): SessionVectors {
    return vectorsOf(this.#s)
  }

  details(): Promise<SessionDetails> {
    return detailsOf(this.#s, this.#inbox.channels)
  }

  items(channel: number): AsyncGenerator<Inbound, void, undefined> {
    return channelItems(this, channel)
  }

  onEvent(listener: (event: SessionEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #tell(event: SessionEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event)
      } catch (error) {
        this.#s.log.error({ err: error }, 'a listener of a session failed')
      }
    }
    this.#init.onEvent(event)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** What a peer or a caller can make this session hold; for tests and metrics. */
  held(): { streams: number; sendItems: number; sendBytes: number; unservedBytes: number; journal: number; inHand: number } {
    return {
      streams: this.#s.epoch?.streams ?? 0,
      sendItems: this.#outbox.items,
      sendBytes: this.#outbox.bytes,
      unservedBytes: this.#inbox.unservedBytes,
      journal: this.#s.journal.length,
      inHand: this.#s.ledger.inHand
    }
  }

  onResumed(listener: () => void): () => void {
    this.#resumeListeners.add(listener)
    return () => this.#resumeListeners.delete(listener)
  }

  // ── epochs ──

  /** What the next epoch begins with. Reading of the one before has stopped by then; {@link settled} says when its batch is finished. */
  carried(): CarriedState<ItemTag> {
    const { direction } = this.#s.record
    const { ready } = this.#init
    return {
      direction,
      journal: this.#s.journal as Journal<ItemTag>,
      rx: this.#s.ledger.run,
      rxHeads: this.#s.ledger.heads,
      known: this.#s.ledger.known(),
      epoch: this.#announced || this.#init.held !== undefined ? 'resumed' : 'new',
      eseLost: this.#ese.isLost || ready?.eseLost?.(this) === true,
      ...(ready === undefined ? {} : { groups: groupsOf(ready, this) })
    }
  }

  /** Takes the session over: the epoch before is no longer read. */
  begin(epoch: LiveSession): void {
    const before = this.#s.epoch
    this.#s.epoch = epoch
    if (before !== undefined && before !== epoch) before.lose(new Error('the session goes on over another connection'))
  }

  /** Stops reading, so that nothing more of the old connection takes effect, and waits for the batches under way. */
  async settled(): Promise<void> {
    const before = this.#s.epoch
    if (before !== undefined) {
      this.#s.epoch = undefined
      this.#s.lastEpoch = before
      before.lose(new Error('the session goes on over another connection'))
    }
    await this.#s.written()
  }

  ready(epoch: LiveSession, facts: ReadyFacts): void {
    if (epoch !== this.#s.epoch) return
    const { clock } = this.#init
    this.#s.lastEpoch = epoch
    this.#s.phase = 'established'
    const isNew = !this.#announced && this.#init.held === undefined
    const { peer } = epoch.connection
    this.#s.record = {
      ...this.#s.record,
      activeAtMs: clock.nowMs(),
      address: peer === this.#s.record.address.peer ? this.#s.record.address : { peer, addrs: [] }
    }
    if (isNew) this.#s.record = { ...this.#s.record, openedAtMs: clock.nowMs() }
    else this.#s.resumes += 1
    this.#store()
    // the peer took this exchange, so it goes by this EID: READY may acknowledge the certificate only later
    if (!isNew) this.#rotations.goesBy('local', { old: this.#s.record.local, new: epoch.established.localEid })
    this.announce()
    this.#init.onReady(this, epoch)
    if (!isNew) {
      this.#tell({
        kind: 'resumed',
        session: this.info(),
        resent: facts.resent,
        peerHas: facts.peer.rx,
        eseLost: facts.peer.eseLost
      })
    }
    this.#viewDue = facts.peer.eseLost ? facts.peer.tx : undefined
    this.#sendViewIfDue()
    if (facts.snapshot === 'wanted') void sendSnapshot(this.#snapshots, epoch, facts)
    this.#outbox.flush()
    this.#closeIfDrained()
    if (!isNew) for (const listener of this.#resumeListeners) listener()
  }

  /** Tells the application of the session, once in the life of this object. */
  announce(): void {
    if (this.#announced) return
    this.#announced = true
    this.#init.onOpen(this)
  }

  /** The record is written when the session first opens, behind its handshake: nothing durable is promised before it is there. */
  #store(): void {
    if (this.#s.stored !== undefined) {
      this.#housekeeping.soon()
      return
    }
    this.#s.stored = this.#s.commit([this.#init.store.record(this.#s.row), ...this.#ese.firstOps()])
    this.#s.stored.catch((error: unknown) => {
      this.#s.log.error({ err: error }, 'a session could not be stored and is closed')
      this.#s.epoch?.abort('failed', error instanceof Error ? error : undefined)
    })
  }

  closing(epoch: LiveSession): void {
    if (epoch === this.#s.epoch && this.#s.phase === 'established') this.#s.phase = 'closing'
  }

  ended(epoch: LiveSession, end: EpochEnd): void {
    if (epoch !== this.#s.epoch) return
    this.#s.epoch = undefined
    this.#s.lastEpoch = epoch
    if (this.#s.end !== undefined) return
    if (end.reason === 'contract' && end.by === 'local' && end.error !== undefined) distrust(this.#s, end.error)
    if (
      end.reason === 'unknownSession' &&
      epoch.readyAtMs === undefined &&
      this.#announced &&
      !equals(this.local.eid, this.#s.record.local)
    ) {
      this.#s.phase = 'disconnected'
      this.#init.onDisconnected(this, epoch, end) // the peer may know us by an older EID: whoever opens tries the next, and ends it after the last
      return
    }
    if (endsSession(end, { opened: this.#announced, wasReady: epoch.readyAtMs !== undefined, hasUnacked: this.hasUnacked })) {
      void this.finish(end.reason, epoch, end)
      return
    }
    if (this.#s.closeWanted !== undefined && !this.hasUnacked) {
      void this.finish(end.reason, epoch, end)
      return
    }
    this.#s.phase = 'disconnected'
    this.#s.lastLoss = end.error?.message ?? end.reason
    if (epoch.readyAtMs !== undefined) this.#tell({ kind: 'disconnected', session: this.info(), reason: this.#s.lastLoss })
    this.#init.onDisconnected(this, epoch, end)
  }

  /** The contract's time is over: what has no number yet is returned, the rest is flushed, then the node says goodbye (G-46). */
  expired(epoch: LiveSession): void {
    if (epoch !== this.#s.epoch || this.#s.end !== undefined) return
    this.#outbox.returnPending('contract')
    void this.close({ reason: 'contract' })
  }

  get contractIsOver(): boolean {
    return this.#s.contractIsOver
  }

  /** The peer stays where it is; the next attempt looks here first. */
  reachedAt(address: PeerAddress): void {
    if (address.addrs.length > 0 || address.peer !== this.#s.record.address.peer) this.#s.record = { ...this.#s.record, address }
  }

  // ── sending ──

  async send(channel: number, kind: number, payload: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    signal?.throwIfAborted()
    if ((!isTransaction(kind) && kind !== ITEM_KINDS.live) || OWN_KINDS.has(kind))
      throw new TypeError(`kind 0x${kind.toString(16)} is the protocol's own`)
    this.#outbox.checkRoom(payload.length)
    const breach = this.contract?.refusal('sent', { kind, payload })
    if (breach !== undefined) throw contractLimit(breach)
    const done = Promise.withResolvers<void>()
    const tag: JournalTag = { atMs: this.#init.clock.nowMs(), resolve: done.resolve, reject: done.reject }
    const cancel = isTransaction(kind) ? this.#sendDurable(channel, kind, payload, tag) : this.#outbox.sendLive(channel, payload, tag)
    if (signal === undefined) return await done.promise
    const aborted = () => {
      cancel(signal.reason)
      done.reject(signal.reason)
    }
    signal.addEventListener('abort', aborted, { once: true })
    try {
      await done.promise
    } finally {
      signal.removeEventListener('abort', aborted)
    }
  }

  #sendDurable(channel: number, kind: number, payload: Uint8Array, tag: JournalTag): () => void {
    const cancel = this.#outbox.sendDurable(channel, kind, payload, tag)
    if (this.#s.epoch === undefined) this.#init.onWanted(this)
    return cancel
  }

  acked(items: readonly Outgoing<ItemTag>[]): void {
    for (const { kind, payload } of items) if (kind === ITEM_KINDS.rotation) this.#rotations.acked(payload)
    this.#outbox.acked(items)
  }

  moved(): void {
    this.#outbox.moved()
  }

  // ── receiving ──

  onChannel(channel: number, handler: ItemHandler): void {
    this.#inbox.onChannel(channel, handler)
  }

  onKind(kind: number, handler: ItemHandler): void {
    if (OWN_KINDS.has(kind)) throw new TypeError(`kind 0x${kind.toString(16)} is the session's own`)
    this.#inbox.onKind(kind, handler)
  }

  deliver(epoch: LiveSession, effect: DeliverEffect): void {
    this.#inbox.deliver(epoch, effect)
  }

  room(channel: number | undefined): Promise<void> | undefined {
    return this.#inbox.room(channel)
  }

  snapshot(epoch: LiveSession, effect: SnapshotEffect): void {
    void applySnapshot(this.#snapshots, epoch, effect)
  }

  // ── rotation ──

  /**
   * Certificates of ours that the peer has not acknowledged; each goes into the journal once.
   * @param eids - that we have had since the one that the peer knows, oldest first: what was written under those before is erased
   */
  sendRotations(certificates: readonly Uint8Array[], eids: readonly Eid[] = []): void {
    if (this.#s.end !== undefined) return
    this.#ese.rotateOwn(eids)
    this.#rotations.send(certificates)
  }

  /** Resolves once all that was sent before is in the journal, on disk. */
  async journaled(): Promise<void> {
    await this.#ese.erased()
    await this.#outbox.journaled()
  }

  /** What was acknowledged leaves the disk. */
  tidy(): Promise<void> {
    return this.#housekeeping.tidy()
  }

  // ── ending ──

  async close({ signal, reason = 'done' }: { signal?: AbortSignal; reason?: TeardownReason } = {}): Promise<void> {
    signal?.throwIfAborted()
    if (this.#s.end === undefined && this.#s.phase !== 'closing') {
      this.#s.closeWanted = reason
      if (this.#s.epoch?.isOpen === true) this.#closeIfDrained()
      else if (this.hasUnacked) this.#init.onWanted(this)
      else await this.finish(reason, undefined, undefined)
    }
    await withSignal(this.closed, signal)
  }

  /** TEARDOWN begins once all that was to be sent has its number. */
  #closeIfDrained(): void {
    if (this.#s.closeWanted === undefined || this.#s.end !== undefined || this.#s.epoch?.isOpen !== true) return
    this.#s.phase = 'closing'
    if (!this.#outbox.hasPending && !this.#outbox.isFlushing) this.#s.epoch.close(this.#s.closeWanted)
  }

  breach(error: ProtocolError): void {
    this.#s.log.warn({ field: error.field, error: error.message }, 'the peer went over the contract')
    if (this.#s.epoch !== undefined) {
      this.#s.epoch.abort('contract', error)
      return
    }
    if (this.#s.end !== undefined) return
    distrust(this.#s, error)
    void this.finish('contract', undefined, { reason: 'contract', by: 'local', lost: false, error })
  }

  contradicted(epoch: LiveSession, conflict: CheckpointConflict): void {
    answerContradiction(this.#s, epoch, conflict, () => this.#ese.erase('revoked'))
  }

  revoked(epoch: LiveSession, payload: Uint8Array): void {
    judgeRevocation(this.#s, epoch, payload)
  }

  /** Breaks off: tells the peer why, in one TEARDOWN, and ends. */
  abort(reason: TeardownReason): void {
    const epoch = this.#s.epoch
    void this.finish(reason, epoch, undefined)
    epoch?.abort(reason)
  }

  /** The node stops, or the session parks: the epoch ends without a word, the session stays on disk. */
  async release(why: Error): Promise<void> {
    this.#housekeeping.stop()
    const epoch = this.#s.epoch
    epoch?.lose(why)
    await this.#s.written()
    await this.tidy()
  }

  /** The process stops: whoever waits here learns that what is journaled goes on without it. */
  async shutDown(why: Error): Promise<void> {
    if (this.#s.end !== undefined) return
    await this.release(why)
    if (this.#s.end !== undefined) return
    this.#s.end = { reason: 'shutdown' }
    this.#ese.dropMemory('shutdown')
    this.#s.phase = 'closed'
    for (const { item } of this.#s.journal.entries) item.tag.reject(outcomeUnknown('shutdown'))
    for (const { tag } of this.#outbox.allPending()) tag.reject(neverSent('shutdown'))
    this.#closing.resolve({ reason: 'shutdown' })
  }

  /** Nothing of it can be carried on: whoever waits is told, entry by entry; the disk keeps a tombstone. */
  async finish(reason: string, epoch: LiveSession | undefined, end: EpochEnd | undefined): Promise<void> {
    if (this.#s.end !== undefined) return
    this.#s.end = { reason }
    this.#ese.erase(reason)
    this.#s.phase = 'closed'
    this.#s.epoch = undefined
    this.#housekeeping.stop()
    const { store, clock, onEnd } = this.#init
    const unknown = [...this.#s.journal.entries]
    for (const { item, seq } of unknown) {
      this.#outbox.settle(item, item.state === 'waiting' ? neverSent(reason) : outcomeUnknown(reason))
      if (item.kind === ITEM_KINDS.snapshotPart) continue
      this.#tell({
        kind: 'outcome-unknown',
        session: this.info(),
        entry: { seq, channel: item.channel, kind: item.kind, payload: item.payload, sent: item.state === 'sent' },
        reason
      })
    }
    if (unknown.length > 0) this.#s.log.warn({ count: unknown.length, reason }, 'what was not acknowledged has an unknown outcome')
    this.#outbox.returnPending(reason)
    this.#inbox.clear()
    this.#tell({ kind: reason === 'diverged' ? 'diverged' : 'ended', session: this.info(), reason, by: end?.by ?? 'local', ...whyOf(end) })
    this.#closing.resolve({ reason })
    onEnd(this, epoch)
    if (this.#s.stored === undefined) return
    try {
      await Promise.allSettled([this.#s.stored, this.#s.written()])
      const { local, remote } = this.info()
      const gone = await store.gone(this.id, { id: this.id, local, remote, reason, endedAtMs: clock.nowMs() })
      await store.commit([...gone, ...this.#ese.goneOps()])
    } catch (error) {
      this.#s.log.warn({ err: error }, 'a session that ended could not be removed')
    }
  }
}

function groupsOf(ready: ReadyAdditions, session: Session): ReadyGroups {
  return {
    write: () => ready.groups?.(session) ?? new Uint8Array(1),
    take: (bytes) => ready.takeGroups?.(session, bytes)
  }
}
