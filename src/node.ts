import { join } from 'node:path'
import type { AbstractLevel } from 'abstract-level'
import { equals, fromHex } from '../protocol/bytes.ts'
import type { CryptoProvider } from '../protocol/crypto/provider.ts'
import { REPUTATION_MAX } from '../protocol/discovery/criteria.ts'
import { type Eid, type EidHex, eid, eidFromDid } from '../protocol/identity/eid.ts'
import type { Rotation } from '../protocol/identity/rotation.ts'
import { helloControl } from './api/control-client.ts'
import { parseConfig } from './config/load.ts'
import { type Config, type ConfigInput, DEFAULT_P2P_PORT } from './config/schema.ts'
import { nodeCrypto } from './crypto/node-crypto.ts'
import type { QueueBounds } from './delivery/asleep-queue.ts'
import { ClockGuard } from './delivery/clock-guard.ts'
import { KeeperStore } from './delivery/keeper-store.ts'
import { LevelAsleepQueue } from './delivery/level-asleep-queue.ts'
import { Outbox } from './delivery/outbox.ts'
import { OutgoingObjects } from './delivery/outgoing.ts'
import { ReplayCache } from './delivery/replay-cache.ts'
import type { AnswerPolicy } from './discovery/components.ts'
import { createDiscovery } from './discovery/create-discovery.ts'
import { nodeContracts } from './ecc/node-contracts.ts'
import { RookeryError } from './errors.ts'
import { createEvidence } from './evidence/create-evidence.ts'
import type { RecordEvidence } from './evidence/evidence.ts'
import { refuseIfElsewhere } from './evidence/identity-elsewhere.ts'
import { LocalStakeLedger, type StakeLedger } from './evidence/stake-ledger.ts'
import { FriendRows } from './friends/friend-rows.ts'
import { Friends } from './friends/friends.ts'
import { Access } from './grants/access.ts'
import { Grants } from './grants/grants.ts'
import { SendBuckets } from './grants/send-buckets.ts'
import { createGroups } from './groups/create-groups.ts'
import { ReadyRuns } from './groups/ready-runs.ts'
import { homeOf, type LocalAgent } from './identity/agent.ts'
import { AgentFiles } from './identity/agent-file.ts'
import { AgentMemory, type AgentStorage } from './identity/agent-record.ts'
import { Agents } from './identity/agents.ts'
import { loadNodeKey } from './identity/node-key.ts'
import { type NodeKey, nodeKeyOf } from './identity/peer-id.ts'
import { Successions } from './identity/successions.ts'
import { createMdnsLink, type Link } from './local/link.ts'
import { keepOnLink } from './local/link-only.ts'
import { LocalPoints } from './local/local-points.ts'
import { type NeighbourRows, readNeighbours } from './local/neighbours.ts'
import { ownAddresses } from './local/on-link.ts'
import type { HostComponents, HostInit } from './net/create-host.ts'
import type { Host } from './net/host.ts'
import { createHost } from './net/node-host.ts'
import type { Traffic } from './net/traffic.ts'
import { mayKeepFor } from './node-mail.ts'
import { openOnAnyPort, openOnGivenPort, PortMemory } from './node-ports.ts'
import type { Observed } from './ops/observed.ts'
import { watchDht, watchedSolver, watchTodos } from './ops/watches.ts'
import { type Clock, systemClock } from './platform/clock.ts'
import { Closing } from './platform/closing.ts'
import { type Logger, silentLogger } from './platform/logger.ts'
import { type Random, systemRandom } from './platform/random.ts'
import { noTracer } from './platform/tracer.ts'
import { createPoints } from './points/create-points.ts'
import { NodePush } from './push/node-push.ts'
import { pushView } from './push/push-view.ts'
import type { Resolve } from './push/target.ts'
import { type Base, RookeryNode } from './rookery-node.ts'
import { createSessionManager, type SessionManagerComponents, type SessionManagerInit } from './sessions/create-session-manager.ts'
import { CircuitRelays } from './spaces/circuit-relays.ts'
import { createLocators } from './spaces/create-locators.ts'
import { createSpaces } from './spaces/create-spaces.ts'
import { MailRecords } from './spaces/mail-records.ts'
import { recordRules } from './spaces/record-rules.ts'
import { createRegistry } from './spaces/registry.ts'
import { ESE_KEYS_FILE, openKeySlots } from './state/key-file-slots.ts'
import { type KeySlots, memoryKeySlots } from './state/key-slots.ts'
import { holderOf, removeLockFile } from './store/lock-file.ts'
import { openStore } from './store/open-store.ts'
import { bringToSchema } from './store/schema-version.ts'
import { Store } from './store/store.ts'
import { createTodos } from './tasks/level-todos.ts'
import { TODOS_DEFAULTS, type TodosSettings } from './tasks/settings.ts'
import { openTracer } from './tracing/open-tracer.ts'
import { version } from './version.ts'
import { createWorkSolver } from './work/solver.ts'

