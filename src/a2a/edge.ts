import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { RefusalForm } from '../../protocol/delivery/refusals.ts'
import type { Eid, EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { sayAcceptErrors } from '../platform/accept-errors.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import type { Authenticate } from './bearer.ts'
import { cardRoutes } from './card-door.ts'
import { EdgeHost } from './edge-host.ts'
import { EdgeRoutes, type Route } from './edge-routes.ts'
import { sendError } from './http-errors.ts'
import { Exchange } from './http-exchange.ts'
import { checkSender } from './http-guards.ts'
import { jsonRpcRoutes } from './json-rpc-door.ts'
import type { KeepAsleep, KeepOpaque } from './keep-asleep.ts'
import type { LocalA2a } from './local-a2a.ts'
import type { A2aMethod, StreamMethod } from './params.ts'
import { restRoutes } from './rest-door.ts'
import type { ServiceParameters } from './service-parameters.ts'
import type { TaskStream } from './task-stream.ts'

/** Told which extensions the agent's answer says are active, where it says so. */
export type Activated = (extensions: readonly string[]) => void

/** Agents of other nodes, reached through sessions. */
export interface RemoteAgents {
  /** @throws A2aError, DeliveryRefused; or the signal's reason */
  call(
    from: LocalAgent,
    to: Eid,
    request: { method: A2aMethod; params: JsonObject; parameters: ServiceParameters },
    options: { signal: AbortSignal; activated?: Activated | undefined }
  ): Promise<Json>
  /**
   * The stream of a task there. It outlives sessions: where one is lost it goes on over the next, without gap or repeat.
   * @throws as {@link call}
   */
  stream(
    from: LocalAgent,
    to: Eid,
    request: { method: StreamMethod; params: JsonObject; parameters: ServiceParameters },
    options: { signal: AbortSignal; lastEventId?: string | undefined; activated?: Activated | undefined }
  ): Promise<TaskStream>
  /**
   * @param options.asker - what one who showed no token makes this node look up and dial is bounded
   * @throws A2aError
   */
  card(from: LocalAgent, to: Eid, options: { signal: AbortSignal; asker: 'local-agent' | 'anyone' }): Promise<JsonObject>
}

/** @param route - undefined where there is none, or the request is refused before one is looked for */
export type Around = (exchange: Exchange, route: Pick<Route, 'method' | 'path'> | undefined, work: () => Promise<void>) => Promise<void>

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
  /** doors that are not of A2A, on the same address */
  doors?: readonly ((host: EdgeHost) => Route[])[]
  /** told of every request that a route takes, or none; its work goes on inside what this calls */
  around?: Around
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
  /** whether callers of A2A 0.3 are answered, JSON-RPC alone; default: off */
  legacy?: 'on' | 'off'
  /** open connections; the next is closed unanswered */
  connectionsMax: number
  /** how long the head of a request, and all of it, may take; later it is answered 408 and its connection closed. Answers may go on without end */
  headMs: number
  requestMs: number
}

export const A2A_EDGE_DEFAULTS: A2aEdgeSettings = {
  host: '127.0.0.1',
  port: 0,
  bodyBytesMax: 2 * 1_048_576,
  requestsMax: 256,
  connectionsMax: 512,
  headMs: 10_000,
  requestMs: 60_000
}

export interface A2aEdge {
  /** without a slash at the end */
  readonly url: string
  readonly port: number
  /** what the cards name */
  readonly publicUrl: string
  close(): Promise<void>
}

