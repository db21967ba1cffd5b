import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Logger } from '../platform/logger.ts'
import { stateClass } from './states.ts'
import type { CommitHook, Todo } from './todo.ts'
import type { TodoEvent } from './trail.ts'

/** Who is told of commits: hooks of every one, and those who wait for one Todo to settle. A waiter goes when its caller does. */
export class TodoListeners {
  readonly #logger: Logger
  readonly #hooks = new Set<CommitHook>()
  /** who watches, bounds it */
  readonly #watching = new Map<string, Set<CommitHook>>()
  readonly #claimable = new Map<EidHex, Set<() => void>>()
  readonly #waiting = new Map<string, Set<(todo: Todo) => void>>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Returns the unsubscriber. */
  hook(hook: CommitHook): () => void {
    this.#hooks.add(hook)
    return () => this.#hooks.delete(hook)
  }

  /** Of one Todo. Returns the unsubscriber. */
  watch(id: string, hook: CommitHook): () => void {
    return into(this.#watching, id, hook)
  }

  /** Told whenever more of an agent's Todos may be claimed. Returns the unsubscriber. */
  onClaimable(agent: EidHex, hook: () => void): () => void {
    return into(this.#claimable, agent, hook)
  }

  claimable(agent: EidHex): void {
    for (const hook of [...(this.#claimable.get(agent) ?? [])]) this.#call(hook)
  }

  /** `resolve` gets the Todo once it is terminal or interrupted. Returns the unsubscriber. */
  wait(id: string, resolve: (todo: Todo) => void): () => void {
    return into(this.#waiting, id, resolve)
  }

  committed(todo: Todo, events: readonly TodoEvent[]): void {
    for (const hook of this.#hooks) this.#call(() => hook(todo, events))
    for (const hook of [...(this.#watching.get(todo.id) ?? [])]) this.#call(() => hook(todo, events))
    if (stateClass(todo.state) !== 'active') for (const resolve of this.#waiting.get(todo.id) ?? []) resolve(todo)
  }

  /** All who wait get their Todo as it is. */
  async release(get: (id: string) => Promise<Todo | undefined>): Promise<void> {
    for (const [id, waiters] of this.#waiting) {
      const todo = await get(id)
      if (todo !== undefined) for (const resolve of waiters) resolve(todo)
    }
  }

  #call(hook: () => void): void {
    try {
      hook()
    } catch (err) {
      this.#logger.error({ err }, 'a commit hook threw')
    }
  }
}

/** Holds nothing for a key that nobody asks about. */
function into<K, V>(sets: Map<K, Set<V>>, key: K, value: V): () => void {
  const set = sets.get(key) ?? new Set()
  sets.set(key, set)
  set.add(value)
  return () => {
    set.delete(value)
    if (set.size === 0 && sets.get(key) === set) sets.delete(key)
  }
}
