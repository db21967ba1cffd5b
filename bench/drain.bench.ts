/** How many messages a second become tasks when their agent wakes (opened, verified, written with the end of their record), beside bare synced puts? */
import { rmSync } from 'node:fs'
import { homeOf } from '../src/identity/agent.ts'
import { levelLog, openQueue, sealed, tempDir } from './asleep-queue.ts'
import { newAgent } from './endpoints.ts'
import { compare } from './harness.ts'

const COUNT = 600
const MESSAGE_BYTES = 1_024
const [from, to] = [newAgent(), newAgent()]
const dir = tempDir()
const open = await openQueue(dir)
const { drain, todos } = await open.drainOf(1_000_000)
const bare = await levelLog()
let made = 0

/** With the CPU time of this process for a message. */
async function drained() {
  const objects = await Promise.all(Array.from({ length: COUNT }, () => sealed(from, to, `drain-${made++}`, MESSAGE_BYTES)))
  await Promise.all(objects.map((object) => open.queue.enqueue({ audience: homeOf(to), principal: 'eid:bench', object })))
  const cpu = process.cpuUsage()
  const startedMs = performance.now()
  const { accepted } = await drain.drain(to)
  const tookMs = performance.now() - startedMs
  const { user, system } = process.cpuUsage(cpu)
  if (accepted !== COUNT) throw new Error(`${accepted} of ${COUNT} accepted`)
  return { value: (COUNT / tookMs) * 1_000, beside: { 'CPU µs': (user + system) / COUNT } }
}

async function puts(): Promise<number> {
  const bytes = new Uint8Array(MESSAGE_BYTES)
  const startedMs = performance.now()
  for (let i = 0; i < COUNT; i++) await bare.append(bytes)
  return (COUNT / (performance.now() - startedMs)) * 1_000
}

await compare(
  {
    id: 'drain',
    question: `Messages of ${MESSAGE_BYTES} bytes handed over at a wake, without a bound on the rate`,
    unit: 'messages/s',
    better: 'higher',
    placement: 'one process, not pinned',
    baseline: bare.name,
    rounds: 7
  },
  [
    { name: bare.name, sample: puts },
    { name: 'drain of an asleep queue', sample: drained }
  ]
)
await todos.stop()
await bare.stop()
await open.store.close()
rmSync(dir, { recursive: true, force: true })
process.exit(0)
