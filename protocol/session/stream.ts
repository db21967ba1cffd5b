import { equals, Writer, wipe } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError, type ProtocolErrorCode } from '../errors.ts'
import { findConflicts } from '../evidence/checkpoint-conflicts.ts'
import type { ChainPoint, ChannelHead } from './chain.ts'
import { type CheckpointSubject, type Direction, signCheckpoint, verifyCheckpoint } from './checkpoint.ts'
import { Closing, STREAM_TIMES, type StreamTimes } from './closing.ts'
import type { ContractMeter } from './contract.ts'
import { type Established, wipeDirections, wipeEstablished } from './established.ts'
import { FLAG } from './flags.ts'
import { FRAME } from './header.ts'
import { ITEM_KINDS, type Item, isKnownTransaction, isTransaction, itemsBytes, readItems } from './items.ts'
import { Journal, type Outgoing, type Unacked } from './journal.ts'
import type { Known } from './ledger.ts'
import { CHANNELS_MAX, decodeReady, encodeReady } from './ready.ts'
import { ReceiveSide } from './receive-side.ts'
import { reconcile } from './reconcile.ts'
import { NO_HASH, RECORD_OVERHEAD_BYTES, type RecordType, readRecord, type SealedRecord, sealRecord } from './record.ts'
import { type SendGate, SendSide } from './send-side.ts'
import type { CheckpointConflict, OutgoingFrame, ReadyFacts, StreamEffect } from './stream-effects.ts'
import { checkFinal, decodeTeardown, encodeTeardown, TEARDOWN_REASONS, type TeardownReason, teardownReasonName } from './teardown.ts'
import { generationOf, REKEY_LIMITS, ReceiveKeys, type RekeyLimits, recordNonce, SendKeys } from './traffic-keys.ts'
import { decodeWindow, encodeWindow } from './window.ts'

/** The channel of control items, and the stream that carried the handshake. */
export const CONTROL_CHANNEL = 0
export const HANDSHAKE_STREAM = 0
/** Streams on which a peer may send: one a channel. */
export const STREAMS_MAX = CHANNELS_MAX + 1
/** A side signs its own direction after so many transactions, or after so long while it is active. */
export const CHECKPOINT_TRANSACTIONS = 1_024
export const CHECKPOINT_MS = 30_000
/** A longer ping gets no answer. */
const PING_BYTES_MAX = 32

/** Where a session stands between two epochs. */
export interface StreamCounters {
  /** ours; the roles of the current exchange say nothing of it */
  direction: Direction
  tx: ChainPoint
  rx: ChainPoint
  txHeads?: ReadonlyMap<number, ChannelHead>
  rxHeads?: ReadonlyMap<number, ChannelHead>
}

/** A session that outlives its epochs: what the driver carries from one to the next. */
export interface CarriedState<T> {
  direction: Direction
  journal: Journal<T>
  /** the run whose effects are synced, and the channels' heads */
  rx: ChainPoint
  rxHeads: ReadonlyMap<number, ChannelHead>
  /** what was met beyond them */
  known: Map<bigint, Known>
  /** `new`: the first epoch, in which no snapshot may come */
  epoch: 'new' | 'resumed'
  /** this side came back without its ESE values */
  eseLost?: boolean
}

export interface SessionStreamInit<T> {
  crypto: CryptoProvider
  /** the stream takes over its keys: those of the directions are wiped at once, the rest with the epoch */
  established: Established
  /** signs for the local EID */
  signer: Signer
  /** monotonic, milliseconds */
  nowMs: number
  rekey?: RekeyLimits
  times?: StreamTimes
  /** absent: a new session, which begins at 0 and the chain secrets */
  counters?: StreamCounters
  /** in place of `counters`: what is unacknowledged goes on */
  carried?: CarriedState<T>
  /** holds the session to its contract, both ways; it outlives the epoch */
  contract?: ContractMeter
}

/**
 * One epoch of an established session (protocol/README.md §6, DATA_STREAM): frames and the monotonic time in, frames and effects out.
 * Frames are pulled by channel, so that the driver packs what waited while its last write was under way.
 */
