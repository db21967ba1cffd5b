import { z } from 'zod'
import type { JsonObject } from '../tasks/todo.ts'

/** whose task it is: did:key of anyone, or the name of an agent of this node */
const at = z.string().min(1).max(80)
/** in whose name is asked, a local agent */
const agent = z.string().min(1).max(64).optional()
const id = z.string().min(1).max(128)
const TASK_STATES = ['submitted', 'working', 'completed', 'failed', 'canceled', 'input-required', 'rejected', 'auth-required'] as const

/** Control methods over tasks that our agents gave to agents, of this node or behind a session. */
export const TASK_PARAMS = {
  'task.list': z.strictObject({
    at,
    agent,
    state: z.enum(TASK_STATES).optional(),
    contextId: z.string().min(1).max(128).optional(),
    limit: z.int().min(1).max(100).optional(),
    pageToken: z.string().min(1).max(1_024).optional()
  }),
  'task.show': z.strictObject({ at, agent, id, historyLength: z.int().min(0).max(1_000).optional() }),
  'task.cancel': z.strictObject({ at, agent, id }),
  /** every event as it comes, until the task's last or until the caller goes; `after`: the id of the last event that is known already */
  'task.watch': z.strictObject({ at, agent, id, after: z.string().min(1).max(64).optional() })
} as const

/** One event of `task.watch`, and of `send` with `stream`: a StreamResponse of A2A under its id. */
export interface TaskEventView {
  id: string
  response: JsonObject
}

export interface TaskResults {
  /** A2A Tasks without history, the newest first */
  'task.list': { tasks: JsonObject[]; totalSize: number; nextPageToken: string }
  'task.show': { task: JsonObject }
  'task.cancel': { task: JsonObject }
  'task.watch': { events: number; lastEventId?: string }
}
