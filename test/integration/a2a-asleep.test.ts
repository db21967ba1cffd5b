import { type AgentCard, Role } from '@a2a-js/sdk'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { OFFLINE_DELIVERY_EXTENSION_URI, readRefusal } from '../../protocol/delivery/refusals.ts'
import { REACHABILITY_EXTENSION_URI } from '../../src/a2a/agent-card.ts'
import { RookeryError } from '../../src/errors.ts'
import type { AgentReachability } from '../../src/identity/agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import type { Store, WriteOp } from '../../src/store/store.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import {
  type A2aNode,
  type A2aNodeInit,
  fetchAs,
  post,
  type RawAnswer,
  rpc,
  sdkClient,
  startA2aNode,
  TEST_BOUNDS,
  type TestAgent,
  tempDir,
  testAgent,
  textMessage
} from '../support/a2a-fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const ANNA = testAgent(1)
const BERT = testAgent(2)
const WINDOW = { periodSec: 3_600, openSec: 300, offsetSec: 0 }
/** A full hour, so that the window of {@link WINDOW} opens then. */
const HOUR_MS = 1_767_225_600_000

interface Bench extends A2aNode {
  sleeper: TestAgent
  clock: ManualClock
  url: string
  dir: string
}

async function bench(reachability: AgentReachability = { mode: 'sleep' }, init: Partial<A2aNodeInit> = {}): Promise<Bench> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const sleeper = testAgent(9, reachability)
  const clock = new ManualClock(HOUR_MS)
  const node = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT, sleeper], clock, ...init })
  cleanups.push(() => node.stop())
  return { ...node, sleeper, clock, url: `${node.edge.url}/agents/${sleeper.did}`, dir: dir.path }
}

const send = (messageId: string, text = 'hello') => rpc('SendMessage', { message: textMessage(messageId, text) })
const OLD = { 'A2A-Version': '' }
const OPTED = { 'A2A-Extensions': OFFLINE_DELIVERY_EXTENSION_URI }

