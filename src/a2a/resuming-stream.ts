import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Json } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { isObject } from './json-rpc.ts'
import { TaskEvent } from './task-events.ts'
import { STREAM_BUFFER_BYTES_MAX, TaskStream } from './task-stream.ts'

/** How long until each attempt to take a lost stream up again; after the last its reader is told that the task's state is unknown. */
export const RESUBSCRIBE_AFTER_MS: readonly number[] = [250, 1_000, 2_000, 4_000, 8_000, 16_000]

const STREAM_ENDS = new Set([
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_INPUT_REQUIRED'
])

export interface ResumingOptions {
  clock: Clock
  /** fires when nobody reads any more */
  over: AbortSignal
  /** the reader left: fires `over` */
  leave: () => void
  lastEventId: string | undefined
  subscribe: (taskId: string, lastEventId: string | undefined) => Promise<TaskStream>
  /** a Task in ProtoJSON */
  read: (taskId: string) => Promise<Json>
}

/**
 * A stream that survives those it is made of: what breaks off before the task's last event is taken up where it ended. A task that ended in between is
 * read, and shown as it is.
 */
export function resumingStream(first: TaskStream, options: ResumingOptions): TaskStream {
  const out = new TaskStream({ bufferBytesMax: STREAM_BUFFER_BYTES_MAX, left: options.leave })
  out.begin(first.began, [])
  void follow(first, out, options)
  return out
}

async function follow(first: TaskStream, out: TaskStream, { clock, over, subscribe, read, ...options }: ResumingOptions): Promise<void> {
  let { lastEventId } = options
  let taskId: string | undefined
  let stream = first
  try {
    for (;;) {
      const broke = await pass(stream, out, (event) => {
        lastEventId = event.id
        taskId ??= taskOf(event)?.id
      })
      if (broke === undefined) return out.end()
      if (over.aborted) return out.close()
      if (taskId === undefined || !mayGoOn(broke)) throw broke
      const again = await takeUp(taskId, lastEventId)
      if (again === undefined) return out.end()
      stream = again
    }
  } catch (error) {
    if (over.aborted) out.close()
    else out.fail(error)
  }

  /** @returns undefined where the task has ended, which the reader has been told */
  async function takeUp(id: string, after: string | undefined): Promise<TaskStream | undefined> {
    let broke: unknown
    for (const waitMs of RESUBSCRIBE_AFTER_MS) {
      await clock.sleep(waitMs, { signal: over })
      try {
        return await subscribe(id, after)
      } catch (error) {
        over.throwIfAborted()
        broke = error
        if (error instanceof A2aError && error.reason === 'UNSUPPORTED_OPERATION') {
          const task = await read(id)
          if (!isObject(task)) throw new A2aError('INTERNAL_ERROR', 'the agent sent a task that is none')
          out.push(new TaskEvent(after ?? '0', { task }))
          return undefined
        }
        if (!mayGoOn(error)) throw error
      }
    }
    throw new A2aError('OUTCOME_UNKNOWN', 'the stream broke off and could not be taken up again: the state of the task is unknown', {
      metadata: { outcome: 'unknown', taskId: id, remedy: 'ask for the task again later' },
      cause: broke
    })
  }
}

/** Passes events on until the stream ends. @returns why it broke off; undefined where its last event was a last one */
async function pass(stream: TaskStream, out: TaskStream, seen: (event: TaskEvent) => void): Promise<unknown> {
  let ended = false
  try {
    for await (const event of stream) {
      seen(event)
      const { state } = taskOf(event) ?? {}
      if (state !== undefined) ended = STREAM_ENDS.has(state)
      if ('message' in event.response) ended = true
      out.push(event)
      if (out.over.aborted) return undefined
    }
  } catch (error) {
    return error
  }
  return ended ? undefined : lost('the stream ended before its task')
}

function taskOf({ response }: TaskEvent): { id: string; state: string | undefined } | undefined {
  const { task, statusUpdate, artifactUpdate } = response
  const shown = [task, statusUpdate, artifactUpdate].find(isObject)
  const id = shown?.id ?? shown?.taskId
  if (typeof id !== 'string') return undefined
  const status = shown?.status
  return { id, state: isObject(status) && typeof status.state === 'string' ? status.state : undefined }
}

/** Whether another attempt may find the stream: nothing was refused. */
function mayGoOn(error: unknown): boolean {
  if (!(error instanceof A2aError)) return false
  const { cause } = error.metadata
  return isLoss(error) || error.reason === 'AGENT_UNREACHABLE' || cause === 'NODE_STOPPING' || cause === 'STREAM_TOO_SLOW'
}

/** The session ended under the request; a peer that is merely slow is no loss. */
export function isLoss(error: A2aError): boolean {
  return error.reason === 'OUTCOME_UNKNOWN' && error.cause instanceof RookeryError && error.cause.code === 'SESSION_LOST'
}

function lost(reason: string): A2aError {
  return new A2aError('OUTCOME_UNKNOWN', reason, { cause: new RookeryError('SESSION_LOST', reason, { kind: 'unavailable' }) })
}
