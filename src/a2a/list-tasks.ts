import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Json, JsonObject, TodoFilter, Todos } from '../tasks/todo.ts'
import { slotsOf, taskJson } from './projection.ts'

const PAGE_DEFAULT = 50
/** A page ends once its tasks have so many bytes as JSON: every binding can carry it. */
export const LIST_BYTES_MAX = 524_288
/** Whole Todos that are read at a time. */
const STEP = 4

/**
 * A page of one caller's tasks at one agent, newest change first; the token is bound to caller and filter (TD-Q3). Without `historyLength` no history is
 * shown.
 * @param params - checked, of ListTasks
 * @throws RookeryError `CURSOR_INVALID`
 */
export async function listTasks(todos: Todos, whose: { agent: EidHex; caller?: string }, params: JsonObject): Promise<JsonObject> {
  const { contextId, status, pageSize, pageToken, historyLength, statusTimestampAfter, includeArtifacts } = params
  const limit = count(pageSize) ?? PAGE_DEFAULT
  const filter: TodoFilter = {
    ...whose,
    ...(isGiven(contextId) ? { contextId } : {}),
    ...(isGiven(status) ? { slots: slotsOf(status) } : {}),
    ...(isGiven(statusTimestampAfter) ? { changedFromMs: Date.parse(statusTimestampAfter) } : {})
  }
  const view = { historyLength: count(historyLength) ?? 0, artifacts: includeArtifacts === true ? 'always' : 'never' } as const
  const tasks: JsonObject[] = []
  let bytes = 0
  let cursor = isGiven(pageToken) ? pageToken : undefined
  do {
    const page = await todos.list({ ...filter, limit: stepOf(limit - tasks.length, view), ...(cursor !== undefined ? { cursor } : {}) })
    for (const todo of page.todos) {
      const task = taskJson(todo, view)
      bytes += JSON.stringify(task).length
      tasks.push(task)
    }
    cursor = page.next
  } while (cursor !== undefined && tasks.length < limit && bytes < LIST_BYTES_MAX)
  return { tasks, nextPageToken: cursor ?? '', pageSize: limit, totalSize: await todos.count(filter) }
}

/** Tasks that show little are read in one go, others a few at a time, so that a page can end early. */
function stepOf(left: number, { historyLength, artifacts }: { historyLength: number; artifacts: 'always' | 'never' }): number {
  return historyLength === 0 && artifacts === 'never' ? left : Math.min(left, STEP)
}

function isGiven(value: Json | undefined): value is string {
  return typeof value === 'string' && value !== ''
}

function count(value: Json | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}
