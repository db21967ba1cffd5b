/** How long does a page of ListTasks take at the 10th, the 1,000th, the 10,000th and the 100,000th task, first page and later ones, with and without filters? */
import { rmSync } from 'node:fs'

import type { JsonObject } from '../src/tasks/todo.ts'
import { principal, startA2aNode, testAgent, textMessage } from '../test/support/a2a-fixture.ts'
import { tempDir } from './asleep-queue.ts'
import { quantile, writeFigures } from './harness.ts'
import { LOAD_PLACEMENT, startLoad } from './load.ts'

const DEPTHS = [10, 1_000, 10_000, 100_000]
const PAGE = 10
const CALLS = 60
const SAMPLES = 5
const IN_FLIGHT = 256
const UNBOUNDED = 10_000_000

const dir = tempDir()
const [anna, agent] = [testAgent(1), testAgent(9)]
const todos = {
  openMax: UNBOUNDED,
  openPerCallerMax: UNBOUNDED,
  keptMax: UNBOUNDED,
  keptPerCallerMax: UNBOUNDED,
  keptBytesMax: 2 ** 40,
  keptBytesPerCallerMax: 2 ** 40
}
const node = await startA2aNode({ dir, agents: [anna, agent], todos, workers: 'none' })
const load = await startLoad()
const headers = { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${anna.token}` }
const path = `/agents/${agent.did}`
let filled = 0

/** Every tenth task is one of ten in a context of its own. */
async function fillTo(depth: number): Promise<number> {
  const count = depth - filled
  const startedMs = performance.now()
  const lane = async () => {
    while (filled < depth) {
      const at = filled++
      const more = at % 10 === 0 ? { contextId: `context-${Math.floor(at / 100)}` } : {}
      await node.todos.create({
        agent: agent.eidHex,
        caller: principal(1),
        message: textMessage(`m-${at}`, 'hello', more),
        door: 'library'
      })
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
  return (count / (performance.now() - startedMs)) * 1_000
}

const bodyOf = (params: JsonObject) => JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: { pageSize: PAGE, ...params } })

async function page(params: JsonObject): Promise<{ tasks: { contextId: string }[]; nextPageToken: string; totalSize: number }> {
  const response = await fetch(`http://127.0.0.1:${node.edge.port}${path}`, { method: 'POST', headers, body: bodyOf(params) })
  return ((await response.json()) as { result: Awaited<ReturnType<typeof page>> }).result
}

/** The token of a page that begins about half-way down. */
async function halfWay(depth: number): Promise<string> {
  let pageToken = ''
  for (let seen = 0; seen < depth / 2; seen += 100) {
    const next = (await page({ pageSize: 100, ...(pageToken === '' ? {} : { pageToken }) })).nextPageToken
    if (next === '') break
    pageToken = next
  }
  return pageToken
}

const rows = []
for (const depth of DEPTHS) {
  const fillPerSec = await fillTo(depth)
  const pageToken = await halfWay(depth)
  const asked: [string, JsonObject][] = [
    ['first page', {}],
    ['page half-way', pageToken === '' ? {} : { pageToken }],
    ['one context', { contextId: 'context-0' }],
    ['by state', { status: 'TASK_STATE_SUBMITTED' }],
    ['by a state that none has', { status: 'TASK_STATE_FAILED' }]
  ]
  const total = (await page({})).totalSize
  if (total !== depth) throw new Error(`counts ${total} of ${depth}`)
  const ms: Record<string, number> = {}
  for (const [name, params] of asked) {
    const order = { port: node.edge.port, path, headers, body: bodyOf(params), connections: 1, count: CALLS, status: 200 }
    const medians: number[] = []
    for (let i = 0; i < SAMPLES; i++) medians.push((await load.run(order)).p50Ms)
    ms[name] = quantile(medians, 0.5)
  }
  rows.push({ depth, fillPerSec, ms })
}
console.log(`\nListTasks over HTTP, pages of ${PAGE}, by how many tasks there are  [ms, median of one at a time; ${LOAD_PLACEMENT}]`)
for (const { depth, ms, fillPerSec } of rows) {
  const shown = Object.entries(ms).map(([name, value]) => `${name} ${value.toFixed(2)}`)
  console.log(`  ${String(depth).padStart(7)}  ${shown.join('   ')}   made at ${fillPerSec.toFixed(0)}/s`)
}
writeFigures('list-tasks', { question: 'Time of a page of ListTasks by the number of tasks', page: PAGE, rows })
await load.stop()
await node.stop()
rmSync(dir, { recursive: true, force: true })
process.exit(0)
