import { TODO_STATES } from './states.ts'
import type { Todo, TodoFilter, TodoSlot, TodoState } from './todo.ts'

export const TODO_SLOTS: readonly TodoSlot[] = [...TODO_STATES, 'again']

export function slotOf({ state, attempt }: Pick<Todo, 'state' | 'attempt'>): TodoSlot {
  return state === 'pending' && attempt > 0 ? 'again' : state
}

export function slotsOfState(state: TodoState): readonly TodoSlot[] {
  return state === 'pending' ? ['pending', 'again'] : [state]
}

export function slotsOf({ slots, state }: TodoFilter): readonly TodoSlot[] {
  return slots ?? (state === undefined ? TODO_SLOTS : slotsOfState(state))
}
