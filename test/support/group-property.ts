import fc from 'fast-check'
import { equals } from '../../protocol/bytes.ts'
import type { GroupMember } from '../../protocol/group/member.ts'
import { memberSince } from '../../protocol/group/statement.ts'
import type { EseWrite } from '../../protocol/state/batch.ts'
import { GroupWorld, type WorldAgent } from './group-world.ts'

/** What can happen to a group. Numbers are taken modulo what there is. */
export type WorldAction =
  | { do: 'write'; agent: number; key: number; value: number }
  | { do: 'delete'; agent: number; key: number }
  | { do: 'many'; agent: number; count: number }
  | { do: 'invite'; agent: number }
  | { do: 'remove'; agent: number }
  | { do: 'rotate' }
  | { do: 'crash'; agent: number }
  | { do: 'start'; agent: number }
  | { do: 'cut'; a: number; b: number }
  | { do: 'link'; a: number; b: number }
  | { do: 'part'; sides: number }
  | { do: 'heal' }
  | { do: 'deliver'; links: number[] }
  | { do: 'pass'; ms: number }
  | { do: 'settle' }

const index = fc.nat({ max: 7 })
const key = fc.nat({ max: 5 })

const action: fc.Arbitrary<WorldAction> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('write' as const), agent: index, key, value: fc.nat({ max: 99 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('delete' as const), agent: index, key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('many' as const), agent: index, count: fc.integer({ min: 2, max: 12 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('invite' as const), agent: index }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), agent: index }) },
  { weight: 1, arbitrary: fc.constant({ do: 'rotate' as const }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('crash' as const), agent: index }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('start' as const), agent: index }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('cut' as const), a: index, b: index }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('link' as const), a: index, b: index }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('part' as const), sides: fc.nat({ max: 255 }) }) },
  { weight: 2, arbitrary: fc.constant({ do: 'heal' as const }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('deliver' as const), links: fc.array(fc.nat({ max: 63 }), { maxLength: 12 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 6_000 }) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'settle' as const }) }
)

export interface WorldPlan {
  count: number
  seed: number
  actions: WorldAction[]
}

/** Three to eight agents, in which anything may happen in any order. */
export const worldPlan: fc.Arbitrary<WorldPlan> = fc.record({
  count: fc.integer({ min: 3, max: 8 }),
  seed: fc.nat({ max: 0xffff_ffff }),
  actions: fc.array(action, { minLength: 4, maxLength: 40 })
})

const all = () => true
/** Longer than every wait of the protocol put one behind the other. */
const SETTLE_MS = 90_000

/**
 * Lets a plan happen, then heals everything, and compares.
 * @returns what is wrong; empty: nothing
 */
export function faultsOf({ count, seed, actions }: WorldPlan): string[] {
  const world = new GroupWorld(count, seed)
  const faults: string[] = []
  world.change({})
  world.shape(all)
  world.change({ add: world.agents.slice(1, -1).map((agent) => agent.eid), history: 'snapshot' })
  for (const one of actions) {
    perform(world, one)
    if (one.do === 'settle') faults.push(...componentFaults(world))
  }
  for (const agent of world.agents) world.start(agent)
  world.shape(all)
  world.settle(SETTLE_MS)
  faults.push(...world.differences(), ...world.leaks(), ...strangers(world))
  return faults
}

