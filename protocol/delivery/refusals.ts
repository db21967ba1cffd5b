import { QUEUE_FULL_KINDS, type QueueFullKind } from './bounds.ts'

/** The draft author's extension; a caller that lists it in `A2A-Extensions` asked for the draft's own JSON-RPC form. */
export const OFFLINE_DELIVERY_EXTENSION_URI = 'https://atom.qwixl.dev/a2a/offline-delivery/v1'
/** `ErrorInfo.domain` of reasons that are ours and not A2A's. */
export const ERROR_DOMAIN = 'rookery'
export const OFFLINE_REFUSAL_TYPE = 'rookery/rookery.v1.OfflineRefusal'
const ERROR_INFO_TYPE = 'type.googleapis.com/google.rpc.ErrorInfo'
const RETRY_INFO_TYPE = 'type.googleapis.com/google.rpc.RetryInfo'

/** JSON-RPC codes: outside A2A's -32001 … -32099 and JSON-RPC's own range, save the draft's -32003 for callers that opted in (G-04). */
export const RPC_CODE_ASLEEP = -31_003
export const RPC_CODE_QUEUE_FULL = -31_004
export const RPC_CODE_TOO_LARGE = -31_006
export const RPC_CODE_UNAUTHENTICATED = -31_401
export const RPC_CODE_DRAFT = -32_003

/** Why a message for an agent that takes no work now was not handled. Only `asleep` may say `queued: true`, and only after the synced write. */
export type Refusal =
  /** `deposits`: not queued, but the caller's node may deposit the message as a governed object */
  | { reason: 'asleep'; queued: boolean; retryAfterSec?: number | undefined; deposits?: boolean | undefined }
  | { reason: 'queue-full'; kind: QueueFullKind; retryAfterSec?: number | undefined }
  | { reason: 'too-large'; bytesMax: number }
  /** no verified caller, no enqueue (OD-28, G-13) */
  | { reason: 'unauthenticated' }
  /** the same name with other content */
  | { reason: 'conflict' }
  | { reason: 'expired' }
  /** the write failed: neither asleep nor full may be said (OD-48, G-01) */
  | { reason: 'store-failed' }

/**
 * `plain`: the draft's §4.1 body, `error` a string. `a2a`: JSON-RPC error of A2A 1.0, `data` an array. `a2a-object`: the same code with the
 * draft's object (0.3 callers). `extension`: -32003 with the draft's object.
 */
export type RefusalForm = 'plain' | 'a2a' | 'a2a-object' | 'extension'

/** Which form a caller gets (G-03, G-04): by its `A2A-Version` header (absent is old) and the extensions it activated. */
export function refusalFormOf(caller: { a2aVersion: string | undefined; extensions: readonly string[] }): RefusalForm {
  if (caller.extensions.includes(OFFLINE_DELIVERY_EXTENSION_URI)) return 'extension'
  return /^[1-9][0-9]{0,3}\./.test(caller.a2aVersion?.trim() ?? '') ? 'a2a' : 'plain'
}

export interface RefusalResponse {
  /** HTTP status; 503 in every form of `asleep` */
  status: number
  headers: Record<string, string>
  body: Record<string, unknown>
}

export type RpcId = string | number | null

/** The owner's choice of a number in place of {@link RPC_CODE_ASLEEP} for callers of A2A 1.0 (G-04). */
export interface RefusalNumbers {
  asleep?: number | undefined
}

function numbered(facts: Facts, { asleep = RPC_CODE_ASLEEP }: RefusalNumbers): Facts {
  return facts.rpcCode === RPC_CODE_ASLEEP ? { ...facts, rpcCode: asleep, drafts: true } : facts
}

interface Facts {
  status: number
  /** name of the google.rpc code */
  rpcStatus: string
  /** the draft has a form of its own for it */
  drafts?: boolean
  token: string
  rpcCode: number
  errorInfoReason: string
  message: string
}

/**
 * Status, headers and body of a refusal. `Retry-After` is there exactly when `retryAfterSec` is, with the same number (OD-17).
 * @see requirements OD-13 … OD-20, OD-44 … OD-47, G-01, G-03 … G-06
 */
