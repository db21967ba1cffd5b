import { utf8 } from '../../protocol/bytes.ts'
import { refusalRpcError } from '../../protocol/delivery/refusals.ts'
import { TRACEPARENT_PARAMETER } from '../../protocol/delivery/traceparent.ts'
import type { ProtocolError } from '../../protocol/errors.ts'
import { type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { homeOf } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { Inbound, Session } from '../sessions/session.ts'
import type { WriteOp } from '../store/store.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError, fromRemoteError, toA2aError } from './a2a-error.ts'
import { Caller } from './caller.ts'
import { DeliveryRefused } from './delivery-refused.ts'
import type { Activated } from './edge.ts'
import { checkEnvelope, errorResponse, idOf, isObject, type JsonRpcId, type JsonRpcResponse, parseJson } from './json-rpc.ts'
import type { LocalA2a } from './local-a2a.ts'
import { createsTask, OpenTasks } from './open-tasks.ts'
import { checkMethod, checkParams, checkTenant, isMethod, type StreamMethod } from './params.ts'
import { AskedStream } from './pss-asked-stream.ts'
import { sendStream } from './pss-served-stream.ts'
import {
  A2A_TEXT_BYTES_MAX,
  activatedIn,
  activatedMember,
  LEAVE_MEMBER,
  leaveText,
  readParameters,
  requestText,
  SERVICE_PARAMETERS_MEMBER,
  textTooLarge
} from './pss-texts.ts'
import { checkVersion, type ServiceParameters } from './service-parameters.ts'
import type { TaskStream } from './task-stream.ts'

/** protocol/README.md §6, Kinds; §9. */
export const A2A_CHANNEL = 1
export const A2A_KIND = 0x02
/** Requests of ours that wait for an answer on one session; above it the next is refused here. */
export const REQUESTS_PENDING_MAX = 256
/** Requests of a peer at work on one session; above it the next is answered RATE_LIMITED. */
export const REQUESTS_SERVED_MAX = 256
interface Pending {
  /** as it is sent, and sent again */
  payload(): Uint8Array
  /** the peer has the request: if its process went meanwhile, only asking again brings the answer */
  acknowledged: boolean
  /** a text with a result; one request stays until its last */
  take(text: JsonObject): void
  refuse(error: unknown): void
}

/** What the peer answered in place of a result, as it came: a reachability refusal is read from it by its token. */
export class RemoteRefusal extends Error {
  override readonly name = 'RemoteRefusal'
  readonly error: JsonObject

  constructor(error: JsonObject) {
    super(typeof error.message === 'string' ? error.message.slice(0, 200) : 'refused')
    this.error = error
  }

  toA2aError(): A2aError {
    return fromRemoteError(this.error)
  }
}

/** Who the peer of a session is to an agent of ours: asked at every request, so that a grant counts, or ends, from the next one on. */
export type PeerPrincipal = (agent: EidHex, remote: EidHex) => VerifiedPrincipal

export interface A2aChannelComponents {
  clock: Clock
  logger: Logger
  /** default: nothing is traced */
  tracer?: Tracer
}

const channels = new WeakMap<Session, A2aChannel>()

/** The one A2A channel of a session, for both directions. */
export function a2aChannelOf(session: Session, components: A2aChannelComponents): A2aChannel {
  let channel = channels.get(session)
  if (channel === undefined) {
    channel = new A2aChannel(session, components)
    channels.set(session, channel)
  }
  return channel
}

/** Answers the peer's requests for the session's local agent. Call it for every session before its first item. */
export function serveA2a(session: Session, components: A2aChannelComponents & { local: LocalA2a; principal: PeerPrincipal }): void {
  a2aChannelOf(session, components).serve(components.local, components.principal)
}

/** A2A 1.0 JSON-RPC over channel 1 (protocol/README.md §9): one JSON text a transaction, ids unique in each direction. */
export class A2aChannel {
  readonly #session: Session
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #tracer: Tracer
  readonly #pending = new Map<JsonRpcId, Pending>()
  readonly #ended = new AbortController()
  /** ids of the peer's requests at work; at most REQUESTS_SERVED_MAX */
  readonly #atWork = new Set<JsonRpcId>()
  /** streams of the peer, by the id of their request; as many as are served at most */
  readonly #served = new Map<JsonRpcId, TaskStream>()
  /** makes ids of this process differ from those of an earlier one, whose late answers may still come */
  #idPrefix: string | undefined
  /** tasks of ours at the peer, and of the peer here, where a contract bounds them */
  readonly #openThere: OpenTasks | undefined
  readonly #openHere: OpenTasks | undefined
  /** our requests that may make a task and have no answer; as many as the contract allows tasks at once */
  readonly #creating = new Set<JsonRpcId>()
  #local: LocalA2a | undefined
  #principal: PeerPrincipal | undefined
  #nextId = 1
  #serving = 0
  /** items that were no JSON-RPC of ours, or answers nobody waits for */
  ignored = 0

  constructor(session: Session, { clock, logger, tracer = noTracer }: A2aChannelComponents) {
    this.#session = session
    this.#clock = clock
    this.#logger = logger
    this.#tracer = tracer
    const { contract } = session
    this.#openThere = contract === undefined ? undefined : new OpenTasks(contract, 'sent')
    this.#openHere = contract === undefined ? undefined : new OpenTasks(contract, 'received')
    session.onChannel(A2A_CHANNEL, (item) => this.#take(item))
    session.onResumed?.(() => this.#askAgain())
    void session.closed.then(({ reason }) => {
      this.#ended.abort(lost(reason))
      for (const pending of [...this.#pending.values()]) pending.refuse(lost(reason))
      this.#pending.clear()
    })
  }

  serve(local: LocalA2a, principal: PeerPrincipal): void {
    this.#local = local
    this.#principal = principal
    for (const id of this.#openHere?.ids ?? []) this.#follow(id)
  }

  /**
   * Sends a request and waits for its answer.
   * @returns `result` as it came
   * @throws RemoteRefusal; A2aError `PAYLOAD_TOO_LARGE`, `RATE_LIMITED`, `OUTCOME_UNKNOWN` (lost or late: the peer may have acted);
   * RookeryError `SESSION_CLOSED` (nothing was sent); or the signal's reason
   */
  async request(
    method: string,
    params: JsonObject,
    options: { parameters: ServiceParameters; timeoutMs: number; signal?: AbortSignal; activated?: Activated | undefined }
  ): Promise<Json> {
    const { promise, resolve, reject } = Promise.withResolvers<Json>()
    const pending = this.#begin({ method, params, parameters: options.parameters }, options.signal, {
      take: (text) => {
        const active = activatedIn(text)
        if (active.length > 0) options.activated?.(active)
        resolve(text.result ?? null)
      },
      refuse: reject
    })
    const aborted = () => reject(options.signal?.reason)
    options.signal?.addEventListener('abort', aborted, { once: true })
    const cancel = this.#clock.after(options.timeoutMs, () => reject(unknownOutcome(`no answer within ${options.timeoutMs} ms`)))
    try {
      return await promise
    } finally {
      cancel()
      options.signal?.removeEventListener('abort', aborted)
      this.#pending.delete(pending)
    }
  }

  /**
   * Asks for a stream and waits for its first event. Over a resumed session it goes on by itself, without gap or repeat.
   * @param options.signal - ends the stream, also later
   * @throws as {@link request}; so does the stream when it is lost
   */
  async stream(
    method: StreamMethod,
    params: JsonObject,
    options: {
      parameters: ServiceParameters
      timeoutMs: number
      signal: AbortSignal
      lastEventId?: string | undefined
      activated?: Activated | undefined
    }
  ): Promise<TaskStream> {
    const { signal, timeoutMs, parameters, lastEventId } = options
    let id: JsonRpcId | undefined
    const aborted = () => asked.close()
    const asked: AskedStream = new AskedStream({
      lastEventId,
      left: (how) => {
        signal.removeEventListener('abort', aborted)
        if (id === undefined || !this.#pending.delete(id)) return
        if (how === 'reader-left') this.#tell(leaveText(id))
      }
    })
    id = this.#begin({ method, params, parameters, lastEventId: () => asked.lastEventId }, signal, {
      take: (text) => {
        const active = activatedIn(text)
        if (active.length > 0) options.activated?.(active)
        asked.take(text)
      },
      refuse: (error) => asked.refuse(asked.isOpen && error instanceof RemoteRefusal ? error.toA2aError() : error)
    })
    signal.addEventListener('abort', aborted, { once: true })
    const cancel = this.#clock.after(timeoutMs, () => asked.fail(unknownOutcome(`no event within ${timeoutMs} ms`)))
    const left = () => asked.fail(signal.reason)
    signal.addEventListener('abort', left, { once: true })
    try {
      return await asked.opened
    } finally {
      cancel()
      signal.removeEventListener('abort', left)
    }
  }

  /** Sends a request whose answers `take` gets. @returns its id, pending until it is deleted */
  #begin(
    request: { method: string; params: JsonObject; parameters: ServiceParameters; lastEventId?: () => string | undefined },
    signal: AbortSignal | undefined,
    answers: Pick<Pending, 'take' | 'refuse'>
  ): JsonRpcId {
    signal?.throwIfAborted()
    if (this.#pending.size >= REQUESTS_PENDING_MAX) {
      throw new A2aError('RATE_LIMITED', `${REQUESTS_PENDING_MAX} requests to this agent wait for an answer`, { retryAfterSec: 1 })
    }
    const { method, params, parameters } = request
    const id = this.#id()
    const traceparent = this.#tracer.forPeers()
    const payload = () => requestText({ id, method, params, parameters, lastEventId: request.lastEventId?.(), traceparent })
    const first = payload()
    if (createsTask(method, params) && this.#openThere !== undefined) {
      const breach = this.#openThere.begin()
      if (breach !== undefined) throw overContract(breach)
      this.#creating.add(id)
    }
    const pending: Pending = { payload, acknowledged: false, ...answers }
    this.#pending.set(id, pending)
    this.#session.send(A2A_CHANNEL, A2A_KIND, first, signal === undefined ? {} : { signal }).then(
      () => {
        pending.acknowledged = true
      },
      (err) => {
        // a caller that went away takes nothing back: the request is journaled
        if (signal?.aborted !== true) this.#created(id, undefined)
        if (!(err instanceof RookeryError)) pending.refuse(err)
        else pending.refuse(err.code === 'SESSION_LOST' ? lost(err.message) : err.code === 'CONTRACT_LIMIT' ? overContract(err) : err)
      }
    )
    return id
  }

  /** A request that may make a task has its answer, be it late; undefined: none, and it made none. */
  #created(id: JsonRpcId, result: Json | undefined): void {
    if (this.#creating.delete(id)) this.#openThere?.answered(result)
  }

  /** Every request is a transaction, so the number at the start of a process lies above all that earlier ones used for their ids. */
  #id(): JsonRpcId {
    this.#idPrefix ??= this.#session.info().txSeq
    return `${this.#idPrefix}-${this.#nextId++}`
  }

  /** The peer's process may be another one than took our requests: under the same id it answers, or finds that it is at work. */
  #askAgain(): void {
    for (const { payload, acknowledged } of this.#pending.values()) {
      if (acknowledged)
        this.#session.send(A2A_CHANNEL, A2A_KIND, payload()).catch((err) => this.#logger.debug({ err }, 'asking again failed'))
    }
  }

  /** Resolves, and so acknowledges the transaction, once the request's Todo is on disk or its answer is known. */
  async #take({ kind, payload, position }: Inbound): Promise<void> {
    if (kind !== A2A_KIND) return this.#ignore()
    let body: Json
    try {
      if (payload.length > A2A_TEXT_BYTES_MAX) throw textTooLarge(payload.length)
      body = parseJson(payload)
    } catch (err) {
      return this.#answer(errorResponse(null, toA2aError(err)))
    }
    if (isObject(body) && !('method' in body)) {
      if ('result' in body || 'error' in body) return this.#settle(body)
      if (body[LEAVE_MEMBER] === true) return this.#served.get(idOf(body))?.close()
    }
    if (this.#serving >= REQUESTS_SERVED_MAX) {
      const message = `${REQUESTS_SERVED_MAX} requests of this session are at work`
      return this.#answer(errorResponse(idOf(body), new A2aError('RATE_LIMITED', message, { retryAfterSec: 1 })))
    }
    const id = idOf(body)
    if (id !== null && this.#atWork.has(id)) return // asked again over a new connection
    const { promise: durable, resolve: onDurable } = Promise.withResolvers<void>()
    this.#serving++
    if (id !== null) this.#atWork.add(id)
    const answered = this.#respond(body, { onDurable, alongside: position })
      .then((response) => response === undefined || this.#answer(response))
      .finally(() => {
        this.#serving--
        if (id !== null) this.#atWork.delete(id)
      })
    await Promise.race([durable, answered])
  }

  /** Inside a span of its own, whose parent is what the peer named: whoever opened the session has nothing to do with it. */
  async #respond(
    body: Json,
    durably: { onDurable: () => void; alongside: () => readonly WriteOp[] }
  ): Promise<JsonRpcResponse | undefined> {
    if (!this.#tracer.isOn) return await this.#responded(body, durably)
    const parent = this.#tracer.fromPeers(traceparentIn(body))
    const attributes = { 'rpc.system': 'a2a', 'rookery.door': 'a2a-pss' }
    return await this.#tracer.run('A2A request', { kind: 'server', parent, parentFrom: 'elsewhere', attributes }, async (span) => {
      const answer = await this.#responded(body, durably)
      const method = isObject(body) && isMethod(body.method) ? body.method : 'unknown'
      span.set({ 'rpc.method': method, 'rookery.refused': answer !== undefined && 'error' in answer })
      return answer
    })
  }

  /** @returns the answer, or nothing where a stream was it */
  async #responded(
    body: Json,
    durably: { onDurable: () => void; alongside: () => readonly WriteOp[] }
  ): Promise<JsonRpcResponse | undefined> {
    const id = idOf(body)
    let counted: OpenTasks | undefined
    const answered = (result: Json | undefined) => {
      const goesOn = counted?.answered(result)
      counted = undefined
      if (goesOn !== undefined) this.#follow(goesOn)
    }
    try {
      const request = checkEnvelope(body)
      const { parameters, lastEventId } = readParameters((body as JsonObject)[SERVICE_PARAMETERS_MEMBER])
      checkVersion(parameters)
      const method = checkMethod(request.method)
      checkParams(method, request.params)
      checkTenant(request.params)
      if (this.#local === undefined || this.#principal === undefined)
        throw new A2aError('UNSUPPORTED_OPERATION', 'this session serves no A2A')
      const agent = this.#session.local
      const principal = this.#principal(homeOf(agent), eidHex(this.#session.remote))
      const { extensions } = parameters
      const admitted = await this.#local.admit(
        agent,
        { principal, method, params: request.params, extensions },
        async ({ retryAfterSec }) => ({
          reason: 'asleep',
          queued: false,
          deposits: true,
          retryAfterSec
        })
      )
      const signal = this.#ended.signal
      const caller = new Caller({ principal, door: 'a2a-pss', signal, lastEventId, ...admitted, ...durably })
      if (createsTask(method, request.params) && this.#openHere !== undefined) {
        const breach = this.#openHere.begin()
        if (breach !== undefined) {
          this.#session.breach(breach)
          throw overContract(breach)
        }
        counted = this.#openHere
      }
      const activated = admitted.admission === undefined ? [] : [admitted.admission.uri]
      const answer = await this.#local.call(agent, method, request.params, caller)
      if ('result' in answer) {
        answered(answer.result)
        return { jsonrpc: '2.0', id, result: answer.result, ...activatedMember(activated) }
      }
      durably.onDurable()
      this.#served.set(id, answer.stream)
      try {
        await sendStream(
          this.#session,
          { channel: A2A_CHANNEL, kind: A2A_KIND, id },
          answer.stream,
          ({ response }) => answered(response),
          activated
        )
      } finally {
        answer.stream.close()
        this.#served.delete(id)
      }
      return undefined
    } catch (err) {
      if (err instanceof DeliveryRefused) {
        const { code, message, data } = refusalRpcError(err.refusal)
        return { jsonrpc: '2.0', id, error: { code, message, data: data as Json } }
      }
      if (this.#ended.signal.aborted) return undefined
      const error = toA2aError(err)
      if (error.reason === 'INTERNAL_ERROR' || error.reason === 'STORE_FAILED') {
        this.#logger.error({ err: error.cause ?? err }, 'an A2A request of a session failed')
      }
      return errorResponse(id, error)
    } finally {
      answered(undefined)
    }
  }

  /** A task of the peer counts until it has ended here. */
  #follow(id: string): void {
    this.#local?.ended(id, () => this.#openHere?.ended(id)).catch((err) => this.#logger.warn({ err }, 'a task could not be followed'))
  }

  /** A transaction of its own, not awaited by the handler that caused it; where this process dies before it is journaled it is asked for again. */
  #answer(response: JsonRpcResponse): void {
    let payload = utf8(JSON.stringify(response))
    if (payload.length > A2A_TEXT_BYTES_MAX) payload = utf8(JSON.stringify(errorResponse(response.id, textTooLarge(payload.length))))
    this.#tell(payload)
  }

  #tell(payload: Uint8Array): void {
    this.#session.send(A2A_CHANNEL, A2A_KIND, payload).catch((err) => this.#logger.debug({ err }, 'an A2A text was not taken'))
  }

  #settle(response: JsonObject): void {
    const id = idOf(response)
    this.#created(id, response.result)
    this.#openThere?.seen(response.result)
    const pending = this.#pending.get(id)
    if (pending === undefined) this.#ignore()
    else if (response.error === undefined) pending.take(response)
    else pending.refuse(new RemoteRefusal(isObject(response.error) ? response.error : {}))
  }

  #ignore(): void {
    this.ignored++
  }
}

