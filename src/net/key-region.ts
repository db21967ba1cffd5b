import { base58btc } from 'multiformats/bases/base58'
import { concat } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { context } from '../../protocol/identity/contexts.ts'
import type { Dht, FoundPeer } from './host.ts'

/**
 * The nearest peers of a key that lie this many times nearer than peers lie apart in this network were ground to lie there: by chance one key in
 * millions looks so with 20 registrars.
 */
const CROWDED_TIMES = 4
/** Fewer neighbours than this tell nothing of a network's size. */
const NEIGHBOURS_MIN = 6
/** Places of the region that are looked up: halves of it that get smaller towards the key. */
const PLACES = 4
/** Bits of a place that a key is searched for at the most: 2^16 hashes, for a network of a million nodes. */
const PLACE_BITS_MAX = 16
/** Of a place, read as a fraction of the whole */
const FRACTION_BYTES = 6

/**
 * Where the nearest places of a key are taken by peers that were ground to lie there, others of the region around it, at most `count`; else none.
 * @param nearest - what a look-up of the key found, nearest first
 * @param isThinned - some of them do not count, for one network has them all
 * @throws as {@link Dht.closestPeers}
 * @see protocol/README.md §3, §4
 */
export async function beyondTheCrowd(
  { dht, crypto }: { dht: Pick<Dht, 'closestPeers' | 'nodes' | 'routingTableSize'>; crypto: CryptoProvider },
  key: Uint8Array,
  nearest: readonly FoundPeer[],
  { count, isThinned = false, ...options }: { count: number; isThinned?: boolean; signal?: AbortSignal }
): Promise<FoundPeer[]> {
  const names = nearest.slice(0, count).map(({ peer }) => peer)
  // no network is smaller than what one node knows of it: most keys are told from crowded ones by that alone
  if (!isThinned && !isCrowded(crypto, key, names, dht.routingTableSize() + 1)) return []
  const nodes = await dht.nodes(options)
  if (nodes === undefined || !((isThinned && nodes > count) || isCrowded(crypto, key, names, nodes))) return []
  const found = await Promise.all(
    regionKeys(crypto, key, { nodes, count }).map((beside) => dht.closestPeers(beside, { countMax: count, ...options }))
  )
  return inTurn(found).filter(({ peer }) => !names.includes(peer))
}

/** One of each in turn, each peer once. */
export function inTurn(lists: readonly (readonly FoundPeer[])[]): FoundPeer[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  const all = Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list[i] ?? [])).flat()
  return [...new Map(all.map((one) => [one.peer, one])).values()]
}

/**
 * How many nodes the network has, as far as the distances of those nearest to one place tell; undefined where there are too few of them.
 * @param place - as {@link placeOfPeer} gives it, or SHA-256 of a key
 * @param neighbours - PeerIds, text form
 */
export function nodesEstimated(crypto: CryptoProvider, place: Uint8Array, neighbours: readonly string[]): number | undefined {
  const distances = distancesTo(crypto, place, neighbours)
  const farthest = distances.at(-1)
  return distances.length < NEIGHBOURS_MIN || farthest === undefined || farthest === 0 ? undefined : (distances.length - 1) / farthest
}

/** Whether the peers that a look-up found nearest to `key` lie so much nearer than those of a network of so many nodes do. */
export function isCrowded(crypto: CryptoProvider, key: Uint8Array, found: readonly string[], nodes: number): boolean {
  const distances = distancesTo(crypto, crypto.sha256(key), found)
  const farthest = distances.at(-1)
  return farthest !== undefined && distances.length >= NEIGHBOURS_MIN && farthest * CROWDED_TIMES < distances.length / nodes
}

/**
 * Keys whose places lie around that of `key`, in the region where a network of so many nodes has about `count`, most of them the same for
 * everyone whose estimate is not more than twice another's: peers nearest to them are as honest there as anywhere.
 * @see protocol/README.md §4
 */
export function regionKeys(crypto: CryptoProvider, key: Uint8Array, { nodes, count }: { nodes: number; count: number }): Uint8Array[] {
  const place = crypto.sha256(key)
  // beside the first of them lie 2 to 4 times `count` peers, beside each further one half as many
  const first = Math.max(0, Math.floor(Math.log2(nodes / count)) - 2)
  return Array.from({ length: PLACES }, (_, i) => first + i)
    .filter((bit) => bit < PLACE_BITS_MAX)
    .map((bit) => keyBeside(crypto, key, place, bit))
}

/** The first of a row of keys whose place is that of `key` up to `bit`, and another there. */
function keyBeside(crypto: CryptoProvider, key: Uint8Array, place: Uint8Array, bit: number): Uint8Array {
  const counter = new Uint8Array(4)
  for (let n = 0; ; n++) {
    new DataView(counter.buffer).setUint32(0, n)
    const candidate = crypto.sha256(concat([context('region'), key, counter]))
    if (commonBits(crypto.sha256(candidate), place, bit + 1) === bit) return candidate
  }
}

/** Leading bits that both have, counted up to `max`. */
function commonBits(a: Uint8Array, b: Uint8Array, max: number): number {
  for (let bit = 0; bit < max; bit++) {
    const mask = 0x80 >> (bit & 7)
    if ((((a[bit >> 3] as number) ^ (b[bit >> 3] as number)) & mask) !== 0) return bit
  }
  return max
}

/** Ascending, each 0 to 1. */
function distancesTo(crypto: CryptoProvider, place: Uint8Array, peers: readonly string[]): number[] {
  return peers
    .flatMap((peer) => {
      const other = placeOfPeer(crypto, peer)
      if (other === undefined) return []
      let value = 0
      for (let i = 0; i < FRACTION_BYTES; i++) value = value * 256 + ((place[i] as number) ^ (other[i] as number))
      return [value / 256 ** FRACTION_BYTES]
    })
    .sort((a, b) => a - b)
}

/** Where the DHT puts a peer: SHA-256 of its multihash; undefined for what is no PeerId. */
export function placeOfPeer(crypto: CryptoProvider, peer: string): Uint8Array | undefined {
  try {
    return crypto.sha256(base58btc.baseDecode(peer))
  } catch {
    return undefined
  }
}
