import type { PeerId } from '@libp2p/interface'

/** A peer with its place: SHA-256 of its multihash. */
export interface TablePeer {
  readonly peerId: PeerId
  readonly kadId: Uint8Array
}

/** kad-dht's routing table: a trie over the bits of places, with the peers in its leaves. */
export type TableNode = { readonly peers: readonly TablePeer[] } | { readonly left: TableNode; readonly right: TableNode }

/**
 * Peers by their XOR distance to a place, nearest first, by a walk that takes at each fork the side of the place first: all peers there are nearer than
 * all on the other. kad-dht's own way compares every peer with every one that it holds so far, 9 ms for each FIND_NODE at 5,000 peers.
 */
export function* nearestInTable(node: TableNode, place: Uint8Array, depth = 0): Generator<TablePeer> {
  if ('peers' in node) {
    yield* [...node.peers].sort((a, b) => byDistance(place, a.kadId, b.kadId))
    return
  }
  const isRight = ((place[depth >> 3] as number) & (0x80 >> (depth & 7))) !== 0
  yield* nearestInTable(isRight ? node.right : node.left, place, depth + 1)
  yield* nearestInTable(isRight ? node.left : node.right, place, depth + 1)
}

/** In place of kad-dht's `KBucket.closest`. */
export function* closestInTable(
  root: TableNode,
  place: Uint8Array,
  { count, exclude = [] }: { count: number; exclude?: readonly PeerId[] | undefined }
): Generator<PeerId> {
  let given = 0
  for (const { peerId } of nearestInTable(root, place)) {
    if (given === count) return
    if (exclude.some((one) => one.equals(peerId))) continue
    given++
    yield peerId
  }
}

function byDistance(place: Uint8Array, a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < place.length; i++) {
    const difference = ((a[i] as number) ^ (place[i] as number)) - ((b[i] as number) ^ (place[i] as number))
    if (difference !== 0) return difference
  }
  return 0
}
