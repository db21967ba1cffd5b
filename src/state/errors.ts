import { ProtocolError } from '../../protocol/errors.ts'
import { type ErrorKind, RookeryError } from '../errors.ts'

export type StateErrorCode = 'ESE_GONE' | 'ESE_LOST' | 'ESE_REFUSED' | 'ESE_LIMIT' | 'ESE_SCHEMA' | 'ESE_EXCLUSIVE'

const KINDS: Record<StateErrorCode, ErrorKind> = {
  ESE_GONE: 'unavailable',
  ESE_LOST: 'unavailable',
  ESE_REFUSED: 'usage',
  ESE_LIMIT: 'refused',
  ESE_SCHEMA: 'refused',
  ESE_EXCLUSIVE: 'conflict'
}

export function stateError(
  code: StateErrorCode,
  message: string,
  init: { field?: string; value?: unknown; remedy?: string; cause?: unknown; data?: Record<string, unknown> } = {}
): RookeryError {
  return new RookeryError(code, message, { kind: KINDS[code], ...init })
}

/** Overwritten: by a rotation of its writer, or by the end of its session (ESE-04, ESE-05). */
export function gone(reason: string): RookeryError {
  return stateError('ESE_GONE', `the state is gone (${reason})`, {
    remedy: 'write it anew: into the session as it goes on under its new identity, or into a new session',
    data: { reason }
  })
}

export function lost(side: 'own' | 'peer'): RookeryError {
  return stateError(
    'ESE_LOST',
    'the values of this state are not here: the node came back without them, or had no room; the peer sends them again',
    {
      remedy: side === 'own' ? 'wait until `status` is "current", or write it whole with `replace`' : 'wait until `status` is "current"'
    }
  )
}

/** What the pure map refuses, as a caller is told. */
export function refusedWrite(cause: unknown): unknown {
  if (!(cause instanceof ProtocolError)) return cause
  const field = cause.field === undefined ? {} : { field: cause.field }
  if (cause.code === 'TOO_LARGE') {
    return stateError('ESE_LIMIT', cause.message, {
      ...field,
      remedy: 'write less, or delete keys first; under a contract the bound is its max ESE bytes',
      cause
    })
  }
  return stateError('ESE_REFUSED', cause.message, {
    ...field,
    remedy: 'values are JSON or bytes; a patch must fit what the key holds',
    cause
  })
}
