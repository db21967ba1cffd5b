import { base58btc } from 'multiformats/bases/base58'
import { describe, expect, it } from 'vitest'
import { compare, concat } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { placeOfPeer } from '../../src/net/key-region.ts'
import { NetworkSize } from '../../src/net/network-size.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'

const K = 20
const NODES = 1_000
const random = seededRandom(5)
const newPeer = () => base58btc.baseEncode(concat([Uint8Array.of(0, 0x24, 8, 1, 0x12, 0x20), random.bytes(32)]))
const placeOf = (peer: string) => placeOfPeer(nodeCrypto, peer) as Uint8Array
const nearest = (peers: readonly string[], place: Uint8Array, count = K) =>
  peers
    .map((peer) => ({ peer, distance: placeOf(peer).map((byte, i) => byte ^ (place[i] as number)) }))
    .sort((a, b) => compare(a.distance, b.distance))
    .slice(0, count)
    .map(({ peer }) => peer)

const network = Array.from({ length: NODES }, newPeer)
const self = network[0] as string

function sized({ neighbours, lookUp }: { neighbours: () => string[]; lookUp?: (key: Uint8Array) => Promise<string[]> }) {
  const clock = new ManualClock()
  let lookUps = 0
  const size = new NetworkSize({
    self,
    crypto: nodeCrypto,
    clock,
    random: seededRandom(3),
    neighbours,
    lookUp: async (key) => {
      lookUps++
      return await (lookUp ?? (async () => nearest(network, nodeCrypto.sha256(key))))(key)
    }
  })
  return { size, clock, lookUps: () => lookUps }
}

const about = async (size: NetworkSize) => (await size.nodes()) ?? Number.NaN
const honest = () => nearest(network.slice(1), placeOf(self))

describe('how many nodes a network has', () => {
  it('[G-24] is told about right by a node beside a crowd of ground identities, and by one whose table knows nobody near', async () => {
    const crowd = nearest(Array.from({ length: 20_000 }, newPeer), placeOf(self))
    for (const neighbours of [honest, () => crowd, () => network.slice(1, 1 + K), () => []]) {
      const nodes = await about(sized({ neighbours }).size)
      expect(nodes).toBeGreaterThan(NODES / 3)
      expect(nodes).toBeLessThan(NODES * 3)
    }
  })

  it('is asked once by all who want to know, then again ten minutes later', async () => {
    const { size, clock, lookUps } = sized({ neighbours: honest })
    const [first, second] = await Promise.all([about(size), about(size)])
    expect(second).toBe(first)
    expect(lookUps()).toBe(3)
    clock.advance(599_000)
    expect(await about(size)).toBe(first)
    expect(lookUps()).toBe(3)
    clock.advance(1_000)
    await about(size)
    expect(lookUps()).toBe(6)
  })

  it('is told by our own neighbours alone where all look-ups fail, and by nobody where there are none, which is asked again soon but not at every question', async () => {
    const lookUp = async () => {
      throw new Error('nobody answers')
    }
    const alone = await about(sized({ neighbours: honest, lookUp }).size)
    expect(alone).toBeGreaterThan(NODES / 3)
    const { size, clock, lookUps } = sized({ neighbours: () => [], lookUp })
    for (let i = 0; i < 5; i++) expect(await size.nodes()).toBeUndefined()
    expect(lookUps()).toBe(3)
    clock.advance(15_000)
    expect(await size.nodes()).toBeUndefined()
    expect(lookUps()).toBe(6)
  })
})
