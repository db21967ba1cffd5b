import { createHash } from 'node:crypto'
import { RookeryError } from '../src/errors.ts'
import { systemClock } from '../src/platform/clock.ts'
import { leanHeap } from './engine/lean-heap.ts'
import { type EventLoopFigures, MachineWatch } from './engine/machine-watch.ts'
import { type Progress, RunLog } from './engine/run-log.ts'
import type { Seams } from './engine/seams.ts'
import { derivedRandom } from './engine/seeds.ts'
import { World } from './hostile/world.ts'
import type { Bug } from './model/bugs.ts'
import { ModelEngine } from './model/model-engine.ts'
import { DirectNetwork } from './net/direct-network.ts'
import { LinkModel } from './net/link-model.ts'
import type { SimReport } from './report/report.ts'
import { summarize } from './report/summarize.ts'
import { Attacks } from './run/attacks.ts'
import type { EngineRun, RunContext } from './run/engine.ts'
import { Invariants } from './run/invariants.ts'
import { LocalPool } from './run/local-pool.ts'
import type { NodePool } from './run/node-pool.ts'
import { reachabilityOf } from './run/reachability-of.ts'
import { RealRun } from './run/real-run.ts'
import { Recorder } from './run/recorder.ts'
import { ThreadPool } from './run/thread-pool.ts'
import type { Definition, EngineKind } from './scenario/definition.ts'
import { SEED_MAX } from './scenario/definition.ts'
import type { Plan } from './scenario/events.ts'
import { defaultNodes, planOf } from './scenario/plan.ts'
import { loadScenario } from './scenario/shipped.ts'
import { realTime } from './time/real-time.ts'
import { runVirtually } from './time/virtual-run.ts'
import type { VirtualTime } from './time/virtual-time.ts'

export { SEED_MAX }

/** Nodes that one process can hold, whatever a scenario would like. */
const REAL_NODES_MAX = 1_000
const QUIC_NODES_MAX = 200
/** In virtual time nodes start this far apart, as a busy operator would start them, and none waits for another's processor. */
const VIRTUAL_BOOT_EACH_MS = 20
/** Lines of the event log that a report brings along; all of them are in its hash. */
const LOG_LINES_MAX = 2_000

export interface RunOptions {
  /** default: the scenario's own */
  nodes?: number
  /** decides keys and who does what; default: the scenario's */
  seed?: number
  /** default: the scenario's */
  engine?: EngineKind
  /** of the real engine; default `memory` */
  transport?: 'memory' | 'quic'
  /** of the real engine: a second is a second (the default), or time stands still while there is work and leaps when there is none */
  time?: 'real' | 'virtual'
  /** worker threads of the real engine; default 1 */
  threads?: number
  /** what happens, in place of what the scenario plans */
  plan?: Plan
  /** a deliberate fault of the model, for tests of the invariants */
  bug?: Bug
  /** what a test puts in the place of parts of real nodes, in one thread */
  seams?: Seams
  /** ends the run; the report then tells what was done */
  signal?: AbortSignal
  onProgress?: (progress: Progress) => void
  /** called once the options hold, before anything runs; what it throws ends the run */
  onStart?: () => Promise<void>
  /** each line of the event log, as it comes */
  onLog?: (line: string) => void
}

/**
 * Runs a scenario in this process and reports. What goes wrong in the run is in the report, not thrown.
 * @param scenario - a shipped name, a file, or what was read of one
 * @throws RookeryError `SCENARIO_UNKNOWN`, `SCENARIO_INVALID`, `SIM_NODES_INVALID`, `SIM_SEED_INVALID`, `SIM_OPTION_INVALID`
 */
export async function runScenario(scenario: string | Definition, options: RunOptions = {}): Promise<SimReport> {
  return await runWithin(scenario, options)
}

