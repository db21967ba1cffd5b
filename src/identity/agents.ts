import { timingSafeEqual } from 'node:crypto'
import { fromHex } from '../../protocol/bytes.ts'
import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import type { ReachabilityMode } from '../../protocol/delivery/modes.ts'
import { checkedWindow, wakeWindowOf } from '../../protocol/delivery/reachability.ts'
import { type Eid, type EidHex, eidFromDid } from '../../protocol/identity/eid.ts'
import { signRotation } from '../../protocol/identity/rotation.ts'
import { AGENT_NAME, type HandlerName } from '../api/methods.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'
import type { AgentReachability, LocalAgent } from './agent.ts'
import { type AgentRecord, type AgentStorage, FORMER_MAX, type FormerIdentity } from './agent-record.ts'
import { HostedAgent, tokenHash } from './hosted-agent.ts'
import { secretText } from './secret-text.ts'

/** Agents of one node; above it `AGENTS_MAX`. */
export const AGENTS_MAX = 256

/** Former EIDs of one agent whose secrets are kept at once; above it `ROTATION_PENDING`. */
export const RETIRING_MAX = 8

/** As stored, by the agent's first EID. */
interface ReachabilityRow {
  current: AgentReachability
  /** while it sleeps: what to go back to */
  resume?: AgentReachability
}

/** Without an offset it is spread by the agent's EID (OD-49). */
export interface WindowInput {
  periodSec: number
  openSec: number
  offsetSec?: number | undefined
}

/** A change of how an agent can be reached; what is absent stays. */
export interface ModeChange {
  mode: ReachabilityMode
  /** of `hourly_wake`; absent: the one it had, or the default */
  window?: WindowInput | undefined
  /** of `sleep`, Unix ms */
  untilMs?: number | undefined
  queueing?: 'on' | 'off' | undefined
}

export interface AgentAdd {
  name: string
  description?: string | undefined
  handler?: HandlerName | undefined
  mode?: ReachabilityMode | undefined
  window?: WindowInput | undefined
  /** Ed25519 seed in place of a random one, for simulations and tests */
  seed?: Uint8Array | undefined
}

/** The agents that a node hosts, with their tokens and settings. */
export class Agents {
  readonly #storage: AgentStorage
  readonly #crypto: CryptoProvider
  readonly #clock: Clock
  readonly #random: Random
  readonly #reachabilityRows: Table<ReachabilityRow>
  readonly #store: Store
  readonly #defaults: { mode: ReachabilityMode; handler: HandlerName }
  readonly #byName = new Map<string, HostedAgent>()
  readonly #tokens = new Map<string, Uint8Array>()

  private constructor(
    components: { storage: AgentStorage; store: Store; crypto: CryptoProvider; clock: Clock; random: Random },
    defaults: { mode: ReachabilityMode; handler: HandlerName }
  ) {
    this.#storage = components.storage
    this.#store = components.store
    this.#crypto = components.crypto
    this.#clock = components.clock
    this.#random = components.random
    this.#reachabilityRows = components.store.table('reachability', jsonCodec<ReachabilityRow>())
    this.#defaults = defaults
  }

