import { afterEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { type A2aNode, type A2aNodeInit, post, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { openSse, type SseConnection, type SseFrame } from '../support/sse-client.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const ANNA = testAgent(1)
const BERT = testAgent(2)
const HOLDER = 'agent-http:test'
const LEASE = { leaseMs: 600_000 }

async function node(init: Partial<A2aNodeInit> = {}): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const running = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], workers: 'none', blockingWaitMs: 1, ...init })
  cleanups.push(() => running.stop())
  return running
}

const urlOf = ({ edge }: A2aNode, path = '') => `${edge.url}/agents/${BERT.did}${path}`
const stream = async (running: A2aNode, body: JsonObject, headers: Record<string, string> = {}, agent = ANNA): Promise<SseConnection> => {
  const connection = await openSse(urlOf(running), { body, token: agent.token, headers })
  cleanups.push(() => connection.cut())
  return connection
}
const subscribe = (running: A2aNode, id: string, headers: Record<string, string> = {}, agent = ANNA) =>
  stream(running, rpc('SubscribeToTask', { id }), headers, agent)
const start = async (running: A2aNode, messageId = 'm-1', agent = ANNA): Promise<string> =>
  (
    await post(urlOf(running), rpc('SendMessage', { message: textMessage(messageId), configuration: { returnImmediately: true } }), {
      agent
    })
  ).body.result.task.id
const chunk = (running: A2aNode, id: string, text: string, append = true) =>
  running.todos.progress(id, HOLDER, { artifact: { artifactId: 'a', parts: [{ text }] }, append })
const textsOf = (frames: (SseFrame | undefined)[]): string =>
  frames
    .flatMap((frame) => {
      const { task, artifactUpdate } = frame?.data.result ?? {}
      return artifactUpdate !== undefined ? [artifactUpdate.artifact] : (task?.artifacts ?? [])
    })
    .flatMap(({ parts }) => parts)
    .map(({ text }) => text)
    .join('')
const taskOf = (frame: SseFrame | undefined) => frame?.data.result.task as { id: string; contextId: string }
const stateOf = (frame: SseFrame | undefined) => {
  const { task, statusUpdate } = frame?.data.result ?? {}
  return (task ?? statusUpdate)?.status.state
}

