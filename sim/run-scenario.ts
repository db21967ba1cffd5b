import { RookeryError } from '../src/errors.ts'
import { systemClock } from '../src/platform/clock.ts'
import { leanHeap } from './engine/lean-heap.ts'
import { type EventLoopFigures, MachineWatch } from './engine/machine-watch.ts'
import { RealEngine } from './engine/real-engine.ts'
import { type Progress, RunLog } from './engine/run-log.ts'
import type { SimReport } from './report/report.ts'
import { summarize } from './report/summarize.ts'
import { firstContact } from './scenarios/first-contact.ts'
import { hostileScenarios } from './scenarios/hostile.ts'
import type { Scenario } from './scenarios/scenario.ts'

/** Scenarios by name. */
export const scenarios: ReadonlyMap<string, Scenario> = new Map(
  [firstContact, ...hostileScenarios].map((scenario) => [scenario.name, scenario])
)

export const SEED_MAX = 2 ** 32 - 1

export interface RunOptions {
  /** default: the scenario's own */
  nodes?: number
  /** decides keys and who does what; default 1 */
  seed?: number
  /** ends the run; the report then tells what was done */
  signal?: AbortSignal
  onProgress?: (progress: Progress) => void
  /** called once the options hold, before anything runs; what it throws ends the run */
  onStart?: () => Promise<void>
}

/**
 * Runs a scenario in this process and reports. What goes wrong in the run is in the report, not thrown.
 * @throws RookeryError `SCENARIO_UNKNOWN`, `SIM_NODES_INVALID`, `SIM_SEED_INVALID`
 */
export async function runScenario(name: string, options: RunOptions = {}): Promise<SimReport> {
  const scenario = scenarioNamed(name)
  const nodes = checkedNodes(scenario, options.nodes ?? scenario.nodes.default)
  const seed = checkedSeed(options.seed ?? 1)
  const signal = options.signal ?? new AbortController().signal
  await options.onStart?.()
  const startedAtMs = systemClock.nowMs()
  const startedMs = systemClock.monotonicMs()
  const restoreHeap = leanHeap()
  const watch = new MachineWatch()
  const log = new RunLog(watch, options.onProgress ?? (() => {}))
  const measured = scenario.wanted(nodes, seed)
  const engine = new RealEngine({ nodes, seed, signal })
  let rssBytesBooted = watch.rssBytesBefore
  const loops: EventLoopFigures[] = []
  const measure = async <T>(work: () => Promise<T>): Promise<T> => {
    const loop = watch.eventLoop()
    try {
      return await work()
    } finally {
      loops.push(loop.figures())
    }
  }
  try {
    await log.phase('boot and join the DHT', nodes, (done) => engine.boot(done))
    await log.phase('fill routing tables', nodes, (done) => engine.settle(done))
    rssBytesBooted = watch.rssBytes()
    await scenario.run({ engine, log, measured, measure, signal }, seed)
  } catch (error) {
    if (!signal.aborted) log.failed('the run', 0, error)
  }
  const interrupted = signal.aborted
  const sent = engine.nodes.map(({ traffic }) => traffic.sent())
  try {
    await log.phase('stop', engine.nodes.length, (done) => engine.stop(done))
  } catch (error) {
    log.failed('the stop', 0, error)
  } finally {
    watch.stop()
    restoreHeap()
  }
  return summarize({
    scenario,
    nodes,
    seed,
    startedAtMs,
    wallMs: systemClock.monotonicMs() - startedMs,
    log,
    measured,
    memory: { rssBytesBefore: watch.rssBytesBefore, rssBytesBooted, rssBytesMax: watch.rssBytesMax },
    eventLoop: worst(loops),
    sent,
    interrupted
  })
}

/** The worst of the measured phases, figure by figure. */
function worst(loops: readonly EventLoopFigures[]): EventLoopFigures | undefined {
  if (loops.length === 0) return undefined
  const most = (figure: keyof EventLoopFigures) => Math.max(...loops.map((loop) => loop[figure]))
  return {
    delayP50Ms: most('delayP50Ms'),
    delayP99Ms: most('delayP99Ms'),
    delayMaxMs: most('delayMaxMs'),
    utilization: most('utilization')
  }
}

function scenarioNamed(name: string): Scenario {
  const scenario = scenarios.get(name)
  if (scenario !== undefined) return scenario
  throw new RookeryError('SCENARIO_UNKNOWN', `there is no scenario "${name.slice(0, 80)}"`, {
    kind: 'usage',
    field: 'scenario',
    value: name.slice(0, 80),
    remedy: `run one of ${[...scenarios.keys()].join(', ')}; \`rookery sim list\` says what each does`
  })
}

function checkedNodes({ name, nodes: { min, max } }: Scenario, nodes: number): number {
  if (Number.isInteger(nodes) && nodes >= min && nodes <= max) return nodes
  throw new RookeryError('SIM_NODES_INVALID', `${name} runs with ${min} to ${max} nodes`, {
    kind: 'usage',
    field: 'nodes',
    value: nodes,
    remedy: `give --nodes a whole number from ${min} to ${max}`
  })
}

function checkedSeed(seed: number): number {
  if (Number.isInteger(seed) && seed >= 0 && seed <= SEED_MAX) return seed
  throw new RookeryError('SIM_SEED_INVALID', `a seed is a whole number from 0 to ${SEED_MAX}`, {
    kind: 'usage',
    field: 'seed',
    value: seed,
    remedy: 'leave it out for seed 1'
  })
}
