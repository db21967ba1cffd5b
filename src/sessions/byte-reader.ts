import { equals } from '../../protocol/bytes.ts'
import { BYTE_STREAM_CODES, type ByteFrame, type ByteStreamCode } from '../../protocol/session/byte-frames.ts'
import { Fifo } from '../../protocol/session/fifo.ts'
import { runningSha256 } from '../platform/running-hash.ts'
import { withSignal } from '../platform/with-signal.ts'
import { byteStreamCorrupt, byteStreamOver, byteStreamReset } from './byte-errors.ts'
import type { ByteStreamMode } from './byte-writer.ts'

/** What an earlier process of the reader synced of a durable stream. */
export interface HeldBytes {
  bytes: number
  /** those bytes again, for the SHA-256 of the whole */
  content: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>
}

export interface ByteReaderInit {
  id: Uint8Array
  mode: ByteStreamMode
  label: string
  length: number | undefined
  send: (frame: ByteFrame) => Promise<void>
  over: () => void
}

type Piece = Extract<ByteFrame, { type: 'data' | 'fin' }>

/**
 * The reading end of a byte stream: an async iterable of chunks. Asking for the next chunk says that the one before is done with (durable: synced),
 * and only then may the writer send more.
 */
export class ByteReader implements AsyncIterable<Uint8Array> {
  readonly id: Uint8Array
  readonly mode: ByteStreamMode
  readonly label: string
  /** what the writer announced, if it did */
  readonly length: number | undefined
  readonly #init: ByteReaderInit
  readonly #hash = runningSha256()
  /** what came and was not read; bounded by the channel's window */
  readonly #queue = new Fifo<{ piece: Piece; handled: () => void }>()
  readonly #accepted = Promise.withResolvers<void>()
  #handled: (() => void) | undefined
  #wake: (() => void) | undefined
  #position = 0
  #tail = 0
  #state: 'offered' | 'open' | 'over' = 'offered'
  #answerOpen = false
  #failure: Error | undefined
  #waiting = false

  constructor(init: ByteReaderInit) {
    this.id = init.id
    this.mode = init.mode
    this.label = init.label
    this.length = init.length
    this.#init = init
  }

  /** Bytes read so far, those of an earlier process included. */
  get position(): number {
    return this.#position
  }

  get isOver(): boolean {
    return this.#state === 'over'
  }

  // ── the endpoint's side ──

