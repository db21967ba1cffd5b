import { rmSync } from 'node:fs'
import { CONCURRENCY_WITHOUT_EFFECTS } from '../src/tasks/worker.ts'
import { startA2aNode, testAgent } from '../test/support/a2a-fixture.ts'
import { levelLog, tempDir } from './asleep-queue.ts'
import { compare, type Row } from './harness.ts'
import { LOAD_PLACEMENT, type LoadOrder, MARK, startLoad } from './load.ts'
import { startSdkServer } from './sdk-server.ts'

const TEXT_BYTES = 64
/** what a task's two batches come to: taken up, done */
const BATCHES_BYTES = [2_750, 2_980]
export const SDK = 'the SDK’s own server, tasks in memory'
export const OURS = 'a node, every task synced before its answer'

/** Compares a node and the SDK's server, side by side in this process; `value` chooses what of a run is asked about. */
export async function compareServers({
  method,
  ...question
}: {
  id: string
  question: string
  unit: string
  better: 'lower' | 'higher'
  rounds: number
  method: 'SendMessage' | 'SendStreamingMessage'
  connections: number
  count: number
  until: LoadOrder['until'] & string
  value: 'perSec' | 'p50Ms'
  /** a row for what the two syncs of a task cost alone */
  withFloor?: boolean
}): Promise<Row[]> {
  const { connections, count, until, value, withFloor = false } = question
  const dir = tempDir()
  const [anna, echo] = [testAgent(1), testAgent(9)]
  const unbounded = { openMax: 1_000_000, openPerCallerMax: 1_000_000, keptMax: 1_000_000, keptPerCallerMax: 1_000_000 }
  const node = await startA2aNode({ dir, agents: [anna, echo], todos: unbounded, concurrency: CONCURRENCY_WITHOUT_EFFECTS })
  const sdk = await startSdkServer()
  const load = await startLoad()
  const params = { message: { messageId: `m-${MARK}`, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(TEXT_BYTES) }] } }
  const sample = async (target: { port: number; path: string }) => {
    const cpu = process.cpuUsage()
    const result = await load.run({
      ...target,
      headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${anna.token}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      connections,
      count,
      status: 200,
      until
    })
    const { user, system } = process.cpuUsage(cpu)
    return { value: result[value], beside: { 'p99 ms': result.p99Ms, 'server CPU µs': (user + system) / count } }
  }
  const bare = await levelLog()
  const batches = BATCHES_BYTES.map((bytes) => new Uint8Array(bytes).fill(7))
  const syncs = async () => {
    let left = count
    const lane = async () => {
      while (left-- > 0) for (const batch of batches) await bare.append(batch)
    }
    const startedMs = performance.now()
    await Promise.all(Array.from({ length: connections }, lane))
    return (count / (performance.now() - startedMs)) * 1_000
  }
  const floor = { name: 'floor: two bare LevelDB puts of as many bytes, one after the other, synced, no HTTP', sample: syncs }
  const rows = await compare({ ...question, placement: LOAD_PLACEMENT, baseline: SDK }, [
    { name: SDK, sample: () => sample({ port: sdk.port, path: '/' }) },
    ...(withFloor ? [floor] : []),
    { name: OURS, sample: () => sample({ port: node.edge.port, path: `/agents/${echo.did}` }) }
  ])
  await load.stop()
  await bare.stop()
  await sdk.stop()
  await node.stop()
  rmSync(dir, { recursive: true, force: true })
  return rows
}
