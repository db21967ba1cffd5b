import { z } from 'zod'
import type { JsonObject, LateResult, Todo } from '../tasks/todo.ts'
import type { TodoEvent } from '../tasks/trail.ts'

const id = z.string().min(1).max(128)

/** Control methods over what became of the Todos of our agents. */
export const TODO_PARAMS = {
  /** what used up its attempts, the oldest first */
  'inbox.dead': z.strictObject({ agent: z.string().min(1).max(64).optional(), limit: z.int().min(1).max(1_000).optional() }),
  /** tries a failed one anew, as another Todo */
  'inbox.retry': z.strictObject({ id }),
  /** takes one off the dead letters */
  'inbox.drop': z.strictObject({ id }),
  'inbox.reject': z.strictObject({ id, reason: z.string().min(1).max(1_000) }),
  /** what happened to one, by whom and by which protocol, and what came too late for it */
  'inbox.trail': z.strictObject({ id })
} as const

export interface DeadLetterView {
  id: string
  agent: string
  caller: string
  deadAtMs: number
  attempts: number
  reason: string
}

export interface TodoResults {
  'inbox.dead': DeadLetterView[]
  'inbox.retry': { todo: Todo; created: boolean; task: JsonObject }
  'inbox.drop': { dropped: string }
  'inbox.reject': { todo: Todo; task: JsonObject }
  'inbox.trail': { id: string; events: TodoEvent[]; late: LateResult[] }
}