describe('a stream of a task over HTTP', () => {
  it('[TD-01] [TD-24] begins with the task, then tells every event in order with its number, and ends with the last', async () => {
    const running = await node()
    const connection = await stream(running, rpc('SendStreamingMessage', { message: textMessage('m-1') }, 'r-1'))
    expect([connection.status, connection.headers['content-type'], connection.headers['x-accel-buffering']]).toEqual([
      200,
      'text/event-stream',
      'no'
    ])
    const first = await connection.next()
    expect(first).toMatchObject({
      id: '1',
      data: { jsonrpc: '2.0', id: 'r-1', result: { task: { status: { state: 'TASK_STATE_SUBMITTED' } } } }
    })
    const { id, contextId } = taskOf(first)
    await running.todos.claimOne(id, HOLDER, LEASE)
    await chunk(running, id, 'a', false)
    await chunk(running, id, 'b')
    await running.todos.progress(id, HOLDER, { message: { messageId: 'p', role: 'ROLE_AGENT', parts: [{ text: 'half way' }] } })
    await running.todos.renew(id, HOLDER, LEASE)
    await running.todos.complete(id, HOLDER, [])
    const rest = await connection.rest()
    expect(rest.map((frame) => [frame.id, Object.keys(frame.data.result)[0]])).toEqual([
      ['2', 'statusUpdate'],
      ['3', 'artifactUpdate'],
      ['4', 'artifactUpdate'],
      ['5', 'statusUpdate'],
      ['6', 'statusUpdate']
    ])
    expect(rest.map(({ data }) => data.id)).toEqual(Array(5).fill('r-1'))
    expect(rest[1]?.data.result.artifactUpdate).toMatchObject({
      taskId: id,
      contextId,
      artifact: { artifactId: 'a', parts: [{ text: 'a' }] }
    })
    expect(rest[2]?.data.result.artifactUpdate.append).toBe(true)
    expect(rest[3]?.data.result.statusUpdate.status.message.parts).toEqual([{ text: 'half way' }])
    expect(stateOf(rest[4])).toBe('TASK_STATE_COMPLETED')
  })

  it('[G-60] [F001] [F023] gives each reader all events from where it began, whoever else leaves', async () => {
    const running = await node()
    const id = await start(running)
    await running.todos.claimOne(id, HOLDER, LEASE)
    const [one, two] = [await subscribe(running, id), await subscribe(running, id)]
    const seen: (SseFrame | undefined)[] = [await one.next()]
    for (const text of ['1', '2', '3']) {
      await chunk(running, id, text)
      seen.push(await one.next())
    }
    one.cut()
    for (const text of ['4', '5', '6']) await chunk(running, id, text)
    const three = await subscribe(running, id)
    for (const text of ['7', '8', '9']) await chunk(running, id, text)
    await running.todos.complete(id, HOLDER, [])
    expect(textsOf(seen)).toBe('123')
    const all = await two.rest()
    expect(textsOf(all)).toBe('123456789')
    const late = await three.rest()
    expect(textsOf(late.slice(0, 1))).toBe('123456')
    expect(textsOf(late)).toBe('123456789')
    expect(late.slice(1)).toEqual(all.slice(-4))
  })

  it('[G-60] resumes after the last event that a reader had, without gap or repeat, also across a restart of the server', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    let running = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], workers: 'none', blockingWaitMs: 1 })
    const id = await start(running)
    await running.todos.claimOne(id, HOLDER, LEASE)
    const before = await subscribe(running, id)
    const seen = [await before.next()]
    for (const text of ['1', '2']) await chunk(running, id, text)
    seen.push(await before.next(), await before.next())
    before.cut()
    await chunk(running, id, '3')
    await running.stop()
    running = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], workers: 'none', blockingWaitMs: 1 })
    cleanups.push(() => running.stop())
    const after = await subscribe(running, id, { 'Last-Event-ID': String(seen.at(-1)?.id) })
    expect(after.headers['rookery-stream']).toBe('resumed')
    await chunk(running, id, '4')
    await running.todos.complete(id, HOLDER, [])
    const rest = await after.rest()
    expect(textsOf([...seen, ...rest])).toBe('1234')
    const ids = [...seen, ...rest].map((frame) => Number(frame?.id))
    expect(ids).toEqual(ids.map((_, at) => (ids[0] as number) + at))
  })

  it('[G-60] sends the whole task where what was missed is not known any more, and for an id that is none', async () => {
    const running = await node()
    const id = await start(running)
    await running.todos.claimOne(id, HOLDER, LEASE)
    for (let i = 0; i < 140; i++) await chunk(running, id, `${i},`)
    for (const lastEventId of ['2', '999999', 'abc', '-1']) {
      const connection = await subscribe(running, id, { 'Last-Event-ID': lastEventId })
      expect([lastEventId, connection.headers['rookery-stream']]).toEqual([lastEventId, 'snapshot'])
      const first = await connection.next()
      expect(first?.data.result.task.artifacts[0].parts).toHaveLength(140)
      connection.cut()
    }
  })

  it('[TD-31] [TD-R4] refuses one stream too many of a caller, and of all, with a named reason, and makes no task for it', async () => {
    const running = await node({ streams: { perCallerMax: 2, nodeMax: 3 } })
    const id = await start(running)
    const held = [await subscribe(running, id), await subscribe(running, id)]
    const refused = await post(urlOf(running), rpc('SendStreamingMessage', { message: textMessage('m-2') }), { agent: ANNA })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
    expect(refused.body.error).toMatchObject({
      code: -31005,
      data: [{ reason: 'RATE_LIMITED', metadata: { cause: 'STREAM_LIMIT', kind: 'caller', max: '2' } }, { retryDelay: '5s' }]
    })
    expect((await running.todos.list({})).todos).toHaveLength(1)
    const other = await start(running, 'm-3', BERT)
    await subscribe(running, other, {}, BERT)
    const full = await fetch(urlOf(running, `/tasks/${other}:subscribe`), {
      method: 'POST',
      headers: { Authorization: `Bearer ${BERT.token}`, 'A2A-Version': '1.0' }
    })
    expect(full.status).toBe(429)
    expect(((await full.json()) as JsonObject).error).toMatchObject({ details: [{ metadata: { kind: 'node', max: '3' } }, {}] })
    held[0]?.cut()
    await until(() => running.streams?.held.streams === 2)
    await subscribe(running, id)
  })

  it('[F016] [TD-R4] sends a comment every 15 s while nothing happens, and its timer goes with the last reader', async () => {
    const clock = new ManualClock()
    const running = await node({ clock })
    const id = await start(running)
    const connection = await subscribe(running, id)
    await connection.next()
    expect(running.streams?.held).toEqual({ streams: 1, tasks: 1, heartbeats: 1, timers: 1 })
    for (let beat = 1; beat <= 3; beat++) {
      clock.advance(15_000)
      await until(() => connection.comments === beat)
    }
    connection.cut()
    await until(() => running.streams?.held.streams === 0)
    expect(running.streams?.held).toEqual({ streams: 0, tasks: 0, heartbeats: 0, timers: 0 })
  })

  it('[TD-30] goes on with the task when its reader has left', async () => {
    const started = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const running = await node({
      workers: undefined as never,
      handlers: {
        [BERT.name]: async () => {
          started.resolve()
          await finish.promise
          return { text: 'done' }
        }
      }
    })
    const connection = await stream(running, rpc('SendStreamingMessage', { message: textMessage('m-1') }))
    const { id } = taskOf(await connection.next())
    await started.promise
    connection.cut()
    await until(() => running.streams?.held.streams === 0)
    const settled = running.todos.settled(id)
    finish.resolve()
    expect((await settled).state).toBe('done')
  })
})

/** Lets events run until something holds; a test that waits in vain is ended by its time. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}
