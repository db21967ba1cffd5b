import type { AbstractLevel } from 'abstract-level'
import type { CryptoProvider } from '../protocol/crypto/provider.ts'
import { type Reachability, reachabilityAt } from '../protocol/delivery/reachability.ts'
import type { Eid, EidHex } from '../protocol/identity/eid.ts'
import { agentCard, rpcUrlOf } from './a2a/agent-card.ts'
import { type A2aEdge, createA2aEdge, type RemoteAgents } from './a2a/edge.ts'
import { createKeepAsleep } from './a2a/keep-asleep.ts'
import { LocalA2a } from './a2a/local-a2a.ts'
import { serveA2a } from './a2a/pss-binding.ts'
import { createRemoteAgents } from './a2a/remote.ts'
import { sendByMailbox } from './a2a/send-by-mailbox.ts'
import { type SendOutcome, sendMessage } from './a2a/send-message.ts'
import { helloControl } from './api/control-client.ts'
import { parseConfig } from './config/load.ts'
import { type Config, type ConfigInput, DEFAULT_HTTP_PORT, DEFAULT_P2P_PORT } from './config/schema.ts'
import { nodeCrypto } from './crypto/node-crypto.ts'
import type { DrainReport, QueueBounds, QueueUsage } from './delivery/asleep-queue.ts'
import { ClockGuard } from './delivery/clock-guard.ts'
import { Drain } from './delivery/drain.ts'
import { LevelAsleepQueue } from './delivery/level-asleep-queue.ts'
import { serveMailbox } from './delivery/mailbox-service.ts'
import { OutgoingObjects } from './delivery/outgoing.ts'
import { ReplayCache } from './delivery/replay-cache.ts'
import { WakeSchedule } from './delivery/wake-schedule.ts'
import { RookeryError } from './errors.ts'
import type { LocalAgent } from './identity/agent.ts'
import { AgentFiles, AgentMemory, type AgentStorage } from './identity/agent-file.ts'
import { type AgentAdd, Agents } from './identity/agents.ts'
import type { HostedAgent } from './identity/hosted-agent.ts'
import { loadNodeKey, type NodeKey, nodeKeyOf } from './identity/node-key.ts'
import { createHost, type HostInit } from './net/create-host.ts'
import type { Host } from './net/host.ts'
import type { Traffic } from './net/traffic.ts'
import { openOnAnyPort, openOnGivenPort, PortMemory } from './node-ports.ts'
import { type Clock, systemClock } from './platform/clock.ts'
import { Closing } from './platform/closing.ts'
import { type Logger, silentLogger } from './platform/logger.ts'
import { type Random, systemRandom } from './platform/random.ts'

import { createSessionManager, type RunningSessionManager } from './sessions/create-session-manager.ts'
import type { Session } from './sessions/session.ts'
import { createLocators } from './spaces/create-locators.ts'
import { createSpaces } from './spaces/create-spaces.ts'
import { recordRules } from './spaces/record-rules.ts'
import { createRegistry, type Registry } from './spaces/registry.ts'
import type { Locators, PublishOptions, Spaces } from './spaces/spaces.ts'
import { holderOf, removeLockFile } from './store/lock-file.ts'
import { openStore } from './store/open-store.ts'
import { bringToSchema } from './store/schema-version.ts'
import { Store } from './store/store.ts'
import { AgentRunners, handlerModule, moduleOf } from './tasks/agent-runners.ts'
import type { AgentHandler, HandlerSkill, SideEffects } from './tasks/handler.ts'
import { createTodos, type LevelTodos } from './tasks/level-todos.ts'
import type { JsonObject } from './tasks/todo.ts'
import { version } from './version.ts'

/** Whatever is open at a stop, the store is closed by then (F095). */
export const STOP_MS_MAX = 4_500
const MAINTENANCE_MS = 10 * 60_000
/** How long a caller that changed an agent waits for the new locator to be stored; it goes on in the background. */
const PUBLISH_WAIT_MS = 5_000
const HOLDER_ANSWER_MS = 1_000
const SEND_WAIT_DEFAULT_MS = 30_000

