import { base58btc } from 'multiformats/bases/base58'
import { afterEach, describe, expect, it } from 'vitest'
import { compare, concat, equals } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, fakeNode } from './fakes/fake-node.ts'
import { ENERGY_ID, joinRecord } from './fakes/fake-records.ts'

const REGION = 20
const CROWD = 20
/** as many as the reader takes the network to have */
const NODES = 400
const GROUND = 20_000

const members = { set: 'members' as const, key: ENERGY_ID }
const random = seededRandom(11)
const newPeer = () => base58btc.baseEncode(concat([Uint8Array.of(0, 0x24, 8, 1, 0x12, 0x20), random.bytes(32)]))
const placeOf = (peer: string) => nodeCrypto.sha256(base58btc.baseDecode(peer))

function nearestTo(place: Uint8Array, of: number, count: number): string[] {
  return Array.from({ length: of }, newPeer)
    .map((peer) => ({ peer, distance: placeOf(peer).map((byte, i) => byte ^ (place[i] as number)) }))
    .sort((a, b) => compare(a.distance, b.distance))
    .slice(0, count)
    .map(({ peer }) => peer)
}

const nodes: FakeNode[] = []

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop()
})

describe('a listing of a crowded key', () => {
  it('[G-24] asks as many registrars of the region as of any other key, and the crowd beside them', async () => {
    const clock = new ManualClock()
    const network = new FakeNetwork(clock)
    const added = async (name: string) => {
      const node = await fakeNode(network, clock, name)
      nodes.push(node)
      return node
    }
    const region: FakeNode[] = []
    for (let i = 0; i < REGION; i++) region.push(await added(`region-${i}`))
    const liar = await added('liar')
    const reader = await added('reader')
    // the nearest places of the key, each held by the one who grinds
    const crowd = nearestTo(nodeCrypto.sha256(ENERGY_ID), GROUND, CROWD)
    for (const peer of crowd) network.hosts.set(peer, liar.host)
    const neighbours = nearestTo(placeOf(reader.host.peer), NODES, 20)
    reader.host.dht.neighbours = (max) => neighbours.slice(0, max).map((peer) => ({ peer, addrs: [] }))
    reader.host.dht.closestPeers = async (key, options) =>
      (equals(key, ENERGY_ID) ? crowd : region.map(({ host }) => host.peer))
        .slice(0, options?.countMax ?? 20)
        .map((peer) => ({ peer, addrs: [] }))
    const holder = region[7] as FakeNode
    await holder.registry.put({ ...members, record: joinRecord(fakeAgent('bob'), fakeAgent('alice').eid, clock.nowMs()) })

    const listed = await reader.registry.list(members)
    const ofRegion = region.filter(({ host }) => listed.asked.includes(host.peer))
    expect(listed.known).toHaveLength(REGION + CROWD)
    expect(ofRegion).toHaveLength(10)
    expect(listed.asked).toHaveLength(20)
    expect(listed.complete).toBe(true)
    expect(listed.entries).toHaveLength(ofRegion.includes(holder) ? 1 : 0)
  })
})
