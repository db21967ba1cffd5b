import { AgentCard, type Message, Role, type StreamResponse, type Task, TaskState } from '@a2a-js/sdk'
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import { afterEach, describe, expect, it } from 'vitest'
import type { PushConfigs } from '../../src/a2a/push-configs.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { type A2aNode, type A2aNodeInit, fetchAs, post, rpc, startA2aNode, tempDir, testAgent } from '../support/a2a-fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const ANNA = testAgent(1)
const BERT = testAgent(2)
const HOLDER = 'agent-http:test'
const LEASE = { leaseMs: 600_000 }
type Binding = 'JSONRPC' | 'HTTP+JSON' | '0.3'

async function start(dir: string, init: Partial<A2aNodeInit> = {}): Promise<A2aNode> {
  const running = await startA2aNode({ dir, agents: [ANNA, BERT], workers: 'none', edge: { legacy: 'on' }, ...init })
  cleanups.push(() => running.stop())
  return running
}

async function node(init: Partial<A2aNodeInit> = {}): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  return await start(dir.path, init)
}

/** The official client in the name of an agent of ours, over one binding. */
async function clientOf({ edge }: A2aNode, binding: Binding, agent = ANNA): Promise<Client> {
  const fetchImpl = fetchAs(agent)
  const url = `${edge.url}/agents/${BERT.did}`
  const card = AgentCard.fromJSON(await (await fetch(`${url}/.well-known/agent-card.json`, { headers: { 'A2A-Version': '1.0' } })).json())
  const legacyCompat = { enabled: binding === '0.3' }
  card.supportedInterfaces =
    binding === '0.3'
      ? [{ url, protocolBinding: 'JSONRPC', protocolVersion: '0.3', tenant: '' }]
      : card.supportedInterfaces.filter(({ protocolBinding }) => protocolBinding === binding)
  const transports = [new JsonRpcTransportFactory({ fetchImpl, legacyCompat }), new RestTransportFactory({ fetchImpl })]
  return await new ClientFactory({ transports }).createFromAgentCard(card)
}

const request = (messageId: string, more: { taskId?: string; contextId?: string } = {}, returnImmediately = true) => ({
  tenant: '',
  metadata: undefined,
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately },
  message: {
    messageId,
    contextId: more.contextId ?? '',
    taskId: more.taskId ?? '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: 'hello' } as const, filename: '', mediaType: '', metadata: undefined }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: []
  }
})
const send = async (client: Client, messageId: string, more = {}): Promise<Task> =>
  (await client.sendMessage(request(messageId, more))) as Exclude<Task | Message, Message>
const listing = {
  tenant: '',
  contextId: '',
  status: TaskState.TASK_STATE_UNSPECIFIED,
  pageToken: '',
  statusTimestampAfter: undefined
}
const statesOf = (events: StreamResponse[]) =>
  events.flatMap(({ payload }) => (payload?.$case === 'task' || payload?.$case === 'statusUpdate' ? [payload.value.status?.state] : []))
