import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { Contexts } from './contexts.ts'
import { DeadLetters } from './dead-letters.ts'
import { KeptTodos } from './kept-todos.ts'
import { LateResults } from './late-results.ts'
import { MessageNames } from './message-names.ts'
import { type OpenTodo, OpenTodos } from './open-todos.ts'
import type { TodosSettings } from './settings.ts'
import { slotOf } from './slots.ts'
import { mayFollow, stateClass } from './states.ts'
import type { Todo, TodoFilter, TodoPage } from './todo.ts'
import { TodoCounts } from './todo-counts.ts'
import { todoLimit, todoUnknown } from './todo-errors.ts'
import { TodoIndex } from './todo-index.ts'
import { TodoListeners } from './todo-listeners.ts'
import { TodoRoom } from './todo-room.ts'
import { type TodoEvent, withEvents } from './trail.ts'
import type { Move } from './transitions.ts'

/** Todos of the former index that get their places in one batch. */
const REINDEX_AT_ONCE = 256

export interface TodoJournalComponents {
  store: Store
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
}

/** The rows of the Todos, and what follows from each write: indexes, memory, those who are told, and room for the next. */
export class TodoJournal {
  readonly open: OpenTodos
  readonly names: MessageNames
  readonly contexts: Contexts
  readonly index: TodoIndex
  readonly listeners: TodoListeners
  readonly dead: DeadLetters
  readonly late: LateResults
  /** by `todo ` and id; what else is locked has names of its own */
  readonly lock = new KeyedLock()
  readonly #store: Store
  readonly #clock: Clock
  readonly #todoBytesMax: number
  readonly #rows: Table<Todo>
  readonly #openRows: Table<OpenTodo>
  readonly #kept: KeptTodos
  readonly #counts = new TodoCounts()
  readonly #room: TodoRoom
  #lastEmit: Promise<void> = Promise.resolve()

  constructor(components: TodoJournalComponents, settings: TodosSettings, cursorKey: Uint8Array) {
    const { store } = components
    this.#store = store
    this.#clock = components.clock
    this.open = new OpenTodos(components.clock)
    this.#todoBytesMax = settings.todoBytesMax
    this.#rows = store.table('todo', jsonCodec<Todo>())
    this.#openRows = store.table('todo-open', jsonCodec<OpenTodo>())
    this.names = new MessageNames(components, settings)
    this.contexts = new Contexts(components)
    this.index = new TodoIndex(store, components.crypto, cursorKey)
    this.listeners = new TodoListeners(components.logger)
    this.dead = new DeadLetters(store)
    this.late = new LateResults(components)
    this.#kept = new KeptTodos(settings)
    const { names, contexts, index, lock, dead, late } = this
    this.#room = new TodoRoom({ store, lock, index, names, contexts, dead, late, rows: this.#rows, kept: this.#kept, counts: this.#counts })
  }

  /** Counts what lies on disk, takes up what is not terminal, and gives places to what a former version wrote; its rows stay as they are (TD-11). */
  async load(): Promise<void> {
    await this.names.load()
    const former: { id: string; bytes: number }[] = []
    for await (const { id, agent, caller, bytes, slot } of this.index.oldest()) {
      this.#kept.add(caller, 1, bytes)
      if (slot === undefined) former.push({ id, bytes })
      else this.#counts.add({ agent, caller }, slot, 1)
    }
    for (let at = 0; at < former.length; at += REINDEX_AT_ONCE) await this.#reindex(former.slice(at, at + REINDEX_AT_ONCE))
    for await (const [id, entry] of this.#openRows.entries()) this.open.set(id, entry)
  }

  async #reindex(some: readonly { id: string; bytes: number }[]): Promise<void> {
    const ops: WriteOp[] = []
    const todos: Todo[] = []
    for (const { id, bytes } of some) {
      const todo = await this.get(id)
      if (todo === undefined) continue
      ops.push(...this.index.renewal(todo, bytes))
      todos.push(todo)
    }
    await this.#store.commit(ops)
    for (const todo of todos) this.#counts.add(todo, slotOf(todo), 1)
  }

  get(id: string): Promise<Todo | undefined> {
    return this.#rows.get(id)
  }

