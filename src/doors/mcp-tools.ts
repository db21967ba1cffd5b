import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { annotationsOf } from '../../protocol/ecc/tighten.ts'
import { errorJson } from '../api/error-json.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { SIDE_EFFECTS, type SideEffects } from '../tasks/handler.ts'
import { TODO_STATES } from '../tasks/states.ts'
import type { Json, JsonObject, TodoPage, TodoState } from '../tasks/todo.ts'
import type { AgentWork } from './agent-work.ts'
import { type HeldAct, performAct } from './work-acts.ts'
import { artifactsOf } from './work-params.ts'
import { actView, claimedView, workView } from './work-views.ts'

/** What a session may do beside its own agent's work. */
export interface McpActions {
  /** makes a Todo for an agent of this node, by the call that SendMessage ends in (TD-12, TD-13) */
  createFor(principal: VerifiedPrincipal, request: CreateFor): Promise<JsonObject>
  /** what the principal gave: with a grant, what it gave to the agent of its grant (TD-05, TD-35) */
  listGiven(principal: VerifiedPrincipal, filter: GivenFilter): Promise<TodoPage>
  send(
    from: LocalAgent,
    request: {
      to: string
      text?: string | undefined
      waitMs?: number | undefined
      messageId?: string | undefined
      /** execution requirements (docs/edge-cloud-contract.md), and the hints of the tool that they are sent for */
      require?: JsonObject | undefined
      annotations?: Hints | undefined
    },
    signal: AbortSignal
  ): Promise<JsonObject>
  discover(
    from: LocalAgent,
    request: { space: string; tags?: string[] | undefined; limit?: number | undefined },
    signal: AbortSignal
  ): Promise<JsonObject>
}

/** MCP's hints of a tool; what is absent has MCP's default. */
export type Hints = { readOnlyHint?: boolean | undefined; destructiveHint?: boolean | undefined; idempotentHint?: boolean | undefined }

export type GivenFilter = { state?: TodoState; limit?: number; cursor?: string }

export interface CreateFor {
  agent: string
  text?: string | undefined
  parts?: JsonObject[] | undefined
  dedupKey?: string | undefined
  contextId?: string | undefined
  todoId?: string | undefined
  queue?: string | undefined
  priority?: number | undefined
}

/** G-72 in MCP's words: what each tool does to the world. Work that is given or sent may have any effect there. */
const within = (sideEffects: SideEffects): ToolAnnotations => ({ ...annotationsOf(sideEffects), openWorldHint: false })
const beyond = (sideEffects: SideEffects): ToolAnnotations => ({ ...annotationsOf(sideEffects), openWorldHint: true })

const claim = z.string().describe('the claim that claim_todo gave')
const id = z.string().max(128).describe('id of the todo')
const object = z.record(z.string(), z.json())

/**
 * The tools of a session (TD-18): all of them for an agent's own token; whoever has a grant may create and see what it created. Errors are results,
 * with code, field, value and remedy as everywhere.
 */
export function registerTools(server: McpServer, work: AgentWork, actions: McpActions, principal: VerifiedPrincipal): void {
  registerGiving(server, work, actions, principal)
  if (principal.owner !== undefined) registerWorking(server, work, actions, principal.owner)
}

function registerGiving(server: McpServer, work: AgentWork, actions: McpActions, principal: VerifiedPrincipal): void {
  const agent = principal.owner
  server.registerTool(
    'create_for',
    {
      description: 'Give an agent of this node a todo. The same dedup_key with the same content is the same todo.',
      inputSchema: {
        agent: z.string().min(1).max(80).describe('name or did:key of an agent of this node'),
        text: z.string().min(1).optional(),
        parts: z.array(object).max(1_000).optional().describe('A2A parts, in place of text'),
        dedup_key: z.string().min(1).max(256).optional(),
        context_id: z.string().max(128).optional(),
        todo_id: z.string().max(128).optional().describe('an open todo that this message goes into, as an answer for instance'),
        queue: z.string().max(64).optional(),
        priority: z.int().min(0).max(9).optional()
      },
      annotations: { title: 'Create a todo', ...within('consequential') }
    },
    tool(async (given) =>
      actions.createFor(principal, {
        agent: given.agent,
        text: given.text,
        parts: given.parts as JsonObject[] | undefined,
        dedupKey: given.dedup_key,
        contextId: given.context_id,
        todoId: given.todo_id,
        queue: given.queue,
        priority: given.priority
      })
    )
  )
  server.registerTool(
    'list_todos',
    {
      description: 'Todos that this agent was given, or with role "caller" those that it gave; newest change first.',
      inputSchema: {
        role: z.enum(['agent', 'caller']).optional(),
        state: z.enum(TODO_STATES).optional(),
        limit: z.int().min(1).max(100).optional(),
        cursor: z.string().max(512).optional()
      },
      annotations: { title: 'List todos', ...within('none') }
    },
    tool(async ({ role, ...filter }) => {
      const asAgent = agent !== undefined && role !== 'caller'
      const { todos, next } = asAgent ? await work.list(agent, defined(filter)) : await actions.listGiven(principal, defined(filter))
      return { todos: todos.map(workView), ...(next === undefined ? {} : { next }) }
    })
  )
}

