import { equals, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Evidence } from '../../protocol/evidence/proof.ts'
import { DGK_BYTES, GID_BYTES, GROUP_NAME_BYTES_MAX, READY_VECTOR_ENTRIES_MAX } from '../../protocol/group/bounds.ts'
import { type GroupKey, openGroupKey } from '../../protocol/group/group-key.ts'
import { readGroupOp } from '../../protocol/group/group-op.ts'
import { decodeGroupVector, decodeGroupWant, encodeGroupVector, GROUP_LIVE, type ReadyRun } from '../../protocol/group/group-vector.ts'
import { memberSince, nextStatement, type SignedStatement } from '../../protocol/group/statement.ts'
import { type Eid, type EidHex, eidFromDid, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Inbound, Session, SessionManager } from '../sessions/session.ts'
import type { Store } from '../store/store.ts'
import { groupAmbiguous, groupsFull, groupUnknown, nameInvalid } from './group-errors.ts'
import { type Connect, GROUP_CHANNEL } from './group-links.ts'
import { GroupStore, groupKeyOf } from './group-store.ts'
import { GROUPS_LEFT_MAX, GROUPS_MAX, GROUPS_OF_OWNER_MAX, type Group, type Groups } from './groups.ts'
import { HeldGroup } from './held-group.ts'
import type { ReadyRuns } from './ready-runs.ts'

/** Whose invitations an agent follows. */
export type InvitationPolicy = (invitation: { agent: LocalAgent; owner: string; name: string }) => 'accept' | 'ignore'

export interface GroupsComponents {
  crypto: CryptoProvider
  clock: Clock
  random: Random
  logger: Logger
  store: Store
  sessions: SessionManager
  /** the agent whose things are filed under this EID */
  agentOf: (home: EidHex) => LocalAgent | undefined
  connect: Connect
  /** EIDs that an agent had before; default: none */
  formerOf?: (agent: LocalAgent) => readonly Eid[]
  /** the same that the session manager was given as its additions to READY; absent: READY tells nothing of groups */
  ready?: ReadyRuns
  /** default: everyone's, up to the bounds */
  accept?: InvitationPolicy
  /** a member told two histories, provably */
  onFork?: (evidence: Evidence) => void
}

/** Opens what the disk knows of, and serves the groups' channel of every session. */
export async function createGroups(components: GroupsComponents): Promise<Groups> {
  const groups = new NodeGroups(components)
  await groups.start()
  return groups
}

class NodeGroups implements Groups {
  readonly #c: GroupsComponents
  readonly #log: Logger
  readonly #store: GroupStore
  /** by home EID and gid in hex; at most GROUPS_MAX an agent */
  readonly #held = new Map<string, HeldGroup>()
  /** sessions that carry items now */
  readonly #open = new Set<Session>()
  /** epoch at which a group was left, by home EID and gid; at most GROUPS_LEFT_MAX */
  #left = new Map<string, number>()
  readonly #listeners = new Set<(group: Group) => void>()
  #stopped = false

  constructor(components: GroupsComponents) {
    this.#c = components
    this.#log = components.logger.child('groups')
    this.#store = new GroupStore(components.store, components.crypto)
  }

