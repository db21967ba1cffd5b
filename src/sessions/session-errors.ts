import { ProtocolError } from '../../protocol/errors.ts'
import type { ErrorKind } from '../errors.ts'
import { RookeryError } from '../errors.ts'

export type SessionErrorCode =
  | 'HANDSHAKE_FAILED'
  | 'SESSION_REFUSED'
  | 'SESSION_BUSY'
  | 'SESSION_CLOSED'
  | 'SESSION_LOST'
  | 'SESSION_QUEUE_FULL'
  | 'MESSAGE_TOO_LARGE'

const KINDS: Record<SessionErrorCode, ErrorKind> = {
  HANDSHAKE_FAILED: 'unavailable',
  SESSION_REFUSED: 'refused',
  SESSION_BUSY: 'unavailable',
  SESSION_CLOSED: 'unavailable',
  SESSION_LOST: 'unavailable',
  SESSION_QUEUE_FULL: 'unavailable',
  MESSAGE_TOO_LARGE: 'refused'
}

export function sessionError(
  code: SessionErrorCode,
  message: string,
  init: { field?: string; value?: unknown; remedy?: string; cause?: unknown; data?: Record<string, unknown> } = {}
): RookeryError {
  return new RookeryError(code, message, { kind: KINDS[code], ...init })
}

/** Sent and never acknowledged: the peer may or may not have done it. */
export function outcomeUnknown(reason: string): RookeryError {
  return sessionError('SESSION_LOST', `the session was lost (${reason}) before the peer acknowledged: the outcome is unknown`, {
    remedy: 'send the same message again under the same id once a new session is open',
    data: { reason, outcome: 'unknown' }
  })
}

/** Never left this node. */
export function neverSent(reason: string): RookeryError {
  return sessionError('SESSION_LOST', `the session was lost (${reason}) before the message was sent`, {
    remedy: 'open a new session and send again',
    data: { reason, outcome: 'not-sent' }
  })
}

/** What `open` says of an exchange that ended between ACK and the peer's READY. */
export function openingFailed(cause: unknown, { reason }: { reason: string }): RookeryError {
  if (cause instanceof RookeryError && cause.code !== 'SESSION_CLOSED' && cause.code !== 'STREAM_ENDED' && cause.code !== 'STREAM_RESET')
    return cause
  switch (reason) {
    case 'capacity':
      return sessionError('SESSION_BUSY', 'the peer has no room for another session', {
        remedy: 'try again later',
        cause,
        data: { reason }
      })
    case 'policy':
    case 'superseded':
    case 'unknownSession':
    case 'contract':
    case 'shutdown':
      return sessionError('SESSION_REFUSED', `the peer refused the session (${reason})`, { cause, data: { reason } })
    default: {
      const code = cause instanceof ProtocolError ? cause.code : reason
      return sessionError('HANDSHAKE_FAILED', `the session ended before it was open (${code})`, { cause, data: { reason: code } })
    }
  }
}
