import { concat } from '../../protocol/bytes.ts'
import { DISCOVERY_PROTOCOL } from '../../protocol/discovery/request.ts'
import { decodeResponseHead, RESPONSE_HEAD_BYTES, type Rejection } from '../../protocol/discovery/response.ts'
import { ITEM_BYTES } from '../../protocol/discovery/sealed-item.ts'
import { RookeryError } from '../errors.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { Host, PeerAddress } from '../net/host.ts'

/** What comes back of a request. Returning `enough` ends the stream. */
export interface Receiver {
  item(bytes: Uint8Array): Promise<'more' | 'enough'>
  reject(rejection: Rejection): Promise<void>
}

/**
 * Sends a request over a stream opened for it alone and reads what comes back until the other side ends it.
 * @throws what opening the stream throws; an answer that is malformed or breaks off is the end of the answers, not an error
 */
export async function sendOn(
  host: Host,
  target: PeerAddress,
  { header, criteria }: { header: Uint8Array; criteria: Uint8Array },
  receiver: Receiver,
  signal: AbortSignal
): Promise<void> {
  const stream = await host.openStream(target, DISCOVERY_PROTOCOL, { signal })
  let ended: 'whole' | 'cut' = 'cut'
  try {
    await stream.write(concat([header, criteria]), { signal })
    await stream.closeWrite()
    ended = await readAnswers(stream, receiver, signal)
  } finally {
    if (ended === 'whole') await stream.close()
    else stream.reset(new Error('the request is over'))
  }
}

async function readAnswers(stream: ByteStream, receiver: Receiver, signal: AbortSignal): Promise<'whole' | 'cut'> {
  for (;;) {
    const bytes = await readOrEnd(stream, RESPONSE_HEAD_BYTES, signal)
    if (bytes === undefined) return 'whole'
    let head: ReturnType<typeof decodeResponseHead>
    try {
      head = decodeResponseHead(bytes)
    } catch {
      return 'cut'
    }
    if (head.type === 'rej') {
      await receiver.reject(head)
      continue
    }
    for (let i = 0; i < head.count; i++) {
      const item = await readOrEnd(stream, ITEM_BYTES, signal)
      if (item === undefined || (await receiver.item(item)) === 'enough') return 'cut'
    }
  }
}

async function readOrEnd(stream: ByteStream, length: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
  try {
    return await stream.read(length, { signal })
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof RookeryError && (error.code === 'STREAM_ENDED' || error.code === 'STREAM_RESET')) return undefined
    throw error
  }
}
