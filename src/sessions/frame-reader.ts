import { HEADER_BYTES, type Header, headerOf } from '../../protocol/session/header.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import { withSignal } from '../platform/with-signal.ts'
import type { FrameRoom } from './large-frames.ts'

/** A frame up to this size is read into a buffer that the next one reuses; a larger one gets its own. */
const KEPT_BYTES_MAX = 66_560
/** A stream of small frames holds no more than this. */
const KEPT_BYTES_MIN = 512

export interface ReadFrameOptions {
  signal?: AbortSignal
  /** looks at a header before anything of its body is read; throws what ends the reading, or says when it may go on */
  admit?: (header: Header) => Promise<void> | undefined
}

/**
 * The frames of one stream, one at a time. A header is checked (version, type, flags, length) before any of its body is read.
 * Frames share a buffer: copy what outlives the next call.
 */
export class FrameReader {
  readonly #stream: ByteStream
  readonly #room: FrameRoom | undefined
  #buffer = new Uint8Array(KEPT_BYTES_MIN)
  #release: (() => void) | undefined

  /** @param room - bounds how many large frames are read at once; absent: nothing does */
  constructor(stream: ByteStream, room?: FrameRoom) {
    this.#stream = stream
    this.#room = room
  }

  /** @throws ProtocolError those of `headerOf`; RookeryError `STREAM_ENDED`, `STREAM_RESET`; what `admit` throws; or the signal's reason */
  async next({ signal, admit }: ReadFrameOptions = {}): Promise<Uint8Array> {
    this.done()
    const options = signal === undefined ? {} : { signal }
    const head = this.#buffer.subarray(0, HEADER_BYTES)
    await this.#stream.readInto(head, options)
    const header = headerOf(head)
    const admitted = admit?.(header)
    if (admitted !== undefined) await withSignal(admitted, signal)
    const frameBytes = HEADER_BYTES + header.bodyBytes
    if (frameBytes > KEPT_BYTES_MAX) this.#release = await this.#room?.enter(options)
    const frame = this.#roomFor(frameBytes)
    await this.#stream.readInto(frame.subarray(HEADER_BYTES), options)
    return frame
  }

  /** The last frame is done with, or will never come. */
  done(): void {
    this.#release?.()
    this.#release = undefined
  }

  /** @returns room for the whole frame, its header in place */
  #roomFor(frameBytes: number): Uint8Array {
    if (frameBytes <= this.#buffer.length) return this.#buffer.subarray(0, frameBytes)
    const kept = frameBytes <= KEPT_BYTES_MAX
    const room = new Uint8Array(kept ? Math.min(KEPT_BYTES_MAX, 2 * frameBytes) : frameBytes)
    room.set(this.#buffer.subarray(0, HEADER_BYTES))
    if (kept) this.#buffer = room
    return room.subarray(0, frameBytes)
  }
}

/** One frame of a stream that may have no other. The bytes are the caller's. */
export async function readSessionFrame(
  stream: ByteStream,
  options: ReadFrameOptions & { room?: FrameRoom } = {}
): Promise<{ frame: Uint8Array; header: Header }> {
  const reader = new FrameReader(stream, options.room)
  try {
    const frame = await reader.next(options)
    return { frame, header: headerOf(frame.subarray(0, HEADER_BYTES)) }
  } finally {
    reader.done()
  }
}