/** What a program may put in place of the real thing: tests, simulations, other key stores. */
export interface NodeOverrides {
  /** an opened or unopened level database in place of `dataDir/store`; with `nodeSeed` and without `dataDir` nothing is written to disk */
  // biome-ignore lint/suspicious/noExplicitAny: abstract-level is invariant in its types
  level?: AbstractLevel<any, any, any>
  /** Ed25519 seed of the host key, 32 bytes */
  nodeSeed?: Uint8Array
  clock?: Clock
  random?: Random
  crypto?: CryptoProvider
  logger?: Logger
  /** `memory`: libp2p's in-process transport, for simulations */
  transport?: 'quic' | 'memory'
  /** settings of the DHT that no config file has */
  dht?: HostInit['dht']
  /** `off`: no A2A edge, whatever the config says */
  http?: 'off'
  /** `on-demand`: locators of agents are published by who calls `locators.publish`, not at start and at every change */
  locators?: 'on-demand'
  /** counts what the host sends; without one nothing is counted */
  traffic?: Traffic
  /** `leave`: a stop withdraws nothing; others forget this node's records when they expire */
  records?: 'leave'
  /** ends a start that is under way; what it had opened is closed */
  signal?: AbortSignal
}

/**
 * Starts a node. With a data directory its identity must be there already (`initDataDir`); without one a memory level and a seed are needed.
 * @throws RookeryError `CONFIG_INVALID`, `NOT_INITIALISED`, `KEY_FILE_INVALID`, `DATA_DIR_IN_USE`, `SCHEMA_NEWER`, `PORT_IN_USE`, …; then nothing is
 *   left running
 */
export async function createNode(config: ConfigInput = {}, overrides: NodeOverrides = {}): Promise<RookeryNode> {
  return await startNode(parseConfig(config), overrides)
}

/** As {@link createNode}, with settings that were checked already. */
export async function startNode(config: Config, overrides: NodeOverrides = {}): Promise<RookeryNode> {
  const clock = overrides.clock ?? systemClock
  const random = overrides.random ?? systemRandom
  const crypto = checkedCrypto(overrides.crypto ?? nodeCrypto)
  const logger = overrides.logger ?? silentLogger
  const base = { clock, random, crypto, logger }
  const closing = new Closing({ clock, logger: logger.child('node') }, { totalMs: STOP_MS_MAX })
  try {
    return await assemble(config, overrides, base, closing)
  } catch (error) {
    await closing.run()
    throw error
  }
}

interface Base {
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
}

async function assemble(config: Config, overrides: NodeOverrides, base: Base, closing: Closing): Promise<RookeryNode> {
  const { logger } = base
  const { signal } = overrides
  const go = () => signal?.throwIfAborted()
  go()
  const key = nodeKey(config, overrides, base)
  const store = await openNodeStore(config, overrides, base, closing)
  go()
  const components = { ...base, store }
  const agents = await Agents.open({ ...components, storage: agentStorage(config, base) }, config.agents)

  const clockGuard = await ClockGuard.open(components)
  const replay = await ReplayCache.open(components)
  const bounds: QueueBounds = config.queue
  const queue = await LevelAsleepQueue.open({ ...components, clockGuard }, { bounds: () => bounds })
  const outgoing = await OutgoingObjects.open(components)
  const todos = await createTodos(components)
  closing.push('todos', 500, () => todos.stop())
  go()

  const ports = new PortMemory(store)
  const host = await openHost(config, overrides, components, { key, ports })
  closing.push('host', 1_500, () => host.stop())
  go()
  const registry = await createRegistry({ ...components, host }, { registrarsMax: config.registrarsMax })
  closing.push('registry', 500, () => registry.stop())
  const own = (hex: EidHex) => agents.list().find((agent) => agent.eidHex === hex)
  const locators = await createLocators({ ...components, host, agents: own }, { network: config.network })
  closing.push('locators', 500, () => locators.stop({ withdraw: 'no' }))
  const spaces = await createSpaces({ ...components, host, registry, agents: own }, { network: config.network })
  closing.push('spaces', 1_500, () => spaces.stop({ withdraw: overrides.records === 'leave' ? 'no' : 'yes' }))
  const sessions = await createSessionManager({ ...components, host, agents }, { sessionsMax: config.sessionsMax })
  closing.push('sessions', 1_000, () => sessions.stop())
  go()

  const node = new RookeryNode({
    ...components,
    config,
    key,
    agents,
    host,
    registry,
    locators,
    spaces,
    sessions,
    todos,
    queue,
    clockGuard,
    replay,
    outgoing,
    closing,
    publishing: overrides.locators === 'on-demand' ? 'on-demand' : 'automatic'
  })
  await node.begin()
  go()
  if (config.http.enabled && overrides.http !== 'off') await node.openEdge(ports, signal)
  go()
  logger.child('node').info({ peer: key.peer, addresses: host.addresses() }, 'the node is up')
  return node
}

