import { toHex } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import {
  BYTE_STREAM_CODES,
  BYTE_STREAM_ID_BYTES,
  BYTE_STREAM_LABEL_BYTES_MAX,
  type ByteFrame,
  decodeByteFrame,
  encodeByteFrame
} from '../../protocol/session/byte-frames.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { RookeryError } from '../errors.ts'
import { systemRandom } from '../platform/random.ts'
import { withSignal } from '../platform/with-signal.ts'
import { Arrivals } from './arrivals.ts'
import { byteStreamLost } from './byte-errors.ts'
import { ByteReader, type HeldBytes } from './byte-reader.ts'
import { type ByteStreamMode, ByteWriter } from './byte-writer.ts'
import type { Inbound, Session } from './session.ts'

export type { HeldBytes } from './byte-reader.ts'
export { ByteReader } from './byte-reader.ts'
export { BYTES_IN_FLIGHT_MAX, type ByteStreamMode, ByteWriter } from './byte-writer.ts'

/** The channel of byte streams where nobody names another. */
export const BYTE_STREAM_CHANNEL = 3
/** Streams that were stopped and whose rest may still come. */
const STOPPED_MAX = 64

export interface OpenStreamOptions {
  /** default {@link BYTE_STREAM_CHANNEL}; one stream at a time runs on a channel in each direction, the next waits */
  channel?: number
  /** `live` (default): fast, ends with its connection. `durable`: chunks are transactions; goes on after a crash of either side */
  mode?: ByteStreamMode
  /** 16 bytes; the same id takes a durable stream up again. Default: random */
  id?: Uint8Array
  /** bytes in all, where they are known */
  length?: number
  /** what it is, for the reader; at most 1,024 bytes of UTF-8 */
  label?: string
  signal?: AbortSignal
}

export interface AcceptStreamOptions {
  channel?: number
  /** what an earlier process synced of a durable stream; asked once for each stream */
  held?: (stream: { id: Uint8Array; label: string }) => Promise<HeldBytes | undefined>
  signal?: AbortSignal
}

/**
 * Offers a byte stream, longer than one message may be, and waits until the peer accepts it.
 * @throws RookeryError `BYTE_STREAM_STOPPED` (the peer refused), `BYTE_STREAM_LOST`, those of {@link Session.send}; or the signal's reason
 */
export async function openStream(session: Session, options: OpenStreamOptions = {}): Promise<ByteWriter> {
  const { channel = BYTE_STREAM_CHANNEL } = options
  return await endpointOf(session, channel).open(options)
}

/**
 * Waits for the next byte stream of the peer and takes it.
 * @throws RookeryError `BYTE_STREAM_LOST` (the session ended); or the signal's reason
 */
export async function acceptStream(session: Session, options: AcceptStreamOptions = {}): Promise<ByteReader> {
  const { channel = BYTE_STREAM_CHANNEL } = options
  return await endpointOf(session, channel).accept(options)
}

const endpoints = new WeakMap<Session, Map<number, Endpoint>>()

function endpointOf(session: Session, channel: number): Endpoint {
  const served = endpoints.get(session) ?? new Map<number, Endpoint>()
  endpoints.set(session, served)
  const endpoint = served.get(channel) ?? new Endpoint(session, channel)
  served.set(channel, endpoint)
  return endpoint
}

/** Both directions of one channel that carries byte streams. */
class Endpoint {
  readonly #session: Session
  readonly #channel: number
  /** the last writer's end; the next begins after it */
  #turn: Promise<void> = Promise.resolve()
  #writer: ByteWriter | undefined
  /** the stream that the peer sends now */
  #reader: ByteReader | undefined
  /** accepted by nobody yet; each holds an unhandled item, so the channel's window bounds them */
  readonly #offers: ByteReader[] = []
  /** ids, oldest first; at most STOPPED_MAX */
  readonly #stopped = new Set<string>()
  readonly #arrivals = new Arrivals()
  #over: string | undefined

