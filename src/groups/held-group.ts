import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Evidence } from '../../protocol/evidence/proof.ts'
import { DGK_BYTES, DGK_LIFE_MS, GROUP_MEMBERS_MAX, RUN_BYTES } from '../../protocol/group/bounds.ts'
import type { GroupKey } from '../../protocol/group/group-key.ts'
import type { RunPoint } from '../../protocol/group/group-vector.ts'
import { type GroupEvent, GroupMember } from '../../protocol/group/member.ts'
import { memberSince, nextStatement, type TrustChange } from '../../protocol/group/statement.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { type EseValue, type EseWrite, eseBatch } from '../../protocol/state/batch.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { withSignal } from '../platform/with-signal.ts'
import type { Session } from '../sessions/session.ts'
import type { SchemaOf } from '../state/standard-schema.ts'
import { ChangeFeed } from './change-feed.ts'
import { groupFull, groupOver, keyMissing, memberUnknown, notOwner, ownerStays, writeRefused } from './group-errors.ts'
import { type Connect, GroupLinks } from './group-links.ts'
import type { GroupStore } from './group-store.ts'
import type { Group, GroupChange, GroupView } from './groups.ts'
import { TypedGroup } from './typed-group.ts'

/** How long a write waits for the group's key, and after a restart for the own state to come back. */
const READY_MS = 5_000
/** What falls due is done together, at most so often. */
const WAKE_MS_MIN = 5

export interface HeldGroupInit {
  crypto: CryptoProvider
  clock: Clock
  random: Random
  logger: Logger
  store: GroupStore
  connect: Connect
  agent: LocalAgent
  first: GroupKey
  startedMs: number
  /** `restarted`: an earlier process of this agent may have written, and others may hold it */
  start: 'new' | 'restarted'
  onOver: (group: HeldGroup) => void
  /** the agent left of its own will: it is not to be drawn in again by the same invitation */
  onLeft: (group: HeldGroup) => Promise<void>
  onFork: (evidence: Evidence) => void
}

/** A {@link Group}: the pure {@link GroupMember} with its links, its timer and its trust list on disk. */
export class HeldGroup implements Group {
  readonly id: string
  readonly core: GroupMember
  readonly links: GroupLinks
  readonly agent: LocalAgent
  readonly #init: HeldGroupInit
  readonly #log: Logger
  readonly #feed = new ChangeFeed()
  readonly #stopping = new AbortController()
  /** who waits until something is different; each for READY_MS at most */
  readonly #waiting = new Set<() => void>()
  /** statements are made, and stored, one after another */
  #changing: Promise<void> = Promise.resolve()
  #storing: Promise<void> = Promise.resolve()
  #isMoving = false
  #timer: { atMs: number; cancel: () => void } | undefined
  #cancelRekey: () => void = () => {}
  #recoverUntilMs: number

