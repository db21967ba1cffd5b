import type { Logger, Stream, StreamMuxer, StreamMuxerEvents, StreamMuxerStatus } from '@libp2p/interface'
import { TypedEventEmitter } from '@libp2p/interface'
import { AbstractMultiaddrConnection, type AbstractMultiaddrConnectionInit, type SendResult } from '@libp2p/utils'
import type { Uint8ArrayList } from 'uint8arraylist'
import { DirectStream, type StreamNote } from './direct-stream.ts'
import { useLeanEvents } from './lean-events.ts'

/** What one end of a connection tells the other. */
export type Note =
  | { kind: 'open'; stream: number; protocol: string }
  | { kind: 'stream'; stream: number; note: StreamNote }
  | { kind: 'close' }

/** Where notes go: over the link to the other end, in this thread or in another. */
export interface Wire {
  send(note: Note): void
  /** one round trip and the peer's word on the protocol; rejects where it does not speak it */
  opening(protocol: string): Promise<void>
  /** no more notes will come or go */
  end(): void
}

/** The raw connection: it carries nothing itself, its streams go their own way. */
export class DirectConnection extends AbstractMultiaddrConnection {
  readonly muxer: DirectMuxer

  constructor(init: AbstractMultiaddrConnectionInit, wire: Wire) {
    super(init)
    this.muxer = new DirectMuxer(init.log, wire)
    this.addEventListener(
      'close',
      () => {
        this.muxer.abort(new Error('the connection closed'))
        wire.send({ kind: 'close' })
        wire.end()
      },
      { once: true }
    )
  }

  receive(note: Note): void {
    if (note.kind === 'close') {
      if (this.status === 'open' || this.status === 'closing') this.onTransportClosed()
    } else this.muxer.receive(note)
  }

  override sendData(data: Uint8ArrayList): SendResult {
    return { sentBytes: data.byteLength, canSendMore: true }
  }

  override sendReset(): void {
    // its close event tells the other side
  }

  override async sendClose(): Promise<void> {
    // the same
  }

  override sendPause(): void {}

  override sendResume(): void {}
}

/** Streams without frames: each end hands the other its notes. */
export class DirectMuxer extends TypedEventEmitter<StreamMuxerEvents> implements StreamMuxer {
  readonly protocol = 'direct'
  status: StreamMuxerStatus = 'open'
  readonly #log: Logger
  readonly #wire: Wire
  readonly #streams = new Map<number, DirectStream>()
  /** opened by the peer before anyone listened here; as many as it opens within one upgrade */
  #early: DirectStream[] = []
  #next = 0

  constructor(log: Logger, wire: Wire) {
    super()
    this.#log = log
    this.#wire = wire
  }

  get streams(): Stream[] {
    return [...this.#streams.values()]
  }

  /** Streams that the peer opened before anyone listened are for who listens now. */
  listened(): void {
    if (this.#early.length === 0) return
    queueMicrotask(() => {
      for (const stream of this.#early.splice(0)) this.safeDispatchEvent('stream', { detail: stream })
    })
  }

  async createStream(options: { signal?: AbortSignal; protocol?: string } = {}): Promise<Stream> {
    const { signal, protocol = '' } = options
    signal?.throwIfAborted()
    await this.#wire.opening(protocol)
    signal?.throwIfAborted()
    if (this.status !== 'open') throw new Error(`the connection is ${this.status}`)
    const id = this.#next++
    const stream = this.#adopt(id, 'outbound', protocol)
    this.#wire.send({ kind: 'open', stream: id, protocol })
    return stream
  }

  receive(note: Exclude<Note, { kind: 'close' }>): void {
    if (this.status !== 'open') return
    if (note.kind === 'open') {
      const stream = this.#adopt(-1 - note.stream, 'inbound', note.protocol)
      if (this.listenerCount('stream') === 0) this.#early.push(stream)
      else this.safeDispatchEvent('stream', { detail: stream })
    } else this.#streams.get(-1 - note.stream)?.receive(note.note)
  }

  /** Ours are numbered from 0 up, the peer's from -1 down: each side names a stream by the other's sign. */
  #adopt(id: number, direction: 'inbound' | 'outbound', protocol: string): DirectStream {
    const stream = new DirectStream({ id: String(id), direction, protocol, log: this.#log }, (note) => {
      if (this.status !== 'closed') this.#wire.send({ kind: 'stream', stream: id, note })
    })
    this.#streams.set(id, stream)
    stream.addEventListener('close', () => this.#streams.delete(id), { once: true })
    return stream
  }

  async close(options?: { signal?: AbortSignal }): Promise<void> {
    if (this.status !== 'open') return
    this.status = 'closing'
    await Promise.allSettled(this.streams.map((stream) => stream.close(options)))
    this.abort(new Error('the connection closes'))
  }

  abort(error: Error): void {
    if (this.status === 'closed') return
    for (const stream of this.streams) stream.abort(error)
    this.status = 'closed'
    this.#streams.clear()
  }
}

useLeanEvents(DirectConnection.prototype)
useLeanEvents(DirectMuxer.prototype, (muxer, type) => {
  if (type === 'stream') muxer.listened()
})
