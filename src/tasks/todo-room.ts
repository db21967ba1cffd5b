import type { KeyedLock } from '../platform/keyed-lock.ts'
import type { Store, Table } from '../store/store.ts'
import type { Contexts } from './contexts.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { KeptTodos, Overflow } from './kept-todos.ts'
import type { LateResults } from './late-results.ts'
import type { MessageNames } from './message-names.ts'
import { slotOf } from './slots.ts'
import { stateClass } from './states.ts'
import type { Todo } from './todo.ts'
import type { TodoCounts } from './todo-counts.ts'
import { todoLimit } from './todo-errors.ts'
import type { IndexedTodo, TodoIndex } from './todo-index.ts'

/** Ended Todos that make room at a time. */
const FORGET_AT_ONCE = 64
/** no Todo's lock: their names begin with `todo ` */
const ROOM_LOCK = 'room'

export interface TodoRoomComponents {
  store: Store
  /** the locks of the Todos, `todo ` and their id */
  lock: KeyedLock
  rows: Table<Todo>
  index: TodoIndex
  names: MessageNames
  contexts: Contexts
  kept: KeptTodos
  counts: TodoCounts
  dead: DeadLetters
  late: LateResults
}

/** Forgets ended Todos, when they are old and where a bound asks for it; their names stay as long as they are due. */
export class TodoRoom {
  readonly #c: TodoRoomComponents

  constructor(components: TodoRoomComponents) {
    this.#c = components
  }

  /**
   * Makes room for so much more of `caller`.
   * @throws RookeryError `TODO_LIMIT` (the bound's name) where too little has ended, or too many names of what ended are still due
   */
  async make(caller: string, count: number, bytes: number): Promise<void> {
    const { kept, lock, names } = this.#c
    await lock.run([ROOM_LOCK], async () => {
      await names.prune()
      for (let full = kept.overflow(caller, count, bytes); full !== undefined; full = kept.overflow(caller, count, bytes)) {
        if ((await this.#forgetFor(full)) > 0) continue
        const due = names.overflow(full.caller, 1)
        if (due === undefined) throw todoLimit(full.bound, full.max)
        throw todoLimit(due.bound, due.max, 'wait: what ended is known by its messageId for a day, so that nothing runs twice')
      }
    })
  }

  /** Forgets what ended before `beforeMs`, and the names that are due no longer; told how many Todos. */
  async sweep(beforeMs: number): Promise<number> {
    let gone = 0
    for await (const one of this.#c.index.oldest({ beforeMs })) {
      if (stateClass(one.state) === 'terminal' && (await this.#forget(one))) gone++
    }
    await this.#c.names.prune()
    return gone
  }

  /** A caller's own bound makes room among its own; a bound of all begins with whoever holds most. */
  async #forgetFor({ bound, caller }: Overflow): Promise<number> {
    const gone = await this.#forgetOldest(caller)
    return gone > 0 || bound === 'keptPerCallerMax' || bound === 'keptBytesPerCallerMax' ? gone : await this.#forgetOldest(undefined)
  }

  async #forgetOldest(caller: string | undefined): Promise<number> {
    const { index, names } = this.#c
    const ended: IndexedTodo[] = []
    for await (const one of index.oldest(caller === undefined ? {} : { caller })) {
      if (stateClass(one.state) !== 'terminal') continue
      const full = names.due(one.changedAtMs) ? names.overflow(one.caller, 1) : undefined
      // All that follow ended later, so their names are due as well.
      if (full !== undefined && (caller !== undefined || full.bound === 'namesMax')) break
      if (full === undefined) ended.push(one)
      if (ended.length === FORGET_AT_ONCE) break
    }
    return (await Promise.all(ended.map((one) => this.#forget(one)))).filter((gone) => gone).length
  }

  /** @returns whether it is gone by this; one that ended never changes again */
  async #forget({ id, bytes }: IndexedTodo): Promise<boolean> {
    const { store, lock, rows, index, names, contexts, kept, counts, dead, late } = this.#c
    return await lock.run([`todo ${id}`], async () => {
      const todo = await rows.get(id)
      const left = todo === undefined ? undefined : await names.outlive(todo)
      if (todo === undefined || left === undefined) return false
      try {
        await store.commit([
          rows.del(id),
          ...left.ops,
          contexts.del(todo.contextId),
          ...index.removal(todo),
          ...dead.del(todo),
          late.del(id)
        ])
      } catch (error) {
        left.abandon()
        throw error
      }
      kept.add(todo.caller, -1, -bytes)
      counts.add(todo, slotOf(todo), -1)
      return true
    })
  }
}
