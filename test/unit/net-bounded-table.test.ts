import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { boundTable, hasRoom } from '../../src/net/bounded-table.ts'
import type { TableNode, TablePeer } from '../../src/net/nearest-in-table.ts'

const peerId = peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(1)))

/** Split where more than `k` share a prefix, as the library's table is. */
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

function sharedBits(a: Uint8Array, b: Uint8Array): number {
  const bits = (place: Uint8Array) => [...place].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const [one, other] = [bits(a), bits(b)]
  let shared = 0
  while (shared < one.length && one[shared] === other[shared]) shared++
  return shared
}

const place = fc.uint8Array({ minLength: 4, maxLength: 4 })

describe('a routing table bounded by prefix', () => {
  it('has room for a place as long as fewer than k share as many leading bits with its own, whatever the tree', () => {
    fc.assert(
      fc.property(fc.array(place, { maxLength: 80 }), place, place, fc.integer({ min: 1, max: 8 }), (places, own, asked, k) => {
        const shared = sharedBits(own, asked)
        const held = places.filter((one) => sharedBits(own, one) === shared).length
        expect(
          hasRoom(
            trie(
              places.map((kadId) => ({ peerId, kadId })),
              k
            ),
            own,
            asked,
            k
          )
        ).toBe(held < k)
      })
    )
  })

  it('lets the library consider and take in those for whom there is room, once, and pings nobody else', async () => {
    const root = { peers: [] as TablePeer[] }
    const places = new Map<string, Uint8Array>()
    const queued: string[] = []
    const table = {
      kb: {
        root: root as TableNode,
        async _add(peer: TablePeer) {
          root.peers.push(peer)
        }
      },
      queueRoutingTableUpdate: (peer: { toString(): string }) => void queued.push(String(peer))
    }
    boundTable(table, { own: new Uint8Array(4), k: 2, placeOf: (peer) => places.get(String(peer)) as Uint8Array })
    const peerAt = (...place: number[]) => {
      const name = place.join()
      places.set(name, Uint8Array.from(place))
      return { peerId: { toString: () => name } as unknown as typeof peerId, kadId: Uint8Array.from(place) }
    }
    const far = [0x80, 0x81, 0x82].map((byte) => peerAt(byte, 0, 0, 0))
    const near = [1, 2].map((byte) => peerAt(0, 0, 0, byte))
    for (const peer of [...far, ...near]) await table.kb._add(peer)
    expect(root.peers).toEqual([...far.slice(0, 2), ...near])
    for (const { peerId: peer } of [...far, ...near, peerAt(0, 1, 0, 0)]) table.queueRoutingTableUpdate(peer)
    expect(queued).toEqual(['0,1,0,0'])
  })
})
