import { createHash } from 'node:crypto'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Role, TaskState } from '@a2a-js/sdk'
import { afterEach, describe, expect, it } from 'vitest'
import { cardText } from '../../src/a2a/agent-card.ts'
import { createA2aEdge } from '../../src/a2a/edge.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { AgentHandler } from '../../src/tasks/handler.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import {
  type A2aNode,
  type A2aNodeInit,
  fetchAs,
  post,
  rpc,
  sdkClient,
  startA2aNode,
  tempDir,
  testAgent,
  textMessage
} from '../support/a2a-fixture.ts'

const [ANNA, BERT] = [testAgent(1), testAgent(2)]

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function node(init: Partial<A2aNodeInit> = {}): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const started = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], ...init })
  cleanups.push(() => started.stop())
  return started
}

const urlOf = ({ edge }: A2aNode, agent = ANNA) => `${edge.url}/agents/${agent.did}`
const send = (messageId: string, more: JsonObject = {}) => rpc('SendMessage', { message: textMessage(messageId), ...more })

const sdkMessage = (
  messageId: string,
  parts: { content: { $case: 'text'; value: string } | { $case: 'raw'; value: Buffer }; filename?: string }[]
) => ({
  tenant: '',
  metadata: undefined,
  configuration: undefined,
  message: {
    messageId,
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: parts.map(({ content, filename = '' }) => ({ content, filename, mediaType: '', metadata: undefined })),
    metadata: undefined,
    extensions: [],
    referenceTaskIds: []
  }
})

/** A raw HTTP request whose every header is ours. */
function raw(url: string, init: { method?: string; headers?: Record<string, string>; body?: string | Buffer }) {
  return new Promise<{ status: number; headers: Record<string, unknown>; body: string }>((resolve, reject) => {
    const { hostname, port, pathname, search } = new URL(url)
    const req = httpRequest(
      { hostname, port, path: pathname + search, method: init.method ?? 'GET', headers: init.headers ?? {} },
      (res) => {
        let body = ''
        res.on('data', (chunk) => (body += chunk))
        res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body }))
      }
    )
    req.on('error', reject)
    req.end(init.body)
  })
}

