import { rmSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { writeFileSync } from 'node:fs'
import { startA2aNode, testAgent } from '../test/support/a2a-fixture.ts'
import { RAISED, tempDir } from './asleep-queue.ts'
import { MARK, startLoad } from './load.ts'
const mode = process.argv[2] ?? 'asleep', connections = Number(process.argv[3] ?? 32), count = Number(process.argv[4] ?? 900)
const dir = tempDir()
const [anna, other] = [testAgent(1), testAgent(9, mode === 'asleep' ? { mode: 'sleep' } : { mode: 'always_on' })]
const node = await startA2aNode({ dir, agents: [anna, other], bounds: RAISED, ...(mode === 'asleep' ? { workers: 'none' as const } : {}) , todos: { openMax: 100000, openPerCallerMax: 100000 } })
const load = await startLoad()
const message = { messageId: `m-${MARK}`, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(512) }] }
const order = { headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${anna.token}` },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }), port: node.edge.port, path: `/agents/${other.did}`, status: mode === 'asleep' ? 503 : 200, connections }
const clear = async () => { for await (const { key } of node.queue.records(other.eidHex)) await node.queue.drop(other.eidHex, key) }
await load.run({ ...order, count: 300 }); await clear()
const s = new Session(); s.connect(); await s.post('Profiler.enable'); await s.post('Profiler.setSamplingInterval', { interval: 200 }); await s.post('Profiler.start')
const c = process.cpuUsage(), t = process.threadCpuUsage?.()
const r = await load.run({ ...order, count })
const u = process.cpuUsage(c), v = process.threadCpuUsage?.(t)
const { profile } = await s.post('Profiler.stop')
writeFileSync('/tmp/rk/w3/p.cpuprofile', JSON.stringify(profile))
console.log(r, 'cpu/req', (u.user + u.system) / count, 'main thread', v && (v.user + v.system) / count, 'syncs', node.store.syncs)
await load.stop(); await node.stop(); rmSync(dir, { recursive: true, force: true }); process.exit(0)
