import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidToDid } from '../../protocol/identity/eid.ts'
import { openRotation, type Rotation } from '../../protocol/identity/rotation.ts'
import { CONTRACT_GRACE_MS, ContractMeter, type ContractTotals } from '../../protocol/session/contract.ts'
import type { Established } from '../../protocol/session/established.ts'
import { Fifo } from '../../protocol/session/fifo.ts'
import { ITEM_KINDS, ITEM_PAYLOAD_BYTES_MAX, isTransaction } from '../../protocol/session/items.ts'
import { Journal, type Outgoing, type Unacked } from '../../protocol/session/journal.ts'
import { type Position, ReceiveLedger } from '../../protocol/session/ledger.ts'
import { CHANNELS_MAX } from '../../protocol/session/ready.ts'
import { decodeSfc } from '../../protocol/session/sfc.ts'
import type { CheckpointConflict, ReadyFacts } from '../../protocol/session/stream-effects.ts'
import { type CarriedState, CONTROL_CHANNEL } from '../../protocol/session/stream-init.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import { RookeryError } from '../errors.ts'
import type { SessionEvidence } from '../evidence/evidence.ts'
import { revokeByCheckpoints } from '../evidence/revoke.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { WriteOp } from '../store/store.ts'
import { channelItems } from './channel-items.ts'
import type { DeliverEffect, EpochEnd, EpochOwner, ItemTag, LiveSession, SnapshotEffect } from './live-session.ts'
import type { Inbound, Session, SessionEvent, SessionInfo, SnapshotSource } from './session.ts'
import { type ChannelDetails, contractDetails, epochDetails, type SessionDetails, vector } from './session-details.ts'
import { contractLimit, neverSent, outcomeUnknown, sessionError } from './session-errors.ts'
import type { SessionRecord } from './session-record.ts'
import type { JournalTag, SessionStore } from './session-store.ts'
import { withSignal } from './with-signal.ts'

/** Items of one session that wait to be sent or acknowledged; above it `send` refuses. */
export const SEND_ITEMS_MAX = 16_384
/** Their bytes in all. */
export const SEND_BYTES_MAX = 64 * 1024 * 1024
/** What a peer may send to channels that nobody serves (yet), in windows' measure; above it the session is closed. */
export const UNSERVED_BYTES_MAX = 1_048_576
/** What was acknowledged, either way, leaves the disk within this, or with the next write after so many. */
const HOUSEKEEPING_MS = 1_000
const HOUSEKEEPING_ITEMS = 256

/** Cancelled items that may wait among the others before they are cleared out. */
const CANCELLED_KEPT = 32
const NOTHING = new Uint8Array(0)

type Handler = (item: Inbound) => Promise<void>
type Delivered = { epoch: LiveSession; effect: DeliverEffect }

interface Pending {
  kind: number
  channel: number
  payload: Uint8Array
  tag: JournalTag
  cancelled: boolean
  numbered: boolean
}

export interface DurableSessionInit {
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  store: SessionStore
  local: LocalAgent
  record: SessionRecord
  /** read back from disk; absent: a new session, which begins with its first epoch */
  held?: { journal: Journal<JournalTag>; ledger: ReceiveLedger; totals: ContractTotals | undefined }
  /** the first READY came, or the session was read back: register channels now */
  onOpen: (session: DurableSession) => void
  onReady: (session: DurableSession, epoch: LiveSession) => void
  /** an epoch that had been open, or was to open, ended; the session goes on */
  onDisconnected: (session: DurableSession, epoch: LiveSession, end: EpochEnd) => void
  /** the session is over */
  onEnd: (session: DurableSession, epoch: LiveSession | undefined) => void
  onEvent: (event: SessionEvent) => void
  /** @throws ProtocolError where the new EID cannot be one of this session's */
  onRotation: (session: DurableSession, rotation: Rotation, certificate: Uint8Array) => Promise<void>
  /** one of the two goes by another EID: in memory, and on disk */
  onRenamed: (session: DurableSession, side: 'local' | 'remote', state: 'now' | 'stored') => void
  /** something waits to be sent and no epoch is open */
  onWanted: (session: DurableSession) => void
  /** what a peer is told that lost what the journal no longer holds */
  snapshot: SnapshotSource | undefined
  /** judges what the peer proves against itself, and what it hands in; absent: a contradiction is a VIOLATION like any other */
  evidence: SessionEvidence | undefined
}

/** A {@link Session} that outlives its connections and its processes: the journal and what it holds of the peer are on disk (protocol/README.md §6). */
export class DurableSession implements Session, EpochOwner {
  readonly local: LocalAgent
  readonly id: string
  readonly closed: Promise<{ reason: string }>
  readonly contract: ContractMeter | undefined
  readonly #init: DurableSessionInit
  readonly #log: Logger
  readonly #journal: Journal<JournalTag>
  readonly #ledger: ReceiveLedger
  readonly #resumeListeners = new Set<() => void>()
  readonly #handlers = new Map<number, Handler>()
  /** items for channels without a handler; bounded by UNSERVED_BYTES_MAX */
  readonly #unserved = new Map<number, Delivered[]>()
  /** by channel, what waits for its number; bounded by SEND_ITEMS_MAX and SEND_BYTES_MAX */
  readonly #pending = new Map<number, Fifo<Pending>>()
  readonly #closing = Promise.withResolvers<{ reason: string }>()
  #record: SessionRecord
  #state: SessionInfo['state'] = 'disconnected'
  #epoch: LiveSession | undefined
  #lastEpoch: LiveSession | undefined
  #announced = false
  #stored: Promise<void> | undefined
  #end: { reason: string } | undefined
  #sendItems = 0
  #sendBytes = 0
  #flushing = false
  /** commits of this session under way */
  readonly #writing = new Set<Promise<void>>()
  /** cancelled items among those that wait for their number; never many more than the others */
  #cancelled = 0
  #droppedTx: bigint[] = []
  #compactedRx: bigint
  #cancelHousekeeping: (() => void) | undefined
  #resumes = 0
  #closeWanted: TeardownReason | undefined
  #lastLoss: string | undefined
  /** rotations of the peer under way */
  #rotating: Promise<void> = Promise.resolve()
  readonly #listeners = new Set<(event: SessionEvent) => void>()

