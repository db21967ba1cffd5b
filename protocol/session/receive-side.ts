import { equals } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { LazyMap, LazySet } from '../lazy.ts'
import { type ChainPoint, type ChannelHead, chainNext, HASH_BYTES, noHead, transactionDigest } from './chain.ts'
import { ITEM_KINDS, type Item, isTransaction } from './items.ts'
import type { Known, Position } from './ledger.ts'
import { CHANNELS_MAX } from './ready.ts'
import { UNACKED_MAX } from './send-side.ts'
import { SnapshotParts } from './snapshot.ts'
import { isCounted, ReceiveCredit, type WindowGrant, windowCost } from './window.ts'

/** Numbers end here, far below what u64 holds: nothing ever wraps. */
const SEQ_MAX = 2n ** 63n
/** A record that is so many times larger than what is handed over of it is not kept alive by it. */
const PINNED_MAX = 2

/** A transaction or live item, handed over in order within its channel. */
export interface Arrived {
  channel: number
  kind: number
  /** undefined: a live item */
  seq: bigint | undefined
  payload: Uint8Array
  /** transactions only: what is kept of it beside its effect */
  position?: Position
  /** set at the last part of a snapshot, which then comes in place of the part */
  snapshot?: ArrivedSnapshot
}

/** A whole snapshot, to be applied in one batch. */
export interface ArrivedSnapshot {
  /** transactions after `lostFrom − 1` up to the base never arrived as such */
  lostFrom: bigint
  base: bigint
  bytes: Uint8Array
  /** where this side stands once it is applied */
  run: ChainPoint
  heads: ReadonlyMap<number, ChannelHead>
}

/** One direction's receiver: channel order, the chain, windows, and what may be acknowledged. Knows nothing of keys. */
export class ReceiveSide {
  readonly #crypto: CryptoProvider
  /** at most CHANNELS_MAX entries */
  readonly #heads: LazyMap<number, ChannelHead>
  /** at most CHANNELS_MAX entries */
  readonly #credits = new LazyMap<number, ReceiveCredit>()
  /** digests of transactions beyond the run; at most UNACKED_MAX entries */
  readonly #ahead = new LazyMap<bigint, Uint8Array>()
  /** the chain that a record claims after its last transaction, beyond the run; at most UNACKED_MAX entries */
  readonly #claims = new LazyMap<bigint, Uint8Array>()
  /** synced beyond `acked`; at most UNACKED_MAX entries */
  readonly #synced = new LazySet<bigint>()
  /** grants that are due, the newest of each channel; at most CHANNELS_MAX entries */
  readonly #grants = new LazyMap<number, bigint>()
  #run: ChainPoint
  #acked: bigint
  /** from where reach is measured after a snapshot */
  #floor = 0n
  /** met before this epoch, beyond the run and the heads; at most UNACKED_MAX entries */
  readonly #known = new LazyMap<bigint, Known>()
  /** `allowed`: a snapshot may come as the first transactions of the epoch */
  #snapshot: 'allowed' | 'over' | SnapshotParts
  #lostFrom = 0n
  /** transactions that came again and were dropped */
  duplicates = 0

  /**
   * @param start - number and chain after the last transaction whose effect is synced; 0 and h_0 in a new session
   * @param heads - the channels' heads at `start`
   * @param resumed - in a session taken up again: what was met beyond them, and that a snapshot may come
   */
  constructor(
    crypto: CryptoProvider,
    start: ChainPoint,
    heads: ReadonlyMap<number, ChannelHead> = new Map(),
    resumed?: { known: Map<bigint, Known> }
  ) {
    this.#crypto = crypto
    this.#run = start
    this.#acked = start.seq
    this.#heads = new LazyMap(heads)
    for (const [seq, held] of resumed?.known ?? []) {
      if (held.comesAgain) this.#known.set(seq, { ...held })
      else {
        this.#ahead.set(seq, held.digest)
        this.#synced.add(seq)
      }
    }
    this.#snapshot = resumed === undefined ? 'over' : 'allowed'
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
   * @throws ProtocolError `RANGE` (channel 65), `WINDOW`, `SEQUENCE`, `HASH_MISMATCH`, `OUT_OF_ORDER` (a snapshot where none may come): the peer
   *   contradicts itself; `DIVERGED`: it contradicts what it sent in an earlier epoch
   */
  accept(record: { seq: bigint; hash: Uint8Array }, items: readonly Item[]): Arrived[] {
    if (record.seq > SEQ_MAX) throw new ProtocolError('SEQUENCE', `number ${record.seq} lies beyond 2^63`, { field: 'seq' })
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
      if (item.kind === ITEM_KINDS.snapshotPart) this.#takePart(seq, item, arrived)
      else this.#takeTransaction(seq, item, arrived)
      seq += 1n
      transactions += 1
    }
    if (transactions === 0) {
      if (record.seq !== 0n) throw new ProtocolError('SEQUENCE', 'a record without transactions numbers one', { field: 'seq' })
      return unpinned(arrived)
    }
    if (record.hash.length !== HASH_BYTES) throw new ProtocolError('LENGTH', 'the rolling hash is not 32 bytes', { field: 'hash' })
    const last = seq - 1n
    this.#claimRecord(last, record.hash)
    this.#advance()
    this.#moveAcked()
    return unpinned(arrived)
  }

