import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidToDid } from '../../protocol/identity/eid.ts'
import type { StreamTimes } from '../../protocol/session/closing.ts'
import type { CookiePair } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { FRAME } from '../../protocol/session/header.ts'
import { ITEM_KINDS, ITEM_PAYLOAD_BYTES_MAX, isTransaction } from '../../protocol/session/items.ts'
import { CHANNELS_MAX } from '../../protocol/session/ready.ts'
import type { Outgoing } from '../../protocol/session/send-side.ts'
import { CONTROL_CHANNEL, HANDSHAKE_STREAM, SessionStream } from '../../protocol/session/stream.ts'
import type { StreamClose, StreamEffect } from '../../protocol/session/stream-effects.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { FrameReader } from './frame-reader.ts'
import { Lane } from './lane.ts'
import type { Inbound, Session, SessionInfo } from './session.ts'
import { closeName, handshakeFailed, neverSent, outcomeUnknown, sessionError } from './session-errors.ts'
import { withSignal } from './with-signal.ts'

/** Items of one session that wait to be sent or acknowledged; above it `send` refuses. */
export const SEND_ITEMS_MAX = 16_384
/** Their bytes in all. */
export const SEND_BYTES_MAX = 64 * 1024 * 1024
/** What a peer may send to channels that nobody serves (yet), in windows' measure; above it the session is closed. */
export const UNSERVED_BYTES_MAX = 1_048_576
/** Both READYs are due within this of ESTABLISHED. */
export const READY_LIMIT_MS = 10_000
/** A closed session still answers a repeated TEARDOWN for so long, unless the peer ends the stream before. */
export const LINGER_MS = 5_000
/** A peer that is alive answers a ping well within this. */
export const PROBE_MS = 2_000

/** A wake-up that is overdue because a write is stuck comes no sooner than this. */
const WAKE_MS_MIN = 20

export interface LiveSessionInit {
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  local: LocalAgent
  established: Established
  /** the stream that carried the handshake */
  stream: ByteStream
  /** opens another stream to the same peer */
  openStream: () => Promise<ByteStream>
  /** when INIT was sent or received, monotonic */
  startedMs: number
  roundTrips: number
  times?: StreamTimes
  /** both READYs are there; nothing was handed over yet */
  onReady: (session: LiveSession) => void
  /** the session is over and its streams are gone or going */
  onEnd: (session: LiveSession) => void
}

interface Waiter {
  resolve(): void
  reject(error: unknown): void
}

type Handler = (item: Inbound) => Promise<void>

/** A {@link Session} over real streams: performs what the pure {@link SessionStream} asks for. */
export class LiveSession implements Session {
  readonly local: LocalAgent
  readonly remote: Eid
  readonly cookies: CookiePair
  readonly closed: Promise<{ reason: string }>
  /** resolves when both READYs are there; rejects when the session ends before */
  readonly ready: Promise<void>
  /** monotonic; undefined before READY */
  readyAtMs: number | undefined
  readonly #init: LiveSessionInit
  readonly #id: string
  readonly #log: Logger
  readonly #core: SessionStream<Waiter | undefined>
  /** by channel that we send on; at most CHANNELS_MAX */
  readonly #lanes = new Map<number, Lane>()
  /** by channel, the stream that carries it from us; at most CHANNELS_MAX */
  readonly #carriers = new Map<number, ByteStream>()
  /** every stream of the session; at most 2 × CHANNELS_MAX + 1 */
  readonly #streams = new Set<ByteStream>()
  /** streams of the peer that came before its READY: unread until then */
  #early: { stream: ByteStream; frame: Uint8Array }[] = []
  readonly #handlers = new Map<number, Handler>()
  /** items for channels without a handler; bounded by UNSERVED_BYTES_MAX */
  readonly #unserved = new Map<number, (Inbound & { seq: bigint | undefined })[]>()
  readonly #closing = Promise.withResolvers<{ reason: string }>()
  readonly #opening = Promise.withResolvers<void>()
  readonly #controlEnded = Promise.withResolvers<void>()
  #state: SessionInfo['state'] = 'established'
  #end: { reason: string; lost: boolean; error?: Error } | undefined
  #nextStream = HANDSHAKE_STREAM + 1
  #sendItems = 0
  #sendBytes = 0
  #pumping = false
  #timer: { atMs: number; cancel: () => void } | undefined
  #handshakeMs = 0
  #openedAtMs = 0