  constructor(init: HeldGroupInit) {
    const { crypto, agent, first, startedMs, random, clock } = init
    this.#init = init
    this.agent = agent
    this.id = toHex(first.statement.gid)
    this.#log = init.logger.child(`group ${this.id.slice(0, 8)}`)
    this.core = new GroupMember({ crypto, signer: agent.signer, first, newRun: () => random.bytes(RUN_BYTES), startedMs })
    this.links = new GroupLinks({ clock, logger: this.#log, connect: init.connect }, agent, this.core, this.#stopping.signal)
    const isAlone = first.statement.members.length === 1
    this.#recoverUntilMs = init.start === 'restarted' && !isAlone ? clock.monotonicMs() + READY_MS : 0
  }

  /** Dials the members; the owner puts a new key in force. */
  async begin(): Promise<void> {
    if (this.#isOwner && this.#init.start === 'restarted') await this.#change({})
    else if (this.#isOwner) this.#rekeyLater()
    this.moved()
    this.links.dial()
  }

  get #isOwner(): boolean {
    return equals(this.core.owner, this.core.self)
  }

  get #nowMs(): number {
    return this.#init.clock.monotonicMs()
  }

  get name(): string {
    return this.core.statement.name
  }

  get isOver(): boolean {
    return this.core.isRemoved
  }

  // ── what others tell ──

  linkUp(session: Session, told: readonly RunPoint[]): void {
    this.links.up(session)
    this.core.linkUp(session.remote, this.#nowMs, told)
    this.moved()
  }

  linkDown(hex: EidHex, remote: Eid, session: Session): void {
    if (!this.links.down(hex, session)) return
    this.core.linkDown(remote, this.#nowMs)
    this.links.dial()
    this.moved()
  }

  /** As {@link moved}, once for all that one turn brings: the items of a record. */
  soon(): void {
    if (this.#isMoving) return
    this.#isMoving = true
    queueMicrotask(() => {
      this.#isMoving = false
      this.moved()
    })
  }

  /** The core took something, or time passed: does what follows from it. */
  moved(): void {
    if (this.#stopping.signal.aborted) return
    this.core.tick(this.#nowMs)
    for (const event of this.core.takeEvents()) this.#take(event)
    this.links.pump()
    this.#arm()
    for (const wake of this.#waiting) wake()
  }

  #arm(): void {
    const { wakeAtMs } = this.core
    if (wakeAtMs === undefined || this.core.isRemoved) return
    if (this.#timer !== undefined && this.#timer.atMs <= wakeAtMs) return
    this.#timer?.cancel()
    const cancel = this.#init.clock.after(Math.max(WAKE_MS_MIN, wakeAtMs - this.#nowMs), () => {
      this.#timer = undefined
      this.moved()
    })
    this.#timer = { atMs: wakeAtMs, cancel }
  }

  #take(event: GroupEvent): void {
    switch (event.kind) {
      case 'changed':
        this.#feed.push({ kind: 'changed', member: eidToDid(event.writer), keys: event.delta.keys, cleared: event.delta.cleared })
        break
      case 'erased':
        this.#feed.push({ kind: 'erased', member: eidToDid(event.writer) })
        break
      case 'statement':
        this.#keep()
        this.#feed.push({ kind: 'members', epoch: event.statement.epoch, members: this.members() })
        this.links.dial()
        if (this.#isOwner) this.#rekeyLater()
        break
      case 'removed':
        this.#end()
        break
      case 'fork':
        this.#log.warn({ writer: eidToDid(event.evidence.target) }, 'a member of the group told two histories')
        this.#init.onFork(event.evidence)
        if (this.#isOwner) this.#expel(event.evidence.target)
        break
      case 'fault':
        this.#log.warn({ writer: eidToDid(event.writer), error: event.error.message }, 'a member of the group is followed no further')
        break
    }
  }

  /** The trust list goes to disk; nothing is promised by it, so a failure only costs a restart its memory. */
  #keep(): void {
    const { statement } = this.core
    this.#storing = this.#storing.then(async () => {
      try {
        if (!this.core.isRemoved) await this.#init.store.put({ home: homeOf(this.agent), statement, startedMs: this.#init.startedMs })
      } catch (error) {
        this.#log.error({ err: error }, 'the trust list of a group could not be stored')
      }
    })
  }

  #end(): void {
    this.#stop()
    this.#feed.push({ kind: 'removed' })
    this.#feed.end()
    this.#storing = this.#storing
      .then(() => this.#init.store.delete(homeOf(this.agent), this.core.gid))
      .catch((error: unknown) => this.#log.error({ err: error }, 'a group that is over could not be deleted'))
    this.#init.onOver(this)
  }

  // ── the owner ──

  #rekeyLater(): void {
    this.#cancelRekey()
    this.#cancelRekey = this.#init.clock.after(DGK_LIFE_MS, () => {
      void this.#change({}).catch((error: unknown) => this.#log.error({ err: error }, 'the key of a group could not be replaced'))
    })
  }

  /** Makes the next statement: on disk first, then in force. */
  #change(change: TrustChange, check: () => void = () => {}): Promise<void> {
    const made = this.#changing.then(async () => {
      if (this.isOver) throw groupOver()
      if (!this.#isOwner) throw notOwner(eidToDid(this.core.owner))
      check()
      const { crypto, clock, random, store, startedMs } = this.#init
      const dgk = random.bytes(DGK_BYTES)
      const tsSec = Math.floor(clock.nowMs() / 1_000)
      const statement = nextStatement(crypto, this.agent.signer, this.core.statement, change, { dgk, tsSec })
      await store.put({ home: homeOf(this.agent), statement, startedMs })
      this.core.takeKey({ statement, dgk }, this.#nowMs)
      this.moved()
    })
    this.#changing = made.catch(() => {})
    return made
  }

  async invite(member: Eid, { history = 'snapshot' }: { history?: 'snapshot' | 'none' } = {}): Promise<void> {
    await this.#change({ add: [member], history }, () => {
      const { members } = this.core.statement
      const isNew = memberSince(this.core.statement, member) === undefined
      if (isNew && members.length >= GROUP_MEMBERS_MAX) throw groupFull(GROUP_MEMBERS_MAX)
    })
  }

  async remove(member: Eid): Promise<void> {
    await this.#change({ remove: [member] }, () => {
      if (equals(member, this.core.self)) throw ownerStays()
      if (memberSince(this.core.statement, member) === undefined) throw memberUnknown(eidToDid(member))
    })
  }

  /** Who told two histories is trusted no more: then those who believed either one agree again. */
  #expel(member: Eid): void {
    this.remove(member).catch((error: unknown) => this.#log.error({ err: error }, 'a member that told two histories could not be removed'))
  }

  rekey(): Promise<void> {
    return this.#change({})
  }

  /** A peer goes by another EID, as both its keys have signed. */
  async renamed(from: Eid, to: Eid): Promise<void> {
    this.core.renamed(from, to)
    if (this.#isOwner && memberSince(this.core.statement, from) !== undefined) await this.#change({ renamed: [{ from, to }] })
  }

  async leave(): Promise<void> {
    if (this.isOver) return
    if (this.#isOwner) throw ownerStays()
    await this.#init.onLeft(this)
    this.core.erase()
    this.#end()
    await this.#storing
  }

  // ── the application ──

  async write(writes: readonly EseWrite[], { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    signal?.throwIfAborted()
    await this.#writable(signal)
    try {
      const delta = this.core.write(eseBatch(writes), this.#nowMs)
      this.#feed.push({ kind: 'changed', member: this.agent.did, keys: delta.keys, cleared: delta.cleared })
    } catch (error) {
      if (error instanceof ProtocolError) throw writeRefused(error)
      throw error
    }
    this.moved()
  }

  /** The key is there, and what the others hold of an earlier start of ours had its time to come back. */
  async #writable(signal: AbortSignal | undefined): Promise<void> {
    const untilMs = this.#nowMs + READY_MS
    for (;;) {
      if (this.isOver) throw groupOver()
      const isRecovering = this.#nowMs < this.#recoverUntilMs && this.core.stateOf(this.core.self) === undefined
      if (this.core.canWrite === 'yes' && !isRecovering) return
      const leftMs = (isRecovering ? Math.min(untilMs, this.#recoverUntilMs) : untilMs) - this.#nowMs
      if (leftMs <= 0) throw keyMissing()
      const { promise, resolve } = Promise.withResolvers<void>()
      const cancel = this.#init.clock.after(leftMs, resolve)
      this.#waiting.add(resolve)
      try {
        await withSignal(promise, signal)
      } finally {
        cancel()
        this.#waiting.delete(resolve)
      }
    }
  }

  set(key: string, value: EseValue, options?: { signal?: AbortSignal }): Promise<void> {
    return this.write([{ op: 'set', key, value }], options)
  }

  delete(key: string, options?: { signal?: AbortSignal }): Promise<void> {
    return this.write([{ op: 'delete', key }], options)
  }

  get(key: string, of: Eid = this.core.self): EseValue | undefined {
    return this.core.stateOf(of)?.get(key)
  }

  state(of: Eid = this.core.self): Map<string, EseValue> {
    const values = new Map<string, EseValue>()
    const state = this.core.stateOf(of)
    for (const key of state?.keys() ?? []) values.set(key, state?.get(key) as EseValue)
    return values
  }

  everyones(key: string): Map<string, EseValue> {
    const values = new Map<string, EseValue>()
    for (const { eid } of this.core.statement.members) {
      const value = this.core.stateOf(eid)?.get(key)
      if (value !== undefined) values.set(eidToDid(eid), value)
    }
    return values
  }

  as<const S extends SchemaOf>(schema: S): TypedGroup<S> {
    return new TypedGroup(this, schema)
  }

  changes(options: { signal?: AbortSignal } = {}): AsyncIterableIterator<GroupChange> {
    return this.#feed.read(options)
  }

  members(): string[] {
    return this.core.statement.members.map((one) => eidToDid(one.eid)).sort()
  }

  hash(): string {
    return toHex(this.core.hash())
  }

  view(): GroupView {
    const { statement, owner, self } = this.core
    const runs = new Map(this.core.vector().map((run) => [eidHex(run.writer), run]))
    return {
      id: this.id,
      name: statement.name,
      agent: this.agent.name,
      role: this.#isOwner ? 'owner' : 'member',
      owner: eidToDid(owner),
      epoch: statement.epoch,
      writable: this.core.canWrite,
      members: statement.members.map(({ eid, since }) => {
        const run = runs.get(eidHex(eid))
        const seen = run === undefined ? {} : { keys: this.core.stateOf(eid)?.size ?? 0, applied: String(run.applied), held: String(run.n) }
        return {
          did: eidToDid(eid),
          since,
          isOwner: equals(eid, owner),
          isSelf: equals(eid, self),
          linked: this.links.has(eidHex(eid)),
          ...seen
        }
      }),
      hash: this.hash()
    }
  }

  #stop(): void {
    this.#stopping.abort()
    this.#timer?.cancel()
    this.#cancelRekey()
    this.links.stop()
    for (const wake of this.#waiting) wake()
  }

  /** Overwrites keys and values; the trust list stays on disk. */
  async stop(): Promise<void> {
    this.#stop()
    await this.#changing
    await this.#storing
    this.core.erase()
    this.#feed.end()
  }
}