  #takeTransaction(seq: bigint, item: Item, arrived: Arrived[]): void {
    if (typeof this.#snapshot === 'object') {
      throw new ProtocolError('OUT_OF_ORDER', 'a transaction in the middle of a snapshot', { field: 'kind' })
    }
    const position = this.#take(seq, item)
    const held = position === undefined ? undefined : this.#known.get(seq)
    if (position === undefined || held !== undefined) this.handled(item.channel, item.payload.length)
    if (position === undefined) return
    this.#snapshot = 'over'
    if (held === undefined) arrived.push({ channel: item.channel, kind: item.kind, seq, payload: item.payload, position })
    else {
      this.duplicates += 1
      if (held.synced) this.#synced.add(seq)
    }
  }

  /** Parts count as handled when they come: they are bounded by themselves, and nothing is delivered before the last. */
  #takePart(seq: bigint, item: Item, arrived: Arrived[]): void {
    this.handled(item.channel, item.payload.length)
    const lostFrom = this.#run.seq + 1n
    if (this.#snapshot === 'allowed') {
      const parts = new SnapshotParts(item.payload)
      const { base } = parts
      if (base.seq < lostFrom || seq !== base.seq + 1n) {
        throw new ProtocolError('OUT_OF_ORDER', `a snapshot at ${base.seq} for a peer that holds ${this.#run.seq}`, { field: 'base' })
      }
      this.#lostFrom = lostFrom
      this.#run = { seq: base.seq, hash: base.hash.slice() }
      this.#floor = base.seq
      this.#heads.clear()
      for (const [channel, head] of base.heads) this.#heads.set(channel, head)
      this.#ahead.clear()
      this.#claims.clear()
      this.#known.clear()
      this.#synced.clear()
      this.#snapshot = parts
    } else if (typeof this.#snapshot === 'object') this.#snapshot.add(item.payload)
    else throw new ProtocolError('OUT_OF_ORDER', 'a snapshot that nothing asked for', { field: 'kind' })
    if (this.#take(seq, item) === undefined) throw new ProtocolError('SEQUENCE', `part ${seq} came twice`, { field: 'seq' })
    this.#advance()
    const parts = this.#snapshot
    if (!parts.complete) return
    this.#snapshot = 'over'
    const snapshot = { lostFrom: this.#lostFrom, base: parts.base.seq, bytes: parts.bytes(), run: this.#run, heads: new Map(this.#heads) }
    arrived.push({ channel: item.channel, kind: item.kind, seq, payload: item.payload, snapshot })
  }

  /** The snapshot was applied and synced. */
  snapshotSynced(last: bigint): void {
    if (last > this.#acked) this.#acked = last
    this.#moveAcked()
  }

  /** What is synced without a gap may be acknowledged; a transaction that is known to be synced moves it as it comes again. */
  #moveAcked(): void {
    while (this.#acked < this.#run.seq && this.#synced.delete(this.#acked + 1n)) this.#acked += 1n
  }

  #claimRecord(last: bigint, hash: Uint8Array): void {
    if (last <= this.#run.seq) return
    const held = this.#claims.get(last)
    if (held !== undefined && !equals(held, hash)) {
      throw new ProtocolError('HASH_MISMATCH', `the peer claims two chains after transaction ${last}`, { field: 'hash' })
    }
    this.#claims.set(last, hash.slice())
  }

  /** @returns undefined for a transaction that is already held */
  #take(seq: bigint, item: Item): Position | undefined {
    const head = this.#heads.get(item.channel) ?? noHead()
    if (seq <= this.#run.seq || seq <= head.seq) {
      this.duplicates += 1
      return undefined
    }
    this.#checkReach(seq)
    if (item.prev !== head.seq) {
      throw new ProtocolError('SEQUENCE', `transaction ${seq} follows ${item.prev} on channel ${item.channel}, whose head is ${head.seq}`, {
        field: 'prev'
      })
    }
    if (this.#ahead.has(seq)) throw new ProtocolError('SEQUENCE', `transaction ${seq} exists on two channels`, { field: 'seq' })
    const digest = transactionDigest(this.#crypto, head, { seq, kind: item.kind, channel: item.channel, payload: item.payload })
    const known = this.#known.get(seq)
    if (known !== undefined && !equals(known.digest, digest)) {
      throw new ProtocolError('DIVERGED', `transaction ${seq} is another than it was`, { field: 'digest' })
    }
    this.#heads.set(item.channel, { seq, digest })
    this.#ahead.set(seq, digest)
    return { channel: item.channel, prev: head.seq, digest }
  }

  #checkReach(seq: bigint): void {
    let from = this.#acked
    if (from < this.#floor) from = this.#floor
    if (seq > from + BigInt(UNACKED_MAX)) {
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
    if (seq <= this.#acked) return false
    if (seq > this.#run.seq && !this.#ahead.has(seq)) {
      // handed over in an earlier epoch, and on its way again: it counts when it comes
      const known = this.#known.get(seq)
      if (known !== undefined) known.synced = true
      return false
    }
    this.#synced.add(seq)
    const before = this.#acked
    this.#moveAcked()
    return this.#acked !== before
  }

  /** An item was handled: its bytes may be granted again. */
  handled(channel: number, payloadBytes: number): void {
    const bytes = this.#credit(channel).handled(windowCost(payloadBytes))
    if (bytes !== undefined) this.#grants.set(channel, BigInt(bytes))
  }

  get hasGrants(): boolean {
    return this.#grants.size > 0
  }

  /** The grants that fell due since the last call. */
  takeGrants(): WindowGrant[] {
    const grants = [...this.#grants].map(([channel, bytes]) => ({ channel, bytes }))
    this.#grants.clear()
    return grants
  }
}

/** What is handed over may wait as long as its reader likes: then it holds no more of its record than the window counts for it. */
function unpinned(arrived: Arrived[]): Arrived[] {
  let counted = 0
  for (const { payload } of arrived) counted += windowCost(payload.length)
  const record = arrived[0]?.payload.buffer.byteLength ?? 0
  return record <= PINNED_MAX * counted ? arrived : arrived.map((one) => ({ ...one, payload: one.payload.slice() }))
}
