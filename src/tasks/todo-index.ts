import { concat, equalsConstantTime, fromHex, toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import type { Store, Table, WriteOp } from '../store/store.ts'
import { jsonCodec } from '../store/store.ts'
import type { Todo, TodoState } from './todo.ts'

export interface TodoFilter {
  agent?: string
  caller?: string
  state?: TodoState
}

interface IndexRow {
  agent: string
  caller: string
  state: TodoState
  /** of the Todo's row on disk */
  bytes: number
}

/** A Todo as the index names it. */
export interface IndexedTodo extends IndexRow {
  id: string
  changedAtMs: number
}

const MAC_BYTES = 16

/** The listing index: every Todo under all, its agent and its caller, by (last change, id); and the sealed cursors that walk it (TD-Q3). */
export class TodoIndex {
  readonly #rows: Table<IndexRow>
  readonly #crypto: CryptoProvider
  readonly #cursorKey: Uint8Array

  constructor(store: Store, crypto: CryptoProvider, cursorKey: Uint8Array) {
    this.#rows = store.table('todo-changed', jsonCodec<IndexRow>())
    this.#crypto = crypto
    this.#cursorKey = cursorKey
  }

  ops(before: Todo | undefined, after: Todo, bytes: number): WriteOp[] {
    const row: IndexRow = { agent: after.agent, caller: after.caller, state: after.state, bytes }
    const gone = before === undefined ? [] : this.#keys(before).map((key) => this.#rows.del(key))
    return [...gone, ...this.#keys(after).map((key) => this.#rows.put(key, row))]
  }

  removal(todo: Todo): WriteOp[] {
    return this.#keys(todo).map((key) => this.#rows.del(key))
  }

  /** @throws RookeryError `CURSOR_INVALID` */
  async page(filter: TodoFilter, limit: number, cursor: string | undefined): Promise<{ ids: string[]; next: string | undefined }> {
    const prefix = this.#prefix(filter)
    const before = cursor === undefined ? `${prefix};` : prefix + this.#openCursor(filter, cursor)
    const ids: string[] = []
    let last: string | undefined
    for await (const [key, row] of this.#rows.entries({ gt: `${prefix}:`, lt: before, reverse: true })) {
      if (filter.agent !== undefined && row.agent !== filter.agent) continue
      if (filter.state !== undefined && row.state !== filter.state) continue
      if (ids.length === limit) return { ids, next: this.#sealCursor(filter, last as string) }
      last = key.slice(prefix.length)
      ids.push(last.slice(last.lastIndexOf(':') + 1))
    }
    return { ids, next: undefined }
  }

  /** Todos whose last change lies before `beforeMs`, of one caller or of all, the oldest change first. */
  async *oldest({ beforeMs, caller }: { beforeMs?: number; caller?: string } = {}): AsyncIterable<IndexedTodo> {
    const prefix = this.#prefix(caller === undefined ? {} : { caller })
    const lt = beforeMs === undefined ? `${prefix};` : `${prefix}${position(beforeMs, '')}`
    for await (const [key, row] of this.#rows.entries({ gt: `${prefix}:`, lt })) {
      const [changedAt, id] = key.slice(prefix.length + 1).split(':') as [string, string]
      yield { ...row, id, changedAtMs: Number.parseInt(changedAt, 16) }
    }
  }

  #prefix(filter: TodoFilter): string {
    if (filter.caller !== undefined) return `caller:${this.#hash(filter.caller)}`
    return filter.agent !== undefined ? `agent:${filter.agent}` : 'all'
  }

  #keys(todo: Todo): string[] {
    const at = position(todo.changedAtMs, todo.id)
    return [`all${at}`, `agent:${todo.agent}${at}`, `caller:${this.#hash(todo.caller)}${at}`]
  }

  #hash(text: string): string {
    return toHex(this.#crypto.sha256(utf8(text)).subarray(0, 16))
  }

  #mac(filter: TodoFilter, at: string): Uint8Array {
    const bound = canonicalJson({ agent: filter.agent ?? null, caller: filter.caller ?? null, state: filter.state ?? null, at })
    return this.#crypto.hmacSha256(this.#cursorKey, utf8(bound)).subarray(0, MAC_BYTES)
  }

  #sealCursor(filter: TodoFilter, at: string): string {
    return toHex(concat([this.#mac(filter, at), utf8(at)]))
  }

  #openCursor(filter: TodoFilter, cursor: string): string {
    const refused = new RookeryError('CURSOR_INVALID', 'the page token is not one that this listing gave out', {
      kind: 'usage',
      field: 'pageToken',
      remedy: 'start again without a page token, with the same filter on every page'
    })
    if (cursor.length > 512) throw refused
    let bytes: Uint8Array
    try {
      bytes = fromHex(cursor)
    } catch {
      throw refused
    }
    const at = new TextDecoder().decode(bytes.subarray(MAC_BYTES))
    if (!equalsConstantTime(bytes.subarray(0, MAC_BYTES), this.#mac(filter, at))) throw refused
    return at
  }
}

/** Sorts by time, then id. */
function position(changedAtMs: number, id: string): string {
  return `:${changedAtMs.toString(16).padStart(12, '0')}:${id}`
}
