import { CLOCK_SKEW_MAX_MS } from '../../protocol/delivery/object.ts'
import type { Clock } from '../platform/clock.ts'
import { SettledTime } from '../platform/settled-time.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

/** The highest time goes to disk again once it has moved by this much. */
const PERSIST_STEP_MS = 10_000
const KEY = 'highest'

/**
 * The highest wall-clock time this node ever saw, on disk (G-10). A clock that reads more than the allowed skew below it has lost its time,
 * and would revive what has ended: drains are held until it is right again, or until the owner says that it is.
 */
export class ClockGuard {
  readonly #store: Store
  readonly #clock: Clock
  readonly #table: Table<number>
  readonly #settled: SettledTime
  #highestMs: number
  #persistedMs: number

  private constructor(store: Store, clock: Clock, table: Table<number>, highestMs: number) {
    this.#store = store
    this.#clock = clock
    this.#table = table
    this.#settled = new SettledTime(clock)
    this.#highestMs = highestMs
    this.#persistedMs = highestMs
  }

  static async open({ store, clock }: { store: Store; clock: Clock }): Promise<ClockGuard> {
    const table = store.table('delivery-clock', jsonCodec<number>())
    const stored = await table.get(KEY)
    return new ClockGuard(store, clock, table, Number.isSafeInteger(stored) ? (stored as number) : 0)
  }

  get highestMs(): number {
    return this.#highestMs
  }

  /** Reads the clock, remembers a new highest time, and returns the reading. */
  now(): number {
    const nowMs = this.#clock.nowMs()
    if (nowMs > this.#highestMs) this.#highestMs = nowMs
    return nowMs
  }

  /** The time by which what ended is thrown away: of a clock that has just jumped ahead, the time before. */
  settledMs(): number {
    return this.#settled.nowMs()
  }

  /** Why nothing may be drained now, or undefined. */
  held(): string | undefined {
    const behindMs = this.#highestMs - this.now()
    if (behindMs <= CLOCK_SKEW_MAX_MS) return undefined
    return `the clock reads ${Math.round(behindMs / 1_000)} s before the highest time on disk, ${new Date(this.#highestMs).toISOString()}`
  }

  /** What to write along with the next commit; empty while the time on disk is recent. */
  ops(): WriteOp[] {
    return this.#highestMs - this.#persistedMs < PERSIST_STEP_MS ? [] : [this.#table.put(KEY, this.#highestMs)]
  }

  /** To be called once a commit with {@link ops} has gone through. */
  written(ops: readonly WriteOp[]): void {
    if (ops.length > 0) this.#persistedMs = this.#highestMs
  }

  /** @throws RookeryError `STORE_WRITE_FAILED` */
  async persist(): Promise<void> {
    this.now()
    const ops = this.ops()
    await this.#store.commit(ops, { room: 'reserve' })
    this.written(ops)
  }

  /** The owner vouches for the clock as it is: a battery or a mistake had put it ahead. */
  async trust(): Promise<void> {
    const nowMs = this.#clock.nowMs()
    await this.#store.commit([this.#table.put(KEY, nowMs)], { room: 'reserve' })
    this.#highestMs = nowMs
    this.#persistedMs = nowMs
  }
}
