import { systemClock } from '../../src/platform/clock.ts'
import { eachOf } from '../engine/each-of.ts'
import { joinOf, madeUp } from './forgeries.ts'
import { putToRegistrar } from './raw.ts'
import type { World } from './world.ts'

const MEMBERS = 4
const LATE_MEMBERS = 2
/** of protocol/README.md §4: entries a minute that a registrar takes of one PeerId */
const PUTS_A_MINUTE = 32

/** One attacker's many identities join a space, from several hostile nodes, faster than a registrar takes them of one publisher. */
export async function sybilSpace(world: World, { identities, hosts }: { identities: number; hosts: number }): Promise<void> {
  const attack = 'sybil flood of a space'
  const space = await world.open('sybils', MEMBERS)
  const { dsid, curator } = space
  const registrars = await curator.node.registry.registrars(dsid)
  const nowMs = systemClock.nowMs()
  const flooders = world.hostile.slice(0, hosts)
  const each = Math.ceil(identities / flooders.length)
  let sent = 0
  const takenBy = new Map<string, number>()
  const startedMs = systemClock.monotonicMs()
  await eachOf([...flooders.entries()], 8, async ([i, { node }]) => {
    for (let n = 0; n < each; n++) {
      const sybil = madeUp(world.seed, 'sybil', i * each + n)
      world.ownedByAttackers.add(sybil.did)
      const record = joinOf(sybil, dsid, curator.agent.eid, nowMs)
      for (const target of [registrars[i % registrars.length], registrars[(i + 1) % registrars.length]]) {
        if (target === undefined) continue
        sent++
        if ((await putToRegistrar(node.host, target, { set: 'members', key: dsid, record })) !== 'ok') continue
        const name = `${node.peer}>${target.peer}`
        takenBy.set(name, (takenBy.get(name) ?? 0) + 1)
      }
    }
  })
  const minutes = (systemClock.monotonicMs() - startedMs) / 60_000
  const honest = new Set(world.honest.map(({ node }) => node.peer))
  const most = Math.max(0, ...[...takenBy].filter(([name]) => honest.has(name.split('>')[1] as string)).map(([, count]) => count))
  world.check(attack, 'joins of made-up identities sent', sent, 'at least', identities)
  world.check(attack, 'of one node taken by one honest registrar', most, 'at most', Math.ceil(PUTS_A_MINUTE * (1 + minutes)))

  const late = world.honest.filter((node) => node !== curator && !space.members.includes(node)).slice(-LATE_MEMBERS)
  await world.join(space, late)
  const tally = await world.search(space)
  world.checkSearches(attack, tally, 0.99)
  world.check(attack, 'honest members shown by a search, those that joined late too', tally.recall, 'at least', 0.99)
  const held = world.honest.map(({ node }) => node.registry.stats().entries)
  world.check(attack, 'entries that one honest node holds', Math.max(...held), 'at most', 10_000)
}
