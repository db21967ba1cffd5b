/** How many messages for a sleeping agent does the HTTP edge take a second, on 1 and on 32 connections, beside an express echo? */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { startA2aNode, testAgent } from '../test/support/a2a-fixture.ts'
import { RAISED, tempDir } from './asleep-queue.ts'
import { compare } from './harness.ts'

/** Below what a node keeps of sealed messages; the queue is emptied between two samples. */
const COUNT = 800
const app = express().use(express.raw({ type: () => true, limit: '2mb' }))
app.post('/echo', (req, res) => void res.type('application/json').send(req.body))
const echo = createServer(app).listen(0, '127.0.0.1')
await once(echo, 'listening')
const dir = tempDir()
const [anna, sleeper] = [testAgent(1), testAgent(9, { mode: 'sleep' })]
const node = await startA2aNode({ dir, agents: [anna, sleeper], bounds: RAISED, workers: 'none' })
let message = 0

async function rate(url: string, expected: number, connections: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  let left = COUNT
  const lane = async () => {
    while (left-- > 0) {
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SendMessage',
        params: { message: { messageId: `m-${message++}`, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(512) }] } }
      })
      const headers = { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${anna.token}` }
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const call = request(url, { method: 'POST', agent, headers }, (res) => res.resume().on('end', () => resolve(res.statusCode)))
        call.on('error', reject).end(body)
      })
      if (status !== expected) throw new Error(`answered ${status}`)
    }
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: connections }, lane))
  const perSec = (COUNT / (performance.now() - startedMs)) * 1_000
  agent.destroy()
  for await (const { key } of node.queue.records(sleeper.eidHex)) await node.queue.drop(sleeper.eidHex, key)
  return perSec
}

for (const connections of [1, 32]) {
  await compare(
    {
      id: `enqueue-http-${connections}`,
      question: `HTTP requests with a message of 512 bytes, ${connections} connection${connections === 1 ? '' : 's'}`,
      unit: 'requests/s',
      better: 'higher',
      placement: 'client and servers in one process',
      baseline: 'express echo',
      rounds: 5
    },
    [
      { name: 'express echo', sample: () => rate(`http://127.0.0.1:${(echo.address() as AddressInfo).port}/echo`, 200, connections) },
      {
        name: 'asleep queue over HTTP (sealed, synced, 503 queued)',
        sample: () => rate(`${node.edge.url}/agents/${sleeper.did}`, 503, connections)
      }
    ]
  )
}
await node.stop()
echo.close()
rmSync(dir, { recursive: true, force: true })
process.exit(0)
