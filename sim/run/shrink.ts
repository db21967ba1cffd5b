import type { InvariantName } from '../scenario/definition.ts'
import type { Plan, SimEvent } from '../scenario/events.ts'

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

/**
 * The shortest list of events found that still breaks one of the same invariants: halves, then quarters and so on are left out, as long as it
 * still fails without them (delta debugging).
 * @param fails - runs a plan, and tells which invariants broke
 * @param bounds - `runs` at most; `goOn` says whether there is time for one more
 */
export async function shrink(
  plan: Plan,
  broken: readonly InvariantName[],
  fails: (plan: Plan) => Promise<readonly InvariantName[]>,
  { runsMax, goOn }: { runsMax: number; goOn: () => boolean }
): Promise<Shrunk> {
  const all = plan.stages.flatMap((stage, s) =>
    stage.lanes.flatMap((lane, l) => lane.events.map((event): Place => ({ stage: s, lane: l, event })))
  )
  let kept = all
  let runs = 0
  const stillFails = async (places: readonly Place[]): Promise<boolean> => {
    runs++
    const now = await fails(planWith(plan, places))
    return now.some((name) => broken.includes(name))
  }
  for (let parts = 2; kept.length > 1 && runs < runsMax && goOn(); ) {
    const size = Math.ceil(kept.length / parts)
    let isShorter = false
    for (let from = 0; from < kept.length && runs < runsMax && goOn(); from += size) {
      const without = [...kept.slice(0, from), ...kept.slice(from + size)]
      if (without.length === 0 || !(await stillFails(without))) continue
      kept = without
      isShorter = true
      break
    }
    if (isShorter) parts = Math.max(2, parts - 1)
    else if (size === 1) break
    else parts = Math.min(kept.length, parts * 2)
  }
  return { plan: planWith(plan, kept), events: kept.length, of: all.length, runs }
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
