import { StreamResponse, Task } from '@a2a-js/sdk'
import { TODO_STATES } from '../tasks/states.ts'
import type { Json, JsonObject, Todo, TodoSlot, TodoState } from '../tasks/todo.ts'
import type { TodoEvent } from '../tasks/trail.ts'
import { isObject } from './json-rpc.ts'

/** TD-09, G-57: what each state of a Todo is called outside. */
export function taskState(state: TodoState): string {
  switch (state) {
    case 'pending':
      return 'TASK_STATE_SUBMITTED'
    case 'claimed':
      return 'TASK_STATE_WORKING'
    case 'input-required':
      return 'TASK_STATE_INPUT_REQUIRED'
    case 'auth-required':
      return 'TASK_STATE_AUTH_REQUIRED'
    case 'done':
      return 'TASK_STATE_COMPLETED'
    case 'failed':
      return 'TASK_STATE_FAILED'
    case 'canceled':
      return 'TASK_STATE_CANCELED'
    case 'rejected':
      return 'TASK_STATE_REJECTED'
    default: {
      const unknown: never = state
      throw new TypeError(`"${unknown}" is no state of a Todo`)
    }
  }
}

/** A Todo that was claimed once stays WORKING outside when its claim goes back (G-57). */
export function shownState(todo: Todo): string {
  return todo.state === 'pending' && todo.attempt > 0 ? 'TASK_STATE_WORKING' : taskState(todo.state)
}

export interface TaskViewOptions {
  /** newest messages to show; undefined shows all, 0 leaves `history` out */
  historyLength?: number | undefined
  /** `always`: the member is there though it is empty */
  artifacts?: 'with' | 'always' | 'never'
}

/**
 * A Task in ProtoJSON, as a view of its Todo (TD-15); from the second attempt on its number stands in the metadata.
 */
export function taskJson(todo: Todo, { historyLength, artifacts = 'with' }: TaskViewOptions = {}): JsonObject {
  const history = historyLength === undefined ? todo.history : historyLength === 0 ? [] : todo.history.slice(-historyLength)
  const shown = artifacts === 'always' || (artifacts === 'with' && todo.artifacts.length > 0)
  return {
    id: todo.id,
    contextId: todo.contextId,
    status: statusJson(todo),
    ...(shown ? { artifacts: todo.artifacts } : {}),
    ...(history.length > 0 ? { history } : {}),
    ...(todo.attempt > 1 ? { metadata: { attempt: todo.attempt } } : {})
  }
}

/** What a listing looks for, by the state that it shows. */
export function slotsOf(shown: string): TodoSlot[] {
  if (shown === 'TASK_STATE_WORKING') return ['claimed', 'again']
  return TODO_STATES.filter((state) => taskState(state) === shown)
}

/** A TaskStatus in ProtoJSON; after a failed attempt that will be made again it says why (G-57). */
export function statusJson(todo: Todo): JsonObject {
  const failed = todo.state === 'failed' || (todo.state === 'pending' && todo.attempt > 0)
  const message = todo.statusMessage ?? (failed && todo.failure !== undefined ? reasonMessage(todo, todo.failure) : undefined)
  return { state: shownState(todo), timestamp: new Date(todo.changedAtMs).toISOString(), ...(message !== undefined ? { message } : {}) }
}

/** The status that an event of a Todo brought (G-57: one that goes back is WORKING, with the reason). */
export function eventStatusJson(todo: Todo, { kind, state, attempt, atMs, status, reason }: TodoEvent): JsonObject {
  const wentOn = state === 'pending' && (attempt > 0 || kind === 'returned')
  const message = status ?? (reason !== undefined && (state === 'failed' || kind === 'returned') ? reasonMessage(todo, reason) : undefined)
  return {
    state: wentOn ? 'TASK_STATE_WORKING' : taskState(state),
    timestamp: new Date(atMs).toISOString(),
    ...(message !== undefined ? { message } : {})
  }
}

function reasonMessage(todo: Todo, reason: string): JsonObject {
  return {
    messageId: `${todo.id}-failure`,
    contextId: todo.contextId,
    taskId: todo.id,
    role: 'ROLE_AGENT',
    parts: [{ text: reason }]
  }
}

/** The SDK's Task of a ProtoJSON one. Its reader loses `data: null`, which is put back. */
export function taskFromJson(json: JsonObject): Task {
  const task = Task.fromJSON(json)
  restoreNulls(task, json)
  return task
}

/** The SDK's StreamResponse of a ProtoJSON one, as {@link taskFromJson}. */
export function streamResponseFromJson(json: JsonObject): StreamResponse {
  const response = StreamResponse.fromJSON(json)
  if (response.payload?.$case === 'task' && isObject(json.task)) restoreNulls(response.payload.value, json.task)
  return response
}

function restoreNulls(task: Task, json: JsonObject): void {
  const restore = (parts: { content?: unknown }[], raw: Json | undefined) => {
    if (!Array.isArray(raw)) return
    raw.forEach((part, at) => {
      const target = parts[at]
      if (target !== undefined && isObject(part) && part.data === null) target.content = { $case: 'data', value: null }
    })
  }
  const each = (items: { parts: { content?: unknown }[] }[], raw: Json | undefined) => {
    items.forEach((item, at) => {
      const one = Array.isArray(raw) ? raw[at] : undefined
      if (isObject(one)) restore(item.parts, one.parts)
    })
  }
  each(task.history, json.history)
  each(task.artifacts, json.artifacts)
}
