import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { Contexts } from './contexts.ts'
import { KeptTodos } from './kept-todos.ts'
import { MessageNames } from './message-names.ts'
import { type OpenTodo, OpenTodos } from './open-todos.ts'
import type { TodosSettings } from './settings.ts'
import { mayFollow, stateClass } from './states.ts'
import type { Todo } from './todo.ts'
import { todoLimit, todoUnknown } from './todo-errors.ts'
import { TodoIndex } from './todo-index.ts'
import { TodoListeners } from './todo-listeners.ts'
import { TodoRoom } from './todo-room.ts'

export interface TodoJournalComponents {
  store: Store
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
}

/** The rows of the Todos, and what follows from each write: indexes, memory, those who are told, and room for the next. */
export class TodoJournal {
  readonly open = new OpenTodos()
  readonly names: MessageNames
  readonly contexts: Contexts
  readonly index: TodoIndex
  readonly listeners: TodoListeners
  /** by `todo ` and id; what else is locked has names of its own */
  readonly lock = new KeyedLock()
  readonly #store: Store
  readonly #clock: Clock
  readonly #todoBytesMax: number
  readonly #rows: Table<Todo>
  readonly #openRows: Table<OpenTodo>
  readonly #kept: KeptTodos
  readonly #room: TodoRoom
  #lastEmit: Promise<void> = Promise.resolve()

  constructor(components: TodoJournalComponents, settings: TodosSettings, cursorKey: Uint8Array) {
    const { store } = components
    this.#store = store
    this.#clock = components.clock
    this.#todoBytesMax = settings.todoBytesMax
    this.#rows = store.table('todo', jsonCodec<Todo>())
    this.#openRows = store.table('todo-open', jsonCodec<OpenTodo>())
    this.names = new MessageNames(components, settings)
    this.contexts = new Contexts(components)
    this.index = new TodoIndex(store, components.crypto, cursorKey)
    this.listeners = new TodoListeners(components.logger)
    this.#kept = new KeptTodos(settings)
    const { names, contexts, index, lock } = this
    this.#room = new TodoRoom({ store, lock, index, names, contexts, rows: this.#rows, kept: this.#kept })
  }

  /** Counts what lies on disk, and takes up what is not terminal. */
  async load(): Promise<void> {
    await this.names.load()
    for await (const { caller, bytes } of this.index.oldest()) this.#kept.add(caller, 1, bytes)
    for await (const [id, entry] of this.#openRows.entries()) this.open.set(id, entry)
  }

  get(id: string): Promise<Todo | undefined> {
    return this.#rows.get(id)
  }

  /** @throws RookeryError `TODO_UNKNOWN` */
  async must(id: string): Promise<Todo> {
    const todo = await this.get(id)
    if (todo === undefined) throw todoUnknown(id)
    return todo
  }

  /** Forgets what ended before `beforeMs`; told how many. */
  sweep(beforeMs: number): Promise<number> {
    return this.#room.sweep(beforeMs)
  }

  /** Resolves when all that is committed has been told. */
  told(): Promise<void> {
    return this.#lastEmit
  }

  async add(todo: Todo, alongside: readonly WriteOp[]): Promise<void> {
    await this.#write(undefined, todo, 'bounded', alongside)
  }

  /** `next` sees the Todo under its lock; giving undefined leaves it alone. */
  async change(id: string, next: (todo: Todo) => Todo | undefined): Promise<Todo | undefined> {
    return await this.lock.run([`todo ${id}`], async () => {
      const before = await this.must(id)
      const after = next(before)
      return after === undefined ? undefined : await this.move(before, after, 'free', [])
    })
  }

  /** Under the Todo's lock. */
  async move(before: Todo, after: Todo, room: 'bounded' | 'free', alongside: readonly WriteOp[]): Promise<Todo> {
    if (before.state !== after.state && !mayFollow(before.state, after.state)) {
      throw new TypeError(`a Todo never goes from ${before.state} to ${after.state}`)
    }
    const nowMs = this.#clock.nowMs()
    const next: Todo = { ...after, revision: before.revision + 1, changedAtMs: Math.max(nowMs, before.changedAtMs) }
    await this.#write(before, next, room, alongside)
    return next
  }

  /**
   * The only place that writes Todos: one synced batch, then memory, then the hooks in commit order. What a caller sends is `bounded`; what
   * becomes of it here is never refused for its size, and counts.
   */
  async #write(before: Todo | undefined, after: Todo, room: 'bounded' | 'free', alongside: readonly WriteOp[]): Promise<void> {
    const row = this.#rows.put(after.id, after)
    const bytes = row.value?.length ?? 0
    const more = before === undefined ? 1 : 0
    const grown = bytes - (this.open.get(after.id)?.bytes ?? 0)
    if (room === 'bounded') {
      if (bytes > this.#todoBytesMax) throw todoLimit('bytes', this.#todoBytesMax)
      while (this.#kept.overflow(after.caller, more, grown) !== undefined) await this.#room.make(after.caller, more, grown)
    }
    this.#kept.add(after.caller, more, grown)
    const open = this.#openEntry(after, bytes)
    const written = this.#store.commit([
      row,
      open === undefined ? this.#openRows.del(after.id) : this.#openRows.put(after.id, open),
      ...this.index.ops(before, after, bytes),
      ...alongside
    ])
    const earlier = this.#lastEmit
    const emitted = (async () => {
      await written.catch((error: unknown) => {
        this.#kept.add(after.caller, -more, -grown)
        throw error
      })
      await earlier
      if (open === undefined) this.open.delete(after.id)
      else this.open.set(after.id, open)
      this.listeners.committed(after)
    })()
    this.#lastEmit = emitted.catch(() => earlier)
    await emitted
  }

  #openEntry(todo: Todo, bytes: number): OpenTodo | undefined {
    if (stateClass(todo.state) === 'terminal') return undefined
    const arrival = this.open.get(todo.id)?.arrival ?? this.open.nextArrival()
    return {
      agent: todo.agent,
      caller: todo.caller,
      arrival,
      state: todo.state,
      bytes,
      ...(todo.lease !== undefined ? { holder: todo.lease.holder, untilMs: todo.lease.untilMs } : {})
    }
  }
}
