import { equals } from '../bytes.ts'
import { ProtocolError, type ProtocolErrorCode } from '../errors.ts'
import type { ChainPoint } from './chain.ts'
import { CheckpointExchange } from './checkpoint-exchange.ts'
import { Closing, STREAM_TIMES, type StreamTimes } from './closing.ts'
import { closingPayload } from './closing-record.ts'
import type { ContractMeter } from './contract.ts'
import { ControlItems } from './control-items.ts'
import { type Established, wipeDirections, wipeEstablished } from './established.ts'
import { FLAG } from './flags.ts'
import { FRAME } from './header.ts'
import { ITEM_KINDS, type Item, isKnownTransaction, isTransaction, readItems } from './items.ts'
import type { Outgoing, Unacked } from './journal.ts'
import { Liveness } from './liveness.ts'
import { ReadyExchange } from './ready-exchange.ts'
import { ReceiveSide } from './receive-side.ts'
import { NO_HASH, type RecordType, type SealedRecord } from './record.ts'
import { RecordReader, RecordWriter } from './record-streams.ts'
import { type SendGate, SendSide } from './send-side.ts'
import type { OutgoingFrame, StreamEffect } from './stream-effects.ts'
import { CONTROL_CHANNEL, carriedOf, HANDSHAKE_STREAM, type SessionStreamInit, type StreamCounters } from './stream-init.ts'
import { checkFinal, decodeTeardown, encodeTeardown, TEARDOWN_REASONS, type TeardownReason, teardownReasonName } from './teardown.ts'
import { REKEY_LIMITS, ReceiveKeys, SendKeys } from './traffic-keys.ts'

/**
 * One epoch of an established session (protocol/README.md §6, DATA_STREAM): frames and the monotonic time in, frames and effects out.
 * Frames are pulled by channel, so that the driver packs what waited while its last write was under way.
 */
export class SessionStream<T> {
  readonly #established: Established
  readonly #contract: ContractMeter | undefined
  readonly #times: StreamTimes
  readonly #direction: StreamCounters['direction']
  readonly #writer: RecordWriter
  readonly #reader: RecordReader
  readonly #send: SendSide<T>
  readonly #receive: ReceiveSide
  readonly #ready: ReadyExchange<T>
  readonly #checkpoints: CheckpointExchange
  readonly #liveness: Liveness
  readonly #control: ControlItems<T>
  #phase: 'opening' | 'open' | 'closing' | 'closed' = 'opening'
  /** the newest instant that the driver named */
  #nowMs: number
  #expiryTold = false
  /** what the record under way acknowledged: told even where the rest of it breaks the session off */
  #ackedNow: StreamEffect<T>[] = []
  #wiped = false
  #closing: Closing | undefined
  #peerFinal = false
  #lastFrame: 'fin-ack' | { abort: number } | undefined

  constructor(init: SessionStreamInit<T>) {
    this.#established = init.established
    this.#contract = init.contract
    this.#times = init.times ?? STREAM_TIMES
    const { crypto, established, nowMs } = init
    const { keys, role, cookies } = established
    const [mine, theirs] = role === 'initiator' ? [keys.i2r, keys.r2i] : [keys.r2i, keys.i2r]
    const sendKeys = new SendKeys(crypto, mine, init.rekey ?? REKEY_LIMITS, nowMs)
    this.#reader = new RecordReader(new ReceiveKeys(crypto, theirs), cookies)
    const carried = carriedOf(init)
    wipeDirections(keys)
    this.#direction = carried.direction
    this.#nowMs = nowMs
    this.#writer = new RecordWriter(sendKeys, cookies, carried.rx.seq)
    this.#send = new SendSide(carried.journal, { gate: this.#gate(), inFlightBytesMax: init.inFlightBytesMax })
    const resumed = carried.epoch === 'resumed' ? { known: carried.known } : undefined
    this.#receive = new ReceiveSide(crypto, carried.rx, carried.rxHeads, resumed)
    this.#ready = new ReadyExchange(carried, established.flags, this.#send, this.#receive)
    this.#checkpoints = new CheckpointExchange(init, carried.direction, carried.journal.acked.seq)
    this.#liveness = new Liveness(this.#times, nowMs)
    this.#control = new ControlItems(this.#send, this.#receive, this.#checkpoints, this.#liveness)
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
    return this.#checkpoints.peer
  }

  get duplicates(): number {
    return this.#receive.duplicates
  }

  get generation(): number {
    return this.#writer.generation
  }

  /** Items from 0x80 without meaning here. */
  get itemsIgnored(): number {
    return this.#control.ignored
  }

  /** Records dropped because their number did not rise within their stream. */
  get recordsDropped(): number {
    return this.#reader.dropped
  }

