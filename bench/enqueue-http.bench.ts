/** How many messages for a sleeping agent does the HTTP edge take a second, on 1 and on 32 connections, beside an express echo and synced puts? */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { startA2aNode, testAgent } from '../test/support/a2a-fixture.ts'
import { levelLog, RAISED, sealed, tempDir } from './asleep-queue.ts'
import { newAgent } from './endpoints.ts'
import { compare } from './harness.ts'
import { LOAD_PLACEMENT, MARK, startLoad } from './load.ts'

/** Below what a node keeps of sealed messages; the queue is emptied between two samples. */
const COUNT = 800
const TEXT_BYTES = 512
const app = express().use(express.raw({ type: () => true, limit: '2mb' }))
app.post('/', (req, res) => void res.type('application/json').send(req.body))
const echo = createServer(app).listen(0, '127.0.0.1')
await once(echo, 'listening')
const dir = tempDir()
const [anna, sleeper] = [testAgent(1), testAgent(9, { mode: 'sleep' })]
const node = await startA2aNode({ dir, agents: [anna, sleeper], bounds: RAISED, workers: 'none' })
const load = await startLoad()
const bare = await levelLog()
const [from, to] = [newAgent(), newAgent()]
const message = { messageId: `m-${MARK}`, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(TEXT_BYTES) }] }
const order = {
  headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${anna.token}` },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
  count: COUNT
}

/** With the CPU time that this process, the server, took for a request. */
async function rate(target: { port: number; path: string; status: number }, connections: number) {
  const cpu = process.cpuUsage()
  const { perSec, p99Ms } = await load.run({ ...order, ...target, connections })
  const { user, system } = process.cpuUsage(cpu)
  for await (const { key } of node.queue.records(sleeper.eidHex)) await node.queue.drop(sleeper.eidHex, key)
  return { value: perSec, beside: { 'p99 ms': p99Ms, 'server CPU µs': (user + system) / COUNT } }
}

/** The same bytes, `inFlight` at once, without HTTP; sealed before or as they are. */
async function puts(inFlight: number, isSealed: boolean): Promise<number> {
  const bytes = new TextEncoder().encode(order.body)
  let left = COUNT
  const lane = async () => {
    while (left-- > 0) await bare.append(isSealed ? await sealed(from, to, `m-${left}`, bytes.length) : bytes)
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: inFlight }, lane))
  return (COUNT / (performance.now() - startedMs)) * 1_000
}

for (const connections of [1, 32]) {
  await compare(
    {
      id: `enqueue-http-${connections}`,
      question: `HTTP requests with a message of ${TEXT_BYTES} bytes, ${connections} connection${connections === 1 ? '' : 's'}`,
      unit: 'requests/s',
      better: 'higher',
      placement: LOAD_PLACEMENT,
      baseline: 'express echo',
      rounds: 7
    },
    [
      { name: 'express echo', sample: () => rate({ port: (echo.address() as AddressInfo).port, path: '/', status: 200 }, connections) },
      { name: `${bare.name}, no HTTP`, sample: () => puts(connections, false) },
      { name: 'floor: sealed and signed, then a bare LevelDB put, synced, no HTTP', sample: () => puts(connections, true) },
      {
        name: 'asleep queue over HTTP (sealed, synced, 503 queued)',
        sample: () => rate({ port: node.edge.port, path: `/agents/${sleeper.did}`, status: 503 }, connections)
      }
    ]
  )
}
await load.stop()
await node.stop()
await bare.stop()
echo.close()
rmSync(dir, { recursive: true, force: true })
process.exit(0)
