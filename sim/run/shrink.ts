import type { Plan, PlannedStage, SimEvent } from '../scenario/events.ts'

/** Where an event stands in a plan. */
interface Place {
  stage: number
  lane: number
  event: SimEvent
}

export interface Shrunk {
  plan: Plan
  /** events of it, and of the plan that it was made from */
  events: number
  of: number
  runs: number
}

export interface ShrinkBounds {
  runsMax: number
  /** whether there is time for one more run */
  goOn(): boolean
  /** told after each run: how many there were, and how many events are left */
  onRun?(runs: number, events: number): void
}

/**
 * The shortest list of events found that still fails in one of the same ways: halves, then quarters and so on are left out, as long as it still
 * fails without them (delta debugging); stages that only wait go, too. Whatever it gives has failed at least once, so that a run in which chance has a
 * part ends with a longer list, never with one that does not fail.
 * @param symptoms - of the failure, as `fails` names them
 * @param fails - runs a plan, and tells what went wrong
 */
export async function shrink(
  plan: Plan,
  symptoms: readonly string[],
  fails: (plan: Plan) => Promise<readonly string[]>,
  { runsMax, goOn, onRun }: ShrinkBounds
): Promise<Shrunk> {
  const all = plan.stages.flatMap((stage, s) =>
    stage.lanes.flatMap((lane, l) => lane.events.map((event): Place => ({ stage: s, lane: l, event })))
  )
  let kept = all
  let stages = plan
  let runs = 0
  const mayRun = () => runs < runsMax && goOn()
  const stillFails = async (candidate: Plan, events: number): Promise<boolean> => {
    runs++
    const now = await fails(candidate)
    const does = now.some((name) => symptoms.includes(name))
    onRun?.(runs, does ? events : kept.length)
    return does
  }
  // first without waiting: all that follows is quicker then
  const hasty = withoutWaits(plan)
  if (isShorterPlan(hasty, plan) && mayRun() && (await stillFails(hasty, kept.length))) stages = hasty
  for (let parts = 2; kept.length > 1 && mayRun(); ) {
    const size = Math.ceil(kept.length / parts)
    let isShorter = false
    for (let from = 0; from < kept.length && mayRun(); from += size) {
      const without = [...kept.slice(0, from), ...kept.slice(from + size)]
      if (without.length === 0 || !(await stillFails(planWith(stages, without), without.length))) continue
      kept = without
      isShorter = true
      break
    }
    if (isShorter) parts = Math.max(2, parts - 1)
    else if (size === 1) break
    else parts = Math.min(kept.length, parts * 2)
  }
  if (kept.length === 1 && mayRun() && (await stillFails(planWith(stages, []), 0))) kept = []
  let shortest = planWith(stages, kept)
  for (let at = shortest.stages.length - 1; at >= 0; at--) {
    const { lanes } = shortest.stages[at] as PlannedStage
    if (lanes.length > 0) continue
    const without = { ...shortest, stages: shortest.stages.toSpliced(at, 1) }
    // a stage without an event that lasts no time does nothing
    if (shortest.stages[at]?.lastsMs === 0 || (mayRun() && (await stillFails(without, kept.length)))) shortest = without
  }
  return { plan: shortest, events: kept.length, of: all.length, runs }
}

/** Nothing waits: stages last as long as what happens in them. */
function withoutWaits({ nodes, stages }: Plan): Plan {
  return { nodes, stages: stages.map((stage) => ({ ...stage, lastsMs: 0 })) }
}

function isShorterPlan(a: Plan, b: Plan): boolean {
  const lasts = ({ stages }: Plan) => stages.reduce((sum, { lastsMs }) => sum + lastsMs, 0)
  return lasts(a) < lasts(b)
}

function planWith({ nodes, stages }: Plan, places: readonly Place[]): Plan {
  return {
    nodes,
    stages: stages.map((stage, s) => ({
      ...stage,
      lanes: stage.lanes
        .map((lane, l) => ({ ...lane, events: places.filter((place) => place.stage === s && place.lane === l).map(({ event }) => event) }))
        .filter(({ events }) => events.length > 0)
    }))
  }
}
