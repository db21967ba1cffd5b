import { base58btc } from 'multiformats/bases/base58'
import { describe, expect, it } from 'vitest'
import { concat } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { beyondTheCrowd, isCrowded, nodesEstimated, placeOfPeer, regionKeys } from '../../src/net/key-region.ts'
import { seededRandom } from '../../src/platform/random.ts'

const K = 20
const random = seededRandom(7)
const newPeer = () => base58btc.baseEncode(concat([Uint8Array.of(0, 0x24, 8, 1, 0x12, 0x20), random.bytes(32)]))
const places = new Map<string, number>()
/** the first 48 bits are enough to order a few thousand peers */
const head = (place: Uint8Array) => Buffer.from(place).readUIntBE(0, 6)
const placeOf = (peer: string) => {
  const known = places.get(peer) ?? head(nodeCrypto.sha256(base58btc.baseDecode(peer)))
  places.set(peer, known)
  return known
}
const xor = (a: number, b: number) => Number(BigInt(a) ^ BigInt(b))
const nearestTo = (peers: readonly string[], place: number, count: number) =>
  peers
    .map((peer) => ({ peer, distance: xor(placeOf(peer), place) }))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, count)
    .map(({ peer }) => peer)
const nearest = (peers: readonly string[], place: Uint8Array, count: number) => nearestTo(peers, head(place), count)

const network = Array.from({ length: 2_000 }, newPeer)
const key = nodeCrypto.sha256(Uint8Array.of(1))
const place = nodeCrypto.sha256(key)
/** what an attacker gets out of 20,000 keys */
const ground = nearest(Array.from({ length: 20_000 }, newPeer), place, K)
const ownPlace = (peer: string) => placeOfPeer(nodeCrypto, peer) as Uint8Array
const neighboursOf = (peer: string) =>
  nearestTo(
    network.filter((other) => other !== peer),
    placeOf(peer),
    K
  )

describe('the region around a key', () => {
  it('tells a network’s size from the distances to the nearest neighbours, within a factor of three', () => {
    for (const peer of network.slice(0, 50)) {
      const nodes = nodesEstimated(nodeCrypto, ownPlace(peer), neighboursOf(peer)) as number
      expect(nodes).toBeGreaterThan(network.length / 3)
      expect(nodes).toBeLessThan(network.length * 3)
    }
    expect(nodesEstimated(nodeCrypto, place, network.slice(1, 5))).toBeUndefined()
    expect(nodesEstimated(nodeCrypto, place, Array(30).fill('no peer'))).toBeUndefined()
    expect(placeOfPeer(nodeCrypto, 'no peer')).toBeUndefined()
  })

  it('calls twenty ground identities a crowd, also with an honest peer behind nineteen of them, and no honest neighbourhood of a hundred', () => {
    const nodes = nodesEstimated(nodeCrypto, ownPlace(network[0] as string), neighboursOf(network[0] as string)) as number
    expect(isCrowded(nodeCrypto, key, ground, nodes)).toBe(true)
    expect(isCrowded(nodeCrypto, key, [...ground.slice(1), ...nearest(network, place, 1)], nodes)).toBe(true)
    for (let i = 0; i < 100; i++) {
      const other = nodeCrypto.sha256(Uint8Array.of(2, i & 255, i >> 8))
      expect(isCrowded(nodeCrypto, other, nearest(network, nodeCrypto.sha256(other), K), nodes)).toBe(false)
    }
  })

  it('names places whose nearest peers are honest, most of them the same for estimates within a factor of two', () => {
    const everyone = [...network, ...ground]
    const regionFor = (nodes: number) =>
      new Set(regionKeys(nodeCrypto, key, { nodes, count: K }).flatMap((beside) => nearest(everyone, nodeCrypto.sha256(beside), K)))
    const mine = regionFor(network.length)
    expect([...mine].filter((peer) => ground.includes(peer)).length).toBeLessThanOrEqual(K)
    expect([...mine].filter((peer) => !ground.includes(peer)).length).toBeGreaterThanOrEqual(K)
    for (const nodes of [network.length / 2, network.length * 2]) {
      const theirs = regionFor(nodes)
      expect([...mine].filter((peer) => theirs.has(peer) && !ground.includes(peer)).length).toBeGreaterThanOrEqual(K / 2)
    }
  })

  it('is taken from all four of its places alike, so who estimates half or twice as many nodes finds most of the same', async () => {
    const everyone = [...network, ...ground]
    const count = 20
    const found = (peers: string[]) => peers.map((peer) => ({ peer, addrs: [] }))
    const chosenFor = async (nodes: number) => {
      const dht = {
        closestPeers: async (beside: Uint8Array) => found(nearest(everyone, nodeCrypto.sha256(beside), count)),
        nodes: async () => nodes,
        routingTableSize: () => 100
      }
      const others = await beyondTheCrowd({ dht, crypto: nodeCrypto }, key, found(ground), { count })
      return others.slice(0, count).map(({ peer }) => peer)
    }
    const mine = await chosenFor(network.length)
    for (const beside of regionKeys(nodeCrypto, key, { nodes: network.length, count })) {
      const there = nearest(everyone, nodeCrypto.sha256(beside), count)
      expect(mine.filter((peer) => there.includes(peer)).length).toBeGreaterThanOrEqual(count / 4)
    }
    for (const nodes of [network.length / 2, network.length * 2]) {
      const theirs = new Set(await chosenFor(nodes))
      expect(mine.filter((peer) => theirs.has(peer)).length).toBeGreaterThanOrEqual(count * 0.6)
    }
    expect(await chosenFor(1_000_000)).toEqual([])
  })

  it('searches no key for longer than sixteen bits of a place take', () => {
    expect(regionKeys(nodeCrypto, key, { nodes: 1e12, count: K })).toEqual([])
  })
})
