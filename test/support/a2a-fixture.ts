import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentCard } from '@a2a-js/sdk'
import { type Client, ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { Level } from 'level'
import { equals, toHex } from '../../protocol/bytes.ts'
import { keepsMessages, type Reachability, reachabilityAt } from '../../protocol/delivery/reachability.ts'
import type { CapabilityContract } from '../../protocol/ecc/objects.ts'
import { type EidHex, eid, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { agentCard, rpcUrlOf } from '../../src/a2a/agent-card.ts'
import { type A2aEdge, type A2aEdgeComponents, type A2aEdgeSettings, createA2aEdge, type RemoteAgents } from '../../src/a2a/edge.ts'
import { createKeepAsleep, createKeepOpaque } from '../../src/a2a/keep-asleep.ts'
import { LocalA2a } from '../../src/a2a/local-a2a.ts'
import type { PushConfigs } from '../../src/a2a/push-configs.ts'
import { SignedCards } from '../../src/a2a/signed-cards.ts'
import { TaskStreams, type TaskStreamsSettings } from '../../src/a2a/task-streams.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { QueueBounds } from '../../src/delivery/asleep-queue.ts'
import { ClockGuard } from '../../src/delivery/clock-guard.ts'
import { Drain } from '../../src/delivery/drain.ts'
import { LevelAsleepQueue } from '../../src/delivery/level-asleep-queue.ts'
import { OutgoingObjects } from '../../src/delivery/outgoing.ts'
import { ReplayCache } from '../../src/delivery/replay-cache.ts'
import { ExecutionContracts, lateAdmission } from '../../src/ecc/execution-contracts.ts'
import type { Access, PeerAccess } from '../../src/grants/access.ts'
import type { Grants } from '../../src/grants/grants.ts'
import type { SendBuckets } from '../../src/grants/send-buckets.ts'
import { type AgentReachability, homeOf, type LocalAgent } from '../../src/identity/agent.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { Store } from '../../src/store/store.ts'
import { type AgentHandler, loadHandler } from '../../src/tasks/handler.ts'
import { createTodos, type LevelTodos } from '../../src/tasks/level-todos.ts'
import type { TodosSettings } from '../../src/tasks/settings.ts'
import type { JsonObject, Principal } from '../../src/tasks/todo.ts'
import { createWorker, type Worker } from '../../src/tasks/worker.ts'
import { openAccess } from './grants-fixture.ts'

export type TestAgent = LocalAgent & { reachability: AgentReachability; readonly token: string }

/** An agent whose keys follow from its number. */
export function testAgent(number: number, reachability: AgentReachability = { mode: 'always_on' }): TestAgent {
  const seed = nodeCrypto.sha256(Uint8Array.of(0xa9, number))
  const secret = nodeCrypto.sha256(Uint8Array.of(0x3b, number))
  const mailboxKey = nodeCrypto.x25519.publicKey(secret)
  const kid = toHex(nodeCrypto.sha256(mailboxKey).subarray(0, 8))
  const own = eid(nodeCrypto.ed25519.publicKey(seed))
  return {
    name: `agent-${number}`,
    eid: own,
    eidHex: eidHex(own),
    did: eidToDid(own),
    description: `Agent ${number} of the tests`,
    signer: { publicKey: own, sign: (message) => nodeCrypto.ed25519.sign(seed, message) },
    mailboxKey,
    mailboxSecret: (kidHex) => (kidHex === kid ? secret : undefined),
    reachability,
    token: `token-of-${number}-${toHex(seed)}`
  }
}

export function principal(number: number): Principal {
  const { eidHex: hex } = testAgent(number)
  return { id: `eid:${hex}`, eid: hex }
}

export function textMessage(messageId: string, text = 'hello', more: JsonObject = {}): JsonObject {
  return { messageId, role: 'ROLE_USER', parts: [{ text }], ...more }
}

/** A directory that vanishes with {@link dispose}. */
export function tempDir(): { path: string; dispose(): void } {
  const path = mkdtempSync(join(tmpdir(), 'rookery-a2a-'))
  return { path, dispose: () => rmSync(path, { recursive: true, force: true }) }
}

export async function openLevelStore(path: string): Promise<Store> {
  const level = new Level<string, Uint8Array>(path, { keyEncoding: 'utf8', valueEncoding: 'view' })
  await level.open()
  return new Store(level)
}

export function openTodos(store: Store, clock: Clock = systemClock, settings: Partial<TodosSettings> = {}): Promise<LevelTodos> {
  return createTodos({ store, crypto: nodeCrypto, clock, random: systemRandom, logger: silentLogger }, settings)
}

export interface A2aNodeInit {
  dir: string
  agents: TestAgent[]
  /** by agent name; default `builtin:echo` for all */
  handlers?: Record<string, string | AgentHandler>
  clock?: Clock
  bounds?: QueueBounds
  todos?: Partial<TodosSettings>
  remote?: RemoteAgents
  edge?: Partial<A2aEdgeSettings>
  blockingWaitMs?: number
  refusals?: A2aEdgeComponents['refusals']
  /** `off`: no streaming */
  streams?: Partial<TaskStreamsSettings> | 'off'
  push?: PushConfigs
  /** by agent name; changed in place it holds from then on */
  contracts?: { [name: string]: CapabilityContract | undefined }
  /** default: `anyone` */
  peers?: PeerAccess
  /** told of grants and their buckets; default: nothing */
  logger?: Logger
  wrapStore?: (store: Store) => Store
  /** doors beside A2A's, over what the node has */
  doors?: (made: DoorParts) => NonNullable<A2aEdgeComponents['doors']>
  /** whether the agents' processes hold a lease; default: they do */
  attached?: () => boolean
  /** a worker is made for each agent unless `none` */
  workers?: 'none'
  /** runs at a time of each worker; default 1 */
  concurrency?: number
}

export type DoorParts = Pick<A2aNode, 'local' | 'todos' | 'queue' | 'outgoing' | 'access'> & {
  reachability: (agent: LocalAgent) => Reachability
}

/** One node's A2A side over a real LevelDB: what `createNode` wires, without the network. */
export interface A2aNode {
  edge: A2aEdge
  local: LocalA2a
  streams: TaskStreams | undefined
  todos: LevelTodos
  queue: LevelAsleepQueue
  drain: Drain
  store: Store
  workers: Map<string, Worker>
  outgoing: OutgoingObjects
  grants: Grants
  access: Access
  buckets: SendBuckets
  stop(): Promise<void>
}

export const TEST_BOUNDS: QueueBounds = { messagesMax: 500, bytesMax: 2_097_152, messagesPerPeerMax: 50, ttlMaxMs: 604_800_000 }

export async function startA2aNode(init: A2aNodeInit): Promise<A2aNode> {
  const clock = init.clock ?? systemClock
  const bounds = init.bounds ?? TEST_BOUNDS
  const opened = await openLevelStore(init.dir)
  const store = init.wrapStore?.(opened) ?? opened
  const components = { store, crypto: nodeCrypto, clock, random: systemRandom, logger: silentLogger }
  const homes = new Map(init.agents.map((agent) => [homeOf(agent), agent]))
  const contracts = new ExecutionContracts({
    contractOf: (home) => init.contracts?.[homes.get(home)?.name ?? ''],
    signerOf: (home) => homes.get(home)?.signer,
    crypto: nodeCrypto,
    clock
  })
  const todos = await createTodos({ ...components, gate: contracts }, init.todos)
  const clockGuard = await ClockGuard.open(components)
  const outgoing = await OutgoingObjects.open(components)
  const queue = await LevelAsleepQueue.open(
    { ...components, clockGuard },
    { bounds: () => bounds, alsoRemove: (record) => outgoing.removal(record) }
  )
  const replay = await ReplayCache.open(components)
  const drainInit = (access: Access) => ({
    approvalFor: () => 'none' as const,
    underContract: (agent: LocalAgent, request: { message: JsonObject; extensions: readonly string[] }, sinceMs: number) =>
      lateAdmission(contracts.admitLate(homeOf(agent), request, sinceMs)),
    isAudience: (agent: LocalAgent, audience: Uint8Array) => equals(audience, agent.eid),
    maySend: (agent: LocalAgent, principal: string) => access.maySendStill(agent, principal)
  })
  const byEid = new Map<EidHex, TestAgent>(init.agents.map((agent) => [agent.eidHex, agent]))
  const reachability = (agent: LocalAgent) =>
    reachabilityAt(agent.reachability, { nowMs: clock.nowMs(), attached: init.attached?.() ?? true })
  let edge: A2aEdge | undefined
  const skills = new Map<string, Awaited<ReturnType<typeof loadHandler>>['skills']>()
  const streams = init.streams === 'off' ? undefined : new TaskStreams({ todos, clock }, init.streams)
  const { grants, access, buckets } = await openAccess({
    store,
    clock,
    peers: init.peers ?? 'anyone',
    own: init.agents,
    byToken: (text) => init.agents.find(({ token }) => token === text),
    ...(init.logger === undefined ? {} : { logger: init.logger })
  })
  const drain = new Drain({ ...components, queue, replay, clockGuard, todos }, drainInit(access))
  const signed = new SignedCards(nodeCrypto)
  const local: LocalA2a = new LocalA2a({
    todos,
    access,
    clock,
    reachability,
    card: (agent) =>
      agentCard({
        agent,
        skills: skills.get(agent.name) ?? [],
        version: '0.1.0',
        rpcUrl: rpcUrlOf(edge?.publicUrl ?? 'http://127.0.0.1', agent.did),
        streaming: streams !== undefined,
        pushNotifications: init.push !== undefined,
        bounds: keepsMessages(agent.reachability) ? bounds : undefined,
        extensions: contracts.extension(homeOf(agent))
      }),
    extendedCard: (agent) => signed.of(agent, local.card(agent)).card,
    contracts,
    ...(streams === undefined ? {} : { streams }),
    ...(init.push === undefined ? {} : { push: init.push }),
    ...(init.blockingWaitMs !== undefined ? { blockingWaitMs: init.blockingWaitMs } : {})
  })
  const workers = new Map<string, Worker>()
  for (const agent of init.agents) {
    const given = init.handlers?.[agent.name] ?? 'builtin:echo'
    const module = typeof given === 'string' ? await loadHandler(given) : { handler: given, sideEffects: 'none' as const, skills: [] }
    skills.set(agent.name, module.skills)
    if (init.workers === 'none') continue
    const worker = createWorker(
      { todos, clock, random: systemRandom, logger: silentLogger },
      {
        agent: agent.eidHex,
        handler: module.handler,
        mayRun: () => reachability(agent).state === 'accepts',
        ...(init.concurrency === undefined ? {} : { settings: { concurrency: init.concurrency } })
      }
    )
    worker.start()
    workers.set(agent.name, worker)
  }
  edge = await createA2aEdge(
    {
      agents: { get: (hex) => byEid.get(hex), defaultAgent: () => init.agents[0] },
      local,
      keep: createKeepAsleep({ outgoing, queue }),
      keepOpaque: createKeepOpaque({ queue, random: systemRandom }),
      authenticate: (token) => access.ofBearer(token),
      crypto: nodeCrypto,
      logger: silentLogger,
      ...(init.remote !== undefined ? { remote: init.remote } : {}),
      ...(init.doors !== undefined ? { doors: init.doors({ local, todos, queue, outgoing, access, reachability }) } : {}),
      ...(init.refusals !== undefined ? { refusals: init.refusals } : {})
    },
    init.edge ?? {}
  )
  const serving = edge
  return {
    edge: serving,
    local,
    streams,
    todos,
    queue,
    drain,
    store,
    workers,
    outgoing,
    grants,
    access,
    buckets,
    async stop() {
      streams?.stop()
      await serving.close()
      for (const worker of workers.values()) await worker.stop()
      grants.stop()
      await todos.stop()
      await store.close()
    }
  }
}

/** `fetch` that adds an agent's bearer token, and remembers the last answer's status and headers. */
export function fetchAs(agent: { token: string } | undefined): typeof fetch & { last: Response | undefined } {
  const as = async (input: Parameters<typeof fetch>[0], init?: RequestInit) => {
    const headers = new Headers(init?.headers)
    if (agent !== undefined) headers.set('Authorization', `Bearer ${agent.token}`)
    const response = await fetch(input, { ...init, headers })
    as.last = response
    return response
  }
  as.last = undefined as Response | undefined
  return as
}

/** The official client, from the card that the edge serves for `did`. */
export async function sdkClient(edge: Pick<A2aEdge, 'url'>, did: string, fetchImpl: typeof fetch): Promise<Client> {
  const card = AgentCard.fromJSON(await (await fetch(`${edge.url}/agents/${did}/.well-known/agent-card.json`)).json())
  const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] })
  return await factory.createFromAgentCard(card)
}

export interface RawAnswer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into whatever JSON came
  body: any
  text: string
}

/** A request as a client without any SDK sends it. */
export async function post(
  url: string,
  body: unknown,
  { agent, headers = {} }: { agent?: { token: string } | undefined; headers?: Record<string, string> } = {}
): Promise<RawAnswer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'A2A-Version': '1.0',
      ...(agent !== undefined ? { Authorization: `Bearer ${agent.token}` } : {}),
      ...headers
    },
    body: typeof body === 'string' || body instanceof Uint8Array ? (body as string) : JSON.stringify(body)
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text), text }
}

export function rpc(method: string, params: JsonObject, id: string | number = 1): JsonObject {
  return { jsonrpc: '2.0', id, method, params }
}
