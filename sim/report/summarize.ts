import type { ProtocolTraffic } from '../../src/net/traffic.ts'
import {
  type EventLoopFigures,
  isSaturated,
  isShortOfMemory,
  type MachineLimit,
  type MemoryFigures,
  machine
} from '../engine/machine-watch.ts'
import type { RunLog } from '../engine/run-log.ts'
import type { Sent } from '../run/engine.ts'
import type { Invariants } from '../run/invariants.ts'
import type { Recorder } from '../run/recorder.ts'
import type { Definition, EngineKind } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import { distribution } from './distribution.ts'
import type { SimReport } from './report.ts'

export interface RunFacts {
  definition: Definition
  engine: EngineKind
  transport: SimReport['transport']
  time: SimReport['time']
  threads: number
  nodes: number
  seed: number
  startedAtMs: number
  wallMs: number
  log: RunLog
  recorder: Recorder
  invariants: Invariants
  memory: { rssBytesBefore: number; rssBytesBooted: number; rssBytesMax: number }
  /** how short of memory the process was */
  room: MemoryFigures
  /** undefined: the run ended before anything was measured */
  eventLoop: EventLoopFigures | undefined
  /** what each node sent */
  sent: Sent
  eventLog: SimReport['eventLog']
  model?: { events: number; simulatedMs: number }
  virtual?: SimReport['virtual']
  /** in place of what the scenario plans */
  planned?: Plan | undefined
  interrupted: boolean
}

const NOTHING_MEASURED: EventLoopFigures = { delayP50Ms: 0, delayP99Ms: 0, delayMaxMs: 0, utilization: 0 }

/** A report from raw figures. Success is everything that the plan wanted, and no failure. */
export function summarize(facts: RunFacts): SimReport {
  const { definition, nodes, seed, log, recorder, invariants, memory, eventLoop, sent, interrupted, engine } = facts
  const { measured } = recorder
  const sends = measured.sends ?? { wanted: 0, acked: 0, latenciesMs: [] }
  const { join, discovery, sessions } = measured
  const sum = (list: readonly number[]) => list.reduce((total, one) => total + one, 0)
  const succeeded = discovery.latenciesMs.length
  const findable = succeeded * discovery.members
  const { checks } = measured
  const isHeld = checks === undefined || (checks.length > 0 && checks.every(({ holds }) => holds))
  // a model's searches and messages may fail where its scenario takes nodes away: the invariants judge it
  const isComplete = engine === 'model' || checks !== undefined || isDisturbed(definition)
  const isFound = isComplete || (succeeded === discovery.wanted && sends.acked === sends.wanted && sessions.opened === sessions.wanted)
  const isDone = (isComplete || join.latenciesMs.length === join.wanted) && isFound && isHeld
  const limits = facts.time !== 'real' ? [] : limitsOf(eventLoop, facts.room)
  return {
    scenario: definition.name,
    description: definition.description,
    seed,
    engine,
    transport: facts.transport,
    time: facts.time,
    threads: facts.threads,
    nodes,
    startedAt: new Date(facts.startedAtMs).toISOString(),
    wallMs: Math.round(facts.wallMs),
    machine: machine(),
    phases: log.phases,
    memory: {
      ...memory,
      availableBytesMin: facts.room.availableBytesMin,
      bytesPerNode: Math.max(0, Math.round((memory.rssBytesMax - memory.rssBytesBefore) / nodes))
    },
    eventLoop: eventLoop ?? NOTHING_MEASURED,
    latencyValid: facts.time !== 'real' || (eventLoop !== undefined && limits.length === 0),
    machineLimits: limits,
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
    sends: { wanted: sends.wanted, acked: sends.acked, latencyMs: distribution(sends.latenciesMs, 'ms') },
    messages: {
      perNode: distribution(sent.messages, 'messages', { whole: true }),
      bytesPerNode: distribution(sent.bytes, 'bytes', { whole: true }),
      byProtocol: totals(sent.byProtocol)
    },
    actions: recorder.counts(),
    series: { stepMs: recorder.stepMs, points: recorder.series() },
    wakes: [...recorder.wakesBySecond].sort(([a], [b]) => a - b).map(([second, count]) => ({ second, count })),
    topologies: recorder.topologies,
    invariants: invariants.verdicts(),
    broken: invariants.broken,
    checks: checks ?? [],
    failures: log.failures,
    failuresCount: log.failuresCount,
    interrupted,
    eventLog: facts.eventLog,
    ...(facts.model === undefined
      ? {}
      : { model: { ...facts.model, eventsPerSec: Math.round((facts.model.events / Math.max(1, facts.wallMs)) * 1_000) } }),
    ...(facts.virtual === undefined ? {} : { virtual: facts.virtual }),
    success: isDone && log.failuresCount === 0 && invariants.brokenNames().length === 0 && !interrupted,
    replay: replayOf(facts),
    definition,
    ...(facts.planned === undefined ? {} : { plan: facts.planned })
  }
}

function limitsOf(loop: EventLoopFigures | undefined, room: MemoryFigures): MachineLimit[] {
  return [
    ...(loop !== undefined && isSaturated(loop) ? (['event-loop'] as const) : []),
    ...(isShortOfMemory(room) ? (['memory'] as const) : [])
  ]
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

/** Whether a scenario takes nodes or links away, by which what others do may rightly fail. */
function isDisturbed({ timeline, nodes, network }: Definition): boolean {
  const disturbs = ['kill', 'partition', 'sleep']
  return (
    timeline.some((entry) => 'do' in entry && disturbs.includes(entry.do)) ||
    nodes.some(({ churn }) => churn !== undefined) ||
    network.partitions.length > 0
  )
}

function replayOf({ definition, nodes, seed, engine, transport, time, threads }: RunFacts): string {
  const words = [`rookery sim run ${definition.name} --nodes ${nodes} --seed ${seed}`]
  if (engine !== definition.engine) words.push(`--engine ${engine}`)
  if (transport === 'quic') words.push('--transport quic')
  if (time === 'virtual') words.push('--time virtual')
  if (threads > 1) words.push(`--threads ${threads}`)
  return words.join(' ')
}
