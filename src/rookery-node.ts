import { equals, fromHex } from '../protocol/bytes.ts'
import type { CryptoProvider } from '../protocol/crypto/provider.ts'
import { keepsMessages, type Reachability, reachabilityAt } from '../protocol/delivery/reachability.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../protocol/identity/eid.ts'
import { agentCard, rpcUrlOf } from './a2a/agent-card.ts'
import { type A2aEdge, createA2aEdge, type RemoteAgents } from './a2a/edge.ts'
import { createKeepAsleep } from './a2a/keep-asleep.ts'
import { LocalA2a } from './a2a/local-a2a.ts'
import { serveA2a } from './a2a/pss-binding.ts'
import { createRemoteAgents } from './a2a/remote.ts'
import { sendByMailbox } from './a2a/send-by-mailbox.ts'
import { type SendOutcome, sendMessage } from './a2a/send-message.ts'
import { type Config, DEFAULT_HTTP_PORT } from './config/schema.ts'
import { approvalPolicy } from './delivery/approval-policy.ts'
import type { DrainReport, QueueBounds, QueueUsage } from './delivery/asleep-queue.ts'
import { Attachments } from './delivery/attachments.ts'
import type { ClockGuard } from './delivery/clock-guard.ts'
import { Drain } from './delivery/drain.ts'
import type { LevelAsleepQueue } from './delivery/level-asleep-queue.ts'
import { serveMailbox } from './delivery/mailbox-service.ts'
import type { OutgoingObjects } from './delivery/outgoing.ts'
import type { ReplayCache } from './delivery/replay-cache.ts'
import { WakeSchedule } from './delivery/wake-schedule.ts'
import { RookeryError } from './errors.ts'
import type { EvidenceService } from './evidence/evidence.ts'
import { homeOf, type LocalAgent } from './identity/agent.ts'
import type { AgentAdd, Agents, ModeChange } from './identity/agents.ts'
import type { HostedAgent } from './identity/hosted-agent.ts'
import type { NodeKey } from './identity/node-key.ts'
import type { Successions } from './identity/successions.ts'
import type { Host } from './net/host.ts'
import { openOnAnyPort, openOnGivenPort, type PortMemory } from './node-ports.ts'
import type { Clock } from './platform/clock.ts'
import type { Closing } from './platform/closing.ts'
import type { Logger } from './platform/logger.ts'
import type { Random } from './platform/random.ts'
import type { RunningSessionManager } from './sessions/create-session-manager.ts'
import type { Session, SessionOpenOptions } from './sessions/session.ts'
import type { Registry } from './spaces/registry.ts'
import type { Locators, PublishOptions, Spaces } from './spaces/spaces.ts'
import type { Store, StoreState } from './store/store.ts'
import { AgentRunners, handlerModule, moduleOf } from './tasks/agent-runners.ts'
import type { AgentHandler, HandlerSkill, SideEffects } from './tasks/handler.ts'
import type { LevelTodos } from './tasks/level-todos.ts'
import type { JsonObject } from './tasks/todo.ts'
import { version } from './version.ts'

const MAINTENANCE_MS = 10 * 60_000
/** How long a caller that changed an agent waits for the new locator to be stored; it goes on in the background. */
const PUBLISH_WAIT_MS = 5_000
/** A line of progress for so many records. */
const DRAIN_PROGRESS_EVERY = 50
const SEND_WAIT_DEFAULT_MS = 30_000

/** The secret of a former EID is kept no longer (protocol/README.md §6). */
export const RETIRING_MS_MAX = 86_400_000

export interface RotationReport {
  /** did:key that the agent had, and that it has now */
  old: string
  did: string
  /** former identities that some session still goes by */
  unacknowledged: number
}

/** What every part of a node is handed. */
export interface Base {
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
}