/** How long the rest of a refused request is read and thrown away: a connection that is closed on it may lose the answer to a reset. */
const LINGER_MS = 1_000
/** How long requests at work may take to give their last answer when the edge closes. */
const CLOSE_GRACE_MS = 1_000
/** How often connections are looked at for requests that take too long. */
const CHECK_MS = 5_000
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
  readonly #host: EdgeHost
  readonly #routes: EdgeRoutes
  readonly #open = new Set<Exchange>()
  #port: number | undefined
  #isStopping = false

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
    this.#host = new EdgeHost(components, settings, {
      publicUrl: () => this.publicUrl,
      onIdle: () => this.#endWhenStopping(),
      isStopping: () => this.#isStopping
    })
    this.#routes = new EdgeRoutes([
      ...cardRoutes(this.#host),
      ...jsonRpcRoutes(this.#host),
      ...restRoutes(this.#host),
      ...this.#otherDoors()
    ])
    const { headMs, requestMs } = settings
    this.#server = createServer(
      { headersTimeout: headMs, requestTimeout: requestMs, connectionsCheckingInterval: Math.min(CHECK_MS, headMs) },
      (req, res) => void this.#serve(req, res)
    )
    this.#server.maxConnections = settings.connectionsMax
  }

  #otherDoors(): Route[] {
    return (this.#components.doors ?? []).flatMap((door) => door(this.#host))
  }

  get port(): number {
    this.#port ??= (this.#server.address() as AddressInfo).port
    return this.#port
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
      const failed = (cause: NodeJS.ErrnoException) => {
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
      }
      this.#server.once('error', failed)
      this.#server.listen(port, host, () => {
        this.#server.off('error', failed)
        resolve()
      })
    })
    sayAcceptErrors(this.#server, 'the A2A edge', this.#components.logger, this.#components.clock)
  }

  async close(): Promise<void> {
    this.#isStopping = true
    for (const exchange of this.#open) exchange.leave(stopping)
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#endConnections()
    // Those at work have been told to end; a client that reads nothing must not hold the node up.
    const cancel = (this.#components.clock ?? systemClock).after(CLOSE_GRACE_MS, () => this.#server.closeAllConnections())
    await closed
    cancel()
  }

  /** Connections that are kept alive, or were opened and never used, would hold a closing server. */
  #endConnections(): void {
    if (this.#host.isWorking) this.#server.closeIdleConnections()
    else this.#server.closeAllConnections()
  }

  #endWhenStopping(): void {
    if (this.#isStopping) setImmediate(() => this.#endConnections())
  }

  /** Never rejects: whatever goes wrong before a door answers becomes JSON. */
  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { around = (_exchange, _route, work) => work() } = this.#components
    let exchange = new Exchange(req, res, { did: undefined, params: {} }, '')
    try {
      checkSender(req, this.#settings.publicUrl)
      const found = this.#routes.find(req)
      if (found === undefined) return await around(exchange, undefined, async () => exchange.sendJson(404, NOT_FOUND))
      exchange = new Exchange(req, res, found.address, found.search)
      await around(exchange, found.route, () => this.#answered(exchange, found.route.handle))
    } catch (err) {
      await around(exchange, undefined, async () => sendError(exchange, this.#host.logged(err)))
    }
  }

  async #answered(exchange: Exchange, handle: Route['handle']): Promise<void> {
    try {
      await this.#handled(exchange, handle)
    } catch (err) {
      sendError(exchange, this.#host.logged(err))
    }
  }

  async #handled(exchange: Exchange, handle: (exchange: Exchange) => Promise<void>): Promise<void> {
    this.#open.add(exchange)
    exchange.res.once('close', () => {
      this.#open.delete(exchange)
      if (!exchange.res.writableFinished) exchange.leave()
      else if (!exchange.req.complete) this.#linger(exchange.req)
    })
    if (this.#isStopping) exchange.leave(stopping)
    await handle(exchange)
  }

  #linger(req: IncomingMessage): void {
    const cancel = (this.#components.clock ?? systemClock).after(LINGER_MS, () => {
      if (!req.complete) req.socket.destroy()
    })
    req.once('close', cancel)
  }
}

const NOT_FOUND = { error: 'not_found', message: 'POST JSON-RPC to /agents/<did:key>, GET /agents/<did:key>/.well-known/agent-card.json' }

function stopping(): A2aError {
  return new A2aError('INTERNAL_ERROR', 'the node is stopping')
}
