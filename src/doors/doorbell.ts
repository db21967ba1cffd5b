import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Todo, TodoState, Todos } from '../tasks/todo.ts'
import type { TodoEvent } from '../tasks/trail.ts'

/** What rings at a door when something happens to a Todo: the same id and state as the event that streams carry (TD-27). */
export interface Ring {
  /** id of the Todo, a colon, number of its event */
  event: string
  todo: string
  n: number
  kind: TodoEvent['kind']
  state: TodoState
  role: 'agent' | 'caller'
}

/** Rings of the Todos that the agent `home` was given, or that `principal` gave, by the one commit hook (TD-24, TD-26). Returns the unsubscriber. */
export function onRing(todos: Todos, who: { home: EidHex | undefined; principal: string }, ring: (one: Ring) => void): () => void {
  return todos.onCommit((todo: Todo, events) => {
    const role = todo.agent === who.home ? 'agent' : todo.caller === who.principal ? 'caller' : undefined
    if (role === undefined) return
    for (const { n, kind, state } of events) ring({ event: `${todo.id}:${n}`, todo: todo.id, n, kind, state, role })
  })
}
