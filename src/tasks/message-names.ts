import { toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Clock } from '../platform/clock.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { CallerCounts } from './caller-counts.ts'
import { ENVELOPE_DEPTH_MAX } from './json-bounds.ts'
import type { Json, JsonObject, Todo } from './todo.ts'
import { messageIdReused } from './todo-errors.ts'

/**
 * What bounds the names that outlive their Todos. At a bound no Todo is forgotten whose names are still due, so its caller is refused new ones:
 * a name given up early could let the same message run twice, a refusal can be sent again.
 */
export interface NameBounds {
  namesMax: number
  namesPerCallerMax: number
  /** how long a messageId is known after its Todo ended, whatever becomes of the Todo */
  nameRetainMs: number
  /** the same for a Todo whose caller gave keys of its own (G-69) */
  keyRetainMs: number
}

/** What a message is known by: scoped to agent and caller, so nobody can burn another's id. */
export interface MessageName {
  dedupKey: string
  /** of its row, sha-256 hex of the key */
  row: string
  /** sha-256 hex of the message without its messageId, in RFC 8785 text */
  digest: string
}

/** What stays of a Todo that was forgotten while its names are still due. */
type Remains = Pick<Todo, 'contextId' | 'state' | 'revision' | 'createdAtMs' | 'changedAtMs' | 'door' | 'attempt'>

export interface NameRow {
  /** of the Todo that the message made or went into */
  id: string
  digest: string
  /** there once the Todo is not any more */
  remains?: Remains
}

const PRUNE_AT_ONCE = 1_024

/** Which Todo each message made or went into: kept as long as the Todo, and at least `nameRetainMs` after its end (F007). */
export class MessageNames {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #clock: Clock
  readonly #bounds: NameBounds
  readonly #rows: Table<NameRow>
  /** callers of the names that outlive their Todos, by end and row */
  readonly #due: Table<string>
  readonly #outliving = new CallerCounts()
  #pruning: Promise<void> | undefined

  constructor({ store, crypto, clock }: { store: Store; crypto: CryptoProvider; clock: Clock }, bounds: NameBounds) {
    this.#store = store
    this.#crypto = crypto
    this.#clock = clock
    this.#bounds = bounds
    this.#rows = store.table('todo-dedup', jsonCodec<NameRow>())
    this.#due = store.table('todo-dedup-due', jsonCodec<string>())
  }

