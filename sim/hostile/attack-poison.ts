import { equals } from '../../protocol/bytes.ts'
import { announceKey, joinKey, locatorKey } from '../../protocol/discovery/dht-key.ts'
import type { DsId } from '../../protocol/discovery/names.ts'
import { LIST_LIMIT_MAX } from '../../protocol/discovery/registry-messages.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { openRecord } from '../../protocol/records/envelope.ts'
import { joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import { elsewhere } from './attack-registrars.ts'
import { expiredJoin, forgedAnnouncements, forgedJoins, joinOf, madeUp } from './forgeries.ts'
import { putToHolder, putToRegistrar } from './raw.ts'
import type { World } from './world.ts'

const MEMBERS = 4
const POISONERS = 2
const HOLDERS = 6
const REPLAYED_AGE_MS = 600_000

/** Forged, expired and replayed records put to registrars and to holders of the DHT, past all rules of the sender's own node. */
export async function poisonedRecords(world: World): Promise<void> {
  const space = await world.open('poison', MEMBERS)
  const nowMs = systemClock.nowMs()
  const victims = space.members.map(({ agent }) => agent)
  const [gone] = space.members as [SimNode]
  await world.leave(space, gone)
  const { dsid, curator } = space
  const liar = madeUp(world.seed, 'poisoner', 0)
  const named = { ns: 'org.agentnet', topic: 'hostile.poison', ver: 1 }
  const announcements = forgedAnnouncements(curator.agent, liar, named, nowMs)
  const joins = [
    ...forgedJoins({ victims: victims.slice(0, 1), liar, dsid, other: elsewhere(dsid), curator: curator.agent.eid, nowMs }),
    ...victims.map((victim) => expiredJoin(victim, dsid, curator.agent.eid, nowMs))
  ]
  // a registrar that no later word of whoever left has reached keeps it rightly: readers see the tombstone's higher number at others
  const replayed = joinOf(gone.agent, dsid, curator.agent.eid, nowMs - REPLAYED_AGE_MS)
  const poisoners = drawDistinct(world.random, world.hostile, POISONERS)
  const registrars = (await curator.node.registry.registrars(dsid)).map(({ peer }) => peer)
  const isHonest = (node: SimNode) => world.honest.includes(node)
  const targets = world.engine.nodes.filter((node) => isHonest(node) && registrars.includes(node.node.peer)).slice(0, HOLDERS)
  const informed = new Set<SimNode>()
  for (const target of targets) if (await knowsOf(target, dsid, gone.agent.eid, nowMs - REPLAYED_AGE_MS)) informed.add(target)
  let sent = 0
  let taken = 0
  await eachOf(poisoners, POISONERS, async ({ node: { host } }) => {
    for (const target of targets) {
      const { node } = target
      const at = { peer: node.peer, addrs: node.host.addresses() }
      const put = async (set: 'members' | 'announcements', record: Uint8Array, dhtKey?: Uint8Array) => {
        sent++
        if ((await putToRegistrar(host, at, { set, key: dsid, record })) === 'ok') taken++
        if (dhtKey === undefined) return
        sent++
        if ((await putToHolder(host, at, dhtKey, record)) === 'taken') taken++
      }
      for (const record of announcements) await put('announcements', record, announceKey(dsid))
      for (const record of joins) await put('members', record, joinKey(dsid, gone.agent.eid))
      for (const record of joins.slice(0, 2)) await put('members', record, locatorKey(gone.agent.eid))
      if (informed.has(target)) await put('members', replayed)
      else await putToRegistrar(host, at, { set: 'members', key: dsid, record: replayed })
    }
  })
  world.check('poisoned records', 'registrars that know a later word of whoever left', informed.size, 'at least', 1)
  world.check('poisoned records', 'forged, expired and replayed records sent', sent, 'at least', 1)
  world.check('poisoned records', 'of them taken by an honest node', taken, 'exactly', 0)
  world.checkSearches('poisoned records', await world.search(space), 0.99)
}

/** Whether this node, as a registrar, holds a record of the member with a higher number. */
async function knowsOf({ node }: SimNode, dsid: DsId, member: Eid, number: number): Promise<boolean> {
  const { records } = await node.registry.held({
    verb: 'list',
    set: 'members',
    key: dsid,
    cursor: new Uint8Array(0),
    limit: LIST_LIMIT_MAX
  })
  return records.some((record) => {
    const { payload } = openRecord(nodeCrypto, joinType, record, { nowMs: systemClock.nowMs() })
    return payload.seq > number && equals(payload.eid, member)
  })
}
