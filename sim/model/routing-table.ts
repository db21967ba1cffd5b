/** Where nodes lie in the key space: the first 64 bits of SHA-256, in two halves. */
export interface Places {
  readonly hi: Uint32Array
  readonly lo: Uint32Array
}

/**
 * The routing table of one modelled node, by the rule of `src/net/bounded-table.ts`: of the peers that share exactly so many leading bits with it, k, for
 * each number of bits. One that falls silent makes room.
 */
export class RoutingTable {
  readonly #places: Places
  readonly #own: number
  readonly #k: number
  readonly #all: number[] = []
  readonly #sharing: number[][] = []

  constructor(places: Places, own: number, k: number) {
    this.#places = places
    this.#own = own
    this.#k = k
  }

  get size(): number {
    return this.#all.length
  }

  get peers(): readonly number[] {
    return this.#all
  }

  /** Whether it is not held and would be. */
  wants(peer: number): boolean {
    if (peer === this.#own) return false
    const held = this.#sharing[this.#bits(peer)]
    return held === undefined || (held.length < this.#k && !held.includes(peer))
  }

  add(peer: number): void {
    if (!this.wants(peer)) return
    const bits = this.#bits(peer)
    const held = this.#sharing[bits] ?? []
    this.#sharing[bits] = held
    held.push(peer)
    this.#all.push(peer)
  }

  remove(peer: number): void {
    const held = this.#sharing[this.#bits(peer)] ?? []
    const at = held.indexOf(peer)
    if (at === -1) return
    held.splice(at, 1)
    const inAll = this.#all.indexOf(peer)
    this.#all[inAll] = this.#all.at(-1) as number
    this.#all.pop()
  }

  /** The nearest to a place, nearest first. */
  closest(hi: number, lo: number, count: number, except = -1): number[] {
    return nearest(this.#places, this.#all, hi, lo, count, except)
  }

  #bits(peer: number): number {
    const { hi } = this.#places
    return Math.clz32((hi[peer] as number) ^ (hi[this.#own] as number))
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