export { RookeryNode }

/** Whatever is open at a stop, the store is closed by then (F095). */
export const STOP_MS_MAX = 4_500
const HOLDER_ANSWER_MS = 1_000
/** What this node thinks of an identity, 0 to 100, as criteria ask for it: only verdicts that it has checked itself count. */
const REPUTATION = { nominal: REPUTATION_MAX, challenged: REPUTATION_MAX / 2, slashed: 0 } as const

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
  /** in place of libp2p's own where the transport is `memory` */
  memoryTransport?: HostComponents['memoryTransport']
  /** settings of the DHT that no config file has */
  dht?: HostInit['dht']
  /** `off`: no A2A edge, whatever the config says */
  http?: 'off'
  /** `on-demand`: locators of agents are published by who calls `locators.publish`, not at start and at every change */
  locators?: 'on-demand'
  /** told of each identity whose escrow ended without a rebuttal; by default a table in the store */
  ledger?: StakeLedger
  /** counts what the host sends; without one nothing is counted */
  traffic?: Traffic
  /** counts and times what happens, for metrics; without one nothing is measured */
  observed?: Observed
  /** `leave`: a stop withdraws nothing; others forget this node's records when they expire */
  records?: 'leave'
  /** in place of multicast DNS and of the system's neighbour table, where local points are on */
  link?: Link
  neighbours?: () => Promise<NeighbourRows>
  /** in place of the system's resolver, for the hosts of webhooks */
  resolveWebhook?: Resolve
  /** asked before an agent answers an anonymous request, in place of the setting */
  answerPolicy?: AnswerPolicy
  /** ends a start that is under way; what it had opened is closed */
  signal?: AbortSignal
}