/** D-13: there is no second-best. A provider that cannot do one of the primitives ends the start. */
function checkedCrypto(crypto: CryptoProvider): CryptoProvider {
  try {
    const seed = new Uint8Array(32).fill(7)
    const message = new Uint8Array([1, 2, 3])
    const sealed = crypto.aead.seal(seed, new Uint8Array(12), message, message)
    const sound =
      crypto.ed25519.verify(crypto.ed25519.publicKey(seed), message, crypto.ed25519.sign(seed, message)) &&
      !crypto.ed25519.verify(crypto.ed25519.publicKey(seed), seed, crypto.ed25519.sign(seed, message)) &&
      crypto.x25519.sharedSecret(seed, crypto.x25519.publicKey(seed)) !== undefined &&
      crypto.aead.open(seed, new Uint8Array(12), message, sealed) !== undefined &&
      crypto.aead.open(seed, new Uint8Array(12), seed, sealed) === undefined
    if (sound) return crypto
  } catch (cause) {
    throw cryptoUnavailable(cause)
  }
  throw cryptoUnavailable()
}

function cryptoUnavailable(cause?: unknown): RookeryError {
  return new RookeryError(
    'CRYPTO_UNAVAILABLE',
    'this platform lacks a primitive that the protocol needs; nothing weaker is used in its place',
    {
      kind: 'config',
      remedy: 'run it on Node 22.12 or newer with its own OpenSSL (Ed25519, X25519, AES-256-GCM)',
      cause
    }
  )
}

function nodeKey(config: Config, overrides: NodeOverrides, { crypto }: Base): NodeKey {
  if (overrides.nodeSeed !== undefined) return nodeKeyOf(overrides.nodeSeed, crypto)
  if (config.dataDir !== undefined) return loadNodeKey(config.dataDir, crypto)
  throw new RookeryError('CONFIG_INVALID', 'a node needs a data directory, or a level and a seed of its own', {
    kind: 'config',
    field: 'dataDir',
    remedy: 'set dataDir to a folder that `rookery init` made'
  })
}

function agentStorage(config: Config, { crypto, random }: Base): AgentStorage {
  return config.dataDir === undefined ? new AgentMemory() : new AgentFiles(config.dataDir, { crypto, random })
}

async function openNodeStore(config: Config, overrides: NodeOverrides, { clock }: Base, closing: Closing): Promise<Store> {
  const software = `rookery ${version}`
  const { dataDir } = config
  if (overrides.level === undefined) {
    if (dataDir === undefined) throw new TypeError('a node without a data directory needs a level')
    const store = await openStore(dataDir, { software, holder: (dir) => holderBy(dir, clock) })
    closing.push('store', 1_500, async () => {
      removeLockFile(dataDir)
      await store.close()
    })
    return store
  }
  const store = new Store(overrides.level)
  closing.push('store', 1_500, () => store.close())
  await bringToSchema(store, { software })
  return store
}

/** Who runs on the directory: by start time of its process, else by who answers at its control channel. */
async function holderBy(dataDir: string, clock: Clock): Promise<{ pid: number; startedAtMs: number } | undefined> {
  const patience = new AbortController()
  const cancel = clock.after(HOLDER_ANSWER_MS, () => patience.abort())
  try {
    return holderOf(dataDir) ?? (await helloControl(dataDir, { signal: patience.signal }))
  } catch {
    return undefined
  } finally {
    cancel()
  }
}