export class SessionStream<T> {
  readonly #init: SessionStreamInit<T>
  readonly #times: StreamTimes
  readonly #direction: Direction
  readonly #sendKeys: SendKeys
  readonly #receiveKeys: ReceiveKeys
  readonly #send: SendSide<T>
  readonly #eseLost: boolean
  /** as this epoch began: what READY tells and is compared with */
  readonly #rx: { rx: ChainPoint; heads: ReadonlyMap<number, ChannelHead> }
  readonly #receive: ReceiveSide
  /** the last record number of each stream; at most STREAMS_MAX entries */
  readonly #lastRec = new Map<number, bigint>()
  /** which stream carries which channel, both ways; at most STREAMS_MAX entries */
  readonly #streamOfChannel = new Map<number, number>()
  readonly #channelOfStream = new Map<number, number>()
  /** channels that we send on, and those of them that still owe the peer a record of the newest generation */
  readonly #sending = new Set<number>()
  readonly #announce = new Set<number>()
  #phase: 'opening' | 'open' | 'closing' | 'closed' = 'opening'
  #readySent = false
  #peerReady: ReadyFacts | undefined
  #ackSent: bigint
  #heardMs: number
  #pinged = false
  #probeUntilMs: number | undefined
  #pingOut = false
  #pong: Uint8Array | undefined
  /** the driver's own ping: wanted, then under way */
  #measure: { payload: Uint8Array; sentMs: number | undefined } | undefined
  #measures = 0
  /** the newest instant that the driver named */
  #nowMs: number
  #expiryTold = false
  /** what the record under way acknowledged: told even where the rest of it breaks the session off */
  #ackedNow: StreamEffect<T>[] = []
  #signedSeq: bigint
  #signedMs: number
  #peerCheckpoint: Uint8Array | undefined
  /** when it arrived, monotonic */
  #peerCheckpointMs = 0
  #conflict: CheckpointConflict | undefined
  #wiped = false
  #closing: Closing | undefined
  #peerFinal = false
  #lastFrame: 'fin-ack' | { abort: number } | undefined
  /** records dropped because their number did not rise within their stream */
  recordsDropped = 0
  /** items from 0x80 without meaning here */
  itemsIgnored = 0

  constructor(init: SessionStreamInit<T>) {
    this.#init = init
    this.#times = init.times ?? STREAM_TIMES
    const { keys, role } = init.established
    const [mine, theirs] = role === 'initiator' ? [keys.i2r, keys.r2i] : [keys.r2i, keys.i2r]
    this.#sendKeys = new SendKeys(init.crypto, mine, init.rekey ?? REKEY_LIMITS, init.nowMs)
    this.#receiveKeys = new ReceiveKeys(init.crypto, theirs)
    const carried = init.carried ?? this.#carriedFrom(init.counters ?? firstCounters(init.established))
    wipeDirections(keys)
    this.#direction = carried.direction
    this.#eseLost = carried.eseLost === true
    this.#nowMs = init.nowMs
    this.#send = new SendSide(carried.journal, this.#gate())
    this.#rx = { rx: carried.rx, heads: carried.rxHeads }
    const resumed = carried.epoch === 'resumed' ? { known: carried.known } : undefined
    this.#receive = new ReceiveSide(init.crypto, carried.rx, carried.rxHeads, resumed)
    this.#ackSent = carried.rx.seq
    this.#heardMs = init.nowMs
    this.#signedSeq = carried.journal.acked.seq
    this.#signedMs = init.nowMs
  }

  #carriedFrom({ direction, tx, rx, txHeads, rxHeads }: StreamCounters): CarriedState<T> {
    const journal = new Journal<T>(this.#init.crypto, { ...tx, heads: txHeads })
    return { direction, journal, rx, rxHeads: rxHeads ?? new Map(), known: new Map(), epoch: 'resumed' }
  }

  get phase(): 'opening' | 'open' | 'closing' | 'closed' {
    return this.#phase
  }

  get tx(): ChainPoint {
    return this.#send.tx
  }

  get txAcked(): ChainPoint {
    return this.#send.acked
  }

  get rx(): ChainPoint {
    return this.#receive.run
  }

  /** The peer's transactions whose effect is synced, cumulative. */
  get rxSynced(): bigint {
    return this.#receive.acked
  }

  /** The peer's newest signed checkpoint: what a proof of malfeasance is made from. 185 bytes. */
  get peerCheckpoint(): Uint8Array | undefined {
    return this.#peerCheckpoint
  }

  get duplicates(): number {
    return this.#receive.duplicates
  }

  get generation(): number {
    return this.#sendKeys.generation
  }

  get unacked(): Iterable<Unacked<T>> {
    return this.#send.journal.entries
  }

  /** Where the next epoch takes up, once nothing is unacknowledged. */
  counters(): StreamCounters {
    return {
      direction: this.#direction,
      tx: this.#send.tx,
      rx: this.#receive.run,
      txHeads: this.#send.journal.heads,
      rxHeads: this.#receive.heads
    }
  }

