import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { toHex } from '../../protocol/bytes.ts'
import type { EdgeHost } from '../a2a/edge-host.ts'
import type { Route } from '../a2a/edge-routes.ts'
import type { Exchange } from '../a2a/http-exchange.ts'
import { readBody } from '../a2a/http-guards.ts'
import { RookeryError } from '../errors.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { homeOf } from '../identity/agent.ts'
import type { Random } from '../platform/random.ts'
import { version } from '../version.ts'
import type { AgentWork } from './agent-work.ts'
import { onRing } from './doorbell.ts'
import { type McpActions, registerTools } from './mcp-tools.ts'
import { bodyOf, doorRoute } from './work-door.ts'

/** MCP sessions at a time; at the bound the one that was silent longest ends. */
export const MCP_SESSIONS_MAX = 64
/** Of one caller; at the bound its own one that was silent longest ends, so that nobody ends the sessions of others by opening many. */
export const MCP_SESSIONS_PER_CALLER_MAX = 16
/** One that was silent for so long ends. */
export const MCP_SESSION_IDLE_MS = 30 * 60_000

interface McpSession {
  principal: VerifiedPrincipal
  transport: StreamableHTTPServerTransport
  server: McpServer
  usedAtMs: number
  unring: () => void
  /** the grant that it was opened with ends it */
  end: () => void
}

/** MCP over streamable HTTP at /mcp: one session in the name of whoever's token opens it. */
export function mcpRoutes(host: EdgeHost, components: { work: AgentWork; actions: McpActions; random: Random }): Route[] {
  const door = new McpDoor(host, components)
  const handle = doorRoute(host, (exchange) => door.serve(exchange))
  return (['POST', 'GET', 'DELETE'] as const).map((method) => ({ method, path: '/mcp', handle }))
}

class McpDoor {
  readonly #host: EdgeHost
  readonly #work: AgentWork
  readonly #actions: McpActions
  readonly #random: Random
  readonly #sessions = new Map<string, McpSession>()

  constructor(host: EdgeHost, { work, actions, random }: { work: AgentWork; actions: McpActions; random: Random }) {
    this.#host = host
    this.#work = work
    this.#actions = actions
    this.#random = random
  }

  async serve(exchange: Exchange): Promise<void> {
    const principal = this.#host.authenticated(exchange)
    const { req, res } = exchange
    const body = req.method === 'POST' ? bodyOf(await readBody(exchange, this.#host.settings.bodyBytesMax)) : undefined
    const named = exchange.header('mcp-session-id')
    const session = named === undefined ? await this.#open(principal) : this.#sessions.get(named)
    // A session of others does not exist for this one.
    if (session === undefined || callerOf(session.principal) !== callerOf(principal)) throw unknownSession()
    session.usedAtMs = this.#work.clock.monotonicMs()
    if (principal.owner !== undefined) this.#work.present(principal.owner)
    const { promise, resolve } = Promise.withResolvers<void>()
    res.once('close', resolve)
    await session.transport.handleRequest(req, res, body)
    await promise
    // What opened no session leaves none behind.
    if (session.transport.sessionId === undefined) await this.#end(session)
  }

  async #open(principal: VerifiedPrincipal): Promise<McpSession> {
    const server = mcpServer(this.#work, this.#actions, principal)
    const session: McpSession = {
      principal,
      server,
      usedAtMs: this.#work.clock.monotonicMs(),
      unring: () => {},
      end: () => void this.#end(session).catch(() => undefined),
      transport: new StreamableHTTPServerTransport({
        sessionIdGenerator: () => toHex(this.#random.bytes(16)),
        onsessioninitialized: (id) => {
          // Counted as it enters: however many open at once, none is above the bound.
          this.#endSilent(principal)
          this.#sessions.set(id, session)
          session.unring = ringIn(server, this.#work, principal)
        },
        onsessionclosed: (id) => {
          this.#sessions.delete(id)
          this.#release(session)
        }
      })
    }
    // The SDK's own types disagree about an optional member under exactOptionalPropertyTypes.
    await server.connect(session.transport as never)
    principal.grant?.ended.addEventListener('abort', session.end, { once: true })
    return session
  }

  /** Makes room for one more of this caller. */
  #endSilent(principal: VerifiedPrincipal): void {
    const nowMs = this.#work.clock.monotonicMs()
    const silent = [...this.#sessions.values()].sort((a, b) => a.usedAtMs - b.usedAtMs)
    const own = silent.filter((one) => callerOf(one.principal) === callerOf(principal))
    const ending = new Set(silent.filter((one) => nowMs - one.usedAtMs > MCP_SESSION_IDLE_MS))
    for (const one of own.slice(0, Math.max(0, own.length - MCP_SESSIONS_PER_CALLER_MAX + 1))) ending.add(one)
    for (const one of silent) if (silent.length - ending.size >= MCP_SESSIONS_MAX) ending.add(one)
    for (const one of ending) one.end()
  }

  #release({ principal, unring, end }: McpSession): void {
    unring()
    principal.grant?.ended.removeEventListener('abort', end)
  }

  async #end(session: McpSession): Promise<void> {
    this.#release(session)
    const { sessionId } = session.transport
    if (sessionId !== undefined) this.#sessions.delete(sessionId)
    await session.server.close()
  }
}

/** Grants that are bound to one EID own the same tasks, and are two callers all the same. */
function callerOf({ id, grant }: VerifiedPrincipal): string {
  return grant === undefined ? id : `${id} ${grant.id}`
}

function mcpServer(work: AgentWork, actions: McpActions, principal: VerifiedPrincipal): McpServer {
  const server = new McpServer(
    { name: 'rookery', version },
    {
      capabilities: { tools: {}, logging: {} },
      instructions:
        principal.owner === undefined
          ? 'create_for gives work to the agent of your grant, list_todos shows what became of it.'
          : `Work of the agent ${principal.owner.name}: claim_todo takes the next todo, renew keeps it, complete, fail or ask end the turn.`
    }
  )
  registerTools(server, work, actions, principal)
  return server
}

/** The doorbell: each event of the session's Todos as a log notification, by the same hook as all streams (TD-26, TD-27). */
function ringIn(server: McpServer, work: AgentWork, { id, owner, grant }: VerifiedPrincipal): () => void {
  if (grant !== undefined && !grant.verbs.includes('read')) return () => {}
  const who = { home: owner === undefined ? undefined : homeOf(owner), principal: id, within: grant?.agent }
  return onRing(work.todos, who, (ring) => {
    // A session without a stream open hears nothing; it asks.
    server.sendLoggingMessage({ level: 'info', logger: 'rookery/doorbell', data: { ...ring } }).catch(() => undefined)
  })
}

function unknownSession(): RookeryError {
  return new RookeryError('MCP_SESSION_UNKNOWN', 'this MCP session has ended, or never was', {
    kind: 'notFound',
    field: 'Mcp-Session-Id',
    remedy: 'initialize a new one'
  })
}
