import type { Connection, Stream, StreamCloseEvent, StreamMessageEvent } from '@libp2p/interface'
import { LazySet } from '../../protocol/lazy.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { ByteQueue } from './byte-queue.ts'
import type { ByteStream, ConnectionInfo } from './byte-stream.ts'
import { transportOf } from './multiaddrs.ts'

/** Unread bytes that a stream holds; above it the transport is paused. A longer read makes room for exactly itself. */
export const BUFFER_BYTES_MAX = 262_144
/** Bytes that may wait behind the transport's write under way; they go out together in the next. */
export const WRITE_AHEAD_BYTES_MAX = 65_536
/** A peer that neither takes our last bytes nor ends its side within this time loses the stream. */
const CLOSE_TIMEOUT_MS = 5_000

interface Reading {
  readonly target: Uint8Array
  resolve(): void
  reject(error: unknown): void
}

/** {@link ByteStream} over an event-driven libp2p stream. */
export class Libp2pByteStream implements ByteStream {
  readonly protocol: string
  readonly connection: ConnectionInfo
  readonly closed: Promise<void>
  readonly #stream: Stream
  readonly #clock: Clock
  readonly #unread = new ByteQueue()
  #reading: Reading | undefined
  #ended = false
  #failure: RookeryError | undefined
  #resuming = false
  readonly #drained = new LazySet<() => void>()