/** What the start opened, for the node to hold. */
export interface NodeParts extends Base {
  store: Store
  config: Config
  key: NodeKey
  agents: Agents
  host: Host
  registry: Registry
  locators: Locators
  spaces: Spaces
  sessions: RunningSessionManager
  evidence: EvidenceService
  successions: Successions
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
  /** verdicts on identities that contradicted themselves, and the blacklist (protocol/README.md §8) */
  readonly evidence: EvidenceService
  readonly todos: LevelTodos
  readonly queue: LevelAsleepQueue
  readonly logger: Logger
  readonly clock: Clock
  readonly random: Random
  readonly #parts: NodeParts
  readonly #local: LocalA2a
  readonly #remote: RemoteAgents
  readonly #drain: Drain
  readonly #runners: AgentRunners
  readonly #schedule: WakeSchedule
  /** processes of our agents at work (G-16) */
  readonly attachments: Attachments
  /** why an agent has no handler at work, by agent; one a hosted agent at most */
  readonly #handlerFaults = new Map<LocalAgent['eidHex'], RookeryError>()
  /** former EIDs of our agents whose records are withdrawn; as many as are retiring */
  readonly #moved = new Set<string>()
  readonly #stopping = new AbortController()
  readonly #stopped = Promise.withResolvers<void>()
  #cancelMaintenance: () => void = () => {}
  #edge: A2aEdge | undefined