  constructor(session: Session, channel: number) {
    this.#session = session
    this.#channel = channel
    session.onChannel(channel, (item) => this.#take(item))
    session.onEvent((event) => {
      if (event.kind === 'disconnected' || event.kind === 'resumed') this.#lose('a new connection', ({ mode }) => mode === 'live')
    })
    void session.closed.then(({ reason }) => {
      this.#over = reason
      this.#lose(reason, () => true)
      this.#arrivals.wake()
    })
  }

  #lose(reason: string, which: (stream: { mode: ByteStreamMode }) => boolean): void {
    const error = byteStreamLost(reason)
    for (const stream of [this.#writer, this.#reader, ...this.#offers]) if (stream !== undefined && which(stream)) stream.fail(error)
  }

  async #send(mode: ByteStreamMode, frame: ByteFrame): Promise<void> {
    await this.#session.send(this.#channel, mode === 'live' ? ITEM_KINDS.live : ITEM_KINDS.a2a, encodeByteFrame(frame))
  }

  // ── writing ──

  async open({
    mode = 'live',
    id = systemRandom.bytes(BYTE_STREAM_ID_BYTES),
    length,
    label = '',
    signal
  }: OpenStreamOptions): Promise<ByteWriter> {
    checkOffer(id, label, length)
    const before = this.#turn
    const turn = Promise.withResolvers<void>()
    this.#turn = Promise.all([before, turn.promise]).then(() => {})
    try {
      await withSignal(before, signal)
      if (this.#over !== undefined) throw byteStreamLost(this.#over)
    } catch (error) {
      turn.resolve()
      throw error
    }
    const writer: ByteWriter = new ByteWriter({
      id: id.slice(),
      mode,
      length,
      send: (frame) => this.#send(mode, frame),
      over: () => {
        if (this.#writer === writer) this.#writer = undefined
        turn.resolve()
      }
    })
    this.#writer = writer
    this.#send(mode, { type: 'open', id: writer.id, length: length === undefined ? undefined : BigInt(length), label }).catch((error) =>
      writer.fail(error)
    )
    await writer.opened(signal)
    return writer
  }

  // ── reading ──

  async accept({ held, signal }: AcceptStreamOptions): Promise<ByteReader> {
    for (;;) {
      signal?.throwIfAborted()
      const reader = this.#offers.shift()
      if (reader !== undefined) {
        if (reader.isOver) continue
        try {
          await reader.accept(reader.mode === 'durable' ? await held?.({ id: reader.id, label: reader.label }) : undefined)
        } catch (error) {
          if (reader.isOver) continue // it ended while it waited
          reader.cancel('failed')
          throw error
        }
        return reader
      }
      if (this.#over !== undefined) throw byteStreamLost(this.#over)
      await this.#arrivals.next(signal)
    }
  }

  async #take({ kind, payload }: Inbound): Promise<void> {
    if (kind !== ITEM_KINDS.live && kind !== ITEM_KINDS.a2a) return
    const mode: ByteStreamMode = kind === ITEM_KINDS.live ? 'live' : 'durable'
    const frame = decoded(payload)
    if (frame === undefined) return
    const { type, id } = frame
    if (type === 'accept' || type === 'done' || type === 'stop') {
      const writer = this.#writer
      if (writer !== undefined && writer.mode === mode && toHex(writer.id) === toHex(id)) writer.take(frame)
      return
    }
    if (type === 'open') {
      this.#stopped.delete(toHex(id))
      await this.#readerOf(mode, id, frame).open()
    } else if (type === 'reset') {
      if (this.#isCurrent(id)) this.#reader?.reset(frame.code)
    } else if (this.#isCurrent(id)) await this.#reader?.push(frame)
    else if (mode === 'durable' && !this.#stopped.has(toHex(id))) {
      // the rest of a stream whose beginning an earlier process read
      await this.#readerOf(mode, id, undefined).push(frame)
    }
  }

  #isCurrent(id: Uint8Array): boolean {
    return this.#reader !== undefined && toHex(this.#reader.id) === toHex(id)
  }

  /** The reader of that stream. Another one that is under way ends: its writer has left it. */
  #readerOf(mode: ByteStreamMode, id: Uint8Array, open: Extract<ByteFrame, { type: 'open' }> | undefined): ByteReader {
    const current = this.#reader
    if (current !== undefined && current.mode === mode && this.#isCurrent(id) && mode === 'durable') return current
    current?.reset(BYTE_STREAM_CODES.abandoned)
    const reader: ByteReader = new ByteReader({
      id: id.slice(),
      mode,
      label: open?.label ?? '',
      length: open?.length === undefined ? undefined : Number(open.length),
      send: (frame) => this.#send(mode, frame),
      over: () => {
        if (this.#reader === reader) this.#reader = undefined
        const at = this.#offers.indexOf(reader)
        if (at >= 0) this.#offers.splice(at, 1)
        this.#stopped.add(toHex(id))
        if (this.#stopped.size > STOPPED_MAX) for (const oldest of this.#stopped.values().take(1)) this.#stopped.delete(oldest)
      }
    })
    this.#reader = reader
    this.#offers.push(reader)
    this.#arrivals.wake()
    return reader
  }
}

/** What cannot be read has no effect: the stream that lacks it is found incomplete. */
function decoded(payload: Uint8Array): ByteFrame | undefined {
  try {
    return decodeByteFrame(payload)
  } catch (error) {
    if (error instanceof ProtocolError) return undefined
    throw error
  }
}

function checkOffer(id: Uint8Array, label: string, length: number | undefined): void {
  if (id.length !== BYTE_STREAM_ID_BYTES) throw usage('id', id.length, `an id of ${id.length} bytes, not ${BYTE_STREAM_ID_BYTES}`)
  if (new TextEncoder().encode(label).length > BYTE_STREAM_LABEL_BYTES_MAX) throw usage('label', label.length, 'the label is too long')
  if (length !== undefined && (!Number.isSafeInteger(length) || length < 0)) throw usage('length', length, `${length} is no length`)
}

function usage(field: string, value: unknown, message: string): RookeryError {
  return new RookeryError('BYTE_STREAM_OPTIONS', message, { kind: 'usage', field, value })
}
