import { readFileSync } from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterEach, describe, expect, it } from 'vitest'
import { sideEffectsOf, type ToolAnnotations } from '../../protocol/ecc/tighten.ts'
import { WORK_WAITERS_PER_AGENT_MAX } from '../../src/doors/agent-work.ts'
import { WORK_STREAMS_PER_AGENT_MAX } from '../../src/doors/work-door.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { JsonObject, Todo } from '../../src/tasks/todo.ts'
import { aContract } from '../support/ecc-values.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into whatever JSON came
  body: any
}

interface Bench {
  node: RookeryNode
  bob: HostedAgent
  alice: HostedAgent
  call(agent: HostedAgent, method: string, path: string, body?: unknown): Promise<Answer>
  token(agent: HostedAgent): string
}

async function bench(config: object = {}): Promise<Bench> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const node = await createNode({ ...LOOPBACK, dataDir: dir.path, tasks: { retryFirst: '0ms' }, ...config })
  cleanups.push(() => node.stop())
  const alice = await node.addAgent({ name: 'alice' })
  const bob = await node.addAgent({ name: 'bob' })
  const token = (agent: HostedAgent) => readFileSync(node.agents.tokenFile(agent) as string, 'utf8').trim()
  const call: Bench['call'] = async (agent, method, path, body) => {
    const response = await fetch(`${node.httpUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${token(agent)}`, ...(method === 'POST' ? { 'content-type': 'application/json' } : {}) },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) })
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }
  return { node, bob, alice, call, token }
}

const say = (text: string, messageId: string = crypto.randomUUID()): JsonObject => ({ messageId, role: 'ROLE_USER', parts: [{ text }] })
const settle = { waitMs: 0 }

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await systemClock.sleep(5)
}

/** Events of a stream, as they come. */
async function eventsOf(
  b: Bench,
  agent: HostedAgent
): Promise<{ next(): Promise<{ event: string; id?: string; data: JsonObject }>; close(): void }> {
  const stop = new AbortController()
  const response = await fetch(`${b.node.httpUrl}/v1/work/events`, {
    headers: { authorization: `Bearer ${b.token(agent)}` },
    signal: stop.signal
  })
  if (response.status !== 200 || response.body === null) throw new Error(`no stream: ${response.status} ${await response.text()}`)
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  const next = async () => {
    for (;;) {
      const end = rest.indexOf('\n\n')
      if (end >= 0) {
        const lines = rest.slice(0, end).split('\n')
        rest = rest.slice(end + 2)
        const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
        const event = field('event')
        const id = field('id')
        if (event !== undefined) return { event, data: JSON.parse(field('data') as string), ...(id === undefined ? {} : { id }) }
        continue
      }
      const { value, done } = await reader.read()
      if (done) throw new Error('the stream ended')
      rest += value
    }
  }
  const close = () => stop.abort()
  cleanups.push(close)
  return { next, close }
}

