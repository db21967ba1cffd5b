import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { toHex } from '../../protocol/bytes.ts'
import type { EdgeHost } from '../a2a/edge-host.ts'
import type { Route } from '../a2a/edge-routes.ts'
import type { Exchange } from '../a2a/http-exchange.ts'
import { readBody } from '../a2a/http-guards.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Random } from '../platform/random.ts'
import { version } from '../version.ts'
import type { AgentWork } from './agent-work.ts'
import { onRing } from './doorbell.ts'
import { type McpActions, registerTools } from './mcp-tools.ts'
import { bodyOf, doorRoute, ownAgent } from './work-door.ts'

/** MCP sessions at a time; at the bound the one that was silent longest ends. */
export const MCP_SESSIONS_MAX = 64
/** One that was silent for so long ends. */
export const MCP_SESSION_IDLE_MS = 30 * 60_000

interface McpSession {
  agent: LocalAgent
  transport: StreamableHTTPServerTransport
  server: McpServer
  usedAtMs: number
  unring: () => void
}

/** MCP over streamable HTTP at /mcp: one session in the name of the agent whose token opens it. */
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
    const agent = ownAgent(this.#host, exchange)
    const { req, res } = exchange
    const body = req.method === 'POST' ? bodyOf(await readBody(exchange, this.#host.settings.bodyBytesMax)) : undefined
    const named = exchange.header('mcp-session-id')
    const session = named === undefined ? await this.#open(agent) : this.#sessions.get(named)
    // Another agent's session does not exist for this one.
    if (session === undefined || homeOf(session.agent) !== homeOf(agent)) throw unknownSession()
    session.usedAtMs = this.#work.clock.monotonicMs()
    this.#work.present(agent)
    const { promise, resolve } = Promise.withResolvers<void>()
    res.once('close', resolve)
    await session.transport.handleRequest(req, res, body)
    await promise
    // What opened no session leaves none behind.
    if (session.transport.sessionId === undefined) await this.#end(session)
  }

  async #open(agent: LocalAgent): Promise<McpSession> {
    await this.#endSilent()
    const server = mcpServer(this.#work, this.#actions, agent)
    const session: McpSession = {
      agent,
      server,
      usedAtMs: this.#work.clock.monotonicMs(),
      unring: () => {},
      transport: new StreamableHTTPServerTransport({
        sessionIdGenerator: () => toHex(this.#random.bytes(16)),
        onsessioninitialized: (id) => {
          this.#sessions.set(id, session)
          session.unring = ringIn(server, this.#work, agent)
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

/** The tools of one agent, for any transport. */
export function mcpServer(work: AgentWork, actions: McpActions, agent: LocalAgent): McpServer {
  const server = new McpServer(
    { name: 'rookery', version },
    {
      capabilities: { tools: {}, logging: {} },
      instructions: `Work of the agent ${agent.name} (${agent.did}): claim_todo takes the next todo, renew keeps it, complete, fail or ask end the turn.`
    }
  )
  registerTools(server, work, actions, agent)
  return server
}

/** The doorbell: each event of the agent's Todos as a log notification, by the same hook as all streams (TD-26, TD-27). */
export function ringIn(server: McpServer, work: AgentWork, agent: LocalAgent): () => void {
  return onRing(work.todos, agent, (ring) => {
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
