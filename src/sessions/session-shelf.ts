import { CONTRACT_GRACE_MS } from '../../protocol/session/contract.ts'
import type { Established } from '../../protocol/session/established.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { DurableSession } from './durable-session.ts'
import type { DurableSessionInit } from './durable-session-init.ts'
import { DAY_MS, type ManagerState } from './manager-state.ts'
import type { IndexEntry, PairKey } from './session-index.ts'
import type { SessionRecord } from './session-record.ts'

const PARK_CHECK_MS = 60_000
const DISSOLVE_CHECK_MS = 3_600_000
/** What of `storedMax` is in use once room was made. */
const ROOM_MADE = 0.9

/** Whom a session tells: the manager. */
export type SessionHooks = Pick<
  DurableSessionInit,
  'onOpen' | 'onReady' | 'onDisconnected' | 'onEnd' | 'onEvent' | 'onRotation' | 'onRenamed' | 'onWanted'
>

/** Sessions in memory and on disk: read back when they are wanted, let go of when they are idle, dissolved after very long (G-46). */
export class SessionShelf {
  readonly #m: ManagerState
  readonly #hooks: SessionHooks
  readonly #onParked: (id: string) => void
  #cancelUpkeep: (() => void) | undefined
  #making: Promise<void> | undefined

  constructor(state: ManagerState, hooks: SessionHooks, onParked: (id: string) => void) {
    this.#m = state
    this.#hooks = hooks
    this.#onParked = onParked
  }

