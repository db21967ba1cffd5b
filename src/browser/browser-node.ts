import { MemoryLevel } from 'memory-level'
import { equals, toHex } from '../../protocol/bytes.ts'
import { nobleCrypto } from '../../protocol/crypto/noble.ts'
import { type Did, type Eid, eidFromDid } from '../../protocol/identity/eid.ts'
import type { Rotation } from '../../protocol/identity/rotation.ts'
import { checkParams } from '../a2a/params.ts'
import { a2aChannelOf } from '../a2a/pss-binding.ts'
import { createRemoteAgents } from '../a2a/remote.ts'
import { type SendOutcome, sendMessage } from '../a2a/send-message.ts'
import { A2A_VERSION } from '../a2a/service-parameters.ts'
import { OutgoingObjects } from '../delivery/outgoing.ts'
import { RookeryError } from '../errors.ts'
import { createEvidence } from '../evidence/create-evidence.ts'
import { LocalStakeLedger } from '../evidence/stake-ledger.ts'
import { Successions } from '../identity/successions.ts'
import { createHostOn } from '../net/create-host.ts'
import type { Host } from '../net/host.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { Closing } from '../platform/closing.ts'
import { type Logger, silentLogger } from '../platform/logger.ts'
import { systemRandom } from '../platform/random.ts'
import { createSessionManager, type RunningSessionManager } from '../sessions/create-session-manager.ts'
import type { Session, SessionInfo } from '../sessions/session.ts'
import { createLocators } from '../spaces/create-locators.ts'
import { createSpaces } from '../spaces/create-spaces.ts'
import { recordRules } from '../spaces/record-rules.ts'
import { createRegistry } from '../spaces/registry.ts'
import type {
  FindQuery,
  FindResult,
  JoinInput,
  Locators,
  LocatorView,
  MemberView,
  PublishOptions,
  Spaces,
  SpaceView
} from '../spaces/spaces.ts'
import { bringToSchema } from '../store/schema-version.ts'
import { Store } from '../store/store.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { IndexedDbLevel } from './indexed-db-level.ts'
import { page } from './page-host.ts'
import { PageIdentity } from './page-identity.ts'
import { lockIdentity } from './page-lock.ts'
import { PageSolver } from './page-solver.ts'

const STORE_DEFAULT = 'rookery'
const STORE_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
const STOP_MS_MAX = 4_500
const JOIN_WAIT_MS = 30_000
const JOIN_LOOK_MS = 100
const MAINTENANCE_MS = 10 * 60_000
const SEND_WAIT_DEFAULT_MS = 30_000
const MESSAGE_BYTES_MAX = 1_048_576
/** Connections of a page; a browser bounds them too. */
const CONNECTIONS_MAX = 64

export interface BrowserNodeInit {
  /** whom to join over, each ending with `/p2p/<PeerId>`: addresses with `/ws`, `/wss`, `/tls/ws`, `/webtransport/certhash/…`, `/webrtc-direct/certhash/…` */
  bootstrap: readonly string[]
  /**
   * name of the page's database in IndexedDB, which holds its identity, its sessions and what it published; one agent each. Default `rookery`. `memory`:
   * nothing is kept, and the agent ends with the page
   */
  store?: string | 'memory'
  /** another tab has this agent: `fail` at once (default), or `wait` until it goes */
  whenBusy?: 'fail' | 'wait'
  /** what others read of the agent; defaults `page` and nothing */
  name?: string
  description?: string
  /** `public`: private addresses and names are never dialled. Default `lan` */
  network?: 'lan' | 'public'
  logger?: Logger
  /** ends a start that is under way; what it had opened is closed */
  signal?: AbortSignal
}

export interface BrowserNodeStatus {
  did: Did
  /** PeerId of this page */
  peer: string
  /** PeerIds with an open connection */
  peers: string[]
  /** a page is never a server of the DHT */
  dht: { mode: 'client' | 'server'; tableSize: number }
  sessions: SessionInfo[]
  store: 'ok' | 'full' | 'failing' | 'down'
}

/** What {@link createBrowserNode} made. */
interface Parts {
  clock: Clock
  identity: PageIdentity
  host: Host
  store: Store
  locators: Locators
  spaces: Spaces
  sessions: RunningSessionManager
  successions: Successions
  outgoing: OutgoingObjects
  admit: (eid: Eid) => void
  logger: Logger
  closing: Closing
}