function perform(world: GroupWorld, one: WorldAction): void {
  switch (one.do) {
    case 'write':
      world.write(world.agent(one.agent), [{ op: 'set', key: `k${one.key}`, value: { v: one.value } }])
      break
    case 'delete':
      world.write(world.agent(one.agent), [
        { op: 'delete', key: `k${one.key}` },
        { op: 'merge', key: 'gone', patch: { [`k${one.key}`]: true } }
      ])
      break
    case 'many': {
      const writes: EseWrite[] = Array.from({ length: one.count }, (_, i) => ({ op: 'set', key: `m${i % 4}`, value: i }))
      for (const write of writes) world.write(world.agent(one.agent), [write])
      break
    }
    case 'invite':
      world.change({ add: [world.agent(one.agent).eid], history: 'snapshot' })
      break
    case 'remove':
      if (world.agent(one.agent) !== world.owner) world.change({ remove: [world.agent(one.agent).eid] })
      break
    case 'rotate':
      world.change({})
      break
    case 'crash':
      world.crash(world.agent(one.agent))
      break
    case 'start':
      world.start(world.agent(one.agent))
      break
    case 'cut':
      world.cut(world.agent(one.a), world.agent(one.b))
      break
    case 'link':
      world.link(world.agent(one.a), world.agent(one.b))
      break
    case 'part':
      world.shape((a, b) => ((one.sides >> a) & 1) === ((one.sides >> b) & 1))
      break
    case 'heal':
      world.shape(all)
      break
    case 'deliver':
      for (const number of one.links) {
        const { waiting } = world
        if (waiting.length > 0) world.deliver(waiting[number % waiting.length] as string)
      }
      break
    case 'pass':
      world.settle(one.ms)
      break
    case 'settle':
      world.settle(SETTLE_MS)
      break
  }
}

/** Who is no member holds nothing of the group. */
function strangers(world: GroupWorld): string[] {
  const { members } = world
  return world.agents
    .filter((agent) => agent.isUp && agent.core !== undefined && !members.includes(agent))
    .map(({ index }) => `agent ${index} is no member and holds the group`)
}

/** While links are down: those who reach each other, by way of members, agree on every writer that both can read. */
function componentFaults(world: GroupWorld): string[] {
  const faults: string[] = []
  const running = world.agents.filter((agent) => agent.isUp && agent.core !== undefined)
  for (const part of parts(world, running)) {
    const newest = part.reduce((a, b) => (coreOf(a).statement.epoch >= coreOf(b).statement.epoch ? a : b))
    const { statement } = coreOf(newest)
    const members = part.filter((agent) => memberSince(statement, agent.eid) !== undefined)
    const reached = parts(world, members).find((one) => one.includes(newest)) ?? []
    for (const agent of reached) {
      if (coreOf(agent).statement.epoch !== statement.epoch) {
        faults.push(`agent ${agent.index} stays at epoch ${coreOf(agent).statement.epoch}, agent ${newest.index} is at ${statement.epoch}`)
      }
    }
    if (faults.length > 0) continue
    for (const a of reached) for (const b of reached) if (a.index < b.index) faults.push(...differencesOf(a, b))
  }
  return faults
}

function differencesOf(a: WorldAgent, b: WorldAgent): string[] {
  const faults: string[] = []
  const theirs = new Map(
    coreOf(b)
      .vector()
      .map((one) => [String(one.writer), one])
  )
  for (const one of coreOf(a).vector()) {
    const other = theirs.get(String(one.writer))
    // a writer that was not there since can be read by one of the two only
    if (other === undefined || one.applied < one.n || other.applied < other.n) continue
    const isSame = equals(one.run, other.run) && one.n === other.n && equals(hashOf(coreOf(a), one.writer), hashOf(coreOf(b), one.writer))
    if (!isSame) faults.push(`agents ${a.index} and ${b.index} differ in a writer: ${one.n} and ${other.n}`)
  }
  return faults
}

function hashOf(core: GroupMember, writer: GroupMember['self']): Uint8Array {
  return core.stateOf(writer)?.hash() ?? new Uint8Array(0)
}

function coreOf(agent: WorldAgent): GroupMember {
  return agent.core as GroupMember
}

/** Agents that can reach each other over links among themselves. */
function parts(world: GroupWorld, agents: readonly WorldAgent[]): WorldAgent[][] {
  const left = new Set(agents)
  const found: WorldAgent[][] = []
  for (const start of agents) {
    if (!left.delete(start)) continue
    const part = [start]
    for (const at of part) for (const next of left) if (world.isLinked(at, next) && left.delete(next)) part.push(next)
    found.push(part)
  }
  return found
}