  /**
   * OPEN came, for the first time or again: answered at once, or when the stream is accepted. Resolves when it counts as handled: a durable one
   * once the writer has the answer, so that after a crash it comes again and is answered again.
   */
  open(): Promise<void> {
    if (this.#state === 'over') return Promise.resolve()
    if (this.#state === 'open') return this.#answer()
    this.#answerOpen = true
    return this.#accepted.promise
  }

  push(piece: Piece): Promise<void> {
    if (this.#state === 'over') return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#queue.push({ piece, handled: resolve })
    if (piece.type === 'data') this.#tail = Math.max(this.#tail, Number(piece.offset) + piece.bytes.length)
    this.#wake?.()
    return promise
  }

  fail(error: Error): void {
    if (this.#state === 'over') return
    this.#failure = error
    this.#finish()
  }

  reset(code: number): void {
    this.fail(byteStreamReset(code))
  }

  #finish(): void {
    if (this.#state === 'over') return
    this.#state = 'over'
    this.#accepted.resolve()
    this.#handled?.()
    this.#handled = undefined
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) next.handled()
    this.#wake?.()
    this.#init.over()
  }

  /** Takes the stream, with what an earlier process synced of it. @throws RookeryError why it ended meanwhile */
  async accept(held: HeldBytes | undefined): Promise<void> {
    for await (const bytes of held?.content() ?? []) {
      this.#hash.update(bytes)
      this.#position += bytes.length
    }
    if (held !== undefined && this.#position !== held.bytes) {
      throw new TypeError(`what is held of the stream has ${this.#position} bytes, not ${held.bytes}`)
    }
    if (this.#failure !== undefined) throw this.#failure
    this.#state = 'open'
    if (this.#answerOpen) this.#accepted.resolve(this.#answer())
    else this.#accepted.resolve()
  }

  async #answer(): Promise<void> {
    const offset = BigInt(Math.max(this.#position, this.#tail))
    const told = this.#init.send({ type: 'accept', id: this.id, offset })
    const settled = told.catch(() => {}) // the session is over, and the stream with it
    if (this.mode === 'durable') await settled
  }

  // ── the application's side ──

  /**
   * The next chunk; undefined at the end, once length and SHA-256 agreed. The chunk is a view of what came: copy what you keep.
   * @throws RookeryError `BYTE_STREAM_CORRUPT`, `BYTE_STREAM_RESET`, `BYTE_STREAM_LOST`; or the signal's reason, which ends the waiting alone
   */
  async read({ signal }: { signal?: AbortSignal } = {}): Promise<Uint8Array | undefined> {
    if (this.#waiting) throw new TypeError('a read of this byte stream is under way')
    this.#waiting = true
    try {
      for (;;) {
        signal?.throwIfAborted()
        this.#handled?.()
        this.#handled = undefined
        if (this.#failure !== undefined) throw this.#failure
        if (this.#state === 'over') return undefined
        const next = this.#queue.shift()
        if (next === undefined) await this.#arrival(signal)
        else if (next.piece.type === 'fin') await this.#check(next.piece, next.handled)
        else {
          const chunk = this.#chunk(next.piece)
          if (chunk === undefined) next.handled()
          else {
            this.#handled = next.handled
            return chunk
          }
        }
      }
    } finally {
      this.#waiting = false
    }
  }

  async #arrival(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    await withSignal(promise, signal)
  }

  /** @returns undefined for what is held already */
  #chunk({ offset, bytes }: Extract<Piece, { type: 'data' }>): Uint8Array | undefined {
    const at = Number(offset)
    if (at > this.#position) {
      this.#refuse('gap', byteStreamCorrupt(`it goes on at byte ${at}, ${this.#position} are here`, { at, held: this.#position }))
      return undefined
    }
    const fresh = bytes.subarray(this.#position - at)
    if (fresh.length === 0) return undefined
    this.#hash.update(fresh)
    this.#position += fresh.length
    return fresh
  }

  async #check({ total, sha256 }: Extract<Piece, { type: 'fin' }>, handled: () => void): Promise<void> {
    const digest = new Uint8Array(this.#hash.digest())
    const expected = this.length ?? Number(total)
    if (Number(total) !== this.#position || expected !== this.#position) {
      this.#refuse('corrupt', byteStreamCorrupt(`${total} bytes were announced, ${this.#position} came`, { total: Number(total) }))
    } else if (!equals(digest, sha256)) {
      this.#refuse('corrupt', byteStreamCorrupt('its SHA-256 is another than the writer says'))
    } else {
      const told = this.#init.send({ type: 'done', id: this.id })
      if (this.mode === 'durable') {
        // FIN stays unacknowledged until the writer has DONE: after a crash it comes again, and is answered again
        told.then(handled, () => {})
      } else {
        told.catch(() => {}) // the writer learns of the lost connection by itself
        handled()
      }
      this.#finish()
      return
    }
    handled()
  }

  #refuse(code: ByteStreamCode, error: Error): void {
    this.#init.send({ type: 'stop', id: this.id, code: BYTE_STREAM_CODES[code] }).catch(() => {}) // a writer that is gone needs no word
    this.fail(error)
  }

  /** Reads no more: what is under way is dropped, and the writer gets BYTE_STREAM_STOPPED. */
  cancel(code: ByteStreamCode = 'cancelled'): void {
    if (this.#state !== 'over') this.#refuse(code, byteStreamOver())
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (let chunk = await this.read(); chunk !== undefined; chunk = await this.read()) yield chunk
    } finally {
      this.cancel()
    }
  }

  /** As a web stream; back-pressure is that of {@link read}. */
  readable(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const chunk = await this.read()
          if (chunk === undefined) controller.close()
          else controller.enqueue(chunk)
        },
        cancel: () => this.cancel()
      },
      { highWaterMark: 0 }
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cancel()
  }
}