export function refusalResponse(refusal: Refusal, form: RefusalForm, id: RpcId = null, numbers: RefusalNumbers = {}): RefusalResponse {
  const facts = numbered(factsOf(refusal), numbers)
  const members = draftMembers(refusal, facts.token)
  const retryAfterSec = members.retryAfterSec as number | undefined
  const headers: Record<string, string> = {
    'Content-Type': 'application/json; charset=utf-8',
    ...(retryAfterSec !== undefined ? { 'Retry-After': String(retryAfterSec) } : {}),
    ...(refusal.reason === 'unauthenticated' ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(form === 'extension' ? { 'A2A-Extensions': OFFLINE_DELIVERY_EXTENSION_URI } : {})
  }
  if (form === 'plain') {
    const { error, ...rest } = members
    return { status: facts.status, headers, body: { error, message: facts.message, ...rest } }
  }
  return { status: facts.status, headers, body: { jsonrpc: '2.0', id, error: rpcError(facts, members, form) } }
}

/**
 * The same for the HTTP+JSON binding, whose `error` is an object, so that the draft's plain body has no place there: google.rpc.Status with ErrorInfo. Token and
 * `queued` stand in the message too, which is all that the official client keeps beside status and headers.
 */
export function refusalRestResponse(refusal: Refusal, { extension }: { extension: 'asked' | 'none' }): RefusalResponse {
  const facts = factsOf(refusal)
  const { headers } = refusalResponse(refusal, extension === 'asked' ? 'extension' : 'a2a')
  const { data } = rpcError(facts, draftMembers(refusal, facts.token), 'a2a')
  const queued = refusal.reason === 'asleep' && refusal.queued
  const message = `${facts.token}: ${facts.message}; queued: ${queued}`
  return { status: facts.status, headers, body: { error: { code: facts.status, status: facts.rpcStatus, message, details: data } } }
}

/** The JSON-RPC error alone, for bindings that own their envelope. */
export function refusalRpcError(
  refusal: Refusal,
  form: Exclude<RefusalForm, 'plain'> = 'a2a'
): { code: number; message: string; data: unknown } {
  const facts = factsOf(refusal)
  return rpcError(facts, draftMembers(refusal, facts.token), form)
}

function rpcError(facts: Facts, members: Record<string, unknown>, form: Exclude<RefusalForm, 'plain'>) {
  const code = form === 'extension' && facts.drafts === true ? RPC_CODE_DRAFT : facts.rpcCode
  if (form !== 'a2a') return { code, message: facts.message, data: members }
  const metadata = Object.fromEntries(Object.entries(members).map(([name, value]) => [name, String(value)]))
  const retryAfterSec = members.retryAfterSec
  return {
    code,
    message: facts.message,
    data: [
      { '@type': ERROR_INFO_TYPE, reason: facts.errorInfoReason, domain: ERROR_DOMAIN, metadata },
      ...(retryAfterSec !== undefined ? [{ '@type': RETRY_INFO_TYPE, retryDelay: `${retryAfterSec}s` }] : []),
      { '@type': OFFLINE_REFUSAL_TYPE, ...members }
    ]
  }
}

function factsOf(refusal: Refusal): Facts {
  switch (refusal.reason) {
    case 'asleep':
      return {
        status: 503,
        rpcStatus: 'UNAVAILABLE',
        drafts: true,
        token: 'agent_asleep',
        rpcCode: RPC_CODE_ASLEEP,
        errorInfoReason: 'AGENT_ASLEEP',
        message: refusal.queued ? 'asleep, try later' : 'asleep, not queued'
      }
    case 'queue-full':
      return {
        status: refusal.kind === 'peer' ? 429 : 507,
        rpcStatus: 'RESOURCE_EXHAUSTED',
        drafts: true,
        token: 'asleep_queue_full',
        rpcCode: RPC_CODE_QUEUE_FULL,
        errorInfoReason: 'ASLEEP_QUEUE_FULL',
        message: `the asleep queue is full: its bound on ${refusal.kind === 'peer' ? 'messages of one peer' : refusal.kind} is reached`
      }
    case 'too-large':
      return {
        status: 413,
        rpcStatus: 'INVALID_ARGUMENT',
        token: 'payload_too_large',
        rpcCode: RPC_CODE_TOO_LARGE,
        errorInfoReason: 'PAYLOAD_TOO_LARGE',
        message: `the message is above ${refusal.bytesMax} bytes and would never fit`
      }
    case 'unauthenticated':
      return {
        status: 401,
        rpcStatus: 'UNAUTHENTICATED',
        token: 'asleep_enqueue_requires_auth',
        rpcCode: RPC_CODE_UNAUTHENTICATED,
        errorInfoReason: 'UNAUTHENTICATED',
        message: 'the agent is asleep, and only verified callers may leave a message'
      }
    case 'conflict':
      return {
        status: 409,
        rpcStatus: 'ALREADY_EXISTS',
        token: 'asleep_conflict',
        rpcCode: -32_602,
        errorInfoReason: 'MESSAGE_ID_REUSED',
        message: 'a message of this id with other content is queued already'
      }
    case 'expired':
      return {
        status: 400,
        rpcStatus: 'INVALID_ARGUMENT',
        token: 'expired',
        rpcCode: -32_602,
        errorInfoReason: 'EXPIRED',
        message: 'the message has ended already'
      }
    case 'store-failed':
      return {
        status: 500,
        rpcStatus: 'INTERNAL',
        token: 'asleep_store_failed',
        rpcCode: -32_603,
        errorInfoReason: 'STORE_FAILED',
        message: 'the message could not be stored and was not queued'
      }
  }
}

function draftMembers(refusal: Refusal, token: string): Record<string, unknown> {
  const retryAfterSec = refusal.reason === 'asleep' || refusal.reason === 'queue-full' ? refusal.retryAfterSec : undefined
  return {
    error: token,
    queued: refusal.reason === 'asleep' && refusal.queued,
    ...(retryAfterSec !== undefined ? { retryAfterSec } : {}),
    ...(refusal.reason === 'queue-full' ? { kind: refusal.kind } : {}),
    ...(refusal.reason === 'too-large' ? { bytesMax: refusal.bytesMax } : {}),
    ...(refusal.reason === 'asleep' && refusal.deposits === true ? { deposit: true } : {})
  }
}

/** What a caller's side makes of an answer. `stored` needs the explicit `queued: true`. */
export interface ReadRefusal {
  token: 'agent_asleep' | 'asleep_queue_full'
  queued: boolean
  /** the target's queue takes deposits of governed objects */
  deposits: boolean
  retryAfterSec: number | undefined
  kind: QueueFullKind | undefined
  /** `token`: it says so; `hint`: only status or code suggest it, so nothing counts as stored */
  evidence: 'token' | 'hint'
}

const RETRY_AFTER_MAX_SEC = 366 * 86_400
const PUSH_METHODS = /^(Create|Get|List|Delete)TaskPushNotificationConfigs?$/

/**
 * Reads any of the forms, and those of other implementations, from a parsed JSON body. Decides on the token or ErrorInfo reason, never on
 * the code alone: -32003 is A2A's push error too (G-04, G-05).
 * @returns undefined where the answer is no reachability refusal
 */
export function readRefusal(answer: {
  status?: number | undefined
  body: unknown
  request?: { method: string; carriesPushConfig?: boolean }
}): ReadRefusal | undefined {
  const found = { token: '', queued: '', retryAfterSec: '', kind: '', deposit: '', reasons: [] as string[], code: 0 }
  const take = (value: unknown) => {
    if (!isObject(value)) return
    if (typeof value.error === 'string') found.token ||= value.error
    for (const name of ['queued', 'retryAfterSec', 'kind', 'deposit'] as const) {
      const member = value[name]
      if (['string', 'number', 'boolean'].includes(typeof member)) found[name] ||= String(member)
    }
    if (typeof value.reason === 'string') found.reasons.push(value.reason)
  }
  const takeWithMetadata = (value: unknown) => {
    take(value)
    if (isObject(value)) take(value.metadata)
  }
  const body = answer.body
  take(body)
  const error = isObject(body) && isObject(body.error) ? body.error : isObject(body) && 'code' in body ? body : undefined
  if (error !== undefined) {
    if (typeof error.code === 'number') found.code = error.code
    for (const list of [error.data, error.details]) {
      if (Array.isArray(list)) list.slice(0, 16).forEach(takeWithMetadata)
      else takeWithMetadata(list)
    }
  }
  const token =
    found.token === 'agent_asleep' || found.reasons.includes('AGENT_ASLEEP')
      ? 'agent_asleep'
      : found.token === 'asleep_queue_full' || found.reasons.includes('ASLEEP_QUEUE_FULL')
        ? 'asleep_queue_full'
        : undefined
  const seconds = /^[0-9]{1,9}$/.test(found.retryAfterSec) ? Number(found.retryAfterSec) : undefined
  const retryAfterSec = seconds !== undefined && seconds <= RETRY_AFTER_MAX_SEC ? seconds : undefined
  if (token !== undefined) {
    return {
      token,
      queued: token === 'agent_asleep' && found.queued === 'true',
      deposits: token === 'agent_asleep' && found.deposit === 'true',
      retryAfterSec,
      kind: QUEUE_FULL_KINDS.find((one) => one === found.kind),
      evidence: 'token'
    }
  }
  if (found.code !== RPC_CODE_DRAFT || found.reasons.includes('PUSH_NOTIFICATION_NOT_SUPPORTED')) return undefined
  const request = answer.request
  const aboutPush = request === undefined || PUSH_METHODS.test(request.method) || request.carriesPushConfig === true
  if (aboutPush && answer.status !== 503) return undefined
  return { token: 'agent_asleep', queued: false, deposits: false, retryAfterSec, kind: undefined, evidence: 'hint' }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