/**
 * Starts a node. With a data directory its identity must be there already (`initDataDir`); without one a memory level and a seed are needed.
 * @throws RookeryError `CONFIG_INVALID`, `NOT_INITIALISED`, `KEY_FILE_INVALID`, `DATA_DIR_IN_USE`, `SCHEMA_NEWER`, `PORT_IN_USE`, `IDENTITY_ELSEWHERE`, …; then nothing is
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

async function assemble(config: Config, overrides: NodeOverrides, base: Base, closing: Closing): Promise<RookeryNode> {
  const { logger } = base
  const { signal } = overrides
  const go = () => signal?.throwIfAborted()
  go()
  const key = nodeKey(config, overrides, base)
  const store = await openNodeStore(config, overrides, base, closing)
  go()
  const tracing = await openTracer(config, base, { peer: key.peer })
  if (tracing !== undefined) closing.push('traces', 1_000, () => tracing.stop())
  const tracer = tracing ?? noTracer
  const components = { ...base, store, tracer }
  const agents = await Agents.open({ ...components, storage: agentStorage(config, base) }, config.agents)

  const clockGuard = await ClockGuard.open(components)
  const replay = await ReplayCache.open(components)
  const bounds: QueueBounds = config.queue
  const successions = await Successions.open(components)
  const grants = await Grants.open({ ...components, logger: logger.child('grants') })
  closing.push('grants', 100, () => grants.stop())
  const buckets = new SendBuckets({ ...base, grants }, () => ({ burst: config.grants.sendBurst, perMin: config.grants.sendPerMin }))
  const access = new Access({ grants, buckets, agents, successions, logger: logger.child('grants') }, { peers: () => config.grants.peers })
  const outgoing = await OutgoingObjects.open(components)
  const homeOfHex = (hex: EidHex) => agents.homeOf(hex)
  const queue = await LevelAsleepQueue.open(
    { ...components, clockGuard },
    {
      bounds: () => bounds,
      homeOf: homeOfHex,
      alsoRemove: ({ issuer, ...record }) => outgoing.removal({ ...record, issuer: issuer === '' ? '' : homeOfHex(issuer) })
    }
  )
  const { retention } = config
  const outbox = await Outbox.open(components, { ...config.outbox, endedKeptMs: retention.outboxMs })
  const rootOf = (hex: EidHex) => successions.rootOf(hex)
  const keeper =
    config.keeper.for.length === 0
      ? undefined
      : await KeeperStore.open(
          { ...components, clockGuard },
          {
            bounds: config.keeper,
            homeOf: rootOf,
            mayKeepFor: mayKeepFor(config.keeper.for, rootOf),
            onMail: (home, record) => mailRecords.keepAlive(home, record)
          }
        )
  const contracts = nodeContracts({ ...base, config, agents })
  const todos = await createTodos({ ...components, gate: contracts }, todosSettings(config))
  closing.push('todos', 500, () => todos.stop())
  const { observed } = overrides
  if (observed !== undefined) watchTodos(todos, { observed })
  const push = config.push.enabled
    ? await NodePush.open({
        ...components,
        logger: logger.child('push'),
        todos,
        grants,
        rootOf,
        view: pushView,
        rules: () => config.push,
        userAgent: `rookery/${version}`,
        keptMs: retention.webhooksMs,
        ...(overrides.resolveWebhook === undefined ? {} : { resolve: overrides.resolveWebhook })
      })
    : undefined
  if (push !== undefined) closing.push('push', 500, () => push.stop())
  go()

  const ports = new PortMemory(store)
  const ledger = overrides.ledger ?? new LocalStakeLedger(store)
  const evidence = await createEvidence({
    ...components,
    ledger,
    agents: () => agents.list(),
    predecessors: (eid) => successions.predecessors(eid)
  })
  const host = await openHost(config, overrides, { ...components, evidence }, { key, ports })
  closing.push('host', 1_500, () => host.stop())
  if (observed !== undefined) watchDht(host.dht, { ...base, observed })
  go()
  if (config.dataDir !== undefined && config.bootstrap.length > 0 && agents.list().length > 0) {
    const otherHost = () => strangerHost(config, overrides, { ...base, evidence })
    await refuseIfElsewhere({ ...base, host, otherHost }, agents.list(), { signal: overrides.signal })
  }
  const ownSolver = createWorkSolver(base)
  const solver = observed === undefined ? ownSolver : watchedSolver(ownSolver, { ...base, observed })
  closing.push('solver', 250, () => solver.stop())
  const registry = await createRegistry(
    { ...components, host, solver },
    { registrarsMax: config.registrarsMax, ...config.registry, evidence }
  )
  closing.push('registry', 500, () => registry.stop())
  const relays = new CircuitRelays(
    { ...components, host, registry },
    { network: config.network, announceWith: config.reachability.relayServer.enabled ? key.seed : undefined }
  )
  closing.push('relays', 1_200, () => relays.stop())
  closing.push('evidence', 500, () => evidence.stop())
  evidence.begin(registry)
  const own = (hex: EidHex) => agents.asEid(eid(fromHex(hex)))
  const newest = (of: Eid) => agents.ofAnyEid(of)?.eid ?? successions.newest(of)
  const successor = (of: Eid) => {
    const now = newest(of)
    return equals(now, of) ? undefined : now
  }
  const keepers = () => config.keepers.map((did) => eidFromDid(did))
  const locators = await createLocators({ ...components, host, agents: own, evidence, successor, keepers }, { network: config.network })
  closing.push('locators', 500, () => locators.stop({ withdraw: 'no' }))
  const isLinkOnly = (agent: LocalAgent) => config.localPoints.agents.includes(agent.name)
  const mailRecords = await MailRecords.open({
    ...components,
    host,
    locators,
    agents: own,
    keepers,
    isPublic: (agent) => !isLinkOnly(agent),
    evidence
  })
  closing.push('mail records', 500, () => mailRecords.stop())
  const spaces = await createSpaces({ ...components, host, registry, agents: own }, { network: config.network })
  closing.push('spaces', 1_500, () => spaces.stop({ withdraw: overrides.records === 'leave' ? 'no' : 'yes' }))
  const locate: SessionManagerComponents['locate'] = async (eid, options) => (await locators.resolve(eid, options)).address
  const rotated = (_certificate: Uint8Array, rotation: Rotation) => successions.note(rotation)
  const eseKeys = eseKeysOf(config, base, closing)
  const ready = new ReadyRuns()
  const sessions = await createSessionManager(
    { ...components, host, agents, evidence, locate, rotated, eseKeys, ready },
    sessionsOf(config)
  )
  locators.onNewer((eid, { address }) => sessions.locatorSeen(eid, address))
  closing.push('sessions', 1_000, () => sessions.stop())
  const groups = await createGroups({
    ...components,
    sessions,
    ready,
    agentOf: (home) => agents.list().find((agent) => homeOf(agent) === home),
    formerOf: (agent) => agents.ofAnyEid(agent.eid)?.former.map((one) => one.eid) ?? [],
    connect: async (from, to, { signal: until }) => {
      const now = newest(to)
      evidence.admit(now)
      return await sessions.open(from, now, (await locators.resolve(now, { signal: until })).address, { signal: until })
    },
    accept: () => (config.groups.accept === 'anyone' ? 'accept' : 'ignore'),
    onFork: (proof) => void evidence.found(proof).catch((err: unknown) => logger.child('groups').error({ err }, 'evidence was not taken'))
  })
  closing.push('groups', 500, () => groups.stop())
  const points = await createPoints({
    ...components,
    host,
    agents: own,
    open: async (from, to, options) => await node.openSession(agents.get(from.name), to, options)
  })
  closing.push('points', 250, () => points.stop())
  keepOnLink(isLinkOnly, { locators, spaces, points })
  const localPoints = config.localPoints.enabled
    ? await LocalPoints.open({
        ...components,
        logger: logger.child('local-points'),
        host,
        link:
          overrides.link ??
          createMdnsLink(base, config.localPoints.interface === undefined ? {} : { interface: config.localPoints.interface }),
        neighbours: overrides.neighbours ?? readNeighbours,
        own: ownAddresses,
        agents: own,
        mayBeLocal: (agent) => isLinkOnly(agent) || config.localPoints.global === 'yes'
      })
    : undefined
  if (localPoints !== undefined) closing.push('local points', 250, () => localPoints.stop())
  const discovery = await createDiscovery(
    {
      ...components,
      host,
      solver,
      registry,
      registrarsMax: config.registrarsMax,
      locators,
      joins: () => spaces.joins(),
      points: () => points.records(),
      agent: own,
      reputation: (of) => REPUTATION[evidence.standing(of)],
      policy: overrides.answerPolicy ?? (() => (config.discovery.answer === 'yes' ? 'answer' : 'silent'))
    },
    { serve: config.discovery.serve, capacity: config.discovery.queueMax }
  )
  closing.push('discovery', 250, () => discovery.stop())
  go()

  const friends: Friends = new Friends({
    ...components,
    logger: logger.child('friends'),
    rows: await FriendRows.open(components),
    grants,
    accepts: () => config.grants.requests === 'anyone',
    ttlMs: () => config.grants.ttlMs,
    rootOf,
    newest,
    agentOf: (home) => agents.list().find((agent) => homeOf(agent) === home),
    open: async (from, to, until) => await node.openSession(agents.get(from.name), to, { signal: until })
  })
  closing.push('friends', 100, () => friends.stop())
  const node: RookeryNode = new RookeryNode({
    ...components,
    config,
    key,
    agents,
    host,
    registry,
    locators,
    mailRecords,
    spaces,
    sessions,
    groups,
    discovery,
    points,
    localPoints,
    evidence,
    successions,
    grants,
    buckets,
    access,
    friends,
    todos,
    contracts,
    queue,
    clockGuard,
    replay,
    outgoing,
    outbox,
    keeper,
    push,
    tracer,
    observed,
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

/** What ended is kept beside what is open, so room for it grows with the bounds on what is open. */
function todosSettings({ tasks, retention }: Config): Partial<TodosSettings> {
  const { interruptMs, attemptsMax, retryFirstMs, retryLastMs, openMax, openPerCallerMax } = tasks
  return {
    interruptMs,
    attemptsMax,
    retryFirstMs,
    retryLastMs,
    openMax,
    openPerCallerMax,
    keptMax: Math.max(TODOS_DEFAULTS.keptMax, 2 * openMax),
    keptPerCallerMax: Math.max(TODOS_DEFAULTS.keptPerCallerMax, 2 * openPerCallerMax),
    retainMs: retention.tasksMs
  }
}