describe('the official client against the edge', () => {
  it('[TD-01] sends a message with a file of 256 KiB and reads the completed task with its SHA-256', async () => {
    const { edge } = await node({ handlers: { [BERT.name]: 'builtin:digest' } })
    const client = await sdkClient(edge, BERT.did, fetchAs(ANNA))
    const bytes = Buffer.from(systemRandom.bytes(262_144))
    const sent = await client.sendMessage(
      sdkMessage('m-file', [
        { content: { $case: 'text', value: 'digest this' } },
        { content: { $case: 'raw', value: bytes }, filename: 'energy.bin' }
      ])
    )
    if (!('status' in sent)) throw new Error('the answer is no task')
    expect(sent.status?.state).toBe(TaskState.TASK_STATE_COMPLETED)
    expect(sent.artifacts[0]?.parts[0]?.content).toEqual({
      $case: 'data',
      value: { filename: 'energy.bin', sizeBytes: 262_144, sha256: createHash('sha256').update(bytes).digest('hex') }
    })
    const read = await client.getTask({ tenant: '', id: sent.id, historyLength: undefined })
    expect(read.artifacts).toEqual(sent.artifacts)
    expect(read.history[0]?.parts[1]?.content).toMatchObject({ $case: 'raw' })
  })

  it('[F007] [TD-12] gives one task and one run for the same messageId, also after a restart in the middle', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    let runs = 0
    const handler: AgentHandler = async () => {
      runs++
      return { text: `run ${runs}` }
    }
    const init = { dir: dir.path, agents: [ANNA, BERT], handlers: { [BERT.name]: handler } }
    let running = await startA2aNode(init)
    const message = sdkMessage('m-once', [{ content: { $case: 'text', value: 'pay' } }])
    const first = await (await sdkClient(running.edge, BERT.did, fetchAs(ANNA))).sendMessage(message)
    await running.stop()

    running = await startA2aNode(init)
    cleanups.push(() => running.stop())
    const client = await sdkClient(running.edge, BERT.did, fetchAs(ANNA))
    const again = await client.sendMessage(message)
    expect([(again as { id: string }).id, runs]).toEqual([(first as { id: string }).id, 1])
    const other = sdkMessage('m-once', [{ content: { $case: 'text', value: 'pay twice' } }])
    await expect(client.sendMessage(other)).rejects.toMatchObject({ envelopeCode: -32602 })
    const bertsOwn = await (await sdkClient(running.edge, BERT.did, fetchAs(BERT))).sendMessage(message)
    expect((bertsOwn as { id: string }).id).not.toBe((first as { id: string }).id)
    expect(runs).toBe(2)
  })

  it('[F007] answers a resend with the end of its task when the task itself made room for newer ones, also after a restart', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    let runs = 0
    const handler: AgentHandler = async () => ({ text: `run ${++runs}` })
    const init = { dir: dir.path, agents: [ANNA], handlers: { [ANNA.name]: handler }, todos: { keptPerCallerMax: 1 } }
    let running = await startA2aNode(init)
    const first = await post(urlOf(running), send('m-pay'), { agent: ANNA })
    await post(urlOf(running), send('m-next'), { agent: ANNA })
    const { id, contextId } = first.body.result.task
    for (let start = 0; start < 2; start++) {
      const again = await post(urlOf(running), send('m-pay'), { agent: ANNA })
      expect(again.body.result.task).toMatchObject({ id, contextId, status: { state: 'TASK_STATE_COMPLETED' } })
      expect(again.body.result.task.status.message.parts[0].text).toMatch(/^This task has ended/)
      await running.stop()
      running = await startA2aNode(init)
    }
    cleanups.push(() => running.stop())
    expect(runs).toBe(2)
  })

  it('[F007] finishes what a restart interrupted: the task was on disk before the answer', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const init = { dir: dir.path, agents: [ANNA] }
    let running = await startA2aNode({ ...init, workers: 'none' })
    const sent = await post(urlOf(running), send('m-1', { configuration: { returnImmediately: true } }), { agent: ANNA })
    const { task } = sent.body.result
    expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
    await running.stop()
    running = await startA2aNode(init)
    cleanups.push(() => running.stop())
    expect((await running.todos.settled(task.id)).state).toBe('done')
    const read = await post(urlOf(running), rpc('GetTask', { id: task.id }), { agent: ANNA })
    expect(read.body.result.status.state).toBe('TASK_STATE_COMPLETED')
  })

  it('[TD-01] cancels and lists its own tasks', async () => {
    const { edge } = await node({ workers: 'none' })
    const client = await sdkClient(edge, ANNA.did, fetchAs(ANNA))
    const immediately = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true }
    const ids = []
    for (let i = 0; i < 3; i++) {
      const message = { ...sdkMessage(`m-${i}`, [{ content: { $case: 'text', value: 'x' } }]), configuration: immediately }
      ids.push(((await client.sendMessage(message)) as { id: string }).id)
    }
    const canceled = await client.cancelTask({ tenant: '', id: ids[0] as string, metadata: undefined })
    expect(canceled.status?.state).toBe(TaskState.TASK_STATE_CANCELED)
    expect((await client.cancelTask({ tenant: '', id: ids[0] as string, metadata: undefined })).status).toEqual(canceled.status)
    const page = await post(`${edge.url}/agents/${ANNA.did}`, rpc('ListTasks', { pageSize: 2 }), { agent: ANNA })
    expect(page.body.result).toMatchObject({ pageSize: 2, totalSize: 3 })
    expect(page.body.result.tasks[0]).toMatchObject({ id: ids[0] })
    const rest = await post(`${edge.url}/agents/${ANNA.did}`, rpc('ListTasks', { pageToken: page.body.result.nextPageToken }), {
      agent: ANNA
    })
    expect(rest.body.result).toMatchObject({ nextPageToken: '', totalSize: 3 })
    expect([...page.body.result.tasks, ...rest.body.result.tasks].map(({ id }: { id: string }) => id).sort()).toEqual([...ids].sort())
    expect('artifacts' in rest.body.result.tasks[0]).toBe(false)
  })

  it('reads an extended card with its credential', async () => {
    const { edge } = await node()
    const client = await sdkClient(edge, BERT.did, fetchAs(ANNA))
    expect((await client.getAgentCard()).name).toBe(BERT.name)
    const raw = await post(`${edge.url}/agents/${BERT.did}`, rpc('GetExtendedAgentCard', {}), { agent: ANNA })
    const { signatures, ...open } = (await (await fetch(`${edge.url}/agents/${BERT.did}/.well-known/agent-card.json`)).json()) as JsonObject
    expect(signatures).toHaveLength(1)
    expect(JSON.parse(cardText(raw.body.result))).toMatchObject(open)
  })
})

