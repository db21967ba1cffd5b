import { equals } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { type ChainPoint, type ChannelHead, chainNext, HASH_BYTES, noHead, transactionDigest } from './chain.ts'
import type { Item } from './items.ts'
import { isTransaction } from './items.ts'
import { CHANNELS_MAX } from './ready.ts'
import { UNACKED_MAX } from './send-side.ts'
import { isCounted, ReceiveCredit, type WindowGrant, windowCost } from './window.ts'

/** A transaction or live item, handed over in order within its channel. */
export interface Arrived {
  channel: number
  kind: number
  /** undefined: a live item */
  seq: bigint | undefined
  payload: Uint8Array
}

/** One direction's receiver: channel order, the chain, windows, and what may be acknowledged. Knows nothing of keys. */
export class ReceiveSide {
  readonly #crypto: CryptoProvider
  /** at most CHANNELS_MAX entries */
  readonly #heads: Map<number, ChannelHead>
  /** at most CHANNELS_MAX entries */
  readonly #credits = new Map<number, ReceiveCredit>()
  /** digests of transactions beyond the run; at most UNACKED_MAX entries */
  readonly #ahead = new Map<bigint, Uint8Array>()
  /** the chain that a record claims after its last transaction, beyond the run; at most UNACKED_MAX entries */
  readonly #claims = new Map<bigint, Uint8Array>()
  /** synced beyond `acked`; at most UNACKED_MAX entries */
  readonly #synced = new Set<bigint>()
  /** grants that are due; at most one a channel and record */
  #grants: WindowGrant[] = []
  #run: ChainPoint
  #acked: bigint
  /** transactions that came again and were dropped */
  duplicates = 0

  /**
   * @param start - number and chain after the last transaction whose effect is synced; 0 and h_0 in a new session
   * @param heads - the channels' heads at `start`
   */
  constructor(crypto: CryptoProvider, start: ChainPoint, heads: ReadonlyMap<number, ChannelHead> = new Map()) {
    this.#crypto = crypto
    this.#run = start
    this.#acked = start.seq
    this.#heads = new Map(heads)
  }

  /** The complete run: everything up to here arrived, and its chain agreed with the sender's. */
  get run(): ChainPoint {
    return this.#run
  }

  /** What we may acknowledge. */
  get acked(): bigint {
    return this.#acked
  }

