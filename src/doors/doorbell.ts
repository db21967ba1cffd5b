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

/**
 * Rings of the Todos that the agent `home` was given, or that `principal` gave, by the one commit hook (TD-24, TD-26). Returns the unsubscriber.
 * @param who.within - of what it gave to this agent alone
 */
export function onRing(
  todos: Todos,
  who: { home: EidHex | undefined; principal: string; within?: EidHex | undefined },
  ring: (one: Ring) => void
): () => void {
  return todos.onCommit((todo: Todo, events) => {
    const gave = todo.caller === who.principal && (who.within === undefined || todo.agent === who.within)
    const role = todo.agent === who.home ? 'agent' : gave ? 'caller' : undefined
    if (role === undefined) return
    for (const { n, kind, state } of events) ring({ event: `${todo.id}:${n}`, todo: todo.id, n, kind, state, role })
  })
}