  // ── what the driver asks for ──

  /** @throws ProtocolError `OUT_OF_ORDER` while closing, `RANGE` for channel 65 */
  queue(channel: number, kind: number, payload: Uint8Array, tag: T): Outgoing<T> {
    if (this.#phase === 'closing' || this.#phase === 'closed') {
      throw new ProtocolError('OUT_OF_ORDER', 'the session is closing: nothing new starts')
    }
    return this.#send.queue(channel, kind, payload, tag)
  }

  /** Takes window for a transaction before it is numbered. @throws ProtocolError `RANGE` for channel 65 */
  reserve(channel: number, payloadBytes: number): boolean {
    return this.#send.reserve(channel, payloadBytes)
  }

  /** A transaction that the driver's journal numbered is on disk. */
  enqueue(entry: Unacked<T>, window: 'reserved' | 'unreserved'): void {
    this.#send.enqueue(entry, window)
  }

  /** Answers a `ready` that asks for a snapshot, once its parts are on disk: they go first, the rest when they are acknowledged. */
  sendSnapshot(parts: readonly Unacked<T>[]): void {
    const last = parts.at(-1)?.seq ?? 0n
    for (const { seq } of this.#send.journal.entries) this.#send.journal.markSynced(seq)
    this.#send.begin(this.#send.journal.entries, { holdAfter: last })
  }

  /** A snapshot of the peer was applied and synced. */
  snapshotSynced(last: bigint): void {
    this.#receive.snapshotSynced(last)
  }

  /** @returns true when the item had not left yet and now never will */
  cancel(item: Outgoing<T>): boolean {
    if (item.state !== 'waiting') return item.state === 'cancelled'
    this.#send.cancel(item)
    return true
  }

  /** The effect of a transaction is synced. */
  synced(seq: bigint): void {
    this.#receive.synced(seq)
  }

  /** The application is done with a transaction or live item. */
  handled(channel: number, payloadBytes: number): void {
    this.#receive.handled(channel, payloadBytes)
  }

  waitingBytes(channel: number): number {
    return this.#receive.waitingBytes(channel)
  }

  /** Something says that the peer is gone: a ping goes out now, and silence until the limit ends the epoch. */
  probe(nowMs: number, withinMs: number): void {
    if (this.#phase !== 'open' && this.#phase !== 'closing') return
    this.#pinged = true
    this.#probeUntilMs ??= nowMs + withinMs
  }

  /** Everything outbound is flushed, then TEARDOWN goes out and is repeated until FIN-ACK comes (TRM-01 … TRM-04). */
  close(reason: TeardownReason, nowMs: number): void {
    if (this.#phase === 'opening') this.abort(reason)
    if (this.#phase !== 'open') return
    this.#phase = 'closing'
    this.#closing = new Closing({ reason: TEARDOWN_REASONS[reason], by: 'local', times: this.#times, nowMs })
  }

  /** Breaks off: a TEARDOWN without final numbers may be pulled once, nothing else. */
  abort(reason: TeardownReason): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#lastFrame = { abort: TEARDOWN_REASONS[reason] }
  }

  /**
   * Builds the REVOCATION_PUBLISH frame and destroys the keys before it is handed out. Once: nothing is sealed under keys that are gone.
   * @param payload - reason u16 ‖ signed record
   * @throws ProtocolError `OUT_OF_ORDER`: the secrets of the epoch are destroyed already
   */
  revoke(payload: Uint8Array, nowMs: number): Uint8Array {
    if (this.#wiped) throw new ProtocolError('OUT_OF_ORDER', 'the keys of the epoch are destroyed: it cannot be revoked any more')
    const items = [{ kind: ITEM_KINDS.revocation, channel: CONTROL_CHANNEL, prev: undefined, payload }]
    const frame = this.#seal(CONTROL_CHANNEL, FRAME.REVOCATION_PUBLISH, 0, { seq: 0n, hash: NO_HASH }, items, nowMs)
    this.#phase = 'closed'
    this.wipe()
    return frame
  }

  /** The live items that will never be sent, oldest first. Transactions stay in the journal. */
  abandon(): Outgoing<T>[] {
    return this.#send.abandon()
  }

  /** Overwrites the epoch's secrets; nothing may be sent or received afterwards. */
  wipe(): void {
    this.#wiped = true
    this.#phase = 'closed'
    this.#lastFrame = undefined
    this.#sendKeys.wipe()
    this.#receiveKeys.wipe()
    wipeEstablished(this.#init.established)
  }

  #gate(): SendGate | undefined {
    const { contract } = this.#init
    if (contract === undefined) return undefined
    return {
      maySend: (kind) => contract.maySend(kind, this.#nowMs),
      sent: (item) => contract.sent(item, this.#nowMs)
    }
  }

  /** Asks for a ping whose answer comes as `pong`. One that is under way serves. */
  measure(): void {
    if (this.#measure !== undefined) return
    this.#measures += 1
    this.#measure = { payload: new Writer(8).u64(BigInt(this.#measures)).finish(), sentMs: undefined }
  }

  // ── time ──

  /** When `tick` is to be called next, monotonic; undefined: not needed. */
  get wakeAtMs(): number | undefined {
    if (this.#phase === 'opening' || this.#phase === 'closed') return undefined
    const silenceMs = this.#heardMs + (this.#pinged ? this.#times.lostAfterMs : this.#times.pingAfterMs)
    const heardByMs = Math.min(silenceMs, this.#probeUntilMs ?? Number.POSITIVE_INFINITY, this.#contractWakeMs)
    if (this.#closing === undefined) return heardByMs
    return Math.min(heardByMs, this.#closing.wakeAtMs(this.#send.flushed))
  }

  get #contractWakeMs(): number {
    const { contract } = this.#init
    if (contract === undefined) return Number.POSITIVE_INFINITY
    const expiresAtMs = this.#phase === 'open' && !this.#expiryTold ? contract.expiresAtMs : Number.POSITIVE_INFINITY
    return Math.min(expiresAtMs, this.#send.gated ? contract.nextSendAtMs : Number.POSITIVE_INFINITY)
  }

  tick(nowMs: number): StreamEffect<T>[] {
    this.#nowMs = nowMs
    if (this.#phase === 'opening' || this.#phase === 'closed') return []
    if (this.#closing?.expired(nowMs) === true) {
      this.#phase = 'closed'
      return [{ kind: 'closed', close: this.#closing.unanswered }]
    }
    const quietMs = nowMs - this.#heardMs
    if (quietMs >= this.#times.lostAfterMs || nowMs >= (this.#probeUntilMs ?? Number.POSITIVE_INFINITY)) return [{ kind: 'silent' }]
    if (quietMs >= this.#times.pingAfterMs) this.#pinged = true
    if (this.#phase === 'open' && !this.#expiryTold && nowMs >= (this.#init.contract?.expiresAtMs ?? Number.POSITIVE_INFINITY)) {
      this.#expiryTold = true
      return [{ kind: 'expired' }]
    }
    return []
  }

  // ── frames out ──

  /** Channels for which {@link next} has a frame now. */
  channels(nowMs: number): number[] {
    this.#nowMs = nowMs
    const ready = new Set<number>()
    if (this.#controlDue(nowMs)) ready.add(CONTROL_CHANNEL)
    if (this.#flowing) {
      for (const channel of this.#send.ready()) ready.add(channel)
      for (const channel of this.#announce) ready.add(channel)
    }
    return [...ready]
  }

  get #flowing(): boolean {
    return (this.#phase === 'open' || this.#phase === 'closing') && this.#peerReady !== undefined && this.#readySent
  }

  #controlDue(nowMs: number): boolean {
    if (this.#lastFrame !== undefined) return true
    if (this.#phase === 'opening') return !this.#readySent
    if (!this.#flowing) return false
    this.#queueControl(nowMs)
    return this.#receive.acked > this.#ackSent || this.#teardownDue(nowMs)
  }

  #teardownDue(nowMs: number): boolean {
    return this.#closing?.due(nowMs) === true && this.#send.flushed
  }

  #queueControl(nowMs: number): void {
    const control = (kind: number, payload: Uint8Array) => this.#send.queue(CONTROL_CHANNEL, kind, payload, undefined as T)
    for (const grant of this.#receive.takeGrants()) control(ITEM_KINDS.window, encodeWindow(grant))
    if (this.#pong !== undefined) control(ITEM_KINDS.pong, this.#pong)
    this.#pong = undefined
    const { seq, hash } = this.#send.sent
    const unsigned = seq - this.#signedSeq
    if (unsigned >= BigInt(CHECKPOINT_TRANSACTIONS) || (unsigned > 0n && nowMs - this.#signedMs >= CHECKPOINT_MS)) {
      this.#signedSeq = seq
      this.#signedMs = nowMs
      control(ITEM_KINDS.checkpoint, signCheckpoint(this.#subject('local'), { seq, hash }, this.#init.signer))
    }
    if (this.#pinged && !this.#pingOut) {
      this.#pingOut = true
      control(ITEM_KINDS.ping, new Uint8Array(0))
    }
    if (this.#measure !== undefined && this.#measure.sentMs === undefined) {
      this.#measure.sentMs = nowMs
      control(ITEM_KINDS.ping, this.#measure.payload)
    }
  }

  /**
   * The next record of a channel, with everything that waits there up to about 64 KiB.
   * @throws ProtocolError `REKEY_REQUIRED`: the epoch's keys are used up
   */
  next(channel: number, nowMs: number): OutgoingFrame<T> | undefined {
    this.#nowMs = nowMs
    if (channel === CONTROL_CHANNEL && this.#lastFrame !== undefined) return this.#nextLast(nowMs)
    if (this.#phase === 'opening') return channel === CONTROL_CHANNEL && !this.#readySent ? this.#nextReady(nowMs) : undefined
    if (!this.#flowing) return undefined
    if (channel === CONTROL_CHANNEL) this.#queueControl(nowMs)
    const packed = this.#send.pack(channel)
    if (packed !== undefined) {
      const bytes = this.#seal(channel, FRAME.DATA_STREAM, 0, packed, packed.items, nowMs)
      return { bytes, sent: packed.unnumbered.filter(({ kind }) => kind === ITEM_KINDS.live), effects: [] }
    }
    if (channel === CONTROL_CHANNEL && this.#teardownDue(nowMs)) return this.#nextTeardown(nowMs)
    if ((channel === CONTROL_CHANNEL && this.#receive.acked > this.#ackSent) || this.#announce.has(channel)) {
      return { bytes: this.#control(channel, ITEM_KINDS.ack, new Uint8Array(0), nowMs), sent: [], effects: [] }
    }
    return undefined
  }

  #nextReady(nowMs: number): OutgoingFrame<T> {
    const ready = { rx: this.#receive.run, tx: this.#send.journal.synced, eseLost: this.#eseLost, heads: this.#receive.headsAhead() }
    const bytes = this.#control(CONTROL_CHANNEL, ITEM_KINDS.ready, encodeReady(ready), nowMs)
    this.#readySent = true
    return { bytes, sent: [], effects: this.#openIfReady() }
  }

  #openIfReady(): StreamEffect<T>[] {
    const facts = this.#peerReady
    if (!this.#readySent || facts === undefined || this.#phase !== 'opening') return []
    this.#phase = 'open'
    return [{ kind: 'ready', ...facts }]
  }

  #nextLast(nowMs: number): OutgoingFrame<T> {
    const last = this.#lastFrame
    this.#lastFrame = undefined
    if (last === 'fin-ack' || last === undefined) return { bytes: this.#teardown(FLAG.FIN_ACK, nowMs), sent: [], effects: [] }
    const payload = encodeTeardown({ reason: last.abort, final: undefined })
    return { bytes: this.#teardownFrame(payload, 0, nowMs), sent: [], effects: [] }
  }

  #nextTeardown(nowMs: number): OutgoingFrame<T> {
    const closing = this.#closing as Closing
    if (closing.answers) {
      this.#phase = 'closed'
      return { bytes: this.#teardown(FLAG.FIN_ACK, nowMs), sent: [], effects: [{ kind: 'closed', close: closing.outcome }] }
    }
    closing.tried(nowMs)
    return { bytes: this.#teardown(0, nowMs), sent: [], effects: [] }
  }

  #teardown(flags: number, nowMs: number): Uint8Array {
    const { seq, hash } = this.#send.tx
    const checkpoint = signCheckpoint(this.#subject('local'), { seq, hash }, this.#init.signer)
    const payload = encodeTeardown({ reason: this.#closing?.reason ?? TEARDOWN_REASONS.done, final: { seq, hash, checkpoint } })
    return this.#teardownFrame(payload, flags, nowMs)
  }

  #teardownFrame(payload: Uint8Array, flags: number, nowMs: number): Uint8Array {
    const items = [{ kind: ITEM_KINDS.teardown, channel: CONTROL_CHANNEL, prev: undefined, payload }]
    return this.#seal(CONTROL_CHANNEL, FRAME.TEARDOWN, flags, { seq: 0n, hash: NO_HASH }, items, nowMs)
  }

  #control(channel: number, kind: number, payload: Uint8Array, nowMs: number): Uint8Array {
    const items = [{ kind, channel, prev: undefined, payload }]
    return this.#seal(channel, FRAME.DATA_STREAM, 0, { seq: 0n, hash: NO_HASH }, items, nowMs)
  }

  #seal(channel: number, type: RecordType, flags: number, chain: ChainPoint, items: Item[], nowMs: number): Uint8Array {
    const before = this.#sendKeys.generation
    const { aead, nonce, rec } = this.#sendKeys.take(RECORD_OVERHEAD_BYTES + itemsBytes(items), nowMs)
    if (this.#sendKeys.generation !== before) for (const one of this.#sending) this.#announce.add(one)
    this.#sending.add(channel)
    this.#announce.delete(channel)
    this.#ackSent = this.#receive.acked
    const counters = { rec, seq: chain.seq, ack: this.#ackSent, hash: chain.hash }
    const frame = sealRecord({ aead, nonce }, { type, flags, cookies: this.#init.established.cookies }, counters, items)
    wipe(nonce)
    return frame
  }

  #subject(whose: 'local' | 'remote'): CheckpointSubject {
    const { sid, epoch, localEid, remoteEid } = this.#init.established
    return whose === 'local'
      ? { sid, epoch, direction: this.#direction, eid: localEid }
      : { sid, epoch, direction: this.#direction === 0 ? 1 : 0, eid: remoteEid }
  }

  // ── frames in ──

  /**
   * Takes one whole frame from a stream. A peer that contradicts itself inside its own authenticated records closes the session (`closed` with
   * VIOLATION); whatever cannot be a record of this session throws.
   * @param stream - the driver's number of the stream; {@link HANDSHAKE_STREAM} for the one that carried the handshake
   * @throws ProtocolError those of `readRecord`; `AEAD_OPEN`; `RANGE` (too many streams): the epoch is over, the session is not
   */
  receive(stream: number, frame: Uint8Array, nowMs: number): StreamEffect<T>[] {
    const record = readRecord(frame, this.#init.established.cookies)
    const last = this.#lastRec.get(stream)
    if (last === undefined && this.#lastRec.size === STREAMS_MAX) {
      throw new ProtocolError('RANGE', `a session has at most ${STREAMS_MAX} streams`, { field: 'stream' })
    }
    if (last !== undefined && record.counters.rec <= last) {
      this.recordsDropped += 1
      return []
    }
    const plaintext = this.#open(stream, record)
    this.#lastRec.set(stream, record.counters.rec)
    this.#heardMs = nowMs
    this.#pinged = false
    this.#probeUntilMs = undefined
    this.#pingOut = false
    this.#ackedNow = []
    try {
      return this.#takeRecord(stream, record, readItems(plaintext), nowMs)
    } catch (error) {
      if (!(error instanceof ProtocolError) || this.#phase === 'closed') throw error
      return [...this.#ackedNow, ...this.#breakOff(BREAK_OFF_REASONS[error.code] ?? 'violation', error)]
    }
  }

  #breakOff(reason: TeardownReason, error: ProtocolError): StreamEffect<T>[] {
    this.abort(reason)
    const conflict = this.#conflict
    return [{ kind: 'closed', close: { reason, by: 'local', error, ...(conflict === undefined ? {} : { conflict }) } }]
  }

  #open(stream: number, { counters, aad, sealed }: SealedRecord): Uint8Array {
    const generation = generationOf(counters.rec)
    const keys = this.#receiveKeys.for(generation)
    const plaintext = keys?.aead.open(recordNonce(keys.iv, counters.rec), aad, sealed)
    if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', `record ${counters.rec} does not open`)
    this.#receiveKeys.opened(stream, generation)
    return plaintext
  }

  #takeRecord(stream: number, record: SealedRecord, items: Item[], nowMs: number): StreamEffect<T>[] {
    const first = items[0] as Item
    if (record.type !== FRAME.DATA_STREAM) return this.#takeClosing(stream, record, items, nowMs)
    if (this.#phase === 'closed') return []
    this.#bind(stream, first.channel)
    if (this.#peerReady === undefined) return this.#takeReady(items)
    const effects: StreamEffect<T>[] = []
    this.#takeAck(record.counters.ack, effects, nowMs)
    if (this.#peerFinal && items.some(({ kind }) => isTransaction(kind))) {
      throw new ProtocolError('OUT_OF_ORDER', 'the peer sends transactions after its TEARDOWN', { field: 'kind' })
    }
    for (const item of items) if (!isTransaction(item.kind) && item.kind !== ITEM_KINDS.live) this.#takeControl(item, effects, nowMs)
    for (const { kind, payload } of items) if (kind === ITEM_KINDS.checkpoint) this.#takeCheckpoint(payload, nowMs)
    const arrived = this.#receive.accept(record.counters, items)
    this.#init.contract?.received(arrived, nowMs)
    for (const { channel, kind, seq, payload, position, snapshot } of arrived) {
      const numbered = seq === undefined || position === undefined ? undefined : { seq, position }
      if (snapshot !== undefined) effects.push({ kind: 'snapshot', ...snapshot })
      else if (numbered !== undefined && !isKnownTransaction(kind))
        effects.push({ kind: 'unknown', channel, itemKind: kind, payload, ...numbered })
      else effects.push({ kind: 'deliver', channel, itemKind: kind, payload, seq: undefined, ...numbered })
    }
    return effects
  }

  /** A channel's items come on one stream, and a stream carries one channel. */
  #bind(stream: number, channel: number): void {
    const bound = this.#channelOfStream.get(stream)
    const carrier = this.#streamOfChannel.get(channel)
    if (bound === channel && carrier === stream) return
    if (bound !== undefined || carrier !== undefined || (stream === HANDSHAKE_STREAM) !== (channel === CONTROL_CHANNEL)) {
      throw new ProtocolError('OUT_OF_ORDER', `channel ${channel} does not belong to stream ${stream}`, { field: 'channel' })
    }
    this.#channelOfStream.set(stream, channel)
    this.#streamOfChannel.set(channel, stream)
  }

  #takeReady(items: Item[]): StreamEffect<T>[] {
    const [item] = items
    if (item === undefined || items.length !== 1 || item.kind !== ITEM_KINDS.ready) {
      throw new ProtocolError('OUT_OF_ORDER', "the peer's first record is not its READY alone", { field: 'kind' })
    }
    const ready = decodeReady(item.payload)
    const verdict = reconcile(ready, this.#send.journal, this.#rx)
    if (verdict.kind === 'diverged') return this.#breakOff('diverged', verdict.error)
    const peer = { rx: ready.rx.seq, tx: ready.tx.seq, heads: copyHeads(ready.heads), eseLost: ready.eseLost }
    if (verdict.kind === 'snapshot') {
      this.#peerReady = { peer, resent: 0, snapshot: 'wanted' }
      return this.#openIfReady()
    }
    const effects: StreamEffect<T>[] = []
    const acked = this.#send.ack(verdict.ack)
    if (acked.length > 0) effects.push({ kind: 'acked', items: acked.map((entry) => entry.item), upTo: this.#send.acked })
    const { seq } = this.#send.journal.synced
    const lacking = verdict.entries.filter((entry) => entry.seq <= seq)
    this.#send.begin(lacking)
    this.#peerReady = { peer, resent: lacking.length, snapshot: 'none' }
    return [...this.#openIfReady(), ...effects]
  }

  #takeAck(ack: bigint, effects: StreamEffect<T>[], nowMs: number): void {
    const items = this.#send.ack(ack)
    if (items.length === 0) return
    const acked: StreamEffect<T> = { kind: 'acked', items: items.map((entry) => entry.item), upTo: this.#send.acked }
    effects.push(acked)
    this.#ackedNow.push(acked)
    this.#closing?.progressed(nowMs)
  }

  #takeControl(item: Item, effects: StreamEffect<T>[], nowMs: number): void {
    switch (item.kind) {
      case ITEM_KINDS.ack:
      case ITEM_KINDS.checkpoint:
        return
      case ITEM_KINDS.pong: {
        const { payload, sentMs } = this.#measure ?? {}
        if (payload === undefined || sentMs === undefined || !equals(item.payload, payload)) return
        this.#measure = undefined
        effects.push({ kind: 'pong', rttMs: nowMs - sentMs })
        return
      }
      case ITEM_KINDS.ping:
        if (item.payload.length <= PING_BYTES_MAX) this.#pong = item.payload.slice()
        return
      case ITEM_KINDS.window: {
        const { channel, bytes } = decodeWindow(item.payload)
        this.#send.grant(channel, Number(bytes))
        return
      }
      case ITEM_KINDS.ready:
      case ITEM_KINDS.teardown:
      case ITEM_KINDS.revocation:
        throw new ProtocolError('OUT_OF_ORDER', `item 0x${item.kind.toString(16)} has no place in this record`, { field: 'kind' })
      default:
        this.itemsIgnored += 1
    }
  }

  #takeCheckpoint(payload: Uint8Array, nowMs: number): void {
    const point = verifyCheckpoint(this.#init.crypto, payload, this.#subject('remote'))
    this.#compare(payload)
    this.#receive.claim(point)
    this.#keepCheckpoint(payload, nowMs)
  }

  #keepCheckpoint(payload: Uint8Array, nowMs: number): void {
    this.#peerCheckpoint = payload.slice()
    this.#peerCheckpointMs = nowMs
  }

  /** @throws ProtocolError `HASH_MISMATCH`: the peer signed another chain for the same number; the pair is kept as the close's `conflict` */
  #compare(arrived: Uint8Array): void {
    const held = this.#peerCheckpoint
    if (held === undefined || findConflicts(this.#init.crypto, [held, arrived]).length === 0) return
    this.#conflict = { a: held, b: arrived.slice(), firstSeenMs: this.#peerCheckpointMs }
    throw new ProtocolError('HASH_MISMATCH', 'the peer signed two chains for one number', { field: 'checkpoint.h' })
  }

  #takeClosing(stream: number, record: SealedRecord, items: Item[], nowMs: number): StreamEffect<T>[] {
    const [item] = items
    const expected = record.type === FRAME.TEARDOWN ? ITEM_KINDS.teardown : ITEM_KINDS.revocation
    if (
      item === undefined ||
      items.length !== 1 ||
      item.kind !== expected ||
      item.channel !== CONTROL_CHANNEL ||
      stream !== HANDSHAKE_STREAM
    ) {
      throw new ProtocolError('OUT_OF_ORDER', 'a closing record holds something else than its one item', { field: 'kind' })
    }
    if (record.counters.seq !== 0n) throw new ProtocolError('SEQUENCE', 'a closing record numbers a transaction', { field: 'seq' })
    if (record.type === FRAME.REVOCATION_PUBLISH) {
      if (this.#phase === 'closed') return []
      this.#phase = 'closed'
      return [
        { kind: 'revocation', payload: item.payload },
        { kind: 'closed', close: { reason: 'revoked', by: 'peer' } }
      ]
    }
    return this.#takeTeardown(item.payload, record, nowMs)
  }

  #takeTeardown(payload: Uint8Array, record: SealedRecord, nowMs: number): StreamEffect<T>[] {
    const { reason, final } = decodeTeardown(payload)
    if (this.#phase === 'closed') {
      if (final !== undefined && !record.finAck && this.#closing !== undefined) this.#lastFrame = 'fin-ack'
      return []
    }
    const name = teardownReasonName(reason)
    if (final === undefined) {
      this.#phase = 'closed'
      return [{ kind: 'closed', close: { reason: name, by: 'peer' } }]
    }
    if (this.#peerReady === undefined) throw new ProtocolError('OUT_OF_ORDER', 'a TEARDOWN with final numbers before READY')
    const effects: StreamEffect<T>[] = []
    this.#takeAck(record.counters.ack, effects, nowMs)
    this.#compare(final.checkpoint)
    checkFinal(final, this.#receive.run, equals)
    const signed = verifyCheckpoint(this.#init.crypto, final.checkpoint, this.#subject('remote'))
    checkFinal(signed, final, equals)
    this.#keepCheckpoint(final.checkpoint, nowMs)
    this.#peerFinal = true
    const mine = this.#closing?.sent === true ? this.#closing : undefined
    if (mine !== undefined) {
      this.#phase = 'closed'
      effects.push({ kind: 'closed', close: mine.outcome })
      return effects
    }
    if (record.finAck) throw new ProtocolError('OUT_OF_ORDER', 'FIN-ACK answers no TEARDOWN')
    if (this.#closing === undefined) {
      this.#phase = 'closing'
      this.#closing = new Closing({ reason, by: 'peer', times: this.#times, nowMs })
      effects.push({ kind: 'closing', reason: name })
    }
    this.#closing.peerClosed()
    return effects
  }
}

/** How what a record did wrong is told; anything else is a VIOLATION. */
const BREAK_OFF_REASONS: Partial<Record<ProtocolErrorCode, TeardownReason>> = { DIVERGED: 'diverged', CONTRACT: 'contract' }

function firstCounters({ keys, role }: Established): StreamCounters {
  const [mine, theirs] = role === 'initiator' ? [keys.i2r, keys.r2i] : [keys.r2i, keys.i2r]
  return {
    direction: role === 'initiator' ? 0 : 1,
    tx: { seq: 0n, hash: mine.chain.slice() },
    rx: { seq: 0n, hash: theirs.chain.slice() }
  }
}

function copyHeads(heads: ReadonlyMap<number, ChannelHead>): Map<number, ChannelHead> {
  return new Map([...heads].map(([channel, { seq, digest }]) => [channel, { seq, digest: digest.slice() }]))
}
