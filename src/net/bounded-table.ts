import type { TableNode, TablePeer } from './nearest-in-table.ts'

/** The trie of kad-dht's routing table, with its way of taking a peer in: at first, and again once the peer answered a ping. */
export interface TableTrie {
  readonly root: TableNode
  _add(peer: TablePeer, options?: object): Promise<void>
}

/**
 * Holds the table to Kademlia's own size: of the peers whose places have exactly so many leading bits in common with ours, k, for each number of bits.
 * Near ourselves that is everyone; all in all k log2(n / k) peers of n, where buckets that split wherever they lie hold all of them. Peers for whom there
 * is no room are not pinged. Those that fall silent make room (a look-up takes them out).
 */
export function boundTable(kb: TableTrie, { own, k }: { own: Uint8Array; k: number }): void {
  const add = kb._add.bind(kb)
  kb._add = async (peer, options) => {
    if (hasRoom(kb.root, own, peer.kadId, k)) await add(peer, options)
  }
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
