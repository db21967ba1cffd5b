import { stateClass } from './states.ts'
import type { JsonObject, Todo } from './todo.ts'

type Lease = NonNullable<Todo['lease']>

/** One more attempt, under a lease. Here is what each act makes of a Todo; which state may follow which is said in `states.ts`. */
export function claimed(todo: Todo, lease: Lease): Todo {
  return { ...todo, state: 'claimed', attempt: todo.attempt + 1, lease }
}

export function completed({ lease: _, statusMessage: __, ...todo }: Todo, artifacts: JsonObject[], message?: JsonObject): Todo {
  return { ...todo, state: 'done', artifacts, ...(message !== undefined ? { statusMessage: message } : {}) }
}

export function failed({ lease: _, ...todo }: Todo, reason: string): Todo {
  return { ...todo, state: 'failed', failure: reason.slice(0, 1_000) }
}

/** Pending again after an attempt that came to nothing; failed after the last. */
export function retried({ lease: _, ...todo }: Todo, reason: string, attemptsMax: number): Todo {
  if (todo.attempt >= attemptsMax) return failed(todo, reason)
  return { ...todo, state: 'pending', failure: reason }
}

/** Pending again as if the attempt had not been. */
export function released({ lease: _, ...todo }: Todo): Todo {
  return { ...todo, state: 'pending', attempt: todo.attempt - 1 }
}

export function canceled({ lease: _, ...todo }: Todo): Todo {
  return { ...todo, state: 'canceled' }
}

export function judged({ statusMessage: _, ...todo }: Todo, verdict: 'given' | 'refused'): Todo {
  return { ...todo, approval: verdict, approvedBy: 'owner', state: verdict === 'given' ? 'pending' : 'rejected' }
}

/** With one more message, whose ids are the Todo's own; an interrupted Todo goes on with it unless it waits for its owner. */
export function continued(todo: Todo, message: JsonObject): Todo {
  const history = [...todo.history, { ...message, taskId: todo.id, contextId: todo.contextId }]
  if (stateClass(todo.state) !== 'interrupted' || todo.approval === 'needed') return { ...todo, history }
  const { statusMessage: _, ...rest } = todo
  return { ...rest, history, state: 'pending' }
}
