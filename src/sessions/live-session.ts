import { ProtocolError } from '../../protocol/errors.ts'
import type { CookiePair } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { FRAME } from '../../protocol/session/header.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import type { Unacked } from '../../protocol/session/journal.ts'
import { inFlightBytesMax } from '../../protocol/session/send-side.ts'
import { SessionStream } from '../../protocol/session/stream.ts'
import type { ReadyFacts, StreamClose, StreamEffect } from '../../protocol/session/stream-effects.ts'
import { CONTROL_CHANNEL, HANDSHAKE_STREAM } from '../../protocol/session/stream-init.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { ByteStream, ConnectionInfo } from '../net/byte-stream.ts'
import type { Logger } from '../platform/logger.ts'
import type { EpochEnd, ItemTag, LiveSessionInit } from './epoch-owner.ts'
import { EpochStreams } from './epoch-streams.ts'
import type { LaneFrame } from './lane.ts'
import { closeName, handshakeFailed, neverSent, sessionError } from './session-errors.ts'
import type { JournalTag } from './session-store.ts'

/** Both READYs are due within this of ESTABLISHED. */
export const READY_LIMIT_MS = 10_000
/** A closed session still answers a repeated TEARDOWN for so long, unless the peer ends the stream before. */
export const LINGER_MS = 5_000
/** A peer that is alive answers a ping well within this. */
export const PROBE_MS = 2_000

/** A wake-up that is overdue because a write is stuck comes no sooner than this. */
const WAKE_MS_MIN = 20

/** One epoch of a session over real streams: performs what the pure {@link SessionStream} asks for. */
export class LiveSession {
  readonly local: LocalAgent
  readonly established: Established
  readonly cookies: CookiePair
  readonly closed: Promise<EpochEnd>
  /** resolves when both READYs are there; rejects when the epoch ends before */
  readonly ready: Promise<void>
  /** monotonic; undefined before READY */
  readyAtMs: number | undefined
  /** from sending INIT to holding the peer's READY */
  handshakeMs = 0
  readonly roundTrips: number
  readonly #init: LiveSessionInit
  readonly #log: Logger
  readonly #core: SessionStream<ItemTag>
  readonly #streams: EpochStreams
  readonly #closing = Promise.withResolvers<EpochEnd>()
  readonly #opening = Promise.withResolvers<void>()
  readonly #controlEnded = Promise.withResolvers<void>()
  #end: EpochEnd | undefined
  /** what {@link revoke} sealed, on its way out */
  #lastWord: Promise<void> | undefined
  /** who waits for a pong, each for PROBE_MS at most */
  readonly #measuring: ((rttMs: number | undefined) => void)[] = []
  #pumping = false
  #hasMoved = false
  #timer: { atMs: number; cancel: () => void } | undefined

