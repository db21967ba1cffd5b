import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Express, type Request, type RequestHandler, type Response } from 'express'
import { toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import {
  OFFLINE_DELIVERY_EXTENSION_URI,
  type Refusal,
  type RefusalForm,
  refusalFormOf,
  refusalResponse
} from '../../protocol/delivery/refusals.ts'
import { type Eid, type EidHex, eidFromDid, eidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError, toA2aError } from './a2a-error.ts'
import { CARD_MAX_AGE_SEC, cardText, rpcUrlOf, withRpcUrl } from './agent-card.ts'
import { type Authenticate, checkBearer, isBearer, principalOf } from './bearer.ts'
import { Caller } from './caller.ts'
import { bodyErrors, hostGuard, jsonOnly, readBody, sendError } from './http-guards.ts'
import { checkEnvelope, idOf, isObject, type JsonRpcId, parseJson } from './json-rpc.ts'
import type { KeepAsleep, KeepOpaque } from './keep-asleep.ts'
import { isLegacySend, legacyRequest } from './legacy-request.ts'
import { DeliveryRefused, isSend, type LocalA2a } from './local-a2a.ts'
import { type A2aMethod, checkMethod, checkParams, checkTenant, isStream } from './params.ts'
import { mountRestSends } from './rest.ts'
import { checkVersion, isLegacy, readServiceParameters, type ServiceParameters } from './service-parameters.ts'

/** Agents of other nodes, reached through sessions. */
export interface RemoteAgents {
  /** @throws A2aError, DeliveryRefused; or the signal's reason */
  call(
    from: LocalAgent,
    to: Eid,
    request: { method: A2aMethod; params: JsonObject; parameters: ServiceParameters },
    options: { signal: AbortSignal }
  ): Promise<Json>
  /**
   * @param options.asker - what one who showed no token makes this node look up and dial is bounded
   * @throws A2aError
   */
  card(from: LocalAgent, to: Eid, options: { signal: AbortSignal; asker: 'local-agent' | 'anyone' }): Promise<JsonObject>
}

export interface A2aEdgeComponents {
  agents: {
    get(eid: EidHex): LocalAgent | undefined
    defaultAgent(): LocalAgent | undefined
    /** the agent of ours that had this EID once */
    formerly?(eid: EidHex): LocalAgent | undefined
  }
  local: LocalA2a
  keep: KeepAsleep
  /** absent: what is no message of A2A is refused while an agent sleeps, as it is at other times */
  keepOpaque?: KeepOpaque
  authenticate: Authenticate
  crypto: CryptoProvider
  logger: Logger
  remote?: RemoteAgents
  /** default: the system's */
  clock?: Clock
  /** form and number of reachability refusals over JSON-RPC; default: by the caller, -31003 */
  refusals?: { form: 'auto' | RefusalForm; asleepRpcCode: number }
}

export interface A2aEdgeSettings {
  /** a loopback address */
  host: string
  /** 0 takes a free one */
  port: number
  /** where a gateway serves this edge, its path prefix included; default: the listening address */
  publicUrl?: string
  /** above it 413 */
  bodyBytesMax: number
  /** requests at work at a time; above it 429 */
  requestsMax: number
}

export const A2A_EDGE_DEFAULTS: A2aEdgeSettings = { host: '127.0.0.1', port: 0, bodyBytesMax: 2 * 1_048_576, requestsMax: 256 }

export interface A2aEdge {
  /** without a slash at the end */
  readonly url: string
  readonly port: number
  /** what the cards name */
  readonly publicUrl: string
  close(): Promise<void>
}

const UNREADABLE: ReadonlySet<string> = new Set(['PARSE_ERROR', 'INVALID_REQUEST', 'INVALID_PARAMS'])
/** Open HTTP connections; the next is closed unanswered. */
export const EDGE_CONNECTIONS_MAX = 512
/** How long requests at work may take to give their last answer when the edge closes. */
const CLOSE_GRACE_MS = 1_000
const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|localhost)$/

/**
 * Opens the HTTP edge: agent cards for anyone, JSON-RPC for the agents of this node.
 * @throws RookeryError `NOT_LOOPBACK`, `PUBLIC_URL_INVALID`, `PORT_IN_USE`, `LISTEN_FAILED`
 */
export async function createA2aEdge(components: A2aEdgeComponents, settings: Partial<A2aEdgeSettings> = {}): Promise<A2aEdge> {
  const edge = new HttpEdge(components, { ...A2A_EDGE_DEFAULTS, ...settings })
  await edge.listen()
  return edge
}

class HttpEdge implements A2aEdge {
  readonly #components: A2aEdgeComponents
  readonly #settings: A2aEdgeSettings
  readonly #server: Server
  readonly #stopping = new AbortController()
  #working = 0

