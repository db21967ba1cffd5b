import type { PeerId } from '@libp2p/interface'
import { compare } from '../../protocol/bytes.ts'
import type { TableNode, TablePeer } from './nearest-in-table.ts'

/** kad-dht's routing table: whom it considers, and its trie's way of taking one in, at first and again once that one answered a ping. */
export interface BoundableTable {
  queueRoutingTableUpdate(peer: PeerId, options?: object): void
  readonly kb: {
    readonly root: TableNode
    _add(peer: TablePeer, options?: object): Promise<void>
  }
}

/**
 * Holds the table to Kademlia's own size: of the peers whose places have exactly so many leading bits in common with ours, k, for each number of bits.
 * Near ourselves that is everyone; all in all k log2(n / k) peers of n, where buckets that split wherever they lie hold all of them. Peers for whom there
 * is no room are not pinged. Those that fall silent make room (a look-up takes them out).
 */
export function boundTable(
  table: BoundableTable,
  { own, k, placeOf }: { own: Uint8Array; k: number; placeOf(peer: PeerId): Uint8Array }
): void {
  const { kb } = table
  const add = kb._add.bind(kb)
  kb._add = async (peer, options) => {
    if (hasRoom(kb.root, own, peer.kadId, k)) await add(peer, options)
  }
  const queue = table.queueRoutingTableUpdate.bind(table)
  // every name in every answer comes by here, and a place in the library's queue costs more than the look whether there is room
  table.queueRoutingTableUpdate = (peer, options) => {
    const place = placeOf(peer)
    if (hasRoom(kb.root, own, place, k) && !holds(kb.root, place)) queue(peer, options)
  }
}

/** Whether the table has a peer at this place. */
export function holds(root: TableNode, place: Uint8Array): boolean {
  let node = root
  for (let depth = 0; !('peers' in node); depth++) node = bitAt(place, depth) ? node.right : node.left
  return node.peers.some(({ kadId }) => compare(kadId, place) === 0)
}

/** Whether fewer than `k` peers of the table share as many leading bits with `own` as `place` does. */
export function hasRoom(root: TableNode, own: Uint8Array, place: Uint8Array, k: number): boolean {
  const bits = commonBits(own, place)
  let node = root
  // down our own path to the fork where the two part, or to the leaf that holds both sides of it
  for (let depth = 0; !('peers' in node); depth++) {
    const isRight = bitAt(own, depth)
    if (depth === bits) return isFewer(isRight ? node.left : node.right, k)
    node = isRight ? node.right : node.left
  }
  return node.peers.filter(({ kadId }) => commonBits(own, kadId) === bits).length < k
}

function isFewer(node: TableNode, than: number): boolean {
  return count(node, than) < than
}

/** Peers in a part of the table, counted up to `max`. */
function count(node: TableNode, max: number): number {
  if ('peers' in node) return node.peers.length
  const left = count(node.left, max)
  return left >= max ? left : left + count(node.right, max - left)
}

function bitAt(place: Uint8Array, bit: number): boolean {
  return ((place[bit >> 3] as number) & (0x80 >> (bit & 7))) !== 0
}

function commonBits(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length; i++) {
    const differs = (a[i] as number) ^ (b[i] as number)
    if (differs !== 0) return i * 8 + Math.clz32(differs) - 24
  }
  return a.length * 8
}
