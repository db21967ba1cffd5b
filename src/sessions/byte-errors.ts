import { byteStreamCodeName } from '../../protocol/session/byte-frames.ts'
import { RookeryError } from '../errors.ts'

export const STREAM_REOPEN_REMEDY = 'open the stream again under the same id: a durable one goes on where the peer has it'

/** The epoch of a live stream ended, or the session of any. */
export function byteStreamLost(reason: string): RookeryError {
  return new RookeryError('BYTE_STREAM_LOST', `the byte stream was lost with its connection: ${reason}`, {
    kind: 'unavailable',
    remedy: STREAM_REOPEN_REMEDY,
    data: { reason }
  })
}

/** The reader wants no more. */
export function byteStreamStopped(code: number): RookeryError {
  const reason = byteStreamCodeName(code)
  return new RookeryError('BYTE_STREAM_STOPPED', `the reader stopped the byte stream (${reason})`, {
    kind: 'refused',
    data: { reason, code }
  })
}

/** The writer broke off. */
export function byteStreamReset(code: number): RookeryError {
  const reason = byteStreamCodeName(code)
  return new RookeryError('BYTE_STREAM_RESET', `the writer broke the byte stream off (${reason})`, {
    kind: 'unavailable',
    data: { reason, code }
  })
}

/** What came is not what was sent. */
export function byteStreamCorrupt(what: string, data: Record<string, unknown> = {}): RookeryError {
  return new RookeryError('BYTE_STREAM_CORRUPT', `the byte stream does not hold together: ${what}`, {
    kind: 'conflict',
    remedy: 'drop what was read and ask for the stream again under a new id',
    data
  })
}

export function byteStreamOver(): RookeryError {
  return new RookeryError('BYTE_STREAM_ENDED', 'the byte stream is over', { kind: 'usage' })
}
