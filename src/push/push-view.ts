import { shownState, taskJson } from '../a2a/projection.ts'
import type { JsonObject, Todo } from '../tasks/todo.ts'
import { artifactOf, type TodoEvent } from '../tasks/trail.ts'
import type { PushEvent, PushView } from './push-sender.ts'

/** A Todo's events as A2A StreamResponses: what its streams show, too. */
export const pushView: PushView = {
  events: (todo, event) => {
    const response = responseOf(todo, event)
    return response === undefined ? [] : [{ id: String(event.n), response } satisfies PushEvent]
  },
  snapshot: (todo, how) => ({ task: taskJson(todo, how === 'whole' ? {} : { historyLength: 0, artifacts: 'without' }) })
}

function responseOf(todo: Todo, event: TodoEvent): JsonObject | undefined {
  const where = { taskId: todo.id, contextId: todo.contextId }
  switch (event.kind) {
    case 'created':
    case 'message':
      return undefined
    case 'artifact': {
      const artifact = artifactOf(todo, event)
      if (artifact === undefined) return undefined
      const { append = false, lastChunk = false } = event.artifact ?? {}
      return { artifactUpdate: { ...where, artifact, ...(append ? { append } : {}), ...(lastChunk ? { lastChunk } : {}) } }
    }
    case 'claimed':
    case 'returned':
    case 'progress':
    case 'asked':
    case 'answered':
    case 'approved':
    case 'ended':
      return { statusUpdate: { ...where, status: statusOf(todo, event) } }
    default: {
      const unknown: never = event.kind
      throw new TypeError(`"${unknown}" is no event of a Todo`)
    }
  }
}

function statusOf(todo: Todo, { state, attempt, status, atMs }: TodoEvent): JsonObject {
  return {
    state: shownState({ ...todo, state, attempt }),
    timestamp: new Date(atMs).toISOString(),
    ...(status === undefined ? {} : { message: status })
  }
}
