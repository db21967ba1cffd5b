import { AbstractStream, type AbstractStreamInit, type SendResult } from '@libp2p/utils'
import type { Uint8ArrayList } from 'uint8arraylist'
import { useLeanEvents } from './lean-events.ts'

/** Bytes that the other side has not read, from which on a writer waits: as much as QUIC lets be under way. */
const WINDOW_BYTES = 1_048_576

/** What one end of a stream tells the other; each arrives in order, after the link's time. */
export type StreamNote =
  | { kind: 'data'; bytes: Uint8Array }
  | { kind: 'end' | 'stop' | 'reset' }
  /** the reader has made room */
  | { kind: 'room'; bytes: number }

/** One end of a stream whose bytes go straight to the other end's memory. */
export class DirectStream extends AbstractStream {
  readonly #tell: (note: StreamNote) => void
  #unreadThere = 0
  #unreadHere = 0

  constructor(init: AbstractStreamInit, tell: (note: StreamNote) => void) {
    super(init)
    this.#tell = tell
  }

  /** What came before anyone listened is for who listens now; by then the constructor of a listener has ended. */
  listened(): void {
    if (this.readBuffer.byteLength > 0) queueMicrotask(() => this.dispatchReadBuffer())
  }

  /** A note of the other end arrived. */
  receive(note: StreamNote) {
    switch (note.kind) {
      case 'data':
        if (this.status !== 'open' && this.status !== 'closing') return
        this.#unreadHere += note.bytes.byteLength
        this.onData(note.bytes)
        return this.#settle()
      case 'room':
        this.#unreadThere -= note.bytes
        if (this.#unreadThere < WINDOW_BYTES) this.safeDispatchEvent('drain')
        return
      case 'end':
        return this.onRemoteCloseWrite()
      case 'stop':
        this.#unreadThere = 0
        this.onRemoteCloseRead()
        this.safeDispatchEvent('drain')
        return
      case 'reset':
        if (this.status === 'open' || this.status === 'closing') this.onRemoteReset()
    }
  }

  override sendData(data: Uint8ArrayList): SendResult {
    // a copy: the writer may use its memory again
    const bytes = data.slice()
    this.#unreadThere += bytes.byteLength
    this.#tell({ kind: 'data', bytes })
    return { sentBytes: bytes.byteLength, canSendMore: this.#unreadThere < WINDOW_BYTES }
  }

  override sendReset(): void {
    this.#tell({ kind: 'reset' })
  }

  override async sendCloseWrite(): Promise<void> {
    this.#tell({ kind: 'end' })
  }

  override async sendCloseRead(): Promise<void> {
    this.#tell({ kind: 'stop' })
  }

  override sendPause(): void {
    // room is told as it comes about
  }

  override sendResume(): void {
    this.#settle()
  }

  protected override dispatchReadBuffer(): void {
    super.dispatchReadBuffer()
    this.#settle()
  }

  /** Tells the writer of what was read, once that is worth a note. */
  #settle(): void {
    const read = this.#unreadHere - this.readBuffer.byteLength
    if (read <= 0 || (read < WINDOW_BYTES / 4 && this.readBuffer.byteLength > 0)) return
    this.#unreadHere -= read
    this.#tell({ kind: 'room', bytes: read })
  }
}

useLeanEvents(DirectStream.prototype, (stream, type) => {
  if (type === 'message') stream.listened()
})
