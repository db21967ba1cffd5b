import { request } from 'node:http'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Traffic } from '../../src/net/traffic.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { openOps } from '../../src/ops/open-ops.ts'
import type { OpsServer } from '../../src/ops/ops-server.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

let dir: ReturnType<typeof nodeDir>
let node: RookeryNode
let ops: OpsServer
const traffic = new Traffic()

beforeAll(async () => {
  dir = nodeDir()
  node = await createNode({ ...LOOPBACK, ops: { port: 0 }, dataDir: dir.path }, { traffic })
  await node.addAgent({ name: 'alice' })
  ops = await openOps(node, { traffic })
})
afterAll(async () => {
  await node.stop()
  dir.remove()
})

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

function ask(path: string, options: { method?: string; host?: string } = {}): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const { method = 'GET', host } = options
  const sent = request(
    { host: '127.0.0.1', port: ops.port, path, method, ...(host === undefined ? {} : { headers: { host } }) },
    (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
    }
  )
  sent.on('error', reject)
  sent.end()
  return promise
}

describe("the operator's server", () => {
  it('says whether the process lives and whether work may be sent, and why', async () => {
    for (const path of ['/healthz', '/readyz']) {
      const { status, text } = await ask(path)
      expect(status).toBe(200)
      expect(JSON.parse(text)).toEqual({
        status: 'ok',
        checks: [
          { name: 'store', state: 'ok', detail: 'takes writes' },
          { name: 'a2a', state: 'ok', detail: node.httpUrl },
          { name: 'network', state: 'note', detail: expect.stringContaining('no peer') },
          { name: 'handlers', state: 'ok', detail: 'all at work' },
          { name: 'bounds', state: 'ok', detail: 'none is near' }
        ]
      })
    }
  })

  it('gives metrics that Prometheus reads: named with their units, labels of closed sets', async () => {
    await node.sleep(node.agents.get('alice'))
    const { status, headers, text } = await ask('/metrics')
    expect(status).toBe(200)
    expect(headers['content-type']).toContain('text/plain; version=0.0.4')
    const lines = text.split('\n')
    expect(lines).toContain('rookery_peers 0')
    expect(lines).toContain('rookery_agents{state="asleep"} 1')
    expect(lines).toContain('rookery_queue_messages 0')
    expect(lines).toContain('rookery_store_state{state="ok"} 1')
    expect(lines).toContain('# TYPE rookery_registry_refused_total counter')
    expect(text).toMatch(/^process_resident_memory_bytes \d+/m)
    expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds /m)
    const names = [...text.matchAll(/^# TYPE (rookery_\w+) (\w+)$/gm)]
    expect(names.length).toBeGreaterThan(15)
    for (const [, name, type] of names) expect((name as string).endsWith('_total')).toBe(type === 'counter')
    await node.wake(node.agents.get('alice'))
    expect((await ask('/metrics')).text).toContain('rookery_agents{state="accepts"} 1')
  })

  it('answers to loopback names only, and to nothing that it does not know', async () => {
    expect((await ask('/metrics', { host: 'attacker.example' })).status).toBe(403)
    expect((await ask('/metrics', { host: 'localhost:9' })).status).toBe(200)
    expect((await ask('/nothing')).status).toBe(404)
    const { status, headers } = await ask('/metrics', { method: 'DELETE' })
    expect([status, headers.allow]).toEqual([405, 'GET'])
    const head = await ask('/healthz', { method: 'HEAD' })
    expect([head.status, head.text]).toEqual([200, ''])
    for (const header of ['x-content-type-options', 'cache-control']) expect(head.headers[header]).toBeDefined()
  })

  it('says of a port that is taken which setting names it', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as { port: number }
    const former = node.config.ops.port
    node.config.ops.port = port
    await expect(openOps(node)).rejects.toMatchObject({ code: 'PORT_IN_USE', field: 'ops.port', value: port, remedy: expect.any(String) })
    node.config.ops.port = former
    taken.close()
  })
})
