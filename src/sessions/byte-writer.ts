import { BYTE_STREAM_CHUNK_BYTES, BYTE_STREAM_CODES, type ByteFrame, type ByteStreamCode } from '../../protocol/session/byte-frames.ts'
import { RookeryError } from '../errors.ts'
import { runningSha256 } from '../platform/running-hash.ts'
import { withSignal } from '../platform/with-signal.ts'
import { byteStreamOver, byteStreamStopped } from './byte-errors.ts'

/** Chunks of one stream that are under way: durable ones until the reader has synced them, live ones until the transport took them. */
export const BYTES_IN_FLIGHT_MAX = 1_048_576

export type ByteStreamMode = 'live' | 'durable'

export interface ByteWriterInit {
  id: Uint8Array
  mode: ByteStreamMode
  length: number | undefined
  send: (frame: ByteFrame) => Promise<void>
  over: () => void
}

/**
 * The writing end of a byte stream. The whole content is written from its first byte on: what the reader holds already is hashed and not sent
 * again. One write at a time.
 */
export class ByteWriter {
  readonly id: Uint8Array
  readonly mode: ByteStreamMode
  readonly #init: ByteWriterInit
  readonly #hash = runningSha256()
  readonly #accepted = Promise.withResolvers<number>()
  readonly #done = Promise.withResolvers<void>()
  readonly #ended = new AbortController()
  #held = 0
  #position = 0
  #inFlight = 0
  #room: (() => void) | undefined
  #state: 'open' | 'finishing' | 'over' = 'open'

  constructor(init: ByteWriterInit) {
    this.id = init.id
    this.mode = init.mode
    this.#init = init
    this.#accepted.promise.catch(() => {})
    this.#done.promise.catch(() => {})
  }

  /** Bytes that the reader held when the stream was opened: they do not travel again. */
  get held(): number {
    return this.#held
  }

  /** Bytes written so far, those that the reader held included. */
  get position(): number {
    return this.#position
  }

  get isOver(): boolean {
    return this.#state === 'over'
  }

  /** What the endpoint tells: the reader's frames, and losses. */
  take(frame: ByteFrame): void {
    if (frame.type === 'accept') this.#accepted.resolve(Number(frame.offset))
    else if (frame.type === 'done') {
      if (this.#state === 'finishing') this.#finish(undefined)
    } else if (frame.type === 'stop') this.fail(byteStreamStopped(frame.code))
  }

  fail(error: Error): void {
    this.#finish(error)
  }

  #finish(error: Error | undefined): void {
    if (this.#state === 'over') return
    this.#state = 'over'
    const reason = error ?? byteStreamOver()
    this.#accepted.reject(reason)
    if (error === undefined) this.#done.resolve()
    else this.#done.reject(error)
    this.#ended.abort(reason)
    this.#room?.()
    this.#init.over()
  }

  /** Waits for the reader. */
  async opened(signal: AbortSignal | undefined): Promise<void> {
    try {
      this.#held = await withSignal(this.#accepted.promise, signal)
    } catch (error) {
      this.#breakOff('abandoned', error)
      throw error
    }
  }

  /**
   * Resolves when the bytes are under way and more may come. A write whose signal fires breaks the stream off.
   * @throws RookeryError `BYTE_STREAM_LOST`, `BYTE_STREAM_STOPPED`, `BYTE_STREAM_ENDED`; or the signal's reason
   */
  async write(bytes: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    this.#checkOpen()
    try {
      signal?.throwIfAborted()
      this.#hash.update(bytes)
      const from = Math.min(Math.max(0, this.#held - this.#position), bytes.length)
      this.#position += from
      for (let at = from; at < bytes.length; at += BYTE_STREAM_CHUNK_BYTES) {
        const chunk = bytes.subarray(at, at + BYTE_STREAM_CHUNK_BYTES)
        await this.#makeRoom(chunk.length, signal)
        this.#sendChunk(chunk)
      }
    } catch (error) {
      this.#breakOff('failed', error)
      throw error
    }
  }

  #checkOpen(): void {
    if (this.#state === 'open') return
    throw this.#ended.signal.aborted ? this.#ended.signal.reason : byteStreamOver()
  }

  async #makeRoom(bytes: number, signal: AbortSignal | undefined): Promise<void> {
    while (this.#inFlight > 0 && this.#inFlight + bytes > BYTES_IN_FLIGHT_MAX) {
      const room = Promise.withResolvers<void>()
      this.#room = room.resolve
      await withSignal(room.promise, signal)
      this.#checkOpen()
    }
  }

  #sendChunk(bytes: Uint8Array): void {
    const offset = BigInt(this.#position)
    this.#position += bytes.length
    this.#inFlight += bytes.length
    this.#init.send({ type: 'data', id: this.id, offset, bytes }).then(
      () => {
        this.#inFlight -= bytes.length
        this.#room?.()
      },
      (error) => this.fail(error)
    )
  }

  /**
   * Says that this was all, and waits until the reader has read it and found length and SHA-256 right.
   * @throws RookeryError `BYTE_STREAM_STOPPED` (data.reason `corrupt`: they differ), `BYTE_STREAM_LOST`, `BYTE_STREAM_LENGTH`, `BYTE_STREAM_ENDED`; or the
   *   signal's reason, which ends the waiting alone
   */
  async close({ signal }: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#state !== 'finishing') {
      this.#checkOpen()
      this.#checkLength()
      this.#state = 'finishing'
      const sha256 = new Uint8Array(this.#hash.digest())
      this.#init.send({ type: 'fin', id: this.id, total: BigInt(this.#position), sha256 }).catch((error) => this.fail(error))
    }
    await withSignal(this.#done.promise, signal)
  }

  #checkLength(): void {
    const { length } = this.#init
    if (length === undefined || length === this.#position) return
    const error = new RookeryError('BYTE_STREAM_LENGTH', `${length} bytes were announced, ${this.#position} written`, {
      kind: 'usage',
      field: 'length',
      value: length
    })
    this.#breakOff('failed', error)
    throw error
  }

  /** Breaks the stream off: the reader gets BYTE_STREAM_RESET. */
  abort(reason: ByteStreamCode = 'cancelled'): void {
    this.#breakOff(reason, byteStreamOver())
  }

  #breakOff(reason: ByteStreamCode, error: unknown): void {
    if (this.#state === 'over') return
    this.#init.send({ type: 'reset', id: this.id, code: BYTE_STREAM_CODES[reason] }).catch(() => {}) // the peer is gone: it knows
    this.#finish(error instanceof Error ? error : byteStreamOver())
  }

  /** As a web stream; back-pressure is that of {@link write}. */
  writable(): WritableStream<Uint8Array> {
    return new WritableStream<Uint8Array>({
      write: (bytes) => this.write(bytes),
      close: () => this.close(),
      abort: () => this.abort()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.abort()
  }
}