function registerWorking(server: McpServer, work: AgentWork, actions: McpActions, agent: LocalAgent): void {
  const act = async (name: HeldAct, { id: todo, ...body }: { id: string; [member: string]: unknown }) =>
    actView(await performAct(work, agent, 'mcp', { id: todo, act: name, body: defined(body) }))

  server.registerTool(
    'claim_todo',
    {
      description: 'Take the next todo of this agent under a lease. Renew it before the lease ends, then complete, fail or ask.',
      inputSchema: {
        lease_ms: z.int().optional(),
        wait_ms: z.int().optional().describe('how long to wait for one, at most 60000'),
        queue: z.string().max(64).optional(),
        side_effects: z.enum(SIDE_EFFECTS).optional().describe('what working on it may do; undeclared counts as consequential')
      },
      annotations: { title: 'Claim a todo', ...within('reversible') }
    },
    tool(async ({ lease_ms, wait_ms, queue, side_effects }, signal) => {
      const request = { leaseMs: lease_ms, waitMs: wait_ms, queue, sideEffects: side_effects }
      const claimed = await work.claim(agent, 'mcp', request, signal)
      return claimed === undefined ? { todo: null } : claimedView(claimed)
    })
  )
  server.registerTool(
    'renew',
    {
      description: 'Keep a claimed todo for longer.',
      inputSchema: { id, claim, lease_ms: z.int().optional() },
      annotations: { title: 'Renew a lease', ...within('idempotent') }
    },
    tool(({ lease_ms, ...held }) => act('renew', { ...held, leaseMs: lease_ms }))
  )
  server.registerTool(
    'complete',
    {
      description: 'End a claimed todo with its result.',
      inputSchema: {
        id,
        claim,
        text: z.string().min(1).optional(),
        artifacts: z.array(object).max(100).optional().describe('A2A artifacts')
      },
      annotations: { title: 'Complete a todo', ...within('consequential') }
    },
    tool(({ text, artifacts, ...held }) => {
      const all = artifactsOf({ text, artifacts: artifacts as JsonObject[] | undefined })
      return act('complete', { ...held, artifacts: all })
    })
  )
  server.registerTool(
    'fail',
    {
      description: 'Give a claimed todo up; with retry it is tried again later.',
      inputSchema: { id, claim, reason: z.string().min(1).max(1_000), retry: z.boolean().optional() },
      annotations: { title: 'Fail a todo', ...within('consequential') }
    },
    tool((given) => act('fail', given))
  )
  server.registerTool(
    'ask',
    {
      description: 'Ask the caller of a claimed todo for input, or for authorization. It comes back as pending with the answer.',
      inputSchema: { id, claim, text: z.string().min(1), for: z.enum(['input', 'auth']).optional() },
      annotations: { title: 'Ask the caller', ...within('reversible') }
    },
    tool((given) => act('ask', given))
  )
  server.registerTool(
    'discover',
    {
      description: 'Find agents in a space by topic.',
      inputSchema: {
        space: z.string().min(1).max(300).describe('namespace/topic@version'),
        tags: z.array(z.string().max(64)).max(16).optional(),
        limit: z.int().min(1).max(100).optional()
      },
      annotations: { title: 'Find agents', ...beyond('none') }
    },
    tool((given, signal) => actions.discover(agent, given, signal))
  )
  server.registerTool(
    'send',
    {
      description: 'Send a message to any agent, of this node or of another, and wait for its answer.',
      inputSchema: {
        to: z.string().min(1).max(80).describe('did:key, or the name of an agent of this node'),
        text: z.string().min(1),
        wait_ms: z.int().min(0).max(600_000).optional(),
        message_id: z.string().min(1).max(128).optional().describe('the same id never runs twice'),
        require: object.optional().describe('execution requirements that the result has to meet'),
        tool_annotations: z
          .strictObject({
            readOnlyHint: z.boolean().optional(),
            destructiveHint: z.boolean().optional(),
            idempotentHint: z.boolean().optional()
          })
          .optional()
          .describe('hints of the tool that this is sent for; with require: they lower the side effects that it permits, never raise them')
      },
      annotations: { title: 'Send a message', ...beyond('consequential') }
    },
    tool(({ to, text, wait_ms, message_id, require, tool_annotations }, signal) =>
      actions.send(
        agent,
        { to, text, waitMs: wait_ms, messageId: message_id, require: require as JsonObject | undefined, annotations: tool_annotations },
        signal
      )
    )
  )
}

function tool<A>(run: (given: A, signal: AbortSignal) => Promise<JsonObject>) {
  return async (given: A, { signal }: { signal: AbortSignal }): Promise<CallToolResult> => {
    try {
      const result = await run(given, signal)
      return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result }
    } catch (error) {
      const json = errorJson(error) as unknown as Json
      return { isError: true, content: [{ type: 'text', text: JSON.stringify({ error: json }) }], structuredContent: { error: json } }
    }
  }
}

function defined<T extends object>(given: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as never
}
