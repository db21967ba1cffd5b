import { toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Snapshot, Store, Table, WriteOp } from '../store/store.ts'
import { jsonCodec } from '../store/store.ts'
import { slotOf, slotsOf } from './slots.ts'
import type { Todo, TodoFilter, TodoSlot, TodoState } from './todo.ts'
import { TodoCursors } from './todo-cursor.ts'

/**
 * A page ends with the Todo that brings it to so many bytes on disk, by which a page of any number costs what a few large ones do: each Todo may have
 * megabytes, and whoever may send may make as many as a page holds.
 */
export const PAGE_BYTES_MAX = 4 * 1_048_576

interface IndexRow {
  agent: string
  caller: string
  state: TodoState
  /** of the Todo's row on disk */
  bytes: number
  /** absent in rows of the former index, which knew neither slots nor contexts */
  slot?: TodoSlot
}

/** A Todo as the index names it. */
export interface IndexedTodo extends IndexRow {
  id: string
  changedAtMs: number
}

interface Prefixes {
  rows: string[]
  places: string[]
}

/** A place in a listing: `:` time `:` id. */
interface Place {
  id: string
  changedAtMs: number
}

/** Which places are read, and as they stood when. */
interface Stretch {
  from: string
  below: string
  at: Snapshot
}

/**
 * The listing index: every Todo by (last change, id) under all and under its caller, and by state under its agent, under agent and caller, and under
 * its context. A page over several states merges their ranges, so it costs the same however many Todos there are.
 */
export class TodoIndex {
  readonly #rows: Table<IndexRow>
  /** where the key says it all */
  readonly #places: Table<1>
  readonly #crypto: CryptoProvider
  readonly #cursors: TodoCursors

  constructor(store: Store, crypto: CryptoProvider, cursorKey: Uint8Array) {
    this.#rows = store.table('todo-changed', jsonCodec<IndexRow>())
    this.#places = store.table('todo-place', jsonCodec<1>())
    this.#crypto = crypto
    this.#cursors = new TodoCursors(crypto, cursorKey)
  }