async function drain(stream: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> {
  const all: StreamResponse[] = []
  for await (const event of stream) all.push(event)
  return all
}

/** Configs in memory, as a store keeps them. */
function pushConfigs(): PushConfigs {
  const rows = new Map<string, JsonObject>()
  const of = (taskId: string) => [...rows].filter(([key]) => key.startsWith(`${taskId}/`)).map(([, config]) => config)
  return {
    async set(todo, config) {
      const id = typeof config.id === 'string' && config.id !== '' ? config.id : `c-${rows.size + 1}`
      const kept = { id, taskId: todo.id, url: config.url as string }
      rows.set(`${todo.id}/${id}`, kept)
      return kept
    },
    get: async (taskId, id) => rows.get(`${taskId}/${id}`),
    list: async (taskId) => of(taskId),
    async delete(taskId, id) {
      rows.delete(`${taskId}/${id}`)
    },
    async check() {}
  }
}

describe.each<Binding>(['JSONRPC', 'HTTP+JSON'])('the official client over %s', (binding) => {
  it('[TD-01] sends, reads, lists in pages, cancels and reads the extended card', async () => {
    const running = await node()
    const client = await clientOf(running, binding)
    const tasks = [await send(client, 'm-1'), await send(client, 'm-2'), await send(client, 'm-3')]
    const [first] = tasks as [Task]
    expect(first.status?.state).toBe(TaskState.TASK_STATE_SUBMITTED)
    const read = { tenant: '', id: first.id }
    expect((await client.getTask(read)).history.map(({ messageId }) => messageId)).toEqual(['m-1'])
    expect((await client.getTask({ ...read, historyLength: 0 })).history).toEqual([])
    const page = await client.listTasks({ ...listing, pageSize: 2 })
    const rest = await client.listTasks({ ...listing, pageSize: 2, pageToken: page.nextPageToken })
    expect([page.totalSize, page.pageSize, rest.nextPageToken]).toEqual([3, 2, ''])
    expect([...page.tasks, ...rest.tasks].map(({ id }) => id).sort()).toEqual(tasks.map(({ id }) => id).sort())
    const canceled = await client.cancelTask({ ...read, metadata: undefined })
    expect(canceled.status?.state).toBe(TaskState.TASK_STATE_CANCELED)
    expect((await client.cancelTask({ ...read, metadata: undefined })).status).toEqual(canceled.status)
    const only = await client.listTasks({ ...listing, status: TaskState.TASK_STATE_CANCELED })
    expect([only.totalSize, only.tasks[0]?.id]).toEqual([1, first.id])
    expect((await client.getAgentCard()).name).toBe(BERT.name)
  })

  it('[TD-01] [TD-28] streams a task from its message to its end', async () => {
    const running = await node({ workers: undefined as never })
    const events = await drain((await clientOf(running, binding)).sendMessageStream(request('m-1')))
    expect(events[0]?.payload?.$case).toBe('task')
    expect(events.some(({ payload }) => payload?.$case === 'artifactUpdate') || statesOf(events).length === 1).toBe(true)
    expect(statesOf(events).at(-1)).toBe(TaskState.TASK_STATE_COMPLETED)
  })

  it('[F001] [F002] [G-58] goes on with a task that asked its caller, across a restart of the server in the middle', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    let running = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT], workers: 'none' })
    let client = await clientOf(running, binding)
    const { id, contextId } = await send(client, 'm-1')
    await running.todos.claimOne(id, HOLDER, LEASE)
    await running.todos.progress(id, HOLDER, { artifact: { artifactId: 'a', parts: [{ text: 'one' }] }, lastChunk: false })
    const question = { messageId: 'q', role: 'ROLE_AGENT', parts: [{ text: 'which one?' }] }
    await running.todos.ask(id, HOLDER, { for: 'input', message: question })
    await running.stop()

    running = await start(dir.path)
    client = await clientOf(running, binding)
    const asked = await client.getTask({ tenant: '', id })
    expect([asked.status?.state, asked.status?.message?.parts[0]?.content]).toEqual([
      TaskState.TASK_STATE_INPUT_REQUIRED,
      { $case: 'text', value: 'which one?' }
    ])
    const stream = client.resubscribeTask({ tenant: '', id })
    const snapshot = (await stream.next()).value as StreamResponse
    expect(snapshot.payload?.$case === 'task' && snapshot.payload.value.artifacts[0]?.parts).toHaveLength(1)
    const answered = await send(client, 'm-2', { taskId: id })
    expect([answered.id, answered.contextId]).toEqual([id, contextId])
    await running.todos.claimOne(id, HOLDER, LEASE)
    await running.todos.complete(id, HOLDER, [{ artifactId: 'b', parts: [{ text: 'two' }] }])
    const events = await drain(stream)
    expect(events.filter(({ payload }) => payload?.$case === 'artifactUpdate')).toHaveLength(1)
    expect(statesOf(events).at(-1)).toBe(TaskState.TASK_STATE_COMPLETED)
    await expect(drain(client.resubscribeTask({ tenant: '', id }))).rejects.toThrow(/ended/)
    await expect(client.sendMessage(request('m-3', { taskId: id }))).rejects.toThrow(/ended/)
  })

  it('[TD-05] [G-56] [F022] shows nothing of a task to another caller', async () => {
    const running = await node()
    const { id } = await send(await clientOf(running, binding), 'm-1')
    const other = await clientOf(running, binding, BERT)
    const asks = (task: string): (() => Promise<unknown>)[] => [
      () => other.getTask({ tenant: '', id: task }),
      () => other.cancelTask({ tenant: '', id: task, metadata: undefined }),
      () => drain(other.resubscribeTask({ tenant: '', id: task })),
      () => other.sendMessage(request('x', { taskId: task }))
    ]
    const unknown = await Promise.all(asks('no-such-task').map((ask) => ask().catch((error: Error) => error.message)))
    const foreign = await Promise.all(asks(id).map((ask) => ask().catch((error: Error) => error.message)))
    expect(foreign).toEqual(unknown)
    expect(new Set(foreign.map((message) => /no such task/.test(String(message))))).toEqual(new Set([true]))
    expect((await other.listTasks({ ...listing })).totalSize).toBe(0)
  })

  it('[TD-36] keeps, reads, lists and deletes push configs, and refuses all four where push is off', async () => {
    const plain = await node()
    const { id: known } = await send(await clientOf(plain, binding), 'm-1')
    for (const method of ['Create', 'Get', 'List', 'Delete']) {
      const asked = rpc(`${method}TaskPushNotificationConfig${method === 'List' ? 's' : ''}`, {
        taskId: known,
        id: 'c',
        url: 'https://example.net'
      })
      const refused = await post(`${plain.edge.url}/agents/${BERT.did}`, asked, { agent: ANNA })
      expect([method, refused.body.error.code]).toEqual([method, -32003])
    }
    const config = { tenant: '', id: '', taskId: known, url: 'https://example.net/hook', token: '', authentication: undefined }

    const client = await clientOf(await node({ push: pushConfigs() }), binding)
    const { id: taskId } = await send(client, 'm-1')
    const made = await client.createTaskPushNotificationConfig({ ...config, taskId })
    expect(made).toMatchObject({ id: 'c-1', taskId, url: config.url })
    const place = { tenant: '', taskId, id: made.id }
    expect((await client.getTaskPushNotificationConfig(place)).url).toBe(config.url)
    expect((await client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' })).configs).toHaveLength(1)
    await client.deleteTaskPushNotificationConfig(place)
    await client.deleteTaskPushNotificationConfig(place)
    await expect(client.getTaskPushNotificationConfig(place)).rejects.toThrow(/no such task/)
  })
})