describe('the claim API over HTTP', () => {
  it('[TD-08] [TD-13] hands a waiting claim the task as it comes, takes progress and the result, and the caller has it', async () => {
    const b = await bench()
    const waiting = b.call(b.bob, 'POST', '/v1/work/claim', { waitMs: 20_000, leaseMs: 5_000, sideEffects: 'none' })
    const answer = b.node.send({ from: b.alice, to: b.bob.eid, message: say('two and two?') })
    const { status, body } = await waiting
    expect(status).toBe(200)
    expect(body).toMatchObject({
      claim: /^[0-9a-f]{32}$/,
      todo: { state: 'claimed', attempt: 1, caller: `eid:${b.alice.eidHex}` }
    } as never)
    expect(body.todo.message.parts).toEqual([{ text: 'two and two?' }])
    const { claim, todo } = body
    const act = (name: string, more = {}) => b.call(b.bob, 'POST', `/v1/work/${todo.id}/${name}`, { claim, ...more })
    expect(await act('renew', { leaseMs: 60_000 })).toMatchObject({ status: 200, body: { state: 'claimed' } })
    expect(await act('progress', { text: 'counting' })).toMatchObject({ status: 200 })
    expect(await act('progress', { artifact: { artifactId: 'sum', parts: [{ text: 'four' }] } })).toMatchObject({ status: 200 })
    expect(await act('complete', { message: { parts: [{ text: 'there you are' }] } })).toMatchObject({
      status: 200,
      body: { state: 'done' }
    })
    expect(await answer).toMatchObject({
      outcome: 'task',
      task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ artifactId: 'sum', parts: [{ text: 'four' }] }] }
    })
    const trail = (await b.node.todos.get(todo.id))?.trail?.map(({ kind, door }) => `${kind} ${door}`)
    expect(trail).toEqual(['created library', 'claimed agent-http', 'progress agent-http', 'artifact agent-http', 'ended agent-http'])
  })

  it('[TD-08] answers 204 when nothing came, releases, retries, rejects, asks and goes on with the answer', async () => {
    const b = await bench()
    expect(await b.call(b.bob, 'POST', '/v1/work/claim', {})).toEqual({ status: 204, body: undefined })
    const sent = await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    const id = (sent as { task: JsonObject }).task.id as string
    const claim = async () => (await b.call(b.bob, 'POST', '/v1/work/claim', {})).body.claim as string
    const act = async (name: string, more = {}) =>
      (await b.call(b.bob, 'POST', `/v1/work/${id}/${name}`, { claim: await claim(), ...more })).body
    expect(await act('release')).toMatchObject({ state: 'pending', attempt: 0 })
    expect(await act('fail', { reason: 'busy', retry: true })).toMatchObject({ state: 'pending', attempt: 1 })
    expect(await act('ask', { text: 'which one?' })).toMatchObject({ state: 'input-required' })
    await b.node.send({ from: b.alice, to: b.bob.eid, message: { ...say('this one'), taskId: id } }, settle)
    expect(await act('reject', { reason: 'not this one' })).toMatchObject({ state: 'rejected' })
    const shown = await b.call(b.bob, 'GET', `/v1/work/${id}`)
    expect(shown.body).toMatchObject({ state: 'rejected', history: [{}, { parts: [{ text: 'this one' }] }] })
    expect((await b.call(b.bob, 'GET', '/v1/work?state=rejected&limit=5')).body.todos.map((one: Todo) => one.id)).toEqual([id])
  })

  it('[G-59] tells a holder at its next call that the caller canceled, and keeps its late result as audit', async () => {
    const b = await bench()
    const sent = await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    const id = (sent as { task: JsonObject }).task.id as string
    const { claim } = (await b.call(b.bob, 'POST', '/v1/work/claim', {})).body
    await b.node.todos.cancel(id)
    for (const [name, more] of [
      ['renew', {}],
      ['complete', { text: 'late' }]
    ] as const) {
      const refused = await b.call(b.bob, 'POST', `/v1/work/${id}/${name}`, { claim, ...more })
      expect(refused).toMatchObject({
        status: 409,
        body: { error: { code: 'LEASE_LOST', data: { state: 'canceled' }, remedy: /./ } }
      } as never)
    }
    expect(await b.node.todos.lateResults(id)).toMatchObject([{ act: 'complete' }])
  })

  it('refuses what is not right with code, field, value and remedy, and does nothing', async () => {
    const b = await bench()
    const sent = await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    const id = (sent as { task: JsonObject }).task.id as string
    const cases = [
      ['/v1/work/claim', '{', 400, 'JSON_INVALID', 'body'],
      ['/v1/work/claim', { leaseMs: 5 }, 400, 'LEASE_INVALID', 'leaseMs'],
      ['/v1/work/claim', { waitMs: 1e9 }, 400, 'WAIT_INVALID', 'waitMs'],
      ['/v1/work/claim', { sideEffects: 'many' }, 400, 'PARAMS_INVALID', 'sideEffects'],
      ['/v1/work/claim', { other: 1 }, 400, 'PARAMS_INVALID', 'other'],
      [`/v1/work/${id}/complete`, { claim: 'x' }, 400, 'PARAMS_INVALID', 'claim'],
      [
        `/v1/work/${id}/complete`,
        { claim: '0'.repeat(32), artifacts: [{ artifactId: 'a', parts: [] }] },
        400,
        'ARTIFACT_INVALID',
        'artifacts[0].parts'
      ],
      [`/v1/work/${id}/complete`, { claim: '0'.repeat(32) }, 409, 'LEASE_LOST', 'id'],
      ['/v1/work/no-such-id/renew', { claim: '0'.repeat(32) }, 404, 'TODO_UNKNOWN', 'id']
    ] as const
    for (const [path, body, status, code, field] of cases) {
      const answer = await b.call(b.bob, 'POST', path, body)
      expect([path, answer.status, answer.body.error.code, answer.body.error.field]).toEqual([path, status, code, field])
    }
    const others = await b.call(b.alice, 'GET', `/v1/work/${id}`)
    expect([others.status, others.body.error.code]).toEqual([404, 'TODO_UNKNOWN'])
    const stranger = await fetch(`${b.node.httpUrl}/v1/work/claim`, {
      method: 'POST',
      headers: { authorization: 'Bearer nonsense' },
      body: '{}'
    })
    expect([stranger.status, stranger.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="rookery"'])
    const wrongDoor = await b.call(b.alice, 'POST', `/agents/${b.bob.did}/v1/work/claim`, {})
    expect(wrongDoor.status).toBe(403)
    expect(await b.node.todos.get(id)).toMatchObject({ state: 'pending', attempt: 0 })
  })

  it('bounds the claims that wait, and forgets one whose process left', async () => {
    const b = await bench()
    const stop = new AbortController()
    const wait = () =>
      fetch(`${b.node.httpUrl}/v1/work/claim`, {
        method: 'POST',
        headers: { authorization: `Bearer ${b.token(b.bob)}`, 'content-type': 'application/json' },
        body: JSON.stringify({ waitMs: 30_000 }),
        signal: stop.signal
      }).catch(() => undefined)
    const waiting = Array.from({ length: WORK_WAITERS_PER_AGENT_MAX }, wait)
    let refused: Answer | undefined
    await until(async () => {
      refused = await b.call(b.bob, 'POST', '/v1/work/claim', { waitMs: 20 })
      return refused.status === 429
    })
    expect(refused?.body.error).toMatchObject({ code: 'WORK_WAITERS_MAX', data: { max: WORK_WAITERS_PER_AGENT_MAX } })
    stop.abort()
    await Promise.all(waiting)
    await until(async () => (await b.call(b.bob, 'POST', '/v1/work/claim', { waitMs: 20 })).status === 204)
    await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).status).toBe(200)
  })

  it('[G-16] [OD-10] makes its agent attached while it asks, and takes nothing out while the agent sleeps', async () => {
    const b = await bench()
    await b.node.setMode(b.bob, { mode: 'session' })
    expect(b.node.reachability(b.bob).state).toBe('asleep')
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', { sideEffects: 'none' })).status).toBe(204)
    expect(b.node.reachability(b.bob).state).toBe('accepts')
    await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    await b.node.sleep(b.bob)
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).status).toBe(204)
    const waiting = b.call(b.bob, 'POST', '/v1/work/claim', { waitMs: 20_000 })
    await b.node.wake(b.bob)
    expect((await waiting).status).toBe(200)
  })

  it('[OD-40] has work out of the asleep queue approved unless the program declared that it does no harm', async () => {
    const b = await bench()
    await b.call(b.bob, 'POST', '/v1/work/claim', {})
    await b.node.sleep(b.bob)
    await b.node.send({ from: b.alice, to: b.bob.eid, message: say('buy it') }, settle)
    await b.node.wake(b.bob)
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).status).toBe(204)
    const [held] = (await b.node.todos.list({ state: 'auth-required' })).todos
    expect(held).toMatchObject({ approval: 'needed', door: 'asleep-queue' })
    await b.node.todos.approve(held?.id as string, 'given')
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).status).toBe(200)
  })

  it('[OD-40] [G-19] has work approved that came out of the queue before any program had declared what it may do', async () => {
    const b = await bench()
    await b.node.sleep(b.bob)
    await b.node.send({ from: b.alice, to: b.bob.eid, message: say('buy it') }, settle)
    await b.node.wake(b.bob)
    const [held] = (await b.node.todos.list({ state: 'pending' })).todos
    expect(held?.door).toBe('asleep-queue')
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).status).toBe(204)
    expect(await b.node.todos.get(held?.id as string)).toMatchObject({ state: 'auth-required', approval: 'needed' })
    await b.node.todos.approve(held?.id as string, 'given')
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).body.todo.id).toBe(held?.id)
    await b.node.send({ from: b.alice, to: b.bob.eid, message: say('live') }, settle)
    expect((await b.call(b.bob, 'POST', '/v1/work/claim', {})).status).toBe(200)
  })

  it('[OD-40] [G-19] has a handler with lasting effects run nothing of the queue that was let through for one without', async () => {
    const b = await bench()
    await b.node.sleep(b.bob)
    await b.node.send({ from: b.alice, to: b.bob.eid, message: say('buy it') }, settle)
    await b.node.wake(b.bob)
    const [held] = (await b.node.todos.list({ state: 'pending' })).todos
    const bought: string[] = []
    await b.node.onTask('bob', async ({ id }) => {
      bought.push(id)
      return {}
    })
    const id = held?.id as string
    await until(async () => (await b.node.todos.get(id))?.state === 'auth-required')
    expect(bought).toEqual([])
    await b.node.todos.approve(id, 'given')
    expect((await b.node.todos.settled(id)).state).toBe('done')
    expect(bought).toEqual([id])
  })

  it('[TD-32] answers HEAD for the events with its head alone, at once, and counts no stream for it', async () => {
    const b = await bench()
    const authorization = `Bearer ${b.token(b.bob)}`
    for (let asked = 0; asked <= WORK_STREAMS_PER_AGENT_MAX; asked++) {
      const { status, headers } = await fetch(`${b.node.httpUrl}/v1/work/events`, { method: 'HEAD', headers: { authorization } })
      expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    }
  }, 60_000)

  it('[TD-25] [TD-32] rings on a stream, reads nothing while it is idle, and bounds the streams', async () => {
    const b = await bench()
    const stream = await eventsOf(b, b.bob)
    expect(await stream.next()).toMatchObject({ event: 'ready', data: { pending: 0 } })
    const sent = await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    const id = (sent as { task: JsonObject }).task.id as string
    const heard = [await stream.next()]
    while (!['todo', 'claimable'].every((name) => heard.some(({ event }) => event === name))) heard.push(await stream.next())
    const ring = { event: `${id}:1`, todo: id, n: 1, kind: 'created', state: 'pending', role: 'agent' }
    expect(heard.filter(({ event }) => event === 'todo')).toEqual([{ event: 'todo', id: `${id}:1`, data: ring }])
    expect(heard).toContainEqual({ event: 'claimable', data: { agent: b.bob.did } })
    const more = await Promise.all(Array.from({ length: WORK_STREAMS_PER_AGENT_MAX - 1 }, () => eventsOf(b, b.bob)))
    const refused = await b.call(b.bob, 'GET', '/v1/work/events')
    expect([refused.status, refused.body.error.code]).toEqual([429, 'WORK_STREAMS_MAX'])
    more[0]?.close()
    await until(async () => {
      const again = await eventsOf(b, b.bob).catch(() => undefined)
      return again !== undefined
    })
  })
})

