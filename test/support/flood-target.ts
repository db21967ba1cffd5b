/** The node under attack, in a process of its own with the product's settings: `node --expose-gc flood-target.ts`. Answers `measure` over IPC. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { newAgentRecord } from '../../src/identity/agents.ts'
import { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createHost } from '../../src/net/node-host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { createSessionManager } from '../../src/sessions/create-session-manager.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { TargetFigures, TargetHello } from './flood.ts'

const components = { clock: systemClock, random: systemRandom, logger: silentLogger, crypto: nodeCrypto }
const record = newAgentRecord({ name: 'target' }, { random: systemRandom, nowMs: systemClock.nowMs(), handler: 'manual' })
const agent = new HostedAgent(nodeCrypto, record, { mode: 'always_on' })
const validator = {
  validate() {
    throw new Error('no records here')
  },
  select: () => 'held' as const,
  expiresAtMs: () => 0
}
const host = await createHost(
  { ...components, validator },
  { privateKey: systemRandom.bytes(32), listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] }
)
const dataDir = mkdtempSync(join(tmpdir(), 'rookery-flood-'))
const store = await openStore(dataDir, { software: 'flood' })
const sessions = await createSessionManager({ ...components, host, store, agents: { byEid: () => agent, list: () => [agent] } })

const delay = monitorEventLoopDelay({ resolution: 5 })
delay.enable()

/** The longest time that the loop was at work in one go, by the processor time of its thread: what a loaded machine adds is not in it. */
let busyMaxMs = 0
let lastCpuUs = threadCpuUs()
setInterval(() => {
  const cpuUs = threadCpuUs()
  busyMaxMs = Math.max(busyMaxMs, (cpuUs - lastCpuUs) / 1e3)
  lastCpuUs = cpuUs
}, 1)

function threadCpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** What stays resident: pages go back to the system some time after they are free. */
async function residentBytes(): Promise<number> {
  let least = process.memoryUsage().rss
  for (let i = 0; i < 10; i++) {
    globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    await systemClock.sleep(50)
    least = Math.min(least, process.memoryUsage().rss)
  }
  return least
}

async function measure(): Promise<TargetFigures> {
  const loop = { maxMs: delay.max / 1e6, p99Ms: delay.percentile(99) / 1e6, meanMs: delay.mean / 1e6, busyMaxMs }
  // the last resort also gives back the empty pages that V8 keeps for later, which would count as resident
  for (let i = 0; i < 3; i++) globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
  const { heapUsed, external } = process.memoryUsage()
  const cpu = process.cpuUsage()
  const figures = {
    rss: await residentBytes(),
    heap: heapUsed + external,
    loop,
    cpuMs: (cpu.user + cpu.system) / 1e3,
    held: sessions.held(),
    connections: host.peers().length
  }
  delay.reset()
  busyMaxMs = 0
  lastCpuUs = threadCpuUs()
  return figures
}

process.on('message', () => void measure().then((figures) => process.send?.(figures)))
process.on('disconnect', () => {
  rmSync(dataDir, { recursive: true, force: true })
  process.exit(0)
})
const hello: TargetHello = { did: agent.did, peer: host.peer, addrs: host.addresses() }
process.send?.(hello)
