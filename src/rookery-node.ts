import { keepsMessages, type Reachability, reachabilityAt } from '../protocol/delivery/reachability.ts'
import type { ExecutionRequirements } from '../protocol/ecc/objects.ts'
import { type Eid, type EidHex, eidToDid } from '../protocol/identity/eid.ts'
import { A2aError, rookeryErrorOf } from './a2a/a2a-error.ts'
import { agentCard, rpcUrlOf } from './a2a/agent-card.ts'
import { type AskComponents, type Asking, askAgent, askForStream } from './a2a/ask-agent.ts'
import type { Caller } from './a2a/caller.ts'
import type { A2aEdge, Activated, RemoteAgents } from './a2a/edge.ts'
import { extendedCard } from './a2a/extended-card.ts'
import { createKeepAsleep } from './a2a/keep-asleep.ts'
import { LocalA2a } from './a2a/local-a2a.ts'
import type { A2aMethod, StreamMethod } from './a2a/params.ts'
import { createRemoteAgents } from './a2a/remote.ts'
import { sealForWish } from './a2a/sealed-wish.ts'
import { sendByMailbox } from './a2a/send-by-mailbox.ts'
import { checkSize, type SendOutcome, sendMessage } from './a2a/send-message.ts'
import { SignedCards } from './a2a/signed-cards.ts'
import type { TaskStream } from './a2a/task-stream.ts'
import { TaskStreams } from './a2a/task-streams.ts'
import { withVerifiedCards } from './a2a/verified-cards.ts'
import { AgentPublishing } from './agent-publishing.ts'
import { AgentRotations, type RotationReport } from './agent-rotations.ts'
import { type BackupReport, backUp } from './backup/backup.ts'
import { type CompactReport, compactStore, type DiskUse, diskUse } from './care/disk-use.ts'
import type { Config } from './config/schema.ts'
import { currentPolicy } from './delivery/approval-policy.ts'
import type { DrainReport, QueueBounds, QueueUsage } from './delivery/asleep-queue.ts'
import { Attachments } from './delivery/attachments.ts'
import { Drain } from './delivery/drain.ts'
import type { LevelAsleepQueue } from './delivery/level-asleep-queue.ts'
import { WakeSchedule } from './delivery/wake-schedule.ts'
import type { DiscoverQuery, Discovery } from './discovery/create-discovery.ts'
import type { DiscoverOptions, FoundAnonymously } from './discovery/discover.ts'
import { AgentWork } from './doors/agent-work.ts'
import { nodeMcpActions } from './doors/node-mcp.ts'
import { lateAdmission } from './ecc/execution-contracts.ts'
import { checkSideEffects } from './ecc/node-contracts.ts'
import { type BoundRequest, bindExecution, type ExecutionStanding, standingOf } from './ecc/required-execution.ts'
import { RookeryError } from './errors.ts'
import type { EvidenceService } from './evidence/evidence.ts'
import type { Friends } from './friends/friends.ts'
import type { Access } from './grants/access.ts'
import type { Grants } from './grants/grants.ts'
import type { SendBuckets } from './grants/send-buckets.ts'
import type { Groups } from './groups/groups.ts'
import { homeOf, type LocalAgent } from './identity/agent.ts'
import type { AgentAdd, Agents, ModeChange } from './identity/agents.ts'
import type { HostedAgent } from './identity/hosted-agent.ts'
import type { LocalPoints } from './local/local-points.ts'
import type { Host } from './net/host.ts'
import { openNodeEdge } from './node-edge.ts'
import { NodeMail } from './node-mail.ts'
import type { NodeParts } from './node-parts.ts'
import type { PortMemory } from './node-ports.ts'
import { serveSessions } from './node-sessions.ts'
import { watchHttp } from './ops/http-watch.ts'
import type { Clock } from './platform/clock.ts'
import type { Logger } from './platform/logger.ts'
import type { Random } from './platform/random.ts'
import type { Tracer } from './platform/tracer.ts'
import { unknownPoint } from './points/own-points.ts'
import { readPoint } from './points/point-channel.ts'
import type { Points } from './points/points.ts'
import type { NodePush } from './push/node-push.ts'
import type { RunningSessionManager } from './sessions/create-session-manager.ts'
import type { Session, SessionOpenOptions } from './sessions/session.ts'
import type { MailRecords } from './spaces/mail-records.ts'
import type { Registry } from './spaces/registry.ts'
import type { Locators, PublishOptions, Spaces } from './spaces/spaces.ts'
import type { Store, StoreState } from './store/store.ts'
import { AgentRunners, handlerModule, moduleOf } from './tasks/agent-runners.ts'
import type { AgentHandler, HandlerModule, HandlerSkill, SideEffects } from './tasks/handler.ts'
import type { LevelTodos } from './tasks/level-todos.ts'
import type { Json, JsonObject, Todo } from './tasks/todo.ts'
import type { RunningTracer, SpanCounts } from './tracing/otel-tracer.ts'
import { TaskSpans } from './tracing/task-spans.ts'
import { version } from './version.ts'