  /** None where nothing is told of it: after a lease was renewed. */
  ops(before: Todo | undefined, after: Todo, bytes: number): WriteOp[] {
    if (before !== undefined && before.seq === after.seq) return []
    const slot = slotOf(after)
    const at = position(after.changedAtMs, after.id)
    const prefixes = this.#prefixes(after)
    const row: IndexRow = { agent: after.agent, caller: after.caller, state: after.state, bytes, slot }
    return [
      ...(before === undefined ? [] : this.#removal(before, prefixes)),
      ...prefixes.rows.map((prefix) => this.#rows.put(`${prefix}${at}`, row)),
      ...prefixes.places.map((prefix) => this.#places.put(`${prefix}${slot}${at}`, 1))
    ]
  }

  removal(todo: Todo): WriteOp[] {
    return this.#removal(todo, this.#prefixes(todo))
  }

  /** Gives a Todo of the former index its places; the rows that nothing reads any more go. */
  renewal(todo: Todo, bytes: number): WriteOp[] {
    const { changedAtMs, id, agent } = todo
    return [...this.ops(undefined, todo, bytes), this.#rows.del(`agent:${agent}${position(changedAtMs, id)}`)]
  }

  /** @throws RookeryError `CURSOR_INVALID` */
  async page(
    filter: TodoFilter,
    { limit, cursor, at }: { limit: number; cursor: string | undefined; at: Snapshot }
  ): Promise<{ ids: string[]; next: string | undefined }> {
    const below = cursor === undefined ? ';' : this.#cursors.open(filter, cursor)
    const places: string[] = []
    let isMore = false
    for await (const place of this.#newest(filter, below, at)) {
      isMore = places.length === limit
      if (isMore) break
      places.push(place)
    }
    const fitting = places.slice(0, await this.#fitting(places, at))
    const last = fitting.at(-1)
    return {
      ids: fitting.map((place) => placeOf(place).id),
      next: last !== undefined && (isMore || fitting.length < places.length) ? this.#cursors.seal(filter, last) : undefined
    }
  }

  /** How many of them, from the first, a page holds. */
  async #fitting(places: readonly string[], at: Snapshot): Promise<number> {
    const rows = await Promise.all(places.map((place) => this.#rows.get(`all${place}`, at)))
    let bytes = 0
    const end = rows.findIndex((row) => {
      bytes += row?.bytes ?? 0
      return bytes >= PAGE_BYTES_MAX
    })
    return end === -1 ? places.length : end + 1
  }

  /** How many a filter matches, by walking their keys. */
  async count(filter: TodoFilter, at: Snapshot): Promise<number> {
    let count = 0
    for await (const _ of this.#newest(filter, ';', at)) count++
    return count
  }

  /** Todos whose last change lies before `beforeMs`, of one caller or of all, the oldest change first. */
  async *oldest({ beforeMs, caller }: { beforeMs?: number; caller?: string } = {}): AsyncIterable<IndexedTodo> {
    const prefix = caller === undefined ? 'all' : `caller:${this.#hash(caller)}`
    const lt = beforeMs === undefined ? `${prefix};` : `${prefix}${position(beforeMs, '')}`
    for await (const [key, row] of this.#rows.entries({ gt: `${prefix}:`, lt })) yield { ...row, ...placeOf(key.slice(prefix.length)) }
  }

  /** Positions below `below`, the newest first. */
  async *#newest(filter: TodoFilter, below: string, at: Snapshot): AsyncGenerator<string, void, undefined> {
    const { agent, caller, contextId, changedFromMs = 0 } = filter
    const from = position(changedFromMs, '')
    if (agent === undefined || (contextId !== undefined && caller === undefined)) yield* this.#walk(filter, { from, below, at })
    else {
      const prefix =
        caller === undefined
          ? `a:${agent}:`
          : contextId === undefined
            ? this.#ofCaller(agent, caller)
            : this.#ofContext(agent, caller, contextId)
      yield* merged(slotsOf(filter).map((slot) => this.#slot(`${prefix}${slot}`, { from, below, at })))
    }
  }

  async *#slot(prefix: string, { from, below, at }: Stretch): AsyncGenerator<string, void, undefined> {
    const range = { gte: `${prefix}${from}`, lt: `${prefix}${below}`, reverse: true, at }
    for await (const key of this.#places.keys(range)) yield key.slice(prefix.length)
  }

  /** Where no index serves a filter, rows are read until enough fit. */
  async *#walk({ caller, ...filter }: TodoFilter, { from, below, at }: Stretch): AsyncGenerator<string, void, undefined> {
    const prefix = caller === undefined ? 'all' : `caller:${this.#hash(caller)}`
    const slots = slotsOf(filter)
    const range = { gte: `${prefix}${from}`, lt: `${prefix}${below}`, reverse: true, at }
    for await (const [key, row] of this.#rows.entries(range)) {
      if (row.slot === undefined || slots.includes(row.slot)) yield key.slice(prefix.length)
    }
  }

  #removal(todo: Todo, { rows, places }: Prefixes): WriteOp[] {
    const at = position(todo.changedAtMs, todo.id)
    const slot = slotOf(todo)
    return [...rows.map((prefix) => this.#rows.del(`${prefix}${at}`)), ...places.map((prefix) => this.#places.del(`${prefix}${slot}${at}`))]
  }

  #prefixes({ agent, caller, contextId }: Todo): Prefixes {
    return {
      rows: ['all', `caller:${this.#hash(caller)}`],
      places: [`a:${agent}:`, this.#ofCaller(agent, caller), this.#ofContext(agent, caller, contextId)]
    }
  }

  #ofCaller(agent: string, caller: string): string {
    return `c:${this.#hash(`${agent} ${caller}`)}:`
  }

  #ofContext(agent: string, caller: string, contextId: string): string {
    return `x:${this.#hash(`${agent} ${caller} ${contextId}`)}:`
  }

  #hash(text: string): string {
    return toHex(this.#crypto.sha256(utf8(text)).subarray(0, 16))
  }
}

/** Sorts by time, then id. */
function position(changedAtMs: number, id: string): string {
  return `:${changedAtMs.toString(16).padStart(12, '0')}:${id}`
}

function placeOf(at: string): Place {
  const [, changedAt = '', id = ''] = at.split(':')
  return { id, changedAtMs: Number.parseInt(changedAt, 16) }
}

/** What several descending runs yield, in descending order. */
async function* merged(runs: AsyncGenerator<string, void, undefined>[]): AsyncGenerator<string, void, undefined> {
  try {
    const heads = await Promise.all(runs.map(async (run) => (await run.next()).value ?? undefined))
    for (;;) {
      let newest = -1
      for (const [i, head] of heads.entries()) {
        if (head !== undefined && (newest < 0 || head > (heads[newest] as string))) newest = i
      }
      if (newest < 0) return
      yield heads[newest] as string
      heads[newest] = (await runs[newest]?.next())?.value ?? undefined
    }
  } finally {
    await Promise.all(runs.map((run) => run.return()))
  }
}
