import { readFileSync } from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterEach, describe, expect, it } from 'vitest'
import { MCP_SESSIONS_PER_CALLER_MAX } from '../../src/doors/mcp-door.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { JsonObject, Todo } from '../../src/tasks/todo.ts'
import { post, rpc, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Bench {
  node: RookeryNode
  alice: HostedAgent
  bob: HostedAgent
}

async function bench(): Promise<Bench> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const node = await createNode({ ...LOOPBACK, dataDir: dir.path })
  cleanups.push(() => node.stop())
  return { node, alice: await node.addAgent({ name: 'alice' }), bob: await node.addAgent({ name: 'bob' }) }
}

async function vend({ node, bob }: Bench, more: Partial<Parameters<RookeryNode['grants']['create']>[0]> = {}) {
  const { grant, credential } = await node.grants.create({ agent: bob.eidHex, name: 'desk', ...more })
  return { grant, token: credential as string }
}

const urlOf = ({ node }: Bench, agent: HostedAgent) => `${node.httpUrl}/agents/${agent.did}/mcp`

interface Session {
  client: Client
  rings: JsonObject[]
  tool(name: string, given?: JsonObject): Promise<JsonObject>
}

async function open(b: Bench, token: string, agent = b.bob): Promise<Session> {
  const client = new Client({ name: 'test', version: '1' })
  const rings: JsonObject[] = []
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void rings.push(params.data as JsonObject))
  const headers = { Authorization: `Bearer ${token}` }
  await client.connect(new StreamableHTTPClientTransport(new URL(urlOf(b, agent)), { requestInit: { headers } }) as never)
  cleanups.push(() => client.close())
  const tool = async (name: string, given: JsonObject = {}) => {
    const { structuredContent, content } = await client.callTool({ name, arguments: given })
    return (structuredContent ?? { content }) as JsonObject
  }
  return { client, rings, tool }
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } }
}