  constructor(stream: Stream, connection: ConnectionInfo, clock: Clock) {
    this.#stream = stream
    this.#clock = clock
    this.protocol = stream.protocol
    this.connection = connection
    const gone = Promise.withResolvers<void>()
    this.closed = gone.promise
    const onMessage = (event: StreamMessageEvent) => {
      this.#unread.push(event.data)
      if (stream.readableEnded && stream.readBufferLength === 0) this.#ended = true
      this.#settle()
    }
    const onEnd = () => {
      // a reset says `end` too, before its `close` tells why
      if (stream.status === 'reset' || stream.status === 'aborted') this.#failure ??= reset(undefined)
      this.#ended = true
      this.#settle()
    }
    const onClose = (event: StreamCloseEvent) => {
      if (event.error !== undefined) this.#failure ??= reset(event.error)
      else if (stream.readBufferLength === 0) this.#ended = true
      stream.removeEventListener('close', onClose)
      for (const waiting of [...this.#drained]) waiting()
      gone.resolve()
      this.#settle()
    }
    stream.addEventListener('end', onEnd)
    stream.addEventListener('close', onClose)
    stream.addEventListener('message', onMessage)
    // `end` is said once, and comes too early where bytes that followed the negotiation wait to be given back to the stream
    if (stream.readableEnded && stream.readBufferLength === 0) this.#ended = true
    if (stream.status !== 'open' && stream.status !== 'closing') {
      if (stream.status !== 'closed') this.#failure = reset(undefined)
      gone.resolve()
    }
  }

  async read(length: number, options: { signal?: AbortSignal } = {}): Promise<Uint8Array> {
    if (!Number.isSafeInteger(length) || length < 0) throw new TypeError(`${length} is no length`)
    const bytes = new Uint8Array(length)
    await this.readInto(bytes, options)
    return bytes
  }

  async readInto(target: Uint8Array, options: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#reading !== undefined) throw new TypeError('a read of this stream is under way')
    const { signal } = options
    signal?.throwIfAborted()
    if (target.length === 0) return
    if (this.#unread.byteLength >= target.length) {
      this.#unread.moveInto(target)
      if (this.#unread.byteLength < BUFFER_BYTES_MAX) this.#flow()
      return
    }
    const aborted = () => {
      const reading = this.#reading
      this.#reading = undefined
      reading?.reject(signal?.reason)
    }
    try {
      await new Promise<void>((resolve, reject) => {
        this.#reading = { target, resolve, reject }
        signal?.addEventListener('abort', aborted, { once: true })
        this.#settle()
      })
    } finally {
      signal?.removeEventListener('abort', aborted)
    }
  }

  /** Serves the reader under way if it can be served, fails it if it never can, and opens or shuts the tap. */
  #settle(): void {
    const reading = this.#reading
    if (reading !== undefined) {
      if (this.#unread.byteLength >= reading.target.length) {
        this.#reading = undefined
        this.#unread.moveInto(reading.target)
        reading.resolve()
      } else if (this.#failure !== undefined || this.#ended) {
        this.#reading = undefined
        reading.reject(this.#failure ?? this.#endedBefore(reading.target.length))
      }
    }
    this.#flow()
  }

  #flow(): void {
    if (this.#resuming || this.#ended || this.#failure !== undefined) return
    const stream = this.#stream
    const room = Math.max(BUFFER_BYTES_MAX, this.#reading?.target.length ?? 0)
    // pausing inside the transport's own resume would be undone by it: the loop looks again once that returned
    this.#resuming = true
    try {
      while (stream.readStatus === 'paused' && this.#unread.byteLength < room) stream.resume()
      if (stream.readStatus === 'readable' && this.#unread.byteLength >= room) stream.pause()
    } finally {
      this.#resuming = false
    }
  }

  #endedBefore(length: number): RookeryError {
    return new RookeryError('STREAM_ENDED', `the peer ended the stream, ${this.#unread.byteLength} of ${length} bytes came`, {
      kind: 'unavailable',
      data: { received: this.#unread.byteLength, wanted: length }
    })
  }

  async write(bytes: Uint8Array, options: { signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = options
    signal?.throwIfAborted()
    if (this.#failure !== undefined) throw this.#failure
    if (bytes.length === 0) return
    let taken: boolean
    try {
      taken = this.#stream.send(bytes)
    } catch (cause) {
      throw this.#failure ?? reset(cause)
    }
    if (taken) return
    while (this.#stream.writeBufferLength > WRITE_AHEAD_BYTES_MAX) await this.#drain(signal)
    this.#checkWritable()
  }

  #checkWritable(): void {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#stream.remoteReadStatus === 'closed') throw reset(undefined)
  }

  #drain(signal: AbortSignal | undefined): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const finish = () => {
        this.#drained.delete(woken)
        this.#stream.removeEventListener('drain', woken)
        signal?.removeEventListener('abort', aborted)
      }
      const aborted = () => {
        finish()
        reject(signal?.reason)
      }
      const woken = () => {
        finish()
        resolve()
      }
      this.#drained.add(woken)
      this.#stream.addEventListener('drain', woken)
      signal?.addEventListener('abort', aborted, { once: true })
      if (this.#failure !== undefined) woken()
    }).then(() => {
      if (this.#failure !== undefined) throw this.#failure
    })
  }

  async closeWrite(): Promise<void> {
    try {
      await this.#stream.close()
    } catch (cause) {
      throw this.#failure ?? reset(cause)
    }
  }

  async close(): Promise<void> {
    if (this.#isGone()) return
    const cancel = this.#clock.after(CLOSE_TIMEOUT_MS, () => this.reset(new Error('the peer did not let go of the stream')))
    void this.closed.then(cancel)
    this.#unread.clear()
    try {
      await Promise.all([this.#stream.close(), this.#stream.closeRead()])
    } catch (error) {
      this.reset(error instanceof Error ? error : new Error('the stream failed while it closed'))
    }
  }

  reset(reason: Error): void {
    if (this.#isGone()) return
    this.#failure ??= reset(reason)
    this.#stream.abort(reason)
    this.#settle()
  }

  #isGone(): boolean {
    const { status } = this.#stream
    return status !== 'open' && status !== 'closing'
  }
}

function reset(cause: unknown): RookeryError {
  return new RookeryError('STREAM_RESET', 'the stream was dropped', { kind: 'unavailable', ...(cause === undefined ? {} : { cause }) })
}

/** The facts about a connection as they were when it opened. */
export function connectionInfo(connection: Connection): ConnectionInfo {
  const remoteAddr = connection.remoteAddr.toString()
  const bytesLimit = connection.limits?.bytes
  return {
    id: connection.id,
    peer: connection.remotePeer.toString(),
    remoteAddr,
    transport: transportOf(remoteAddr),
    direction: connection.direction,
    ...(bytesLimit === undefined ? {} : { bytesLimit: Number(bytesLimit) }),
    abort: (reason) => connection.abort(reason)
  }
}