async function openHost(
  config: Config,
  overrides: NodeOverrides,
  components: Base & { store: Store },
  { key, ports }: { key: NodeKey; ports: PortMemory }
): Promise<Host> {
  const { crypto, clock } = components
  const open = (listen: readonly string[] | undefined) =>
    createHost(
      { ...components, validator: recordRules(crypto), traffic: overrides.traffic },
      {
        privateKey: key.seed,
        listen,
        announce: config.announce,
        bootstrap: config.bootstrap,
        mdns: config.mdns,
        profile: overrides.transport ?? 'quic',
        network: config.network,
        connectionsMax: config.connectionsMax,
        dht: {
          kBucketSize: config.dht.k,
          alpha: config.dht.alpha,
          disjointPaths: config.dht.disjointPaths,
          clientMode: config.dht.mode === 'client',
          ...overrides.dht
        }
      }
    )
  if (overrides.transport === 'memory') return await open(config.listen)
  if (config.listen !== undefined) return await openOnGivenPort(clock, () => open(config.listen), { signal: overrides.signal })
  const remembered = await ports.get('p2p')
  const candidates = remembered === undefined ? [DEFAULT_P2P_PORT] : [remembered]
  const host = await openOnAnyPort(candidates, (port) => open(listenOn(port)))
  const port = portOf(host.addresses())
  if (port !== undefined) await ports.remember('p2p', port)
  return host
}

const listenOn = (port: number) => [
  `/ip4/0.0.0.0/udp/${port}/quic-v1`,
  `/ip6/::/udp/${port}/quic-v1`,
  `/ip4/0.0.0.0/tcp/${port}`,
  `/ip6/::/tcp/${port}`
]

function portOf(addresses: readonly string[]): number | undefined {
  for (const address of addresses) {
    const port = /\/udp\/(\d+)\/quic-v1/.exec(address)?.[1]
    if (port !== undefined) return Number(port)
  }
  return undefined
}

interface Parts extends Base {
  store: Store
  config: Config
  key: NodeKey
  agents: Agents
  host: Host
  registry: Registry
  locators: Locators
  spaces: Spaces
  sessions: RunningSessionManager
  todos: LevelTodos
  queue: LevelAsleepQueue
  clockGuard: ClockGuard
  replay: ReplayCache
  outgoing: OutgoingObjects
  closing: Closing
  publishing: 'automatic' | 'on-demand'
}

/** A running node: what a program in the same process, the control API and the simulator call. */
export class RookeryNode {
  readonly config: Config
  /** PeerId, text form */
  readonly peer: string
  readonly startedAtMs: number
  readonly agents: Agents
  readonly host: Host
  readonly registry: Registry
  readonly spaces: Spaces
  readonly locators: Locators
  readonly sessions: RunningSessionManager
  readonly todos: LevelTodos
  readonly queue: LevelAsleepQueue
  readonly logger: Logger
  readonly clock: Clock
  readonly random: Random
  readonly #parts: Parts
  readonly #local: LocalA2a
  readonly #remote: RemoteAgents
  readonly #drain: Drain
  readonly #runners: AgentRunners
  readonly #schedule: WakeSchedule
  /** live sessions by id; as many as `sessionsMax` */
  readonly #live = new Map<string, Session>()
  readonly #stopping = new AbortController()
  readonly #stopped = Promise.withResolvers<void>()
  #cancelMaintenance: () => void = () => {}
  #edge: A2aEdge | undefined

