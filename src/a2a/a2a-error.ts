import { ERROR_DOMAIN } from '../../protocol/delivery/refusals.ts'
import { type ErrorKind, RookeryError } from '../errors.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'

/** `google.rpc.ErrorInfo.domain` of A2A's own reasons. */
export const A2A_DOMAIN = 'a2a-protocol.org'
const DETAIL = 'type.googleapis.com/google.rpc.'

/** The JSON-RPC codes, A2A's as its 1.0 text assigns them, ours outside the range that it claims. Asleep and full: `protocol/delivery/refusals.ts`. */
export const A2A_CODES = {
  PARSE_ERROR: -32700,
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL_ERROR: -32603,
  STORE_FAILED: -32603,
  TASK_NOT_FOUND: -32001,
  TASK_NOT_CANCELABLE: -32002,
  PUSH_NOTIFICATION_NOT_SUPPORTED: -32003,
  UNSUPPORTED_OPERATION: -32004,
  CONTENT_TYPE_NOT_SUPPORTED: -32005,
  INVALID_AGENT_RESPONSE: -32006,
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: -32007,
  EXTENSION_SUPPORT_REQUIRED: -32008,
  VERSION_NOT_SUPPORTED: -32009,
  RATE_LIMITED: -31005,
  SEND_RATE_LIMITED: -31005,
  PAYLOAD_TOO_LARGE: -31006,
  UNAUTHENTICATED: -31401,
  PERMISSION_DENIED: -31403,
  AGENT_UNKNOWN: -31404,
  AGENT_ROTATED: -31410,
  AGENT_UNREACHABLE: -31502,
  OUTCOME_UNKNOWN: -31504
} as const

export type A2aReason = keyof typeof A2A_CODES

/** HTTP statuses other than 200, which JSON-RPC answers travel with. */
const HTTP_STATUS: Partial<Record<A2aReason, number>> = {
  STORE_FAILED: 500,
  INTERNAL_ERROR: 500,
  RATE_LIMITED: 429,
  SEND_RATE_LIMITED: 429,
  PAYLOAD_TOO_LARGE: 413,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  AGENT_UNKNOWN: 404,
  AGENT_ROTATED: 410,
  AGENT_UNREACHABLE: 502,
  OUTCOME_UNKNOWN: 504
}

/** On the HTTP+JSON binding every error has a status, and the name of its google.rpc code. */
const REST: Partial<Record<A2aReason, [status: number, name: string]>> = {
  TASK_NOT_FOUND: [404, 'NOT_FOUND'],
  AGENT_UNKNOWN: [404, 'NOT_FOUND'],
  METHOD_NOT_FOUND: [404, 'UNIMPLEMENTED'],
  PARSE_ERROR: [400, 'INVALID_ARGUMENT'],
  INVALID_REQUEST: [400, 'INVALID_ARGUMENT'],
  INVALID_PARAMS: [400, 'INVALID_ARGUMENT'],
  CONTENT_TYPE_NOT_SUPPORTED: [400, 'INVALID_ARGUMENT'],
  INTERNAL_ERROR: [500, 'INTERNAL'],
  INVALID_AGENT_RESPONSE: [500, 'INTERNAL'],
  STORE_FAILED: [500, 'INTERNAL'],
  RATE_LIMITED: [429, 'RESOURCE_EXHAUSTED'],
  SEND_RATE_LIMITED: [429, 'RESOURCE_EXHAUSTED'],
  PAYLOAD_TOO_LARGE: [413, 'INVALID_ARGUMENT'],
  UNAUTHENTICATED: [401, 'UNAUTHENTICATED'],
  PERMISSION_DENIED: [403, 'PERMISSION_DENIED'],
  AGENT_UNREACHABLE: [502, 'UNAVAILABLE'],
  OUTCOME_UNKNOWN: [504, 'DEADLINE_EXCEEDED']
}

const OURS: ReadonlySet<A2aReason> = new Set([
  'STORE_FAILED',
  'RATE_LIMITED',
  'SEND_RATE_LIMITED',
  'PAYLOAD_TOO_LARGE',
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'AGENT_UNKNOWN',
  'AGENT_ROTATED',
  'AGENT_UNREACHABLE',
  'OUTCOME_UNKNOWN'
])

export interface FieldViolation {
  /** path inside `params`, e.g. `message.parts[0].raw` */
  field: string
  description: string
}

export interface JsonRpcError {
  code: number
  message: string
  data?: Json
}