/** A node in a page: the same protocol, dialling out alone. */
export class BrowserNode {
  readonly #p: Parts
  readonly #remote
  readonly #stopping = new AbortController()
  #cancelMaintenance: () => void = () => {}

  /** Made by {@link createBrowserNode}. */
  constructor(parts: Parts) {
    this.#p = parts
    this.#remote = createRemoteAgents({ ...parts, crypto: nobleCrypto, logger: parts.logger.child('a2a') })
    this.#maintain()
  }

  get did(): Did {
    return this.#p.identity.agent.did
  }

  /** PeerId, text form */
  get peer(): string {
    return this.#p.identity.key.peer
  }

  /** Everything about open sessions: list them, hear of new ones, take one up by its id. */
  get sessions(): RunningSessionManager {
    return this.#p.sessions
  }

  /**
   * Resolves when a node that serves the DHT is connected. What goes to the network waits for it by itself.
   * @throws RookeryError `NOT_JOINED` after 30 s; or the signal's reason
   */
  async joined({ signal, timeoutMs = JOIN_WAIT_MS }: { signal?: AbortSignal; timeoutMs?: number } = {}): Promise<void> {
    const { host, clock } = this.#p
    const whole = this.#whole(signal)
    const untilMs = clock.monotonicMs() + timeoutMs
    const isJoined = () => host.peers().length > 0 && host.dht.routingTableSize() > 0
    while (!isJoined()) {
      if (clock.monotonicMs() > untilMs) throw notJoined(timeoutMs)
      await host.dht.takeInConnected({ signal: whole })
      if (!isJoined()) await clock.sleep(JOIN_LOOK_MS, { signal: whole })
    }
  }

  /** Signs where this agent can be reached (nowhere but over connections of its own) and the key of its mailbox, and stores it in the DHT. */
  async publish(options: PublishOptions = {}): Promise<LocatorView> {
    await this.joined(options)
    return await this.#p.locators.publish(this.#p.identity.agent, this.#with(options))
  }

  /** Announces a topic with this agent as its curator. @throws as `Spaces.announce` */
  async announce(input: { topic: string; description?: string }, options: PublishOptions = {}): Promise<SpaceView & { stored: number }> {
    await this.joined(options)
    const { topic, ...rest } = input
    return await this.#p.spaces.announce({ ...rest, name: topic, curator: this.#p.identity.agent }, this.#with(options))
  }

  /** Joins a topic, so that others find this agent by it. @throws RookeryError `SPACE_UNKNOWN`, `SPACE_CONTESTED`, … */
  async join(
    input: { topic: string } & Pick<JoinInput, 'tags' | 'listing'>,
    options: PublishOptions = {}
  ): Promise<MemberView & { stored: number }> {
    await this.joined(options)
    const { topic, ...rest } = input
    return await this.#p.spaces.join({ ...rest, name: topic, agent: this.#p.identity.agent }, this.#with(options))
  }

  /** Takes a join, or an announcement of its own, back. */
  async leave(topic: string, options: PublishOptions = {}): Promise<void> {
    await this.#p.spaces.leave({ name: topic, agent: this.#p.identity.agent }, this.#with(options))
  }

  /** Who is a member of a topic, by the registrars that this page can dial. */
  async discover(query: { topic: string } & Omit<FindQuery, 'name'>, options: PublishOptions = {}): Promise<FindResult> {
    await this.joined(options)
    const { topic, ...rest } = query
    return await this.#p.spaces.find({ ...rest, name: topic }, this.#with(options))
  }

  /** Where an agent is, by the DHT. @throws RookeryError `AGENT_UNKNOWN`, … */
  async resolve(did: string, options: PublishOptions = {}): Promise<LocatorView> {
    await this.joined(options)
    return await this.#p.locators.resolve(this.#newest(did), this.#with(options))
  }

  /** Opens a Persistent State Session with an agent, or gives the live one. @throws RookeryError `AGENT_UNKNOWN`, `AGENT_REFUSED`, `DIAL_FAILED`, `HANDSHAKE_FAILED`, … */
  async openSession(did: string, options: PublishOptions = {}): Promise<Session> {
    const to = this.#newest(did)
    this.#p.admit(to)
    await this.joined(options)
    const { address } = await this.#p.locators.resolve(to, this.#with(options))
    return await this.#p.sessions.open(this.#p.identity.agent, to, address, { signal: this.#whole(options.signal) })
  }

