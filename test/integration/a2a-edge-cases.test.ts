import { afterEach, describe, expect, it } from 'vitest'
import { OFFLINE_DELIVERY_EXTENSION_URI } from '../../protocol/delivery/refusals.ts'
import { EDGE_CLOUD_CONTRACT_URI } from '../../protocol/ecc/uris.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { type A2aNode, type A2aNodeInit, post, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { aContract } from '../support/ecc-values.ts'
import { openSse, type SseFrame } from '../support/sse-client.ts'

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
  const running = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], workers: 'none', ...init })
  cleanups.push(() => running.stop())
  return running
}

const urlOf = ({ edge }: A2aNode) => `${edge.url}/agents/${BERT.did}`
const call = async (running: A2aNode, method: string, params: JsonObject, agent = ANNA) =>
  (await post(urlOf(running), rpc(method, params), { agent })).body
const start = async (running: A2aNode, messageId: string, more: JsonObject = {}, agent = ANNA): Promise<string> => {
  const message = textMessage(messageId, 'hello', more)
  return (await call(running, 'SendMessage', { message, configuration: { returnImmediately: true } }, agent)).result.task.id
}
const subscribe = async (running: A2aNode, id: string) => {
  const stream = await openSse(urlOf(running), { body: rpc('SubscribeToTask', { id }), token: ANNA.token })
  cleanups.push(() => stream.cut())
  return stream
}
const stateOf = (frame: SseFrame | undefined): string => {
  const { task, statusUpdate } = frame?.data.result ?? {}
  return (task ?? statusUpdate)?.status.state
}