  constructor(init: LiveSessionInit) {
    this.#init = init
    this.local = init.local
    this.established = init.established
    this.cookies = init.established.cookies
    this.roundTrips = init.roundTrips
    this.#log = init.logger
    this.closed = this.#closing.promise
    this.ready = this.#opening.promise
    this.ready.catch(() => {}) // whoever opens looks at it; a responder's does not
    this.#core = new SessionStream<ItemTag>({
      crypto: init.crypto,
      established: init.established,
      carried: init.carried(init.established),
      ...(init.contract === undefined ? {} : { contract: init.contract }),
      signer: init.signer,
      nowMs: init.clock.monotonicMs(),
      ...(init.times === undefined ? {} : { times: init.times }),
      ...inFlight(init.stream.connection)
    })
    this.#streams = new EpochStreams({
      control: init.stream,
      open: init.openStream,
      isOver: () => this.#end !== undefined,
      nextFrame: (channel) => this.#nextFrame(channel),
      frames: init.frames,
      room: (stream) => {
        const room = init.owner.room(this.#core.channelOf(stream))
        return room === undefined ? undefined : Promise.race([room, this.closed])
      },
      take: (stream, frame) => this.#take(stream, frame),
      failed: (stream, error) => this.#streamFailed(stream, error),
      controlFailed: (error) => {
        // before READY a refusal may be on its way to the reader: it says more than the write that failed
        if (this.readyAtMs !== undefined) this.#streamFailed(init.stream, error)
      }
    })
  }

  /** Sends READY, behind `first` in the same write, and reads on. */
  start(first?: Uint8Array): void {
    const { clock } = this.#init
    this.#streams.start(first)
    const cancel = clock.after(READY_LIMIT_MS, () => this.lose(new ProtocolError('TIMEOUT', 'no READY within 10 s')))
    void Promise.race([this.ready, this.closed]).then(cancel, cancel)
    this.pump()
    this.#streams.readControl()
  }

  /** The peer's stream for another channel, whose first frame was read to find this session. */
  adopt(stream: ByteStream, frame: Uint8Array): void {
    this.#streams.adopt(stream, frame)
  }

  get isOver(): boolean {
    return this.#end !== undefined
  }

  get isOpen(): boolean {
    return this.#end === undefined && this.#core.phase === 'open'
  }

  /** A transaction came, or one of ours was acknowledged. */
  get hasMoved(): boolean {
    return this.#hasMoved
  }

  get role(): Established['role'] {
    return this.established.role
  }

  get peer(): string {
    return this.connection.peer
  }

  get connection(): ConnectionInfo {
    return this.#init.stream.connection
  }

  get streams(): number {
    return this.#streams.size
  }

  /** The peer's newest signed checkpoint of this epoch; 185 bytes. */
  get peerCheckpoint(): Uint8Array | undefined {
    return this.#core.peerCheckpoint
  }

  // ── sending ──

  /** @throws ProtocolError `RANGE` for channel 65, `OUT_OF_ORDER` while closing */
  queueLive(channel: number, payload: Uint8Array, tag: JournalTag): { cancel: () => boolean } {
    const item = this.#core.queue(channel, ITEM_KINDS.live, payload, tag)
    this.pump()
    return { cancel: () => this.#core.cancel(item) }
  }

  /** Takes window for a transaction that is to be numbered. @throws ProtocolError `RANGE` for channel 65 */
  reserve(channel: number, payloadBytes: number): boolean {
    return this.#core.reserve(channel, payloadBytes)
  }

  enqueue(entry: Unacked<ItemTag>, window: 'reserved' | 'unreserved'): void {
    this.#core.enqueue(entry, window)
  }

  sendSnapshot(parts: readonly Unacked<ItemTag>[]): void {
    this.#core.sendSnapshot(parts)
    this.pump()
  }

  /** Soon, once: everything that one turn of the event loop queues shares a record. */
  pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    queueMicrotask(() => {
      this.#pumping = false
      for (const channel of this.#core.channels(this.#init.clock.monotonicMs())) this.#streams.pump(channel)
      this.#arm()
    })
  }

  #nextFrame(channel: number): LaneFrame | undefined {
    const frame = this.#core.next(channel, this.#init.clock.monotonicMs())
    if (frame === undefined) return undefined
    this.#perform(frame.effects)
    const { sent } = frame
    if (sent.length === 0) return { bytes: frame.bytes, written: undefined }
    return {
      bytes: frame.bytes,
      written: () => {
        for (const { tag } of sent) tag?.resolve()
      }
    }
  }

  // ── receiving ──

  #take(number: number, frame: Uint8Array): void {
    if (this.#end?.lost === true) return // what came after the end of the epoch comes again
    if (frame[1] === FRAME.CLOSE && number === HANDSHAKE_STREAM && this.readyAtMs === undefined) {
      // in place of READY: our ACK was refused
      this.lose(handshakeFailed(new ProtocolError('CLOSED_BY_PEER', 'the peer closed'), closeName(frame)))
      return
    }
    this.#perform(this.#core.receive(number, frame, this.#init.clock.monotonicMs()))
    this.#init.owner.moved()
    this.pump()
  }

  #perform(effects: StreamEffect<ItemTag>[]): void {
    const { owner } = this.#init
    for (const effect of effects) {
      switch (effect.kind) {
        case 'ready':
          this.#onReady(effect)
          break
        case 'deliver':
        case 'unknown':
          if (effect.seq !== undefined) this.#hasMoved = true
          owner.deliver(this, effect)
          break
        case 'snapshot':
          owner.snapshot(this, effect)
          break
        case 'acked':
          this.#hasMoved = true
          owner.acked(effect.items)
          break
        case 'closing':
          owner.closing(this)
          break
        case 'closed':
          this.#onClosed(effect.close)
          break
        case 'revocation':
          owner.revoked(this, effect.payload.slice())
          break
        case 'pong':
          for (const resolve of this.#measuring.splice(0)) resolve(effect.rttMs)
          break
        case 'expired':
          owner.expired(this)
          break
        case 'silent':
          this.lose(new ProtocolError('TIMEOUT', 'the peer went silent'))
          break
      }
    }
  }

  #onReady(facts: ReadyFacts): void {
    const { clock, startedMs, owner } = this.#init
    this.readyAtMs = clock.monotonicMs()
    this.handshakeMs = this.readyAtMs - startedMs
    owner.ready(this, facts)
    this.#opening.resolve()
    this.#streams.opened()
  }

  /** The effect of a transaction is synced. */
  synced(seq: bigint): void {
    this.#core.synced(seq)
  }

  snapshotSynced(last: bigint): void {
    this.#core.snapshotSynced(last)
    this.pump()
  }

  /** The application is done with an item of this epoch. */
  handled(channel: number, payloadBytes: number): void {
    if (this.#end === undefined) this.#core.handled(channel, payloadBytes)
  }

  waitingBytes(channel: number): number {
    return this.#core.waitingBytes(channel)
  }

  // ── time ──

  #arm(): void {
    const wakeAtMs = this.#core.wakeAtMs
    if (wakeAtMs === undefined || this.#end !== undefined || (this.#timer !== undefined && this.#timer.atMs <= wakeAtMs)) return
    this.#timer?.cancel()
    const { clock } = this.#init
    const cancel = clock.after(Math.max(WAKE_MS_MIN, wakeAtMs - clock.monotonicMs()), () => {
      this.#timer = undefined
      this.#perform(this.#core.tick(clock.monotonicMs()))
      this.pump()
    })
    this.#timer = { atMs: wakeAtMs, cancel }
  }

  /** The peer came back on another connection, or an address changed: this one has {@link PROBE_MS} to show that it still carries the session. */
  probe(): void {
    if (this.#end !== undefined) return
    this.#core.probe(this.#init.clock.monotonicMs(), PROBE_MS)
    this.pump()
    this.#arm()
  }

  // ── ending ──

  /** The round trip of a ping that leaves now. @returns undefined where no answer comes within {@link PROBE_MS}, or the epoch is over */
  async ping(): Promise<number | undefined> {
    if (!this.isOpen) return undefined
    const { promise, resolve } = Promise.withResolvers<number | undefined>()
    const cancel = this.#init.clock.after(PROBE_MS, () => resolve(undefined))
    this.#measuring.push(resolve)
    this.#core.measure()
    this.pump()
    const rttMs = await promise
    cancel()
    return rttMs
  }

  get keyGeneration(): number {
    return this.#core.generation
  }

  /** Everything outbound is flushed, then TEARDOWN goes out; the end comes by {@link EpochOwner.ended}. */
  close(reason: TeardownReason): void {
    if (this.#end !== undefined) return
    this.#core.close(reason, this.#init.clock.monotonicMs())
    if (this.#core.phase === 'closed') this.#onClosed({ reason, by: 'local' })
    this.pump()
  }

  /** Breaks off: tells the peer why, in one TEARDOWN, and ends. */
  abort(reason: TeardownReason, error?: Error): void {
    if (this.#end !== undefined) return
    this.#core.abort(reason)
    this.#onClosed({ reason, by: 'local' }, error)
    this.pump()
  }

  /**
   * Seals REVOCATION_PUBLISH and destroys the epoch's keys; the frame is for {@link sendLast}. @throws ProtocolError `OUT_OF_ORDER`: they are gone
   */
  revoke(payload: Uint8Array): Uint8Array {
    return this.#core.revoke(payload, this.#init.clock.monotonicMs())
  }

  /** Sends what {@link revoke} sealed, behind the write that is under way; rejects where the peer let go first. */
  sendLast(frame: Uint8Array): Promise<void> {
    const send = async () => {
      await this.#streams.controlIdle()
      await this.#init.stream.write(frame)
    }
    this.#lastWord = send()
    return this.#lastWord
  }

  #onClosed(close: StreamClose, cause: Error | undefined = close.error): void {
    if (this.#end !== undefined) return
    const { conflict } = close
    if (conflict !== undefined) {
      const { clock, owner } = this.#init
      owner.contradicted(this, { ...conflict, firstSeenMs: Math.floor(clock.nowMs() - (clock.monotonicMs() - conflict.firstSeenMs)) })
    }
    if (this.#end !== undefined) return
    if (close.error !== undefined) {
      this.#log.warn({ reason: close.reason, code: close.error.code, error: close.error.message }, 'an epoch was broken off')
    }
    const reason = this.#lastWord === undefined ? close.reason : 'revoked'
    this.#finish({ reason, by: close.by, lost: false, ...(cause === undefined ? {} : { error: cause }) })
    void this.#linger()
  }

  /** The epoch is over without a word. */
  lose(cause: unknown): void {
    if (this.#end !== undefined) return
    const error = cause instanceof Error ? cause : new Error(String(cause))
    this.#log.debug({ error: error.message }, 'an epoch was lost')
    this.#finish({ reason: 'lost', by: 'local', lost: true, error })
    this.#dispose(error)
  }

  #finish(end: EpochEnd): void {
    this.#end = end
    for (const resolve of this.#measuring.splice(0)) resolve(undefined)
    this.#timer?.cancel()
    for (const { tag } of this.#core.abandon()) tag?.reject(neverSent(end.reason))
    this.#opening.reject(
      end.error ?? sessionError('SESSION_CLOSED', `the session ended (${end.reason}) before READY`, { data: { reason: end.reason } })
    )
    this.#closing.resolve(end)
    this.#init.owner.ended(this, end)
  }

  /**
   * Lets the last frames out, answers a repeated TEARDOWN until the peer ends the stream, then lets everything go. The other streams stay until
   * then: their end could overtake the TEARDOWN and look like a loss.
   */
  async #linger(): Promise<void> {
    const { stream, clock } = this.#init
    const over = Promise.withResolvers<void>()
    const cancel = clock.after(LINGER_MS, over.resolve)
    await Promise.resolve() // the pump's turn
    this.#streams.pump(CONTROL_CHANNEL)
    await Promise.race([this.#streams.controlIdle(), over.promise])
    try {
      await Promise.race([over.promise, this.#lastWord])
      await stream.closeWrite()
      await Promise.race([over.promise, stream.closed, this.#controlEnded.promise])
    } catch {
      // the peer let go first
    }
    cancel()
    const streams = this.#dispose(undefined)
    await Promise.all(streams.map((one) => one.close()))
  }

  #streamFailed(stream: ByteStream | undefined, error: unknown): void {
    if (stream === this.#init.stream) this.#controlEnded.resolve()
    if (stream !== undefined && stream !== this.#init.stream && this.#core.phase !== 'open' && this.#core.phase !== 'opening') return
    this.lose(error)
  }

  #dispose(error: Error | undefined): ByteStream[] {
    this.#core.wipe()
    return this.#streams.drop(error)
  }
}

function inFlight({ bytesLimit }: ConnectionInfo): { inFlightBytesMax?: number } {
  const bytesMax = inFlightBytesMax(bytesLimit)
  return bytesMax === undefined ? {} : { inFlightBytesMax: bytesMax }
}