function traceparentIn(body: Json): Json | undefined {
  const parameters = isObject(body) ? body[SERVICE_PARAMETERS_MEMBER] : undefined
  return isObject(parameters) ? parameters[TRACEPARENT_PARAMETER] : undefined
}

/** Nothing was asked or done. */
function overContract(breach: ProtocolError | RookeryError): A2aError {
  const { field } = breach
  const reason = field === 'sfc.scopes' ? 'UNSUPPORTED_OPERATION' : field === 'sfc.payloadBytesMax' ? 'PAYLOAD_TOO_LARGE' : 'RATE_LIMITED'
  return new A2aError(reason, breach.message, { metadata: { cause: 'CONTRACT_LIMIT', field: breach.field ?? '' } })
}

/** The session ended first. */
function lost(reason: string): A2aError {
  return unknownOutcome(reason, new RookeryError('SESSION_LOST', `the session ended: ${reason}`, { kind: 'unavailable' }))
}

function unknownOutcome(reason: string, cause?: RookeryError): A2aError {
  return new A2aError('OUTCOME_UNKNOWN', `the answer did not come, and the agent may have acted: ${reason}`, {
    metadata: { outcome: 'unknown', remedy: 'send the same messageId again: it is handled once' },
    ...(cause !== undefined ? { cause } : {})
  })
}