  constructor(components: A2aEdgeComponents, settings: A2aEdgeSettings) {
    if (!LOOPBACK.test(settings.host)) {
      throw new RookeryError('NOT_LOOPBACK', `the A2A edge listens on loopback only, not on ${settings.host}`, {
        kind: 'config',
        field: 'http.host',
        value: settings.host,
        remedy: 'use 127.0.0.1 or ::1, and a gateway with TLS in front for others'
      })
    }
    if (settings.publicUrl !== undefined && !/^https?:\/\/[^?#]+$/.test(settings.publicUrl)) {
      throw new RookeryError('PUBLIC_URL_INVALID', 'the public URL is an http or https URL without query and fragment', {
        kind: 'config',
        field: 'http.publicUrl',
        value: settings.publicUrl
      })
    }
    this.#components = components
    this.#settings = settings
    this.#server = createServer(this.#app())
    this.#server.maxConnections = EDGE_CONNECTIONS_MAX
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    const { host } = this.#settings
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`
  }

  get publicUrl(): string {
    return (this.#settings.publicUrl ?? this.url).replace(/\/+$/, '')
  }

  async listen(): Promise<void> {
    const { host, port } = this.#settings
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (cause: NodeJS.ErrnoException) => {
        const used = cause.code === 'EADDRINUSE'
        reject(
          new RookeryError(used ? 'PORT_IN_USE' : 'LISTEN_FAILED', `the A2A edge cannot listen on ${host}:${port}: ${cause.message}`, {
            kind: 'conflict',
            field: 'http.port',
            value: port,
            remedy: used ? 'stop what holds the port, or set another one; 0 takes a free one' : 'set another address or port',
            cause
          })
        )
      })
      this.#server.listen(port, host, resolve)
    })
  }

  async close(): Promise<void> {
    this.#stopping.abort(new A2aError('INTERNAL_ERROR', 'the node is stopping'))
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#endConnections()
    // Those at work have been told to end; a client that reads nothing must not hold the node up.
    const cancel = (this.#components.clock ?? systemClock).after(CLOSE_GRACE_MS, () => this.#server.closeAllConnections())
    await closed
    cancel()
  }

  /** Connections that are kept alive, or were opened and never used, would hold a closing server. */
  #endConnections(): void {
    if (this.#working === 0) this.#server.closeAllConnections()
    else this.#server.closeIdleConnections()
  }

  #app(): Express {
    const app = express()
    app.disable('x-powered-by')
    app.disable('etag')
    app.set('query parser', 'simple')
    app.use(hostGuard(() => this.#settings.publicUrl))
    const card = (find: (req: Request) => Eid) => this.#route((req, res) => this.#card(find(req), req, res))
    app.get(
      '/.well-known/agent-card.json',
      card(() => this.#defaultAgent().eid)
    )
    app.get(
      '/agents/:did/.well-known/agent-card.json',
      card((req) => targetOf(req))
    )
    const read: RequestHandler[] = [this.#authenticated(), jsonOnly, readBody(this.#settings.bodyBytesMax)]
    app.post(
      '/',
      read,
      this.#route((req, res) => this.#rpcCall(this.#defaultAgent().eid, req, res))
    )
    app.post(
      '/agents/:did',
      read,
      this.#route((req, res) => this.#rpcCall(targetOf(req), req, res))
    )
    mountRestSends(app, {
      components: this.#components,
      bodyBytesMax: this.#settings.bodyBytesMax,
      target: (req) => (req.params.did === undefined ? this.#defaultAgent().eid : targetOf(req)),
      agentAt: (target) => this.#agentAt(target),
      parametersOf: serviceParameters,
      gone: (res) => this.#gone(res),
      atWork: (work) => this.#atWork(work),
      logged: (err) => this.#logged(err)
    })
    app.use((_req, res) => {
      res
        .status(404)
        .json({ error: 'not_found', message: 'POST JSON-RPC to /agents/<did:key>, GET /agents/<did:key>/.well-known/agent-card.json' })
    })
    app.use(bodyErrors(this.#settings.bodyBytesMax))
    return app
  }

  #route(work: (req: Request, res: Response) => Promise<void>): RequestHandler {
    return async (req, res) => {
      try {
        await work(req, res)
      } catch (err) {
        this.#fail(res, err, null)
      }
    }
  }

  #authenticated(): RequestHandler {
    return (req, res, next) => {
      try {
        res.locals.from = checkBearer(req.headers.authorization, this.#components.authenticate)
      } catch (err) {
        // The body of a stranger is not read.
        res.setHeader('Connection', 'close')
        if (this.#sleeps(req)) this.#refuse(res, { reason: 'unauthenticated' }, serviceParameters(req), null)
        else sendError(res, toA2aError(err))
        return
      }
      next()
    }
  }

  /** Whether the path names an agent of ours that takes no work now; what it names else is judged later. */
  #sleeps(req: Request): boolean {
    try {
      const target = req.params.did === undefined ? this.#defaultAgent().eid : targetOf(req)
      const agent = this.#components.agents.get(eidHex(target))
      return agent !== undefined && this.#components.local.reachability(agent).state === 'asleep'
    } catch {
      return false
    }
  }

  #defaultAgent(): LocalAgent {
    const agent = this.#components.agents.defaultAgent()
    if (agent === undefined) throw new A2aError('AGENT_UNKNOWN', 'this node has no agent: add one with `rookery agent add`')
    return agent
  }

  /** @throws A2aError `AGENT_ROTATED` for a former EID of ours: it names the new one and does nothing */
  #agentAt(target: Eid): LocalAgent | undefined {
    const { agents } = this.#components
    const name = eidHex(target)
    const found = agents.get(name)
    const now = found === undefined ? agents.formerly?.(name) : undefined
    if (now === undefined) return found
    throw new A2aError('AGENT_ROTATED', `this agent goes by another identity now: ${now.did}`, { metadata: { did: now.did } })
  }

  async #card(target: Eid, req: Request, res: Response): Promise<void> {
    const agent = this.#agentAt(target)
    let card: JsonObject
    if (agent !== undefined) card = this.#components.local.card(agent)
    else {
      const { remote } = this.#components
      if (remote === undefined) throw new A2aError('AGENT_UNKNOWN', 'no such agent on this node')
      const asker = isBearer(req.headers.authorization, this.#components.authenticate) ? 'local-agent' : 'anyone'
      const foreign = await remote.card(this.#defaultAgent(), target, { signal: this.#gone(res), asker })
      card = withRpcUrl(foreign, rpcUrlOf(this.publicUrl, String(req.params.did)))
    }
    const text = cardText(card)
    const etag = `"${toHex(this.#components.crypto.sha256(utf8(text))).slice(0, 32)}"`
    res.setHeader('ETag', etag)
    res.setHeader('Cache-Control', `max-age=${CARD_MAX_AGE_SEC}`)
    const known = (req.headers['if-none-match'] ?? '').split(',').map((one) => one.trim().replace(/^W\//, ''))
    if (known.includes(etag) || known.includes('*')) res.status(304).end()
    else res.status(200).type('application/json').send(text)
  }

  async #rpcCall(target: Eid, req: Request, res: Response): Promise<void> {
    const from = res.locals.from as LocalAgent
    const parameters = serviceParameters(req)
    let id: JsonRpcId = null
    await this.#atWork(async () => {
      const bytes = Buffer.isBuffer(req.body) ? req.body : new Uint8Array(0)
      let agent: LocalAgent | undefined
      let sends = true
      try {
        agent = this.#agentAt(target)
        const body = parseJson(bytes)
        id = idOf(body)
        const envelope = checkEnvelope(body)
        sends = isSend(envelope.method) || isLegacySend(envelope.method)
        // An older caller is understood only where an asleep agent is refused (G-03).
        const asleep = agent !== undefined && this.#components.local.reachability(agent).state === 'asleep'
        const asked = asleep && isLegacy(parameters) ? legacyRequest(envelope) : envelope
        if (!(asleep && isLegacy(parameters) && isSend(asked.method))) checkVersion(parameters)
        const method = checkMethod(asked.method)
        checkParams(method, asked.params)
        checkTenant(asked.params)
        if (agent !== undefined) await this.#localCall(agent, from, { ...asked, method, parameters }, res)
        else await this.#remoteCall(target, from, { id, method, params: asked.params, parameters }, res)
      } catch (err) {
        const kept = sends ? await this.#keepOpaque(err, { agent, from, bytes }, req) : undefined
        if (kept !== undefined) this.#refuse(res, kept, parameters, id)
        else if (err instanceof DeliveryRefused) this.#refuse(res, err.refusal, parameters, id)
        else this.#fail(res, err, id)
      }
    })
  }

  /** What a caller that names no version posts to a sleeping agent is kept as it came where it cannot be read (od-010 and on of the draft's author). */
  async #keepOpaque(
    err: unknown,
    { agent, from, bytes }: { agent: LocalAgent | undefined; from: LocalAgent; bytes: Uint8Array },
    req: Request
  ): Promise<Refusal | undefined> {
    const { keepOpaque, local } = this.#components
    if (!(err instanceof A2aError) || !UNREADABLE.has(err.reason) || agent === undefined || keepOpaque === undefined) return undefined
    if (req.header('a2a-version') !== undefined || bytes.length === 0) return undefined
    const reachability = local.reachability(agent)
    if (reachability.state !== 'asleep' || !reachability.queues) return undefined
    return await keepOpaque({ from, to: agent, body: bytes, retryAfterSec: reachability.retryAfterSec })
  }

  /** @throws A2aError `RATE_LIMITED` */
  async #atWork(work: () => Promise<void>): Promise<void> {
    if (this.#working >= this.#settings.requestsMax) {
      throw new A2aError('RATE_LIMITED', `${this.#settings.requestsMax} requests are at work already`, { retryAfterSec: 1 })
    }
    this.#working++
    try {
      await work()
    } finally {
      this.#working--
      if (this.#stopping.signal.aborted) setImmediate(() => this.#endConnections())
    }
  }

  async #localCall(
    agent: LocalAgent,
    from: LocalAgent,
    call: { id: JsonRpcId; method: A2aMethod; params: JsonObject; parameters: ServiceParameters },
    res: Response
  ): Promise<void> {
    const { local, keep } = this.#components
    const { method, params, parameters, id } = call
    const principal = principalOf(from)
    const wait = await local.admit(agent, { principal, method, params }, ({ retryAfterSec }) =>
      keep({ from, to: agent, params, retryAfterSec })
    )
    // An older caller whose message became a task meanwhile has no way to read it here.
    checkVersion(parameters)
    const caller = new Caller({ principal, door: 'a2a-http', wait, signal: this.#gone(res) })
    if (parameters.extensions.includes(OFFLINE_DELIVERY_EXTENSION_URI) && declares(local.card(agent), OFFLINE_DELIVERY_EXTENSION_URI)) {
      res.setHeader('A2A-Extensions', OFFLINE_DELIVERY_EXTENSION_URI)
    }
    if (isStream(method)) throw new TypeError('streams are wired with the doors')
    const result = await local.answer(agent, method, params, caller)
    res.status(200).json({ jsonrpc: '2.0', id, result })
  }

  async #remoteCall(
    to: Eid,
    from: LocalAgent,
    call: { id: JsonRpcId; method: A2aMethod; params: JsonObject; parameters: ServiceParameters },
    res: Response
  ): Promise<void> {
    const { remote } = this.#components
    if (remote === undefined) throw new A2aError('AGENT_UNKNOWN', 'no such agent on this node')
    const { id, ...request } = call
    const result = await remote.call(from, to, request, { signal: this.#gone(res) })
    res.status(200).json({ jsonrpc: '2.0', id, result })
  }

  /** Fires when the client has left or the edge closes: waiting ends, the work goes on. */
  #gone(res: Response): AbortSignal {
    const left = new AbortController()
    res.once('close', () => left.abort(new A2aError('OUTCOME_UNKNOWN', 'the client left')))
    return AbortSignal.any([left.signal, this.#stopping.signal])
  }

  #refuse(res: Response, refusal: Refusal, { version, extensions }: ServiceParameters, id: JsonRpcId): void {
    if (res.headersSent) return
    const { form = 'auto', asleepRpcCode } = this.#components.refusals ?? {}
    const chosen = form === 'auto' ? refusalFormOf({ a2aVersion: version, extensions }) : form
    const { status, headers, body } = refusalResponse(refusal, chosen, id, { asleep: asleepRpcCode })
    res.status(status).set(headers).send(JSON.stringify(body))
  }

  #fail(res: Response, err: unknown, id: JsonRpcId): void {
    sendError(res, this.#logged(err), id)
  }

  #logged(err: unknown): A2aError {
    const error = toA2aError(err)
    if (error.reason === 'INTERNAL_ERROR' || error.reason === 'STORE_FAILED') {
      this.#components.logger.error({ err: error.cause ?? err }, 'an A2A request failed')
    }
    return error
  }
}

/** @throws A2aError `AGENT_UNKNOWN` */
function targetOf(req: Request): Eid {
  try {
    return eidFromDid(String(req.params.did))
  } catch (cause) {
    throw new A2aError('AGENT_UNKNOWN', 'the path names no did:key of an Ed25519 key (did:key:z6Mk…)', {
      metadata: { field: 'did' },
      cause
    })
  }
}

/** The header wins over the query form (§3.6). */
function serviceParameters(req: Request): ServiceParameters {
  const query = Object.entries(req.query).find(([name]) => name.toLowerCase() === 'a2a-version')?.[1]
  return readServiceParameters(req.header('a2a-version') || (typeof query === 'string' ? query : undefined), req.header('a2a-extensions'))
}

function declares(card: JsonObject, uri: string): boolean {
  const extensions = isObject(card.capabilities) ? card.capabilities.extensions : undefined
  return Array.isArray(extensions) && extensions.some((one) => isObject(one) && one.uri === uri)
}