async function mcp(
  b: Bench,
  agent: HostedAgent
): Promise<{ client: Client; rings: JsonObject[]; tool(name: string, given?: JsonObject): Promise<JsonObject> }> {
  const client = new Client({ name: 'test', version: '1' })
  const rings: JsonObject[] = []
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void rings.push(params.data as JsonObject))
  const transport = new StreamableHTTPClientTransport(new URL(`${b.node.httpUrl}/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${b.token(agent)}` } }
  })
  await client.connect(transport as never)
  cleanups.push(() => client.close())
  const tool = async (name: string, given: JsonObject = {}) => {
    const result = await client.callTool({ name, arguments: given })
    return result.structuredContent as JsonObject
  }
  return { client, rings, tool }
}

describe('the MCP door over streamable HTTP', () => {
  it('[TD-18] [G-72] names its tools as they are known, with what each does to the world', async () => {
    const b = await bench()
    const { client } = await mcp(b, b.bob)
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name).sort()).toEqual([
      'ask',
      'claim_todo',
      'complete',
      'create_for',
      'discover',
      'fail',
      'list_todos',
      'renew',
      'send'
    ])
    expect(Object.fromEntries(tools.map(({ name, annotations }) => [name, sideEffectsOf(annotations as ToolAnnotations)]))).toEqual({
      ask: 'reversible',
      claim_todo: 'reversible',
      complete: 'consequential',
      create_for: 'consequential',
      discover: 'none',
      fail: 'consequential',
      list_todos: 'none',
      renew: 'idempotent',
      send: 'consequential'
    })
    expect(
      tools
        .filter(({ annotations }) => annotations?.openWorldHint)
        .map(({ name }) => name)
        .sort()
    ).toEqual(['discover', 'send'])
  })

  it('[TD-12] [TD-13] [TD-Q4] [TD-15] gives, takes, renews, asks and completes; A2A sees the same task, and the same key is the same todo', async () => {
    const b = await bench()
    const giver = await mcp(b, b.alice)
    const worker = await mcp(b, b.bob)
    const made = (await giver.tool('create_for', { agent: 'bob', text: 'two and two?', dedup_key: 'sum-1', priority: 3 })) as never as {
      created: boolean
      todo: Todo
    }
    expect(made).toMatchObject({ created: true, todo: { state: 'pending', priority: 3 } })
    const { id } = made.todo
    const listed = (await giver.tool('list_todos', { role: 'caller' })) as never as { todos: Todo[] }
    expect(listed.todos.map((one) => one.id)).toEqual([id])
    const byA2a = await b.node.send({ from: b.alice, to: b.bob.eid, message: say('two and two?', 'sum-1') }, settle)
    expect((byA2a as { task: JsonObject }).task.id).toBe(id)
    expect(await giver.tool('create_for', { agent: 'bob', text: 'other', dedup_key: 'sum-1' })).toMatchObject({
      error: { code: 'MESSAGE_ID_REUSED' }
    })

    const { claim, todo } = (await worker.tool('claim_todo', { wait_ms: 1_000, side_effects: 'none' })) as never as {
      claim: string
      todo: Todo
    }
    expect(todo.id).toBe(id)
    expect(await worker.tool('renew', { id, claim, lease_ms: 30_000 })).toMatchObject({ state: 'claimed' })
    expect(await worker.tool('ask', { id, claim, text: 'in which base?' })).toMatchObject({ state: 'input-required' })
    await giver.tool('create_for', { agent: 'bob', text: 'ten', todo_id: id })
    const again = (await worker.tool('claim_todo')) as never as { claim: string; todo: Todo }
    expect(again.todo.history.map(({ parts }) => parts)).toEqual([[{ text: 'two and two?' }], [{ text: 'ten' }]])
    expect(await worker.tool('complete', { id, claim: again.claim, text: 'four' })).toMatchObject({ state: 'done' })
    expect(await worker.tool('claim_todo')).toEqual({ todo: null })
    expect(await b.node.todos.get(id)).toMatchObject({ door: 'mcp', state: 'done', artifacts: [{ parts: [{ text: 'four' }] }] })
    expect(await worker.tool('fail', { id, claim, reason: 'x' })).toMatchObject({
      error: { code: 'LEASE_LOST', field: 'id', remedy: /./ }
    } as never)
    expect(await worker.tool('create_for', { agent: 'nobody', text: 'x' })).toMatchObject({
      error: { code: 'AGENT_UNKNOWN', field: 'agent', value: 'nobody' }
    })
  })

  it('[TD-24] [TD-26] [TD-27] one transition rings at an event stream and at an MCP session, with the same id and state', async () => {
    const b = await bench()
    const session = await mcp(b, b.bob)
    const stream = await eventsOf(b, b.bob)
    expect((await stream.next()).event).toBe('ready')
    const sent = await b.node.send({ from: b.alice, to: b.bob.eid, message: say('one') }, settle)
    const id = (sent as { task: JsonObject }).task.id as string
    await until(() => session.rings.length >= 1)
    let ring = await stream.next()
    while (ring.event !== 'todo') ring = await stream.next()
    expect(session.rings[0]).toEqual(ring.data)
    expect(ring.data).toMatchObject({ event: `${id}:1`, state: 'pending' })
  })

  it('send goes to any agent and gives its answer; discover finds by topic', async () => {
    const b = await bench()
    await b.node.addAgent({ name: 'echo', handler: 'echo' })
    const { tool } = await mcp(b, b.alice)
    expect(await tool('send', { to: 'echo', text: 'hello', wait_ms: 5_000 })).toMatchObject({
      outcome: 'task',
      task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [{ text: 'hello' }] }] }
    })
    expect(await tool('discover', { space: 'no space' })).toMatchObject({ error: { code: /./ } } as never)
  })

  it('[ECC-23] [G-72] lets the hints of a tool lower the side effects that a message permits, and never raise them', async () => {
    const sideEffects = { class: 'reversible', idempotency: 'none' }
    const b = await bench({ edgeCloud: { contracts: { bob: aContract({ sideEffects } as never) } } })
    await b.node.onTask('bob', async () => ({ text: 'done' }), { sideEffects: 'reversible' })
    const { tool } = await mcp(b, b.alice)
    const send = (require: JsonObject | undefined, tool_annotations?: JsonObject) =>
      tool('send', {
        to: 'bob',
        text: 'tidy up',
        wait_ms: 20_000,
        ...(require === undefined ? {} : { require }),
        ...(tool_annotations === undefined ? {} : { tool_annotations })
      })
    const wants = (maxSideEffect: string): JsonObject => ({ version: '1.0', dataClassification: 'internal', maxSideEffect })
    expect(await send(wants('reversible'))).toMatchObject({ outcome: 'task', execution: { status: 'verified' } })
    expect(await send(wants('reversible'), { destructiveHint: false })).toMatchObject({
      outcome: 'task',
      execution: { status: 'verified' }
    })
    for (const [require, hints] of [
      [wants('reversible'), { readOnlyHint: true }],
      [wants('consequential'), { destructiveHint: false, idempotentHint: true }],
      [wants('none'), { destructiveHint: true }]
    ] as const) {
      expect(await send(require, hints)).toMatchObject({
        error: { code: 'EXECUTION_REFUSED', data: { cause: 'SIDE_EFFECT_NOT_PERMITTED' } }
      })
    }
    expect(await send(undefined, { readOnlyHint: true })).toMatchObject({ error: { code: 'PARAMS_INVALID', field: 'tool_annotations' } })
    expect(await b.node.todos.count({ agent: b.bob.eidHex })).toBe(2)
  })

  it('[TD-07] a session is its opener’s alone: without a token, with another’s or after its end there is none', async () => {
    const b = await bench()
    const open = async (agent: HostedAgent | undefined, session?: string) => {
      const initialize = {
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } }
      }
      const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
      const response = await fetch(`${b.node.httpUrl}/mcp`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(agent === undefined ? {} : { authorization: `Bearer ${b.token(agent)}` }),
          ...(session === undefined ? {} : { 'mcp-session-id': session })
        },
        body: JSON.stringify(session === undefined ? initialize : list)
      })
      await response.text()
      return response
    }
    expect((await open(undefined)).status).toBe(401)
    const opened = await open(b.bob)
    const session = opened.headers.get('mcp-session-id') as string
    expect(opened.status).toBe(200)
    expect((await open(b.bob, session)).status).toBe(200)
    expect((await open(b.alice, session)).status).toBe(404)
    expect((await open(b.bob, 'f'.repeat(32))).status).toBe(404)
  })
})
