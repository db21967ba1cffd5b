import { RookeryError } from '../errors.ts'
import type { ByteStream } from './byte-stream.ts'

/**
 * One frame: u32 big-endian length ‖ that many bytes. The length is compared with `bytesMax` before anything of the body is read.
 * @throws RookeryError `FRAME_TOO_LARGE`, `STREAM_ENDED`, `STREAM_RESET`; or the signal's reason
 */
export async function readFrame(stream: ByteStream, bytesMax: number, options: { signal?: AbortSignal } = {}): Promise<Uint8Array> {
  const head = await stream.read(4, options)
  const length = new DataView(head.buffer, head.byteOffset, 4).getUint32(0)
  if (length > bytesMax) throw tooLarge(length, bytesMax)
  return stream.read(length, options)
}

/** @throws RookeryError `FRAME_TOO_LARGE`, `STREAM_RESET`; or the signal's reason */
export async function writeFrame(
  stream: ByteStream,
  body: Uint8Array,
  bytesMax: number,
  options: { signal?: AbortSignal } = {}
): Promise<void> {
  if (body.length > bytesMax) throw tooLarge(body.length, bytesMax)
  const frame = new Uint8Array(4 + body.length)
  new DataView(frame.buffer).setUint32(0, body.length)
  frame.set(body, 4)
  await stream.write(frame, options)
}

function tooLarge(length: number, bytesMax: number): RookeryError {
  return new RookeryError('FRAME_TOO_LARGE', `a frame of ${length} bytes, at most ${bytesMax} are taken here`, {
    kind: 'refused',
    field: 'length',
    value: length
  })
}
