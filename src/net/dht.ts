import type { PeerId, PeerStore } from '@libp2p/interface'
import { Record as KadRecord, MessageType } from '@libp2p/kad-dht'
import { peerIdFromString } from '@libp2p/peer-id'
import { compare, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { allowManyListeners } from '../platform/many-listeners.ts'
import type { Random } from '../platform/random.ts'
import { withSignal } from '../platform/with-signal.ts'
import type { DhtDatastore } from './dht-datastore.ts'
import { type KadRpc, type Lookup, NO_PATH } from './dht-lookup.ts'
import type { Dht, FoundPeer, PeerAddress } from './host.ts'
import { beyondTheCrowd, inTurn } from './key-region.ts'
import { withoutPeer } from './multiaddrs.ts'
import { NetworkSize } from './network-size.ts'

/** RPCs of one put or look-up that are under way at a time */
const RPC_CONCURRENCY = 3
/** Holders that are asked for a value at a time; one that takes longer than this counts as silent. */
const READS_AT_ONCE = 6
const READ_TIMEOUT_MS = 4_000
/** A look-up that takes longer than this is over; what it found until then counts. */
const QUERY_TIMEOUT_MS = 30_000
/** Peers of a crowded key's region that hold its value too, in k: estimates of a network's size differ, so regions overlap only in part. */
const REGION_TIMES = 2

export interface KadDhtComponents {
  kad: KadRpc
  peer: PeerId
  peerStore: PeerStore
  datastore: DhtDatastore
  lookup: Lookup
  crypto: CryptoProvider
  clock: Clock
  random: Random
  /** fires when the host stops */
  signal: AbortSignal
  addresses(): string[]
  /** peers with an open connection that serve the DHT, of those that `wanted` names */
  connected(wanted: (peer: string) => boolean): Promise<PeerId[]>
}

/** {@link Dht} over kad-dht, by its single RPCs (protocol/README.md §3). */
export class KademliaDht implements Dht {
  readonly #c: KadDhtComponents
  readonly #size: NetworkSize

  constructor(components: KadDhtComponents) {
    this.#c = components
    const { kad, peer, crypto, clock, random } = components
    const named = (peers: readonly { peer: string }[]) => peers.map((one) => one.peer)
    this.#size = new NetworkSize({
      self: peer.toString(),
      crypto,
      clock,
      random,
      neighbours: () => named(this.neighbours(kad.k)),
      lookUp: async (key) => named(await this.closestPeers(key))
    })
  }

  async nodes({ signal }: { signal?: AbortSignal } = {}): Promise<number | undefined> {
    return await withSignal(this.#size.nodes(), signal)
  }

  closerKnown(key: Uint8Array, max: number): number {
    const { kad, peer, crypto, lookup } = this.#c
    const place = crypto.sha256(key)
    const own = lookup.distance(peer, place)
    return kad.routingTable.closestPeers(place, { count: max }).filter((id) => compare(lookup.distance(id, place), own) < 0).length
  }

  routingTableSize(): number {
    return this.#c.kad.routingTable.size
  }

  async takeInConnected(options: { signal?: AbortSignal } = {}): Promise<void> {
    const { kad, connected } = this.#c
    const held = new Set(this.table())
    const missing = (await connected((peer) => !held.has(peer))).map((id) => kad.routingTable.add(id, options))
    await Promise.allSettled(missing)
  }

  table(): string[] {
    const { kad, crypto } = this.#c
    return kad.routingTable.closestPeers(crypto.sha256(new Uint8Array(0)), { count: kad.routingTable.size }).map(String)
  }

  nearestKnown(key: Uint8Array, max: number): string[] {
    const { kad, crypto } = this.#c
    return kad.routingTable.closestPeers(crypto.sha256(key), { count: max }).map(String)
  }

  held(key: Uint8Array): Uint8Array | undefined {
    return this.#c.datastore.value(key)
  }

  mode(): 'client' | 'server' {
    return this.#c.kad.getMode()
  }

  async closestPeers(key: Uint8Array, options: { signal?: AbortSignal; countMax?: number } = {}): Promise<FoundPeer[]> {
    const { kad, peer, crypto, lookup } = this.#c
    options.signal?.throwIfAborted()
    this.#c.signal.throwIfAborted()
    const scope = this.#scope(options.signal, QUERY_TIMEOUT_MS)
    const found = await lookup.closest(key, scope.signal).finally(() => scope.release())
    options.signal?.throwIfAborted()
    this.#c.signal.throwIfAborted()
    if (this.mode() === 'server') {
      found.push({ id: peer, addrs: this.#c.addresses(), distance: lookup.distance(peer, crypto.sha256(key)), hops: 0 })
      found.sort((a, b) => compare(a.distance, b.distance))
    }
    const nearest = found.slice(0, options.countMax ?? kad.k)
    return Promise.all(
      nearest.map(async ({ id, addrs, hops }) => ({ peer: id.toString(), addrs: addrs.length > 0 ? addrs : await this.#known(id), hops }))
    )
  }

  neighbours(max: number): PeerAddress[] {
    const { kad, peer, crypto } = this.#c
    const place = crypto.sha256(peer.toMultihash().bytes)
    return kad.routingTable.closestPeers(place, { count: max }).map((id) => ({ peer: id.toString(), addrs: [] }))
  }

  async lookUpSelf(options: { signal?: AbortSignal } = {}): Promise<void> {
    await this.closestPeers(this.#c.peer.toMultihash().bytes, options)
  }

  async #known(id: PeerId): Promise<string[]> {
    try {
      return (await this.#c.peerStore.get(id)).addresses.map(({ multiaddr }) => withoutPeer(multiaddr.toString()))
    } catch {
      return []
    }
  }

  async put(
    key: Uint8Array,
    value: Uint8Array,
    options: { signal?: AbortSignal } = {}
  ): Promise<{ stored: number; asked: number; known: number }> {
    const own = await this.#putOwn(key, value)
    const peers = await this.#holders(key, options)
    const self = this.#c.peer.toString()
    const others = peers.filter(({ peer }) => peer !== self)
    const message = {
      type: MessageType.PUT_VALUE,
      key,
      record: new KadRecord(key, value, new Date(this.#c.clock.nowMs())).serialize()
    }
    let stored = others.length < peers.length && own ? 1 : 0
    const scope = this.#scope(options.signal, QUERY_TIMEOUT_MS)
    try {
      await eachOf(others, RPC_CONCURRENCY, async ({ peer }) => {
        if (scope.signal.aborted) return
        for await (const event of this.#c.kad.network.sendRequest(peerIdFromString(peer), message, {
          signal: scope.signal,
          path: NO_PATH
        })) {
          // a holder that took the record sends it back; one that did not drops the stream
          if (event.name === 'PEER_RESPONSE' && event.record !== undefined && compare(event.record.value, value) === 0) stored++
        }
      })
    } finally {
      scope.release()
    }
    options.signal?.throwIfAborted()
    return { stored, asked: peers.length, known: peers.length }
  }

  /** The nearest, and where they crowd around the key those of its region between them, so that writer and reader meet though ground identities hold all places. */
  async #holders(key: Uint8Array, options: { signal?: AbortSignal }): Promise<FoundPeer[]> {
    const nearest = await this.closestPeers(key, options)
    const { kad, crypto } = this.#c
    const around = await beyondTheCrowd({ dht: this, crypto }, key, nearest, { count: kad.k, ...options })
    return inTurn([around.slice(0, REGION_TIMES * kad.k), nearest])
  }

  /** @returns whether our own copy is the one held now; throws when the rules refuse the value itself */
  async #putOwn(key: Uint8Array, value: Uint8Array): Promise<boolean> {
    try {
      await this.#c.datastore.putValue(key, value)
      return true
    } catch (error) {
      if (error instanceof RookeryError && (error.code === 'DHT_RECORD_STALE' || error.code === 'DHT_FULL')) return false
      throw error
    }
  }

  async *values(key: Uint8Array, options: { signal?: AbortSignal } = {}): AsyncIterable<Uint8Array> {
    const seen = new Set<string>()
    const own = this.#c.datastore.value(key)
    if (own !== undefined) {
      seen.add(toHex(own))
      yield own
    }
    const peers = await this.#holders(key, options)
    const self = this.#c.peer.toString()
    const scope = this.#scope(options.signal, QUERY_TIMEOUT_MS)
    const queue: Uint8Array[] = []
    let wake: (() => void) | undefined
    let done = false
    const asking = eachOf(
      peers.filter(({ peer }) => peer !== self),
      READS_AT_ONCE,
      async ({ peer }) => {
        if (scope.signal.aborted) return
        const value = await this.#valueAt(peer, key, scope.signal)
        if (value === undefined || seen.has(toHex(value))) return
        seen.add(toHex(value))
        queue.push(value)
        wake?.()
      }
    ).finally(() => {
      done = true
      wake?.()
    })
    try {
      for (;;) {
        const value = queue.shift()
        if (value !== undefined) yield value
        else if (done) break
        else await new Promise<void>((resolve) => (wake = resolve))
      }
      await asking
      options.signal?.throwIfAborted()
      this.#c.signal.throwIfAborted()
    } finally {
      scope.abort()
      scope.release()
      asking.catch(() => {})
    }
  }

  async #valueAt(peer: string, key: Uint8Array, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const scope = this.#scope(signal, READ_TIMEOUT_MS)
    let value: Uint8Array | undefined
    try {
      const options = { signal: scope.signal, path: NO_PATH }
      for await (const event of this.#c.kad.peerRouting.getValueOrPeers(peerIdFromString(peer), key, options)) {
        if (event.name === 'PEER_RESPONSE') value = event.record?.value
      }
    } catch {
      return undefined // one peer that fails is one peer less
    } finally {
      scope.release()
    }
    return value
  }

  /** A signal of our own, so that kad-dht's many listeners never pile up on a caller's long-lived one. */
  #scope(signal: AbortSignal | undefined, timeoutMs: number): { signal: AbortSignal; abort(): void; release(): void } {
    const controller = new AbortController()
    allowManyListeners(controller.signal)
    const abort = () => controller.abort(signal?.aborted === true ? signal.reason : undefined)
    const cancel = this.#c.clock.after(timeoutMs, abort)
    const sources = [signal, this.#c.signal]
    for (const source of sources) source?.addEventListener('abort', abort, { once: true })
    if (sources.some((source) => source?.aborted === true)) abort()
    return {
      signal: controller.signal,
      abort,
      release: () => {
        cancel()
        for (const source of sources) source?.removeEventListener('abort', abort)
      }
    }
  }
}

async function eachOf<T>(items: readonly T[], concurrency: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  const run = async () => {
    while (next < items.length) await work(items[next++] as T)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, run))
}
