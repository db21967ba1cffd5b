import type { Server } from 'node:http'
import { MemoryLevel } from 'memory-level'
import { type EidHex, eidFromDid } from '../../../protocol/identity/eid.ts'
import { Attachments } from '../../../src/delivery/attachments.ts'
import { AgentWork, type WorkDoor } from '../../../src/doors/agent-work.ts'
import { MCP_SESSIONS_PER_CALLER_MAX, mcpRoutes } from '../../../src/doors/mcp-door.ts'
import { nodeMcpActions } from '../../../src/doors/node-mcp.ts'
import { workRoutes } from '../../../src/doors/work-door.ts'
import type { HostedAgent } from '../../../src/identity/hosted-agent.ts'
import type { NodeParts } from '../../../src/node-parts.ts'
import { type Clock, systemClock } from '../../../src/platform/clock.ts'
import { systemRandom } from '../../../src/platform/random.ts'
import { noTracer } from '../../../src/platform/tracer.ts'
import type { RookeryNode } from '../../../src/rookery-node.ts'
import { Store } from '../../../src/store/store.ts'
import type { Todos } from '../../../src/tasks/todo.ts'
import type { DoorParts, TestAgent } from '../../support/a2a-fixture.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { exchanged, mustAnswer, REQUESTS_MAX, requestOf, settled, statusOf, withServer } from './http-support.ts'
import { mustBe } from './support.ts'

/** Waits end at once: nobody brings the work that a claim waits for. */
const HURRIED_MS = 10
const hurried: Clock = {
  ...systemClock,
  sleep: (ms, options) => systemClock.sleep(Math.min(ms, HURRIED_MS), options),
  after: (ms, call) => systemClock.after(Math.min(ms, HURRIED_MS), call)
}

interface Doors {
  readonly server: Server
  readonly agent: TestAgent
  readonly work: AgentWork
  /** hooks that are held: a stream and a waiting claim hold one of `claimable`, a stream and a session one of `commits` */
  readonly held: { claimable: number; commits: number }
  /** of the MCP session that inputs may name, while it lasts */
  session: string | undefined
  requests: number
  readonly stop: () => Promise<void>
}

/** Counts what listens, from here on. */
function counted(todos: Todos): Doors['held'] {
  const held = { claimable: 0, commits: 0 }
  const { onCommit, onClaimable } = todos
  const once = (kind: keyof typeof held, off: () => void) => {
    let isHeld = true
    held[kind]++
    return () => {
      if (isHeld) held[kind]--
      isHeld = false
      off()
    }
  }
  todos.onCommit = (hook) => once('commits', onCommit.call(todos, hook))
  todos.onClaimable = (agent, hook) => once('claimable', onClaimable.call(todos, agent, hook))
  return held
}

/** The agents' side of a node, and its calls to others as one that answers at once. */
function actionsOf({ local, todos, queue, outgoing, access }: DoorParts, agent: TestAgent) {
  const one = agent as unknown as HostedAgent
  const agents = {
    list: () => [one],
    get: () => one,
    ofAnyEid: (eid: Uint8Array) => (Buffer.compare(eid, agent.eid) === 0 ? one : undefined),
    eidOf: (to: string) => (to === agent.name ? agent.eid : eidFromDid(to))
  }
  const parts = { access, agents, todos, outgoing, queue, random: systemRandom, tracer: noTracer } as unknown as NodeParts
  const node = { send: async () => ({ outcome: 'task', task: {} }), spaces: { find: async () => ({ members: [] }) } }
  return nodeMcpActions(parts, local, node as unknown as RookeryNode)
}

let doors: Doors | undefined

