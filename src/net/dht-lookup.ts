import type { PeerId, PeerInfo } from '@libp2p/interface'
import type { KadDHT, QueryEvent } from '@libp2p/kad-dht'
import { compare } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Clock } from '../platform/clock.ts'
import { allowManyListeners } from '../platform/many-listeners.ts'
import type { BoundableTable } from './bounded-table.ts'
import { ADDRS_MAX, CLOSER_MAX } from './find-node.ts'
import { withoutPeer } from './multiaddrs.ts'
import type { VerifyingTable } from './table-verify.ts'

/** One FIND_NODE, dial included; a peer that takes longer counts as gone. */
const ASK_TIMEOUT_MS = 4_000
/** RPCs of one look-up, whatever its answers promise */
const ASKED_MAX = 200
/** Peers that did not answer are left alone for a while, unless they are connected; the oldest memory goes first. */
const SILENT_MS = 30_000
const SILENT_MAX = 1_024

/** The parts of kad-dht that its interface does not name: single RPCs, which tell what its own queries hide. */
export interface KadRpc extends KadDHT {
  /** considers a peer for the table that somebody named */
  onPeerConnect(peer: PeerInfo): Promise<void>
  readonly network: {
    sendRequest(peer: PeerId, message: object, options: { signal?: AbortSignal; path: object }): AsyncIterable<QueryEvent>
  }
  readonly peerRouting: {
    getValueOrPeers(peer: PeerId, key: Uint8Array, options: { signal?: AbortSignal; path: object }): AsyncIterable<QueryEvent>
  }
  readonly routingTable: BoundableTable &
    VerifyingTable & {
      readonly size: number
      readonly kb: {
        closest(kadId: Uint8Array, options?: { count?: number; exclude?: PeerId[] }): Iterable<PeerId>
      }
      closestPeers(kadId: Uint8Array, options?: { count?: number }): PeerId[]
      /** asks the peer for a sign of life first; adds nothing where there is none */
      add(peer: PeerId, options?: { signal?: AbortSignal }): Promise<void>
      remove(peer: PeerId): Promise<void>
    }
}

export const NO_PATH = { index: -1, queued: 0, running: 0, total: 0 }

export interface LookupComponents {
  kad: Pick<KadRpc, 'routingTable'>
  self: PeerId
  crypto: CryptoProvider
  clock: Clock
  /** peers with an open connection that serve the DHT */
  connected(): Promise<PeerId[]>
  /** whom a peer knows near a key; what it names is noted on the way */
  findNode(peer: PeerId, key: Uint8Array, signal: AbortSignal): Promise<readonly PeerInfo[]>
  /** whether an address that a peer told us may be kept and dialled */
  isAllowed(addr: PeerInfo['multiaddrs'][number]): boolean
}

export interface LookupInit {
  kBucketSize: number
  alpha: number
  disjointPaths: number
}

export interface Found {
  readonly id: PeerId
  readonly addrs: string[]
  /** SHA-256(PeerId) xor SHA-256(key) */
  readonly distance: Uint8Array
  /** RPCs in a row that led here: 1 for a peer of our own table, 2 for one that such a peer named */
  readonly hops: number
}

/**
 * Kademlia's node look-up over disjoint paths: each path asks the nearest it knows until the k nearest of its list have been asked, and no
 * peer is asked by two paths. kad-dht's own walk follows only names nearer than the peer that told them, so from a small routing table it
 * finds a few of the k nearest; ours finds all.
 */
export class Lookup {
  readonly #c: LookupComponents
  readonly #init: LookupInit
  readonly #silentUntilMs = new Map<string, number>()

  constructor(components: LookupComponents, init: LookupInit) {
    this.#c = components
    this.#init = init
  }

  distance(id: PeerId, place: Uint8Array): Uint8Array {
    return this.#c.crypto.sha256(id.toMultihash().bytes).map((byte, i) => byte ^ (place[i] as number))
  }

