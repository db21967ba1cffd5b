import { request as httpRequest } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { type A2aNode, type A2aNodeInit, post, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { openSse, type SseConnection } from '../support/sse-client.ts'

const ANNA = testAgent(1)
const BERT = testAgent(2)
const HOLDER = 'agent-http:test'
const LEASE = { leaseMs: 600_000 }
const TEST_MS = 120_000
const CHUNK = 'x'.repeat(100_000)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function node(init: Partial<A2aNodeInit> = {}): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const running = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], workers: 'none', blockingWaitMs: 1, ...init })
  cleanups.push(() => running.stop())
  return running
}

const urlOf = ({ edge }: A2aNode) => `${edge.url}/agents/${BERT.did}`
const start = async (running: A2aNode): Promise<string> => {
  const body = rpc('SendMessage', { message: textMessage('m-1'), configuration: { returnImmediately: true } })
  return (await post(urlOf(running), body, { agent: ANNA })).body.result.task.id
}
const subscribe = async (running: A2aNode, id: string): Promise<SseConnection> => {
  const connection = await openSse(urlOf(running), { body: rpc('SubscribeToTask', { id }), token: ANNA.token })
  cleanups.push(() => connection.cut())
  return connection
}
/** Another version of the same artifact, so that the task does not grow. */
const replace = (running: A2aNode, id: string) =>
  running.todos.progress(id, HOLDER, { artifact: { artifactId: 'a', parts: [{ text: CHUNK }] } })

/** A reader that takes nothing, beside one that takes all. */
async function slowAndQuick(running: A2aNode) {
  const id = await start(running)
  await running.todos.claimOne(id, HOLDER, LEASE)
  const [slow, quick] = [await subscribe(running, id), await subscribe(running, id)]
  await quick.next()
  await slow.next()
  slow.pause()
  return { id, slow, quick, streams: () => running.streams?.held.streams }
}

describe('readers of streams', () => {
  it(
    '[TD-32] [TD-R4] drops one that lets too much wait, tells it why, and the others miss nothing',
    async () => {
      const running = await node({ clock: new ManualClock() })
      const { id, slow, quick, streams } = await slowAndQuick(running)
      let told = 0
      let read = 0
      while (streams() === 2) {
        await replace(running, id)
        told++
        if ((await quick.next())?.data.result.artifactUpdate !== undefined) read++
      }
      slow.resume()
      const frames = await slow.rest()
      expect(frames.length).toBeLessThan(told)
      expect(frames.at(-1)).toMatchObject({
        event: 'error',
        data: { error: { data: [{ reason: 'RATE_LIMITED', metadata: { cause: 'STREAM_TOO_SLOW', bytesMax: '262144' } }] } }
      })
      await running.todos.complete(id, HOLDER, [])
      const last = await quick.rest()
      expect([read, last.map(({ data }) => data.result.statusUpdate.status.state)]).toEqual([told, ['TASK_STATE_COMPLETED']])
      expect(running.streams?.held).toEqual({ streams: 0, tasks: 0, heartbeats: 0, timers: 0 })
    },
    TEST_MS
  )

  it(
    '[TD-32] drops one that takes nothing over two keep-alives, however little waits',
    async () => {
      const clock = new ManualClock()
      const running = await node({ clock, streams: { bufferBytesMax: Number.MAX_SAFE_INTEGER } })
      const { id, slow, quick, streams } = await slowAndQuick(running)
      while (streams() === 2) {
        await replace(running, id)
        await quick.next()
        await running.todos.renew(id, HOLDER, LEASE)
        clock.advance(15_000)
      }
      slow.resume()
      expect((await slow.rest()).at(-1)).toMatchObject({
        event: 'error',
        data: { error: { data: [{ reason: 'RATE_LIMITED', metadata: { cause: 'STREAM_TOO_SLOW' } }] } }
      })
      await running.todos.complete(id, HOLDER, [])
      expect((await quick.rest()).at(-1)?.data.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
    },
    TEST_MS
  )

  it(
    '[TD-30] leave no stream, watch, timer or socket, 200 of them: half when they have read, half before the answer',
    async () => {
      const running = await node({ streams: { perCallerMax: 500, nodeMax: 500 } })
      const id = await start(running)
      const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
      const before = sockets()
      for (let round = 0; round < 10; round++) {
        const readers = await Promise.all(Array.from({ length: 10 }, () => subscribe(running, id)))
        await Promise.all(readers.map((reader) => reader.next()))
        for (const reader of readers) reader.cut()
        await Promise.all(Array.from({ length: 10 }, () => askedAndGone(running, id)))
      }
      const last = await subscribe(running, id)
      await last.next()
      last.cut()
      await until(() => running.streams?.held.streams === 0 && sockets() <= before)
      expect(running.streams?.held).toEqual({ streams: 0, tasks: 0, heartbeats: 0, timers: 0 })
      expect((await running.todos.get(id))?.state).toBe('pending')
    },
    TEST_MS
  )
})

/** A reader whose request has left, and which is gone before the answer. */
async function askedAndGone(running: A2aNode, id: string): Promise<void> {
  const body = JSON.stringify(rpc('SubscribeToTask', { id }))
  const headers = {
    'A2A-Version': '1.0',
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    Authorization: `Bearer ${ANNA.token}`
  }
  const req = httpRequest(urlOf(running), { method: 'POST', agent: false, headers })
  req.on('error', () => {})
  const closed = new Promise<void>((resolve) => req.once('close', () => resolve()))
  req.end(body, () => req.destroy())
  await closed
}

/** Lets events run until something holds; a test that waits in vain is ended by its time. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}
