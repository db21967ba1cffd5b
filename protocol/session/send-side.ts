import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { type ChainPoint, type ChannelHead, chainNext, noHead, transactionDigest } from './chain.ts'
import { type Item, isTransaction, itemBytes, RECORD_ITEMS_MAX, RECORD_PACK_BYTES } from './items.ts'
import { CHANNELS_MAX } from './ready.ts'
import { NO_HASH } from './record.ts'
import { isCounted, SendCredit, windowCost } from './window.ts'

/** Transactions that a sender keeps beyond the peer's `ack`. */
export const UNACKED_MAX = 4_096

/** One item on its way out. `tag` is the driver's: it gets it back when the item is acked, or sent where it is live. */
export interface Outgoing<T> {
  readonly kind: number
  readonly channel: number
  readonly payload: Uint8Array
  readonly tag: T
  state: 'waiting' | 'sent' | 'cancelled'
}

/** A transaction that the peer has not acknowledged: what a journal holds. */
export interface Unacked<T> {
  readonly seq: bigint
  readonly prev: bigint
  readonly digest: Uint8Array
  /** the chain after it */
  readonly hash: Uint8Array
  readonly item: Outgoing<T>
}

/** What goes into one record. */
export interface Packed<T> {
  items: Item[]
  seq: bigint
  hash: Uint8Array
  /** live and control items inside, which nothing will acknowledge */
  unnumbered: Outgoing<T>[]
}

/** A first-in-first-out list whose removal costs nothing. */
class Fifo<V> {
  #items: V[] = []
  #start = 0

  get length(): number {
    return this.#items.length - this.#start
  }

  push(item: V): void {
    this.#items.push(item)
  }

  first(): V | undefined {
    return this.#items[this.#start]
  }

  shift(): V | undefined {
    const item = this.#items[this.#start]
    if (item === undefined) return undefined
    this.#items[this.#start] = undefined as V
    this.#start += 1
    if (this.#start > 1_024 && this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start)
      this.#start = 0
    }
    return item
  }

  *[Symbol.iterator](): Iterator<V> {
    for (let i = this.#start; i < this.#items.length; i++) yield this.#items[i] as V
  }
}

interface Channel<T> {
  waiting: Fifo<Outgoing<T>>
  credit: SendCredit
  head: ChannelHead
}

/** One direction's sender: numbers and chains what waits, packs it into records, keeps it until it is acked. Knows nothing of keys. */
export class SendSide<T> {
  readonly #crypto: CryptoProvider
  /** at most CHANNELS_MAX entries, all opened by ourselves */
  readonly #channels = new Map<number, Channel<T>>()
  /** windows of channels that we have not used yet; at most CHANNELS_MAX entries */
  readonly #grantedAhead = new Map<number, number>()
  /** at most UNACKED_MAX entries */
  readonly #unacked = new Fifo<Unacked<T>>()
  #tx: ChainPoint
  #acked: ChainPoint

  /**
   * @param start - number and chain after the last transaction that the peer acknowledged; 0 and h_0 in a new session
   * @param heads - the channels' heads at `start`
   */
  constructor(crypto: CryptoProvider, start: ChainPoint, heads: ReadonlyMap<number, ChannelHead> = new Map()) {
    this.#crypto = crypto
    for (const [number, head] of heads) this.#channel(number).head = head
    this.#tx = start
    this.#acked = start
  }

  /** The newest transaction that was numbered, and the chain after it. */
  get tx(): ChainPoint {
    return this.#tx
  }

  /** The newest that the peer acknowledged. */
  get acked(): ChainPoint {
    return this.#acked
  }

