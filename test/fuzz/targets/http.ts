import type { Server } from 'node:http'
import { MemoryLevel } from 'memory-level'
import { concat } from '../../../protocol/bytes.ts'
import { Store } from '../../../src/store/store.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { exchanged, mustAnswer, REQUESTS_MAX, requestOf, withServer } from './http-support.ts'

interface Edge {
  readonly server: Server
  readonly did: string
  readonly token: string
  requests: number
  readonly stop: () => Promise<void>
}

let edge: Edge | undefined

/** The real edge over a store in memory. */
async function opened(): Promise<Edge> {
  if (edge !== undefined && edge.requests < REQUESTS_MAX) return edge
  await edge?.stop()
  const { startA2aNode, tempDir, testAgent } = await import('../../support/a2a-fixture.ts')
  const dir = tempDir()
  const agent = testAgent(1)
  const stores: Store[] = []
  const { server, opened: node } = await withServer(() =>
    startA2aNode({
      dir: dir.path,
      agents: [agent],
      blockingWaitMs: 50,
      wrapStore: (store) => {
        stores.push(store)
        return new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
      }
    })
  )
  edge = {
    server,
    did: agent.did,
    token: agent.token,
    requests: 0,
    async stop() {
      await node.stop()
      for (const store of stores) await store.close()
      dir.dispose()
    }
  }
  return edge
}

/** First line: method and path, where `@` stands for the agent. Then headers, an empty line, the body. */
const httpEdge: FuzzTarget = {
  name: 'http',
  bytesMax: 4_096,
  mutators: [
    mutateJson(
      ['SendMessage', 'GetTask', 'a2a-version', '1.0', 'application/json', 'Bearer', '/agents/@/', '/message:send', '/tasks/', ':cancel'],
      'head'
    )
  ],
  seeds: () => {
    const head = (line: string, ...headers: string[]) => text([line, ...headers, '', ''].join('\n'))
    const call = (method: string, params: object) =>
      concat([
        head('POST /agents/@', 'content-type: application/json', 'a2a-version: 1.0'),
        json({ jsonrpc: '2.0', id: 1, method, params })
      ])
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] }
    return [
      head('GET /agents/@/.well-known/agent-card.json'),
      head('GET /.well-known/agent-card.json', 'if-none-match: "x"'),
      call('SendMessage', { message }),
      call('SendMessage', { message, configuration: { returnImmediately: true } }),
      call('GetTask', { id: 'x' }),
      call('ListTasks', { pageSize: 2 }),
      call('CancelTask', { id: 'x' }),
      call('SubscribeToTask', { id: 'x' }),
      call('GetExtendedAgentCard', {}),
      concat([head('POST /agents/@/message:send', 'content-type: application/a2a+json', 'a2a-version: 1.0'), json({ message })]),
      head('GET /agents/@/tasks?pageSize=1&status=TASK_STATE_WORKING', 'a2a-version: 1.0'),
      head('GET /agents/@/tasks/x:subscribe', 'a2a-version: 1.0', 'last-event-id: x:1'),
      head('GET /agents/@/tasks/x%2f..?historyLength=1', 'a2a-version: 1.0'),
      concat([head('POST /agents/@/tasks/x:cancel', 'content-type: application/json', 'a2a-version: 1.0'), json({})]),
      concat([
        head('POST /agents/@', 'content-type: application/json'),
        json({
          jsonrpc: '2.0',
          id: 'a',
          method: 'message/send',
          params: { message: { kind: 'message', messageId: 'q', role: 'user', parts: [{ kind: 'text', text: 'x' }] } }
        })
      ])
    ]
  },
  async run(bytes) {
    const open = await opened()
    open.requests++
    const stands = [['@', encodeURIComponent(open.did)]] as const
    mustAnswer(await exchanged(open.server, requestOf(bytes, { authorization: `Bearer ${open.token}`, stands })), /INTERNAL_ERROR/)
  }
}

export const targets: readonly FuzzTarget[] = [httpEdge]