  /** @throws RookeryError `KEY_FILE_INVALID` */
  static async open(
    components: { storage: AgentStorage; store: Store; crypto: CryptoProvider; clock: Clock; random: Random },
    defaults: { mode: ReachabilityMode; handler: HandlerName }
  ): Promise<Agents> {
    const agents = new Agents(components, defaults)
    const held = components.storage.load().sort((a, b) => a.record.createdAtMs - b.record.createdAtMs)
    for (const { record, token } of held) {
      const agent = new HostedAgent(components.crypto, record, { mode: defaults.mode })
      const row = await agents.#reachabilityRows.get(agent.homeHex)
      agent.setReachability(row?.current ?? agents.#settings(agent, { mode: defaults.mode }))
      agents.#byName.set(agent.name, agent)
      agents.#tokens.set(agent.name, tokenHash(components.crypto, secretText(token)))
    }
    return agents
  }

  /** Oldest first; the first is the default. */
  list(): HostedAgent[] {
    return [...this.#byName.values()]
  }

  get default(): HostedAgent | undefined {
    return this.#byName.values().next().value
  }

  /**
   * By local name or did; without either the default.
   * @throws RookeryError `AGENT_UNKNOWN`, `NO_AGENT`
   */
  get(ref: string | undefined): HostedAgent {
    if (ref === undefined) {
      const first = this.default
      if (first !== undefined) return first
      throw new RookeryError('NO_AGENT', 'this node hosts no agent yet', {
        kind: 'notFound',
        field: 'agent',
        remedy: 'add one with `rookery agent add NAME`'
      })
    }
    const found = this.#byName.get(ref) ?? this.list().find((agent) => agent.did === ref)
    if (found !== undefined) return found
    const names = this.list().map((agent) => agent.name)
    throw new RookeryError('AGENT_UNKNOWN', `this node hosts no agent "${ref.slice(0, 80)}"`, {
      kind: 'notFound',
      field: 'agent',
      value: ref.slice(0, 80),
      remedy: names.length === 0 ? 'add one with `rookery agent add NAME`' : `known agents: ${names.slice(0, 20).join(', ')}`
    })
  }

  /** The agent with this EID, if it is one of ours. */
  byEid(eid: Uint8Array): HostedAgent | undefined {
    return this.list().find((agent) => timingSafeEqual(agent.eid, eid))
  }

  /** The agent of ours that has this EID or had it. */
  ofAnyEid(eid: Uint8Array): HostedAgent | undefined {
    return this.byEid(eid) ?? this.list().find((agent) => agent.isOrWas(eid))
  }

  /** All that a caller may mean: what the agents are, and what they were while those secrets are kept. */
  *identities(): Iterable<Signer> {
    for (const agent of this.list()) {
      yield agent.signer
      for (const { eid, retiring } of agent.former) {
        const signer = retiring === undefined ? undefined : agent.signerOf(eid)
        if (signer !== undefined) yield signer
      }
    }
  }

  /** The agent as it is or was under this EID; undefined where it is not ours, or that secret is gone. */
  asEid(eid: Eid): LocalAgent | undefined {
    return this.byEid(eid) ?? this.ofAnyEid(eid)?.as(eid)
  }

  /** What an agent's things are filed under, by any EID that it has or had. */
  homeOf(hex: EidHex): EidHex {
    return this.ofAnyEid(fromHex(hex))?.homeHex ?? hex
  }

  /**
   * Gives the agent another EID. It is on disk, with the old secret and the certificate beside it, when this returns: one synced file.
   * @throws RookeryError `ROTATION_PENDING` while {@link RETIRING_MAX} old EIDs are not done with
   */
  rotate(agent: HostedAgent): { old: Eid; certificate: Uint8Array } {
    const nowMs = this.#clock.nowMs()
    if (agent.former.filter(({ retiring }) => retiring !== undefined).length >= RETIRING_MAX) {
      throw new RookeryError('ROTATION_PENDING', `${RETIRING_MAX} former identities of ${agent.name} are not done with yet`, {
        kind: 'conflict',
        field: 'name',
        value: agent.name,
        remedy: 'wait until its peers have acknowledged the last ones, a day at most'
      })
    }
    const record = agent.record()
    const seed = this.#random.bytes(32)
    const next = {
      publicKey: this.#crypto.ed25519.publicKey(seed),
      sign: (message: Uint8Array) => this.#crypto.ed25519.sign(seed, message)
    }
    const certificate = signRotation(agent.signer, next, Math.floor(nowMs / 1_000))
    const old = agent.eid
    const formerly = [...record.formerly, { eid: old, rotatedAtMs: nowMs, retiring: { seed: record.seed, certificate } }]
    if (formerly.length > FORMER_MAX) formerly.splice(1, 1)
    const rotated = { ...record, seed, formerly }
    this.#storage.save(rotated)
    agent.becomes(rotated)
    return { old, certificate }
  }

  /** Destroys secrets of former EIDs: first on disk, then in memory. @returns how many */
  retire(agent: HostedAgent, isDone: (former: FormerIdentity) => boolean): number {
    const record = agent.record()
    let destroyed = 0
    const formerly = record.formerly.map((former) => {
      if (former.retiring === undefined || !isDone(former)) return former
      destroyed += 1
      return { eid: former.eid, rotatedAtMs: former.rotatedAtMs, certificate: former.retiring.certificate }
    })
    if (destroyed === 0) return 0
    this.#storage.save({ ...record, formerly })
    agent.becomes({ ...record, formerly })
    return destroyed
  }

  /** `to` of a send: one of our agents by name, or anyone by did. @throws ProtocolError `DID_INVALID`; RookeryError `AGENT_UNKNOWN` */
  eidOf(to: string): Eid {
    return to.startsWith('did:') ? eidFromDid(to) : this.get(to).eid
  }

  /** Whose token it is; every token is compared, each in constant time, by hash alone. */
  byToken(text: string): HostedAgent | undefined {
    const given = tokenHash(this.#crypto, text)
    let found: HostedAgent | undefined
    for (const agent of this.list()) {
      const held = this.#tokens.get(agent.name)
      if (held !== undefined && timingSafeEqual(held, given)) found = agent
    }
    return found
  }

  tokenFile(agent: HostedAgent): string | undefined {
    return this.#storage.tokenFile(agent.name)
  }

  /**
   * Makes an agent with a new EID, mailbox key and token; all are on disk when it resolves.
   * @throws RookeryError `AGENT_EXISTS`, `AGENT_NAME_INVALID`, `AGENTS_MAX`
   */
  async add(input: AgentAdd): Promise<HostedAgent> {
    if (!AGENT_NAME.test(input.name)) {
      throw new RookeryError('AGENT_NAME_INVALID', `"${input.name.slice(0, 80)}" cannot name an agent`, {
        kind: 'usage',
        field: 'name',
        value: input.name.slice(0, 80),
        remedy: 'use 1 to 32 characters of a-z, 0-9 and "-", the first no "-"'
      })
    }
    if (this.#byName.has(input.name)) {
      throw new RookeryError('AGENT_EXISTS', `there is an agent "${input.name}" already`, {
        kind: 'conflict',
        field: 'name',
        value: input.name,
        remedy: 'choose another name; `rookery agent list` shows those in use'
      })
    }
    if (this.#byName.size >= AGENTS_MAX) {
      throw new RookeryError('AGENTS_MAX', `a node hosts at most ${AGENTS_MAX} agents`, {
        kind: 'refused',
        field: 'agentsMax',
        value: AGENTS_MAX,
        remedy: 'run another node for more'
      })
    }
    const record = newAgentRecord(input, { random: this.#random, nowMs: this.#clock.nowMs(), handler: this.#defaults.handler })
    const agent = new HostedAgent(this.#crypto, record, { mode: this.#defaults.mode })
    const reachability = this.#settings(agent, { mode: input.mode ?? this.#defaults.mode, window: input.window })
    agent.setReachability(reachability)
    const token = this.#random.bytes(32)
    this.#byName.set(agent.name, agent)
    try {
      await this.#store.commit([this.#reachabilityRows.put(agent.homeHex, { current: reachability })])
      this.#storage.saveToken(agent.name, token)
      this.#storage.save(record)
    } catch (error) {
      this.#byName.delete(agent.name)
      throw error
    }
    this.#tokens.set(agent.name, tokenHash(this.#crypto, secretText(token)))
    return agent
  }

  /** From now on the agent takes nothing live; what it was before is kept for {@link wake}. Persists, then takes into use. */
  async sleep(agent: HostedAgent, untilMs?: number): Promise<void> {
    const row = await this.#reachabilityRows.get(agent.homeHex)
    const resume = agent.reachability.mode === 'sleep' ? row?.resume : agent.reachability
    const { queueing } = agent.reachability
    const current = this.#settings(agent, { mode: 'sleep', untilMs, queueing })
    await this.#apply(agent, { current, ...(resume === undefined ? {} : { resume }) })
  }

  /** Another mode from now on; a `sleep` set so ends with {@link wake} in what was before. Persists, then takes into use. @throws ProtocolError `RANGE` */
  async setMode(agent: HostedAgent, change: ModeChange): Promise<void> {
    const before = agent.reachability
    const row = await this.#reachabilityRows.get(agent.homeHex)
    const queueing = change.queueing === undefined ? before.queueing : change.queueing === 'off' ? 'off' : undefined
    const window = change.window ?? before.window ?? row?.resume?.window
    const current = this.#settings(agent, { ...change, window, queueing })
    const awake = before.mode === 'sleep' ? row?.resume : before
    const resume = change.mode !== 'sleep' || awake === undefined ? undefined : this.#settings(agent, { ...awake, queueing })
    await this.#apply(agent, { current, ...(resume === undefined ? {} : { resume }) })
  }

  /** Back to what it was before it slept; an agent that was made asleep becomes `always_on`. */
  async wake(agent: HostedAgent): Promise<void> {
    if (agent.reachability.mode !== 'sleep') return
    const row = await this.#reachabilityRows.get(agent.homeHex)
    await this.#apply(agent, { current: row?.resume ?? { mode: 'always_on' } })
  }

  async #apply(agent: HostedAgent, row: ReachabilityRow): Promise<void> {
    await this.#store.commit([this.#reachabilityRows.put(agent.homeHex, row)], { room: 'reserve' })
    agent.setReachability(row.current)
  }

  /** Makes the weekly mailbox keys that are due; returns the agents whose key changed, so that their locators are published. */
  rotateMailboxKeys(): HostedAgent[] {
    const nowMs = this.#clock.nowMs()
    return this.list().filter((agent) => {
      const record = agent.rotated(nowMs, () => this.#random.bytes(32))
      if (record === undefined) return false
      this.#storage.save(record)
      agent.useMailbox(record.mailbox)
      return true
    })
  }

  /** A window goes with `hourly_wake` alone; where none is given, its offset comes from the EID (OD-49, G-14). */
  #settings(
    agent: HostedAgent,
    input: { mode: ReachabilityMode; window?: WindowInput | undefined; untilMs?: number | undefined; queueing?: 'off' | undefined }
  ): AgentReachability {
    const { mode, untilMs, window } = input
    const queueing = input.queueing === 'off' ? { queueing: input.queueing } : {}
    if (mode === 'sleep') return untilMs === undefined ? { mode, ...queueing } : { mode, untilMs, ...queueing }
    if (mode !== 'hourly_wake') return { mode, ...queueing }
    const spread = wakeWindowOf(this.#crypto, agent.eid, window ?? {})
    const own = window?.offsetSec === undefined ? spread : checkedWindow({ ...spread, offsetSec: window.offsetSec })
    return { mode, window: own, ...queueing }
  }
}

/** A record with fresh keys. */
export function newAgentRecord(input: AgentAdd, made: { random: Random; nowMs: number; handler: HandlerName }): AgentRecord {
  return {
    name: input.name,
    description: input.description ?? '',
    handler: input.handler ?? made.handler,
    createdAtMs: made.nowMs,
    seed: input.seed ?? made.random.bytes(32),
    mailbox: [{ secret: made.random.bytes(32), madeAtMs: made.nowMs }],
    formerly: []
  }
}
