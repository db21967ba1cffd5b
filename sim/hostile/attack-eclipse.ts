import { compare, concat } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { derivedBytes } from '../engine/seeds.ts'
import { turnRegistrar } from './registrars.ts'
import type { World } from './world.ts'

const MEMBERS = 4
/** A PeerId of an Ed25519 key: an identity multihash over the protobuf of the key. */
const PEER_ID_PREFIX = Uint8Array.of(0x00, 0x24, 0x08, 0x01, 0x12, 0x20)

/** Node keys, the nearest to `key` of `tries` made for it: what an attacker with a second of processor time has. */
export function groundSeeds(seed: number, key: Uint8Array, { count, tries }: { count: number; tries: number }): Uint8Array[] {
  const place = nodeCrypto.sha256(key)
  const made = Array.from({ length: tries }, (_, i) => {
    const secret = derivedBytes(seed, 'ground', i)
    const own = nodeCrypto.sha256(concat([PEER_ID_PREFIX, nodeCrypto.ed25519.publicKey(secret)]))
    return { secret, distance: own.map((byte, at) => byte ^ (place[at] as number)) }
  })
  return made
    .sort((a, b) => compare(a.distance, b.distance))
    .slice(0, count)
    .map(({ secret }) => secret)
}

/** Identities ground so that they are the nearest of all to one space's key; they take every join and show none. */
export async function eclipsedKey(world: World, { identities, foundMin }: { identities: number; foundMin: number }): Promise<void> {
  const attack = `eclipse by ${identities} ground identities`
  const space = await world.open('eclipse', MEMBERS)
  const tries = Math.max(2_000, identities * world.engine.nodes.length * 4)
  const seeds = groundSeeds(world.seed, space.dsid, { count: identities, tries })
  const sybils = await world.engine.add(seeds)
  for (const sybil of sybils) await turnRegistrar(sybil, 'omits', new Map())
  const ground = new Set(sybils.map(({ node }) => node.peer))
  const seeker = world.honest.at(-1) as SimNode
  const nearest = await seeker.node.host.dht.closestPeers(space.dsid)
  const held = nearest.filter(({ peer }) => ground.has(peer)).length
  world.check(attack, 'of the nearest places that the attacker holds, in all', held / nearest.length, 'at least', 0.5)
  const late = world.honest.filter((node) => node !== space.curator && node !== seeker && !space.members.includes(node)).slice(-1)
  await world.join(space, late)
  world.checkSearches(attack, await world.search(space), foundMin)
}
