import http, { type Server } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { duplexPair } from 'node:stream'
import { MemoryLevel } from 'memory-level'
import { concat } from '../../../protocol/bytes.ts'
import { Store } from '../../../src/store/store.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe } from './support.ts'

/** Requests that one edge answers before the next one takes its place: what it stores stays small. */
const REQUESTS_MAX = 2_000
const ANSWER_MS_MAX = 20_000
const BODY_BYTES_SHOWN = 400

interface Edge {
  readonly server: Server
  readonly did: string
  readonly token: string
  requests: number
  readonly stop: () => Promise<void>
}

let edge: Edge | undefined

/** The real edge over a store in memory; its HTTP server is taken hold of, so that connections reach it without sockets. */
async function opened(): Promise<Edge> {
  if (edge !== undefined && edge.requests < REQUESTS_MAX) return edge
  await edge?.stop()
  let server: Server | undefined
  const { createServer } = http
  http.createServer = ((...args: Parameters<typeof createServer>) => {
    server = createServer(...args)
    return server
  }) as typeof createServer
  syncBuiltinESMExports()
  const { startA2aNode, tempDir, testAgent } = await import('../../support/a2a-fixture.ts')
  const dir = tempDir()
  const agent = testAgent(1)
  const stores: Store[] = []
  const node = await startA2aNode({
    dir: dir.path,
    agents: [agent],
    blockingWaitMs: 50,
    wrapStore: (store) => {
      stores.push(store)
      return new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    }
  })
  http.createServer = createServer
  syncBuiltinESMExports()
  if (server === undefined) throw new Error('the edge opened no HTTP server')
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

/** @returns all that the server wrote until it closed the connection */
async function exchanged({ server }: Edge, request: Uint8Array): Promise<string> {
  const [client, remote] = duplexPair()
  server.emit('connection', remote)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const chunks: Buffer[] = []
  const late = setTimeout(() => reject(new Error(`no answer within ${ANSWER_MS_MAX} ms`)), ANSWER_MS_MAX)
  const done = () => resolve(Buffer.concat(chunks).toString('latin1'))
  client
    .on('data', (chunk: Buffer) => chunks.push(chunk))
    .on('end', done)
    .on('close', done)
    .on('error', done)
  client.write(request)
  try {
    return await promise
  } finally {
    clearTimeout(late)
    client.destroy()
  }
}

/** First line: method and path, where `@` stands for the agent. Then headers, an empty line, the body. */
const httpEdge: FuzzTarget = {
  name: 'http',
  bytesMax: 4_096,
  mutators: [
    mutateJson([
      'SendMessage',
      'GetTask',
      'a2a-version',
      '1.0',
      'application/json',
      'Bearer',
      '/agents/@/',
      '/message:send',
      '/tasks/',
      ':cancel'
    ])
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
    const answer = await exchanged(open, requestOf(bytes, open))
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1])
    mustBe(status >= 100, 'every request is answered')
    mustBe(status !== 500 && !answer.includes('INTERNAL_ERROR'), `no request makes the edge fail: ${answer.slice(0, BODY_BYTES_SHOWN)}`)
  }
}

/** Host, token and length are always true, unless the input names the first two itself. */
function requestOf(bytes: Uint8Array, { did, token }: Edge): Uint8Array {
  const raw = Buffer.from(bytes).toString('latin1')
  const at = raw.indexOf('\n\n')
  const [line = '', ...headers] = (at < 0 ? raw : raw.slice(0, at)).split('\n')
  const body = at < 0 ? new Uint8Array(0) : bytes.subarray(at + 2)
  const kept = headers.filter((header) => !/^\s*(content-length|transfer-encoding|connection|expect|upgrade)\s*:/i.test(header))
  const has = (name: string) => kept.some((header) => header.toLowerCase().startsWith(`${name}:`))
  const head = [
    `${line.replace('@', encodeURIComponent(did)) || 'GET /'} HTTP/1.1`,
    ...(has('host') ? [] : ['host: localhost']),
    ...(has('authorization') ? [] : [`authorization: Bearer ${token}`]),
    ...kept,
    `content-length: ${body.length}`,
    'connection: close'
  ]
  return concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), body])
}

export const targets: readonly FuzzTarget[] = [httpEdge]