/** @param within - the virtual time that this thread has, in the thread of such a run */
export async function runWithin(scenario: string | Definition, options: RunOptions, within?: VirtualTime): Promise<SimReport> {
  const definition = typeof scenario === 'string' ? loadScenario(scenario) : scenario
  const engineKind = options.engine ?? definition.engine
  const transport = options.transport ?? 'memory'
  const nodes = checkedNodes(definition, options.nodes ?? defaultNodes(definition), engineKind, transport)
  const seed = checkedSeed(options.seed ?? definition.seed)
  const attacked = definition.timeline.some((entry) => 'do' in entry && entry.do === 'attack')
  const threads = checkedThreads(options.threads ?? 1, { engineKind, transport, attacked })
  const time = checkedTime(options.time ?? 'real', { engineKind, transport, threads })
  const signal = options.signal ?? new AbortController().signal
  await options.onStart?.()
  if (time === 'virtual' && within === undefined) return await runVirtually(definition, { ...options, nodes, seed })
  const startedAtMs = realTime.nowMs()
  const startedMs = realTime.monotonicMs()
  const beganMs = systemClock.monotonicMs()
  const restoreHeap = leanHeap()
  const watch = new MachineWatch()
  const log = new RunLog(watch, options.onProgress ?? (() => {}))
  const plan = options.plan ?? planOf(definition, nodes, seed)
  const recorder = new Recorder(plan.stages.reduce((sum, { lastsMs }) => sum + Math.max(lastsMs, 5_000), 0))
  const invariants = new Invariants(definition.invariants)
  const hash = createHash('sha256')
  const lines: string[] = []
  const context: RunContext = {
    definition,
    invariants,
    recorder,
    log(line) {
      hash.update(`${line}\n`)
      if (lines.length < LOG_LINES_MAX) lines.push(line)
      options.onLog?.(line)
    },
    signal,
    breathe: () => new Promise((resolve) => setImmediate(resolve))
  }
  const loops: EventLoopFigures[] = []
  const measure = async <T>(work: () => Promise<T>): Promise<T> => {
    const loop = watch.eventLoop()
    try {
      return await work()
    } finally {
      loops.push(loop.figures())
    }
  }
  let pool: NodePool | undefined
  let attacks: Attacks | undefined
  let engine: EngineRun
  if (engineKind === 'model') engine = new ModelEngine(plan, context, { seed, bug: options.bug })
  else {
    const network =
      transport === 'quic' ? 'quic' : new DirectNetwork(new LinkModel(plan.nodes, definition.network, derivedRandom(seed, 'links')))
    const reachability = (index: number) => reachabilityOf(plan.nodes[index], seed)
    const local =
      threads > 1
        ? undefined
        : new LocalPool({
            nodes,
            seed,
            signal,
            network,
            reachability,
            seams: options.seams,
            table: attacked ? 'every-bucket' : 'by-prefix',
            bootEachMs: time === 'virtual' ? VIRTUAL_BOOT_EACH_MS : 0
          })
    pool = local ?? new ThreadPool({ nodes, seed, signal, threads, plan, network: definition.network })
    if (attacked && local !== undefined) {
      attacks = new Attacks(() => {
        const hostile = plan.nodes.filter(({ group, index }) => group.behaviour === 'hostile' && index > 0).map(({ index }) => index)
        return new World({ engine: local.engine, seed, log, measured: recorder.measured, share: hostile, searches: 20, signal })
      })
    }
    engine = new RealRun({
      pool,
      plan,
      context,
      attacks,
      measure,
      lastWorkMs: options.seams?.lastWorkMs,
      failed: (what, node, error) => log.failed(what, node, error)
    })
  }
  let rssBytesBooted = watch.rssBytesBefore
  const passedMs = () => (engine instanceof ModelEngine ? engine.nowMs : systemClock.monotonicMs() - beganMs)
  try {
    await log.phase('boot and join the DHT', nodes, (done) => engine.boot(done))
    if (engine instanceof RealRun) await log.phase('fill routing tables', nodes, (done) => (engine as RealRun).settle(done))
    rssBytesBooted = watch.rssBytes()
    await engine.draw('booted')
    for (const stage of plan.stages) {
      const total = stage.lanes.reduce((sum, { events }) => sum + events.length, 0)
      await log.phase(stage.name, Math.max(1, total), (done) => engine.stage(stage, done))
      if (plan.stages.length <= 4) await engine.draw(stage.name)
    }
    if (plan.stages.length > 4) await engine.draw(plan.stages.at(-1)?.name ?? '')
    await log.phase('hand over what waits', 1, () => engine.finish())
    invariants.end(passedMs())
  } catch (error) {
    if (!signal.aborted) log.failed('the run', 0, error)
  }
  const interrupted = signal.aborted
  if (attacks?.world !== undefined) recorder.measured.checks = attacks.world.checks
  try {
    await log.phase('stop', nodes, (done) => engine.stop(done))
  } catch (error) {
    log.failed('the stop', 0, error)
  } finally {
    watch.stop()
    restoreHeap()
  }
  const wallMs = realTime.monotonicMs() - startedMs
  return summarize({
    definition,
    engine: engineKind,
    transport: engineKind === 'model' ? 'model' : transport,
    time: engineKind === 'model' ? 'model' : time,
    threads,
    nodes,
    seed,
    startedAtMs,
    wallMs,
    log,
    recorder,
    invariants,
    memory: { rssBytesBefore: watch.rssBytesBefore, rssBytesBooted, rssBytesMax: watch.rssBytesMax },
    room: watch.memory(),
    eventLoop: worst(loops),
    sent: engine.sent(),
    eventLog: { sha256: hash.digest('hex'), lines },
    ...(engine instanceof ModelEngine ? { model: { events: engine.events, simulatedMs: engine.nowMs } } : {}),
    ...(within === undefined ? {} : { virtual: { simulatedMs: Math.round(passedMs()), timers: within.fired } }),
    planned: options.plan,
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

/** How many nodes a scenario runs with. */
export function nodesRange(
  definition: Definition,
  engine: EngineKind,
  transport: 'memory' | 'quic' = 'memory'
): { min: number; max: number; default: number } {
  const most = engine === 'model' ? Number.POSITIVE_INFINITY : transport === 'quic' ? QUIC_NODES_MAX : REAL_NODES_MAX
  const wanted = definition.timeline.some((entry) => 'do' in entry && entry.do === 'attack') ? 30 : 2
  const own = defaultNodes(definition)
  return {
    min: Math.max(wanted, definition.nodes.length),
    max: Math.min(most, definition.most ?? Math.max(own, REAL_NODES_MAX)),
    default: own
  }
}

function checkedNodes(definition: Definition, nodes: number, engine: EngineKind, transport: 'memory' | 'quic'): number {
  const { min, max } = nodesRange(definition, engine, transport)
  if (Number.isInteger(nodes) && nodes >= min && nodes <= max) return nodes
  throw new RookeryError('SIM_NODES_INVALID', `${definition.name} runs with ${min} to ${max} nodes`, {
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
    remedy: 'leave it out for the seed of the scenario'
  })
}

function checkedTime(
  time: 'real' | 'virtual',
  { engineKind, transport, threads }: { engineKind: EngineKind; transport: string; threads: number }
): 'real' | 'virtual' {
  const invalid = (message: string, remedy: string) =>
    new RookeryError('SIM_OPTION_INVALID', message, { kind: 'usage', field: 'time', value: time, remedy })
  if (time === 'real') return time
  if (engineKind === 'model') throw invalid('a model has a clock of its own', 'leave out --time')
  if (transport === 'quic') throw invalid('sockets know no virtual time', 'leave out --transport quic, or --time virtual')
  if (threads > 1) throw invalid('virtual time is that of one thread', 'leave out --threads, or --time virtual')
  return time
}

function checkedThreads(
  threads: number,
  { engineKind, transport, attacked }: { engineKind: EngineKind; transport: string; attacked: boolean }
): number {
  const invalid = (field: string, value: unknown, message: string, remedy: string) =>
    new RookeryError('SIM_OPTION_INVALID', message, { kind: 'usage', field, value, remedy })
  if (engineKind === 'model' && attacked) throw invalid('engine', 'model', 'attacks run on real nodes alone', 'leave out --engine model')
  if (engineKind === 'model' && transport === 'quic')
    throw invalid('transport', transport, 'a model has no transport', 'leave out --transport')
  if (!Number.isInteger(threads) || threads < 1 || threads > 64) {
    throw invalid('threads', threads, 'there may be 1 to 64 threads', 'give --threads a whole number from 1 to 64')
  }
  if (threads > 1 && (attacked || transport === 'quic' || engineKind === 'model')) {
    throw invalid('threads', threads, 'attacks, QUIC and the model run in one thread', 'leave out --threads')
  }
  return threads
}
