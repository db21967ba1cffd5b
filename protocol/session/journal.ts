import { equals } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { LazyMap } from '../lazy.ts'
import { type ChainPoint, type ChannelHead, chainNext, noHead, transactionDigest } from './chain.ts'
import { Fifo } from './fifo.ts'
import { ITEM_KINDS } from './items.ts'
import { CHANNELS_MAX } from './ready.ts'
import { encodeSnapshot } from './snapshot.ts'

/** One item on its way out. `tag` is the driver's: it gets it back when the item is acked, or sent where it is live. */
export interface Outgoing<T> {
  readonly kind: number
  readonly channel: number
  /** emptied when the item is cancelled */
  payload: Uint8Array
  readonly tag: T
  /** `sent`: it left at least once in some epoch */
  state: 'waiting' | 'sent' | 'cancelled'
}

/** A transaction that the peer has not acknowledged: what a journal holds. */
export interface Unacked<T> {
  readonly seq: bigint
  /** the channel's transaction before, 0 for none */
  readonly prev: bigint
  readonly digest: Uint8Array
  /** the chain after it */
  readonly hash: Uint8Array
  readonly item: Outgoing<T>
}

/** The newest transaction that was dropped: its number, the chain after it, and every channel's head there. */
export interface JournalBase extends ChainPoint {
  readonly heads: ReadonlyMap<number, ChannelHead>
}

/**
 * What one side sent, or will, and the peer has not acknowledged (protocol/README.md §6, Resume): numbered and chained here, synced by the driver before
 * anything of it leaves, and carried from epoch to epoch.
 */
export class Journal<T> {
  readonly #crypto: CryptoProvider
  /** numbers base + 1, base + 2, … without a gap; the driver bounds how many */
  readonly #entries = new Fifo<Unacked<T>>()
  #base: ChainPoint
  readonly #baseHeads: LazyMap<number, ChannelHead>
  #tx: ChainPoint
  /** at most CHANNELS_MAX entries */
  #heads: LazyMap<number, ChannelHead>
  #synced: ChainPoint

  constructor(crypto: CryptoProvider, base: { seq: bigint; hash: Uint8Array; heads?: ReadonlyMap<number, ChannelHead> | undefined }) {
    this.#crypto = crypto
    this.#base = { seq: base.seq, hash: base.hash }
    this.#baseHeads = new LazyMap(base.heads)
    this.#tx = this.#base
    this.#heads = new LazyMap(base.heads)
    this.#synced = this.#base
  }

