/** How fast is a queue handed over when each record waits for a sync of its own, and when several share one? */
import { rmSync } from 'node:fs'
import { DRAIN_BATCH_MAX } from '../src/delivery/drain.ts'
import { homeOf } from '../src/identity/agent.ts'
import { openQueue, sealed, tempDir } from './asleep-queue.ts'
import { newAgent } from './endpoints.ts'
import { compare } from './harness.ts'

const RECORDS = 500
const MESSAGE_BYTES = 1_024
const ROUNDS = 5

const [from, to] = [newAgent(), newAgent()]
const dir = tempDir()
const { queue, store, drainOf } = await openQueue(dir)
let round = 0

async function rate(batchMax: number): Promise<number> {
  const name = `r${round++}`
  const principal = `eid:${homeOf(from)}`
  const objects = await Promise.all(Array.from({ length: RECORDS }, (_, i) => sealed(from, to, `${name}-${i}`, MESSAGE_BYTES)))
  await Promise.all(objects.map((object) => queue.enqueue({ audience: homeOf(to), principal, object })))
  const { todos, drain } = await drainOf(1_000_000, batchMax)
  const startedMs = performance.now()
  const { accepted } = await drain.drain(to)
  const perSec = (accepted / (performance.now() - startedMs)) * 1_000
  await todos.stop()
  if (accepted !== RECORDS) throw new Error(`${accepted} of ${RECORDS} were handed over`)
  return perSec
}

const one = 'one sync a record'
await compare(
  {
    id: 'drain',
    question: `Handing over ${RECORDS} queued messages of 1 KiB: validated, replay name, Todo, removal, all synced`,
    unit: 'messages/s',
    better: 'higher',
    placement: 'one process, one disk',
    baseline: one,
    rounds: ROUNDS
  },
  [
    { name: one, sample: () => rate(1) },
    { name: `up to ${DRAIN_BATCH_MAX} in one sync`, sample: () => rate(DRAIN_BATCH_MAX) }
  ]
)
await store.close()
rmSync(dir, { recursive: true, force: true })
