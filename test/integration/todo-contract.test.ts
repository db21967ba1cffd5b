import { readFileSync } from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, describe, expect, it } from 'vitest'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { JsonObject, Todo } from '../../src/tasks/todo.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function newNode(bootstrap: string[] = []): Promise<RookeryNode> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const node = await createNode({ ...LOOPBACK, bootstrap, dataDir: dir.path })
  cleanups.push(() => node.stop())
  return node
}

interface Fixture {
  messageId: string
  parts: JsonObject[]
  contextId?: string
  /** what every binding has to say to it */
  says: 'takes it' | 'knows it' | 'refuses it'
}

const FIXTURES: Fixture[] = [
  { messageId: 'm1', parts: [{ text: 'one' }], says: 'takes it' },
  { messageId: 'm2', parts: [{ data: null }, { data: { deep: [1, null] } }], says: 'takes it' },
  { messageId: 'm3', parts: [{ raw: 'AAEC', filename: 'a.bin', mediaType: 'application/octet-stream' }], says: 'takes it' },
  { messageId: 'm1', parts: [{ text: 'one' }], says: 'knows it' },
  { messageId: 'm1', parts: [{ text: 'other' }], says: 'refuses it' },
  { messageId: 'm4', parts: [{}], says: 'refuses it' },
  { messageId: 'm5', parts: [{ text: 'a', url: 'https://example.org' }], says: 'refuses it' },
  { messageId: 'm6', parts: [{ text: 'in a context' }], contextId: 'OWN', says: 'takes it' },
  { messageId: 'm7', parts: [{ text: 'x' }], contextId: 'no spaces', says: 'refuses it' }
]

/** The id of the Todo that it became, or undefined where it was refused. */
type Send = (message: JsonObject) => Promise<string | undefined>

function tokenOf(node: RookeryNode, agent: HostedAgent): string {
  return readFileSync(node.agents.tokenFile(agent) as string, 'utf8').trim()
}

async function posted(node: RookeryNode, agent: HostedAgent, path: string, body: object): Promise<JsonObject> {
  const response = await fetch(`${node.httpUrl}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tokenOf(node, agent)}`, 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify(body)
  })
  return (await response.json()) as JsonObject
}

const taskId = (holder: unknown): string | undefined => (holder as { task?: { id?: string } } | undefined)?.task?.id
const configuration = { returnImmediately: true }

describe('one Todo, whatever the binding', () => {
  it('[TD-R3] [TD-12] [TD-14] [TD-15] JSON-RPC, HTTP+JSON, MCP and a session give equal answers to the same fixtures, and leave equal rows', async () => {
    const node = await newNode()
    const far = await newNode(node.host.addresses().map((address) => `${address}/p2p/${node.peer}`))
    while ([node, far].some(({ host }) => host.peers().length === 0 || host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
    const bob = await node.addAgent({ name: 'bob' })
    const remote = await far.addAgent({ name: 'remote' })
    const [byRpc, byRest, byMcp] = await Promise.all(['rpc', 'rest', 'mcp'].map((name) => node.addAgent({ name })))
    if (byRpc === undefined || byRest === undefined || byMcp === undefined) throw new TypeError('three agents')

    const client = new Client({ name: 'test', version: '1' })
    const headers = { Authorization: `Bearer ${tokenOf(node, byMcp)}` }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${node.httpUrl}/mcp`), { requestInit: { headers } }) as never)
    cleanups.push(() => client.close())

    const bindings: Record<string, { caller: HostedAgent; send: Send }> = {
      'a2a-http': {
        caller: byRpc,
        send: async (message) => {
          const params = { message, configuration }
          const { result } = await posted(node, byRpc, `/agents/${bob.did}`, { jsonrpc: '2.0', id: 1, method: 'SendMessage', params })
          return taskId(result)
        }
      },
      'HTTP+JSON': {
        caller: byRest,
        send: async (message) => taskId(await posted(node, byRest, `/agents/${bob.did}/message:send`, { message, configuration }))
      },
      mcp: {
        caller: byMcp,
        send: async ({ messageId, parts, contextId }) => {
          const given = { agent: 'bob', dedup_key: messageId, parts, ...(contextId === undefined ? {} : { context_id: contextId }) }
          const { structuredContent } = await client.callTool({ name: 'create_for', arguments: given })
          return (structuredContent as { todo?: Todo } | undefined)?.todo?.id
        }
      },
      'a2a-pss': {
        caller: remote,
        send: async (message) => {
          const outcome = await far.send({ from: remote, to: bob.eid, message }, { waitMs: 0 }).catch(() => undefined)
          return taskId(outcome)
        }
      }
    }
    const rows: Record<string, unknown> = {}
    for (const [name, { caller, send }] of Object.entries(bindings)) {
      const ids = new Map<string, string>()
      for (const { messageId, parts, contextId, says } of FIXTURES) {
        const context = contextId === 'OWN' ? `ctx-${caller.name}` : contextId
        const id = await send({ messageId, role: 'ROLE_USER', parts, ...(context === undefined ? {} : { contextId: context }) })
        const known = ids.get(messageId)
        const said = id === undefined ? 'refuses it' : known === id ? 'knows it' : 'takes it'
        expect([name, messageId, said]).toEqual([name, messageId, says])
        if (id !== undefined) ids.set(messageId, id)
      }
      const { todos } = await node.todos.list({ agent: bob.homeHex, caller: `eid:${caller.homeHex}` })
      rows[name] = todos
        .map(
          ({
            id: _,
            caller: __,
            contextId,
            createdAtMs: ___,
            changedAtMs: ____,
            dedupKey,
            door: _____,
            digest,
            trail,
            history,
            ...rest
          }) => ({
            ...rest,
            // the context is part of what the digest is taken over, and here each caller has its own
            digest: contextId === `ctx-${caller.name}` ? 'of its own' : digest,
            dedupKey: dedupKey.replace(caller.homeHex, 'CALLER'),
            contextId: contextId === `ctx-${caller.name}` ? 'OWN' : 'new',
            trail: trail?.map(({ n, kind, state }) => ({ n, kind, state })),
            history: history.map(({ parts, role, messageId }) => ({ parts, role, messageId }))
          })
        )
        .sort((a, b) => (a.dedupKey < b.dedupKey ? -1 : 1))
    }
    const [first, ...others] = Object.values(rows)
    expect(first).toHaveLength(4)
    for (const other of others) expect(other).toEqual(first)
  })
})