  get base(): JournalBase {
    return { ...this.#base, heads: this.#baseHeads }
  }

  /** The newest that the peer acknowledged. */
  get acked(): ChainPoint {
    return this.#base
  }

  /** The newest transaction that was numbered, and the chain after it. */
  get tx(): ChainPoint {
    return this.#tx
  }

  /** The newest that the driver has on disk: what may be sent, told in READY and signed. */
  get synced(): ChainPoint {
    return this.#synced
  }

  get heads(): ReadonlyMap<number, ChannelHead> {
    return this.#heads
  }

  get length(): number {
    return this.#entries.length
  }

  get entries(): Iterable<Unacked<T>> {
    return this.#entries
  }

  entry(seq: bigint): Unacked<T> | undefined {
    const index = seq - this.#base.seq - 1n
    return index < 0n || index >= BigInt(this.#entries.length) ? undefined : this.#entries.at(Number(index))
  }

  /** The chain after a transaction that is held, or at the base. */
  hashAt(seq: bigint): Uint8Array | undefined {
    return seq === this.#base.seq ? this.#base.hash : this.entry(seq)?.hash
  }

  /**
   * Numbers and chains an item. It must be on disk, and {@link markSynced}, before it is sent.
   * @throws ProtocolError `RANGE` for channel 65
   */
  append(item: Outgoing<T>): Unacked<T> {
    const head = this.#heads.get(item.channel) ?? noHead()
    if (head.seq === 0n && this.#heads.size === CHANNELS_MAX) {
      throw new ProtocolError('RANGE', `a session has at most ${CHANNELS_MAX} channels`, { field: 'channel' })
    }
    const seq = this.#tx.seq + 1n
    const { kind, channel, payload } = item
    const digest = transactionDigest(this.#crypto, head, { seq, kind, channel, payload })
    const entry: Unacked<T> = { seq, prev: head.seq, digest, hash: chainNext(this.#crypto, this.#tx.hash, digest), item }
    this.#heads.set(channel, { seq, digest })
    this.#tx = { seq, hash: entry.hash }
    this.#entries.push(entry)
    return entry
  }

  markSynced(seq: bigint): void {
    const hash = this.hashAt(seq)
    if (seq > this.#synced.seq && hash !== undefined) this.#synced = { seq, hash }
  }

  /** Takes back everything beyond what is synced: the write failed, nothing of it left, and the numbers are given again. Newest first. */
  rollBack(): Unacked<T>[] {
    const taken: Unacked<T>[] = []
    for (let last = this.#entries.last(); last !== undefined && last.seq > this.#synced.seq; last = this.#entries.last()) {
      taken.push(this.#entries.pop() as Unacked<T>)
    }
    this.#tx = this.#synced
    this.#heads = new LazyMap(this.#baseHeads)
    for (const { seq, digest, item } of this.#entries) this.#heads.set(item.channel, { seq, digest })
    return taken
  }

  /**
   * Drops what the peer acknowledged; the base moves up.
   * @returns what this acknowledges for the first time
   * @throws ProtocolError `SEQUENCE` when the peer acknowledges what was never sent
   */
  ack(upTo: bigint): Unacked<T>[] {
    if (upTo > this.#synced.seq) {
      throw new ProtocolError('SEQUENCE', `the peer acknowledges ${upTo}, ${this.#synced.seq} were sent`, { field: 'ack' })
    }
    const acked: Unacked<T>[] = []
    for (let entry = this.#entries.first(); entry !== undefined && entry.seq <= upTo; entry = this.#entries.first()) {
      this.#entries.shift()
      this.#base = { seq: entry.seq, hash: entry.hash }
      this.#baseHeads.set(entry.item.channel, { seq: entry.seq, digest: entry.digest })
      acked.push(entry)
    }
    return acked
  }

  /**
   * Puts a snapshot at base + 1, for a peer whose run ends before the base. What is unacknowledged follows under new numbers; what the peer holds
   * already, by a head of its channel, falls out. All of it must be written again, in one batch, before anything is sent.
   * @param held - the heads that the peer named
   * @returns the snapshot's parts, and what fell out
   */
  putSnapshot(bytes: Uint8Array, tag: T, held: ReadonlyMap<number, ChannelHead>): { parts: Unacked<T>[]; fallen: Outgoing<T>[] } {
    const kept: Outgoing<T>[] = []
    const fallen: Outgoing<T>[] = []
    for (const { seq, item } of this.#entries) {
      if (item.kind === ITEM_KINDS.snapshotPart) continue
      const head = held.get(item.channel)
      if (head !== undefined && seq <= head.seq) fallen.push(item)
      else kept.push(item)
    }
    this.#entries.clear()
    this.#tx = this.#base
    this.#synced = this.#base
    this.#heads = new LazyMap(this.#baseHeads)
    const payloads = encodeSnapshot({ base: this.base, bytes })
    const parts = payloads.map((payload) => this.append({ kind: ITEM_KINDS.snapshotPart, channel: 0, payload, tag, state: 'waiting' }))
    for (const item of kept) this.append(item)
    return { parts, fallen }
  }

  /** True where `hash` is the chain after `seq`. */
  agrees({ seq, hash }: ChainPoint): boolean {
    const held = this.hashAt(seq)
    return held !== undefined && equals(held, hash)
  }
}
