import { A2aError, rookeryErrorOf } from '../a2a/a2a-error.ts'
import type { TaskStream } from '../a2a/task-stream.ts'
import { RookeryError } from '../errors.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { JsonObject } from '../tasks/todo.ts'
import type { ControlContext, ControlHandlers } from './control-server.ts'
import type { TaskEventView, TaskResults } from './task-methods.ts'

/** What the owner asks about tasks in the name of an agent: each is one operation of A2A. */
export function taskHandlers(node: RookeryNode): Pick<ControlHandlers, keyof TaskResults> {
  const parties = ({ at, agent }: { at: string; agent?: string | undefined }) => ({
    from: node.agents.get(agent),
    to: node.agents.eidOf(at)
  })
  return {
    async 'task.list'({ state, contextId, limit, pageToken, ...who }, { signal }) {
      const params: JsonObject = {
        ...(state === undefined ? {} : { status: `TASK_STATE_${state.toUpperCase().replace('-', '_')}` }),
        ...(contextId === undefined ? {} : { contextId }),
        ...(limit === undefined ? {} : { pageSize: limit }),
        ...(pageToken === undefined ? {} : { pageToken })
      }
      const { tasks, totalSize, nextPageToken } = (await node.ask(
        { ...parties(who), method: 'ListTasks', params },
        { signal }
      )) as JsonObject
      return {
        tasks: Array.isArray(tasks) ? (tasks as JsonObject[]) : [],
        totalSize: Number(totalSize ?? 0),
        nextPageToken: typeof nextPageToken === 'string' ? nextPageToken : ''
      }
    },
    async 'task.show'({ id, historyLength, ...who }, { signal }) {
      const params = { id, ...(historyLength === undefined ? {} : { historyLength }) }
      return { task: (await named(id, node.ask({ ...parties(who), method: 'GetTask', params }, { signal }))) as JsonObject }
    },
    async 'task.cancel'({ id, ...who }, { signal }) {
      const asked = node.ask({ ...parties(who), method: 'CancelTask', params: { id } }, { signal })
      return { task: (await named(id, asked)) as JsonObject }
    },
    async 'task.watch'({ id, after, ...who }, context) {
      const asked = node.askForStream(
        { ...parties(who), method: 'SubscribeToTask', params: { id } },
        { signal: context.signal, lastEventId: after }
      )
      return await tellEvents(await named(id, asked), context)
    }
  }
}

/** Hands a stream's events to the caller, at the pace at which it reads. @throws RookeryError, as the stream fails */
export async function tellEvents(
  stream: TaskStream,
  { emit, signal }: Pick<ControlContext, 'emit' | 'signal'>,
  seen: (view: TaskEventView) => void = () => {}
): Promise<TaskResults['task.watch']> {
  let events = 0
  let lastEventId: string | undefined
  try {
    for await (const { id, response } of stream) {
      const view = { id, response }
      seen(view)
      await emit(view)
      events++
      lastEventId = id
    }
  } catch (error) {
    throw error instanceof A2aError ? rookeryErrorOf(error) : error
  }
  signal.throwIfAborted()
  return { events, ...(lastEventId === undefined ? {} : { lastEventId }) }
}

/** Names the task that a refusal is about, and what to do. */
async function named<T>(id: string, asked: Promise<T>): Promise<T> {
  return await asked.catch((error: unknown) => {
    if (!(error instanceof RookeryError)) throw error
    const remedy = REMEDIES[error.code]
    if (remedy === undefined) throw error
    throw new RookeryError(error.code, error.message, { kind: error.kind, field: 'id', value: id, remedy, cause: error })
  })
}

const REMEDIES: Partial<Record<string, string>> = {
  TASK_NOT_FOUND: 'list the tasks there with `rookery task list`; an agent sees its own alone, so give the right --agent',
  TASK_NOT_CANCELABLE: 'the task has ended: read it with `rookery task show`',
  UNSUPPORTED_OPERATION: 'read the task with `rookery task show`'
}
