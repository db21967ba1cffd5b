import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import type { PeerId } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { beforeAll, describe, expect, it } from 'vitest'
import { compare } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type KadRpc, Lookup } from '../../src/net/dht-lookup.ts'
import { ManualClock } from '../../src/platform/clock.ts'

const KEY = new Uint8Array(40).fill(3)
const PEERS = 120
let ids: PeerId[]

beforeAll(async () => {
  ids = await Promise.all(
    Array.from({ length: PEERS }, async (_, i) => {
      const seed = new Uint8Array(32)
      new DataView(seed.buffer).setUint32(0, i + 1)
      return peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', seed))
    })
  )
})

/** Honest peers name the nearest of all; liars name each other alone, or as many strangers as an answer takes. */
function world(disjointPaths: number, liars: (at: number) => boolean, table: number[]) {
  const place = nodeCrypto.sha256(KEY)
  const info = (id: PeerId) => ({ id, multiaddrs: [multiaddr('/memory/x')] })
  const isLiar = new Set(ids.filter((_, i) => liars(i)).map(String))
  const asked: string[] = []
  const kad = {
    routingTable: { size: table.length, closestPeers: () => table.map((i) => ids[i] as PeerId), remove: async () => {} }
  } as unknown as KadRpc
  const findNode = async (peer: PeerId) => {
    asked.push(peer.toString())
    const pool = isLiar.has(peer.toString()) ? ids.filter((id) => isLiar.has(id.toString())) : ids.slice(1)
    const nearest = [...pool].sort((a, b) => compare(lookup.distance(a, place), lookup.distance(b, place)))
    return nearest.slice(0, 20).map(info)
  }
  const lookup: Lookup = new Lookup(
    {
      kad,
      self: ids[0] as PeerId,
      findNode,
      crypto: nodeCrypto,
      clock: new ManualClock(),
      connected: async () => [],
      isAllowed: () => true
    },
    { kBucketSize: 20, alpha: 3, disjointPaths }
  )
  const truth = ids.slice(1).sort((a, b) => compare(lookup.distance(a, place), lookup.distance(b, place)))
  return { lookup, asked, nearest: truth.slice(0, 20).map(String), isLiar }
}

describe('a look-up over disjoint paths', () => {
  it('finds the nearest though the peers of two paths of three name only each other', async () => {
    const { lookup, nearest, isLiar } = world(3, (i) => i % 3 !== 0, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    const found = (await lookup.closest(KEY, new AbortController().signal)).map(({ id }) => id.toString())
    const honest = nearest.filter((peer) => !isLiar.has(peer))
    expect(honest.length).toBeGreaterThan(0)
    expect(found.filter((peer) => honest.includes(peer))).toEqual(honest)
  })

  it('asks no peer on two paths, and no more than 200 whatever is promised', async () => {
    const { lookup, asked } = world(3, () => false, [1, 2, 3, 4, 5, 6])
    await lookup.closest(KEY, new AbortController().signal)
    expect(new Set(asked).size).toBe(asked.length)
    expect(asked.length).toBeLessThanOrEqual(200)
  })

  it('finds exactly the twenty nearest of an honest network', async () => {
    const { lookup, nearest } = world(3, () => false, [1, 2, 3])
    const found = (await lookup.closest(KEY, new AbortController().signal)).map(({ id }) => id.toString())
    expect(found).toEqual(nearest)
  })
})
