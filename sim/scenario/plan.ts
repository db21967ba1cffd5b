import { type Random, randomFraction } from '../../src/platform/random.ts'
import { drawDistinct, drawInteger } from '../engine/draw.ts'
import { derivedRandom } from '../engine/seeds.ts'
import { type Definition, type Group, REGIONS, type Step } from './definition.ts'
import type { Lane, Plan, PlannedNode, PlannedStage, SimAction, SimEvent } from './events.ts'
import { EVERYONE } from './references.ts'

/** Events of one scenario; a load or a churn that would bring more is cut there. */
const EVENTS_MAX = 1_000_000
/** Draws for one pair, before a small network is found to have no more */
const PAIR_TRIES = 20

type Who = Extract<Step, { do: 'join' }>['who']

/** Same definition, number of nodes and seed, same plan. */
export function planOf(scenario: Definition, total: number, seed: number): Plan {
  const nodes = placed(scenario, total, seed)
  const random = derivedRandom(seed, `plan ${scenario.name}`)
  const sends = { next: 0 }
  const stages: PlannedStage[] = []
  for (const entry of scenario.timeline) {
    if ('stage' in entry) stages.push({ name: entry.stage, lastsMs: entry.lasts ?? 0, measured: entry.measured, lanes: [] })
    else stages.at(-1)?.lanes.push(laneOf(entry, nodes, random, sends))
  }
  for (const load of scenario.load) {
    const stage = stages.find(({ name }) => name === load.stage) as PlannedStage
    stage.lanes.push({ events: loadOf(load, stage.lastsMs, nodes, random, sends), paceMs: 0, atOnce: undefined })
  }
  for (const { stage, at, for: forMs, islands } of scenario.network.partitions) {
    const events: SimEvent[] = [
      { atMs: at, do: 'partition', islands: islandsOf(islands, nodes) },
      { atMs: at + forMs, do: 'heal' }
    ]
    stages.find(({ name }) => name === stage)?.lanes.push({ events, paceMs: 0, atOnce: 1 })
  }
  for (const stage of stages) {
    const events = churnOf(stage, nodes, random)
    if (events.length > 0) stage.lanes.push({ events, paceMs: 0, atOnce: undefined })
  }
  return { nodes, stages }
}

/** Groups keep their shares of the whole; each has a node at least. */
function placed(scenario: Definition, total: number, seed: number): PlannedNode[] {
  const random = derivedRandom(seed, `regions ${scenario.name}`)
  const counts = countsOf(scenario.nodes, total)
  const list: { group: Group; region: PlannedNode['region'] }[] = []
  for (const [i, group] of scenario.nodes.entries()) {
    for (let n = 0; n < (counts[i] as number); n++) {
      list.push({
        group,
        region: group.region === 'everywhere' ? (REGIONS[drawInteger(random, REGIONS.length)] as PlannedNode['region']) : group.region
      })
    }
  }
  return list.map((one, index) => ({ index, ...one }))
}

function countsOf(groups: readonly Group[], total: number): number[] {
  const sum = groups.reduce((all, { count }) => all + count, 0)
  const counts = groups.map(({ count }) => Math.max(1, Math.floor((count * total) / sum)))
  for (let i = 0, left = total - counts.reduce((a, b) => a + b, 0); left > 0; i = (i + 1) % groups.length, left--)
    counts[i] = (counts[i] as number) + 1
  return counts
}

export function defaultNodes(scenario: Definition): number {
  return scenario.nodes.reduce((sum, { count }) => sum + count, 0)
}

function chosen(who: Who, nodes: readonly PlannedNode[], random: Random): number[] {
  const { group = EVERYONE, node, count, share, except } = typeof who === 'string' ? { group: who } : who
  const of = nodes
    .filter((one) => (group === EVERYONE || one.group.group === group) && one.group.group !== except)
    .map(({ index }) => index)
  if (node !== undefined) return of.slice(node % Math.max(1, of.length)).slice(0, 1)
  const wanted = count ?? (share === undefined ? undefined : Math.round(of.length * share))
  return wanted === undefined ? of : drawDistinct(random, of, wanted)
}

function islandsOf(islands: readonly (readonly string[])[], nodes: readonly PlannedNode[]): number[][] {
  return islands.map((names) => nodes.filter(({ group }) => names.includes(group.group)).map(({ index }) => index))
}

function laneOf(step: Step, nodes: readonly PlannedNode[], random: Random, sends: { next: number }): Lane {
  const actions = actionsOf(step, nodes, random, sends)
  const at = step.at ?? 0
  const times = actions.map(() => at + (step.over === undefined ? 0 : Math.floor(randomFraction(random) * step.over)))
  if (step.over !== undefined) times.sort((a, b) => a - b)
  const events = actions.map((action, i): SimEvent => ({ atMs: times[i] as number, ...action }))
  if (step.do === 'kill' && step.for !== undefined) {
    for (const { node, atMs } of [...events] as { node: number; atMs: number }[])
      events.push({ atMs: atMs + step.for, do: 'restart', node })
    events.sort((a, b) => a.atMs - b.atMs)
  }
  return { events, paceMs: step.pace ?? 0, atOnce: step.pace === undefined ? step.atOnce : (step.atOnce ?? 1) }
}

