import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import type { PeerId } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { beforeAll, describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type KadRpc, Lookup } from '../../src/net/dht-lookup.ts'
import { ManualClock } from '../../src/platform/clock.ts'

let ids: PeerId[]

beforeAll(async () => {
  ids = await Promise.all(
    [1, 2, 3, 4, 5].map(async (fill) => peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(fill))))
  )
})

/** The first peer of the list looks up; its table holds `table`, and each other peer names those of `names`. By position. */
function lookupIn(table: number[], names: Record<number, number[]>, kBucketSize = 8): Lookup {
  const at = (i: number) => ids[i] as PeerId
  const info = (i: number) => ({ id: at(i), multiaddrs: [multiaddr(`/memory/${i}`)] })
  const kad = {
    routingTable: { size: table.length, closestPeers: () => table.map(at), remove: async () => {} }
  } as unknown as KadRpc
  const findNode = async (peer: PeerId) => {
    const closer = names[ids.findIndex((id) => id.equals(peer))]
    if (closer === undefined) throw new Error('no answer')
    return closer.map(info)
  }
  return new Lookup(
    {
      kad,
      self: at(0),
      findNode,
      crypto: nodeCrypto,
      clock: new ManualClock(),
      connected: async () => [],
      isAllowed: () => true
    },
    { kBucketSize, alpha: 1, disjointPaths: 1 }
  )
}

async function hopsOf(lookup: Lookup): Promise<Record<number, number>> {
  const found = await lookup.closest(new Uint8Array(40), new AbortController().signal)
  return Object.fromEntries(found.map(({ id, hops }) => [ids.findIndex((one) => one.equals(id)), hops]))
}

describe('a look-up of our own place', () => {
  it('finds as many others as any: who names us takes no place from them', async () => {
    const lookup = lookupIn([1], { 1: [0, 2, 3, 4], 2: [0, 1], 3: [0, 1], 4: [0, 1] }, 4)
    const found = await lookup.closest((ids[0] as PeerId).toMultihash().bytes, new AbortController().signal)
    expect(found.map(({ id }) => ids.findIndex((one) => one.equals(id))).sort()).toEqual([1, 2, 3, 4])
  })
})

describe('the hops of a look-up', () => {
  it('are one for a peer of our own table, and one more for each peer that had to be asked before', async () => {
    expect(await hopsOf(lookupIn([1], { 1: [2], 2: [3], 3: [4], 4: [] }))).toEqual({ 1: 1, 2: 2, 3: 3, 4: 4 })
  })

  it('stay one for a peer of our own table that another names too', async () => {
    expect(await hopsOf(lookupIn([1, 2], { 1: [2, 3], 2: [1, 3], 3: [1, 2] }))).toEqual({ 1: 1, 2: 1, 3: 2 })
  })

  it('are told of peers that answered alone', async () => {
    expect(await hopsOf(lookupIn([1], { 1: [2, 3], 2: [] }))).toEqual({ 1: 1, 2: 2 })
  })
})
