import { systemClock } from '../../src/platform/clock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import { announceOf, joinOf, madeUp } from './forgeries.ts'
import { putToRegistrar } from './raw.ts'
import type { World } from './world.ts'

const MEMBERS = 4
const SQUATTERS = 3
const SQUATTER_MEMBERS = 4
/** Searches by those that knew the space before, and by those whose name for it pins its curator */
const SEARCHES = 10

/** Others announce the same DS_ID, to every registrar of it, with members of their own: each record is true, none is the space's. */
export async function squattedSpace(world: World): Promise<void> {
  const attack = 'squatted DS_ID'
  const space = await world.open('squat', MEMBERS)
  const { dsid, curator } = space
  const seekers = world.honest.filter((node) => node !== curator && !space.members.includes(node))
  const [early] = drawDistinct(world.random, seekers, 1) as [SimNode]
  await early.node.spaces.find({ name: space.name }) // shows it, and remembers nobody: only a join does
  const registrars = await curator.node.registry.registrars(dsid)
  const nowMs = systemClock.nowMs()
  const hosts = drawDistinct(world.random, world.hostile, SQUATTERS)
  await eachOf([...hosts.entries()], SQUATTERS, async ([i, { node }]) => {
    const squatter = madeUp(world.seed, 'squatter', i)
    world.ownedByAttackers.add(squatter.did)
    const announce = announceOf(squatter, { ns: 'org.agentnet', topic: 'hostile.squat', ver: 1 }, nowMs)
    const joins = Array.from({ length: SQUATTER_MEMBERS }, (_, n) => {
      const who = madeUp(world.seed, 'squatter-member', i * SQUATTER_MEMBERS + n)
      world.ownedByAttackers.add(who.did)
      return joinOf(who, dsid, squatter.eid, nowMs)
    })
    for (const target of registrars) {
      await putToRegistrar(node.host, target, { set: 'announcements', key: dsid, record: announce })
      for (const record of joins) await putToRegistrar(node.host, target, { set: 'members', key: dsid, record })
    }
  })
  world.checkSearches(attack, await world.search(space), 0.99)
  const pinned = await world.search(space, { pinned: 'yes', count: SEARCHES })
  world.checkSearches(`${attack}, curator pinned`, pinned, 0.99)

  const member = space.members[0] as SimNode
  const { members } = await member.node.spaces.find({ name: space.name })
  const foreign = members.filter(({ curator: followed }) => followed !== curator.agent.did).length
  world.check(attack, "squatters' members that a member of the space is shown", foreign, 'exactly', 0)
}