  /** A session in memory: as it was held, or read back. */
  async hold(entry: IndexEntry): Promise<DurableSession | undefined> {
    if (entry.loaded !== undefined) return entry.loaded
    const parked = entry.parked?.deref()
    if (parked !== undefined && !parked.isOver) {
      entry.loaded = parked
      return parked
    }
    entry.loading ??= this.read(entry).then((session) => {
      entry.loading = undefined
      if (session === undefined || this.#m.index.byId(entry.id) !== entry) return undefined
      entry.loaded = session
      session.announce()
      return session
    })
    return await entry.loading
  }

  async heldBy(pair: PairKey): Promise<DurableSession | undefined> {
    const entry = this.#m.index.byPair(pair)
    return entry === undefined ? undefined : await this.hold(entry)
  }

  /** As it is in memory or on disk, without keeping it. */
  async read(entry: IndexEntry): Promise<DurableSession | undefined> {
    const held = entry.loaded ?? entry.parked?.deref()
    if (held !== undefined) return held
    const local = this.#m.own.agentOf(entry.local)
    const found = await this.#m.store.load(entry.id, this.#m.components.crypto)
    if (local === undefined || found === undefined) {
      this.#m.index.remove(entry.id)
      return undefined
    }
    const { record, journal, ledger, totals, broken } = found
    const pair = await this.#m.eses.load(record.sid)
    const session = this.make(local, record, pair, { journal, ledger, totals })
    if (broken) {
      entry.loaded = session
      await session.finish('diverged', undefined, {
        reason: 'diverged',
        by: 'local',
        lost: false,
        error: new Error('the journal on disk has a gap')
      })
      return undefined
    }
    return session
  }

  make(
    local: LocalAgent,
    record: SessionRecord,
    pair: DurableSessionInit['pair'],
    held?: DurableSessionInit['held'],
    first?: Established
  ): DurableSession {
    const { log, store, eses } = this.#m
    const { crypto, random, clock, snapshot, ready, evidence } = this.#m.components
    const sendBytesAll = () => {
      let bytes = 0
      for (const session of this.#m.index.loaded()) bytes += session.sendBytes
      return bytes
    }
    const bound = { sendBytesAll, sendBytesAllMax: this.#m.init.sendBytesAllMax }
    const parts = {
      ...bound,
      crypto,
      random,
      clock,
      logger: log,
      store,
      eses,
      pair,
      local,
      record,
      snapshot,
      ready,
      evidence,
      ...this.#hooks
    }
    return new DurableSession(held === undefined ? parts : { ...parts, held }, first)
  }

  /**
   * A session that is to be ended at once: as {@link hold} gives it, but the application is not told of one that only the disk holds just to hear of
   * its end.
   */
  async take(entry: IndexEntry): Promise<DurableSession | undefined> {
    const session = (await entry.loading) ?? (await this.read(entry))
    if (session === undefined || this.#m.index.byId(entry.id) !== entry) return undefined
    entry.loaded ??= session
    return entry.loaded
  }

  /**
   * The disk's share for callers is full, or soon will be: sessions that they opened and in which nothing was ever sent are dissolved, those
   * without a connection and the longest unused first, until a tenth is free again. Nobody loses anything by it.
   */
  makeRoom(): void {
    this.#making ??= this.#dissolveEmpty()
      .catch((error: unknown) => this.#m.log.warn({ err: error }, 'sessions that hold nothing could not be dissolved'))
      .finally(() => {
        this.#making = undefined
      })
  }

  async #dissolveEmpty(): Promise<void> {
    const { index, storedMax } = this.#m
    const entries = [...index.entries()].filter(
      ({ openedBy, isUsed, loaded }) => openedBy === 'peer' && !isUsed && loaded?.epoch === undefined
    )
    entries.sort((a, b) => (a.loaded?.activeAtMs ?? a.activeAtMs) - (b.loaded?.activeAtMs ?? b.activeAtMs))
    for (const entry of entries) {
      if (this.#m.isStopping || index.size <= storedMax * ROOM_MADE) return
      const session = await this.take(entry)
      if (session === undefined || session.epoch !== undefined) continue
      if (session.isUnused) await session.finish('capacity', undefined, undefined)
      else entry.isUsed = true
    }
  }

  isIdle(session: DurableSession): boolean {
    return !session.hasUnacked && !session.holdsState && this.#m.components.clock.nowMs() - session.activeAtMs >= this.#m.parkAfterMs
  }

  async park(entry: IndexEntry, session: DurableSession): Promise<void> {
    this.#onParked(entry.id)
    entry.loaded = undefined
    entry.activeAtMs = session.activeAtMs
    entry.parked = new WeakRef(session)
    await session.release(new Error('the session was idle and is parked'))
  }

  /**
   * A parked session was given certificates of ours: they are on disk, and it is taken up again when its turn comes. Until then it needs no memory,
   * however many there are, unless somebody waits for an answer in it.
   */
  async letGo(entry: IndexEntry, session: DurableSession): Promise<void> {
    if (entry.loaded !== session || session.epoch !== undefined || session.isAwaited) return
    entry.loaded = undefined
    entry.activeAtMs = session.activeAtMs
    await session.release(new Error('the session waits for its turn'))
  }

  /** Begins the upkeep, which goes on until {@link stop}. */
  start(): void {
    this.#upkeep(this.#m.components.clock.nowMs())
  }

  stop(): void {
    this.#cancelUpkeep?.()
  }

  #upkeep(dissolvedAtMs: number): void {
    const { clock } = this.#m.components
    this.#cancelUpkeep = clock.after(Math.min(PARK_CHECK_MS, this.#m.parkAfterMs), () => {
      for (const entry of [...this.#m.index.entries()]) {
        const session = entry.loaded
        if (session !== undefined && this.isIdle(session)) void this.park(entry, session)
      }
      const nowMs = clock.nowMs()
      const isDue = nowMs - dissolvedAtMs >= DISSOLVE_CHECK_MS
      if (isDue)
        void this.#dissolve(nowMs).catch((error: unknown) => this.#m.log.warn({ err: error }, 'idle sessions could not be dissolved'))
      this.#upkeep(isDue ? nowMs : dissolvedAtMs)
    })
  }

  async #dissolve(nowMs: number): Promise<void> {
    const limitMs = this.#m.init.parkedMaxMs ?? 90 * DAY_MS
    for (const entry of [...this.#m.index.entries()]) {
      const activeAtMs = entry.loaded?.activeAtMs ?? entry.activeAtMs
      const contractIsOver = nowMs > (entry.expiresAtMs ?? Number.POSITIVE_INFINITY) + CONTRACT_GRACE_MS
      if (nowMs - activeAtMs < limitMs && !contractIsOver) continue
      const session = await this.take(entry)
      await session?.finish(contractIsOver ? 'contract' : 'expired', undefined, undefined)
    }
    await this.#m.store.sweep()
  }
}