describe('a send to an agent that sleeps', () => {
  it('[OD-13] [OD-14] [OD-15] [OD-18] [G-03] tells an older caller 503 with the plain body, and the message is on disk', async () => {
    const { url, queue, sleeper, store } = await bench()
    const answer = await post(url, send('m-1'), { agent: ANNA, headers: OLD })
    expect(answer.status).toBe(503)
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(answer.body).toEqual({ error: 'agent_asleep', message: 'asleep, try later', queued: true })
    const [record] = await queue.list(sleeper.eidHex)
    expect(record).toMatchObject({ issuer: ANNA.eidHex, principal: `eid:${ANNA.eidHex}` })
    let rows = 0
    for await (const _ of store.table('asleep-queue', { encode: (value: Uint8Array) => value, decode: (bytes) => bytes }).keys()) rows++
    expect(rows).toBe(1)
  })

  it('[G-17] keeps what callers of 0.3 send by their own method and shapes', async () => {
    const { url, queue, sleeper, drain, todos } = await bench()
    const message = {
      kind: 'message',
      messageId: 'old-1',
      role: 'user',
      parts: [
        { kind: 'text', text: 'hi' },
        { kind: 'file', file: { bytes: 'AAEC', name: 'a.bin', mimeType: 'application/octet-stream' } },
        { kind: 'data', data: { a: 1 } }
      ]
    }
    for (const method of ['message/send', 'message/stream']) {
      const answer = await post(url, rpc(method, { message }), { agent: ANNA, headers: { 'A2A-Version': '0.3' } })
      expect([answer.status, answer.body.error, answer.body.queued]).toEqual([503, 'agent_asleep', true])
    }
    expect((await queue.usage(sleeper.eidHex)).messages).toBe(1)
    sleeper.reachability = { mode: 'always_on' }
    expect((await drain.drain(sleeper)).accepted).toBe(1)
    const [todo] = (await todos.list({ agent: sleeper.eidHex })).todos
    expect(todo?.history[0]).toMatchObject({
      role: 'ROLE_USER',
      parts: [{ text: 'hi' }, { raw: 'AAEC', filename: 'a.bin', mediaType: 'application/octet-stream' }, { data: { a: 1 } }]
    })
  })

  it('[OD-19] [OD-20] [G-04] [G-05] tells a 1.0 caller -31003 with an array of details, by body alone', async () => {
    const { url } = await bench()
    const { status, body } = await post(url, send('m-1'), { agent: ANNA })
    expect(status).toBe(503)
    expect(body).toMatchObject({ jsonrpc: '2.0', id: 1, error: { code: -31003, message: expect.any(String) } })
    expect(body.error.data[0]).toMatchObject({ reason: 'AGENT_ASLEEP', metadata: { error: 'agent_asleep', queued: 'true' } })
    expect(body.error.data.every((one: JsonObject) => typeof one['@type'] === 'string')).toBe(true)
    expect(readRefusal({ body })).toMatchObject({ token: 'agent_asleep', queued: true, evidence: 'token' })
  })

  it('[OD-19] [OD-20] [G-04] tells a caller of the extension -32003 with the object of the draft, and echoes the extension', async () => {
    const { url } = await bench({ mode: 'sleep', untilMs: HOUR_MS + 840_000 })
    const { status, body, headers } = await post(url, send('m-1'), { agent: ANNA, headers: OPTED })
    expect(status).toBe(503)
    expect(body.error).toMatchObject({ code: -32003, data: { error: 'agent_asleep', queued: true, retryAfterSec: 840 } })
    expect(headers.get('a2a-extensions')).toBe(OFFLINE_DELIVERY_EXTENSION_URI)
  })

  it('[OD-21] gives each form for one and the same enqueue', async () => {
    const { url, queue, sleeper } = await bench()
    const forms: RawAnswer[] = []
    for (const headers of [OLD, {}, OPTED]) forms.push(await post(url, send('same'), { agent: ANNA, headers }))
    expect(forms.map(({ status, body }) => [status, readRefusal({ status, body })?.queued])).toEqual([
      [503, true],
      [503, true],
      [503, true]
    ])
    expect((await queue.usage(sleeper.eidHex)).messages).toBe(1)
  })

  it('[OD-19] [G-04] is read as asleep by the official client, never as a push error', async () => {
    const { edge, sleeper } = await bench()
    const client = await sdkClient(edge, sleeper.did, fetchAs(ANNA))
    const message = {
      messageId: 'm-1',
      contextId: '',
      taskId: '',
      role: Role.ROLE_USER,
      parts: [{ content: { $case: 'text' as const, value: 'x' }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: []
    }
    const error = await client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined }).catch((err) => err)
    expect(error.envelopeCode).toBe(-31003)
    expect(error.name).not.toContain('PushNotification')
    expect(readRefusal({ body: { code: error.envelopeCode, data: error.data } })).toMatchObject({ token: 'agent_asleep', queued: true })
  })

  it('[OD-16] [OD-17] says when it wakes in body and header alike, and says nothing where it does not know', async () => {
    const { url, clock, sleeper } = await bench({ mode: 'hourly_wake', window: WINDOW })
    clock.jumpWall(3_600_000 - 840_000)
    const quarter = await post(url, send('m-0'), { agent: ANNA, headers: OLD })
    expect([quarter.body.retryAfterSec, quarter.headers.get('retry-after')]).toEqual([840, '840'])
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 3_600_000 }), fc.constantFrom(OLD, {}, OPTED), async (stepMs, headers) => {
        clock.jumpWall(stepMs)
        const answer = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: BERT, headers })
        if (answer.status !== 503) return
        const seconds = readRefusal({ status: 503, body: answer.body })?.retryAfterSec
        expect(answer.headers.get('retry-after')).toBe(String(seconds))
        expect(Number.isInteger(seconds) && (seconds as number) > 0).toBe(true)
      }),
      { numRuns: 25 }
    )
    sleeper.reachability = { mode: 'sleep' }
    const unknown = await post(url, send('m-2'), { agent: ANNA, headers: OLD })
    expect(unknown.headers.get('retry-after')).toBeNull()
    expect('retryAfterSec' in unknown.body).toBe(false)
  })

  it('[OD-07] [OD-13] [G-01] refuses without queueing in the mode that never queues, and says so', async () => {
    let attached = true
    const { url, queue, sleeper } = await bench({ mode: 'session' }, { attached: () => attached })
    expect((await post(url, send('m-0'), { agent: ANNA })).body.result.task.status.state).toBe('TASK_STATE_COMPLETED')
    attached = false
    const plain = await post(url, send('m-1'), { agent: ANNA, headers: OLD })
    expect([plain.status, plain.body.error, plain.body.queued]).toEqual([503, 'agent_asleep', false])
    const enveloped = await post(url, send('m-1'), { agent: ANNA })
    expect(enveloped.body.error.data[0].metadata).toMatchObject({ error: 'agent_asleep', queued: 'false' })
    expect(await queue.usage(sleeper.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
  })

  it('[OD-28] takes nothing from a stranger: 401, zero writes', async () => {
    const { url, queue, sleeper, store } = await bench()
    const before = store.syncs
    for (const headers of [{}, { Authorization: 'Bearer nonsense' }]) {
      expect((await post(url, send('m-1'), { headers })).status).toBe(401)
    }
    expect(await queue.usage(sleeper.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
    expect(store.syncs).toBe(before)
  })

  it('[G-17] answers reads while it sleeps, and validates before it keeps', async () => {
    const { url, edge, queue, sleeper } = await bench()
    expect((await post(url, rpc('GetTask', { id: 'none' }), { agent: ANNA })).body.error.code).toBe(-32001)
    expect((await post(url, rpc('ListTasks', {}), { agent: ANNA })).body.result.totalSize).toBe(0)
    expect((await fetch(`${edge.url}/agents/${sleeper.did}/.well-known/agent-card.json`)).status).toBe(200)
    const bad = rpc('SendMessage', { message: { ...textMessage('m'), parts: [] } })
    expect((await post(url, bad, { agent: ANNA, headers: OLD })).body.error.code).toBe(-32602)
    const push = rpc('SendMessage', {
      message: textMessage('m'),
      configuration: { taskPushNotificationConfig: { url: 'https://example.net' } }
    })
    expect((await post(url, push, { agent: ANNA })).body.error.data[0].reason).toBe('PUSH_NOTIFICATION_NOT_SUPPORTED')
    expect((await queue.usage(sleeper.eidHex)).messages).toBe(0)
  })

  it('[OD-10] [F007] becomes one task when the agent wakes; the same messageId then finds it, also while the agent sleeps again', async () => {
    const { url, drain, sleeper, todos, workers } = await bench()
    await post(url, send('m-1'), { agent: ANNA })
    expect((await todos.list({ agent: sleeper.eidHex })).todos).toHaveLength(0)
    sleeper.reachability = { mode: 'always_on' }
    expect((await drain.drain(sleeper)).accepted).toBe(1)
    workers.get(sleeper.name)?.poke()
    const [todo] = (await todos.list({ agent: sleeper.eidHex })).todos
    expect((await todos.settled(todo?.id as string)).door).toBe('asleep-queue')
    const again = await post(url, send('m-1'), { agent: ANNA })
    expect(again.body.result.task).toMatchObject({ id: todo?.id, status: { state: 'TASK_STATE_COMPLETED' } })
    sleeper.reachability = { mode: 'sleep' }
    const asleep = await post(url, send('m-1'), { agent: ANNA })
    expect(asleep.body.result.task.id).toBe(todo?.id)
    expect((await todos.list({ agent: sleeper.eidHex })).todos).toHaveLength(1)
  })

  it('[G-02] [OD-36] keeps the sealed copy of a local message as long as its record and no longer; the message sent again has no second effect', async () => {
    const { url, drain, queue, outgoing, sleeper, todos } = await bench()
    for (const id of ['m-1', 'm-2', 'm-3']) expect((await post(url, send(id), { agent: ANNA })).status).toBe(503)
    expect(outgoing.usage().objects).toBe(3)
    const [first] = await queue.list(sleeper.eidHex)
    expect(await queue.drop(sleeper.eidHex, first?.key ?? '')).toBe(true)
    expect(outgoing.usage().objects).toBe(2)
    expect((await drain.drain(sleeper)).accepted).toBe(2)
    expect(outgoing.usage()).toMatchObject({ objects: 0, bytes: 0 })
    const again = await post(url, send('m-2'), { agent: ANNA })
    expect(again.body.result.task).toBeDefined()
    expect((await todos.list({ agent: sleeper.eidHex })).todos).toHaveLength(2)
    expect((await post(url, send('m-1'), { agent: ANNA })).status).toBe(503)
    expect((await drain.drain(sleeper)).accepted).toBe(1)
  })

  it('[G-02] [OD-41] keeps one copy of a message that is sent again, before and after a restart', async () => {
    const first = await bench()
    await post(first.url, send('m-1'), { agent: ANNA })
    await post(first.url, send('m-1'), { agent: ANNA })
    await first.stop()
    cleanups.splice(1)
    const clock = new ManualClock(HOUR_MS + 1_000)
    const sleeper = testAgent(9, { mode: 'sleep' })
    const second = await startA2aNode({ dir: first.dir, agents: [ANNA, sleeper], clock })
    cleanups.push(() => second.stop())
    const again = await post(`${second.edge.url}/agents/${sleeper.did}`, send('m-1'), { agent: ANNA })
    expect([again.status, again.body.error.data[0].metadata.queued]).toEqual([503, 'true'])
    expect((await second.queue.usage(sleeper.eidHex)).messages).toBe(1)
    const reused = await post(`${second.edge.url}/agents/${sleeper.did}`, send('m-1', 'other'), { agent: ANNA })
    expect(reused.body.error).toMatchObject({ code: -32602, data: [{ metadata: { cause: 'MESSAGE_ID_REUSED' } }, {}] })
  })
})

describe('bounds of the queue', () => {
  const tight = { ...TEST_BOUNDS, messagesMax: 3, messagesPerPeerMax: 2 }

  it('[OD-44] [OD-45] [OD-46] [OD-47] [G-06] answers 429 for a peer at its cap and 507 for the rest, with the bound that was hit', async () => {
    const { url } = await bench({ mode: 'sleep' }, { bounds: tight })
    for (const id of ['a', 'b']) expect((await post(url, send(id), { agent: ANNA })).status).toBe(503)
    const peer = await post(url, send('c'), { agent: ANNA, headers: OLD })
    expect([peer.status, peer.body]).toEqual([
      429,
      { error: 'asleep_queue_full', message: expect.any(String), queued: false, kind: 'peer' }
    ])
    expect((await post(url, send('a'), { agent: BERT })).status).toBe(503)
    const messages = await post(url, send('b'), { agent: BERT })
    expect(messages.status).toBe(507)
    expect(messages.body.error).toMatchObject({
      code: -31004,
      data: [{ reason: 'ASLEEP_QUEUE_FULL', metadata: { error: 'asleep_queue_full', queued: 'false', kind: 'messages' } }, {}]
    })
    const opted = await post(url, send('b'), { agent: BERT, headers: OPTED })
    expect(opted.body.error.data).toMatchObject({ error: 'asleep_queue_full', queued: false, kind: 'messages' })
    expect(messages.headers.get('retry-after')).toBeNull()
  })

  it('[OD-44] [OD-45] [OD-47] answers 507 for the bound on bytes', async () => {
    const { url } = await bench({ mode: 'sleep' }, { bounds: { ...TEST_BOUNDS, bytesMax: 4_000 } })
    expect((await post(url, send('a', 'x'.repeat(2_000)), { agent: ANNA, headers: OLD })).status).toBe(503)
    const full = await post(url, send('b', 'x'.repeat(2_000)), { agent: ANNA, headers: OLD })
    expect([full.status, full.body.error, full.body.kind, full.body.queued]).toEqual([507, 'asleep_queue_full', 'bytes', false])
  })

  it('[G-07] answers 413 for a message that fits no mailbox', async () => {
    const { url, queue, sleeper } = await bench()
    const large = await post(url, send('a', 'x'.repeat(1_100_000)), { agent: ANNA })
    expect([large.status, large.body.error.code]).toEqual([413, -31006])
    expect((await queue.usage(sleeper.eidHex)).messages).toBe(0)
  })

  it('[OD-30] publishes the bounds in force in the card of the modes that queue, and fills to that number and no further', async () => {
    const { edge, url, sleeper } = await bench({ mode: 'sleep' }, { bounds: tight })
    const extensions = async () => {
      const card = (await (await fetch(`${edge.url}/agents/${sleeper.did}/.well-known/agent-card.json`)).json()) as AgentCard
      return card.capabilities?.extensions ?? []
    }
    const [author, own] = await extensions()
    expect(author).toMatchObject({ uri: OFFLINE_DELIVERY_EXTENSION_URI, params: { mode: 'sleep' } })
    expect(own?.params?.queue).toEqual({ messagesMax: 3, bytesMax: 2_097_152, messagesPerPeerMax: 2, ttlMaxSec: 604_800 })
    const statuses = []
    for (let i = 0; i < own?.params?.queue.messagesMax + 1; i++) {
      statuses.push((await post(url, send(`m-${i}`), { agent: i % 2 === 0 ? ANNA : BERT })).status)
    }
    expect(statuses).toEqual([503, 503, 503, 507])
    sleeper.reachability = { mode: 'always_on' }
    expect((await extensions()).map(({ uri }) => uri)).toEqual([REACHABILITY_EXTENSION_URI])
  })
})

describe('a disk that refuses writes', () => {
  it('[OD-14] [OD-22] [OD-48] [G-01] never says queued or asleep for what was not written, in any form', async () => {
    let refused: string[] = []
    const wrapStore = (store: Store): Store => {
      const commit = store.commit.bind(store)
      store.commit = (ops: readonly WriteOp[]) =>
        ops.some((op) => refused.includes(op.table))
          ? Promise.reject(new RookeryError('STORE_WRITE_FAILED', 'no space left on device', { kind: 'storage' }))
          : commit(ops)
      return store
    }
    const { url, edge, queue, sleeper, todos } = await bench({ mode: 'sleep' }, { wrapStore })
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 12 }),
        fc.constantFrom<string[]>(['asleep-queue'], ['outgoing'], []),
        fc.constantFrom(OLD, {}, OPTED),
        async (number, tables, headers) => {
          refused = tables
          const before = (await queue.list(sleeper.eidHex)).length
          const answer = await post(url, send(`m-${number}`), { agent: ANNA, headers })
          const after = (await queue.list(sleeper.eidHex)).length
          const said = readRefusal({ status: answer.status, body: answer.body })
          if (answer.status === 503) expect([said?.token, said?.queued]).toEqual(['agent_asleep', true])
          else {
            expect(answer.status).toBe(500)
            expect(answer.text).not.toContain('agent_asleep')
            expect(answer.text).not.toMatch(/"queued":("true"|true)/)
            expect(answer.text).toContain('asleep_store_failed')
            expect(after).toBe(before)
          }
          if (after > before) expect(said?.queued).toBe(true)
        }
      ),
      { numRuns: 40 }
    )
    refused = ['todo']
    const live = await post(`${edge.url}/agents/${BERT.did}`, send('live'), { agent: ANNA })
    expect([live.status, live.body.error.data[0].reason]).toEqual([500, 'STORE_FAILED'])
    refused = []
    expect((await todos.list({ agent: BERT.eidHex })).todos).toHaveLength(0)
    expect((await post(`${edge.url}/agents/${BERT.did}`, send('live'), { agent: ANNA })).status).toBe(200)
  })
})