/** A refusal in the words of A2A; every binding writes it in its own form, and a receiver decides by `reason`, never by the number. */
export class A2aError extends Error {
  override readonly name = 'A2aError'
  readonly reason: A2aReason
  readonly code: number
  readonly status: number
  readonly metadata: Record<string, string>
  readonly violations: readonly FieldViolation[]
  readonly retryAfterSec: number | undefined

  constructor(
    reason: A2aReason,
    message: string,
    init: {
      metadata?: Record<string, string>
      violations?: readonly FieldViolation[]
      retryAfterSec?: number | undefined
      status?: number
      cause?: unknown
    } = {}
  ) {
    super(message, init.cause === undefined ? undefined : { cause: init.cause })
    this.reason = reason
    this.code = A2A_CODES[reason]
    this.status = init.status ?? HTTP_STATUS[reason] ?? 200
    this.metadata = init.metadata ?? {}
    this.violations = init.violations ?? []
    this.retryAfterSec = init.retryAfterSec
  }

  toJsonRpc(): JsonRpcError {
    return { code: this.code, message: this.message, data: this.#details() }
  }

  /** For the HTTP+JSON binding: status and google.rpc.Status. */
  toRest(): { status: number; body: JsonObject } {
    const [code, name] = REST[this.reason] ?? [this.status === 200 ? 400 : this.status, 'FAILED_PRECONDITION']
    return { status: code, body: { error: { code, status: name, message: this.message, details: this.#details() } } }
  }

  #details(): JsonObject[] {
    const info: JsonObject = {
      '@type': `${DETAIL}ErrorInfo`,
      reason: this.reason,
      domain: OURS.has(this.reason) ? ERROR_DOMAIN : A2A_DOMAIN,
      ...(Object.keys(this.metadata).length > 0 ? { metadata: this.metadata } : {})
    }
    const details = [info]
    if (this.violations.length > 0) {
      details.push({ '@type': `${DETAIL}BadRequest`, fieldViolations: this.violations.map((one) => ({ ...one })) })
    }
    if (this.retryAfterSec !== undefined) details.push({ '@type': `${DETAIL}RetryInfo`, retryDelay: `${this.retryAfterSec}s` })
    return details
  }
}

const REMOTE_TEXT_CHARS_MAX = 1_000
const REMOTE_DETAILS_MAX = 16
/** What another node may make us answer; the rest is about our own door and becomes an internal error of that node. */
const FROM_REMOTE: ReadonlySet<string> = new Set(
  (Object.keys(A2A_CODES) as A2aReason[]).filter((reason) => !['UNAUTHENTICATED', 'STORE_FAILED', 'AGENT_UNREACHABLE'].includes(reason))
)

/** Reads an error that another node sent: by its reason, else by its code; texts are cut, unknown members dropped. */
export function fromRemoteError(error: JsonObject): A2aError {
  const data = Array.isArray(error.data) ? error.data.slice(0, REMOTE_DETAILS_MAX).filter(isRecord) : []
  const info = data.find((one) => typeof one.reason === 'string')
  const byCode = (Object.keys(A2A_CODES) as A2aReason[]).find((reason) => A2A_CODES[reason] === error.code)
  const named = info !== undefined && FROM_REMOTE.has(info.reason as string) ? (info.reason as A2aReason) : byCode
  const reason = named !== undefined && FROM_REMOTE.has(named) ? named : 'INTERNAL_ERROR'
  const metadata: Record<string, string> = {}
  if (isRecord(info?.metadata)) {
    for (const [name, value] of Object.entries(info.metadata).slice(0, REMOTE_DETAILS_MAX)) {
      if (typeof value === 'string') metadata[name.slice(0, 64)] = value.slice(0, REMOTE_TEXT_CHARS_MAX)
    }
  }
  const violations = data
    .flatMap((one) => (Array.isArray(one.fieldViolations) ? one.fieldViolations.slice(0, REMOTE_DETAILS_MAX) : []))
    .filter(isRecord)
    .map(({ field, description }) => ({ field: cut(field), description: cut(description) }))
  const waitSec = data.map(({ retryDelay }) => /^(\d{1,9})s$/.exec(cut(retryDelay))?.[1]).find((text) => text !== undefined)
  return new A2aError(reason, cut(error.message), {
    metadata,
    violations,
    ...(waitSec === undefined ? {} : { retryAfterSec: Number(waitSec) })
  })
}

function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function cut(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, REMOTE_TEXT_CHARS_MAX) : ''
}

export function invalidParams(field: string, description: string, metadata?: Record<string, string>): A2aError {
  return new A2aError('INVALID_PARAMS', `${field}: ${description}`, {
    violations: [{ field, description }],
    ...(metadata !== undefined ? { metadata } : {})
  })
}

/** The answer for a task that is not there and for one that is somebody else's: the same bytes but for the id that was asked (F022). */
export function taskNotFound(): A2aError {
  return new A2aError('TASK_NOT_FOUND', 'no such task')
}

/** What the caller was let in by has ended meanwhile, or before. */
export function grantEnded(): A2aError {
  return new A2aError('UNAUTHENTICATED', 'the grant has ended', { metadata: { cause: 'GRANT_ENDED' } })
}

/** What the node throws, in the words of A2A. Unknown errors say nothing about their cause. */
export function toA2aError(err: unknown): A2aError {
  if (err instanceof A2aError) return err
  if (!(err instanceof RookeryError)) return new A2aError('INTERNAL_ERROR', 'the node failed to handle this request', { cause: err })
  switch (err.code) {
    case 'TODO_UNKNOWN':
      return taskNotFound()
    case 'TODO_TERMINAL':
      return new A2aError('UNSUPPORTED_OPERATION', 'the task has ended: send a new message in its context', { cause: err })
    case 'MESSAGE_ID_REUSED':
      return invalidParams('message.messageId', 'was used for another message before', { cause: 'MESSAGE_ID_REUSED' })
    case 'CONTEXT_MISMATCH':
    case 'CONTEXT_INVALID':
      return invalidParams('message.contextId', err.message, { cause: err.code })
    case 'CURSOR_INVALID':
      return invalidParams('pageToken', err.message)
    case 'TODO_LIMIT':
      return new A2aError('RATE_LIMITED', err.message, { metadata: { cause: 'TODO_LIMIT', kind: String(err.data?.kind) }, cause: err })
    case 'MESSAGE_INVALID':
      return invalidParams(err.field ?? 'message', err.message)
    case 'OUTGOING_FULL':
      return new A2aError('RATE_LIMITED', err.message, { metadata: { cause: err.code }, cause: err })
    case 'MESSAGE_TOO_LARGE':
      return new A2aError('PAYLOAD_TOO_LARGE', err.message, { cause: err })
    case 'AGENT_UNKNOWN':
      return new A2aError('AGENT_UNKNOWN', err.message, { cause: err })
    case 'STORE_WRITE_FAILED':
    case 'STORE_FULL':
    case 'STORE_DOWN':
    case 'STORE_CLOSED':
      return new A2aError('STORE_FAILED', 'the node could not write; nothing was accepted or queued', {
        metadata: { error: 'store_failed', queued: 'false' },
        cause: err
      })
    default:
      return new A2aError('INTERNAL_ERROR', 'the node failed to handle this request', { metadata: { cause: err.code }, cause: err })
  }
}

/** The kinds of failure, for callers of the library and the exit codes of the command line. */
const KINDS: Partial<Record<A2aReason, ErrorKind>> = {
  INVALID_REQUEST: 'usage',
  METHOD_NOT_FOUND: 'usage',
  INVALID_PARAMS: 'usage',
  INTERNAL_ERROR: 'internal',
  STORE_FAILED: 'storage',
  TASK_NOT_FOUND: 'notFound',
  AGENT_UNKNOWN: 'notFound',
  AGENT_UNREACHABLE: 'unavailable',
  OUTCOME_UNKNOWN: 'timeout'
}

/** What a person can do about a refusal that does not say it itself. */
const REMEDIES: Partial<Record<A2aReason, string>> = {
  PERMISSION_DENIED: 'ask to be let in with `rookery friends request DID`; its owner answers',
  SEND_RATE_LIMITED: 'wait as long as it says; its owner can raise the rate with `rookery grant tune`',
  AGENT_UNREACHABLE: 'look with `rookery resolve DID` where it is, or hand the message over with --outbox'
}

/** The same refusal for those who do not speak A2A. */
export function rookeryErrorOf(error: A2aError): RookeryError {
  const [violation] = error.violations
  const remedy = error.metadata.remedy ?? REMEDIES[error.reason]
  return new RookeryError(error.reason === 'PAYLOAD_TOO_LARGE' ? 'MESSAGE_TOO_LARGE' : error.reason, error.message, {
    kind: KINDS[error.reason] ?? 'refused',
    ...(violation !== undefined ? { field: violation.field } : {}),
    ...(remedy !== undefined ? { remedy } : {}),
    ...(error.retryAfterSec !== undefined ? { data: { retryAfterSec: error.retryAfterSec } } : {}),
    cause: error
  })
}
