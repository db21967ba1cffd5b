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
