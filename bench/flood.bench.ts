/** What does a flood of 100,000 INITs from 50 connections do to a node, its memory, its event loop and honest strangers? */
import { loadavg } from 'node:os'
import { flood } from '../test/support/flood.ts'
import { quantile, writeFigures } from './harness.ts'
import { canPin } from './pair.ts'

const MIB = 1_048_576
const INITS = 100_000
const CONNECTIONS = 50
/** the first flood compiles the code and fills allocators and pools; what stays after the second is what INITs leave behind */
const WARM_INITS = 10_000

const isPinned = canPin()
const loadBefore = loadavg()
const result = await flood({
  inits: INITS,
  warmInits: WARM_INITS,
  connections: CONNECTIONS,
  streams: 8,
  honestEveryMs: 500,
  ...(isPinned ? { pin: { target: 1, attacker: 0 } } : {})
})
const { answers, honestMs, honestFailed, cold, before, during, after, durationMs } = result
const mib = (bytes: number) => Math.round((bytes / MIB) * 10) / 10
const figures = {
  initsSent: answers.sent,
  seconds: durationMs / 1_000,
  initsPerSecond: (answers.sent / durationMs) * 1_000,
  answers,
  heapMib: { cold: mib(cold.heap), before: mib(before.heap), after: mib(after.heap), growth: mib(after.heap - before.heap) },
  rssMib: {
    cold: mib(cold.rss),
    before: mib(before.rss),
    during: mib(during.rss),
    after: mib(after.rss),
    growth: mib(after.rss - before.rss)
  },
  held: after.held,
  loopDelayMs: { max: during.loop.maxMs, p99: during.loop.p99Ms, mean: during.loop.meanMs, longestTurn: during.loop.busyMaxMs },
  targetCpuShare: (during.cpuMs - before.cpuMs) / durationMs,
  honest: {
    sessions: honestMs.length,
    failed: honestFailed,
    medianMs: quantile(honestMs, 0.5),
    p90Ms: quantile(honestMs, 0.9),
    maxMs: Math.max(...honestMs)
  },
  load: { before: loadBefore, after: loadavg() },
  placement: isPinned ? 'node on core 1, attacker on core 0, honest peers on either' : 'three processes, not pinned'
}
const promises = {
  'heap flat within 10 MiB': after.heap - before.heap < 10 * MIB,
  'RSS flat within 10 MiB': after.rss - before.rss < 10 * MIB,
  'no state left': after.held.sessions + after.held.pendingHandshakes + after.held.guardedConnections === 0,
  'honest session within 2 s': honestFailed.length === 0 && Math.max(...honestMs) < 2_000,
  'longest turn of the event loop below 200 ms': during.loop.busyMaxMs < 200
}
console.log(`\n${INITS.toLocaleString('en')} INITs from ${CONNECTIONS} connections over QUIC`)
console.dir(figures, { depth: 4 })
for (const [promise, isKept] of Object.entries(promises)) console.log(`  ${isKept ? 'kept  ' : 'BROKEN'}  ${promise}`)
writeFigures('flood', { question: '100,000 INITs from 50 connections', figures, promises })
