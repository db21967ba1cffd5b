import { HEADER_BYTES, type Header, headerOf } from '../../protocol/session/header.ts'
import type { ByteStream } from '../net/byte-stream.ts'

/** A frame up to this size is read into a buffer that the next one reuses; a larger one gets its own. */
const KEPT_BYTES_MAX = 66_560
/** A stream of small frames holds no more than this. */
const KEPT_BYTES_MIN = 512

/**
 * The frames of one stream, one at a time. A header is checked (version, type, flags, length) before any of its body is read.
 * Frames share a buffer: copy what outlives the next call.
 */
export class FrameReader {
  readonly #stream: ByteStream
  #buffer = new Uint8Array(KEPT_BYTES_MIN)

  constructor(stream: ByteStream) {
    this.#stream = stream
  }

  /** @throws ProtocolError those of `headerOf`; RookeryError `STREAM_ENDED`, `STREAM_RESET`; or the signal's reason */
  async next(options: { signal?: AbortSignal } = {}): Promise<Uint8Array> {
    const head = this.#buffer.subarray(0, HEADER_BYTES)
    await this.#stream.readInto(head, options)
    const frame = this.#roomFor(HEADER_BYTES + headerOf(head).bodyBytes)
    await this.#stream.readInto(frame.subarray(HEADER_BYTES), options)
    return frame
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
  options: { signal?: AbortSignal } = {}
): Promise<{ frame: Uint8Array; header: Header }> {
  const frame = await new FrameReader(stream).next(options)
  return { frame, header: headerOf(frame.subarray(0, HEADER_BYTES)) }
}