  /**
   * Sends an A2A task to an agent, over a session.
   * @param message - a text, or an A2A Message in ProtoJSON
   * @param options.waitMs - for the task to end, by default 30 s; 0: until it is accepted
   * @throws RookeryError with A2A's reasons as codes, `MESSAGE_INVALID`, …; or the signal's reason
   */
  async sendTask(
    did: string,
    message: string | JsonObject,
    { signal, waitMs }: { signal?: AbortSignal; waitMs?: number } = {}
  ): Promise<SendOutcome> {
    const { clock, identity } = this.#p
    const to = this.#newest(did)
    this.#p.admit(to)
    await this.joined(signal === undefined ? {} : { signal })
    const whole: JsonObject =
      typeof message === 'string' ? { messageId: toHex(systemRandom.bytes(16)), role: 'ROLE_USER', parts: [{ text: message }] } : message
    const ask: Parameters<typeof sendMessage>[0]['ask'] = async ({ from, to, method, params, extensions = [] }, options) => {
      checkParams(method, params)
      return await this.#remote.call(
        from,
        to,
        { method, params, parameters: { version: A2A_VERSION, extensions: [...extensions] } },
        options
      )
    }
    return await sendMessage(
      { ask, clock, messageBytesMax: MESSAGE_BYTES_MAX },
      { from: identity.agent, to, message: whole },
      { waitMs: waitMs ?? SEND_WAIT_DEFAULT_MS, signal: this.#whole(signal) }
    )
  }

  async status(): Promise<BrowserNodeStatus> {
    const { host, sessions, store } = this.#p
    return {
      did: this.did,
      peer: this.peer,
      peers: host.peers(),
      dht: { mode: host.dht.mode(), tableSize: host.dht.routingTableSize() },
      sessions: await sessions.listAll(),
      store: (await store.state()).state
    }
  }

