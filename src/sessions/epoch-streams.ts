import { LazyMap, LazySet } from '../../protocol/lazy.ts'
import { CHANNELS_MAX } from '../../protocol/session/ready.ts'
import { CONTROL_CHANNEL, HANDSHAKE_STREAM } from '../../protocol/session/stream-init.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import { FrameReader } from './frame-reader.ts'
import { Lane, type LaneFrame } from './lane.ts'
import type { FrameRoom } from './large-frames.ts'

export interface EpochStreamsInit {
  /** the stream that carried the handshake */
  control: ByteStream
  /** opens another stream to the same peer */
  open: () => Promise<ByteStream>
  isOver: () => boolean
  nextFrame: (channel: number) => LaneFrame | undefined
  /** bounds how many large frames are read at once; absent: nothing does */
  frames: FrameRoom | undefined
  /** undefined, or resolves when a stream may be read on: handlers still have what came in earlier epochs */
  room: (stream: number) => Promise<unknown> | undefined
  /** one whole frame came; `stream`: its number, {@link HANDSHAKE_STREAM} for the control stream */
  take: (stream: number, frame: Uint8Array) => void
  failed: (stream: ByteStream | undefined, error: unknown) => void
  /** a write on the control stream failed */
  controlFailed: (error: unknown) => void
}

/** The streams of one epoch: one a channel and direction, and the control stream both ways. */
export class EpochStreams {
  readonly #init: EpochStreamsInit
  /** by channel that we send on; at most CHANNELS_MAX */
  readonly #lanes = new LazyMap<number, Lane>()
  /** by channel, the stream that carries it from us; at most CHANNELS_MAX */
  readonly #carriers = new LazyMap<number, ByteStream>()
  /** every stream of the epoch; at most 2 × CHANNELS_MAX + 1 */
  readonly #streams = new LazySet<ByteStream>()
  /** streams of the peer that came before its READY: unread until then */
  #early: { stream: ByteStream; frame: Uint8Array }[] | undefined = []
  #next = HANDSHAKE_STREAM + 1

  constructor(init: EpochStreamsInit) {
    this.#init = init
  }

  get size(): number {
    return this.#streams.size
  }

  /** Writes on the control stream, `first` in front of the first frame, and reads it. */
  start(first: Uint8Array | undefined): void {
    const { control } = this.#init
    this.#streams.add(control)
    this.#carriers.set(CONTROL_CHANNEL, control)
    let before = first
    const next = () => {
      const frame = this.#init.nextFrame(CONTROL_CHANNEL)
      if (frame === undefined || before === undefined) return frame
      const bytes = new Uint8Array(before.length + frame.bytes.length)
      bytes.set(before)
      bytes.set(frame.bytes, before.length)
      before = undefined
      return { ...frame, bytes }
    }
    this.#lanes.set(CONTROL_CHANNEL, new Lane(async () => control, next, this.#init.controlFailed))
  }

  readControl(): void {
    void this.#read(this.#init.control, HANDSHAKE_STREAM, undefined)
  }

  /** The peer's stream for another channel, whose first frame was read to find this session. */
  adopt(stream: ByteStream, frame: Uint8Array): void {
    if (this.#init.isOver() || this.#streams.size > 2 * CHANNELS_MAX) {
      stream.reset(new Error('the session takes no further stream'))
      return
    }
    this.#streams.add(stream)
    if (this.#early !== undefined) this.#early.push({ stream, frame })
    else void this.#read(stream, this.#next++, frame)
  }

  /** The peer's READY is there: its other streams are read. */
  opened(): void {
    const early = this.#early ?? []
    this.#early = undefined
    for (const { stream, frame } of early) void this.#read(stream, this.#next++, frame)
  }

  pump(channel: number): void {
    let lane = this.#lanes.get(channel)
    if (lane === undefined) {
      lane = new Lane(
        () => this.#carrier(channel),
        () => this.#init.nextFrame(channel),
        (error) => this.#init.failed(this.#carriers.get(channel), error)
      )
      this.#lanes.set(channel, lane)
    }
    lane.pump()
  }

  /** Resolves once what was pulled for the control stream is written. */
  async controlIdle(): Promise<void> {
    await this.#lanes.get(CONTROL_CHANNEL)?.idle()
  }

  /** The stream that carries a channel from us: opened at the first frame. */
  async #carrier(channel: number): Promise<ByteStream> {
    const held = this.#carriers.get(channel)
    if (held !== undefined) return held
    const stream = await this.#init.open()
    if (this.#init.isOver()) {
      stream.reset(new Error('the session ended'))
      return stream
    }
    this.#carriers.set(channel, stream)
    this.#streams.add(stream)
    void this.#read(stream, this.#next++, undefined)
    return stream
  }

  async #read(stream: ByteStream, number: number, first: Uint8Array | undefined): Promise<void> {
    const frames = new FrameReader(stream, this.#init.frames)
    try {
      let frame = first
      while (this.#streams.has(stream)) {
        const room = number === HANDSHAKE_STREAM ? undefined : this.#init.room(number)
        if (room !== undefined) {
          frames.done()
          await room
        }
        frame ??= await frames.next()
        this.#init.take(number, frame)
        frame = undefined
      }
    } catch (error) {
      this.#init.failed(stream, error)
    } finally {
      frames.done()
    }
  }

  /** Lets all go: by reset where there is an error. @returns what was held */
  drop(error: Error | undefined): ByteStream[] {
    const streams = [...this.#streams]
    const reason = error ?? new Error('the session ended')
    for (const { stream } of this.#early ?? []) stream.reset(reason)
    if (error !== undefined) for (const stream of streams) stream.reset(error)
    this.#streams.clear()
    this.#early = []
    return streams
  }
}