describe('blocking and waiting', () => {
  it('[TD-01] waits for the end by default, and returns at once when asked to', async () => {
    let end = () => {}
    const started = Promise.withResolvers<void>()
    const handler: AgentHandler = () =>
      new Promise((resolve) => {
        end = () => resolve({ text: 'done' })
        started.resolve()
      })
    const running = await node({ handlers: { [ANNA.name]: handler } })
    const blocking = post(urlOf(running), send('m-1'), { agent: ANNA })
    await started.promise
    const again = await post(urlOf(running), send('m-1', { configuration: { returnImmediately: true } }), { agent: ANNA })
    expect(again.body.result.task.status.state).toBe('TASK_STATE_WORKING')
    end()
    expect((await blocking).body.result.task).toMatchObject({ id: again.body.result.task.id, status: { state: 'TASK_STATE_COMPLETED' } })
  })

  it('returns the task as it is when the wait is over, and keeps it going when the client has left', async () => {
    const { edge, todos, stop: _ } = await node({ workers: 'none', blockingWaitMs: 50 })
    const capped = await post(`${edge.url}/agents/${ANNA.did}`, send('m-1'), { agent: ANNA })
    expect(capped.body.result.task.status.state).toBe('TASK_STATE_SUBMITTED')
    const leaving = new AbortController()
    const created = new Promise<void>((resolve) => todos.onCommit((todo) => todo.history[0]?.messageId === 'm-2' && resolve()))
    const left = fetch(`${edge.url}/agents/${ANNA.did}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${ANNA.token}` },
      body: JSON.stringify(send('m-2')),
      signal: leaving.signal
    })
    await created
    leaving.abort()
    await expect(left).rejects.toThrow()
    const again = await post(`${edge.url}/agents/${ANNA.did}`, send('m-2'), { agent: ANNA })
    expect(again.body.result.task.status.state).toBe('TASK_STATE_SUBMITTED')
    expect((await todos.list({ agent: ANNA.eidHex })).todos).toHaveLength(2)
  })

  it('gives those who wait their task as it is when the node stops', async () => {
    const running = await node({ workers: 'none' })
    const created = new Promise<void>((resolve) => running.todos.onCommit(() => resolve()))
    const waiting = post(urlOf(running), send('m-1'), { agent: ANNA })
    await created
    await running.edge.close()
    expect((await waiting).body.result.task.status.state).toBe('TASK_STATE_SUBMITTED')
  })

  it('shows why a task failed', async () => {
    const handler: AgentHandler = async () => {
      throw new Error('no such meter')
    }
    const running = await node({ handlers: { [ANNA.name]: handler } })
    const { body } = await post(urlOf(running), send('m-1'), { agent: ANNA })
    expect(body.result.task.status).toMatchObject({
      state: 'TASK_STATE_FAILED',
      message: { role: 'ROLE_AGENT', parts: [{ text: 'no such meter' }] }
    })
  })

  it('keeps a part whose data is null', async () => {
    const running = await node()
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: null }] }
    const { body } = await post(urlOf(running), rpc('SendMessage', { message }), { agent: ANNA })
    expect(body.result.task.artifacts[0].parts).toEqual([{ data: null }])
    expect(body.result.task.history[0].parts).toEqual([{ data: null }])
  })
})

