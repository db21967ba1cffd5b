/**
 * What does a message cost at the 10th, the 10,000th and the 100,000th in the queue, how long does a start take with them, how much memory, and how
 * fast are they handed over?
 */
import { rmSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { homeOf } from '../src/identity/agent.ts'
import { openQueue, sealed, tempDir } from './asleep-queue.ts'
import { newAgent } from './endpoints.ts'
import { quantile, writeFigures } from './harness.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const MIB = 1_048_576
const DEPTHS = [10, 10_000, 100_000]
const PROBES = 300
const PROBE_BYTES = 1_024
const FILLER_BYTES = 256
const IN_FLIGHT = 256
const DRAINED = 3_000

function memory() {
  for (let i = 0; i < 3; i++) collectGarbage()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heapMib: (heapUsed + external) / MIB, rssMib: rss / MIB }
}

const [from, to] = [newAgent(), newAgent()]
const audience = homeOf(to)
const dir = tempDir()
let open = await openQueue(dir)
const empty = memory()
let filled = 0

/** Blobs, which cost the queue what objects do but for their signature; what is in the queue does not know the difference. */
async function fillTo(depth: number): Promise<number> {
  const count = depth - filled
  const startedMs = performance.now()
  const lane = async () => {
    while (filled < depth) {
      const object = new Uint8Array(FILLER_BYTES)
      new DataView(object.buffer).setUint32(0, ++filled)
      const { status } = await open.queue.enqueue({ audience, principal: `eid:${filled % 64}`, object, kind: 'opaque' })
      if (status !== 'queued') throw new Error(status)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
  return count === 0 ? 0 : (count / (performance.now() - startedMs)) * 1_000
}

const probes = await Promise.all(Array.from({ length: PROBES }, (_, i) => sealed(from, to, `probe-${i}`, PROBE_BYTES)))
const rows = []
for (const depth of DEPTHS) {
  const fillPerSec = await fillTo(depth)
  const times: number[] = []
  const cpu = process.cpuUsage()
  for (const object of probes) {
    const startedMs = performance.now()
    const answer = await open.queue.enqueue({ audience, principal: 'eid:probe', object })
    times.push((performance.now() - startedMs) * 1_000)
    if (answer.status !== 'queued') throw new Error(answer.status)
    await open.queue.drop(audience, answer.record.key)
  }
  const { user, system } = process.cpuUsage(cpu)
  rows.push({
    depth,
    fillPerSec,
    medianUs: quantile(times, 0.5),
    p25Us: quantile(times, 0.25),
    cpuUs: (user + system) / PROBES,
    ...memory()
  })
}
await open.store.close()
const startedMs = performance.now()
open = await openQueue(dir)
const reopen = { queueMs: open.openMs, wholeMs: performance.now() - startedMs, ...memory() }
await open.store.close()
rmSync(dir, { recursive: true, force: true })

const drainDir = tempDir()
open = await openQueue(drainDir)
for (let i = 0; i < DRAINED; i += 100) {
  const objects = await Promise.all(Array.from({ length: 100 }, (_, j) => sealed(from, to, `drain-${i + j}`, PROBE_BYTES)))
  await Promise.all(objects.map((object) => open.queue.enqueue({ audience, principal: 'eid:probe', object })))
}
const { drain, todos } = await open.drainOf(1_000_000)
const drainStartedMs = performance.now()
const drainCpu = process.cpuUsage()
const report = await drain.drain(to)
const drainMs = performance.now() - drainStartedMs
const used = process.cpuUsage(drainCpu)
if (report.accepted !== DRAINED) throw new Error(`${report.accepted} accepted`)
await todos.stop()
await open.store.close()
rmSync(drainDir, { recursive: true, force: true })

const drained = { messages: DRAINED, perSec: (DRAINED / drainMs) * 1_000, cpuUs: (used.user + used.system) / DRAINED }
console.log('\nCost of a message by how many are queued before it  [µs, lower is better; one at a time, synced]')
for (const { depth, medianUs, p25Us, cpuUs, fillPerSec, heapMib, rssMib } of rows) {
  const shown = [`median ${medianUs.toFixed(0)}`, `p25 ${p25Us.toFixed(0)}`, `CPU ${cpuUs.toFixed(0)}`, `heap ${heapMib.toFixed(0)} MiB`]
  console.log(`  ${String(depth).padStart(7)}  ${shown.join('   ')}   RSS ${rssMib.toFixed(0)} MiB   filled at ${fillPerSec.toFixed(0)}/s`)
}
console.log(`  empty    heap ${empty.heapMib.toFixed(0)} MiB   RSS ${empty.rssMib.toFixed(0)} MiB`)
console.log(`  start with ${DEPTHS.at(-1)} queued: ${reopen.wholeMs.toFixed(0)} ms`)
console.log(
  `  handed over ${DRAINED} messages at ${drained.perSec.toFixed(0)}/s without a bound on the rate (CPU ${drained.cpuUs.toFixed(0)} µs each)`
)
writeFigures('queue-depth', { question: 'Cost by depth of the asleep queue', empty, rows, reopen, drained })
process.exit(0)
