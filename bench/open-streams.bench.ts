/** What do 1,000 open streams of one task cost, and how long until all of them have its next event, beside the SDK's own server? */
import { rmSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { AgentHandler } from '../src/tasks/handler.ts'
import { startA2aNode, testAgent } from '../test/support/a2a-fixture.ts'
import { tempDir } from './asleep-queue.ts'
import { quantile, writeFigures } from './harness.ts'
import { startReaders } from './open-streams.ts'
import { startSdkServer } from './sdk-server.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const STREAMS = 1_000
const EVENTS = 20
const KIB = 1_024

/** One task that says what it is told to, until the process ends. */
let say: (text: string) => Promise<void> = async () => {
  throw new Error('no task runs')
}
const talker: AgentHandler = async (_task, { progress }) => {
  say = async (text) => await progress({ artifact: { artifactId: 'said', parts: [{ text }] } })
  await new Promise(() => {})
  return undefined
}

const dir = tempDir()
const [anna, agent] = [testAgent(1), testAgent(9)]
const node = await startA2aNode({
  dir,
  agents: [anna, agent],
  handlers: { [agent.name]: talker },
  streams: { perCallerMax: STREAMS, nodeMax: STREAMS },
  edge: { requestsMax: STREAMS + 16, connectionsMax: STREAMS + 16 }
})
const sdk = await startSdkServer()
const headers = { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${anna.token}` }
const rpc = (method: string, params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const message = { messageId: 'm-open', role: 'ROLE_USER', parts: [{ text: 'talk' }] }

const servers = [
  { name: 'the SDK’s own server', port: sdk.port, path: '/', say: sdk.say },
  {
    name: 'a node, every event synced before it is sent',
    port: node.edge.port,
    path: `/agents/${agent.did}`,
    say: (text: string) => say(text)
  }
]

function heap(): number {
  for (let i = 0; i < 3; i++) collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const rows = []
for (const { name, port, path, say: speak } of servers) {
  const body = rpc('SendMessage', { message, configuration: { returnImmediately: true } })
  const answer = (await (await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body })).json()) as {
    result: { task: { id: string } }
  }
  const readers = startReaders()
  const before = heap()
  const startedMs = performance.now()
  await readers.open({ port, path, headers, body: rpc('SubscribeToTask', { id: answer.result.task.id }), count: STREAMS })
  const openMs = performance.now() - startedMs
  const kibEach = (heap() - before) / STREAMS / KIB
  const medians: number[] = []
  const lasts: number[] = []
  for (let i = 0; i < EVENTS; i++) {
    let saidMs = 0
    const marker = `event-${i}-of-the-bench`
    const atMs = await readers.watch(marker, async () => {
      saidMs = performance.timeOrigin + performance.now()
      await speak(marker)
    })
    medians.push(quantile(atMs, 0.5) - saidMs)
    lasts.push(Math.max(...atMs) - saidMs)
  }
  rows.push({ name, streams: STREAMS, kibEach, openMs, medianMs: quantile(medians, 0.5), lastMs: quantile(lasts, 0.5), medians, lasts })
  await readers.close()
  await readers.stop()
}
console.log(`\n${STREAMS} open streams of one task  [readers in a process of their own; ${EVENTS} events]`)
for (const { name, kibEach, openMs, medianMs, lastMs } of rows) {
  const shown = [
    `${kibEach.toFixed(1)} KiB each`,
    `opened in ${openMs.toFixed(0)} ms`,
    `event at half of them after ${medianMs.toFixed(1)} ms`
  ]
  console.log(`  ${name.padEnd(46)}  ${shown.join('   ')}   at all after ${lastMs.toFixed(1)} ms`)
}
writeFigures('open-streams', { question: 'What 1,000 open streams of one task cost', rows })
rmSync(dir, { recursive: true, force: true })
process.exit(0)