  /** Channels that are ahead of the run, for READY. */
  headsAhead(): Map<number, ChannelHead> {
    return new Map([...this.#heads].filter(([, head]) => head.seq > this.#run.seq))
  }

  get heads(): ReadonlyMap<number, ChannelHead> {
    return this.#heads
  }

  /** What was handed over on a channel and not yet handled, in the window's measure. */
  waitingBytes(channel: number): number {
    return this.#credits.get(channel)?.waitingBytes ?? 0
  }

  /**
   * Takes the items of an opened record, all of one channel.
   * @returns what is handed over; nothing when it throws
   * @throws ProtocolError `RANGE` (channel 65), `WINDOW`, `SEQUENCE`, `HASH_MISMATCH`: the peer contradicts itself
   */
  accept(record: { seq: bigint; hash: Uint8Array }, items: readonly Item[]): Arrived[] {
    const arrived: Arrived[] = []
    let seq = record.seq
    let transactions = 0
    for (const item of items) {
      if (!isCounted(item.kind)) continue
      this.#credit(item.channel).receive(windowCost(item.payload.length), item.channel)
      if (!isTransaction(item.kind)) {
        arrived.push({ channel: item.channel, kind: item.kind, seq: undefined, payload: item.payload })
        continue
      }
      if (record.seq === 0n) throw new ProtocolError('SEQUENCE', 'a record with transactions does not number them', { field: 'seq' })
      if (this.#take(seq, item)) arrived.push({ channel: item.channel, kind: item.kind, seq, payload: item.payload })
      else this.handled(item.channel, item.payload.length)
      seq += 1n
      transactions += 1
    }
    if (transactions === 0) {
      if (record.seq !== 0n) throw new ProtocolError('SEQUENCE', 'a record without transactions numbers one', { field: 'seq' })
      return arrived
    }
    if (record.hash.length !== HASH_BYTES) throw new ProtocolError('LENGTH', 'the rolling hash is not 32 bytes', { field: 'hash' })
    const last = seq - 1n
    this.#claimRecord(last, record.hash)
    this.#advance()
    return arrived
  }

  #claimRecord(last: bigint, hash: Uint8Array): void {
    if (last <= this.#run.seq) return
    const held = this.#claims.get(last)
    if (held !== undefined && !equals(held, hash)) {
      throw new ProtocolError('HASH_MISMATCH', `the peer claims two chains after transaction ${last}`, { field: 'hash' })
    }
    this.#claims.set(last, hash.slice())
  }

  /** @returns false for a transaction that is already held */
  #take(seq: bigint, item: Item): boolean {
    const head = this.#heads.get(item.channel) ?? noHead()
    if (seq <= this.#run.seq || seq <= head.seq) {
      this.duplicates += 1
      return false
    }
    this.#checkReach(seq)
    if (item.prev !== head.seq) {
      throw new ProtocolError('SEQUENCE', `transaction ${seq} follows ${item.prev} on channel ${item.channel}, whose head is ${head.seq}`, {
        field: 'prev'
      })
    }
    if (this.#ahead.has(seq)) throw new ProtocolError('SEQUENCE', `transaction ${seq} exists on two channels`, { field: 'seq' })
    const digest = transactionDigest(this.#crypto, head, { seq, kind: item.kind, channel: item.channel, payload: item.payload })
    this.#heads.set(item.channel, { seq, digest })
    this.#ahead.set(seq, digest)
    return true
  }

  #checkReach(seq: bigint): void {
    if (seq > this.#acked + BigInt(UNACKED_MAX)) {
      throw new ProtocolError('SEQUENCE', `transaction ${seq} lies more than ${UNACKED_MAX} beyond what was acknowledged`, { field: 'seq' })
    }
  }

  /**
   * The sender signed its chain at a point. One ahead of the run is held until the run gets there; one behind it came too late to compare.
   * @throws ProtocolError `HASH_MISMATCH`, `SEQUENCE` (beyond what a sender may keep unacknowledged)
   */
  claim(point: ChainPoint): void {
    if (point.seq < this.#run.seq) return
    this.#checkReach(point.seq)
    const held = point.seq === this.#run.seq ? this.#run.hash : this.#claims.get(point.seq)
    if (held !== undefined && !equals(held, point.hash)) {
      throw new ProtocolError('HASH_MISMATCH', `the peer signed another chain after transaction ${point.seq} than it sent`, { field: 'h' })
    }
    if (point.seq > this.#run.seq) this.#claims.set(point.seq, point.hash.slice())
  }

  #advance(): void {
    for (;;) {
      const next = this.#run.seq + 1n
      const digest = this.#ahead.get(next)
      if (digest === undefined) return
      this.#ahead.delete(next)
      const hash = chainNext(this.#crypto, this.#run.hash, digest)
      const claimed = this.#claims.get(next)
      this.#claims.delete(next)
      if (claimed !== undefined && !equals(claimed, hash)) {
        throw new ProtocolError('HASH_MISMATCH', `the peer's rolling hash after transaction ${next} is not that of what it sent`, {
          field: 'hash'
        })
      }
      this.#run = { seq: next, hash }
    }
  }

  #credit(channel: number): ReceiveCredit {
    let credit = this.#credits.get(channel)
    if (credit === undefined) {
      if (this.#credits.size === CHANNELS_MAX) {
        throw new ProtocolError('RANGE', `a session has at most ${CHANNELS_MAX} channels`, { field: 'channel' })
      }
      credit = new ReceiveCredit()
      this.#credits.set(channel, credit)
    }
    return credit
  }

  /** The effect of a transaction is synced. @returns true when `acked` moved */
  synced(seq: bigint): boolean {
    this.#synced.add(seq)
    const before = this.#acked
    while (this.#synced.delete(this.#acked + 1n)) this.#acked += 1n
    return this.#acked !== before
  }

  /** An item was handled: its bytes may be granted again. */
  handled(channel: number, payloadBytes: number): void {
    const bytes = this.#credit(channel).handled(windowCost(payloadBytes))
    if (bytes !== undefined) this.#grants.push({ channel, bytes: BigInt(bytes) })
  }

  /** The grants that fell due since the last call. */
  takeGrants(): WindowGrant[] {
    const grants = this.#grants
    if (grants.length > 0) this.#grants = []
    return grants
  }
}