async function opened(): Promise<Doors> {
  if (doors !== undefined && doors.requests < REQUESTS_MAX) return doors
  await close()
  const { startA2aNode, tempDir, testAgent } = await import('../../support/a2a-fixture.ts')
  const dir = tempDir()
  const agent = testAgent(1)
  const stores: Store[] = []
  const made: { work?: AgentWork; held?: Doors['held'] } = {}
  const { server, opened: node } = await withServer(() =>
    startA2aNode({
      dir: dir.path,
      agents: [agent],
      blockingWaitMs: 10,
      workers: 'none',
      wrapStore: (store) => {
        stores.push(store)
        return new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
      },
      doors: (parts) => {
        made.held = counted(parts.todos)
        const { todos, reachability } = parts
        const components = { clock: hurried, random: systemRandom }
        const work = new AgentWork({
          ...components,
          todos,
          attachments: new Attachments({ ...components, clock: systemClock }),
          reachability
        })
        made.work = work
        const actions = actionsOf(parts, agent)
        return [(host) => workRoutes(host, work), (host) => mcpRoutes(host, { work, actions, random: systemRandom })]
      }
    })
  )
  doors = {
    server,
    agent,
    work: made.work as AgentWork,
    held: made.held as Doors['held'],
    session: undefined,
    requests: 0,
    async stop() {
      await node.stop()
      for (const store of stores) await store.close()
      dir.dispose()
    }
  }
  return doors
}

async function close(): Promise<void> {
  const before = doors
  doors = undefined
  await before?.stop()
}

const MCP_HEADERS = 'content-type: application/json\naccept: application/json, text/event-stream'
const mcp = (body: unknown, ...headers: string[]) =>
  Buffer.concat([text(`${['POST /mcp', MCP_HEADERS, ...headers].join('\n')}\n\n`), json(body)])
const call = (method: string, params?: object, id: number | string = 1) => ({ jsonrpc: '2.0', id, method, ...(params && { params }) })
const INITIALIZE = call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'fuzz', version: '1' } })

async function newSession(open: Doors): Promise<string> {
  const authorization = `Bearer ${open.agent.token}`
  const answer = await exchanged(open.server, requestOf(mcp(INITIALIZE), { authorization }))
  const session = /^mcp-session-id: (\S+)/im.exec(answer)?.[1]
  mustBe(session !== undefined, `a session is opened: ${answer.slice(0, 400)}`)
  const done = mcp({ jsonrpc: '2.0', method: 'notifications/initialized' }, `mcp-session-id: ${session}`)
  mustBe(statusOf(await exchanged(open.server, requestOf(done, { authorization }))) === 202, 'a session is told that it begins')
  return session
}

/** Gives the agent a task: in the name of one of eight, as each may have so many open. */
async function given({ work, agent, requests }: Doors): Promise<void> {
  const eid = String(requests % 8).repeat(64) as EidHex
  const messageId = Buffer.from(systemRandom.bytes(8)).toString('hex')
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'work' }] }
  await work.todos.create({ agent: agent.eidHex, caller: { id: `eid:${eid}`, eid }, message, door: 'node' })
}

/** What the placeholders of an input stand for; made only where it has them. */
async function standsOf(open: Doors, input: string): Promise<[string, string][]> {
  const stands: [string, string][] = []
  if (input.includes('@session')) {
    open.session ??= await newSession(open)
    stands.push(['@session', open.session])
  }
  if (/claim/.test(input)) await given(open)
  if (/@claim|@todo/.test(input)) {
    const door: WorkDoor = /^\w+ \/mcp/.test(input) ? 'mcp' : 'agent-http'
    const claimed = await open.work.claim(open.agent, door, { sideEffects: 'none' }, AbortSignal.timeout(1_000))
    if (claimed !== undefined) stands.push(['@claim', claimed.claim], ['@todo', claimed.todo.id])
  }
  return [...stands, ['@did', encodeURIComponent(open.agent.did)]]
}

async function answered(open: Doors, bytes: Uint8Array): Promise<string> {
  const stands = await standsOf(open, Buffer.from(bytes).toString('latin1'))
  return await exchanged(open.server, requestOf(bytes, { authorization: `Bearer ${open.agent.token}`, stands }))
}