function actionsOf(step: Step, nodes: readonly PlannedNode[], random: Random, sends: { next: number }): SimAction[] {
  switch (step.do) {
    case 'announce':
    case 'join':
    case 'leave':
      return chosen(step.who, nodes, random).map((node) => ({ do: step.do, node, space: step.space }))
    case 'discover':
      return chosen(step.who, nodes, random).map((node, i) => ({
        do: 'discover',
        node,
        space: step.space,
        by: step.by === 'turns' ? (i % 2 === 0 ? 'topic' : 'parent') : step.by
      }))
    case 'publish':
    case 'wake':
    case 'kill':
    case 'restart':
      return chosen(step.who, nodes, random).map((node): SimAction => ({ do: step.do, node }))
    case 'sleep':
      return chosen(step.who, nodes, random).map((node) => ({ do: 'sleep', node, ...(step.for === undefined ? {} : { forMs: step.for }) }))
    case 'openSession':
      return pairsOf(step, nodes, random).map(([node, to]) => ({ do: 'openSession', node, to }))
    case 'send': {
      const pairs = pairsOf(step, nodes, random)
      return Array.from({ length: step.times }, () => pairs).flatMap((round) =>
        round.map(([node, to]): SimAction => ({ do: 'send', node, to, bytes: step.bytes, id: sends.next++ }))
      )
    }
    case 'partition':
      return [{ do: 'partition', islands: islandsOf(step.islands, nodes) }]
    case 'heal':
      return [{ do: 'heal' }]
    case 'attack':
      return [{ do: 'attack', attack: step.attack, with: step.with }]
  }
}

/** Different pairs, where there are as many; without a number one for each of `who`. */
function pairsOf(
  { who, to, pairs }: { who: Who; to: Who; pairs?: number | undefined },
  nodes: readonly PlannedNode[],
  random: Random
): [number, number][] {
  const from = chosen(who, nodes, random)
  const targets = chosen(to, nodes, random)
  if (pairs === undefined) {
    return from.flatMap((a): [number, number][] => {
      const others = targets.filter((b) => b !== a)
      return others.length === 0 ? [] : [[a, others[drawInteger(random, others.length)] as number]]
    })
  }
  const list = new Map<string, [number, number]>()
  for (let tries = 0; list.size < pairs && tries < pairs * PAIR_TRIES; tries++) {
    const a = from[drawInteger(random, from.length)] as number
    const b = targets[drawInteger(random, targets.length)] as number
    const key = a < b ? `${a} ${b}` : `${b} ${a}`
    if (a !== b && !list.has(key)) list.set(key, [a, b])
  }
  return [...list.values()]
}

/** Times of a Poisson process. */
function loadOf(
  load: Definition['load'][number],
  lastsMs: number,
  nodes: readonly PlannedNode[],
  random: Random,
  sends: { next: number }
): SimEvent[] {
  const from = chosen(load.who, nodes, random)
  const to = load.to === undefined ? [] : chosen(load.to, nodes, random)
  const events: SimEvent[] = []
  for (
    let atMs = exponential(random, 1_000 / load.perSecond);
    atMs < lastsMs && events.length < EVENTS_MAX;
    atMs += exponential(random, 1_000 / load.perSecond)
  ) {
    const node = from[drawInteger(random, from.length)] as number
    const target = to.length === 0 ? node : (to[drawInteger(random, to.length)] as number)
    const at = { atMs: Math.floor(atMs) }
    if (load.do === 'discover') events.push({ ...at, do: 'discover', node, space: load.space as string, by: load.by })
    else if (load.do === 'join') events.push({ ...at, do: 'join', node, space: load.space as string })
    else if (target === node) continue
    else if (load.do === 'openSession') events.push({ ...at, do: 'openSession', node, to: target })
    else events.push({ ...at, do: 'send', node, to: target, bytes: load.bytes, id: sends.next++ })
  }
  return events
}

/** Sessions drawn from a Weibull, times away from an exponential; everyone is back when the stage ends. */
function churnOf({ lastsMs }: PlannedStage, nodes: readonly PlannedNode[], random: Random): SimEvent[] {
  const events: SimEvent[] = []
  if (lastsMs === 0) return events
  for (const { index, group } of nodes) {
    // the first node is where all others begin
    if (group.churn === undefined || index === 0) continue
    const { shape, scale, down } = group.churn
    // who is observed in the middle of a session has a part of it left
    let atMs = weibull(random, shape, scale) * randomFraction(random)
    while (atMs < lastsMs && events.length < EVENTS_MAX) {
      const backMs = Math.min(lastsMs, atMs + Math.max(1, exponential(random, down)))
      events.push({ atMs: Math.floor(atMs), do: 'kill', node: index }, { atMs: Math.floor(backMs), do: 'restart', node: index })
      atMs = backMs + weibull(random, shape, scale)
    }
  }
  return events.sort((a, b) => a.atMs - b.atMs)
}

export function exponential(random: Random, mean: number): number {
  return -mean * Math.log(1 - randomFraction(random))
}

export function weibull(random: Random, shape: number, scale: number): number {
  return scale * (-Math.log(1 - randomFraction(random))) ** (1 / shape)
}
