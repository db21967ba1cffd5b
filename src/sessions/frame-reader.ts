import { HEADER_BYTES, type Header, headerOf } from '../../protocol/session/header.ts'
import type { ByteStream } from '../net/byte-stream.ts'

/**
 * One whole frame. Its header is checked (version, type, flags, length) before any of the body is read.
 * @throws ProtocolError those of `headerOf`; RookeryError `STREAM_ENDED`, `STREAM_RESET`; or the signal's reason
 */
export async function readSessionFrame(
  stream: ByteStream,
  options: { signal?: AbortSignal } = {}
): Promise<{ frame: Uint8Array; header: Header }> {
  const head = await stream.read(HEADER_BYTES, options)
  const header = headerOf(head)
  const body = await stream.read(header.bodyBytes, options)
  const frame = new Uint8Array(HEADER_BYTES + body.length)
  frame.set(head)
  frame.set(body, HEADER_BYTES)
  return { frame, header }
}