  heads(): Map<number, ChannelHead> {
    return new Map([...this.#channels].filter(([, { head }]) => head.seq > 0n).map(([number, { head }]) => [number, head]))
  }

  get unacked(): Iterable<Unacked<T>> {
    return this.#unacked
  }

  /** Nothing waits and nothing is unacknowledged. */
  get flushed(): boolean {
    if (this.#unacked.length > 0) return false
    for (const { waiting } of this.#channels.values()) {
      for (const item of waiting) if (item.state === 'waiting') return false
    }
    return true
  }

  /** @throws ProtocolError `RANGE` for channel 65 */
  #channel(number: number): Channel<T> {
    let channel = this.#channels.get(number)
    if (channel === undefined) {
      if (this.#channels.size === CHANNELS_MAX) {
        throw new ProtocolError('RANGE', `a session has at most ${CHANNELS_MAX} channels`, { field: 'channel' })
      }
      channel = { waiting: new Fifo(), credit: new SendCredit(this.#grantedAhead.get(number)), head: noHead() }
      this.#grantedAhead.delete(number)
      this.#channels.set(number, channel)
    }
    return channel
  }

  queue(channel: number, kind: number, payload: Uint8Array, tag: T): Outgoing<T> {
    const item: Outgoing<T> = { kind, channel, payload, tag, state: 'waiting' }
    this.#channel(channel).waiting.push(item)
    return item
  }

  /** @returns the channels that `pack` would give something for now */
  *ready(): Iterable<number> {
    for (const [number, channel] of this.#channels) if (this.#next(channel) !== undefined) yield number
  }

  #next(channel: Channel<T>): Outgoing<T> | undefined {
    let item = channel.waiting.first()
    while (item?.state === 'cancelled') {
      channel.waiting.shift()
      item = channel.waiting.first()
    }
    if (item === undefined) return undefined
    if (isCounted(item.kind) && !channel.credit.allows(windowCost(item.payload.length))) return undefined
    if (isTransaction(item.kind) && this.#unacked.length >= UNACKED_MAX) return undefined
    return item
  }

  /**
   * Takes what waits on a channel, as far as its window and the bound of unacknowledged transactions allow, up to about 64 KiB.
   * The transactions inside have consecutive numbers.
   */
  pack(number: number): Packed<T> | undefined {
    const channel = this.#channels.get(number)
    if (channel === undefined) return undefined
    const items: Item[] = []
    const unnumbered: Outgoing<T>[] = []
    let bytes = 0
    let firstSeq = 0n
    let hash: Uint8Array = NO_HASH
    while (items.length < RECORD_ITEMS_MAX) {
      const item = this.#next(channel)
      if (item === undefined) break
      const size = itemBytes(item.kind, item.payload.length)
      if (items.length > 0 && bytes + size > RECORD_PACK_BYTES) break
      bytes += size
      channel.waiting.shift()
      item.state = 'sent'
      if (isCounted(item.kind)) channel.credit.use(windowCost(item.payload.length))
      let prev: bigint | undefined
      if (isTransaction(item.kind)) {
        prev = channel.head.seq
        const { seq } = this.#number(channel, item)
        if (firstSeq === 0n) firstSeq = seq
        hash = this.#tx.hash
      } else unnumbered.push(item)
      items.push({ kind: item.kind, channel: number, prev, payload: item.payload })
    }
    if (items.length === 0) return undefined
    return { items, seq: firstSeq, hash, unnumbered }
  }

  #number(channel: Channel<T>, item: Outgoing<T>): Unacked<T> {
    const seq = this.#tx.seq + 1n
    const digest = transactionDigest(this.#crypto, channel.head, { seq, kind: item.kind, channel: item.channel, payload: item.payload })
    const entry: Unacked<T> = { seq, prev: channel.head.seq, digest, hash: chainNext(this.#crypto, this.#tx.hash, digest), item }
    channel.head = { seq, digest }
    this.#tx = { seq, hash: entry.hash }
    this.#unacked.push(entry)
    return entry
  }

  /**
   * @returns the transactions that this acknowledges for the first time
   * @throws ProtocolError `SEQUENCE` when the peer acknowledges what was never sent
   */
  ack(upTo: bigint): Outgoing<T>[] {
    if (upTo > this.#tx.seq) {
      throw new ProtocolError('SEQUENCE', `the peer acknowledges ${upTo}, ${this.#tx.seq} were sent`, { field: 'ack' })
    }
    const acked: Outgoing<T>[] = []
    for (let entry = this.#unacked.first(); entry !== undefined && entry.seq <= upTo; entry = this.#unacked.first()) {
      this.#unacked.shift()
      this.#acked = { seq: entry.seq, hash: entry.hash }
      acked.push(entry.item)
    }
    return acked
  }

  /**
   * A window for a channel that we have not used yet is held for it.
   * @throws ProtocolError `WINDOW` when it lowers what was granted; `RANGE` beyond 64 channels that we have not used
   */
  grant(number: number, bytes: number): void {
    const channel = this.#channels.get(number)
    if (channel !== undefined) {
      channel.credit.grant(bytes)
      return
    }
    const ahead = this.#grantedAhead.get(number)
    if (ahead === undefined && this.#grantedAhead.size === CHANNELS_MAX) {
      throw new ProtocolError('RANGE', `WINDOW names more than ${CHANNELS_MAX} channels that were never used`, { field: 'channel' })
    }
    new SendCredit(ahead).grant(bytes)
    this.#grantedAhead.set(number, bytes)
  }

  /** Everything that will now never be acknowledged or sent, oldest first. */
  abandon(): { unacked: Outgoing<T>[]; waiting: Outgoing<T>[] } {
    const unacked = [...this.#unacked].map(({ item }) => item)
    const waiting: Outgoing<T>[] = []
    for (const { waiting: queue } of this.#channels.values()) {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) if (item.state === 'waiting') waiting.push(item)
    }
    while (this.#unacked.shift() !== undefined);
    return { unacked, waiting }
  }
}