  /** The channel that a stream of the peer carries. */
  channelOf(stream: number): number | undefined {
    return this.#reader.channelOf(stream)
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
    this.#liveness.probe(nowMs, withinMs)
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
    this.#writer.wipe()
    this.#reader.wipe()
    wipeEstablished(this.#established)
  }

  #gate(): SendGate | undefined {
    const contract = this.#contract
    if (contract === undefined) return undefined
    return {
      maySend: (kind) => contract.maySend(kind, this.#nowMs),
      sent: (item) => contract.sent(item, this.#nowMs)
    }
  }

  /** Asks for a ping whose answer comes as `pong`. One that is under way serves. */
  measure(): void {
    this.#liveness.measure()
  }

  // ── time ──

  /** When `tick` is to be called next, monotonic; undefined: not needed. */
  get wakeAtMs(): number | undefined {
    if (this.#phase === 'opening' || this.#phase === 'closed') return undefined
    const heardByMs = Math.min(this.#liveness.wakeAtMs, this.#contractWakeMs)
    if (this.#closing === undefined) return heardByMs
    return Math.min(heardByMs, this.#closing.wakeAtMs(this.#send.flushed))
  }

  get #contractWakeMs(): number {
    const contract = this.#contract
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
    if (this.#liveness.isSilent(nowMs)) return [{ kind: 'silent' }]
    if (this.#phase === 'open' && !this.#expiryTold && nowMs >= (this.#contract?.expiresAtMs ?? Number.POSITIVE_INFINITY)) {
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
      for (const channel of this.#writer.announce) ready.add(channel)
    }
    return [...ready]
  }

  get #flowing(): boolean {
    return (this.#phase === 'open' || this.#phase === 'closing') && this.#ready.isOver
  }

  #controlDue(nowMs: number): boolean {
    if (this.#lastFrame !== undefined) return true
    if (this.#phase === 'opening') return !this.#ready.sent
    if (!this.#flowing) return false
    return (
      this.#receive.acked > this.#writer.ackSent ||
      this.#receive.hasGrants ||
      this.#liveness.isDue ||
      this.#checkpoints.isDue(this.#send.sent, nowMs) ||
      this.#teardownDue(nowMs)
    )
  }

  #teardownDue(nowMs: number): boolean {
    return this.#closing?.due(nowMs) === true && this.#send.flushed
  }

  /** Only as a record is pulled: while the peer does not read, what it asks for is kept as one value each and cannot pile up. */
  /**
   * The next record of a channel, with everything that waits there up to about 64 KiB.
   * @throws ProtocolError `REKEY_REQUIRED`: the epoch's keys are used up
   */
  next(channel: number, nowMs: number): OutgoingFrame<T> | undefined {
    this.#nowMs = nowMs
    if (channel === CONTROL_CHANNEL && this.#lastFrame !== undefined) return this.#nextLast(nowMs)
    if (this.#phase === 'opening') return channel === CONTROL_CHANNEL && !this.#ready.sent ? this.#nextReady(nowMs) : undefined
    if (!this.#flowing) return undefined
    if (channel === CONTROL_CHANNEL) this.#control.queue(nowMs)
    const packed = this.#send.pack(channel)
    if (packed !== undefined) {
      const bytes = this.#seal(channel, FRAME.DATA_STREAM, 0, packed, packed.items, nowMs)
      return { bytes, sent: packed.unnumbered.filter(({ kind }) => kind === ITEM_KINDS.live), effects: [] }
    }
    if (channel === CONTROL_CHANNEL && this.#teardownDue(nowMs)) return this.#nextTeardown(nowMs)
    if ((channel === CONTROL_CHANNEL && this.#receive.acked > this.#writer.ackSent) || this.#writer.announce.has(channel)) {
      return { bytes: this.#controlFrame(channel, ITEM_KINDS.ack, new Uint8Array(0), nowMs), sent: [], effects: [] }
    }
    return undefined
  }

  #nextReady(nowMs: number): OutgoingFrame<T> {
    const bytes = this.#controlFrame(CONTROL_CHANNEL, ITEM_KINDS.ready, this.#ready.write(), nowMs)
    return { bytes, sent: [], effects: this.#openIfReady() }
  }

  #openIfReady(): StreamEffect<T>[] {
    const { facts } = this.#ready
    if (!this.#ready.isOver || facts === undefined || this.#phase !== 'opening') return []
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
    const checkpoint = this.#checkpoints.sign({ seq, hash })
    const payload = encodeTeardown({ reason: this.#closing?.reason ?? TEARDOWN_REASONS.done, final: { seq, hash, checkpoint } })
    return this.#teardownFrame(payload, flags, nowMs)
  }

  #teardownFrame(payload: Uint8Array, flags: number, nowMs: number): Uint8Array {
    const items = [{ kind: ITEM_KINDS.teardown, channel: CONTROL_CHANNEL, prev: undefined, payload }]
    return this.#seal(CONTROL_CHANNEL, FRAME.TEARDOWN, flags, { seq: 0n, hash: NO_HASH }, items, nowMs)
  }

  #controlFrame(channel: number, kind: number, payload: Uint8Array, nowMs: number): Uint8Array {
    const items = [{ kind, channel, prev: undefined, payload }]
    return this.#seal(channel, FRAME.DATA_STREAM, 0, { seq: 0n, hash: NO_HASH }, items, nowMs)
  }

  #seal(channel: number, type: RecordType, flags: number, chain: ChainPoint, items: Item[], nowMs: number): Uint8Array {
    return this.#writer.seal(channel, { type, flags, ...chain, ack: this.#receive.acked }, items, nowMs)
  }

  // ── frames in ──

  /**
   * Takes one whole frame from a stream. A peer that contradicts itself inside its own authenticated records closes the session (`closed` with
   * VIOLATION); whatever cannot be a record of this session throws.
   * @param stream - the driver's number of the stream; {@link HANDSHAKE_STREAM} for the one that carried the handshake
   * @throws ProtocolError those of `readRecord`; `AEAD_OPEN`; `RANGE` (too many streams): the epoch is over, the session is not
   */
  receive(stream: number, frame: Uint8Array, nowMs: number): StreamEffect<T>[] {
    const opened = this.#reader.open(stream, frame)
    if (opened === undefined) return []
    this.#liveness.heard(nowMs)
    this.#ackedNow = []
    try {
      return this.#takeRecord(stream, opened.record, readItems(opened.plaintext), nowMs)
    } catch (error) {
      if (!(error instanceof ProtocolError) || this.#phase === 'closed') throw error
      return [...this.#ackedNow, ...this.#breakOff(BREAK_OFF_REASONS[error.code] ?? 'violation', error)]
    }
  }

  #breakOff(reason: TeardownReason, error: ProtocolError): StreamEffect<T>[] {
    this.abort(reason)
    const { conflict } = this.#checkpoints
    return [{ kind: 'closed', close: { reason, by: 'local', error, ...(conflict === undefined ? {} : { conflict }) } }]
  }

  #takeRecord(stream: number, record: SealedRecord, items: Item[], nowMs: number): StreamEffect<T>[] {
    const first = items[0] as Item
    if (record.type !== FRAME.DATA_STREAM) return this.#takeClosing(stream, record, items, nowMs)
    if (this.#phase === 'closed') return []
    this.#reader.bind(stream, first.channel)
    if (this.#ready.facts === undefined) return this.#takeReady(items)
    const effects: StreamEffect<T>[] = []
    this.#takeAck(record.counters.ack, effects, nowMs)
    if (this.#peerFinal && items.some(({ kind }) => isTransaction(kind))) {
      throw new ProtocolError('OUT_OF_ORDER', 'the peer sends transactions after its TEARDOWN', { field: 'kind' })
    }
    for (const rttMs of this.#control.take(items, nowMs)) effects.push({ kind: 'pong', rttMs })
    const arrived = this.#receive.accept(record.counters, items)
    this.#contract?.received(arrived, nowMs)
    for (const { channel, kind, seq, payload, position, snapshot } of arrived) {
      const numbered = seq === undefined || position === undefined ? undefined : { seq, position }
      if (snapshot !== undefined) effects.push({ kind: 'snapshot', ...snapshot })
      else if (numbered !== undefined && !isKnownTransaction(kind))
        effects.push({ kind: 'unknown', channel, itemKind: kind, payload, ...numbered })
      else effects.push({ kind: 'deliver', channel, itemKind: kind, payload, seq: undefined, ...numbered })
    }
    return effects
  }

  #takeReady(items: Item[]): StreamEffect<T>[] {
    const { diverged, acked } = this.#ready.take(items)
    if (diverged !== undefined) return this.#breakOff('diverged', diverged)
    const effects: StreamEffect<T>[] = this.#openIfReady()
    if (acked.length > 0) effects.push({ kind: 'acked', items: acked.map((entry) => entry.item), upTo: this.#send.acked })
    return effects
  }

  #takeAck(ack: bigint, effects: StreamEffect<T>[], nowMs: number): void {
    const items = this.#send.ack(ack)
    if (items.length === 0) return
    const acked: StreamEffect<T> = { kind: 'acked', items: items.map((entry) => entry.item), upTo: this.#send.acked }
    effects.push(acked)
    this.#ackedNow.push(acked)
    this.#closing?.progressed(nowMs)
  }

  #takeClosing(stream: number, record: SealedRecord, items: Item[], nowMs: number): StreamEffect<T>[] {
    const payload = closingPayload(stream, record, items)
    if (record.type === FRAME.REVOCATION_PUBLISH) {
      if (this.#phase === 'closed') return []
      this.#phase = 'closed'
      return [
        { kind: 'revocation', payload },
        { kind: 'closed', close: { reason: 'revoked', by: 'peer' } }
      ]
    }
    return this.#takeTeardown(payload, record, nowMs)
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
    if (this.#ready.facts === undefined) throw new ProtocolError('OUT_OF_ORDER', 'a TEARDOWN with final numbers before READY')
    const effects: StreamEffect<T>[] = []
    this.#takeAck(record.counters.ack, effects, nowMs)
    const signed = this.#checkpoints.verify(final.checkpoint, this.#receive.run.seq, nowMs)
    checkFinal(final, this.#receive.run, equals)
    checkFinal(signed, final, equals)
    this.#checkpoints.keep(final.checkpoint, signed, nowMs)
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
