import type { TodoState } from './todo.ts'

/** The one transition table; a state without a row does not compile (TD-08, TD-33). */
const NEXT = {
  pending: ['claimed', 'auth-required', 'failed', 'canceled', 'rejected'],
  claimed: ['pending', 'input-required', 'auth-required', 'done', 'failed', 'canceled', 'rejected'],
  'input-required': ['pending', 'failed', 'canceled', 'rejected'],
  'auth-required': ['pending', 'failed', 'canceled', 'rejected'],
  done: [],
  failed: [],
  canceled: [],
  rejected: []
} as const satisfies Record<TodoState, readonly TodoState[]>

export const TODO_STATES = Object.keys(NEXT) as TodoState[]

export function mayFollow(from: TodoState, to: TodoState): boolean {
  return (NEXT[from] as readonly TodoState[]).includes(to)
}

/** `active` moves by itself, `interrupted` waits for somebody, `terminal` never changes again (F005). */
export function stateClass(state: TodoState): 'active' | 'interrupted' | 'terminal' {
  switch (state) {
    case 'pending':
    case 'claimed':
      return 'active'
    case 'input-required':
    case 'auth-required':
      return 'interrupted'
    case 'done':
    case 'failed':
    case 'canceled':
    case 'rejected':
      return 'terminal'
    default: {
      const unknown: never = state
      throw new TypeError(`"${unknown}" is no state of a Todo`)
    }
  }
}