const MAINTENANCE_MS = 10 * 60_000
/** A line of progress for so many records. */
const DRAIN_PROGRESS_EVERY = 50
const SEND_WAIT_DEFAULT_MS = 30_000

interface SendOptions {
  waitMs?: number
  via?: 'live' | 'mailbox'
  ttlMs?: number | undefined
  signal?: AbortSignal
}

export type { RotationReport } from './agent-rotations.ts'
export type { Base, NodeParts } from './node-parts.ts'

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
  /** who keeps mail for our agents, published for a week (protocol/README.md §3) */
  readonly mailRecords: MailRecords
  readonly sessions: RunningSessionManager
  /** state shared by several agents (protocol/README.md §6, Groups) */
  readonly groups: Groups
  /** searches that show nobody who searches (protocol/README.md §5) */
  readonly discovery: Discovery
  /** endpoints of our agents that others find by EID and tag (protocol/README.md §5) */
  readonly points: Points
  /** points of this link alone; undefined where they are off */
  readonly localPoints: LocalPoints | undefined
  /** verdicts on identities that contradicted themselves, and the blacklist (protocol/README.md §8) */
  readonly evidence: EvidenceService
  /** vended endpoints of our agents (protocol/README.md §9, Grants) */
  readonly grants: Grants
  /** how fast tasks may be made with them */
  readonly sendBuckets: SendBuckets
  /** friend requests, ours and of others; an approval vends a grant */
  readonly friends: Friends
  /** who may do what with our agents: the one check of every door */
  readonly access: Access
  /** webhooks of callers; undefined where they are off */
  readonly push: NodePush | undefined
  readonly todos: LevelTodos
  readonly queue: LevelAsleepQueue
  readonly logger: Logger
  readonly clock: Clock
  readonly random: Random
  /** one that does nothing where traces are off */
  readonly tracer: Tracer
  /** where the operator's server listens, once the daemon opened it */
  opsUrl: string | undefined
  readonly #parts: NodeParts
  readonly #streams: TaskStreams | undefined
  readonly #signed: SignedCards
  readonly #local: LocalA2a
  readonly #remote: RemoteAgents
  readonly #drain: Drain
  /** Agents that slept when they were last looked at, and were not drained since; one entry a hosted agent at most. */
  readonly #undrained = new Set<EidHex>()
  /** what our agents undertook to deliver, and what other nodes keep for them (protocol/README.md §7) */
  readonly mail: NodeMail
  readonly #runners: AgentRunners
  readonly #schedule: WakeSchedule
  /** processes of our agents at work (G-16) */
  readonly attachments: Attachments
  /** the doors for agents: claims under leases (docs/agents.md) */
  readonly work: AgentWork
  /** why an agent has no handler at work, by agent; one a hosted agent at most */
  readonly #handlerFaults = new Map<LocalAgent['eidHex'], RookeryError>()
  readonly #publishing: AgentPublishing
  readonly #rotations: AgentRotations
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
    this.mailRecords = parts.mailRecords
    this.sessions = sessions
    this.groups = parts.groups
    this.discovery = parts.discovery
    this.points = parts.points
    this.localPoints = parts.localPoints
    this.evidence = parts.evidence
    this.grants = parts.grants
    this.sendBuckets = parts.buckets
    this.access = parts.access
    this.friends = parts.friends
    this.push = parts.push
    this.todos = todos
    this.queue = queue
    this.logger = logger.child('node')
    this.clock = clock
    this.random = random
    this.tracer = parts.tracer
    const spans = parts.tracer.isOn ? new TaskSpans(parts.tracer, todos) : undefined
    const traceOf = (todo: Todo) => spans?.attemptOf(todo)
    this.#publishing = new AgentPublishing(parts, this.#stopping.signal)
    this.#rotations = new AgentRotations(parts, this.#publishing, this.#stopping.signal)
    this.#runners = new AgentRunners(
      { ...parts, traceOf },
      {
        mayRun: (agent) => this.reachability(agent).state === 'accepts',
        leaseMs: config.tasks.leaseMs,
        graceMs: 500
      }
    )
    const approvedBy = currentPolicy(() => config.delivery.approve, { rootOf: (hex) => parts.successions.rootOf(hex) })
    this.#drain = new Drain(parts, {
      rootOf: (hex) => parts.successions.rootOf(hex),
      isAudience: (agent, audience) => agents.ofAnyEid(audience)?.homeHex === homeOf(agent),
      isOwn: (issuer) => agents.ofAnyEid(issuer) !== undefined,
      approvalFor: (agent, _message, issuer) =>
        this.#sideEffects(agent) === 'consequential' ? (approvedBy(agent, issuer) ?? 'needed') : 'none',
      maySend: (agent, principal) => parts.access.maySendStill(agent, principal),
      queueOf: (agent, principal) => parts.access.queueOf(agent, principal),
      underContract: (agent, request, sinceMs) => lateAdmission(parts.contracts.admitLate(homeOf(agent), request, sinceMs)),
      perSecMax: config.delivery.drainPerSec
    })
    this.attachments = new Attachments(parts, (home, now) => this.#attached(home, now))
    this.work = new AgentWork({ ...parts, attachments: this.attachments, reachability: (agent) => this.reachability(agent), traceOf })
    this.#signed = new SignedCards(crypto)
    this.#streams = config.streams.enabled ? new TaskStreams({ todos, clock }, config.streams) : undefined
    this.#local = new LocalA2a({
      todos,
      access: parts.access,
      clock,
      reachability: (agent) => this.reachability(agent),
      queuedFirst: (agent) => this.#queuedFirst(agent),
      card: (agent) => this.card(agent),
      extendedCard: (agent, caller) => this.#signed.of(agent, this.#extendedCard(agent, caller)).card,
      contracts: parts.contracts,
      blockingWaitMs: config.tasks.waitMaxMs,
      ...(parts.push === undefined ? {} : { push: parts.push }),
      ...(this.#streams === undefined ? {} : { streams: this.#streams })
    })
    const { tracer } = parts
    const remote = createRemoteAgents({ locators, sessions, outgoing, crypto, clock, logger: logger.child('a2a'), tracer })
    this.#remote = withVerifiedCards(
      {
        call: (from, to, ...rest) => remote.call(from, this.newestEid(to), ...rest),
        stream: (from, to, ...rest) => remote.stream(from, this.newestEid(to), ...rest),
        card: (from, to, ...rest) => remote.card(from, to, ...rest)
      },
      { crypto, logger: logger.child('a2a'), verify: () => config.cards.verify, newest: (eid) => this.newestEid(eid) }
    )
    this.mail = new NodeMail({
      ...parts,
      newest: (eid) => this.newestEid(eid),
      open: (from, to, signal) => this.openSession(agents.get(from.name), to, { signal }),
      send: (input, signal) => this.send({ ...input, from: agents.get(input.from.name) }, { waitMs: 0, signal }),
      drain: async (agent, signal) =>
        this.reachability(agent).state === 'accepts' ? await this.#drain.drain(agent, { signal }) : undefined
    })
    this.#schedule = new WakeSchedule(clock, (agent) => this.#wakeTimeCame(agent))
  }

  /** Serves sessions, puts handlers to work, drains what waited for agents that are awake. Called once, by the start. */
  async begin(): Promise<void> {
    const { agents, closing } = this.#parts
    closing.push('handlers', 1_000, () => this.#runners.stop())
    closing.push('streams', 100, () => this.#streams?.stop())
    closing.push('timers', 100, () => {
      this.#cancelMaintenance()
      this.#schedule.stop()
      this.attachments.stop()
    })
    serveSessions(this.#parts, {
      local: this.#local,
      reachability: (agent) => this.reachability(agent),
      drain: (agent) => void this.#drainQuietly(agent)
    })
    this.sessions.onSession((session) => {
      // opened while the verdict came
      if (this.#isRefused(session.remote)) queueMicrotask(() => this.#dismissRefused())
    })
    this.evidence.onStanding((_hex, standing) => {
      if (standing !== 'nominal') this.#dismissRefused()
    })
    this.#dismissRefused() // a verdict of an earlier run, which may have ended before its sessions did
    this.sessions.onSettled((agent) => this.#rotations.retire(agent))
    for (const agent of agents.list()) {
      this.#rotations.goOn(agent)
      try {
        const module = await handlerModule(agent.handler)
        if (module !== undefined) await this.#run(agent, module)
      } catch (error) {
        this.logger.error({ agent: agent.name, err: error }, 'the handler of an agent cannot be loaded; its work waits')
        this.#handlerFaults.set(agent.eidHex, error instanceof RookeryError ? error : handlerFault(error))
      }
      this.#schedule.follow(agent)
      void this.#publishing.publish(agent)
      if (this.reachability(agent).state === 'accepts') void this.#drainQuietly(agent)
    }
    this.mail.begin()
    this.push?.start()
    this.friends.start()
    this.#maintain()
  }

  /** Opens the A2A edge. @throws RookeryError `PORT_IN_USE` */
  async openEdge(ports: PortMemory, signal?: AbortSignal): Promise<void> {
    const edge = await openNodeEdge(
      this.#parts,
      {
        local: this.#local,
        remote: this.#remote,
        work: this.work,
        mcp: nodeMcpActions(this.#parts, this.#local, this),
        around: watchHttp(this.#parts, this.#parts.observed)
      },
      ports,
      signal
    )
    this.#edge = edge
    this.#parts.closing.push('http', 500, () => edge.close())
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
    const reachability = reachabilityAt(agent.reachability, { nowMs: this.clock.nowMs(), attached })
    if (reachability.state === 'asleep') this.#undrained.add(homeOf(agent))
    return reachability
  }

  /** As its handler declares, else as the program that asks for its work; by hand, the owner's own act is the consent. */
  #sideEffects(agent: LocalAgent): SideEffects {
    return (this.#runners.has(agent) ? undefined : this.work.sideEffects(agent)) ?? this.#runners.sideEffects(agent)
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

  /** for who measures and cares for it */
  get store(): Store {
    return this.#parts.store
  }

  /** What became of spans since the start; undefined where traces are off. */
  spanCounts(): SpanCounts | undefined {
    return (this.tracer as Partial<RunningTracer>).counts?.()
  }

  /** Bytes by what they are about; reads the whole store. @throws RookeryError `NO_DATA_DIR` */
  diskUse(options: PublishOptions = {}): Promise<DiskUse> {
    return diskUse({ store: this.#parts.store, dataDir: this.#dataDir() }, options)
  }

  /** As `compactStore`. @throws RookeryError `STORE_FULL`, `NO_DATA_DIR` */
  compact(options: PublishOptions = {}): Promise<CompactReport> {
    return compactStore({ store: this.#parts.store, dataDir: this.#dataDir() }, options)
  }

  #dataDir(): string {
    const { dataDir } = this.config
    if (dataDir !== undefined) return dataDir
    throw new RookeryError('NO_DATA_DIR', 'this node keeps nothing on disk', { kind: 'config', field: 'dataDir' })
  }

  /** Why no queue is handed over now (G-10); undefined where all is well. */
  get drainHeld(): string | undefined {
    return this.#parts.clockGuard.held()
  }

  /** The agent card in effect. */
  card(agent: LocalAgent): JsonObject {
    return agentCard({
      agent,
      pushNotifications: this.push !== undefined,
      skills: this.#runners.skills(agent),
      version,
      rpcUrl: rpcUrlOf(this.#edge?.publicUrl ?? 'http://127.0.0.1', agent.did),
      streaming: this.#streams !== undefined,
      bounds: keepsMessages(agent.reachability) ? this.queueBounds : undefined,
      extensions: this.#parts.contracts.extension(homeOf(agent))
    })
  }

  /** What a caller with a credential sees: the limits in force for it, and what each skill may do for good (TD-R1, G-72). */
  #extendedCard(agent: LocalAgent, { principal }: Caller): JsonObject {
    const { buckets } = this.#parts
    const { openPerCallerMax } = this.todos.bounds
    const send = principal.grant === undefined ? undefined : buckets.limitsOf(principal.grant.id)
    return extendedCard(this.card(agent), {
      limits: {
        requests: { bytesMax: this.config.http.bodyBytesMax },
        tasks: { openMax: openPerCallerMax },
        ...(this.#streams === undefined ? {} : { streams: { openMax: this.config.streams.perCallerMax } }),
        ...(send === undefined ? {} : { send: { burst: send.burst, perMinute: send.perMin } })
      },
      sideEffects: this.#runners.has(agent) ? this.#runners.sideEffects(agent) : 'consequential'
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

  /** Everything that this node cannot get back from others, as of one moment, into one file. @throws RookeryError as {@link backUp} */
  backUp(input: { file: string; passphrase: string | undefined }, options: PublishOptions = {}): Promise<BackupReport> {
    const { dataDir } = this.config
    if (dataDir === undefined)
      throw new RookeryError('BACKUP_FAILED', 'this node keeps nothing on disk', { kind: 'config', field: 'dataDir' })
    return backUp({ store: this.#parts.store, peer: this.peer, nowMs: this.clock.nowMs() }, { ...input, dataDir }, options)
  }

  /** The agent's own A2A endpoint on loopback. */
  agentUrl(agent: LocalAgent): string | undefined {
    return this.#edge === undefined ? undefined : rpcUrlOf(this.#edge.url, agent.did)
  }

  /** Makes an agent, puts its handler to work, publishes its locator. @throws RookeryError `AGENT_EXISTS`, `HANDLER_LOAD_FAILED`, … */
  async addAgent(input: AgentAdd, options: PublishOptions = {}): Promise<HostedAgent> {
    const module = await handlerModule(input.handler ?? this.config.agents.handler)
    const agent = await this.agents.add(input)
    if (module !== undefined) await this.#run(agent, module)
    this.#schedule.follow(agent)
    await this.#publishing.publish(agent, options)
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
    await this.#run(hosted, moduleOf(handler, options))
    this.#handlerFaults.delete(hosted.eidHex)
    if (this.reachability(hosted).state === 'accepts') await this.#drainQuietly(hosted)
  }

  /** @throws RookeryError `CONTRACT_UNDERSTATES` */
  async #run(agent: LocalAgent, module: HandlerModule): Promise<void> {
    checkSideEffects(this.config, agent, module.sideEffects)
    await this.#runners.run(agent, module)
  }

  /**
   * Sends an A2A message in the name of one of our agents.
   *
   * - `waitMs`: for the task to end, by default 30 s; 0: until it is accepted
   * - `require`: the result counts only if the agent's contract, activation and receipt meet these (docs/edge-cloud-contract.md)
   * - `via`, `mailbox`: straight into the agent's asleep queue, where it keeps one
   * - `ttlMs`: wherever it waits, it ends after so long (G-09), six days at most; default: the longest that each place has
   */
  async send(
    input: { from: HostedAgent; to: Eid; message: JsonObject },
    { require, ...options }: SendOptions & { require?: ExecutionRequirements | undefined } = {}
  ): Promise<SendOutcome> {
    if (require === undefined) return await this.#send(input, options)
    const bound = await this.bindExecution(input, require, options)
    let activated: readonly string[] = []
    const outcome = await this.#send(
      { ...input, message: bound.message },
      {
        ...options,
        activated: (extensions) => {
          activated = extensions
        }
      }
    )
    const { task } = outcome
    const agent = this.newestEid(input.to)
    const execution: ExecutionStanding =
      task === undefined ? { status: 'pending' } : standingOf(this.#parts.crypto, bound, { task, activated, agent })
    return { ...outcome, execution }
  }

  async #send(
    input: { from: HostedAgent; to: Eid; message: JsonObject },
    options: SendOptions & { activated?: Activated }
  ): Promise<SendOutcome> {
    const init = { kind: 'internal', parent: this.tracer.current() } as const
    return await this.tracer.run('send', init, async (span) => {
      const sent = await this.#sent(input, options)
      span.set({ 'rookery.outcome': sent.outcome })
      return sent
    })
  }

  async #sent(
    input: { from: HostedAgent; to: Eid; message: JsonObject },
    { ttlMs, ...options }: SendOptions & { activated?: Activated }
  ): Promise<SendOutcome> {
    const { clock } = this.#parts
    const { keep } = this.#asking()
    const signal = options.signal === undefined ? this.signal : AbortSignal.any([options.signal, this.signal])
    const to = this.newestEid(input.to)
    if (ttlMs !== undefined) {
      const copy = await sealForWish(this.#parts, { ...input, to, ttlMs }, signal)
      const sent = await this.#sent(input, options)
      if (sent.outcome !== 'queued') await copy.forget()
      return sent
    }
    if (options.via === 'mailbox') return await sendByMailbox({ ...this.#parts, keep }, { ...input, to }, { signal })
    return await sendMessage(
      { ask: (asking, options) => askAgent(this.#asking(), asking, options), clock, messageBytesMax: this.config.http.bodyBytesMax },
      { ...input, to },
      {
        waitMs: options.waitMs ?? SEND_WAIT_DEFAULT_MS,
        signal,
        ...(options.activated === undefined ? {} : { activated: options.activated })
      }
    )
  }

  #asking(): AskComponents {
    const { agents, outgoing, queue, tracer } = this.#parts
    return { agents, local: this.#local, keep: createKeepAsleep({ outgoing, queue, tracer }), remote: this.#remote }
  }

  /**
   * Any operation of A2A without a stream, in the name of one of our agents, on another of ours or one behind a session.
   * @returns the result in ProtoJSON
   * @throws RookeryError with A2A's reasons as codes; or the signal's reason
   */
  async ask(asking: Asking<Exclude<A2aMethod, StreamMethod>>, { signal = this.signal }: { signal?: AbortSignal } = {}): Promise<Json> {
    const whole = AbortSignal.any([signal, this.signal])
    const to = this.newestEid(asking.to)
    return await askAgent(this.#asking(), { ...asking, to }, { signal: whole }).catch(rethrown)
  }

  /**
   * As {@link ask}, for SendStreamingMessage and SubscribeToTask. The stream outlives sessions, and ends with the signal.
   * @throws as {@link ask}, so does the stream in A2A's own errors; DeliveryRefused where an agent sleeps; RookeryError `MESSAGE_TOO_LARGE`
   */
  async askForStream(
    asking: Asking<StreamMethod>,
    { signal = this.signal, lastEventId }: { signal?: AbortSignal; lastEventId?: string | undefined } = {}
  ): Promise<TaskStream> {
    const { message } = asking.params
    if (message !== undefined) checkSize({ messageBytesMax: this.config.http.bodyBytesMax }, message as JsonObject)
    const whole = AbortSignal.any([signal, this.signal])
    const to = this.newestEid(asking.to)
    return await askForStream(this.#asking(), { ...asking, to }, { signal: whole, lastEventId }).catch(rethrown)
  }

  /**
   * A message of ours bound to execution requirements, tightened by `edgeCloud.policy` and matched with the contract on the agent's signed card; sent by any
   * means it carries them along. What came of it is for `standingOf` to say.
   * @throws as {@link bindExecution}; A2A's reasons where the card cannot be had
   */
  async bindExecution(
    input: { from: HostedAgent; to: Eid; message: JsonObject },
    requirements: ExecutionRequirements,
    { signal = this.signal }: { signal?: AbortSignal | undefined } = {}
  ): Promise<BoundRequest> {
    const { from, message } = input
    const to = this.newestEid(input.to)
    const own = this.agents.byEid(to)
    const card =
      own !== undefined
        ? this.card(own)
        : await this.#remote.card(from, to, { signal, asker: 'local-agent' }).catch((error: unknown) => {
            throw error instanceof A2aError ? rookeryErrorOf(error) : error
          })
    return bindExecution({ card, message, requirements, policy: this.config.edgeCloud.policy, nowMs: this.clock.nowMs() })
  }

  /**
   * Searches a space, or the owner of a point, without showing who searches: answers as they come, each verified. A session with one of them works from
   * then on, by the locator that came along.
   * @throws as `Discovery.discover`
   */
  discover(query: DiscoverQuery, options: DiscoverOptions = {}): AsyncGenerator<FoundAnonymously, void, undefined> {
    const signal = options.signal === undefined ? this.#stopping.signal : AbortSignal.any([options.signal, this.#stopping.signal])
    return this.discovery.discover(query, { ...options, signal })
  }

  /** Reads a point of this link. @throws RookeryError `POINT_UNKNOWN`, `POINT_DENIED`, `POINT_TIMEOUT`, those of the session */
  async readLocalPoint(from: HostedAgent, eid: Eid, tag: string, options: PublishOptions = {}): Promise<Json> {
    const address = this.localPoints?.locate(eid, tag)
    if (address === undefined) throw unknownPoint(tag, eidToDid(eid))
    options.onProgress?.('opening a session')
    const session = await this.sessions.open(from, eid, address, options.signal === undefined ? {} : { signal: options.signal })
    return await readPoint(session, this.clock, { tag, reader: from.did }, options)
  }

  /**
   * Opens a session, or gives the live one.
   * @param options.contract - asks for a contract that grants at least this; `{}`: any
   * @param options.exclusive - asks for an ESE pair that is shared with no other session
   * @throws RookeryError `AGENT_UNKNOWN`, `AGENT_REFUSED`, `DIAL_FAILED`, `HANDSHAKE_FAILED`, …
   */
  async openSession(from: HostedAgent, to: Eid, options: PublishOptions & SessionOpenOptions = {}): Promise<Session> {
    const now = this.newestEid(to)
    this.evidence.admit(now)
    const { address } = await this.locators.resolve(now, options)
    options.onProgress?.('opening a session')
    const { signal, contract, exclusive } = options
    return await this.sessions.open(from, now, address, {
      ...(signal === undefined ? {} : { signal }),
      ...(contract === undefined ? {} : { contract }),
      ...(exclusive === undefined ? {} : { exclusive })
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

  /** The EID that an agent was first known by here. */
  rootOf(hex: EidHex): EidHex {
    return this.#parts.successions.rootOf(hex)
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
    const report = await this.#rotations.rotate(agent, options)
    await this.groups.rotated(agent)
    return report
  }

  /** From now on the agent takes nothing live; persisted, then published. */
  async sleep(agent: HostedAgent, options: PublishOptions & { untilMs?: number | undefined } = {}): Promise<void> {
    await this.agents.sleep(agent, options.untilMs)
    this.#schedule.follow(agent)
    await this.#publishing.publish(agent, options)
  }

  /** Another way to be reached, from now on and without a restart: persisted, published, and what waited is handed over where it may be. */
  async setMode(agent: HostedAgent, change: ModeChange, options: PublishOptions = {}): Promise<void> {
    await this.agents.setMode(agent, change)
    this.#schedule.follow(agent)
    await this.#publishing.publish(agent, options)
    if (this.reachability(agent).state !== 'accepts') return
    await this.drain(agent, options)
    this.#runners.poke(agent)
  }

  /** Takes work again: persisted, published, then what waited is validated and handed over. */
  async wake(agent: HostedAgent, options: PublishOptions = {}): Promise<DrainReport> {
    await this.agents.wake(agent)
    this.#schedule.follow(agent)
    await this.#publishing.publish(agent, options)
    options.onProgress?.('handing over what waited')
    const report = await this.drain(agent, options)
    this.#runners.poke(agent)
    this.mail.woke()
    return report
  }

  /** The owner vouches for the clock as it is: one that had run ahead, or lost its time, holds drains no longer (G-10). */
  async trustClock(): Promise<void> {
    await this.#parts.clockGuard.trust()
    this.logger.warn({ nowMs: this.clock.nowMs() }, 'the owner vouched for the clock')
  }

  /** The wall clock stepped: times of day are looked at anew, our locators are signed again, and what was held for the clock is handed over. */
  clockJumped(): void {
    for (const agent of this.agents.list()) {
      this.#schedule.follow(agent)
      void this.#publishing.publish(agent)
      if (this.reachability(agent).state === 'accepts') void this.#drainQuietly(agent).then(() => this.#runners.poke(agent))
    }
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

  /** Closes everything within `STOP_MS_MAX`; a second call shares the first one's end. Never rejects. */
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

  /** What waited becomes work before what comes now: a sender's messages keep their order over a wake. Never rejects. */
  async #queuedFirst(agent: LocalAgent): Promise<void> {
    if (this.#undrained.has(homeOf(agent)) || this.#drain.isRunning(agent)) await this.#drainQuietly(agent)
  }

  async #drainQuietly(agent: LocalAgent): Promise<void> {
    if (this.reachability(agent).state === 'accepts') this.#undrained.delete(homeOf(agent))
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
      await this.#rotations.maintain()
      for (const agent of this.agents.rotateMailboxKeys()) void this.#publishing.publish(agent)
      await this.queue.sweep()
      await this.mail.sweep()
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

function rethrown(error: unknown): never {
  throw error instanceof A2aError ? rookeryErrorOf(error) : error
}

function handlerFault(cause: unknown): RookeryError {
  return new RookeryError('HANDLER_LOAD_FAILED', cause instanceof Error ? cause.message : String(cause), {
    kind: 'config',
    field: 'handler',
    cause
  })
}