  /** Counts the names that outlive their Todos. */
  async load(): Promise<void> {
    for await (const [, caller] of this.#due.entries()) this.#outliving.add(caller, 1)
  }

  /** By the key that was given, else by its messageId; both have one name space (TD-Q4). */
  of(input: { agent: EidHex; caller: string; message: JsonObject; dedupKey?: string | undefined }): MessageName {
    const { messageId, ...content } = input.message
    const dedupKey = keyOf(input, input.dedupKey ?? messageId)
    return { dedupKey, row: this.#sha256(dedupKey), digest: this.#sha256(canonicalJson(content, ENVELOPE_DEPTH_MAX)) }
  }

  /** @throws RookeryError `MESSAGE_ID_REUSED` where it came with another content */
  async find({ row, digest }: MessageName): Promise<NameRow | undefined> {
    const found = await this.#rows.get(row)
    if (found !== undefined && found.digest !== digest) throw messageIdReused()
    return found
  }

  /** Of the Todo that takes the place of a failed one: no caller can give this name. */
  ofRetry(todo: Todo): MessageName {
    const dedupKey = `retry:${todo.id}`
    return { dedupKey, row: this.#sha256(dedupKey), digest: todo.digest }
  }

  put({ row, digest }: MessageName, id: string): WriteOp {
    return this.#rows.put(row, { id, digest })
  }

  /** Whether names of a Todo that ended then have to stay. */
  due(endedAtMs: number): boolean {
    return endedAtMs + this.#bounds.nameRetainMs > this.#clock.nowMs()
  }

  /** The bound that so many more names of `caller` would pass. */
  overflow(caller: string, count: number): { bound: keyof NameBounds; max: number } | undefined {
    const { namesMax, namesPerCallerMax } = this.#bounds
    if (this.#outliving.all + count > namesMax) return { bound: 'namesMax', max: namesMax }
    if (this.#outliving.of(caller) + count > namesPerCallerMax) return { bound: 'namesPerCallerMax', max: namesPerCallerMax }
    return undefined
  }

  /**
   * What becomes of a Todo's names in the batch that forgets it.
   * @returns the steps, and how to take the names out of the count if they are not written; undefined where a bound keeps the Todo
   */
  async outlive(todo: Todo): Promise<{ ops: WriteOp[]; abandon(): void } | undefined> {
    const keys = [
      todo.dedupKey,
      ...[...(todo.dedupKeys ?? []), ...todo.history.map(({ messageId }) => messageId)].map((key) => keyOf(todo, key))
    ]
    const names = [...new Set(keys)].map((key) => this.#sha256(key))
    const retainMs = todo.dedupKeys === undefined ? this.#bounds.nameRetainMs : this.#bounds.keyRetainMs
    const dueMs = todo.changedAtMs + retainMs
    const isDue = dueMs > this.#clock.nowMs()
    const { contextId, state, revision, createdAtMs, changedAtMs, door, attempt } = todo
    const remains: Remains = { contextId, state, revision, createdAtMs, changedAtMs, door, attempt }
    const ops: WriteOp[] = []
    let count = 0
    for (const name of names) {
      const row = await this.#rows.get(name)
      // A message that came by a key of its own left its messageId to others.
      if (row?.id !== todo.id) continue
      if (!isDue) {
        ops.push(this.#rows.del(name))
        continue
      }
      ops.push(this.#rows.put(name, { ...row, remains }), this.#due.put(`${time(dueMs)}:${name}`, todo.caller))
      count++
    }
    if (this.overflow(todo.caller, count) !== undefined) return undefined
    this.#outliving.add(todo.caller, count)
    return { ops, abandon: () => this.#outliving.add(todo.caller, -count) }
  }

  /** Forgets the names that are due no longer. One run at a time: a second could take a name that came anew in between. */
  async prune(): Promise<void> {
    this.#pruning ??= this.#prune().finally(() => {
      this.#pruning = undefined
    })
    await this.#pruning
  }

  async #prune(): Promise<void> {
    const range = { lt: time(this.#clock.nowMs()) }
    let some: { key: string; caller: string }[] = []
    const forget = async () => {
      await this.#store.commit(some.flatMap(({ key }) => [this.#due.del(key), this.#rows.del(key.slice(key.indexOf(':') + 1))]))
      for (const { caller } of some) this.#outliving.add(caller, -1)
      some = []
    }
    for await (const [key, caller] of this.#due.entries(range)) {
      some.push({ key, caller })
      if (some.length === PRUNE_AT_ONCE) await forget()
    }
    if (some.length > 0) await forget()
  }

  #sha256(text: string): string {
    return toHex(this.#crypto.sha256(utf8(text)))
  }
}

/** A Todo of which only a name is left: how it ended, and that its content is gone. */
export function todoOfRemains(
  { id, digest, remains }: NameRow & { remains: Remains },
  { agent, caller, dedupKey }: { agent: EidHex; caller: string; dedupKey: string }
): Todo {
  const { contextId } = remains
  const text = 'This task has ended. Its messages and artifacts were dropped to make room for newer ones.'
  const statusMessage = { messageId: `${id}-dropped`, contextId, taskId: id, role: 'ROLE_AGENT', parts: [{ text }] }
  return { ...remains, id, agent, caller, dedupKey, digest, history: [], artifacts: [], statusMessage }
}

function keyOf({ agent, caller }: { agent: EidHex; caller: string }, messageId: Json | undefined): string {
  return `a2a:${agent}:${caller}:${String(messageId)}`
}

/** Sorts as text. */
function time(ms: number): string {
  return ms.toString(16).padStart(12, '0')
}
