import { systemClock } from '../../src/platform/clock.ts'
import type { Progress } from '../engine/run-log.ts'
import type { SimReport } from '../report/report.ts'
import { type RunOptions, runScenario } from '../run-scenario.ts'
import type { Definition, EngineKind } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import { planOf } from '../scenario/plan.ts'
import { type ShrinkBounds, shrink } from './shrink.ts'

/** What making a failure short may cost, by engine: a run of real nodes takes seconds. */
export const SHRINK_BOUNDS: Readonly<Record<EngineKind, { runsMax: number; msMax: number }>> = {
  model: { runsMax: 200, msMax: 120_000 },
  real: { runsMax: 60, msMax: 900_000 }
}

/** What went wrong, in words by which two runs can be compared. Empty where nothing did, or where the network never came about. */
export function symptomsOf({ invariants, failures, checks }: Pick<SimReport, 'invariants' | 'failures' | 'checks'>): string[] {
  if (failures.some(({ what }) => what === 'the run' || what === 'the stop')) return []
  const broken = invariants.filter(({ state }) => state === 'broken').map(({ invariant }) => `invariant ${invariant}`)
  const failed = failures.map(({ what, code }) => `failure ${what} ${code}`)
  const missed = checks.filter(({ holds }) => !holds).map(({ attack, what }) => `check ${attack}: ${what}`)
  // an invariant says more than what failed beside it
  return [...new Set(broken.length > 0 ? broken : [...missed, ...failed])]
}

/**
 * A failed run made short: the report with the shortest list of events found that still fails in the same way, to be replayed. The report itself
 * where there is nothing to make shorter.
 * @param options - of the failed run
 */
export async function shrinkRun(
  definition: Definition,
  options: RunOptions,
  failed: SimReport,
  { onProgress, ...bounds }: Partial<{ runsMax: number; msMax: number; onProgress: (progress: Progress & { events: number }) => void }> = {}
): Promise<SimReport> {
  const symptoms = symptomsOf(failed)
  const plan: Plan = options.plan ?? planOf(definition, failed.nodes, failed.seed)
  const events = plan.stages.reduce((sum, { lanes }) => sum + lanes.reduce((all, lane) => all + lane.events.length, 0), 0)
  if (failed.success || failed.interrupted || symptoms.length === 0) return failed
  const { runsMax, msMax } = { ...SHRINK_BOUNDS[failed.engine], ...bounds }
  const untilMs = systemClock.monotonicMs() + msMax
  const { onProgress: _progress, onLog: _log, onStart: _start, ...again } = options
  const tell = (runs: number, left: number) => onProgress?.({ phase: 'make it short', done: runs, total: runsMax, events: left })
  tell(0, events)
  const limits: ShrinkBounds = {
    runsMax,
    goOn: () => options.signal?.aborted !== true && systemClock.monotonicMs() < untilMs,
    onRun: tell
  }
  const fails = async (candidate: Plan) =>
    symptomsOf(await runScenario(definition, { ...again, nodes: failed.nodes, seed: failed.seed, plan: candidate }))
  const { plan: shortest, ...shrunk } = await shrink(plan, symptoms, fails, limits)
  return { ...failed, plan: shortest, shrunk }
}
