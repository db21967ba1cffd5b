import { type DsId, dsId, parseSpaceName } from '../../protocol/discovery/names.ts'
import { ANNOUNCE_TTL_SEC, announceType, POLICY_OPEN } from '../../protocol/records/announce.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import { putToRegistrar } from './raw.ts'
import type { World } from './world.ts'

const READERS = 4
const TOLD_WITHIN_MS = 10_000
const LOOK_MS = 100

/** Agents that announce one space twice under one number, one way to these registrars and another way to those. */
export async function equivocators(world: World, { liars }: { liars: number }): Promise<void> {
  const attack = 'equivocation'
  const chosen = drawDistinct(world.random, world.hostile, liars)
  let proven = 0
  let told = 0
  for (const [i, liar] of chosen.entries()) {
    const name = `org.agentnet/hostile.twofaced${i}@1`
    const dsid = dsId(nodeCrypto, parseSpaceName(name))
    const registrars = await liar.node.registry.registrars(dsid)
    const records = twoFaces(liar, i, systemClock.nowMs())
    await eachOf([...registrars.entries()], registrars.length, async ([at, target]) => {
      await putToRegistrar(liar.node.host, target, { set: 'announcements', key: dsid as DsId, record: records[at % 2] as Uint8Array })
    })
    const readers = drawDistinct(world.random, world.honest, READERS)
    const [outsider] = drawDistinct(
      world.random,
      world.honest.filter((node) => !readers.includes(node)),
      1
    ) as [SimNode]
    await eachOf(readers, READERS, async ({ node }) => void (await node.spaces.find({ name }, { signal: world.signal })))
    const untilMs = systemClock.monotonicMs() + TOLD_WITHIN_MS
    const isProven = () => readers.every(({ node }) => node.evidence.standing(liar.agent.eid) !== 'nominal')
    while (!isProven() && systemClock.monotonicMs() < untilMs) await systemClock.sleep(LOOK_MS, { signal: world.signal })
    if (isProven()) proven++
    let standing = await outsider.node.evidence.check(liar.agent.eid, { signal: world.signal })
    while (standing === 'nominal' && systemClock.monotonicMs() < untilMs) {
      await systemClock.sleep(LOOK_MS, { signal: world.signal })
      standing = await outsider.node.evidence.check(liar.agent.eid, { signal: world.signal })
    }
    if (standing !== 'nominal') told++
  }
  world.check(attack, 'liars that all who read both announcements refuse', proven / chosen.length, 'exactly', 1)
  world.check(attack, 'liars that a node which read neither refuses on the word of a ticket', told / chosen.length, 'exactly', 1)
  const honest = new Set<string>(world.honest.map(({ agent }) => agent.did))
  const wronged = world.honest.flatMap(({ node }) => node.evidence.list()).filter(({ did, refused }) => refused && honest.has(did)).length
  world.check(attack, 'honest agents that an honest node refuses', wronged, 'exactly', 0)
}

function twoFaces({ agent }: SimNode, i: number, nowMs: number): [Uint8Array, Uint8Array] {
  const ts = Math.floor(nowMs / 1_000)
  const face = (desc: string) =>
    buildRecord(
      nodeCrypto,
      announceType,
      {
        ns: 'org.agentnet',
        topic: `hostile.twofaced${i}`,
        ver: 1,
        desc,
        curator: agent.eid,
        seeds: [],
        policy: POLICY_OPEN,
        shards: 1,
        seq: nowMs,
        ts,
        exp: ts + ANNOUNCE_TTL_SEC
      },
      agent.signer
    ).bytes
  return [face('all are welcome'), face('nobody is welcome')]
}