  /** The nearest peers that answered, nearest first, without ourselves. */
  async closest(key: Uint8Array, signal: AbortSignal): Promise<Found[]> {
    const place = this.#c.crypto.sha256(key)
    const answered: Found[] = []
    const asked = new Set<string>([this.#c.self.toString()])
    const seeds = await this.#seeds(place)
    const paths = Math.max(1, Math.min(this.#init.disjointPaths, seeds.length))
    await Promise.all(
      Array.from({ length: paths }, (_, i) => {
        const own = seeds.filter((_seed, at) => at % paths === i)
        return this.#walk(key, place, own, asked, answered, signal)
      })
    )
    return answered.sort(nearestFirst).slice(0, this.#init.kBucketSize)
  }

  async #seeds(place: Uint8Array): Promise<Found[]> {
    const { kad } = this.#c
    const ids = new Map<string, PeerId>()
    for (const id of kad.routingTable.closestPeers(place, { count: this.#init.kBucketSize })) ids.set(id.toString(), id)
    // a table takes seconds to fill after the first connection; those connected can be asked at once
    if (ids.size < this.#init.kBucketSize) for (const id of await this.#c.connected()) ids.set(id.toString(), id)
    ids.delete(this.#c.self.toString())
    return [...ids.values()].map((id) => ({ id, addrs: [], distance: this.distance(id, place), hops: 1 })).sort(nearestFirst)
  }

  async #walk(
    key: Uint8Array,
    place: Uint8Array,
    seeds: Found[],
    asked: Set<string>,
    answered: Found[],
    signal: AbortSignal
  ): Promise<void> {
    const self = this.#c.self.toString()
    const known = new Map(seeds.map((seed) => [seed.id.toString(), seed]))
    const gone = new Set<string>()
    const running = new Set<Promise<void>>()
    const next = (): Found | undefined =>
      [...known.values()]
        .filter(({ id }) => !gone.has(id.toString()))
        .sort(nearestFirst)
        .slice(0, this.#init.kBucketSize)
        .find(({ id }) => !asked.has(id.toString()))
    for (;;) {
      while (running.size < this.#init.alpha && asked.size < ASKED_MAX && !signal.aborted) {
        const peer = next()
        if (peer === undefined) break
        asked.add(peer.id.toString())
        const asking: Promise<void> = this.#ask(peer, key, signal).then((closer) => {
          running.delete(asking)
          if (closer === undefined) return void gone.add(peer.id.toString())
          answered.push(peer)
          for (const info of closer.slice(0, CLOSER_MAX)) {
            const name = info.id.toString()
            // who is asked for our own place names us too, whom nobody has to find
            if (name === self || known.has(name) || this.#isSilent(name)) continue
            const addrs = this.#usable(info)
            if (addrs.length > 0) known.set(name, { id: info.id, addrs, distance: this.distance(info.id, place), hops: peer.hops + 1 })
          }
        })
        running.add(asking)
      }
      if (running.size === 0) return
      await Promise.race(running)
    }
  }

  /** What a stranger tells of another's addresses: those that can be read and may be kept. */
  #usable(info: PeerInfo): string[] {
    return info.multiaddrs.slice(0, ADDRS_MAX).flatMap((addr) => {
      try {
        return this.#c.isAllowed(addr) ? [withoutPeer(addr.toString())] : []
      } catch {
        return []
      }
    })
  }

  /** @returns the peers that it knows closer to `key`, undefined when it does not answer */
  async #ask(peer: Found, key: Uint8Array, signal: AbortSignal): Promise<readonly PeerInfo[] | undefined> {
    const { clock, findNode } = this.#c
    const patience = new AbortController()
    allowManyListeners(patience.signal)
    const give = () => patience.abort(new Error('no answer'))
    const cancel = clock.after(ASK_TIMEOUT_MS, give)
    signal.addEventListener('abort', give, { once: true })
    try {
      return await findNode(peer.id, key, patience.signal)
    } catch {
      // told below like any other silence
    } finally {
      cancel()
      signal.removeEventListener('abort', give)
    }
    if (!signal.aborted) this.#fellSilent(peer.id)
    return undefined
  }

  #fellSilent(id: PeerId): void {
    const name = id.toString()
    this.#silentUntilMs.delete(name)
    this.#silentUntilMs.set(name, this.#c.clock.monotonicMs() + SILENT_MS)
    if (this.#silentUntilMs.size > SILENT_MAX) this.#silentUntilMs.delete(this.#silentUntilMs.keys().next().value as string)
    // its table would go on naming a dead peer to everyone until the bucket is full
    void this.#c.kad.routingTable.remove(id).catch(() => {})
  }

  #isSilent(name: string): boolean {
    const untilMs = this.#silentUntilMs.get(name)
    if (untilMs === undefined) return false
    if (untilMs > this.#c.clock.monotonicMs()) return true
    this.#silentUntilMs.delete(name)
    return false
  }
}

function nearestFirst(a: Found, b: Found): number {
  return compare(a.distance, b.distance)
}
