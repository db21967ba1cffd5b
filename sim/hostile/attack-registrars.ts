import { toHex } from '../../protocol/bytes.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { eachOf } from '../engine/each-of.ts'
import { expiredJoin, forgedAnnouncements, forgedJoins, joinOf, madeUp } from './forgeries.ts'
import { LIES, type Lie, type Lines, turnRegistrar } from './registrars.ts'
import type { OpenSpace, World } from './world.ts'

const MEMBERS = 6
const REPLAYED_AGE_MS = 600_000

/**
 * Registrars that take what they are given and then show nothing, forgeries, noise or what is over, and registrars that never answer. Every hostile
 * node is one, each kind in turn; then more nodes turn until `shareLater` of all are.
 */
export async function lyingRegistrars(world: World, { shareLater }: { shareLater: number }): Promise<OpenSpace> {
  const lines = new Map<string, Lines>()
  const kindOf = (i: number) => LIES[i % LIES.length] as Lie
  // those that answer lie from the start, so that they take joins and drop them; the silent ones fall silent when all have joined
  const turned = new Map<SimNode, Lie>(world.hostile.map((node, i) => [node, kindOf(i)]))
  for (const [node, lie] of turned) if (lie !== 'silent') await turnRegistrar(node, lie, lines)
  const space = await world.open('market', MEMBERS)
  lines.set(toHex(space.dsid), linesFor(world, space))
  await world.leave(space, space.members[0] as SimNode)
  for (const [node, lie] of turned) if (lie === 'silent') await turnRegistrar(node, lie, lines)

  const part = (world.hostile.length / world.engine.nodes.length) * 100
  const tally = await world.search(space)
  world.checkSearches(`${Math.round(part)} % lying and silent registrars`, tally, 0.99)
  world.check('lying registrars', 'honest members shown by a search, of those there are', tally.recall, 'at least', 0.9)

  const more = world.turnMore(shareLater, [space])
  await eachOf([...more.entries()], 8, ([i, node]) => turnRegistrar(node, kindOf(i), lines))
  const later = (world.hostile.length / world.engine.nodes.length) * 100
  world.checkSearches(`${Math.round(later)} % lying and silent registrars`, await world.search(space), 0.95)

  const reports = world.honest.flatMap(({ node }) => node.registry.faulty())
  const liars = new Set(world.hostile.map(({ node }) => node.peer))
  const asked = new Set((await space.curator.node.registry.registrars(space.dsid)).map(({ peer }) => peer))
  const inventors = world.hostile.filter(({ node }, i) => asked.has(node.peer) && i < turned.size && kindOf(i) === 'invents').length
  const reported = new Set(reports.filter(({ invented }) => invented > 0).map(({ peer }) => peer)).size
  world.check('lying registrars', 'that served forgeries and were reported by those who asked them', reported, 'at least', inventors)
  world.check('lying registrars', 'honest registrars reported', reports.filter(({ peer }) => !liars.has(peer)).length, 'exactly', 0)
  // whoever waits for them would only wait: for what follows they lie instead
  const silent = world.hostile.filter((_, i) => (i < turned.size ? kindOf(i) : kindOf(i - turned.size)) === 'silent')
  await eachOf(silent, 8, (node) => turnRegistrar(node, 'omits', lines))
  return space
}

/** All that a liar can say of a space: forged in every way for each member, and the member that left as it was before. */
function linesFor(world: World, { name, dsid, curator, members }: OpenSpace): Lines {
  const nowMs = systemClock.nowMs()
  const victims = members.map(({ agent }) => agent)
  const liar = madeUp(world.seed, 'liar', 0)
  const [, topic] = name.split(/[/@]/)
  const forged = [
    ...forgedAnnouncements(curator.agent, liar, { ns: 'org.agentnet', topic: topic as string, ver: 1 }, nowMs),
    ...forgedJoins({ victims: victims.slice(0, 2), liar, dsid, other: elsewhere(dsid), curator: curator.agent.eid, nowMs })
  ]
  const old = victims.flatMap((victim) => [
    expiredJoin(victim, dsid, curator.agent.eid, nowMs),
    joinOf(victim, dsid, curator.agent.eid, nowMs - REPLAYED_AGE_MS)
  ])
  return { forged, old }
}

/** Another space's id. */
export function elsewhere(dsid: OpenSpace['dsid']): OpenSpace['dsid'] {
  return dsid.map((byte) => byte ^ 0xff) as OpenSpace['dsid']
}