  async start(): Promise<void> {
    this.#left = await this.#store.left()
    const stored = []
    for await (const one of this.#store.all()) stored.push(one)
    for (const { home, statement, startedMs } of stored) {
      const agent = this.#c.agentOf(home)
      if (agent === undefined) continue
      if (memberSince(statement, agent.eid) === undefined) await this.#renameOwn(agent, statement)
      else await this.#hold(agent, { statement, dgk: undefined }, Math.max(startedMs + 1, this.#c.clock.nowMs()), 'restarted')
    }
    this.#c.ready?.from((session) => this.#runsFor(session))
    this.#c.sessions.onSession((session) => this.#serve(session))
  }

  async #hold(agent: LocalAgent, first: GroupKey, startedMs: number, start: 'new' | 'restarted'): Promise<HeldGroup> {
    const { crypto, clock, random, connect, onFork } = this.#c
    const key = keyOf(agent, first.statement.gid)
    const group = new HeldGroup({
      crypto,
      clock,
      random,
      logger: this.#log,
      store: this.#store,
      connect,
      agent,
      first,
      startedMs,
      start,
      onOver: () => this.#held.delete(key),
      onLeft: (group) => this.#leave(group),
      onFork: (evidence) => onFork?.(evidence)
    })
    this.#held.set(key, group)
    for (const session of this.#open) if (homeOf(session.local) === homeOf(agent)) group.linkUp(session, [])
    await this.#store.put({ home: homeOf(agent), statement: first.statement, startedMs })
    await group.begin()
    for (const listener of this.#listeners) listener(group)
    return group
  }

  async #leave({ agent, core }: HeldGroup): Promise<void> {
    const forget = [...this.#left.keys()].slice(0, Math.max(0, this.#left.size + 1 - GROUPS_LEFT_MAX))
    const { epoch } = core.statement
    await this.#store.leave(homeOf(agent), core.gid, epoch, forget)
    for (const key of forget) this.#left.delete(key)
    this.#left.set(keyOf(agent, core.gid), epoch)
  }

  // ── for programs ──

  async create(agent: LocalAgent, { name }: { name: string }): Promise<Group> {
    const { random, crypto, clock } = this.#c
    const bytes = utf8(name).length
    if (bytes === 0 || bytes > GROUP_NAME_BYTES_MAX) throw nameInvalid(name)
    if (this.list(agent).length >= GROUPS_MAX) throw groupsFull(GROUPS_MAX)
    const dgk = random.bytes(DGK_BYTES)
    const nowMs = clock.nowMs()
    const tsSec = Math.floor(nowMs / 1_000)
    const statement = nextStatement(crypto, agent.signer, { gid: random.bytes(GID_BYTES), name }, {}, { dgk, tsSec })
    return await this.#hold(agent, { statement, dgk }, nowMs, 'new')
  }

  get(agent: LocalAgent, ref: string): Group {
    const own = this.list(agent)
    const byId = own.find((group) => group.id === ref)
    if (byId !== undefined) return byId
    const named = own.filter((group) => group.name === ref)
    const [only] = named
    if (only === undefined) throw groupUnknown(ref)
    if (named.length > 1)
      throw groupAmbiguous(
        ref,
        named.map(({ id }) => id)
      )
    return only
  }

  list(agent?: LocalAgent): Group[] {
    const all = [...this.#held.values()]
    return agent === undefined ? all : all.filter((group) => homeOf(group.agent) === homeOf(agent))
  }

  onGroup(listener: (group: Group) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async rotated(agent: LocalAgent): Promise<void> {
    for (const group of this.list(agent) as HeldGroup[]) {
      if (equals(group.core.self, agent.eid)) continue
      this.#held.delete(keyOf(agent, group.core.gid))
      const { statement } = group.core
      await group.stop()
      await this.#renameOwn(agent, statement)
    }
  }

  /**
   * The agent has another EID than the one that the group knows. An owner makes the next statement under the new one; a member waits for its owner to
   * name it, which learns of it in their session. What was written under the old EID is gone with it.
   */
  async #renameOwn(agent: LocalAgent, before: SignedStatement): Promise<void> {
    const { crypto, random, clock } = this.#c
    const wasOwner = this.#c.formerOf?.(agent).some((one) => equals(one, before.owner)) ?? false
    if (!wasOwner) {
      await this.#store.delete(homeOf(agent), before.gid)
      return
    }
    const dgk = random.bytes(DGK_BYTES)
    const nowMs = clock.nowMs()
    const change = { renamed: [{ from: before.owner, to: agent.eid }] }
    const statement = nextStatement(crypto, agent.signer, before, change, { dgk, tsSec: Math.floor(nowMs / 1_000) })
    await this.#hold(agent, { statement, dgk }, nowMs, 'new')
  }

  // ── sessions ──

  #serve(session: Session): void {
    session.onChannel(GROUP_CHANNEL, (item) => this.#take(session, item))
    let remote = session.remote
    const up = () => {
      remote = session.remote
      this.#open.add(session)
      const told = this.#c.ready?.told(session) ?? []
      for (const group of this.#of(session)) {
        group.linkUp(
          session,
          told.filter(({ gid }) => equals(gid, group.core.gid))
        )
      }
    }
    const down = () => {
      this.#open.delete(session)
      for (const group of this.#of(session)) group.linkDown(eidHex(remote), remote, session)
    }
    session.onEvent((event) => {
      if (event.kind === 'resumed') up()
      else if (event.kind === 'disconnected' || event.kind === 'ended' || event.kind === 'diverged') down()
      else if (event.kind === 'rotated' && event.side === 'remote') {
        down()
        const [from, to] = [eidFromDid(event.old), eidFromDid(event.new)]
        for (const group of this.#of(session)) {
          void group.renamed(from, to).catch((error: unknown) => this.#log.error({ err: error }, 'a member could not be renamed'))
        }
        up()
      }
    })
    void session.closed.then(down)
    if (session.info().state === 'established') up()
  }

  /** What READY tells a member of the groups that the two share. */
  #runsFor(session: Session): ReadyRun[] {
    const runs: ReadyRun[] = []
    for (const { core } of this.#of(session)) {
      if (memberSince(core.statement, session.remote) === undefined) continue
      for (const point of core.runsHeld()) runs.push({ gid: core.gid, ...point })
    }
    return runs.slice(0, READY_VECTOR_ENTRIES_MAX)
  }

  *#of(session: Session): Iterable<HeldGroup> {
    for (const group of [...this.#held.values()]) if (homeOf(group.agent) === homeOf(session.local)) yield group
  }

  /** One item of a peer. What makes no sense has no effect: the session carries other things, too. */
  async #take(session: Session, { kind, payload }: Inbound): Promise<void> {
    if (this.#stopped) return
    try {
      if (kind === ITEM_KINDS.groupKey) await this.#takeKey(session, openGroupKey(this.#c.crypto, payload))
      else if (kind === ITEM_KINDS.groupOp) {
        const op = readGroupOp(payload)
        const group = this.#held.get(keyOf(session.local, op.gid))
        if (group?.core.takeOp(session.remote, op, this.#c.clock.monotonicMs()) === 'taken') group.soon()
      } else if (kind === ITEM_KINDS.live) this.#takeLive(session, payload)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#log.debug({ peer: eidToDid(session.remote), error: error.message }, 'an item of a group made no sense')
    }
  }

  #takeLive(session: Session, payload: Uint8Array): void {
    const nowMs = this.#c.clock.monotonicMs()
    if (payload[0] === GROUP_LIVE.want) {
      const want = decodeGroupWant(payload)
      const group = this.#held.get(keyOf(session.local, want.gid))
      group?.core.takeWant(session.remote, want)
      group?.soon()
      return
    }
    const vector = decodeGroupVector(payload)
    const group = this.#held.get(keyOf(session.local, vector.gid))
    if (group !== undefined) {
      group.core.takeVector(session.remote, vector, nowMs)
      group.soon()
    } else if (vector.epoch > 0) {
      const nothing = encodeGroupVector({ gid: vector.gid, epoch: 0, keys: 0, runs: [] })
      session.send(GROUP_CHANNEL, ITEM_KINDS.live, nothing).catch(() => {})
    }
  }

  async #takeKey(session: Session, key: GroupKey): Promise<void> {
    const { local } = session
    const held = this.#held.get(keyOf(local, key.statement.gid))
    if (held !== undefined) {
      held.core.takeKey(key, this.#c.clock.monotonicMs())
      held.moved()
      return
    }
    const { owner, name } = key.statement
    const since = memberSince(key.statement, local.eid)
    if (key.dgk === undefined || since === undefined || equals(owner, local.eid)) return
    if (since <= (this.#left.get(keyOf(local, key.statement.gid)) ?? 0)) return
    const own = this.list(local) as HeldGroup[]
    const ofOwner = own.filter(({ core }) => equals(core.owner, owner)).length
    if (own.length >= GROUPS_MAX || ofOwner >= GROUPS_OF_OWNER_MAX) {
      this.#log.warn({ owner: eidToDid(owner) }, 'an invitation to a group was passed over: the agent holds too many')
      return
    }
    if (this.#c.accept?.({ agent: local, owner: eidToDid(owner), name }) === 'ignore') return
    await this.#hold(local, key, this.#c.clock.nowMs(), 'new')
  }

  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    await Promise.all([...this.#held.values()].map((group) => group.stop()))
    this.#held.clear()
    this.#open.clear()
  }
}

function keyOf(agent: LocalAgent, gid: Uint8Array): string {
  return groupKeyOf(homeOf(agent), gid)
}