/** One request of a session as a client without the SDK makes it; its status, and the session's id. */
async function raw(url: string, token: string, session?: string): Promise<{ status: number; session: string }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${token}`,
      ...(session === undefined ? {} : { 'mcp-session-id': session })
    },
    body: JSON.stringify(session === undefined ? INITIALIZE : { jsonrpc: '2.0', id: 2, method: 'tools/list' })
  })
  await response.text()
  return { status: response.status, session: response.headers.get('mcp-session-id') ?? '' }
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await systemClock.sleep(5)
}

const codeOf = (answer: JsonObject) => (answer as { error?: { code: string } }).error?.code
const todoOf = (answer: JsonObject) => (answer as never as { todo: Todo }).todo

describe('an MCP session with the credential of a grant', () => {
  it('[TD-35] [TD-05] gives work to the agent of its grant and sees what it gave, and has no tool to take work', async () => {
    const b = await bench()
    const [mine, others] = [await vend(b), await vend(b, { name: 'other' })]
    const [session, stranger] = [await open(b, mine.token), await open(b, others.token)]
    expect((await session.client.listTools()).tools.map(({ name }) => name).sort()).toEqual(['create_for', 'list_todos'])
    const { id } = todoOf(await session.tool('create_for', { agent: 'bob', text: 'one', dedup_key: 'k1' }))
    expect(await b.node.todos.get(id)).toMatchObject({ agent: b.bob.eidHex, caller: `grant:${mine.grant.id}`, door: 'mcp' })
    expect(codeOf(await session.tool('create_for', { agent: 'alice', text: 'one' }))).toBe('PERMISSION_DENIED')
    expect(codeOf(await stranger.tool('create_for', { agent: 'bob', text: 'x', todo_id: id }))).toBe('TODO_UNKNOWN')
    expect(await stranger.tool('list_todos', { role: 'agent' })).toEqual({ todos: [] })
    expect(((await session.tool('list_todos')) as never as { todos: Todo[] }).todos.map((one) => one.id)).toEqual([id])
    await until(() => session.rings.some(({ todo }) => todo === id))
    expect(stranger.rings).toEqual([])
    expect(await b.node.todos.count({ agent: b.bob.eidHex })).toBe(1)
  })

  it('[TD-04] [TD-35] puts work into the queue of its grant as SendMessage does, and names no queue that the grant is not bound to', async () => {
    const b = await bench()
    const { token } = await vend(b, { queues: ['billing', 'refunds'] })
    const { tool } = await open(b, token)
    const queueOf = async (given: JsonObject) =>
      (await b.node.todos.get(todoOf(await tool('create_for', { agent: 'bob', text: 'x', ...given })).id))?.queue
    expect(await queueOf({})).toBe('billing')
    expect(await queueOf({ queue: 'refunds' })).toBe('refunds')
    expect(await tool('create_for', { agent: 'bob', text: 'x', queue: 'payroll' })).toMatchObject({ error: { code: 'PERMISSION_DENIED' } })
    const sent = await post(
      `${b.node.httpUrl}/agents/${b.bob.did}`,
      rpc('SendMessage', { message: textMessage('m1'), configuration: { returnImmediately: true } }),
      {
        agent: { token }
      }
    )
    expect((await b.node.todos.get(sent.body.result.task.id))?.queue).toBe('billing')
    expect(await b.node.todos.count({ agent: b.bob.eidHex })).toBe(3)
  })

  it('[TD-04] [TD-05] needs the verb of each call: who may only send hears and lists nothing, who may only read gives nothing', async () => {
    const b = await bench()
    const [sender, reader] = [await vend(b, { name: 'sender', verbs: ['send'] }), await vend(b, { name: 'reader', verbs: ['read'] })]
    const [sends, reads] = [await open(b, sender.token), await open(b, reader.token)]
    expect(todoOf(await sends.tool('create_for', { agent: 'bob', text: 'one' })).state).toBe('pending')
    expect(codeOf(await sends.tool('list_todos'))).toBe('PERMISSION_DENIED')
    expect(codeOf(await reads.tool('create_for', { agent: 'bob', text: 'one' }))).toBe('PERMISSION_DENIED')
    expect(await reads.tool('list_todos')).toEqual({ todos: [] })
    expect(sends.rings).toEqual([])
  })

  it('[TD-Q1] [TD-19] draws create_for and SendMessage from one bucket, and gives the token of a repeated key back', async () => {
    const b = await bench()
    const { token } = await vend(b, { limits: { burst: 2, perMin: 1 } })
    const { tool } = await open(b, token)
    for (let i = 0; i < 4; i++)
      expect(todoOf(await tool('create_for', { agent: 'bob', text: 'one', dedup_key: 'k1' })).state).toBe('pending')
    const send = (id: string) =>
      post(
        `${b.node.httpUrl}/agents/${b.bob.did}`,
        rpc('SendMessage', { message: textMessage(id), configuration: { returnImmediately: true } }),
        {
          agent: { token }
        }
      )
    expect((await send('m1')).status).toBe(200)
    expect(codeOf(await tool('create_for', { agent: 'bob', text: 'two' }))).toBe('SEND_RATE_LIMITED')
    expect((await send('m2')).status).toBe(429)
  })

  it('[G-56] [TD-35] ends with its grant: by revocation at once, its stream too, and by expiry', async () => {
    const b = await bench()
    const { grant, token } = await vend(b)
    const { status, session } = await raw(urlOf(b, b.bob), token)
    expect(status).toBe(200)
    const stream = await fetch(urlOf(b, b.bob), {
      headers: { accept: 'text/event-stream', authorization: `Bearer ${token}`, 'mcp-session-id': session }
    })
    const ended = stream.text().catch(() => 'cut off')
    await b.node.grants.revoke(grant.id)
    await ended
    expect((await raw(urlOf(b, b.bob), token, session)).status).toBe(401)
    expect((await raw(urlOf(b, b.bob), token)).status).toBe(401)
    const brief = await vend(b, { name: 'brief', ttlMs: 1_000 })
    const second = await raw(urlOf(b, b.bob), brief.token)
    await until(async () => (await raw(urlOf(b, b.bob), brief.token, second.session)).status === 401)
  })

  it('[TD-05] belongs to one grant: another one of the same peer, for another agent, does not go on with it', async () => {
    const b = await bench()
    const peer = testAgent(7).eidHex
    const [forBob, forAlice] = [await vend(b, { peer }), await vend(b, { peer, agent: b.alice.eidHex })]
    const { session } = await raw(urlOf(b, b.bob), forBob.token)
    expect((await raw(urlOf(b, b.bob), forBob.token, session)).status).toBe(200)
    expect((await raw(urlOf(b, b.alice), forAlice.token, session)).status).toBe(404)
    expect((await raw(urlOf(b, b.bob), forAlice.token, session)).status).toBe(403)
    const given = todoOf(await (await open(b, forBob.token)).tool('create_for', { agent: 'bob', text: 'one' }))
    expect(given.caller).toBe(`eid:${peer}`)
    expect(await (await open(b, forAlice.token, b.alice)).tool('list_todos')).toEqual({ todos: [] })
  })
})

describe('the bound on MCP sessions', () => {
  it('[TD-31] ends the longest silent session of the caller that opens too many, and nobody else’s', async () => {
    const b = await bench()
    const { token } = await vend(b)
    const owner = readFileSync(b.node.agents.tokenFile(b.bob) as string, 'utf8').trim()
    const own = await raw(urlOf(b, b.bob), owner)
    const sessions: string[] = []
    for (let i = 0; i < MCP_SESSIONS_PER_CALLER_MAX; i++) sessions.push((await raw(urlOf(b, b.bob), token)).session)
    expect(new Set(sessions).size).toBe(MCP_SESSIONS_PER_CALLER_MAX)
    const [first, second] = sessions as [string, string]
    expect((await raw(urlOf(b, b.bob), token, first)).status).toBe(200)
    const more = await Promise.all([raw(urlOf(b, b.bob), token), raw(urlOf(b, b.bob), token)])
    expect(more.map(({ status }) => status)).toEqual([200, 200])
    expect((await raw(urlOf(b, b.bob), token, second)).status).toBe(404)
    expect((await raw(urlOf(b, b.bob), token, sessions[2])).status).toBe(404)
    expect((await raw(urlOf(b, b.bob), token, first)).status).toBe(200)
    expect((await raw(urlOf(b, b.bob), owner, own.session)).status).toBe(200)
  })
})
