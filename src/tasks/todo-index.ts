import { toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Snapshot, Store, Table, WriteOp } from '../store/store.ts'
import { jsonCodec } from '../store/store.ts'
import { slotOf, slotsOf } from './slots.ts'
import type { Todo, TodoFilter, TodoSlot, TodoState } from './todo.ts'
import { TodoCursors } from './todo-cursor.ts'

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
    const ids: string[] = []
    let last = ''
    for await (const place of this.#newest(filter, below, at)) {
      if (ids.length === limit) return { ids, next: this.#cursors.seal(filter, last) }
      last = place
      ids.push(placeOf(place).id)
    }
    return { ids, next: undefined }
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