  constructor(init: LiveSessionInit) {
    this.#init = init
    this.local = init.local
    this.remote = init.established.remoteEid
    this.cookies = init.established.cookies
    this.#id = toHex(init.established.sid)
    this.#log = init.logger
    this.closed = this.#closing.promise
    this.ready = this.#opening.promise
    this.ready.catch(() => {}) // whoever opens looks at it; a responder's does not
    this.#core = new SessionStream({
      crypto: init.crypto,
      established: init.established,
      signer: init.local.signer,
      nowMs: init.clock.monotonicMs(),
      ...(init.times === undefined ? {} : { times: init.times })
    })
  }

  /** Sends READY, behind `first` in the same write, and reads on. */
  start(first?: Uint8Array): void {
    const { stream, clock } = this.#init
    this.#streams.add(stream)
    this.#carriers.set(CONTROL_CHANNEL, stream)
    let before = first
    this.#lanes.set(
      CONTROL_CHANNEL,
      new Lane(
        async () => stream,
        () => {
          const frame = this.#nextFrame(CONTROL_CHANNEL)
          if (frame === undefined || before === undefined) return frame
          const bytes = new Uint8Array(before.length + frame.bytes.length)
          bytes.set(before)
          bytes.set(frame.bytes, before.length)
          before = undefined
          return { ...frame, bytes }
        },
        (error) => {
          // before READY a refusal may be on its way to the reader: it says more than the write that failed
          if (this.readyAtMs !== undefined) this.#streamFailed(stream, error)
        }
      )
    )
    const cancel = clock.after(READY_LIMIT_MS, () => this.lose(new ProtocolError('TIMEOUT', 'no READY within 10 s')))
    void Promise.race([this.ready, this.closed]).then(cancel, cancel)
    this.#pump()
    void this.#read(stream, HANDSHAKE_STREAM, undefined)
  }

  /** The peer's stream for another channel, whose first frame was read to find this session. */
  adopt(stream: ByteStream, frame: Uint8Array): void {
    if (this.#end !== undefined || this.#streams.size > 2 * CHANNELS_MAX) {
      stream.reset(new Error('the session takes no further stream'))
      return
    }
    this.#streams.add(stream)
    if (this.readyAtMs === undefined) this.#early.push({ stream, frame })
    else void this.#read(stream, this.#nextStream++, frame)
  }

  get state(): SessionInfo['state'] {
    return this.#state
  }

  get role(): SessionInfo['role'] {
    return this.#init.established.role
  }

  get flags(): number {
    return this.#init.established.flags
  }

  get peer(): string {
    return this.#init.stream.connection.peer
  }

  get connectionId(): string {
    return this.#init.stream.connection.id
  }

  info(): SessionInfo {
    const { established, stream, roundTrips } = this.#init
    return {
      id: this.#id,
      local: this.local.did,
      remote: eidToDid(this.remote),
      role: established.role,
      state: this.#state,
      transport: stream.connection.transport,
      remoteAddr: stream.connection.remoteAddr,
      handshakeMs: this.#handshakeMs,
      roundTrips,
      cookies: { initiator: toHex(this.cookies.i), responder: toHex(this.cookies.r) },
      txSeq: this.#core.tx.seq.toString(),
      txAcked: this.#core.txAcked.seq.toString(),
      rxSeq: this.#core.rxSynced.toString(),
      openedAtMs: this.#openedAtMs
    }
  }

  /** What a peer or a caller can make this session hold; for tests and metrics. */
  held(): { streams: number; sendItems: number; sendBytes: number; unservedBytes: number } {
    return { streams: this.#streams.size, sendItems: this.#sendItems, sendBytes: this.#sendBytes, unservedBytes: this.#unservedBytes() }
  }

  // ── sending ──

  async send(channel: number, kind: number, payload: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    signal?.throwIfAborted()
    if (!isTransaction(kind) && kind !== ITEM_KINDS.live) throw new TypeError(`kind 0x${kind.toString(16)} is the protocol's own`)
    this.#checkRoom(payload.length)
    const done = Promise.withResolvers<void>()
    const item = this.#queue(channel, kind, payload, done)
    this.#sendItems += 1
    this.#sendBytes += payload.length
    this.#pump()
    if (signal === undefined) {
      try {
        await done.promise
      } finally {
        this.#sendItems -= 1
        this.#sendBytes -= payload.length
      }
      return
    }
    const aborted = () => {
      this.#core.cancel(item)
      done.reject(signal.reason)
    }
    signal.addEventListener('abort', aborted, { once: true })
    try {
      await done.promise
    } finally {
      signal.removeEventListener('abort', aborted)
      this.#sendItems -= 1
      this.#sendBytes -= payload.length
    }
  }

  #checkRoom(bytes: number): void {
    if (bytes > ITEM_PAYLOAD_BYTES_MAX) {
      throw sessionError('MESSAGE_TOO_LARGE', `a message of ${bytes} bytes, at most ${ITEM_PAYLOAD_BYTES_MAX} go through a session`, {
        field: 'payload',
        value: bytes,
        remedy: 'send it in parts'
      })
    }
    if (this.#end?.lost === true) throw neverSent(this.#end.reason)
    if (this.#state !== 'established') throw this.#closedError()
    if (this.#sendItems >= SEND_ITEMS_MAX || this.#sendBytes + bytes > SEND_BYTES_MAX) {
      throw sessionError('SESSION_QUEUE_FULL', `${this.#sendItems} messages (${this.#sendBytes} bytes) wait in this session`, {
        field: 'payload',
        remedy: 'wait until earlier sends have resolved',
        data: { itemsMax: SEND_ITEMS_MAX, bytesMax: SEND_BYTES_MAX }
      })
    }
  }

  #queue(channel: number, kind: number, payload: Uint8Array, waiter: Waiter): Outgoing<Waiter | undefined> {
    try {
      return this.#core.queue(channel, kind, payload, waiter)
    } catch (cause) {
      if (cause instanceof ProtocolError && cause.code === 'RANGE') {
        throw new RookeryError('CHANNELS_MAX', cause.message, { kind: 'usage', field: 'channel', value: channel, cause })
      }
      throw this.#closedError()
    }
  }

  #closedError(): RookeryError {
    return sessionError('SESSION_CLOSED', 'the session is closing or closed', {
      remedy: 'open a new session',
      data: { reason: this.#end?.reason }
    })
  }

  /** Soon, once: everything that one turn of the event loop queues shares a record. */
  #pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    queueMicrotask(() => {
      this.#pumping = false
      for (const channel of this.#core.channels(this.#init.clock.monotonicMs())) this.#lane(channel).pump()
      this.#arm()
    })
  }

  #lane(channel: number): Lane {
    let lane = this.#lanes.get(channel)
    if (lane === undefined) {
      lane = new Lane(
        () => this.#carrier(channel),
        () => this.#nextFrame(channel),
        (error) => this.#streamFailed(this.#carriers.get(channel), error)
      )
      this.#lanes.set(channel, lane)
    }
    return lane
  }

  /** The stream that carries a channel from us: opened at the first frame. */
  async #carrier(channel: number): Promise<ByteStream> {
    const held = this.#carriers.get(channel)
    if (held !== undefined) return held
    const stream = await this.#init.openStream()
    if (this.#end !== undefined) {
      stream.reset(new Error('the session ended'))
      return stream
    }
    this.#carriers.set(channel, stream)
    this.#streams.add(stream)
    void this.#read(stream, this.#nextStream++, undefined)
    return stream
  }

  #nextFrame(channel: number): { bytes: Uint8Array; written: (() => void) | undefined } | undefined {
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

  async #read(stream: ByteStream, number: number, first: Uint8Array | undefined): Promise<void> {
    try {
      if (first !== undefined) this.#take(number, first)
      const frames = new FrameReader(stream)
      while (this.#streams.has(stream)) this.#take(number, await frames.next())
    } catch (error) {
      this.#streamFailed(stream, error)
    }
  }

  #take(number: number, frame: Uint8Array): void {
    if (frame[1] === FRAME.CLOSE && number === HANDSHAKE_STREAM && this.readyAtMs === undefined) {
      // in place of READY: our ACK was refused
      this.lose(handshakeFailed(new ProtocolError('CLOSED_BY_PEER', 'the peer closed'), closeName(frame)))
      return
    }
    this.#perform(this.#core.receive(number, frame, this.#init.clock.monotonicMs()))
    this.#pump()
  }

  #perform(effects: StreamEffect<Waiter | undefined>[]): void {
    for (const effect of effects) {
      switch (effect.kind) {
        case 'ready':
          this.#onReady()
          break
        case 'deliver':
          this.#deliver({ channel: effect.channel, kind: effect.itemKind, payload: effect.payload, seq: effect.seq })
          break
        case 'unknown':
          this.#log.warn(
            { session: this.#id, kind: effect.itemKind, channel: effect.channel },
            'a transaction of unknown kind was acknowledged without effect'
          )
          this.#core.synced(effect.seq)
          this.#core.handled(effect.channel, effect.payload.length)
          break
        case 'acked':
          for (const { tag } of effect.items) tag?.resolve()
          break
        case 'closing':
          if (this.#state === 'established') this.#state = 'closing'
          break
        case 'closed':
          this.#onClosed(effect.close)
          break
        case 'revocation':
          this.#log.warn({ session: this.#id, bytes: effect.payload.length }, 'the peer revoked the session with a proof')
          break
        case 'silent':
          this.lose(new ProtocolError('TIMEOUT', 'the peer went silent'))
          break
      }
    }
  }

  #onReady(): void {
    const { clock, startedMs } = this.#init
    this.readyAtMs = clock.monotonicMs()
    this.#handshakeMs = this.readyAtMs - startedMs
    this.#openedAtMs = clock.nowMs()
    this.#init.onReady(this)
    this.#opening.resolve()
    const early = this.#early
    this.#early = []
    for (const { stream, frame } of early) void this.#read(stream, this.#nextStream++, frame)
  }

  onChannel(channel: number, handler: Handler): void {
    this.#handlers.set(channel, handler)
    const waiting = this.#unserved.get(channel)
    this.#unserved.delete(channel)
    for (const item of waiting ?? []) this.#hand(item, handler)
  }

  #deliver(item: Inbound & { seq: bigint | undefined }): void {
    const handler = this.#handlers.get(item.channel)
    if (handler !== undefined) {
      this.#hand(item, handler)
      return
    }
    const waiting = this.#unserved.get(item.channel) ?? []
    waiting.push(item)
    this.#unserved.set(item.channel, waiting)
    if (this.#unservedBytes() > UNSERVED_BYTES_MAX) {
      this.#abort('violation', new ProtocolError('WINDOW', 'the peer floods channels that nobody serves', { field: 'channel' }))
    }
  }

  #unservedBytes(): number {
    let bytes = 0
    for (const channel of this.#unserved.keys()) bytes += this.#core.waitingBytes(channel)
    return bytes
  }

  #hand({ seq, ...item }: Inbound & { seq: bigint | undefined }, handler: Handler): void {
    const bytes = item.payload.length
    new Promise<void>((resolve) => resolve(handler(item))).then(
      () => {
        if (this.#end !== undefined) return
        if (seq !== undefined) this.#core.synced(seq)
        this.#core.handled(item.channel, bytes)
        this.#pump()
      },
      (error: unknown) => {
        this.#log.error(
          { session: this.#id, channel: item.channel, kind: item.kind, error: text(error) },
          'a channel handler failed: the session is closed'
        )
        this.#abort('failed', error instanceof Error ? error : new Error(text(error)))
      }
    )
  }

  // ── time ──

  #arm(): void {
    const wakeAtMs = this.#core.wakeAtMs
    if (wakeAtMs === undefined || (this.#timer !== undefined && this.#timer.atMs <= wakeAtMs)) return
    this.#timer?.cancel()
    const { clock } = this.#init
    const cancel = clock.after(Math.max(WAKE_MS_MIN, wakeAtMs - clock.monotonicMs()), () => {
      this.#timer = undefined
      this.#perform(this.#core.tick(clock.monotonicMs()))
      this.#pump()
    })
    this.#timer = { atMs: wakeAtMs, cancel }
  }

  /** The peer came back on another connection: this one has {@link PROBE_MS} to show that it still carries the session. */
  probe(): void {
    if (this.#end !== undefined) return
    this.#core.probe(this.#init.clock.monotonicMs(), PROBE_MS)
    this.#pump()
    this.#arm()
  }

  // ── ending ──

  async close({ signal, reason = 'done' }: { signal?: AbortSignal; reason?: TeardownReason } = {}): Promise<void> {
    signal?.throwIfAborted()
    if (this.#end === undefined && this.#state === 'established') {
      this.#state = 'closing'
      this.#core.close(reason, this.#init.clock.monotonicMs())
      if (this.#core.phase === 'closed') this.#onClosed({ reason, by: 'local' })
      this.#pump()
    }
    await withSignal(this.closed, signal)
  }

  /** Breaks off: tells the peer why, in one TEARDOWN, and ends. */
  abort(reason: TeardownReason): void {
    this.#abort(reason, undefined)
  }

  #abort(reason: TeardownReason, error: Error | undefined): void {
    if (this.#end !== undefined) return
    this.#core.abort(reason)
    this.#onClosed({ reason, by: 'local' }, error)
    this.#pump()
  }

  #onClosed(close: StreamClose, cause: Error | undefined = close.error): void {
    if (this.#end !== undefined) return
    if (close.error !== undefined) {
      this.#log.warn({ session: this.#id, code: close.error.code, error: close.error.message }, 'the peer broke the session protocol')
    }
    this.#finish({ reason: close.reason, lost: false, ...(cause === undefined ? {} : { error: cause }) })
    void this.#linger()
  }

  /** The epoch is over without a word: what is unacknowledged has an unknown outcome. */
  lose(cause: unknown): void {
    if (this.#end !== undefined) return
    const error = cause instanceof Error ? cause : new Error(text(cause))
    this.#log.debug({ session: this.#id, error: error.message }, 'a session was lost')
    this.#finish({ reason: 'lost', lost: true, error })
    this.#dispose(error)
  }

  #finish(end: { reason: string; lost: boolean; error?: Error }): void {
    this.#end = end
    this.#state = 'closed'
    this.#timer?.cancel()
    const { unacked, waiting } = this.#core.abandon()
    for (const { tag } of unacked) tag?.reject(outcomeUnknown(end.reason))
    for (const { tag } of waiting) tag?.reject(neverSent(end.reason))
    this.#unserved.clear()
    this.#opening.reject(
      end.error ?? sessionError('SESSION_CLOSED', `the session ended (${end.reason}) before READY`, { data: { reason: end.reason } })
    )
    this.#closing.resolve({ reason: end.reason })
    this.#init.onEnd(this)
  }

  /**
   * Lets the last frames out, answers a repeated TEARDOWN until the peer ends the stream, then lets everything go. The other streams stay until
   * then: their end could overtake the TEARDOWN and look like a loss.
   */
  async #linger(): Promise<void> {
    const { stream, clock } = this.#init
    const over = Promise.withResolvers<void>()
    const cancel = clock.after(LINGER_MS, over.resolve)
    const control = this.#lanes.get(CONTROL_CHANNEL)
    await Promise.resolve() // the pump's turn
    control?.pump()
    await Promise.race([control?.idle(), over.promise])
    try {
      await stream.closeWrite()
      await Promise.race([over.promise, stream.closed, this.#controlEnded.promise])
    } catch {
      // the peer let go first
    }
    cancel()
    const streams = [...this.#streams]
    this.#dispose(undefined)
    await Promise.all(streams.map((one) => one.close()))
  }

  #streamFailed(stream: ByteStream | undefined, error: unknown): void {
    if (stream === this.#init.stream) this.#controlEnded.resolve()
    if (stream !== undefined && stream !== this.#init.stream && this.#state !== 'established') return
    this.lose(error)
  }

  #dispose(error: Error | undefined): void {
    this.#core.wipe()
    const reason = error ?? new Error('the session ended')
    for (const { stream } of this.#early) stream.reset(reason)
    if (error !== undefined) for (const stream of this.#streams) stream.reset(error)
    this.#streams.clear()
    this.#early = []
  }
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
