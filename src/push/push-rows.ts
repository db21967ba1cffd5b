import { toHex } from '../../protocol/bytes.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

export const PUSH_CONFIGS_PER_TASK_MAX = 8
export const PUSH_CONFIGS_PER_OWNER_MAX = 1_000
export const PUSH_CONFIGS_MAX = 10_000
/** How long a configuration whose last event was delivered, or given up, is still shown. */
export const PUSH_KEPT_MS = 86_400_000

/** How far the receiver has been told: the number of an event of the Todo, and how many of the pieces that tell of it. */
export interface PushPlace {
  n: number
  piece: number
}

/** A webhook of one task, as it is stored; it holds secrets of its receiver. */
export interface PushRow {
  id: string
  /** tells one of the same id that took its place from it */
  tag: string
  taskId: string
  /** the principal that the task belongs to */
  owner: string
  agent: string
  url: string
  token?: string
  authentication?: { scheme: string; credentials?: string }
  place: PushPlace
  /** `active`: there may be more to tell; `done`: the task's end was told; `given-up`: too many failures, see lastError */
  state: 'active' | 'done' | 'given-up'
  createdAtMs: number
  changedAtMs: number
  /** of the event that is due, with the first failure among them, Unix ms */
  attempts: number
  failingSinceMs?: number
  nextAttemptAtMs?: number
  lastError?: string
}

/** What a delivery changes; `ended`: what is known of failures is forgotten, but for what the change says itself. */
export interface PushChange
  extends Partial<Pick<PushRow, 'place' | 'state' | 'attempts' | 'failingSinceMs' | 'nextAttemptAtMs' | 'lastError'>> {
  failing: 'as before' | 'ended'
}

/** Webhooks on disk and, all of them, in memory; bounded for a task, an owner and in all. */
export class PushRows {
  readonly #store: Store
  readonly #random: Random
  readonly #clock: Clock
  readonly #table: Table<PushRow>
  readonly #ofTask = new Map<string, Map<string, PushRow>>()
  readonly #ofOwner = new Map<string, number>()
  #size = 0

  private constructor({ store, random, clock }: { store: Store; random: Random; clock: Clock }) {
    this.#store = store
    this.#random = random
    this.#clock = clock
    this.#table = store.table('push-config', jsonCodec<PushRow>())
  }

  static async open(components: { store: Store; random: Random; clock: Clock }): Promise<PushRows> {
    const rows = new PushRows(components)
    for await (const [, row] of rows.#table.entries()) rows.#take(row)
    return rows
  }

  get size(): number {
    return this.#size
  }

  *all(): Iterable<PushRow> {
    for (const rows of this.#ofTask.values()) yield* rows.values()
  }

  ofTask(taskId: string): PushRow[] {
    return [...(this.#ofTask.get(taskId)?.values() ?? [])]
  }

  get(taskId: string, id: string): PushRow | undefined {
    return this.#ofTask.get(taskId)?.get(id)
  }

  /** With an id that it has the one there gives way; without one it gets one. @throws RookeryError `PUSH_CONFIGS_FULL`, those of the store */
  async put(given: Omit<PushRow, 'id' | 'tag'> & { id?: string | undefined }): Promise<PushRow> {
    const id = given.id ?? toHex(this.#random.bytes(8))
    const row: PushRow = { ...given, id, tag: toHex(this.#random.bytes(8)) }
    const before = this.get(row.taskId, id)
    if (before === undefined) this.#checkRoom(row)
    // Counted before the write, so that puts at the same time cannot pass a bound.
    this.#take(row)
    try {
      await this.#store.commit([this.#table.put(keyOf(row), row)])
    } catch (error) {
      if (before === undefined) this.#forget(row)
      else this.#take(before)
      throw error
    }
    return row
  }

  #checkRoom({ taskId, owner }: PushRow): void {
    const counts: [string, number, number][] = [
      ['a task', this.#ofTask.get(taskId)?.size ?? 0, PUSH_CONFIGS_PER_TASK_MAX],
      ['one caller', this.#ofOwner.get(owner) ?? 0, PUSH_CONFIGS_PER_OWNER_MAX],
      ['this node', this.#size, PUSH_CONFIGS_MAX]
    ]
    for (const [whose, count, max] of counts) {
      if (count < max) continue
      throw new RookeryError('PUSH_CONFIGS_FULL', `${whose} has at most ${max} push configurations`, {
        kind: 'refused',
        field: 'taskPushNotificationConfig',
        value: max,
        remedy: 'delete one that is not needed'
      })
    }
  }

  /** Writes how the delivery stands. One that was deleted meanwhile stays so. */
  async update(row: PushRow, change: PushChange): Promise<PushRow | undefined> {
    if (this.get(row.taskId, row.id)?.tag !== row.tag) return undefined
    const { failing, ...rest } = change
    const { failingSinceMs: _, nextAttemptAtMs: __, lastError: ___, ...lasting } = row
    const next: PushRow = { ...(failing === 'as before' ? row : lasting), ...rest, changedAtMs: this.#clock.nowMs() }
    this.#take(next)
    await this.#store.commit([this.#table.put(keyOf(next), next)])
    return next
  }

  async delete(rows: readonly PushRow[]): Promise<void> {
    const ops: WriteOp[] = rows.map((row) => this.#table.del(keyOf(row)))
    for (const row of rows) this.#forget(row)
    await this.#store.commit(ops, { room: 'reserve' })
  }

  #take(row: PushRow): void {
    let rows = this.#ofTask.get(row.taskId)
    if (rows === undefined) {
      rows = new Map()
      this.#ofTask.set(row.taskId, rows)
    }
    if (!rows.has(row.id)) {
      this.#size++
      this.#ofOwner.set(row.owner, (this.#ofOwner.get(row.owner) ?? 0) + 1)
    }
    rows.set(row.id, row)
  }

  #forget({ taskId, id, owner }: PushRow): void {
    const rows = this.#ofTask.get(taskId)
    if (rows?.delete(id) !== true) return
    if (rows.size === 0) this.#ofTask.delete(taskId)
    this.#size--
    const left = (this.#ofOwner.get(owner) ?? 1) - 1
    if (left > 0) this.#ofOwner.set(owner, left)
    else this.#ofOwner.delete(owner)
  }
}

function keyOf({ taskId, id }: { taskId: string; id: string }): string {
  return `${taskId}:${id}`
}
