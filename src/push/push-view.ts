import { taskJson } from '../a2a/projection.ts'
import { eventsOf } from '../a2a/task-events.ts'
import type { PushView } from './push-sender.ts'

/** A Todo's events as its streams show them. */
export const pushView: PushView = {
  events: eventsOf,
  snapshot: (todo, how) => ({ task: taskJson(todo, how === 'whole' ? {} : { historyLength: 0, artifacts: 'never' }) })
}