  /** Made by {@link createNode}. */
  constructor(parts: NodeParts) {
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
    this.evidence = parts.evidence
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
    const approvedBy = approvalPolicy(config.delivery.approve, { rootOf: (hex) => parts.successions.rootOf(hex) })
    this.#drain = new Drain(parts, {
      rootOf: (hex) => parts.successions.rootOf(hex),
      isAudience: (agent, audience) => agents.ofAnyEid(audience)?.homeHex === homeOf(agent),
      approvalFor: (agent, _message, issuer) =>
        this.#runners.sideEffects(agent) === 'consequential' ? (approvedBy(agent, issuer) ?? 'needed') : 'none',
      perSecMax: config.delivery.drainPerSec
    })
    this.attachments = new Attachments(parts, (home, now) => this.#attached(home, now))
    this.#local = new LocalA2a({
      todos,
      clock,
      reachability: (agent) => this.reachability(agent),
      card: (agent) => this.card(agent),
      blockingWaitMs: config.tasks.waitMaxMs
    })
    const remote = createRemoteAgents({ locators, sessions, outgoing, crypto, clock, logger: logger.child('a2a') })
    this.#remote = {
      call: (from, to, ...rest) => remote.call(from, this.newestEid(to), ...rest),
      card: (from, to, ...rest) => remote.card(from, this.newestEid(to), ...rest)
    }
    this.#schedule = new WakeSchedule(clock, (agent) => this.#wakeTimeCame(agent))
  }

  /** Serves sessions, puts handlers to work, drains what waited for agents that are awake. Called once, by the start. */
  async begin(): Promise<void> {
    const { clock, crypto, logger, queue, agents, closing } = this.#parts
    closing.push('handlers', 1_000, () => this.#runners.stop())
    closing.push('timers', 100, () => {
      this.#cancelMaintenance()
      this.#schedule.stop()
      this.attachments.stop()
    })
    this.sessions.onSession((session) => {
      const rootOf = (hex: EidHex) => this.#parts.successions.rootOf(hex)
      serveA2a(session, { local: this.#local, clock, logger: logger.child('a2a'), rootOf })
      serveMailbox(session, {
        queue,
        crypto,
        clock,
        logger: logger.child('mailbox'),
        agent: (hex) => agents.ofAnyEid(fromHex(hex)),
        rootOf,
        onStored: (agent) => {
          if (this.reachability(agent).state === 'accepts') void this.#drainQuietly(agent)
        }
      })
      // opened while the verdict came
      if (this.#isRefused(session.remote)) queueMicrotask(() => this.#dismissRefused())
    })
    this.evidence.onStanding((_hex, standing) => {
      if (standing !== 'nominal') this.#dismissRefused()
    })
    this.#dismissRefused() // a verdict of an earlier run, which may have ended before its sessions did
    this.sessions.onSettled((agent) => this.#retire(agent))
    for (const agent of agents.list()) {
      this.#rotateOn(agent)
      try {
        const module = await handlerModule(agent.handler)
        if (module !== undefined) await this.#runners.run(agent, module)
      } catch (error) {
        this.logger.error({ agent: agent.name, err: error }, 'the handler of an agent cannot be loaded; its work waits')
        this.#handlerFaults.set(agent.eidHex, error instanceof RookeryError ? error : handlerFault(error))
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
          agents: {
            get: (hex) => agents.list().find((agent) => agent.eidHex === hex),
            defaultAgent: () => agents.default,
            formerly: (hex) => agents.ofAnyEid(fromHex(hex))
          },
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

  /** What the agent's mode says now; attached is who has a handler at work here, or a process that holds a lease (G-16). */
  reachability(agent: LocalAgent): Reachability {
    const attached = this.#runners.has(agent) || this.attachments.has(agent)
    return reachabilityAt(agent.reachability, { nowMs: this.clock.nowMs(), attached })
  }

  /** A process came or went: what waited inside an open window is handed over at once. */
  #attached(home: EidHex, now: 'attached' | 'detached'): void {
    const agent = this.agents.list().find((one) => homeOf(one) === home)
    if (agent === undefined || now === 'detached' || this.reachability(agent).state !== 'accepts') return
    void this.#drainQuietly(agent).then(() => this.#runners.poke(agent))
  }

  /** Whether the data directory takes writes; asking also tries to get it well. */
  storeState(): Promise<StoreState> {
    return this.#parts.store.state()
  }

  /** Why no queue is handed over now (G-10); undefined where all is well. */
  get drainHeld(): string | undefined {
    return this.#parts.clockGuard.held()
  }

  /** The agent card in effect. */
  card(agent: LocalAgent): JsonObject {
    return agentCard({
      agent,
      skills: this.#runners.skills(agent),
      version,
      rpcUrl: rpcUrlOf(this.#edge?.publicUrl ?? 'http://127.0.0.1', agent.did),
      bounds: keepsMessages(agent.reachability) ? this.queueBounds : undefined
    })
  }

  /** Why the agent's handler is not at work though it has one; undefined where all is well. */
  handlerFault(agent: LocalAgent): RookeryError | undefined {
    return this.#handlerFaults.get(agent.eidHex)
  }

  get queueBounds(): QueueBounds {
    return this.config.queue
  }

  queueUsage(agent: LocalAgent): Promise<QueueUsage> {
    return this.queue.usage(homeOf(agent))
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
    this.#handlerFaults.delete(hosted.eidHex)
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
    const to = this.newestEid(input.to)
    if (options.via === 'mailbox') return await sendByMailbox({ ...this.#parts, keep }, { ...input, to }, { signal })
    return await sendMessage(
      {
        agents,
        local: this.#local,
        keep,
        remote: this.#remote,
        clock,
        messageBytesMax: this.config.http.bodyBytesMax
      },
      { ...input, to },
      { waitMs: options.waitMs ?? SEND_WAIT_DEFAULT_MS, signal }
    )
  }

  /**
   * Opens a session, or gives the live one.
   * @param options.contract - asks for a contract that grants at least this; `{}`: any
   * @throws RookeryError `AGENT_UNKNOWN`, `AGENT_REFUSED`, `DIAL_FAILED`, `HANDSHAKE_FAILED`, …
   */
  async openSession(from: HostedAgent, to: Eid, options: PublishOptions & SessionOpenOptions = {}): Promise<Session> {
    const now = this.newestEid(to)
    this.evidence.admit(now)
    const { address } = await this.locators.resolve(now, options)
    options.onProgress?.('opening a session')
    const { signal, contract } = options
    return await this.sessions.open(from, now, address, {
      ...(signal === undefined ? {} : { signal }),
      ...(contract === undefined ? {} : { contract })
    })
  }

  /** An identity that had another EID before answers for both. */
  #isRefused(remote: Eid): boolean {
    return this.evidence.standing(remote) !== 'nominal'
  }

  #dismissRefused(): void {
    this.sessions
      .dismiss((remote) => this.#isRefused(remote))
      .catch((error: unknown) => {
        if (!this.signal.aborted) this.logger.warn({ err: error }, 'sessions with a refused identity could not all be ended')
      })
  }

  /** @throws RookeryError `SESSION_UNKNOWN` */
  async session(id: string): Promise<Session> {
    const session = await this.sessions.get(id)
    if (session !== undefined) return session
    throw new RookeryError('SESSION_UNKNOWN', `no open session has the id ${id}`, {
      kind: 'notFound',
      field: 'id',
      value: id,
      remedy: 'list them with `rookery session list`'
    })
  }

  /** The EID that an agent has now: of ours always, of others as far as a session showed it. */
  newestEid(eid: Eid): Eid {
    const { agents, successions } = this.#parts
    return agents.ofAnyEid(eid)?.eid ?? successions.newest(eid)
  }

  /**
   * Gives an agent another EID (protocol/README.md §1, §6). On disk when it resolves, with the certificates in the journal of every session; peers learn it
   * there, live or when they are met again. Tasks, queue, mailbox keys, token and name stay. The old secret goes once all have acknowledged, a day
   * later at most.
   * @throws RookeryError `AGENT_UNKNOWN`, `ROTATION_PENDING`
   */
  async rotate(agent: HostedAgent, options: PublishOptions = {}): Promise<RotationReport> {
    const { old } = this.agents.rotate(agent)
    await this.sessions.rotated(agent)
    options.onProgress?.('moving what was published')
    const moving = this.#moveRecords(agent)
    const late = Promise.withResolvers<void>()
    const cancel = this.clock.after(PUBLISH_WAIT_MS, () => late.resolve())
    await Promise.race([moving, late.promise])
    cancel()
    return { old: eidToDid(old), did: agent.did, unacknowledged: this.sessions.unsettled(agent).length }
  }

  /** What an earlier run began. */
  #rotateOn(agent: HostedAgent): void {
    if (!agent.former.some(({ retiring }) => retiring !== undefined)) return
    this.sessions.rotated(agent).catch((error: unknown) => {
      if (!this.signal.aborted) this.logger.warn({ agent: agent.name, err: error }, 'a rotation could not be told to every session')
    })
    void this.#moveRecords(agent)
  }

  /** The old names' records are withdrawn or handed over, the new locator published. What fails is tried again by the maintenance. */
  async #moveRecords(agent: HostedAgent): Promise<void> {
    const published = this.#publish(agent)
    for (const { eid: old, retiring } of agent.former) {
      const name = eidHex(old)
      const before = retiring === undefined || this.#moved.has(name) ? undefined : agent.as(old)
      if (before === undefined) continue
      this.#moved.add(name)
      try {
        if (this.#parts.publishing === 'automatic') {
          await this.#withdrawLocator(before)
          await this.spaces.handOver(before, agent, { signal: this.signal })
        }
      } catch (error) {
        this.#moved.delete(name)
        if (!this.signal.aborted)
          this.logger.warn({ agent: agent.name, err: error }, 'what a former identity published is not withdrawn yet')
      }
    }
    await published
    this.#retire(agent)
  }

  async #withdrawLocator(before: LocalAgent): Promise<void> {
    try {
      await this.locators.withdraw(before, { signal: this.signal })
    } catch (error) {
      if (!(error instanceof RookeryError && error.code === 'AGENT_WITHDRAWN')) throw error // an earlier run did it
    }
  }

  /** Secrets of former EIDs that nobody needs any more are destroyed, on disk and in memory. */
  #retire(agent: LocalAgent): void {
    const hosted = this.agents.byEid(agent.eid)
    if (hosted === undefined || !hosted.former.some(({ retiring }) => retiring !== undefined)) return
    const open = this.sessions.unsettled(hosted)
    const oldest = hosted.former.findIndex(({ eid: one }) => open.some((other) => equals(one, other)))
    const nowMs = this.clock.nowMs()
    const destroyed = this.agents.retire(hosted, (former) => {
      if (Math.abs(nowMs - former.rotatedAtMs) >= RETIRING_MS_MAX) return true
      const isSettled = oldest < 0 || hosted.former.indexOf(former) < oldest
      return isSettled && this.#moved.has(eidHex(former.eid))
    })
    if (destroyed === 0) return
    this.logger.info({ agent: hosted.name, destroyed }, 'secrets of former identities are destroyed')
    this.sessions
      .rotated(hosted)
      .catch((error: unknown) => this.logger.debug({ err: error }, 'a rotation could not be told to every session'))
  }

  /** From now on the agent takes nothing live; persisted, then published. */
  async sleep(agent: HostedAgent, options: PublishOptions & { untilMs?: number | undefined } = {}): Promise<void> {
    await this.agents.sleep(agent, options.untilMs)
    this.#schedule.follow(agent)
    await this.#publish(agent, options)
  }

  /** Another way to be reached, from now on and without a restart: persisted, published, and what waited is handed over where it may be. */
  async setMode(agent: HostedAgent, change: ModeChange, options: PublishOptions = {}): Promise<void> {
    await this.agents.setMode(agent, change)
    this.#schedule.follow(agent)
    await this.#publish(agent, options)
    if (this.reachability(agent).state !== 'accepts') return
    await this.drain(agent, options)
    this.#runners.poke(agent)
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

  /** The owner vouches for the clock as it is: one that had run ahead, or lost its time, holds drains no longer (G-10). */
  async trustClock(): Promise<void> {
    await this.#parts.clockGuard.trust()
    this.logger.warn({ nowMs: this.clock.nowMs() }, 'the owner vouched for the clock')
  }

  /** Hands over what waits, whatever the mode; work still runs only while the agent takes it. */
  async drain(agent: HostedAgent, options: PublishOptions = {}): Promise<DrainReport> {
    const { signal, onProgress } = options
    const { messages } = await this.queue.usage(homeOf(agent))
    let seen = 0
    return await this.#drain.drain(agent, {
      ...(signal === undefined ? {} : { signal }),
      onEvent: () => {
        if (++seen % DRAIN_PROGRESS_EVERY === 0) onProgress?.(`handing over what waited: ${seen} of ${Math.max(seen, messages)}`)
      }
    })
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

  /** A window opened, or a sleep with an end is over. */
  #wakeTimeCame(agent: LocalAgent): void {
    const hosted = agent.reachability.mode === 'sleep' ? this.agents.list().find((one) => one.eidHex === agent.eidHex) : undefined
    if (hosted === undefined) return void this.#drainQuietly(agent).then(() => this.#runners.poke(agent))
    this.wake(hosted, { signal: this.signal }).then(
      ({ accepted, waiting }) => this.logger.info({ agent: hosted.name, accepted, waiting }, 'an agent woke at the time that it had named'),
      (error: unknown) => {
        if (!this.signal.aborted) this.logger.warn({ agent: hosted.name, err: error }, 'an agent could not be woken in time; tried again')
      }
    )
  }

  /** Mailbox keys that are due, queue records that ended, the highest time seen. */
  #maintain(): void {
    const round = async () => {
      for (const agent of this.agents.list()) {
        if (agent.former.some(({ retiring }) => retiring !== undefined)) await this.#moveRecords(agent)
      }
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

function handlerFault(cause: unknown): RookeryError {
  return new RookeryError('HANDLER_LOAD_FAILED', cause instanceof Error ? cause.message : String(cause), {
    kind: 'config',
    field: 'handler',
    cause
  })
}
