import { compare } from '../../protocol/bytes.ts'
import { locatorKey } from '../../protocol/discovery/dht-key.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import { placeOfSecret } from '../engine/node-place.ts'
import { derivedBytes } from '../engine/seeds.ts'
import { turnRegistrar } from './registrars.ts'
import type { World } from './world.ts'

const MEMBERS = 4
const LOCATOR_SEEKERS = 10
/** Of the nearest places of a key, what an attacker has to hold before its attack is one. */
const HELD_MIN = 0.5
const LOOKS_MAX = 20
const WEEK_MS = 7 * 86_400_000

/** Node keys, the nearest to `key` of `tries` made for it: what an attacker with a second of processor time has. */
export function groundSeeds(seed: number, key: Uint8Array, { count, tries }: { count: number; tries: number }): Uint8Array[] {
  const place = nodeCrypto.sha256(key)
  const made = Array.from({ length: tries }, (_, i) => {
    const secret = derivedBytes(seed, 'ground', i)
    return { secret, distance: placeOfSecret(secret).map((byte, at) => byte ^ (place[at] as number)) }
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
  const seeker = world.honest.at(-1) as SimNode
  const sybils = await surround(world, { attack, key: space.dsid, identities, seeker })
  for (const sybil of sybils) await turnRegistrar(sybil, 'omits', new Map())
  const late = world.honest.filter((node) => node !== space.curator && node !== seeker && !space.members.includes(node)).slice(-1)
  await world.join(space, late)
  world.checkSearches(attack, await world.search(space), foundMin)
}

/**
 * The same around the key of an agent's locator. These identities lose what they are given: their clocks are a week ahead, so all that they hold has run
 * out for them.
 */
export async function eclipsedLocator(world: World, { identities }: { identities: number }): Promise<void> {
  const attack = `eclipse of a locator by ${identities} ground identities`
  const [victim, ...seekers] = drawDistinct(world.random, world.honest, 1 + LOCATOR_SEEKERS) as [SimNode, ...SimNode[]]
  const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + WEEK_MS }
  await surround(world, { attack, key: locatorKey(victim.agent.eid), identities, seeker: seekers[0] as SimNode, clock })
  await victim.node.locators.publish(victim.agent, { signal: world.signal })
  let found = 0
  let forged = 0
  await eachOf(seekers, 4, async ({ node }) => {
    const resolved = await node.locators.resolve(victim.agent.eid, { signal: world.signal, fresh: true }).catch(() => undefined)
    if (resolved?.address.peer === victim.node.peer) found++
    else if (resolved !== undefined) forged++
  })
  world.check(attack, 'look-ups that found the agent', found / seekers.length, 'at least', 0.99)
  world.check(attack, 'look-ups that led elsewhere', forged, 'exactly', 0)
}

async function surround(
  world: World,
  { attack, key, identities, seeker, ...more }: { attack: string; key: Uint8Array; identities: number; seeker: SimNode; clock?: Clock }
): Promise<SimNode[]> {
  const tries = Math.max(2_000, identities * world.engine.nodes.length * 4)
  const added = await world.engine.add(groundSeeds(world.seed, key, { count: identities, tries }), more)
  const ground = new Set(added.map(({ node }) => node.peer))
  // A large network takes a few look-ups to know of newcomers; the attack begins once it does.
  let share = 0
  for (let looks = 0; looks < LOOKS_MAX && share < HELD_MIN; looks++) {
    const nearest = await seeker.node.host.dht.closestPeers(key)
    share = nearest.filter(({ peer }) => ground.has(peer)).length / nearest.length
  }
  world.check(attack, 'of the nearest places that the attacker holds, in all', share, 'at least', HELD_MIN)
  return added
}
