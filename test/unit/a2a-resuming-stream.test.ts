import { describe, expect, it } from 'vitest'
import { A2aError } from '../../src/a2a/a2a-error.ts'
import { RESUBSCRIBE_AFTER_MS, type ResumingOptions, resumingStream } from '../../src/a2a/resuming-stream.ts'
import { TaskEvent } from '../../src/a2a/task-events.ts'
import { STREAM_BUFFER_BYTES_MAX, TaskStream } from '../../src/a2a/task-stream.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'

const task = (state: string, more: JsonObject = {}): JsonObject => ({
  task: { id: 't', status: { state: `TASK_STATE_${state}` }, ...more }
})
const status = (state: string): JsonObject => ({ statusUpdate: { taskId: 't', status: { state: `TASK_STATE_${state}` } } })
const chunk = (text: string): JsonObject => ({ artifactUpdate: { taskId: 't', artifact: { artifactId: 'a', parts: [{ text }] } } })

function source(): TaskStream {
  return new TaskStream({ bufferBytesMax: STREAM_BUFFER_BYTES_MAX, left: () => {} })
}
const broken = () => new A2aError('AGENT_UNREACHABLE', 'the agent is away')

/** A stream over sources that the test breaks, and what was asked of the agent. */
function resuming(subscribe: ResumingOptions['subscribe'], more: Partial<ResumingOptions> = {}) {
  const clock = new ManualClock()
  const leaving = new AbortController()
  const first = source()
  const asked: (string | undefined)[] = []
  const out = resumingStream(first, {
    clock,
    over: leaving.signal,
    leave: () => leaving.abort(new DOMException('the reader left', 'AbortError')),
    lastEventId: undefined,
    read: async () => {
      throw new Error('nothing is to be read')
    },
    ...more,
    subscribe: async (id, after) => {
      asked.push(after)
      return await subscribe(id, after)
    }
  })
  return { clock, first, out, asked, over: leaving.signal }
}

/** Runs what is due until something holds; a test that waits in vain is ended by its time. */
async function until(clock: ManualClock, holds: () => boolean): Promise<void> {
  while (!holds()) {
    clock.advance(RESUBSCRIBE_AFTER_MS.at(-1) as number)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

const idsOf = async (stream: TaskStream) => {
  const ids: string[] = []
  for await (const { id } of stream) ids.push(id)
  return ids
}

describe('a stream that is taken up again', () => {
  it('[G-60] asks for what came after the last event that its reader had, each time it breaks off, and ends with the task', async () => {
    const sources = [source(), source()]
    let taken = 0
    const { clock, first, out, asked } = resuming(async () => sources[taken++] as TaskStream)
    const ids = idsOf(out)
    first.push(new TaskEvent('1', task('WORKING')))
    first.push(new TaskEvent('2', chunk('a')))
    first.end() // without the task's last event it is a loss
    await until(clock, () => taken === 1)
    sources[0]?.push(new TaskEvent('3', chunk('b')))
    await new Promise((resolve) => setImmediate(resolve))
    sources[0]?.fail(broken())
    await until(clock, () => taken === 2)
    sources[1]?.push(new TaskEvent('4', status('COMPLETED')))
    sources[1]?.end()
    expect(await ids).toEqual(['1', '2', '3', '4'])
    expect(asked).toEqual(['2', '3'])
  })

  it('[G-60] shows a task that ended while nobody could be told as it is', async () => {
    const { clock, first, out } = resuming(
      async () => {
        throw new A2aError('UNSUPPORTED_OPERATION', 'the task has ended')
      },
      { read: async (id) => ({ id, status: { state: 'TASK_STATE_FAILED' } }) }
    )
    first.push(new TaskEvent('1', task('WORKING')))
    expect((await out.next()).value?.id).toBe('1')
    first.fail(broken())
    let last: TaskEvent | undefined
    void out.next().then(({ value }) => (last = value))
    await until(clock, () => last !== undefined)
    expect(last?.response).toEqual(task('FAILED'))
    expect(await out.next()).toEqual({ done: true, value: undefined })
  })

  it('says that the state of the task is unknown, and of which, after its last attempt', async () => {
    const { clock, first, out, asked } = resuming(async () => {
      throw broken()
    })
    first.push(new TaskEvent('1', task('WORKING')))
    await out.next()
    first.fail(broken())
    let failure: unknown
    out.next().catch((error) => (failure = error))
    await until(clock, () => failure !== undefined)
    expect(failure).toMatchObject({ reason: 'OUTCOME_UNKNOWN', metadata: { outcome: 'unknown', taskId: 't' } })
    expect(asked).toEqual(Array(RESUBSCRIBE_AFTER_MS.length).fill('1'))
  })

  it('passes on at once what refuses it: a right that ended is not asked for again', async () => {
    const { first, out, asked } = resuming(async () => source())
    first.push(new TaskEvent('1', task('WORKING')))
    await out.next()
    first.fail(new A2aError('PERMISSION_DENIED', 'the grant has ended'))
    await expect(out.next()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    expect(asked).toEqual([])
  })

  it('[TD-30] asks no more when its reader has left', async () => {
    const { clock, first, out, asked, over } = resuming(async () => source())
    first.push(new TaskEvent('1', task('WORKING')))
    await out.next()
    first.fail(broken())
    await out.return()
    expect(over.aborted).toBe(true)
    for (let i = 0; i < 8; i++) {
      clock.advance(20_000)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(asked).toEqual([])
  })
})