  /** Made by {@link createNode}. */
  constructor(parts: Parts) {
    const { config, clock, random, crypto, logger, agents, todos, queue, locators, sessions, outgoing } = parts
    this.#parts = parts
    this.config = config
    this.peer = parts.key.peer
    this.startedAtMs = clock.nowMs()
    this.agents = agents
    this.host = parts.host
    this.registry = parts.registry
    this.spaces = parts.spaces
    this.locators = locators
    this.sessions = sessions
    this.todos = todos
    this.queue = queue
    this.logger = logger.child('node')
    this.clock = clock
    this.random = random
    this.#runners = new AgentRunners(parts, {
      mayRun: (agent) => this.reachability(agent).state === 'accepts',
      leaseMs: config.tasks.leaseMs,
      graceMs: 500
    })
    this.#drain = new Drain(parts, {
      approvalFor: (agent) => (this.#runners.sideEffects(agent) === 'consequential' ? 'needed' : 'none')
    })
    this.#local = new LocalA2a({
      todos,
      clock,
      reachability: (agent) => this.reachability(agent),
      card: (agent) => this.card(agent),
      blockingWaitMs: config.tasks.waitMaxMs
    })
    this.#remote = createRemoteAgents({ locators, sessions, outgoing, crypto, clock, logger: logger.child('a2a') })
    this.#schedule = new WakeSchedule(clock, (agent) => this.#wakeWindowOpened(agent))
  }

  /** Serves sessions, puts handlers to work, drains what waited for agents that are awake. Called once, by the start. */
  async begin(): Promise<void> {
    const { clock, crypto, logger, queue, agents, closing } = this.#parts
    closing.push('handlers', 1_000, () => this.#runners.stop())
    closing.push('timers', 100, () => {
      this.#cancelMaintenance()
      this.#schedule.stop()
    })
    this.sessions.onSession((session) => {
      serveA2a(session, { local: this.#local, clock, logger: logger.child('a2a') })
      serveMailbox(session, {
        queue,
        crypto,
        clock,
        logger: logger.child('mailbox'),
        agent: (hex) => agents.list().find((agent) => agent.eidHex === hex),
        onStored: (agent) => {
          if (this.reachability(agent).state === 'accepts') void this.#drainQuietly(agent)
        }
      })
      const { id } = session.info()
      this.#live.set(id, session)
      void session.closed.then(() => {
        if (this.#live.get(id) === session) this.#live.delete(id)
      })
    })
    for (const agent of agents.list()) {
      try {
        const module = await handlerModule(agent.handler)
        if (module !== undefined) await this.#runners.run(agent, module)
      } catch (error) {
        this.logger.error({ agent: agent.name, err: error }, 'the handler of an agent cannot be loaded; its work waits')
      }
      this.#schedule.follow(agent)
      this.#publishQuietly(agent)
      if (this.reachability(agent).state === 'accepts') void this.#drainQuietly(agent)
    }
    this.#maintain()
  }

  /** Opens the A2A edge. @throws RookeryError `PORT_IN_USE` */
  async openEdge(ports: PortMemory, signal?: AbortSignal): Promise<void> {
    const { config, agents, crypto, logger, closing, clock, queue, outgoing } = this.#parts
    const { http } = config
    const open = (port: number) =>
      createA2aEdge(
        {
          agents: { get: (hex) => agents.list().find((agent) => agent.eidHex === hex), defaultAgent: () => agents.default },
          local: this.#local,
          keep: createKeepAsleep({ outgoing, queue }),
          authenticate: (token) => agents.byToken(token),
          crypto,
          logger: logger.child('a2a'),
          remote: this.#remote
        },
        {
          host: http.host,
          port,
          bodyBytesMax: http.bodyBytesMax,
          ...(http.publicUrl === undefined ? {} : { publicUrl: http.publicUrl })
        }
      )
    const { port: byHand } = http
    if (byHand !== undefined) this.#edge = await openOnGivenPort(clock, () => open(byHand), { signal })
    else {
      const remembered = await ports.get('http')
      const near = Array.from({ length: 10 }, (_, i) => DEFAULT_HTTP_PORT + i)
      this.#edge = await openOnAnyPort(remembered === undefined ? near : [remembered, ...near], open)
      await ports.remember('http', this.#edge.port)
    }
    const edge = this.#edge
    closing.push('http', 500, () => edge.close())
  }

  /** Where the A2A edge listens, without a slash at the end. */
  get httpUrl(): string | undefined {
    return this.#edge?.url
  }

  /** Fires when a stop begins. */
  get signal(): AbortSignal {
    return this.#stopping.signal
  }

  /** Resolves once the node has stopped, whoever asked for it. */
  get stopped(): Promise<void> {
    return this.#stopped.promise
  }

  /** What the agent's mode says now; a handler at work counts as attached (G-16). */
  reachability(agent: LocalAgent): Reachability {
    const { mode, window, untilMs } = agent.reachability
    return reachabilityAt({ mode, window, untilMs }, { nowMs: this.clock.nowMs(), attached: this.#runners.has(agent) })
  }

  /** The agent card in effect. */
  card(agent: LocalAgent): JsonObject {
    const { mode } = agent.reachability
    return agentCard({
      agent,
      skills: this.#runners.skills(agent),
      version,
      rpcUrl: rpcUrlOf(this.#edge?.publicUrl ?? 'http://127.0.0.1', agent.did),
      offline: mode === 'sleep' || mode === 'hourly_wake' ? { mode, bounds: this.queueBounds } : undefined
    })
  }

  get queueBounds(): QueueBounds {
    return this.config.queue
  }

  queueUsage(agent: LocalAgent): Promise<QueueUsage> {
    return this.queue.usage(agent.eidHex)
  }

  /** The agent's own A2A endpoint on loopback. */
  agentUrl(agent: LocalAgent): string | undefined {
    return this.#edge === undefined ? undefined : rpcUrlOf(this.#edge.url, agent.did)
  }

  /** Makes an agent, puts its handler to work, publishes its locator. @throws RookeryError `AGENT_EXISTS`, `HANDLER_LOAD_FAILED`, … */
  async addAgent(input: AgentAdd, options: PublishOptions = {}): Promise<HostedAgent> {
    const module = await handlerModule(input.handler ?? this.config.agents.handler)
    const agent = await this.agents.add(input)
    if (module !== undefined) await this.#runners.run(agent, module)
    this.#schedule.follow(agent)
    await this.#publish(agent, options)
    return agent
  }

  /**
   * Puts a function of this process to work on an agent's tasks, in place of its handler.
   * @param options.sideEffects - undeclared counts as consequential: what comes out of the asleep queue then waits for approval (OD-40)
   */
  async onTask(
    agent: HostedAgent | string,
    handler: AgentHandler,
    options: { sideEffects?: SideEffects; skills?: HandlerSkill[] } = {}
  ): Promise<void> {
    const hosted = typeof agent === 'string' ? this.agents.get(agent) : agent
    await this.#runners.run(hosted, moduleOf(handler, options))
    if (this.reachability(hosted).state === 'accepts') await this.#drainQuietly(hosted)
  }

  /**
   * Sends an A2A message in the name of one of our agents.
   * @param options.waitMs - for the task to end, by default 30 s; 0: until it is accepted
   * @param options.via - `mailbox`: straight into the agent's asleep queue, where it keeps one
   */
  async send(
    input: { from: HostedAgent; to: Eid; message: JsonObject },
    options: { waitMs?: number; via?: 'live' | 'mailbox'; signal?: AbortSignal } = {}
  ): Promise<SendOutcome> {
    const { agents, clock, queue, outgoing } = this.#parts
    const keep = createKeepAsleep({ outgoing, queue })
    const signal = options.signal === undefined ? this.signal : AbortSignal.any([options.signal, this.signal])
    if (options.via === 'mailbox') return await sendByMailbox({ ...this.#parts, keep }, input, { signal })
    return await sendMessage(
      {
        agents,
        local: this.#local,
        keep,
        remote: this.#remote,
        clock,
        messageBytesMax: this.config.http.bodyBytesMax
      },
      input,
      { waitMs: options.waitMs ?? SEND_WAIT_DEFAULT_MS, signal }
    )
  }

  /** Opens a session, or gives the live one. @throws RookeryError `AGENT_UNKNOWN`, `DIAL_FAILED`, `HANDSHAKE_FAILED`, … */
  async openSession(from: HostedAgent, to: Eid, options: PublishOptions = {}): Promise<Session> {
    const { address } = await this.locators.resolve(to, options)
    options.onProgress?.('opening a session')
    return await this.sessions.open(from, to, address, options.signal === undefined ? {} : { signal: options.signal })
  }

  /** @throws RookeryError `SESSION_UNKNOWN` */
  session(id: string): Session {
    const session = this.#live.get(id)
    if (session !== undefined) return session
    throw new RookeryError('SESSION_UNKNOWN', `no open session has the id ${id}`, {
      kind: 'notFound',
      field: 'id',
      value: id,
      remedy: 'list them with `rookery session list`'
    })
  }

  /** From now on the agent takes nothing live; persisted, then published. */
  async sleep(agent: HostedAgent, options: PublishOptions & { untilMs?: number | undefined } = {}): Promise<void> {
    await this.agents.sleep(agent, options.untilMs)
    this.#schedule.follow(agent)
    await this.#publish(agent, options)
  }

  /** Takes work again: persisted, published, then what waited is validated and handed over. */
  async wake(agent: HostedAgent, options: PublishOptions = {}): Promise<DrainReport> {
    await this.agents.wake(agent)
    this.#schedule.follow(agent)
    await this.#publish(agent, options)
    options.onProgress?.('handing over what waited')
    const report = await this.drain(agent, options)
    this.#runners.poke(agent)
    return report
  }

  /** Hands over what waits, whatever the mode; work still runs only while the agent takes it. */
  async drain(agent: HostedAgent, options: { signal?: AbortSignal } = {}): Promise<DrainReport> {
    return await this.#drain.drain(agent, options.signal === undefined ? {} : { signal: options.signal })
  }

  /** Closes everything within {@link STOP_MS_MAX}; a second call shares the first one's end. Never rejects. */
  async stop(): Promise<void> {
    if (!this.#stopping.signal.aborted) {
      this.#stopping.abort(new RookeryError('NODE_STOPPING', 'the node stops', { kind: 'unavailable' }))
    }
    await this.#parts.closing.run()
    this.#stopped.resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Run before all else is closed, in the opposite order of registration: what serves this node from outside. */
  closeFirst(name: string, budgetMs: number, close: () => Promise<void> | void): void {
    this.#parts.closing.push(name, budgetMs, close)
  }

  /** Resolves when the new locator is stored, or after {@link PUBLISH_WAIT_MS} while it goes on; a failure is the refresher's to repeat. */
  async #publish(agent: HostedAgent, options: PublishOptions = {}): Promise<void> {
    if (this.#parts.publishing === 'on-demand') return
    const published = this.locators
      .publish(agent, { signal: this.signal, ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress }) })
      .then(
        () => undefined,
        (error: unknown) => {
          if (!this.signal.aborted) this.logger.warn({ agent: agent.name, err: error }, 'a locator could not be published')
        }
      )
    const late = Promise.withResolvers<void>()
    const cancel = this.clock.after(PUBLISH_WAIT_MS, () => late.resolve())
    await Promise.race([published, late.promise])
    cancel()
    options.signal?.throwIfAborted()
  }

  #publishQuietly(agent: HostedAgent): void {
    void this.#publish(agent)
  }

  async #drainQuietly(agent: LocalAgent): Promise<void> {
    try {
      await this.#drain.drain(agent, { signal: this.signal })
    } catch (error) {
      if (!this.signal.aborted) this.logger.warn({ agent: agent.name, err: error }, 'what waits for an agent could not be handed over')
    }
  }

  #wakeWindowOpened(agent: LocalAgent): void {
    void this.#drainQuietly(agent).then(() => this.#runners.poke(agent))
  }

  /** Mailbox keys that are due, queue records that ended, the highest time seen. */
  #maintain(): void {
    const round = async () => {
      for (const agent of this.agents.rotateMailboxKeys()) this.#publishQuietly(agent)
      await this.queue.sweep()
      await this.#parts.clockGuard.persist()
    }
    const again = () => {
      round().catch((error: unknown) => {
        if (!this.signal.aborted) this.logger.warn({ err: error }, 'maintenance failed and is tried again')
      })
      this.#cancelMaintenance = this.clock.after(MAINTENANCE_MS, again)
    }
    again()
  }
}
