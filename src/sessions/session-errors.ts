import { ProtocolError } from '../../protocol/errors.ts'
import { CLOSE, decodeClose } from '../../protocol/session/close.ts'
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
  | 'CONTRACT_REFUSED'
  | 'CONTRACT_UNMET'
  | 'CONTRACT_LIMIT'
  | 'EXCLUSIVE_UNMET'

const KINDS: Record<SessionErrorCode, ErrorKind> = {
  HANDSHAKE_FAILED: 'unavailable',
  SESSION_REFUSED: 'refused',
  SESSION_BUSY: 'unavailable',
  SESSION_CLOSED: 'unavailable',
  SESSION_LOST: 'unavailable',
  SESSION_QUEUE_FULL: 'unavailable',
  MESSAGE_TOO_LARGE: 'refused',
  CONTRACT_REFUSED: 'refused',
  CONTRACT_UNMET: 'conflict',
  CONTRACT_LIMIT: 'refused',
  EXCLUSIVE_UNMET: 'conflict'
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

/** What is to be sent, or to last, goes over the session's contract: it was refused here, and the session goes on. */
export function contractLimit(breach: ProtocolError): RookeryError {
  return sessionError('CONTRACT_LIMIT', breach.message, {
    ...(breach.field === undefined ? {} : { field: breach.field }),
    remedy: 'keep within the contract (`rookery session show`), or close the session and open one that grants more',
    cause: breach
  })
}

/** Never left this node. */
export function neverSent(reason: string): RookeryError {
  return sessionError('SESSION_LOST', `the session was lost (${reason}) before the message was sent`, {
    remedy: 'open a new session and send again',
    data: { reason, outcome: 'not-sent' }
  })
}

const CLOSE_NAMES = new Map<number, string>(Object.entries(CLOSE).map(([name, code]) => [code, name]))

/** What a CLOSE frame hints at; undefined where it cannot be read. */
export function closeName(frame: Uint8Array): string | undefined {
  try {
    const { code } = decodeClose(frame)
    return CLOSE_NAMES.get(code) ?? `CLOSE-${code}`
  } catch {
    return undefined
  }
}

/**
 * An exchange ended without a session.
 * @param hint - of the peer's CLOSE, where one came
 */
export function handshakeFailed(error: ProtocolError, hint: string | undefined): RookeryError {
  if (hint === 'BUSY') {
    return sessionError('SESSION_BUSY', 'the peer has no room for another session', {
      remedy: 'try again later',
      cause: error,
      data: { reason: hint }
    })
  }
  if (error.code === 'CONTRACT_REFUSED') {
    return sessionError('CONTRACT_REFUSED', error.message, {
      ...(error.field === undefined ? {} : { field: error.field }),
      remedy: 'ask for less, or open a session without a contract',
      cause: error,
      data: { reason: error.code }
    })
  }
  const reason = hint ?? error.code
  return sessionError('HANDSHAKE_FAILED', `the handshake failed (${reason}): ${error.message}`, { cause: error, data: { reason } })
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

export function nodeStopping(): RookeryError {
  return sessionError('SESSION_CLOSED', 'the node is stopping', { data: { reason: 'shutdown' } })
}
