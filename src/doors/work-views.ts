import type { Json, JsonObject, Todo } from '../tasks/todo.ts'
import type { Claimed } from './agent-work.ts'

/** A Todo as its agent sees it: no digests, no holders. */
export function workView(todo: Todo): JsonObject {
  const { id, contextId, caller, state, attempt, createdAtMs, changedAtMs, history, artifacts, seq = 0 } = todo
  const optional: Record<string, Json | undefined> = {
    queue: todo.queue,
    priority: todo.priority,
    approval: todo.approval,
    failure: todo.failure,
    statusMessage: todo.statusMessage,
    leaseUntilMs: todo.lease?.untilMs,
    deadlineMs: todo.deadlineMs,
    notBeforeMs: todo.notBeforeMs
  }
  return {
    id,
    contextId,
    caller,
    state,
    attempt,
    createdAtMs,
    changedAtMs,
    seq,
    message: history.at(-1) ?? null,
    history,
    artifacts,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined))
  } as JsonObject
}

export function claimedView({ claim, todo, traceparent }: Claimed): JsonObject {
  return { claim, todo: workView(todo), ...(traceparent === undefined ? {} : { traceparent }) }
}

/** What an act left: enough to know that it counted. */
export function actView({ id, state, attempt, seq = 0, lease, notBeforeMs }: Todo): JsonObject {
  return {
    id,
    state,
    attempt,
    seq,
    ...(lease === undefined ? {} : { leaseUntilMs: lease.untilMs }),
    ...(notBeforeMs === undefined ? {} : { notBeforeMs })
  }
}
