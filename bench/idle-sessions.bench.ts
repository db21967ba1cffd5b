/** How much memory do 1,000 idle sessions take in a node? All ends are in this process, over real QUIC, each node with its LevelDB on disk. */

import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { openStore } from '../src/store/open-store.ts'
import { withoutConnectionLimits } from './changed-host.ts'
import { newAgent, ours } from './endpoints.ts'
import { writeFigures } from './harness.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const KIB = 1_024
/** a connection carries at most 512 streams of sessions: four other nodes hold the other ends */
const OTHERS = 4
const AGENTS = { ofEach: 10, ofNode: 25 }
const SESSIONS = OTHERS * AGENTS.ofEach * AGENTS.ofNode
const SETTLE_MS = 4_000
/** warm-up, so that code and pools are there before the first figure */
const WARM_SESSIONS = 50

async function memory(): Promise<{ heap: number; rss: number }> {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))
  for (let i = 0; i < 3; i++) collectGarbage()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heap: heapUsed + external, rss }
}

const agents = Array.from({ length: AGENTS.ofNode }, newAgent)
const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-idle-'))
const stored = async (name: string) => openStore(join(dir, name), { software: 'bench' })
const node = await ours(agents, { store: await stored('node'), change: withoutConnectionLimits })
const address = { peer: node.host.peer, addrs: node.host.addresses() }
const others = await Promise.all(
  Array.from({ length: OTHERS }, async (_, i) => {
    const theirs = Array.from({ length: AGENTS.ofEach }, newAgent)
    return { agents: theirs, ...(await ours(theirs, { store: await stored(`other-${i}`) })) }
  })
)
const pairs = others.flatMap((other) => other.agents.flatMap((from) => agents.map((to) => ({ other, from, to }))))
const open = ({ other, from, to }: (typeof pairs)[number]) => other.sessions.open(from, to.eid, address)

for (const session of await Promise.all(pairs.slice(0, WARM_SESSIONS).map(open))) await session.close()
const before = await memory()
for (const pair of pairs) await open(pair)
const after = await memory()
const ends = node.sessions.list().length + others.reduce((sum, { sessions }) => sum + sessions.list().length, 0)
if (ends !== 2 * SESSIONS) throw new Error(`${ends} ends of sessions are open, not ${2 * SESSIONS}`)

const figures = {
  sessions: SESSIONS,
  heapKibPerEnd: (after.heap - before.heap) / KIB / ends,
  rssKibPerEnd: (after.rss - before.rss) / KIB / ends,
  heapMib: { before: before.heap / KIB / KIB, after: after.heap / KIB / KIB },
  rssMib: { before: before.rss / KIB / KIB, after: after.rss / KIB / KIB },
  load: loadavg()
}
console.log(`\nMemory of ${SESSIONS.toLocaleString('en')} idle sessions, both ends in one process  [KiB an end, lower is better]`)
console.log(`  heap ${figures.heapKibPerEnd.toFixed(1)}   RSS ${figures.rssKibPerEnd.toFixed(1)}   (target: 30)`)
writeFigures('idle-sessions', { question: 'Memory of an idle session', figures })
rmSync(dir, { recursive: true, force: true })
process.exit(0)