describe('who may call', () => {
  it('[OD-28] [TD-05] [TD-37] answers 401 in JSON without a valid token, and writes nothing; the card needs none', async () => {
    const { edge, store, todos } = await node()
    const before = store.syncs
    const url = `${edge.url}/agents/${ANNA.did}`
    const tokens = [undefined, 'Bearer', 'Bearer wrong', `Basic ${ANNA.token}`, `Bearer ${ANNA.token}x`, `Bearer ${'x'.repeat(5_000)}`]
    for (const authorization of tokens) {
      const answer = await post(url, send('m-1'), { headers: authorization === undefined ? {} : { Authorization: authorization } })
      expect(answer.status).toBe(401)
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/)
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(answer.body.error).toMatchObject({ code: -31401, data: [{ reason: 'UNAUTHENTICATED' }] })
    }
    expect(store.syncs).toBe(before)
    expect((await todos.list({})).todos).toHaveLength(0)
    expect((await fetch(`${edge.url}/.well-known/agent-card.json`)).status).toBe(200)
  })

  it('[F022] shows a task to its caller only: to others the bytes are those for an unknown id', async () => {
    const running = await node({ workers: 'none' })
    const { body } = await post(urlOf(running), send('m-1', { configuration: { returnImmediately: true } }), { agent: ANNA })
    const { id } = body.result.task
    const unknown = '00000000-0000-4000-8000-000000000000'
    for (const method of ['GetTask', 'CancelTask']) {
      const foreign = await post(urlOf(running), rpc(method, { id }), { agent: BERT })
      const nobody = await post(urlOf(running), rpc(method, { id: unknown }), { agent: BERT })
      expect(foreign.body.error.code).toBe(-32001)
      expect(foreign.text).toBe(nobody.text)
      expect(foreign.status).toBe(nobody.status)
    }
    const into = (taskId: string) =>
      post(urlOf(running), rpc('SendMessage', { message: textMessage('x', 'a', { taskId }) }), { agent: BERT })
    expect((await into(id)).text).toBe((await into(unknown)).text)
    const list = await post(urlOf(running), rpc('ListTasks', {}), { agent: BERT })
    expect(list.body.result).toMatchObject({ tasks: [], totalSize: 0 })
    const elsewhere = await post(urlOf(running, BERT), rpc('GetTask', { id }), { agent: ANNA })
    expect(elsewhere.body.error.code).toBe(-32001)
    expect((await post(urlOf(running), rpc('GetTask', { id }), { agent: ANNA })).body.result.id).toBe(id)
  })

  it('answers to loopback names only, so that a rebound name reaches nothing', async () => {
    const { edge } = await node()
    const { port } = edge
    const path = `http://127.0.0.1:${port}/.well-known/agent-card.json`
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, 'LOCALHOST']) {
      expect((await raw(path, { headers: { Host: host } })).status).toBe(200)
    }
    for (const host of ['evil.example', `evil.example:${port}`, `127.0.0.1.evil.example`, '10.0.0.7', `localhost.evil.example:${port}`]) {
      const answer = await raw(path, { headers: { Host: host } })
      expect([answer.status, JSON.parse(answer.body).error.data[0].reason]).toEqual([403, 'PERMISSION_DENIED'])
    }
    const preflight = await raw(`http://127.0.0.1:${port}/`, { method: 'OPTIONS', headers: { Origin: 'http://evil.example' } })
    expect(Object.keys(preflight.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
  })
})