describe('the edge cases of A2A 1.0', () => {
  it('[F005] [G-59] has one winner where a cancel races the completion, and answer, stream and task agree on it', async () => {
    const running = await node()
    for (let round = 0; round < 16; round++) {
      const id = await start(running, `m-${round}`)
      await running.todos.claimOne(id, HOLDER, LEASE)
      const stream = await subscribe(running, id)
      expect(stateOf(await stream.next())).toBe('TASK_STATE_WORKING')
      const canceling = call(running, 'CancelTask', { id })
      for (let turn = 0; turn < round; turn++) await new Promise((resolve) => setImmediate(resolve))
      const [canceled] = await Promise.all([canceling, running.todos.complete(id, HOLDER, []).catch(() => undefined)])
      const { state } = (await call(running, 'GetTask', { id })).result.status
      expect((await stream.rest()).map(stateOf)).toEqual([state])
      if (state === 'TASK_STATE_CANCELED') expect(canceled.result.status.state).toBe(state)
      else expect([state, canceled.error.code]).toEqual(['TASK_STATE_COMPLETED', -32002])
      const again = await call(running, 'CancelTask', { id })
      expect(again.result?.status.state ?? again.error.code).toBe(state === 'TASK_STATE_CANCELED' ? state : -32002)
    }
  })

  it('answers HEAD for a stream with its head alone, at once, and holds no stream for it', async () => {
    const running = await node()
    const id = await start(running, 'm-1')
    const headers = { Authorization: `Bearer ${ANNA.token}`, 'A2A-Version': '1.0' }
    // more than one caller may hold open
    for (let asked = 0; asked < 12; asked++) {
      const { status, headers: head } = await fetch(`${urlOf(running)}/tasks/${id}:subscribe`, { method: 'HEAD', headers })
      expect([status, head.get('content-type')]).toEqual([200, 'text/event-stream'])
    }
    expect(stateOf(await (await subscribe(running, id)).next())).toBe('TASK_STATE_SUBMITTED')
  }, 60_000)

  it('[F002] [G-60] returns a blocking send at AUTH_REQUIRED; streams stay open and tell what comes after the credential exactly once', async () => {
    const running = await node()
    const blocking = call(running, 'SendMessage', { message: textMessage('m-1') })
    const claimed = Promise.withResolvers<string>()
    running.todos.onCommit((todo) => todo.state === 'claimed' && claimed.resolve(todo.id))
    const take = async () => (await running.todos.claim(BERT.eidHex, HOLDER, LEASE)) !== undefined
    running.todos.onClaimable(BERT.eidHex, () => void take())
    await take()
    const id = await claimed.promise
    const streams = [await subscribe(running, id), await subscribe(running, id)]
    for (const stream of streams) expect(stateOf(await stream.next())).toBe('TASK_STATE_WORKING')
    await running.todos.ask(id, HOLDER, { for: 'auth', message: { messageId: 'q', role: 'ROLE_AGENT', parts: [{ text: 'log in' }] } })
    expect((await blocking).result.task.status).toMatchObject({
      state: 'TASK_STATE_AUTH_REQUIRED',
      message: { parts: [{ text: 'log in' }] }
    })
    for (const stream of streams) expect(stateOf(await stream.next())).toBe('TASK_STATE_AUTH_REQUIRED')
    const working = new Promise<void>((resolve) => running.todos.onCommit((todo) => todo.state === 'claimed' && resolve()))
    await start(running, 'm-2', { taskId: id })
    await working
    await running.todos.complete(id, HOLDER, [{ artifactId: 'a', parts: [{ text: 'done' }] }])
    const [one, two] = await Promise.all(streams.map((stream) => stream.rest()))
    const seen = (one ?? []).map((frame) => (frame.data.result.artifactUpdate === undefined ? stateOf(frame) : 'artifact'))
    expect(seen.filter((what) => what === 'artifact' || what === 'TASK_STATE_COMPLETED')).toEqual(['artifact', 'TASK_STATE_COMPLETED'])
    expect(new Set(one?.map((frame) => frame.id)).size).toBe(one?.length)
    expect(two?.map(({ data }) => data.result)).toEqual(one?.map(({ data }) => data.result))
  })

  it('[TD-Q3] lists over HTTP+JSON in pages without gap or repeat at one and the same time, and refuses sizes and tokens that are none', async () => {
    const clock = new ManualClock()
    const running = await node({ clock })
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await start(running, `m-${i}`))
    await running.todos.claimOne(ids[0] as string, HOLDER, LEASE)
    await running.todos.complete(ids[0] as string, HOLDER, [{ artifactId: 'a', parts: [{ text: 'x' }] }])
    const list = async (query: Record<string, string>) => {
      const headers = { Authorization: `Bearer ${ANNA.token}`, 'A2A-Version': '1.0' }
      const response = await fetch(`${urlOf(running)}/tasks?${new URLSearchParams(query)}`, { headers })
      // biome-ignore lint/suspicious/noExplicitAny: tests reach into whatever JSON came
      return { status: response.status, body: (await response.json()) as any }
    }
    for (const query of [{ pageSize: '0' }, { pageSize: '101' }, { pageSize: 'x' }, { pageToken: 'no-token' }] as Record<
      string,
      string
    >[]) {
      const { status, body } = await list(query)
      expect([query, status, body.error.details[0].reason]).toEqual([query, 400, 'INVALID_PARAMS'])
    }
    const seen: string[] = []
    let pageToken = ''
    do {
      const { body } = await list({ pageSize: '2', ...(pageToken === '' ? {} : { pageToken }) })
      expect(body).toMatchObject({ pageSize: 2, totalSize: 5 })
      seen.push(...body.tasks.map(({ id }: { id: string }) => id))
      pageToken = body.nextPageToken
    } while (pageToken !== '')
    expect([...seen].sort()).toEqual([...ids].sort())
    const then = new Date(clock.nowMs()).toISOString()
    clock.advance(1_000)
    const later = await start(running, 'later')
    const since = async (at: string) => (await list({ statusTimestampAfter: at })).body.tasks.map(({ id }: { id: string }) => id)
    expect(await since(new Date(clock.nowMs()).toISOString())).toEqual([later])
    expect(await since(then)).toHaveLength(6)
    const artifactsOf = async (includeArtifacts: string) =>
      (await list({ includeArtifacts })).body.tasks.find(({ id }: { id: string }) => id === ids[0]).artifacts
    expect(await artifactsOf('false')).toBeUndefined()
    expect(await artifactsOf('true')).toMatchObject([{ artifactId: 'a' }])
  })

  it('[ECC-03] [G-64] requires no extension of anyone, and takes an unknown one, or another version of its own, for none at all', async () => {
    const running = await node({ contracts: { [BERT.name]: aContract() } })
    const { capabilities } = (await (
      await fetch(`${urlOf(running)}/.well-known/agent-card.json`, { headers: { 'A2A-Version': '1.0' } })
    ).json()) as {
      capabilities: { extensions: { uri: string; required: boolean }[] }
    }
    expect(capabilities.extensions.map(({ required }) => required)).toEqual(capabilities.extensions.map(() => false))
    expect(capabilities.extensions.map(({ uri }) => uri)).toContain(EDGE_CLOUD_CONTRACT_URI)
    const others = ['https://example.org/unknown/v1', `${EDGE_CLOUD_CONTRACT_URI}0`, `${OFFLINE_DELIVERY_EXTENSION_URI}0`]
    for (const [i, extensions] of [undefined, others.join(', ')].entries()) {
      const answer = await post(
        urlOf(running),
        rpc('SendMessage', { message: textMessage(`m-${i}`), configuration: { returnImmediately: true } }),
        {
          agent: ANNA,
          headers: extensions === undefined ? {} : { 'A2A-Extensions': extensions }
        }
      )
      expect([answer.status, answer.headers.get('a2a-extensions')]).toEqual([200, null])
      expect((await running.todos.get(answer.body.result.task.id))?.execution).toBeUndefined()
    }
  })

  it('[F022] answers a referenceTaskId of another caller as it answers one that nobody has, and shows nothing of that task', async () => {
    const running = await node()
    const foreign = await start(running, 'secret', {}, BERT)
    const answers = []
    for (const referenced of [foreign, '00000000-0000-4000-8000-000000000000']) {
      const message = textMessage('m-1', 'hello', { referenceTaskIds: [referenced], contextId: `c-${answers.length}` })
      const { result } = await call(running, 'SendMessage', {
        message: { ...message, messageId: `m-${answers.length}` },
        configuration: { returnImmediately: true }
      })
      const { task } = result
      expect(task.history[0].referenceTaskIds).toEqual([referenced])
      answers.push({ state: task.status.state, members: Object.keys(task).sort(), artifacts: task.artifacts })
    }
    expect(answers[0]).toEqual(answers[1])
    expect((await call(running, 'ListTasks', {})).result.totalSize).toBe(2)
  })
})
