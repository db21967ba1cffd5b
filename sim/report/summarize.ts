import type { ProtocolTraffic } from '../../src/net/traffic.ts'
import { type EventLoopFigures, isSaturated, machine } from '../engine/machine-watch.ts'
import type { RunLog } from '../engine/run-log.ts'
import type { Measured, Scenario } from '../scenarios/scenario.ts'
import { distribution } from './distribution.ts'
import type { SimReport } from './report.ts'

export interface RunFacts {
  scenario: Scenario
  nodes: number
  seed: number
  startedAtMs: number
  wallMs: number
  log: RunLog
  measured: Measured
  memory: { rssBytesBefore: number; rssBytesBooted: number; rssBytesMax: number }
  /** undefined: the run ended before anything was measured */
  eventLoop: EventLoopFigures | undefined
  /** what each node sent */
  sent: readonly ProtocolTraffic[][]
  interrupted: boolean
}

const NOTHING_MEASURED: EventLoopFigures = { delayP50Ms: 0, delayP99Ms: 0, delayMaxMs: 0, utilization: 0 }

/** A report from raw figures. Success is everything that the plan wanted, and no failure. */
export function summarize(facts: RunFacts): SimReport {
  const { scenario, nodes, seed, log, measured, memory, eventLoop, sent, interrupted } = facts
  const { join, discovery, sessions } = measured
  const sum = (list: readonly number[]) => list.reduce((total, one) => total + one, 0)
  const succeeded = discovery.latenciesMs.length
  const findable = succeeded * discovery.members
  const { checks } = measured
  const isFound = checks === undefined ? succeeded === discovery.wanted : checks.length > 0 && checks.every(({ holds }) => holds)
  const isDone = join.latenciesMs.length === join.wanted && isFound && sessions.opened === sessions.wanted
  return {
    scenario: scenario.name,
    description: scenario.description,
    seed,
    engine: 'real',
    transport: 'memory',
    nodes,
    startedAt: new Date(facts.startedAtMs).toISOString(),
    wallMs: Math.round(facts.wallMs),
    machine: machine(),
    phases: log.phases,
    memory: { ...memory, bytesPerNode: Math.max(0, Math.round((memory.rssBytesMax - memory.rssBytesBefore) / nodes)) },
    eventLoop: eventLoop ?? NOTHING_MEASURED,
    latencyValid: eventLoop !== undefined && !isSaturated(eventLoop),
    join: { wanted: join.wanted, joined: join.latenciesMs.length, latencyMs: distribution(join.latenciesMs, 'ms') },
    discovery: {
      searches: discovery.wanted,
      succeeded,
      successRate: discovery.wanted === 0 ? 0 : succeeded / discovery.wanted,
      members: discovery.members,
      recall: findable === 0 ? 0 : sum(discovery.membersFound) / findable,
      latencyMs: distribution(discovery.latenciesMs, 'ms'),
      hops: distribution(discovery.hops, 'hops', { whole: true }),
      membersFound: distribution(discovery.membersFound, 'members', { whole: true })
    },
    sessions: {
      wanted: sessions.wanted,
      opened: sessions.opened,
      handshakeMs: distribution(sessions.handshakesMs, 'ms'),
      roundTripMs: distribution(sessions.roundTripsMs, 'ms')
    },
    messages: {
      perNode: distribution(
        sent.map((list) => sum(list.map(({ messages }) => messages))),
        'messages',
        { whole: true }
      ),
      bytesPerNode: distribution(
        sent.map((list) => sum(list.map(({ bytes }) => bytes))),
        'bytes',
        { whole: true }
      ),
      byProtocol: totals(sent.flat())
    },
    checks: checks ?? [],
    failures: log.failures,
    failuresCount: log.failuresCount,
    interrupted,
    success: isDone && log.failuresCount === 0 && !interrupted,
    replay: `rookery sim run ${scenario.name} --nodes ${nodes} --seed ${seed}`
  }
}

/** Most bytes first. */
function totals(sent: readonly ProtocolTraffic[]): ProtocolTraffic[] {
  const byProtocol = new Map<string, ProtocolTraffic>()
  for (const { protocol, messages, bytes } of sent) {
    const total = byProtocol.get(protocol) ?? { protocol, messages: 0, bytes: 0 }
    byProtocol.set(protocol, { protocol, messages: total.messages + messages, bytes: total.bytes + bytes })
  }
  return [...byProtocol.values()].sort((a, b) => b.bytes - a.bytes)
}
