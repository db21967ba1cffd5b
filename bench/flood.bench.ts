/** What does a flood of 100,000 INITs from 50 connections do to a node, its memory, its event loop and honest strangers? */
import { loadavg } from 'node:os'
import { type FloodRound, flood } from '../test/support/flood.ts'
import { quantile, writeFigures } from './harness.ts'
import { canPin } from './pair.ts'

const MIB = 1_048_576
const INITS = 100_000
const CONNECTIONS = 50
/**
 * The first flood makes the node grow once (code, allocators' pages); a leak would show as growth in the second and third alike, which have the
 * same connections and the full number of INITs.
 */
const WARM_INITS = 100_000

const isPinned = canPin()
const loadBefore = loadavg()
const { cold, rounds } = await flood({
  rounds: [WARM_INITS, INITS, INITS],
  connections: CONNECTIONS,
  streams: 8,
  honestEveryMs: 500,
  ...(isPinned ? { pin: { target: 1, attacker: 0 } } : {})
})
const mib = (bytes: number) => Math.round((bytes / MIB) * 10) / 10

function figuresOf({ answers, durationMs, honestMs, honestFailed, during, after }: FloodRound, before: { rss: number; heap: number }) {
  return {
    initsSent: answers.sent,
    seconds: durationMs / 1_000,
    initsPerSecond: (answers.sent / durationMs) * 1_000,
    answers,
    heapMib: { during: mib(during.heap), after: mib(after.heap), growth: mib(after.heap - before.heap) },
    rssMib: { during: mib(during.rss), after: mib(after.rss), growth: mib(after.rss - before.rss) },
    held: after.held,
    loopDelayMs: { max: during.loop.maxMs, p99: during.loop.p99Ms, mean: during.loop.meanMs, longestTurn: during.loop.busyMaxMs },
    honest: {
      sessions: honestMs.length,
      failed: honestFailed,
      medianMs: quantile(honestMs, 0.5),
      p90Ms: quantile(honestMs, 0.9),
      maxMs: Math.max(...honestMs)
    }
  }
}

const befores = [cold, ...rounds.map(({ after }) => after)]
const all = rounds.map((one, i) => figuresOf(one, befores[i] as typeof cold))
const [warmUp, ...floods] = all
const figures = {
  cold: { heapMib: mib(cold.heap), rssMib: mib(cold.rss) },
  warmUp,
  floods,
  load: { before: loadBefore, after: loadavg() },
  placement: isPinned ? 'node on core 1, attacker on core 0, honest peers on either' : 'three processes, not pinned'
}
const measured = rounds.slice(1)
const promises = {
  'heap flat within 10 MiB in each flood': floods.every(({ heapMib }) => heapMib.growth < 10),
  'RSS flat within 10 MiB in each flood': floods.every(({ rssMib }) => rssMib.growth < 10),
  'no state left': measured.every(
    ({ after: { held } }) => held.sessions + held.stored + held.pendingHandshakes + held.ownExchanges + held.guardedConnections === 0
  ),
  'honest session within 2 s': floods.every(({ honest }) => honest.failed.length === 0 && honest.maxMs < 2_000),
  'longest turn of the event loop below 200 ms': floods.every(({ loopDelayMs }) => loopDelayMs.longestTurn < 200)
}
console.log(
  `\n${INITS.toLocaleString('en')} INITs from ${CONNECTIONS} connections over QUIC, twice, after ${WARM_INITS.toLocaleString('en')} to warm`
)
console.dir(figures, { depth: 5 })
for (const [promise, isKept] of Object.entries(promises)) console.log(`  ${isKept ? 'kept  ' : 'BROKEN'}  ${promise}`)
writeFigures('flood', { question: '100,000 INITs from 50 connections', figures, promises })