describe('versions (contract, cases 1 and 2)', () => {
  it('[F013] serves 1.0 by header or query, whatever its patch, and refuses all else before anything runs', async () => {
    const running = await node()
    const card = urlOf(running)
    const call = (version: string | undefined, query = '') =>
      raw(`${card}${query}`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          Authorization: `Bearer ${ANNA.token}`,
          ...(version !== undefined ? { 'A2A-Version': version } : {})
        },
        body: JSON.stringify(send(`m-${version}-${query}`))
      })
    for (const [version, query] of [
      ['1.0', ''],
      ['1.0.3', ''],
      [' 1.0 ', ''],
      [undefined, '?A2A-Version=1.0'],
      [undefined, '?a2a-version=1.0.7']
    ] as const) {
      expect(JSON.parse((await call(version, query)).body).result.task.status.state).toBe('TASK_STATE_COMPLETED')
    }
    const made = (await running.todos.list({ agent: ANNA.eidHex })).todos.length
    const refused = [
      ['99.0', ''],
      ['abc', ''],
      ['0.3', ''],
      ['', ''],
      [undefined, ''],
      ['1', ''],
      ['2.0', '?A2A-Version=1.0'],
      [undefined, '?A2A-Version=0.3']
    ] as const
    for (const [version, query] of refused) {
      const { status, body } = await call(version, query)
      expect(JSON.parse(body).error.data[0].metadata.supported).toBe('1.0')
      expect([status, JSON.parse(body).error.code, JSON.parse(body).error.data[0].reason]).toEqual([200, -32009, 'VERSION_NOT_SUPPORTED'])
    }
    expect((await running.todos.list({ agent: ANNA.eidHex })).todos.length).toBe(made)
  })
})

describe('tasks and contexts (contract, cases 3, 5, 6 and 11)', () => {
  it('knows no task that it did not make', async () => {
    const running = await node()
    const message = textMessage('m', 'a', { taskId: '00000000-0000-4000-8000-000000000000' })
    const { body } = await post(urlOf(running), rpc('SendMessage', { message }), { agent: ANNA })
    expect(body.error).toMatchObject({ code: -32001, data: [{ reason: 'TASK_NOT_FOUND', domain: 'a2a-protocol.org' }] })
    expect((await running.todos.list({})).todos).toHaveLength(0)
  })

  it('refuses a task with a foreign context, and infers the context from the task', async () => {
    const running = await node({ workers: 'none', blockingWaitMs: 1 })
    const { task } = (await post(urlOf(running), send('m-1'), { agent: ANNA })).body.result
    const foreign = textMessage('m-2', 'a', { taskId: task.id, contextId: 'another' })
    const refused = await post(urlOf(running), rpc('SendMessage', { message: foreign }), { agent: ANNA })
    expect(refused.body.error).toMatchObject({
      code: -32602,
      data: [{ metadata: { cause: 'CONTEXT_MISMATCH' } }, { fieldViolations: [{ field: 'message.contextId' }] }]
    })
    const follow = textMessage('m-3', 'a', { taskId: task.id })
    const joined = (await post(urlOf(running), rpc('SendMessage', { message: follow }), { agent: ANNA })).body.result.task
    expect(joined).toMatchObject({ id: task.id, contextId: task.contextId })
    expect(joined.history.map(({ messageId }: { messageId: string }) => messageId)).toEqual(['m-1', 'm-3'])
  })

  it('takes no message for a task that has ended', async () => {
    const running = await node()
    const { task } = (await post(urlOf(running), send('m-1'), { agent: ANNA })).body.result
    const late = textMessage('m-2', 'a', { taskId: task.id })
    const { body } = await post(urlOf(running), rpc('SendMessage', { message: late }), { agent: ANNA })
    expect(body.error.code).toBe(-32004)
    expect((await running.todos.get(task.id))?.history).toHaveLength(1)
    expect((await post(urlOf(running), rpc('CancelTask', { id: task.id }), { agent: ANNA })).body.error.code).toBe(-32002)
  })

  it('shows as much history as was asked for', async () => {
    const running = await node({ workers: 'none', blockingWaitMs: 1 })
    const { task } = (await post(urlOf(running), send('m-0'), { agent: ANNA })).body.result
    for (let i = 1; i < 5; i++) {
      await post(urlOf(running), rpc('SendMessage', { message: textMessage(`m-${i}`, 'a', { taskId: task.id }) }), { agent: ANNA })
    }
    const get = async (params: JsonObject) => (await post(urlOf(running), rpc('GetTask', { id: task.id, ...params }), { agent: ANNA })).body
    expect('history' in (await get({ historyLength: 0 })).result).toBe(false)
    expect((await get({ historyLength: 3 })).result.history.map(({ messageId }: { messageId: string }) => messageId)).toEqual([
      'm-2',
      'm-3',
      'm-4'
    ])
    expect((await get({})).result.history).toHaveLength(5)
    expect((await get({ historyLength: -1 })).error).toMatchObject({
      code: -32602,
      data: [{}, { fieldViolations: [{ field: 'historyLength' }] }]
    })
    const onSend = await post(urlOf(running), send('x', { configuration: { historyLength: -1 } }), { agent: ANNA })
    expect(onSend.body.error).toMatchObject({ code: -32602 })
  })
})

