/** The depth to which kad-dht's trie of buckets splits. */
const PREFIX_BITS = 6

type Branch = { left: Branch; right: Branch } | { peers: number[]; depth: number }

/** Where nodes lie in the key space: the first 64 bits of SHA-256, in two halves. */
export interface Places {
  readonly hi: Uint32Array
  readonly lo: Uint32Array
}

/** The routing table of one modelled node: kad-dht's rule, by which buckets of k split everywhere down to six bits and hold no more below. */
export class RoutingTable {
  readonly #places: Places
  readonly #k: number
  readonly #all: number[] = []
  readonly #root: Branch = { peers: [], depth: 0 }

  constructor(places: Places, k: number) {
    this.#places = places
    this.#k = k
  }

  get size(): number {
    return this.#all.length
  }

  get peers(): readonly number[] {
    return this.#all
  }

  /** @param isUp - asked of those in a full bucket: one that is not makes room */
  add(peer: number, isUp: (peer: number) => boolean): void {
    const hi = this.#places.hi[peer] as number
    for (;;) {
      const leaf = this.#leaf(hi)
      if (leaf.peers.includes(peer)) return
      if (leaf.peers.length < this.#k) {
        leaf.peers.push(peer)
        this.#all.push(peer)
        return
      }
      if (leaf.depth < PREFIX_BITS) {
        this.#split(leaf)
        continue
      }
      const gone = leaf.peers.find((one) => !isUp(one))
      if (gone === undefined) return
      this.remove(gone)
    }
  }

  remove(peer: number): void {
    const leaf = this.#leaf(this.#places.hi[peer] as number)
    const at = leaf.peers.indexOf(peer)
    if (at === -1) return
    leaf.peers.splice(at, 1)
    const inAll = this.#all.indexOf(peer)
    this.#all[inAll] = this.#all.at(-1) as number
    this.#all.pop()
  }

  /** The nearest to a place, nearest first. */
  closest(hi: number, lo: number, count: number, except = -1): number[] {
    return nearest(this.#places, this.#all, hi, lo, count, except)
  }

  #leaf(hi: number): { peers: number[]; depth: number } {
    let at = this.#root
    for (let bit = 31; 'left' in at; bit--) at = ((hi >>> bit) & 1) === 0 ? at.left : at.right
    return at
  }

  #split(leaf: { peers: number[]; depth: number }): void {
    const { peers, depth } = leaf
    const left = { peers: [] as number[], depth: depth + 1 }
    const right = { peers: [] as number[], depth: depth + 1 }
    for (const peer of peers)
      (((this.#places.hi[peer] as number) >>> (31 - depth)) & 1) === 0 ? left.peers.push(peer) : right.peers.push(peer)
    const branch = leaf as { left?: Branch; right?: Branch; peers?: number[]; depth?: number }
    branch.left = left
    branch.right = right
    delete branch.peers
    delete branch.depth
  }
}

/** Of a list, the nearest to a place by XOR. */
export function nearest(
  { hi, lo }: Places,
  list: readonly number[],
  placeHi: number,
  placeLo: number,
  count: number,
  except = -1
): number[] {
  const best: number[] = []
  const bestHi: number[] = []
  const bestLo: number[] = []
  for (const peer of list) {
    if (peer === except) continue
    const dHi = ((hi[peer] as number) ^ placeHi) >>> 0
    const full = best.length === count
    if (full && dHi > (bestHi[count - 1] as number)) continue
    const dLo = ((lo[peer] as number) ^ placeLo) >>> 0
    if (full && dHi === bestHi[count - 1] && dLo >= (bestLo[count - 1] as number)) continue
    let i = full ? count - 1 : best.length
    while (i > 0 && ((bestHi[i - 1] as number) > dHi || (bestHi[i - 1] === dHi && (bestLo[i - 1] as number) > dLo))) {
      best[i] = best[i - 1] as number
      bestHi[i] = bestHi[i - 1] as number
      bestLo[i] = bestLo[i - 1] as number
      i--
    }
    best[i] = peer
    bestHi[i] = dHi
    bestLo[i] = dLo
  }
  return best
}