describe('a client of A2A 0.3', () => {
  it('[F013] [F014] sends, reads, cancels and streams by the SDK’s own compatibility layer, where that is on', async () => {
    const running = await node()
    const client = await clientOf(running, '0.3')
    const task = await send(client, 'm-1')
    expect(task.status?.state).toBe(TaskState.TASK_STATE_SUBMITTED)
    expect((await client.getTask({ tenant: '', id: task.id })).id).toBe(task.id)
    const stream = client.resubscribeTask({ tenant: '', id: task.id })
    expect(statesOf([(await stream.next()).value as StreamResponse])).toEqual([TaskState.TASK_STATE_SUBMITTED])
    expect((await client.cancelTask({ tenant: '', id: task.id, metadata: undefined })).status?.state).toBe(TaskState.TASK_STATE_CANCELED)
    expect(statesOf(await drain(stream)).at(-1)).toBe(TaskState.TASK_STATE_CANCELED)
    await expect(client.getTask({ tenant: '', id: 'none' })).rejects.toThrow(/no such task/)
    expect((await running.todos.list({})).todos.map(({ door }) => door)).toEqual(['a2a-http'])
  })

  it('[F013] is refused by its version where 0.3 is off, and reads a card of its form where it is on', async () => {
    const off = await node({ edge: {} })
    await expect((await clientOf(off, '0.3')).getTask({ tenant: '', id: 'x' })).rejects.toThrow(/not supported/)
    const on = await node()
    const url = `${on.edge.url}/agents/${BERT.did}/.well-known/agent-card.json`
    const old = (await (await fetch(url)).json()) as JsonObject
    expect(old).toMatchObject({ protocolVersion: '0.3.0', preferredTransport: 'JSONRPC', url: `${on.edge.url}/agents/${BERT.did}` })
    expect('preferredTransport' in ((await (await fetch(url, { headers: { 'A2A-Version': '1.0' } })).json()) as JsonObject)).toBe(false)
  })
})
