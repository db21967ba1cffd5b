import { NotFoundError } from '@libp2p/interface'
import { Record as KadRecord } from '@libp2p/kad-dht'
import { BaseDatastore } from 'datastore-core'
import { Key, type KeyQuery, type Pair, type Query } from 'interface-datastore'
import { fromString as bytesFromText } from 'uint8arrays/from-string'
import { toString as bytesToText } from 'uint8arrays/to-string'
import { compare, fromHex, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { bytesCodec, type Store, type Table } from '../store/store.ts'
import { checkValue, type DhtRules } from './dht-rules.ts'

/** kad-dht's keys for values and for provider records (which this network does not use) */
const RECORD_PREFIX = '/dht/record/'
const PROVIDER_PREFIX = '/dht/provider'

/** Keys and values held for others; above it the keys farthest from us go first. */
export const DHT_BYTES_MAX = 64 * 1024 * 1024
/** A sweep for room frees this share, so that a full store does not sort at every put. */
const EVICT_SHARE = 0.02
/** Bytes that an entry costs beside its key and value */
const ENTRY_OVERHEAD_BYTES = 128

interface Held {
  readonly key: Uint8Array
  readonly value: Uint8Array
  readonly receivedAtMs: number
  readonly expiresAtMs: number
}

export interface DhtDatastoreComponents {
  clock: Clock
  crypto: CryptoProvider
  rules: DhtRules
  store?: Store | undefined
}

/**
 * What kad-dht reads and writes, with the rules that it lacks (protocol/README.md §3): a value is checked again whoever brings it, one that loses
 * against the live value held is refused, an expired one is not read, and the whole is bounded.
 */
export class DhtDatastore extends BaseDatastore {
  readonly #clock: Clock
  readonly #crypto: CryptoProvider
  readonly #rules: DhtRules
  readonly #store: Store | undefined
  readonly #table: Table<Uint8Array> | undefined
  readonly #held = new Map<string, Held>()
  readonly #other = new Map<string, Uint8Array>()
  readonly #writing = new Map<string, Promise<void>>()
  readonly #bytesMax: number
  #bytes = 0
  #near: Uint8Array = new Uint8Array(32)

  constructor(components: DhtDatastoreComponents, init: { bytesMax?: number } = {}) {
    super()
    this.#clock = components.clock
    this.#crypto = components.crypto
    this.#rules = components.rules
    this.#store = components.store
    this.#table = components.store?.table('dht-values', bytesCodec)
    this.#bytesMax = init.bytesMax ?? DHT_BYTES_MAX
  }

  /** Our place in the key space: SHA-256 of the PeerId's multihash. Distance to it decides what stays when room is short. */
  setPlace(kadId: Uint8Array): void {
    this.#near = kadId
  }

  /** Reads back what an earlier run held. A row that no longer passes the rules is dropped. */
  async load(): Promise<void> {
    if (this.#table === undefined || this.#store === undefined) return
    const dropped = []
    for await (const [name, value] of this.#table.entries()) {
      try {
        const key = fromHex(name)
        checkValue(this.#rules, key, value, this.#clock.nowMs())
        this.#hold(key, value, this.#clock.nowMs())
      } catch {
        dropped.push(this.#table.del(name))
      }
    }
    await this.#store.commit(dropped)
    if (this.#bytes > this.#bytesMax) this.#makeRoom()
  }

  get size(): number {
    return this.#held.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The live value at `key`. */
  value(key: Uint8Array): Uint8Array | undefined {
    return this.#live(toHex(key))?.value
  }

  #live(name: string): Held | undefined {
    const held = this.#held.get(name)
    if (held === undefined || held.expiresAtMs > this.#clock.nowMs()) return held
    this.#forget([name])
    return undefined
  }

  /**
   * Takes a value if the rules let it in.
   * @throws RookeryError `DHT_RECORD_STALE` when the value held wins, `DHT_FULL`, and what {@link checkValue} throws
   */
  async putValue(key: Uint8Array, value: Uint8Array): Promise<void> {
    const name = toHex(key)
    const nowMs = this.#clock.nowMs()
    checkValue(this.#rules, key, value, nowMs)
    const held = this.#live(name)
    const wins = () => held !== undefined && compare(held.value, value) !== 0 && this.#rules.select(key, held.value, value) === 'held'
    if (held !== undefined && wins() && this.#stillPasses(held, nowMs)) {
      throw new RookeryError('DHT_RECORD_STALE', 'the value held at this key wins over the one offered', {
        kind: 'conflict',
        field: 'value'
      })
    }
    this.#hold(key, value, nowMs)
    if (this.#bytes > this.#bytesMax) this.#makeRoom()
    if (!this.#held.has(name)) {
      throw new RookeryError('DHT_FULL', 'there is room for nearer keys only', { kind: 'refused', data: { bytesMax: this.#bytesMax } })
    }
    await this.#mirror(name, value)
  }

  /** What a clock that ran ahead let in is no reason to refuse what is right now. */
  #stillPasses({ key, value }: Held, nowMs: number): boolean {
    try {
      this.#rules.validate(key, value, nowMs)
      return true
    } catch {
      return false
    }
  }

  #hold(key: Uint8Array, value: Uint8Array, nowMs: number): void {
    const name = toHex(key)
    const before = this.#held.get(name)
    if (before !== undefined) this.#bytes -= costOf(before)
    const held: Held = {
      key: new Uint8Array(key),
      value: new Uint8Array(value),
      receivedAtMs: nowMs,
      expiresAtMs: this.#rules.expiresAtMs(key, value)
    }
    this.#held.set(name, held)
    this.#bytes += costOf(held)
  }

  /** Writes of one key follow one another, its removal too, so that the table ends with what memory holds. */
  #mirror(name: string, value: Uint8Array | undefined): Promise<void> {
    const { store, table } = { store: this.#store, table: this.#table }
    if (store === undefined || table === undefined) return Promise.resolve()
    const op = value === undefined ? table.del(name) : table.put(name, value)
    const write = (this.#writing.get(name) ?? Promise.resolve()).catch(() => {}).then(() => store.commit([op]))
    this.#writing.set(name, write)
    return write.finally(() => {
      if (this.#writing.get(name) === write) this.#writing.delete(name)
    })
  }

  #forget(names: readonly string[]): void {
    for (const name of names) {
      const held = this.#held.get(name)
      if (held === undefined) continue
      this.#held.delete(name)
      this.#bytes -= costOf(held)
      void this.#mirror(name, undefined).catch(() => {}) // the next load drops it
    }
  }

  #makeRoom(): void {
    this.sweep()
    if (this.#bytes <= this.#bytesMax) return
    const byDistance = [...this.#held].map(([name, held]) => ({ name, cost: costOf(held), distance: this.#distance(held.key) }))
    byDistance.sort((a, b) => compare(b.distance, a.distance))
    const goal = this.#bytesMax * (1 - EVICT_SHARE)
    let bytes = this.#bytes
    const names: string[] = []
    for (const { name, cost } of byDistance) {
      if (bytes <= goal) break
      names.push(name)
      bytes -= cost
    }
    this.#forget(names)
  }

  #distance(key: Uint8Array): Uint8Array {
    return this.#crypto.sha256(key).map((byte, i) => byte ^ (this.#near[i] as number))
  }

  /** Drops what has expired; returns how many. */
  sweep(): number {
    const nowMs = this.#clock.nowMs()
    const expired = [...this.#held].filter(([, held]) => held.expiresAtMs <= nowMs).map(([name]) => name)
    if (expired.length > 0) this.#forget(expired)
    return expired.length
  }

  override async put(key: Key, bytes: Uint8Array): Promise<Key> {
    const name = key.toString()
    if (name.startsWith(PROVIDER_PREFIX)) {
      throw new RookeryError('DHT_PROVIDERS_REFUSED', 'this network keeps no provider records', { kind: 'refused' })
    }
    if (name.startsWith(RECORD_PREFIX)) {
      const record = KadRecord.deserialize(bytes)
      if (recordName(record.key) !== name) throw new RookeryError('DHT_KEY_MISMATCH', 'the record names another key', { kind: 'refused' })
      await this.putValue(record.key, record.value)
      return key
    }
    // what libp2p encodes is a view of a pool's 64 KiB: kept as it is, it would keep all of them
    this.#other.set(name, bytes.slice())
    return key
  }

  override async get(key: Key): Promise<Uint8Array> {
    const name = key.toString()
    if (!name.startsWith(RECORD_PREFIX)) {
      const bytes = this.#other.get(name)
      if (bytes === undefined) throw new NotFoundError(`nothing at ${name}`)
      return bytes
    }
    const held = this.#liveRecord(name)
    if (held === undefined) throw new NotFoundError('no live value')
    return new KadRecord(held.key, held.value, new Date(held.receivedAtMs)).serialize().subarray()
  }

  #liveRecord(name: string): Held | undefined {
    return this.#live(toHex(keyOfRecordName(name)))
  }

  override async has(key: Key): Promise<boolean> {
    const name = key.toString()
    return name.startsWith(RECORD_PREFIX) ? this.#liveRecord(name) !== undefined : this.#other.has(name)
  }

  override async delete(key: Key): Promise<void> {
    const name = key.toString()
    if (name.startsWith(RECORD_PREFIX)) this.#forget([toHex(keyOfRecordName(name))])
    else this.#other.delete(name)
  }

  /** Values of others are never enumerated through kad-dht, only libp2p's own rows are. */
  override async *_all(query: Query): AsyncGenerator<Pair> {
    for (const [name, value] of [...this.#other]) if (name.startsWith(query.prefix ?? '')) yield { key: new Key(name, false), value }
  }

  override async *_allKeys(query: KeyQuery): AsyncGenerator<Key> {
    for (const name of [...this.#other.keys()]) if (name.startsWith(query.prefix ?? '')) yield new Key(name, false)
  }
}

function costOf(held: Held): number {
  return held.key.length + held.value.length + ENTRY_OVERHEAD_BYTES
}

function recordName(key: Uint8Array): string {
  return `${RECORD_PREFIX}${bytesToText(key, 'base32')}`
}

function keyOfRecordName(name: string): Uint8Array {
  return bytesFromText(name.slice(RECORD_PREFIX.length), 'base32')
}
