import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Json, JsonObject, Todo, TodoPage, Todos } from '../tasks/todo.ts'
import { shownState, taskJson } from './projection.ts'

const PAGE_DEFAULT = 50
/** A page ends before its tasks have more bytes than this as JSON, with one task at the least: every binding can carry it. */
export const LIST_BYTES_MAX = 786_432

/**
 * A page of one caller's tasks at one agent, newest change first (TD-Q3). Without `historyLength` no history is shown.
 * @param params - checked, of ListTasks
 * @throws RookeryError `CURSOR_INVALID`
 */
export async function listTasks(todos: Todos, whose: { agent: EidHex; caller: string }, params: JsonObject): Promise<JsonObject> {
  const { contextId, status, pageSize, pageToken, historyLength, statusTimestampAfter, includeArtifacts } = params
  const limit = count(pageSize) ?? PAGE_DEFAULT
  const afterMs = typeof statusTimestampAfter === 'string' ? Date.parse(statusTimestampAfter) : 0
  const matches = (todo: Todo) =>
    (typeof contextId !== 'string' || contextId === '' || todo.contextId === contextId) &&
    (typeof status !== 'string' || shownState(todo) === status) &&
    todo.changedAtMs >= afterMs
  const view = { historyLength: count(historyLength) ?? 0, artifacts: includeArtifacts === true ? 'always' : 'never' } as const

  const tasks: JsonObject[] = []
  let cursor = typeof pageToken === 'string' && pageToken !== '' ? pageToken : undefined
  do {
    const page: TodoPage = await todos.list({ ...whose, limit: limit - tasks.length, ...(cursor !== undefined ? { cursor } : {}) })
    for (const todo of page.todos) if (matches(todo)) tasks.push(taskJson(todo, view))
    cursor = page.next
  } while (cursor !== undefined && tasks.length < limit)

  let totalSize = 0
  let from: string | undefined
  do {
    const page: TodoPage = await todos.list({ ...whose, limit: 100, ...(from !== undefined ? { cursor: from } : {}) })
    totalSize += page.todos.filter(matches).length
    from = page.next
  } while (from !== undefined)
  return { tasks, nextPageToken: cursor ?? '', pageSize: limit, totalSize }
}

function count(value: Json | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}
