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
/** One that was silent for so long ends. */
export const MCP_SESSION_IDLE_MS = 30 * 60_000

interface McpSession {
  principal: VerifiedPrincipal
  transport: StreamableHTTPServerTransport
  server: McpServer
  usedAtMs: number
  unring: () => void
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
    if (session === undefined || session.principal.id !== principal.id) throw unknownSession()
    session.usedAtMs = this.#work.clock.monotonicMs()
    if (principal.owner !== undefined) this.#work.present(principal.owner)
    const end = () => void this.#end(session)
    principal.grant?.ended.addEventListener('abort', end, { once: true })
    const { promise, resolve } = Promise.withResolvers<void>()
    res.once('close', resolve)
    await session.transport.handleRequest(req, res, body)
    await promise
    principal.grant?.ended.removeEventListener('abort', end)
    // What opened no session leaves none behind.
    if (session.transport.sessionId === undefined) await this.#end(session)
  }

  async #open(principal: VerifiedPrincipal): Promise<McpSession> {
    await this.#endSilent()
    const server = mcpServer(this.#work, this.#actions, principal)
    const session: McpSession = {
      principal,
      server,
      usedAtMs: this.#work.clock.monotonicMs(),
      unring: () => {},
      transport: new StreamableHTTPServerTransport({
        sessionIdGenerator: () => toHex(this.#random.bytes(16)),
        onsessioninitialized: (id) => {
          this.#sessions.set(id, session)
          session.unring = ringIn(server, this.#work, principal)
        },
        onsessionclosed: (id) => {
          this.#sessions.delete(id)
          session.unring()
        }
      })
    }
    // The SDK's own types disagree about an optional member under exactOptionalPropertyTypes.
    await server.connect(session.transport as never)
    return session
  }

  async #endSilent(): Promise<void> {
    const nowMs = this.#work.clock.monotonicMs()
    const oldest = [...this.#sessions.values()].sort((a, b) => a.usedAtMs - b.usedAtMs)
    const many = Math.max(0, oldest.length - MCP_SESSIONS_MAX + 1)
    for (const [i, one] of oldest.entries()) if (i < many || nowMs - one.usedAtMs > MCP_SESSION_IDLE_MS) await this.#end(one)
  }

  async #end(session: McpSession): Promise<void> {
    session.unring()
    const { sessionId } = session.transport
    if (sessionId !== undefined) this.#sessions.delete(sessionId)
    await session.server.close()
  }
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
function ringIn(server: McpServer, work: AgentWork, { id, owner }: VerifiedPrincipal): () => void {
  return onRing(work.todos, { home: owner === undefined ? undefined : homeOf(owner), principal: id }, (ring) => {
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