  /** Ends everything that this node does and lets go of the identity, for another tab to take. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort(new RookeryError('NODE_STOPPING', 'the node stops', { kind: 'unavailable' }))
    this.#cancelMaintenance()
    await this.#p.closing.run()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #newest(did: string): Eid {
    return this.#p.successions.newest(eidFromDid(did))
  }

  #whole(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.#stopping.signal : AbortSignal.any([signal, this.#stopping.signal])
  }

  #with(options: PublishOptions): PublishOptions & { signal: AbortSignal } {
    return { ...options, signal: this.#whole(options.signal) }
  }

  #maintain(): void {
    const { identity, locators, clock, logger } = this.#p
    const round = async () => {
      if ((await identity.rotateMailboxKey()) && locators.published(identity.agent.eid) !== undefined) await this.publish()
    }
    round().catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) logger.warn({ err: error }, 'maintenance failed and is tried again')
    })
    this.#cancelMaintenance = clock.after(MAINTENANCE_MS, () => this.#maintain())
  }
}

/**
 * Starts a node in a page: its identity is that of the database, made at the first start. It joins in the background, see {@link BrowserNode.joined}.
 * @throws RookeryError `CONFIG_INVALID`, `ADDRESS_INVALID`, `IDENTITY_IN_USE`, `IDENTITY_INVALID`, `STORAGE_UNAVAILABLE`, `STORE_FULL`, `SCHEMA_NEWER`, …;
 *   then nothing is left running
 */
export async function createBrowserNode(init: BrowserNodeInit): Promise<BrowserNode> {
  const logger = init.logger ?? silentLogger
  const base = { clock: systemClock, random: systemRandom, crypto: nobleCrypto, logger }
  const closing = new Closing({ clock: base.clock, logger: logger.child('node') }, { totalMs: STOP_MS_MAX })
  try {
    return await assemble(checked(init), base, closing)
  } catch (error) {
    await closing.run()
    throw error
  }
}

type Base = { clock: Clock; random: typeof systemRandom; crypto: typeof nobleCrypto; logger: Logger }

async function assemble(init: BrowserNodeInit, base: Base, closing: Closing): Promise<BrowserNode> {
  const { signal, network = 'lan', name = 'page', description = '' } = init
  const { logger } = base
  const go = () => signal?.throwIfAborted()
  const store = await openStore(init, base, closing)
  go()
  const components = { ...base, store }
  const identity = await PageIdentity.open(components, { name, description })
  const { agent, key } = identity
  const successions = await Successions.open(components)
  const outgoing = await OutgoingObjects.open(components)
  const evidence = await createEvidence({
    ...components,
    ledger: new LocalStakeLedger(store),
    agents: () => [agent],
    predecessors: (of) => successions.predecessors(of)
  })
  const host = await createHostOn(
    page,
    { ...components, validator: recordRules(base.crypto, evidence) },
    { privateKey: key.seed, listen: [], bootstrap: init.bootstrap, network, connectionsMax: CONNECTIONS_MAX, dht: { mode: 'client' } }
  )
  closing.push('host', 1_500, () => host.stop())
  go()
  const solver = new PageSolver(base)
  closing.push('solver', 250, () => solver.stop())
  const registry = await createRegistry({ ...components, host, solver }, { evidence })
  closing.push('registry', 500, () => registry.stop())
  closing.push('evidence', 500, () => evidence.stop())
  evidence.begin(registry)
  const own = (hex: string) => (hex === agent.eidHex ? agent : undefined)
  const successor = (of: Eid) => {
    const now = successions.newest(of)
    return equals(now, of) ? undefined : now
  }
  const locators = await createLocators({ ...components, host, agents: own, evidence, successor }, { network })
  closing.push('locators', 500, () => locators.stop({ withdraw: 'no' }))
  const spaces = await createSpaces({ ...components, host, registry, agents: own }, { network })
  closing.push('spaces', 1_500, () => spaces.stop({ withdraw: 'no' }))
  const sessions = await createSessionManager({
    ...components,
    host,
    evidence,
    agents: {
      byEid: (of) => (agent.isOrWas(of) ? agent : undefined),
      list: () => [agent],
      ofAnyEid: (of) => (agent.isOrWas(of) ? agent : undefined)
    },
    locate: async (of, options) => (await locators.resolve(of, options)).address,
    rotated: (_certificate: Uint8Array, rotation: Rotation) => successions.note(rotation)
  })
  // requests of the other side are answered, by a no
  sessions.onSession((session) => void a2aChannelOf(session, { clock: base.clock, logger: logger.child('a2a') }))
  locators.onNewer((of, { address }) => sessions.locatorSeen(of, address))
  closing.push('sessions', 1_000, () => sessions.stop())
  go()
  const admit = (of: Eid) => evidence.admit(of)
  return new BrowserNode({ ...components, identity, host, locators, spaces, sessions, successions, outgoing, admit, closing })
}

async function openStore(
  { store: name = STORE_DEFAULT, whenBusy = 'fail', signal }: BrowserNodeInit,
  { clock }: Base,
  closing: Closing
): Promise<Store> {
  if (name !== 'memory') closing.push('lock', 250, await lockIdentity(name, { whenBusy, signal }))
  const level = name === 'memory' ? new MemoryLevel<string, Uint8Array>() : new IndexedDbLevel(`rookery:${name}`)
  await level.open().catch((error: unknown) => {
    throw error instanceof Error && error.cause instanceof RookeryError ? error.cause : error
  })
  const store = new Store(level, { clock })
  closing.push('store', 1_500, () => store.close())
  await bringToSchema(store, { software: 'rookery/browser' })
  return store
}

function checked(init: BrowserNodeInit): BrowserNodeInit {
  const { bootstrap, store = STORE_DEFAULT } = init
  if (!Array.isArray(bootstrap) || bootstrap.length === 0) {
    throw new RookeryError('CONFIG_INVALID', 'a page needs at least one node to join over', {
      kind: 'config',
      field: 'bootstrap',
      remedy: 'give addresses like /dns4/node.example/tcp/443/tls/ws/p2p/12D3Koo…; `rookery status` of that node prints its own'
    })
  }
  if (!STORE_NAME.test(store)) {
    throw new RookeryError('CONFIG_INVALID', 'the name of a store is made of a–z, 0–9, ".", "_" and "-", at most 64', {
      kind: 'config',
      field: 'store',
      value: String(store).slice(0, 80)
    })
  }
  return init
}

function notJoined(afterMs: number): RookeryError {
  return new RookeryError('NOT_JOINED', `no node answered within ${afterMs} ms; the page goes on trying`, {
    kind: 'unavailable',
    field: 'bootstrap',
    remedy:
      'check that the nodes run, that they listen on addresses a page can dial, and that the page’s security policy (connect-src) lets it'
  })
}
