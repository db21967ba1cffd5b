import type { Logger } from '../platform/logger.ts'
import { stateClass } from './states.ts'
import type { Todo } from './todo.ts'

/** Who is told of commits: hooks of every one, and those who wait for one Todo to settle. A waiter goes when its caller does. */
export class TodoListeners {
  readonly #logger: Logger
  readonly #hooks = new Set<(todo: Todo) => void>()
  readonly #waiting = new Map<string, Set<(todo: Todo) => void>>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Returns the unsubscriber. */
  hook(hook: (todo: Todo) => void): () => void {
    this.#hooks.add(hook)
    return () => this.#hooks.delete(hook)
  }

  /** `resolve` gets the Todo once it is terminal or interrupted. Returns the unsubscriber. */
  wait(id: string, resolve: (todo: Todo) => void): () => void {
    const waiters = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiters)
    waiters.add(resolve)
    return () => {
      waiters.delete(resolve)
      if (waiters.size === 0 && this.#waiting.get(id) === waiters) this.#waiting.delete(id)
    }
  }

  committed(todo: Todo): void {
    for (const hook of this.#hooks) {
      try {
        hook(todo)
      } catch (err) {
        this.#logger.error({ err, todo: todo.id }, 'a commit hook threw')
      }
    }
    if (stateClass(todo.state) !== 'active') for (const resolve of this.#waiting.get(todo.id) ?? []) resolve(todo)
  }

  /** All who wait get their Todo as it is. */
  async release(get: (id: string) => Promise<Todo | undefined>): Promise<void> {
    for (const [id, waiters] of this.#waiting) {
      const todo = await get(id)
      if (todo !== undefined) for (const resolve of waiters) resolve(todo)
    }
  }
}