const INTERNAL = /"error":\{"code":"INTERNAL","kind":"internal"/

/** Requests to the claim API and to MCP, where `@did`, `@todo`, `@claim` and `@session` stand for what there is. */
const agentDoors: FuzzTarget = {
  name: 'agent-doors',
  bytesMax: 4_096,
  mutators: [
    mutateJson(
      [
        '@claim',
        '@todo',
        'claim',
        'leaseMs',
        'waitMs',
        'artifacts',
        'message',
        'reason',
        'tools/call',
        'tools/list',
        'ping',
        'arguments',
        'name',
        'create_for',
        'list_todos',
        'claim_todo',
        'discover',
        'send',
        'notifications/cancelled',
        'requestId',
        '_meta',
        'progressToken'
      ],
      'head'
    )
  ],
  seeds: () => {
    const post = (path: string, body: object) => Buffer.concat([text(`POST ${path}\ncontent-type: application/json\n\n`), json(body)])
    const act = (name: string, more: object) => post(`/v1/work/@todo/${name}`, { claim: '@claim', ...more })
    const inSession = (body: unknown) => mcp(body, 'mcp-session-id: @session')
    const tool = (name: string, args: object, id: number | string = 1) => inSession(call('tools/call', { name, arguments: args }, id))
    const held = { id: '@todo', claim: '@claim' }
    return [
      post('/v1/work/claim', { leaseMs: 1_000, waitMs: 5, sideEffects: 'none' }),
      post('/agents/@did/v1/work/claim', {}),
      text('GET /v1/work?limit=2&state=claimed\n\n'),
      text('GET /v1/work/@todo\n\n'),
      text('GET /v1/work/events\n\n'),
      text('HEAD /v1/work/events\n\n'),
      text('HEAD /agents/@did/tasks/@todo:subscribe\na2a-version: 1.0\n\n'),
      act('renew', { leaseMs: 2_000 }),
      act('progress', { text: 'x', artifact: { artifactId: 'a', parts: [{ text: 'y' }] }, append: true, lastChunk: false }),
      act('complete', { text: 'done', artifacts: [{ artifactId: 'b', parts: [{ data: { a: 1 } }] }] }),
      act('complete', { message: { parts: [{ text: 'x' }] } }),
      act('fail', { reason: 'no', retry: true }),
      act('ask', { text: 'which?', for: 'auth' }),
      act('reject', { reason: 'no' }),
      act('release', {}),
      mcp(INITIALIZE),
      mcp(call('ping'), 'mcp-session-id: none'),
      mcp(call('tools/list')),
      inSession(call('tools/list')),
      inSession([
        call('ping', undefined, 'a'),
        call('tools/list', {}, 2),
        { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2 } }
      ]),
      inSession(call('logging/setLevel', { level: 'debug' })),
      inSession({ jsonrpc: '2.0', id: 7, result: {} }),
      text('GET /mcp\naccept: text/event-stream\nmcp-session-id: @session\n\n'),
      text('GET /mcp\naccept: text/event-stream\nmcp-session-id: @session\nlast-event-id: 1\n\n'),
      text('DELETE /mcp\nmcp-session-id: @session\n\n'),
      tool('claim_todo', { lease_ms: 1_000, wait_ms: 5, side_effects: 'none' }),
      tool('renew', { ...held, lease_ms: 2_000 }),
      tool('complete', { ...held, text: 'done', artifacts: [{ artifactId: 'b', parts: [] }] }),
      tool('fail', { ...held, reason: 'no', retry: false }),
      tool('ask', { ...held, text: 'which?' }),
      tool('create_for', { agent: 'agent-1', text: 'x', dedup_key: 'k', priority: 3, context_id: 'c' }),
      tool('create_for', { agent: 'did:key:z6Mk', parts: [{ text: 'x' }], todo_id: '@todo' }, 'b'),
      tool('list_todos', { role: 'caller', state: 'pending', limit: 2 }),
      tool('discover', { space: 'org.agentnet/marketplace@1', tags: ['a'], limit: 2 }),
      tool('send', { to: 'agent-1', text: 'x', wait_ms: 0, require: { v: 1 }, tool_annotations: { readOnlyHint: true } })
    ]
  },
  async run(bytes) {
    const open = await opened()
    open.requests++
    let answer = await answered(open, bytes)
    if (open.session !== undefined && answer.includes('MCP_SESSION_UNKNOWN')) {
      // it ended before, by an input that did so or to make room
      open.session = undefined
      answer = await answered(open, bytes)
    }
    mustAnswer(answer, INTERNAL)
    if (await settled(() => open.held.claimable === 0 && open.held.commits <= MCP_SESSIONS_PER_CALLER_MAX)) return
    const { held } = open
    await close()
    mustBe(held.claimable === 0, 'a stream ends when its reader leaves, and a claim when it has waited')
    mustBe(held.commits <= MCP_SESSIONS_PER_CALLER_MAX, 'no caller has more sessions than its bound')
  }
}

export const targets: readonly FuzzTarget[] = [agentDoors]