function sessionsOf({ sessionsMax, sessions }: Config): SessionManagerInit {
  const { contract, contracts } = sessions
  const ofAgent = new Map(Object.entries(contracts))
  return {
    sessionsMax,
    ...(contract === 'off' ? {} : { contract }),
    contractOf: ({ name }) => ofAgent.get(name)
  }
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

/** Keys of ESEs: in a file beside the store, which erasure overwrites in place. */
function eseKeysOf({ dataDir }: Config, { random }: Base, closing: Closing): KeySlots {
  if (dataDir === undefined) return memoryKeySlots(random)
  const keys = openKeySlots(join(dataDir, ESE_KEYS_FILE), random)
  closing.push('keys of ESEs', 100, () => keys.close())
  return keys
}

function agentStorage(config: Config, { crypto, random }: Base): AgentStorage {
  return config.dataDir === undefined ? new AgentMemory() : new AgentFiles(config.dataDir, { crypto, random })
}

async function openNodeStore(config: Config, overrides: NodeOverrides, { clock }: Base, closing: Closing): Promise<Store> {
  const software = `rookery ${version}`
  const { dataDir } = config
  if (overrides.level === undefined) {
    if (dataDir === undefined) throw new TypeError('a node without a data directory needs a level')
    const { reserveBytes } = config.store
    const { observed } = overrides
    const onSync = observed === undefined ? undefined : (ms: number) => observed.storeSync.observe(ms / 1_000)
    const store = await openStore(dataDir, { software, holder: (dir) => holderBy(dir, clock), clock, reserveBytes, onSync })
    closing.push('store', 1_500, async () => {
      removeLockFile(dataDir)
      await store.close()
    })
    return store
  }
  const store = new Store(overrides.level, { clock })
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
  components: Base & { store: Store; evidence: RecordEvidence },
  { key, ports }: { key: NodeKey; ports: PortMemory }
): Promise<Host> {
  const { crypto, clock, evidence } = components
  const open = (listen: readonly string[] | undefined) =>
    createHost(
      { ...components, validator: recordRules(crypto, evidence), traffic: overrides.traffic, memoryTransport: overrides.memoryTransport },
      {
        privateKey: key.seed,
        listen,
        announce: config.announce,
        bootstrap: config.bootstrap,
        mdns: config.mdns,
        profile: overrides.transport ?? 'quic',
        network: config.network,
        connectionsMax: config.connectionsMax,
        reachability: config.reachability,
        dht: {
          kBucketSize: config.dht.k,
          alpha: config.dht.alpha,
          disjointPaths: config.dht.disjointPaths,
          mode: config.dht.mode,
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

/** Listens nowhere and holds nothing: it dials one address under a PeerId of its own. */
async function strangerHost(config: Config, overrides: NodeOverrides, components: Base & { evidence: RecordEvidence }): Promise<Host> {
  return await createHost(
    { ...components, validator: recordRules(components.crypto, components.evidence) },
    {
      privateKey: components.random.bytes(32),
      listen: [],
      mdns: false,
      profile: overrides.transport ?? 'quic',
      network: config.network,
      dht: { mode: 'client' }
    }
  )
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