  /** The newest first, all as they stood at one moment: none is missing for having changed meanwhile. @throws RookeryError `CURSOR_INVALID` */
  async page(filter: TodoFilter, limit: number, cursor: string | undefined): Promise<TodoPage> {
    return await this.#store.reading(async (at) => {
      const { ids, next } = await this.index.page(filter, { limit, cursor, at })
      const todos = await Promise.all(ids.map((id) => this.#rows.get(id, at)))
      return { todos: todos.filter((todo) => todo !== undefined), next }
    })
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

  /** From memory, unless the filter names a context or a time. */
  async count(filter: TodoFilter): Promise<number> {
    if (filter.contextId === undefined && filter.changedFromMs === undefined) return this.#counts.of(filter)
    return await this.#store.reading((at) => this.index.count(filter, at))
  }

  async add({ todo, events }: Move, alongside: readonly WriteOp[]): Promise<Todo> {
    const numbered = withEvents(todo, events, todo.changedAtMs)
    await this.#write(undefined, numbered, 'bounded', alongside)
    return numbered.todo
  }

  /** `next` sees the Todo under its lock; giving undefined leaves it alone. What an agent adds on the way is `bounded`, as what a caller sends. */
  async change(
    id: string,
    next: (todo: Todo) => Move | undefined | Promise<Move | undefined>,
    room: 'bounded' | 'free' = 'free'
  ): Promise<Todo | undefined> {
    return await this.lock.run([`todo ${id}`], async () => {
      const before = await this.must(id)
      const move = await next(before)
      return move === undefined ? undefined : await this.move(before, move, room, [])
    })
  }

  /** Under the Todo's lock. */
  async move(before: Todo, { todo: after, events }: Move, room: 'bounded' | 'free', alongside: readonly WriteOp[]): Promise<Todo> {
    if (before.state !== after.state && !mayFollow(before.state, after.state)) {
      throw new TypeError(`a Todo never goes from ${before.state} to ${after.state}`)
    }
    const nowMs = this.#clock.nowMs()
    const changedAtMs = events.length > 0 ? Math.max(nowMs, before.changedAtMs) : before.changedAtMs
    const numbered = withEvents({ ...after, revision: before.revision + 1, changedAtMs }, events, changedAtMs)
    const letter = after.deadAtMs === before.deadAtMs ? [] : [this.dead.put(numbered.todo)]
    await this.#write(before, numbered, room, [...letter, ...alongside])
    return numbered.todo
  }

  /**
   * The only place that writes Todos: one synced batch, then memory, then the hooks in commit order. What a caller sends is `bounded`; what
   * becomes of it here is never refused for its size, and counts.
   */
  async #write(
    before: Todo | undefined,
    { todo: after, events }: { todo: Todo; events: readonly TodoEvent[] },
    room: 'bounded' | 'free',
    alongside: readonly WriteOp[]
  ): Promise<void> {
    const row = this.#rows.put(after.id, after)
    const length = row.value?.length ?? 0
    const places = this.index.ops(before, after, length)
    const held = this.open.get(after.id)?.bytes ?? 0
    // Without a new place the index still says the former size, and so does everything that counts by it.
    const bytes = places.length === 0 ? held : length
    const more = before === undefined ? 1 : 0
    const grown = bytes - held
    if (room === 'bounded') {
      if (bytes > this.#todoBytesMax) throw todoLimit('bytes', this.#todoBytesMax)
      while (this.#kept.overflow(after.caller, more, grown) !== undefined) await this.#room.make(after.caller, more, grown)
    }
    this.#kept.add(after.caller, more, grown)
    const open = this.#openEntry(after, bytes)
    const written = this.#store.commit([
      row,
      open === undefined ? this.#openRows.del(after.id) : this.#openRows.put(after.id, open),
      ...places,
      ...alongside
    ])
    const earlier = this.#lastEmit
    const emitted = (async () => {
      await written.catch((error: unknown) => {
        this.#kept.add(after.caller, -more, -grown)
        throw error
      })
      await earlier
      if (before !== undefined) this.#counts.add(before, slotOf(before), -1)
      this.#counts.add(after, slotOf(after), 1)
      let isNewlyClaimable = false
      if (open === undefined) this.open.delete(after.id)
      else isNewlyClaimable = this.open.set(after.id, open)
      this.listeners.committed(after, events)
      if (isNewlyClaimable) this.listeners.claimable(after.agent)
    })()
    this.#lastEmit = emitted.catch(() => earlier)
    await emitted
  }

  #openEntry(todo: Todo, bytes: number): OpenTodo | undefined {
    if (stateClass(todo.state) === 'terminal') return undefined
    const arrival = this.open.get(todo.id)?.arrival ?? this.open.nextArrival()
    const { agent, caller, state, queue, priority, lease, notBeforeMs, deadlineMs } = todo
    return {
      agent,
      caller,
      arrival,
      state,
      bytes,
      ...(queue === undefined ? {} : { queue }),
      ...(priority === undefined ? {} : { priority }),
      ...(lease !== undefined ? { holder: lease.holder, untilMs: lease.untilMs } : {}),
      ...(notBeforeMs === undefined ? {} : { notBeforeMs }),
      ...(deadlineMs === undefined ? {} : { deadlineMs })
    }
  }
}