  constructor(init: DurableSessionInit, first?: Established) {
    this.#init = init
    this.local = init.local
    this.#record = init.record
    this.id = toHex(init.record.sid)
    this.#log = init.logger.child(`session ${this.id.slice(0, 8)}`)
    this.closed = this.#closing.promise
    const { crypto, record } = init
    this.#journal = init.held?.journal ?? new Journal(crypto, record.tx)
    this.#ledger = init.held?.ledger ?? new ReceiveLedger(crypto, record.rx, record.rx.heads)
    this.#compactedRx = record.rx.seq
    this.contract = meterOf(init, () => this.#record)
    if (first === undefined) this.#stored = Promise.resolve()
    for (const { item } of this.#journal.entries) {
      this.#sendItems += 1
      this.#sendBytes += item.payload.length
    }
  }

  get remote(): Eid {
    return this.#record.remote
  }

  get record(): SessionRecord {
    return this.#record
  }

  get state(): SessionInfo['state'] {
    return this.#state
  }

  get epoch(): LiveSession | undefined {
    return this.#epoch
  }

  get isOver(): boolean {
    return this.#end !== undefined
  }

  /** Something of ours is not acknowledged, or waits. */
  get hasUnacked(): boolean {
    return this.#journal.length > 0 || this.#pending.size > 0
  }

  /** Wall time at which the oldest unacknowledged transaction was journaled. */
  get oldestUnackedAtMs(): number | undefined {
    for (const { item } of this.#journal.entries) return item.tag.atMs
    return undefined
  }

  get activeAtMs(): number {
    return this.#record.activeAtMs
  }

  info(): SessionInfo {
    const epoch = this.#epoch ?? this.#lastEpoch
    const cookies = epoch?.cookies
    const { record } = this
    return {
      id: this.id,
      local: this.local.did,
      remote: eidToDid(this.remote),
      role: epoch?.role ?? (record.direction === 0 ? 'initiator' : 'responder'),
      state: this.#state,
      transport: epoch?.connection.transport ?? 'none',
      remoteAddr: epoch?.connection.remoteAddr ?? record.address.addrs[0] ?? '',
      handshakeMs: epoch?.handshakeMs ?? 0,
      roundTrips: epoch?.roundTrips ?? 0,
      cookies: { initiator: cookies === undefined ? '' : toHex(cookies.i), responder: cookies === undefined ? '' : toHex(cookies.r) },
      txSeq: this.#journal.tx.seq.toString(),
      txAcked: this.#journal.acked.seq.toString(),
      rxSeq: this.#ledger.run.seq.toString(),
      openedAtMs: record.openedAtMs,
      unacked: this.#journal.length,
      resumes: this.#resumes,
      activeAtMs: record.activeAtMs,
      ...(this.contract === undefined ? {} : { contract: contractDetails(this.contract, this.#init.clock.monotonicMs()) }),
      ...(this.#end === undefined ? {} : { endReason: this.#end.reason }),
      ...(this.#lastLoss === undefined ? {} : { lastLoss: this.#lastLoss })
    }
  }

  async details(): Promise<SessionDetails> {
    const epoch = this.#epoch
    const rttMs = await epoch?.ping()
    return {
      ...this.info(),
      ...(rttMs === undefined ? {} : { rttMs }),
      ...(epoch?.isOpen === true ? { epoch: epochDetails(epoch, this.#init.clock.monotonicMs()) } : {}),
      vectors: { tx: vector(this.#journal.tx), acked: vector(this.#journal.acked), rx: vector(this.#ledger.run) },
      channels: this.#channels()
    }
  }

  #channels(): ChannelDetails[] {
    const unacked = new Map<number, number>()
    for (const { item } of this.#journal.entries) unacked.set(item.channel, (unacked.get(item.channel) ?? 0) + 1)
    const sent = this.#journal.heads
    const received = this.#ledger.heads
    const numbers = new Set([...sent.keys(), ...received.keys(), ...unacked.keys(), ...this.#handlers.keys()])
    return [...numbers]
      .sort((a, b) => a - b)
      .map((channel) => ({
        channel,
        sent: String(sent.get(channel)?.seq ?? 0n),
        received: String(received.get(channel)?.seq ?? 0n),
        unacked: unacked.get(channel) ?? 0,
        waitingBytes: this.#epoch?.waitingBytes(channel) ?? 0
      }))
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
        this.#log.error({ err: error }, 'a listener of a session failed')
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
      streams: this.#epoch?.streams ?? 0,
      sendItems: this.#sendItems,
      sendBytes: this.#sendBytes,
      unservedBytes: this.#unservedBytes(),
      journal: this.#journal.length,
      inHand: this.#ledger.inHand
    }
  }

  onResumed(listener: () => void): () => void {
    this.#resumeListeners.add(listener)
    return () => this.#resumeListeners.delete(listener)
  }

  // ── epochs ──

  /** What the next epoch begins with. Reading of the one before has stopped by then; {@link settled} says when its batch is finished. */
  carried(): CarriedState<ItemTag> {
    const { direction } = this.#record
    return {
      direction,
      journal: this.#journal as Journal<ItemTag>,
      rx: this.#ledger.run,
      rxHeads: this.#ledger.heads,
      known: this.#ledger.known(),
      epoch: this.#announced || this.#init.held !== undefined ? 'resumed' : 'new'
    }
  }

  /** Takes the session over: the epoch before is no longer read. */
  begin(epoch: LiveSession): void {
    const before = this.#epoch
    this.#epoch = epoch
    if (before !== undefined && before !== epoch) before.lose(new Error('the session goes on over another connection'))
  }

  /** Stops reading, so that nothing more of the old connection takes effect, and waits for the batches under way. */
  async settled(): Promise<void> {
    const before = this.#epoch
    if (before !== undefined) {
      this.#epoch = undefined
      this.#lastEpoch = before
      before.lose(new Error('the session goes on over another connection'))
    }
    await Promise.allSettled([...this.#writing])
  }

  ready(epoch: LiveSession, facts: ReadyFacts): void {
    if (epoch !== this.#epoch) return
    const { clock } = this.#init
    this.#lastEpoch = epoch
    this.#state = 'established'
    const isNew = !this.#announced && this.#init.held === undefined
    const { peer } = epoch.connection
    this.#record = {
      ...this.#record,
      activeAtMs: clock.nowMs(),
      address: peer === this.#record.address.peer ? this.#record.address : { peer, addrs: [] }
    }
    if (isNew) this.#record = { ...this.#record, openedAtMs: clock.nowMs() }
    else this.#resumes += 1
    this.#store()
    // the peer took this exchange, so it goes by this EID: READY may acknowledge the certificate only later
    if (!isNew) this.#goesBy('local', { old: this.#record.local, new: epoch.established.localEid })
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
    if (facts.snapshot === 'wanted') void this.#sendSnapshot(epoch, facts)
    this.#flush()
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
    if (this.#stored !== undefined) {
      this.#soon()
      return
    }
    this.#stored = this.#commit([this.#init.store.record(this.#snapshotOfRecord())])
    this.#stored.catch((error: unknown) => {
      this.#log.error({ err: error }, 'a session could not be stored and is closed')
      this.#epoch?.abort('failed', error instanceof Error ? error : undefined)
    })
  }

  #snapshotOfRecord(): SessionRecord {
    const { base } = this.#journal
    const { run, heads } = this.#ledger
    return {
      ...this.#record,
      tx: { seq: base.seq, hash: base.hash, heads: base.heads },
      rx: { seq: run.seq, hash: run.hash, heads }
    }
  }

  async #commit(ops: readonly WriteOp[]): Promise<void> {
    const writing = this.#init.store.commit(ops)
    this.#writing.add(writing)
    try {
      await writing
    } finally {
      this.#writing.delete(writing)
    }
  }

  closing(epoch: LiveSession): void {
    if (epoch === this.#epoch && this.#state === 'established') this.#state = 'closing'
  }

  ended(epoch: LiveSession, end: EpochEnd): void {
    if (epoch !== this.#epoch) return
    this.#epoch = undefined
    this.#lastEpoch = epoch
    if (this.#end !== undefined) return
    if (end.reason === 'contract' && end.by === 'local' && end.error !== undefined) this.#distrust(end.error)
    if (
      end.reason === 'unknownSession' &&
      epoch.readyAtMs === undefined &&
      this.#announced &&
      !equals(this.local.eid, this.#record.local)
    ) {
      this.#state = 'disconnected'
      this.#init.onDisconnected(this, epoch, end) // the peer may know us by an older EID: whoever opens tries the next, and ends it after the last
      return
    }
    if (endsSession(end, { opened: this.#announced, wasReady: epoch.readyAtMs !== undefined, hasUnacked: this.hasUnacked })) {
      void this.finish(end.reason, epoch, end)
      return
    }
    if (this.#closeWanted !== undefined && !this.hasUnacked) {
      void this.finish(end.reason, epoch, end)
      return
    }
    this.#state = 'disconnected'
    this.#lastLoss = end.error?.message ?? end.reason
    if (epoch.readyAtMs !== undefined) this.#tell({ kind: 'disconnected', session: this.info(), reason: this.#lastLoss })
    this.#init.onDisconnected(this, epoch, end)
  }

  /** The contract's time is over: what has no number yet is returned, the rest is flushed, then the node says goodbye (G-46). */
  expired(epoch: LiveSession): void {
    if (epoch !== this.#epoch || this.#end !== undefined) return
    this.#returnPending('contract')
    void this.close({ reason: 'contract' })
  }

  /** The contract ended, and with it the time to say goodbye: no connection can carry the session any more. */
  get contractIsOver(): boolean {
    return this.contract !== undefined && this.#init.clock.monotonicMs() > this.contract.expiresAtMs + CONTRACT_GRACE_MS
  }

  #returnPending(reason: string): void {
    for (const waiting of this.#pending.values()) {
      for (const { tag, payload, cancelled } of waiting) {
        if (cancelled) continue
        this.#sendItems -= 1
        this.#sendBytes -= payload.length
        tag.reject(neverSent(reason))
      }
    }
    this.#pending.clear()
  }

  /** The peer stays where it is; the next attempt looks here first. */
  reachedAt(address: PeerAddress): void {
    if (address.addrs.length > 0 || address.peer !== this.#record.address.peer) this.#record = { ...this.#record, address }
  }

  // ── sending ──

  async send(channel: number, kind: number, payload: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    signal?.throwIfAborted()
    if ((!isTransaction(kind) && kind !== ITEM_KINDS.live) || kind === ITEM_KINDS.rotation)
      throw new TypeError(`kind 0x${kind.toString(16)} is the protocol's own`)
    this.#checkRoom(payload.length)
    const breach = this.contract?.refusal('sent', { kind, payload })
    if (breach !== undefined) throw contractLimit(breach)
    const done = Promise.withResolvers<void>()
    const tag: JournalTag = { atMs: this.#init.clock.nowMs(), resolve: done.resolve, reject: done.reject }
    const cancel = isTransaction(kind) ? this.#sendDurable(channel, kind, payload, tag) : this.#sendLive(channel, payload, tag)
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

  #sendLive(channel: number, payload: Uint8Array, tag: JournalTag): (reason: unknown) => void {
    const epoch = this.#epoch
    if (epoch === undefined || !epoch.isOpen) throw neverSent('disconnected')
    const counted = this.#counted(payload.length, tag)
    try {
      const { cancel } = epoch.queueLive(channel, payload, counted)
      return (reason) => {
        if (cancel()) counted.reject(reason) // else it is on its way, and counts until the transport took it
      }
    } catch (error) {
      counted.reject(error)
      throw this.#sendError(error, channel)
    }
  }

  #counted(bytes: number, tag: JournalTag): JournalTag {
    this.#sendItems += 1
    this.#sendBytes += bytes
    let open = true
    const settle = () => {
      if (!open) return
      open = false
      this.#sendItems -= 1
      this.#sendBytes -= bytes
    }
    return {
      atMs: tag.atMs,
      resolve: () => {
        settle()
        tag.resolve()
      },
      reject: (error) => {
        settle()
        tag.reject(error)
      }
    }
  }

  #sendDurable(channel: number, kind: number, payload: Uint8Array, tag: JournalTag): () => void {
    this.#checkChannel(channel)
    const pending: Pending = { kind, channel, payload, tag, cancelled: false, numbered: false }
    this.#sendItems += 1
    this.#sendBytes += payload.length
    const waiting = this.#pending.get(channel) ?? new Fifo<Pending>()
    this.#pending.set(channel, waiting)
    waiting.push(pending)
    this.#touch()
    this.#flush()
    if (this.#epoch === undefined) this.#init.onWanted(this)
    return () => this.#cancelPending(pending)
  }

  /** What has no number yet never gets one, and lets go of its room however long others before it wait. */
  #cancelPending(pending: Pending): void {
    const waiting = this.#pending.get(pending.channel)
    if (pending.numbered || pending.cancelled || waiting === undefined) return
    pending.cancelled = true
    this.#sendItems -= 1
    this.#sendBytes -= pending.payload.length
    pending.payload = NOTHING
    this.#cancelled += 1
    this.#flush()
    if (this.#cancelled <= CANCELLED_KEPT || this.#cancelled * 2 <= this.#sendItems) return
    this.#cancelled = 0
    for (const [channel, one] of this.#pending) {
      one.retain(({ cancelled }) => !cancelled)
      if (one.length === 0) this.#pending.delete(channel)
    }
  }

  #checkChannel(channel: number): void {
    const { heads } = this.#journal
    if (heads.has(channel) || this.#pending.has(channel)) return
    let used = heads.size
    for (const one of this.#pending.keys()) if (!heads.has(one)) used += 1
    if (used >= CHANNELS_MAX) {
      throw this.#sendError(new ProtocolError('RANGE', `a session has at most ${CHANNELS_MAX} channels`, { field: 'channel' }), channel)
    }
  }

  #sendError(cause: unknown, channel: number): Error {
    if (cause instanceof ProtocolError && cause.code === 'RANGE') {
      return new RookeryError('CHANNELS_MAX', cause.message, { kind: 'usage', field: 'channel', value: channel, cause })
    }
    return this.#closedError()
  }

  #checkRoom(bytes: number): void {
    if (bytes > ITEM_PAYLOAD_BYTES_MAX) {
      throw sessionError('MESSAGE_TOO_LARGE', `a message of ${bytes} bytes, at most ${ITEM_PAYLOAD_BYTES_MAX} go through a session`, {
        field: 'payload',
        value: bytes,
        remedy: 'send it in parts'
      })
    }
    if (this.#end !== undefined || this.#state === 'closing' || this.#closeWanted !== undefined) throw this.#closedError()
    if (this.#sendItems >= SEND_ITEMS_MAX || this.#sendBytes + bytes > SEND_BYTES_MAX) {
      throw sessionError('SESSION_QUEUE_FULL', `${this.#sendItems} messages (${this.#sendBytes} bytes) wait in this session`, {
        field: 'payload',
        remedy: 'wait until earlier sends have resolved',
        data: { itemsMax: SEND_ITEMS_MAX, bytesMax: SEND_BYTES_MAX }
      })
    }
  }

  #closedError(): RookeryError {
    return sessionError('SESSION_CLOSED', 'the session is closing or closed', {
      remedy: 'open a new session',
      data: { reason: this.#end?.reason }
    })
  }

  /** Everything that one turn queued, and all that comes while a sync is under way, is numbered and synced together, then sent. */
  #flush(): void {
    if (this.#flushing || this.#end !== undefined) return
    this.#flushing = true
    queueMicrotask(() => void this.#writeJournal())
  }

  async #writeJournal(): Promise<void> {
    try {
      await this.#stored
      for (let batch = this.#takePending(); batch.length > 0; batch = this.#takePending()) await this.#writeBatch(batch)
    } catch (error) {
      this.#log.error({ err: error }, 'the journal could not be written')
    } finally {
      this.#flushing = false
    }
    this.#closeIfDrained()
  }

  async #writeBatch(batch: { pending: Pending; reserved: LiveSession | undefined }[]): Promise<void> {
    const { store } = this.#init
    const ops: WriteOp[] = []
    const entries: { entry: Unacked<JournalTag>; reserved: LiveSession | undefined }[] = []
    for (const { pending, reserved } of batch) {
      const { kind, channel, payload, tag } = pending
      const entry = this.#journal.append({ kind, channel, payload, tag, state: 'waiting' })
      entries.push({ entry, reserved })
      ops.push(store.transaction(this.id, entry.seq, { kind, channel, atMs: tag.atMs, payload }))
    }
    if (this.#droppedTx.length >= HOUSEKEEPING_ITEMS) ops.push(...this.#tidy())
    try {
      await this.#commit(ops)
    } catch (error) {
      for (const { item } of this.#journal.rollBack()) this.#settle(item, error)
      return
    }
    for (const { entry, reserved } of entries) {
      const epoch = this.#epoch
      if (epoch === undefined) this.#journal.markSynced(entry.seq)
      else epoch.enqueue(entry as Unacked<ItemTag>, reserved === epoch ? 'reserved' : 'unreserved')
    }
    this.#epoch?.pump()
  }

  #settle(item: Outgoing<JournalTag>, error?: unknown): void {
    this.#sendItems -= 1
    this.#sendBytes -= item.payload.length
    if (error === undefined) item.tag.resolve()
    else item.tag.reject(error)
  }

  /** What may be numbered now, channel by channel: as much as the peer's windows take, or all of it while there is no peer. */
  #takePending(): { pending: Pending; reserved: LiveSession | undefined }[] {
    const taken: { pending: Pending; reserved: LiveSession | undefined }[] = []
    if (this.#end !== undefined) return taken
    const epoch = this.#epoch?.isOpen === true ? this.#epoch : undefined
    for (const [channel, waiting] of this.#pending) {
      for (let first = waiting.first(); first !== undefined; first = waiting.first()) {
        if (first.cancelled) {
          waiting.shift()
          this.#cancelled = Math.max(0, this.#cancelled - 1)
          continue
        }
        if (epoch !== undefined && !epoch.reserve(channel, first.payload.length)) break
        waiting.shift()
        first.numbered = true
        taken.push({ pending: first, reserved: epoch })
      }
      if (waiting.length === 0) this.#pending.delete(channel)
    }
    return taken
  }

  acked(items: readonly Outgoing<ItemTag>[]): void {
    for (const { kind, payload } of items) if (kind === ITEM_KINDS.rotation) this.#rotationAcked(payload)
    const { seq } = this.#journal.acked
    const first = seq - BigInt(items.length) + 1n
    items.forEach((item, i) => {
      this.#droppedTx.push(first + BigInt(i))
      this.#settle(item as Outgoing<JournalTag>)
    })
    this.#touch()
    this.#soon()
    if (this.#pending.size > 0) this.#flush()
  }

  /** The peer's window moved, or its acknowledgments: what waits for its number may go on. */
  moved(): void {
    if (this.#pending.size > 0) this.#flush()
  }

  async #sendSnapshot(epoch: LiveSession, { peer }: ReadyFacts): Promise<void> {
    const { store, snapshot } = this.#init
    try {
      await Promise.allSettled([...this.#writing])
      const before = [...this.#journal.entries].map(({ seq }) => seq)
      const { base } = this.#journal
      const bytes = (await snapshot?.(this)) ?? new Uint8Array(0)
      const tag: JournalTag = { atMs: this.#init.clock.nowMs(), resolve: () => {}, reject: () => {} }
      const { parts, fallen } = this.#journal.putSnapshot(bytes, tag, peer.heads)
      for (const part of parts) {
        this.#sendItems += 1
        this.#sendBytes += part.item.payload.length
      }
      const ops = [...before, ...this.#droppedTx].map((seq) => store.transactionGone(this.id, seq))
      this.#droppedTx = []
      for (const { seq, item } of this.#journal.entries) {
        ops.push(store.transaction(this.id, seq, { kind: item.kind, channel: item.channel, atMs: item.tag.atMs, payload: item.payload }))
      }
      await this.#commit([...ops, store.record(this.#snapshotOfRecord())])
      for (const item of fallen) this.#settle(item)
      epoch.sendSnapshot(parts as Unacked<ItemTag>[])
      this.#tell({ kind: 'gap', session: this.info(), direction: 'sent', from: peer.rx + 1n, to: base.seq })
    } catch (error) {
      epoch.abort('failed', error instanceof Error ? error : undefined)
    }
  }

  // ── receiving ──

  onChannel(channel: number, handler: Handler): void {
    this.#handlers.set(channel, handler)
    const waiting = this.#unserved.get(channel)
    this.#unserved.delete(channel)
    for (const item of waiting ?? []) this.#hand(item, handler)
  }

  deliver(epoch: LiveSession, effect: DeliverEffect): void {
    if (effect.seq !== undefined && effect.position !== undefined) this.#ledger.take(effect.seq, copyOf(effect.position))
    this.#touch()
    if (effect.kind === 'deliver' && effect.itemKind === ITEM_KINDS.rotation) {
      this.#hand({ epoch, effect }, (item) => this.#onRotation(epoch, item))
      return
    }
    if (effect.kind === 'unknown') {
      this.#log.warn({ kind: effect.itemKind, channel: effect.channel }, 'a transaction of unknown kind was acknowledged without effect')
      this.#hand({ epoch, effect }, async () => {})
      return
    }
    const handler = this.#handlers.get(effect.channel)
    if (handler !== undefined) {
      this.#hand({ epoch, effect }, handler)
      return
    }
    const waiting = this.#unserved.get(effect.channel) ?? []
    waiting.push({ epoch, effect })
    this.#unserved.set(effect.channel, waiting)
    if (this.#unservedBytes() > UNSERVED_BYTES_MAX) {
      epoch.abort('violation', new ProtocolError('WINDOW', 'the peer floods channels that nobody serves', { field: 'channel' }))
    }
  }

  #unservedBytes(): number {
    let bytes = 0
    for (const channel of this.#unserved.keys()) bytes += this.#epoch?.waitingBytes(channel) ?? 0
    return bytes
  }

  #hand({ epoch, effect }: Delivered, handler: Handler): void {
    const { channel, itemKind: kind, payload, seq } = effect
    const bytes = payload.length
    let taken = false
    const ops = (): WriteOp[] => {
      if (seq === undefined || effect.position === undefined) return []
      return [this.#init.store.position(this.id, seq, effect.position)]
    }
    const position = () => {
      taken = true
      return ops()
    }
    void new Promise<void>((resolve) => resolve(handler({ channel, kind, payload, position }))).then(
      async () => {
        if (seq !== undefined) {
          // a handler that took the position may have found that it had nothing to store
          if (!taken || !(await this.#init.store.hasPosition(this.id, seq))) {
            try {
              await this.#commit(ops())
            } catch (error) {
              this.#log.error({ err: error }, 'where the peer stands could not be written; the transaction is not acknowledged')
              epoch.lose(error)
              return
            }
          }
          this.#ledger.synced(seq)
          this.#epoch?.synced(seq)
          this.#soon()
        }
        epoch.handled(channel, bytes)
        this.#epoch?.pump()
      },
      (error: unknown) => {
        const text = error instanceof Error ? error.message : String(error)
        this.#log.error({ channel, kind, error: text }, 'a channel handler failed: the session is closed')
        ;(this.#epoch ?? epoch).abort('failed', error instanceof Error ? error : new Error(text))
      }
    )
  }

  snapshot(epoch: LiveSession, { lostFrom, base, bytes, run, heads }: SnapshotEffect): void {
    void (async () => {
      const { store } = this.#init
      try {
        await Promise.allSettled([...this.#writing])
        const last = this.#ledger.run.seq
        this.#ledger.reset(run, heads)
        const ops: WriteOp[] = [store.record(this.#snapshotOfRecord())]
        for (let seq = this.#compactedRx + 1n; seq <= last + 4_096n && seq <= base; seq += 1n) ops.push(store.positionGone(this.id, seq))
        this.#compactedRx = run.seq
        this.#tell({ kind: 'gap', session: this.info(), direction: 'received', from: lostFrom, to: base, bytes })
        await this.#commit(ops)
        epoch.snapshotSynced(run.seq)
      } catch (error) {
        epoch.lose(error)
      }
    })()
  }

  // ── rotation ──

  /** Certificates of ours that the peer has not acknowledged; {@link sendRotations} puts them into the journal once each. */
  sendRotations(certificates: readonly Uint8Array[]): void {
    if (this.#end !== undefined || this.#closeWanted !== undefined) return
    const waiting = [...this.#journal.entries].map(({ item }) => item)
    const held = [...waiting, ...(this.#pending.get(CONTROL_CHANNEL) ?? [])].filter(({ kind }) => kind === ITEM_KINDS.rotation)
    for (const payload of certificates) {
      if (held.some((item) => equals(item.payload, payload))) continue
      const done = Promise.withResolvers<void>()
      done.promise.catch(() => {}) // a session that ends has no use for it
      const tag: JournalTag = { atMs: this.#init.clock.nowMs(), resolve: done.resolve, reject: done.reject }
      this.#sendDurable(CONTROL_CHANNEL, ITEM_KINDS.rotation, payload, tag)
    }
  }

  /** Resolves once all that was sent before is in the journal, on disk. */
  async journaled(): Promise<void> {
    while (this.#flushing) {
      await Promise.resolve()
      await Promise.allSettled([...this.#writing])
    }
  }

  /** The peer goes by the new EID from here on, and so does the record, with the write that drops the transaction. */
  #rotationAcked(certificate: Uint8Array): void {
    this.#goesBy('local', openRotation(this.#init.crypto, certificate))
  }

  #goesBy(side: 'local' | 'remote', { old, new: next }: Pick<Rotation, 'old' | 'new'>): void {
    if (equals(this.#record[side], next)) return
    this.#record = { ...this.#record, [side]: next }
    this.#init.onRenamed(this, side, 'now')
    this.#tell({ kind: 'rotated', session: this.info(), side, old: eidToDid(old), new: eidToDid(next) })
    if (side === 'local') void this.tidy().then(() => this.#init.onRenamed(this, side, 'stored'))
  }

  /** One after the other: a second certificate is measured by what the first left. */
  #onRotation(epoch: LiveSession, item: Inbound): Promise<void> {
    const applied = this.#rotating.then(() => this.#applyRotation(epoch, item))
    this.#rotating = applied.catch(() => {})
    return applied
  }

  /** The record with the new EID and the position are one batch; a replayed, forged or foreign certificate is a VIOLATION. */
  async #applyRotation(epoch: LiveSession, { channel, payload, position }: Inbound): Promise<void> {
    const before = this.#record.remote
    try {
      if (channel !== CONTROL_CHANNEL) throw new ProtocolError('RANGE', 'a rotation belongs on channel 0', { field: 'channel' })
      const certificate = payload.slice()
      const rotation = openRotation(this.#init.crypto, certificate)
      if (!equals(rotation.old, before)) {
        throw new ProtocolError('EID_MISMATCH', 'the certificate is of another EID than this session goes by', { field: 'old' })
      }
      await this.#init.onRotation(this, rotation, certificate)
      this.#record = { ...this.#record, remote: rotation.new }
      try {
        await this.#commit([this.#init.store.record(this.#snapshotOfRecord()), ...position()])
      } catch (error) {
        this.#record = { ...this.#record, remote: before }
        epoch.lose(error)
        throw error
      }
      this.#init.onRenamed(this, 'remote', 'stored')
      this.#tell({ kind: 'rotated', session: this.info(), side: 'remote', old: eidToDid(before), new: eidToDid(rotation.new) })
    } catch (error) {
      if (error instanceof ProtocolError) epoch.abort('violation', error)
      throw error
    }
  }

  // ── upkeep ──

  #touch(): void {
    const nowMs = this.#init.clock.nowMs()
    if (nowMs > this.#record.activeAtMs) this.#record = { ...this.#record, activeAtMs: nowMs }
  }

  #soon(): void {
    if (this.#cancelHousekeeping !== undefined || this.#end !== undefined) return
    this.#cancelHousekeeping = this.#init.clock.after(HOUSEKEEPING_MS, () => {
      this.#cancelHousekeeping = undefined
      void this.tidy()
    })
  }

  /** What was acknowledged leaves the disk, in one batch with the record that no longer needs it. */
  #tidy(): WriteOp[] {
    const { store } = this.#init
    const record = this.#snapshotOfRecord()
    const ops: WriteOp[] = [store.record(record)]
    if (this.contract !== undefined) ops.push(store.totals(this.id, this.contract.totals()))
    for (const seq of this.#droppedTx) ops.push(store.transactionGone(this.id, seq))
    this.#droppedTx = []
    for (let seq = this.#compactedRx + 1n; seq <= record.rx.seq; seq += 1n) ops.push(store.positionGone(this.id, seq))
    this.#compactedRx = record.rx.seq
    return ops
  }

  async tidy(): Promise<void> {
    if (this.#end !== undefined) return
    try {
      await this.#stored
      if (this.#end === undefined) await this.#commit(this.#tidy())
    } catch (error) {
      this.#log.warn({ err: error }, 'what was acknowledged could not be dropped yet')
    }
  }

  // ── ending ──

  async close({ signal, reason = 'done' }: { signal?: AbortSignal; reason?: TeardownReason } = {}): Promise<void> {
    signal?.throwIfAborted()
    if (this.#end === undefined && this.#state !== 'closing') {
      this.#closeWanted = reason
      if (this.#epoch?.isOpen === true) this.#closeIfDrained()
      else if (this.hasUnacked) this.#init.onWanted(this)
      else await this.finish(reason, undefined, undefined)
    }
    await withSignal(this.closed, signal)
  }

  /** TEARDOWN begins once all that was to be sent has its number. */
  #closeIfDrained(): void {
    if (this.#closeWanted === undefined || this.#end !== undefined || this.#epoch?.isOpen !== true) return
    this.#state = 'closing'
    if (this.#pending.size === 0 && !this.#flushing) this.#epoch.close(this.#closeWanted)
  }

  breach(error: ProtocolError): void {
    this.#log.warn({ field: error.field, error: error.message }, 'the peer went over the contract')
    if (this.#epoch !== undefined) {
      this.#epoch.abort('contract', error)
      return
    }
    if (this.#end !== undefined) return
    this.#distrust(error)
    void this.finish('contract', undefined, { reason: 'contract', by: 'local', lost: false, error })
  }

  /** A broken contract proves nothing to others: it is this node's own experience, and is not published (G-52). */
  #distrust(error: Error): void {
    const field = error instanceof ProtocolError && error.field !== undefined ? ` (${error.field})` : ''
    this.#init.evidence?.distrust(this.remote, `contract${field}: ${error.message}`).catch((cause: unknown) => {
      this.#log.error({ err: cause }, 'a breach of contract could not be written down')
    })
  }

  contradicted(epoch: LiveSession, conflict: CheckpointConflict): void {
    const { evidence } = this.#init
    if (evidence === undefined) return
    const session = {
      remote: epoch.established.remoteEid,
      revoke: (payload: Uint8Array) => epoch.revoke(payload),
      send: (frame: Uint8Array) => epoch.sendLast(frame)
    }
    revokeByCheckpoints(evidence, session, conflict).catch((error: unknown) => {
      this.#log.error({ err: error }, 'a session could not be revoked')
    })
  }

  revoked(epoch: LiveSession, payload: Uint8Array): void {
    this.#log.warn({ bytes: payload.length }, 'the peer revoked the session with a proof')
    this.#init.evidence?.onRevocation(payload, { peer: epoch.peer }).then(
      (verdict) => this.#log.info({ verdict }, 'the proof was judged'),
      (error: unknown) => {
        if (error instanceof ProtocolError) this.#log.debug({ code: error.code }, 'the proof proves nothing')
        else this.#log.error({ err: error }, 'the proof could not be judged')
      }
    )
  }

  /** Breaks off: tells the peer why, in one TEARDOWN, and ends. */
  abort(reason: TeardownReason): void {
    const epoch = this.#epoch
    void this.finish(reason, epoch, undefined)
    epoch?.abort(reason)
  }

  /** The node stops, or the session parks: the epoch ends without a word, the session stays on disk. */
  async release(why: Error): Promise<void> {
    this.#cancelHousekeeping?.()
    this.#cancelHousekeeping = undefined
    const epoch = this.#epoch
    epoch?.lose(why)
    await Promise.allSettled([...this.#writing])
    await this.tidy()
  }

  /** The process stops: whoever waits here learns that what is journaled goes on without it. */
  async shutDown(why: Error): Promise<void> {
    if (this.#end !== undefined) return
    await this.release(why)
    if (this.#end !== undefined) return
    this.#end = { reason: 'shutdown' }
    this.#state = 'closed'
    for (const { item } of this.#journal.entries) item.tag.reject(outcomeUnknown('shutdown'))
    for (const waiting of this.#pending.values()) for (const { tag } of waiting) tag.reject(neverSent('shutdown'))
    this.#closing.resolve({ reason: 'shutdown' })
  }

  /** Nothing of it can be carried on: whoever waits is told, entry by entry; the disk keeps a tombstone. */
  async finish(reason: string, epoch: LiveSession | undefined, end: EpochEnd | undefined): Promise<void> {
    if (this.#end !== undefined) return
    this.#end = { reason }
    this.#state = 'closed'
    this.#epoch = undefined
    this.#cancelHousekeeping?.()
    const { store, clock, onEnd } = this.#init
    const unknown = [...this.#journal.entries]
    for (const { item, seq } of unknown) {
      this.#settle(item, item.state === 'waiting' ? neverSent(reason) : outcomeUnknown(reason))
      if (item.kind === ITEM_KINDS.snapshotPart) continue
      this.#tell({
        kind: 'outcome-unknown',
        session: this.info(),
        entry: { seq, channel: item.channel, kind: item.kind, payload: item.payload, sent: item.state === 'sent' },
        reason
      })
    }
    this.#returnPending(reason)
    this.#unserved.clear()
    this.#tell({ kind: reason === 'diverged' ? 'diverged' : 'ended', session: this.info(), reason, by: end?.by ?? 'local', ...whyOf(end) })
    this.#closing.resolve({ reason })
    onEnd(this, epoch)
    if (this.#stored === undefined) return
    try {
      await Promise.allSettled([this.#stored, ...this.#writing])
      const { local, remote } = this.info()
      await store.commit(await store.gone(this.id, { id: this.id, local, remote, reason, endedAtMs: clock.nowMs() }))
    } catch (error) {
      this.#log.warn({ err: error }, 'a session that ended could not be removed')
    }
  }
}

function meterOf({ record, clock, held }: DurableSessionInit, now: () => SessionRecord): ContractMeter | undefined {
  if (record.sfc === undefined) return undefined
  const totals = held?.totals
  return new ContractMeter({
    block: decodeSfc(record.sfc),
    eids: {
      get sent() {
        return now().local
      },
      get received() {
        return now().remote
      }
    },
    nowMs: clock.monotonicMs(),
    ageMs: Math.max(0, clock.nowMs() - record.openedAtMs),
    start: held === undefined ? 'new' : 'resumed',
    ...(totals === undefined ? {} : { totals })
  })
}

function whyOf(end: EpochEnd | undefined): { error?: string } {
  return end?.error === undefined ? {} : { error: end.error.message }
}

function copyOf({ channel, prev, digest }: Position): Position {
  return { channel, prev, digest }
}

/** What a TEARDOWN says that leaves the session as it is: the exchange was refused, not the session. */
const TRANSIENT: ReadonlySet<string> = new Set(['superseded', 'capacity', 'policy', 'shutdown'])

/** Whether an epoch's end is the session's. */
function endsSession(end: EpochEnd, session: { opened: boolean; wasReady: boolean; hasUnacked: boolean }): boolean {
  if (!session.opened) return true // it never came about
  if (end.lost) return false
  if (end.reason === 'unanswered') return !session.hasUnacked
  if (end.reason === 'shutdown') return session.wasReady && end.by === 'local'
  return !TRANSIENT.has(end.reason)
}