describe('malformed requests (contract, case 15)', () => {
  it('answers each with its JSON error, never HTML, and makes no task', async () => {
    const running = await node({ streams: 'off' })
    const message = textMessage('m')
    const params = (more: JsonObject) => rpc('SendMessage', { message: { ...message, ...more } })
    const cases: [name: string, body: unknown, code: number, field?: string][] = [
      ['broken JSON', '{"jsonrpc":', -32700],
      ['an empty body', '', -32700],
      ['bytes that are not UTF-8', Uint8Array.of(0x22, 0xff, 0x22), -32700],
      ['jsonrpc 1.0', { ...send('m'), jsonrpc: '1.0' }, -32600],
      ['no jsonrpc', { id: 1, method: 'SendMessage' }, -32600],
      ['object id', { ...send('m'), id: {} }, -32600],
      ['fractional id', { ...send('m'), id: 1.5 }, -32600],
      ['no id', { jsonrpc: '2.0', method: 'SendMessage', params: { message } }, -32600],
      ['a batch', [send('m')], -32600],
      ['an empty batch', [], -32600],
      ['a number', 7, -32600],
      ['null', null, -32600],
      ['no method', { jsonrpc: '2.0', id: 1 }, -32600],
      ['an unknown method', rpc('MakeCoffee', {}), -32601],
      ['a method of Object', rpc('toString', {}), -32601],
      ['a 0.3 method', rpc('message/send', { message }), -32601],
      ['params as a list', { ...send('m'), params: [] }, -32602, 'params'],
      ['no message', rpc('SendMessage', {}), -32602, 'message'],
      ['no messageId', params({ messageId: '' }), -32602, 'message.messageId'],
      ['a long messageId', params({ messageId: 'x'.repeat(257) }), -32602, 'message.messageId'],
      ['no role', params({ role: null }), -32602, 'message.role'],
      ['the agent as role', params({ role: 'ROLE_AGENT' }), -32602, 'message.role'],
      ['no parts', params({ parts: [] }), -32602, 'message.parts'],
      ['parts as text', params({ parts: 'x' }), -32602, 'message.parts'],
      ['a part without content', params({ parts: [{}] }), -32602, 'message.parts[0]'],
      ['a part with two contents', params({ parts: [{ text: 'a', data: 1 }] }), -32602, 'message.parts[0]'],
      ['a part that is not base64', params({ parts: [{ text: 'a' }, { raw: '*' }] }), -32602, 'message.parts[1].raw'],
      ['no id of a task', rpc('GetTask', {}), -32602, 'id'],
      ['a page size of 0', rpc('ListTasks', { pageSize: 0 }), -32602, 'pageSize'],
      ['a page size of 101', rpc('ListTasks', { pageSize: 101 }), -32602, 'pageSize'],
      ['a bad page token', rpc('ListTasks', { pageToken: 'AAAA' }), -32602, 'pageToken'],
      ['an unknown status', rpc('ListTasks', { status: 'working' }), -32602, 'status'],
      ['a tenant', rpc('SendMessage', { message, tenant: 'x' }), -32602, 'tenant'],
      ['deep nesting', `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"x":${'['.repeat(50_000)}${']'.repeat(50_000)}}}`, -32600],
      ['push with a send', send('m', { configuration: { taskPushNotificationConfig: { url: 'https://example.net' } } }), -32003],
      ['push methods', rpc('CreateTaskPushNotificationConfig', { taskId: 't', url: 'https://example.net' }), -32003],
      ['a stream', rpc('SendStreamingMessage', { message }), -32004],
      ['a subscription', rpc('SubscribeToTask', { id: 't' }), -32004]
    ]
    for (const [name, body, code, field] of cases) {
      const answer = await post(urlOf(running), body, { agent: ANNA })
      expect([name, answer.body?.error?.code, answer.status]).toEqual([name, code, 200])
      expect(answer.body.jsonrpc).toBe('2.0')
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(answer.body.error.data[0].reason).toEqual(expect.any(String))
      if (field !== undefined) expect(answer.body.error.data[1].fieldViolations[0].field).toBe(field)
    }
    expect((await running.todos.list({})).todos).toHaveLength(0)
  })

  it('ignores unknown members', async () => {
    const running = await node()
    const body = { ...rpc('SendMessage', { message: { ...textMessage('m'), futureMember: { a: [1] } }, other: 1 }), extra: true }
    expect((await post(urlOf(running), body, { agent: ANNA })).body.result.task.status.state).toBe('TASK_STATE_COMPLETED')
  })

  it('repeats the id of a request, 0 and null included', async () => {
    const running = await node()
    for (const id of [0, 7, 'seven', null]) {
      const { body } = await post(urlOf(running), { ...rpc('GetTask', { id: 'none' }), id }, { agent: ANNA })
      expect(body.id).toBe(id)
    }
  })

  it('refuses other content types and encodings, and a body above the bound with 413 in JSON', async () => {
    const running = await node({ edge: { bodyBytesMax: 4_096 } })
    for (const type of ['text/plain', 'application/a2a+json', 'application/x-www-form-urlencoded', '']) {
      const answer = await post(urlOf(running), send('m'), { agent: ANNA, headers: { 'Content-Type': type } })
      expect(answer.body.error).toMatchObject({ code: -32005, data: [{ reason: 'CONTENT_TYPE_NOT_SUPPORTED' }] })
    }
    const gzipped = await post(urlOf(running), send('m'), { agent: ANNA, headers: { 'Content-Encoding': 'gzip' } })
    expect(gzipped.body.error.code).toBe(-32005)
    const large = await post(urlOf(running), send('m', { metadata: { x: 'y'.repeat(5_000) } }), { agent: ANNA })
    expect([large.status, large.body.error.code]).toEqual([413, -31006])
    expect(large.body.error.data[0]).toMatchObject({ reason: 'PAYLOAD_TOO_LARGE', metadata: { bytesMax: '4096' } })
    expect((await running.todos.list({})).todos).toHaveLength(0)
  })

  it('names an unknown agent, an unknown path and a port in use', async () => {
    const running = await node()
    for (const did of ['did:key:zNope', 'did:web:example.net', testAgent(77).did, '%ff']) {
      const answer = await post(`${running.edge.url}/agents/${did}`, send('m'), { agent: ANNA })
      if (did !== '%ff') expect([answer.status, answer.body.error.data[0].reason]).toEqual([404, 'AGENT_UNKNOWN'])
      else expect([answer.status, answer.body.error.code]).toEqual([200, -32600])
    }
    const lost = await fetch(`${running.edge.url}/nowhere`)
    expect([lost.status, ((await lost.json()) as { error: string }).error]).toEqual([404, 'not_found'])
    await expect(node({ edge: { port: running.edge.port } })).rejects.toMatchObject({ code: 'PORT_IN_USE', field: 'http.port' })
    const rest = {} as Parameters<typeof createA2aEdge>[0]
    await expect(createA2aEdge(rest, { host: '0.0.0.0' })).rejects.toMatchObject({ code: 'NOT_LOOPBACK', field: 'http.host' })
    await expect(createA2aEdge(rest, { publicUrl: 'ftp://x' })).rejects.toMatchObject({ code: 'PUBLIC_URL_INVALID' })
  })

  it('refuses above its bound of requests at work', async () => {
    const running = await node({ workers: 'none', edge: { requestsMax: 1 } })
    const created = new Promise<void>((resolve) => running.todos.onCommit(() => resolve()))
    const leaving = new AbortController()
    const waiting = fetch(urlOf(running), {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${ANNA.token}` },
      body: JSON.stringify(send('m-1')),
      signal: leaving.signal
    }).catch(() => undefined)
    await created
    const refused = await post(urlOf(running), send('m-2'), { agent: ANNA })
    expect([refused.status, refused.body.error.code, refused.headers.get('retry-after')]).toEqual([429, -31005, '1'])
    leaving.abort()
    await waiting
  })
})

describe('the agent card', () => {
  it('[TD-37] is served for the default agent and by DID, with an entity tag', async () => {
    const { edge } = await node()
    const byDefault = await fetch(`${edge.url}/.well-known/agent-card.json`)
    const card = (await byDefault.json()) as JsonObject
    expect(card.name).toBe(ANNA.name)
    expect(byDefault.headers.get('content-type')).toContain('application/json')
    expect(byDefault.headers.get('cache-control')).toBe('max-age=300')
    const tag = byDefault.headers.get('etag') as string
    for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
      expect((await fetch(`${edge.url}/.well-known/agent-card.json`, { headers: { 'If-None-Match': known } })).status).toBe(304)
    }
    expect((await fetch(`${edge.url}/.well-known/agent-card.json`, { headers: { 'If-None-Match': '"other"' } })).status).toBe(200)
    const head = await fetch(`${edge.url}/.well-known/agent-card.json`, { method: 'HEAD' })
    expect([head.status, head.headers.get('etag'), head.headers.get('cache-control'), await head.text()]).toEqual([
      200,
      tag,
      'max-age=300',
      ''
    ])
    const berts = (await (await fetch(`${edge.url}/agents/${BERT.did}/.well-known/agent-card.json`)).json()) as JsonObject
    expect(berts.name).toBe(BERT.name)
    expect((await fetch(`${edge.url}/agents/${testAgent(77).did}/.well-known/agent-card.json`)).status).toBe(404)
  })

  it('[F026] names the configured public URL exactly once behind a path-rewriting gateway, with and without a slash at its end', async () => {
    let internal = ''
    const gateway = createServer((req, res) => {
      const path = (req.url ?? '').replace(/^\/a2a\/tick/, '')
      const forward = httpRequest(
        `${internal}${path}`,
        { method: req.method, headers: { ...req.headers, host: req.headers.host } },
        (answer) => {
          res.writeHead(answer.statusCode ?? 500, answer.headers)
          answer.pipe(res)
        }
      )
      req.pipe(forward)
    })
    await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => new Promise((resolve) => gateway.close(resolve)))
    const base = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}/a2a/tick`
    for (const publicUrl of [base, `${base}/`]) {
      const running = await node({ edge: { publicUrl } })
      internal = running.edge.url
      const card = await (await fetch(`${base}/.well-known/agent-card.json`)).json()
      const { url } = card.supportedInterfaces[0]
      expect(url).toBe(`${base}/agents/${ANNA.did}`)
      expect((await post(url, send('m'), { agent: ANNA })).body.result.task.status.state).toBe('TASK_STATE_COMPLETED')
    }
  })
})
