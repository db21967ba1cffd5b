import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compare } from '../../protocol/bytes.ts'
import { closestInTable, nearestInTable, type TableNode, type TablePeer } from '../../src/net/nearest-in-table.ts'

const peerId = peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(1)))
const another = peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(2)))

/** Split where more than `k` share a prefix, down to eight bits, as the library's table is. */
function trie(peers: readonly TablePeer[], k: number, depth = 0): TableNode {
  if (peers.length <= k || depth === 8) return { peers }
  const isRight = ({ kadId }: TablePeer) => ((kadId[depth >> 3] as number) & (0x80 >> (depth & 7))) !== 0
  return {
    left: trie(
      peers.filter((one) => !isRight(one)),
      k,
      depth + 1
    ),
    right: trie(peers.filter(isRight), k, depth + 1)
  }
}

const place = fc.uint8Array({ minLength: 32, maxLength: 32 })

describe('the nearest peers of a routing table', () => {
  it('are those that a comparison with every peer finds, in the same order, whatever the tree', () => {
    fc.assert(
      fc.property(fc.array(place, { maxLength: 60 }), place, fc.integer({ min: 1, max: 8 }), fc.nat(70), (places, wanted, k, count) => {
        const peers = places.map((kadId) => ({ peerId, kadId }))
        const distance = ({ kadId }: TablePeer) => kadId.map((byte, i) => byte ^ (wanted[i] as number))
        const all = [...peers].sort((a, b) => compare(distance(a), distance(b)))
        expect([...nearestInTable(trie(peers, k), wanted)].map(({ kadId }) => kadId)).toEqual(all.map(({ kadId }) => kadId))
        expect([...closestInTable(trie(peers, k), wanted, { count })]).toHaveLength(Math.min(count, peers.length))
      })
    )
  })

  it('are found without those left out, who take nobody’s place', () => {
    const far = { peerId: another, kadId: new Uint8Array(32).fill(255) }
    const near = { peerId, kadId: new Uint8Array(32) }
    const closest = (exclude: (typeof peerId)[]) => [...closestInTable(trie([near, far], 1), new Uint8Array(32), { count: 1, exclude })]
    expect(closest([])).toEqual([peerId])
    expect(closest([peerId])).toEqual([another])
  })
})
