import { ProtocolError } from '../errors.ts'
import { LazyMap } from '../lazy.ts'
import type { ChainPoint } from './chain.ts'
import { Fifo } from './fifo.ts'
import { type Item, isTransaction, itemBytes, RECORD_ITEMS_MAX, RECORD_PACK_BYTES } from './items.ts'
import type { Journal, Outgoing, Unacked } from './journal.ts'
import { CHANNELS_MAX } from './ready.ts'
import { NO_HASH } from './record.ts'
import { isCounted, SendCredit, windowCost } from './window.ts'

/** Transactions that a sender lets out beyond the peer's `ack`. */
export const UNACKED_MAX = 4_096

/** Of a connection that is cut after a number of bytes, both ways together, each side lets out so much before the peer acknowledges it, */
const IN_FLIGHT_PARTS = 8
/** and no less. */
const IN_FLIGHT_BYTES_MIN = 4_096

/**
 * How much may be on its way unacknowledged over a connection that is cut after `bytesLimit` bytes: what the cut loses is sent again, so that a
 * backlog above the limit, let out at once, would never come to an end (protocol/README.md §6, Resume).
 */
export function inFlightBytesMax(bytesLimit: number | undefined): number | undefined {
  return bytesLimit === undefined ? undefined : Math.max(IN_FLIGHT_BYTES_MIN, Math.floor(bytesLimit / IN_FLIGHT_PARTS))
}

/** What goes into one record. */
export interface Packed<T> {
  items: Item[]
  seq: bigint
  hash: Uint8Array
  /** live and control items inside, which nothing will acknowledge */
  unnumbered: Outgoing<T>[]
}

/** Cancelled items of a channel that may wait among the others before they are cleared out. */
const CANCELLED_KEPT = 32
const NOTHING = new Uint8Array(0)

interface Waiting<T> {
  item: Outgoing<T>
  /** transactions only */
  entry: Unacked<T> | undefined
  /** its window was used as it was numbered */
  reserved: boolean
}

interface Channel<T> {
  waiting: Fifo<Waiting<T>>
  credit: SendCredit
  /** cancelled items among those that wait; never many more than the others */
  cancelled: number
}

/** What a contract's rate lets out. */
export interface SendGate {
  maySend(kind: number): boolean
  sent(item: Item): void
}

/** One direction's sender in one epoch: packs what waits into records, within the peer's windows. Knows nothing of keys or disks. */
export class SendSide<T> {
  readonly #journal: Journal<T>
  /** at most CHANNELS_MAX entries, all opened by ourselves */
  readonly #channels = new LazyMap<number, Channel<T>>()
  /** windows of channels that we have not used yet; at most CHANNELS_MAX entries */
  readonly #grantedAhead = new LazyMap<number, number>()
  #begun = false
  #sent: ChainPoint
  /** nothing beyond this number leaves before everything up to it is acknowledged: the end of a snapshot */
  #holdAfter = 0n
  readonly #gate: SendGate | undefined
  /** something was held back by the gate since it was last asked what is ready */
  #gated = false
  readonly #inFlightBytesMax: number
  /** transactions that left in this epoch and are not acknowledged, in bytes of their items; kept only where they are bounded */
  readonly #inFlight = new LazyMap<bigint, number>()
  #inFlightBytes = 0

  /** @param journal - what earlier epochs left unacknowledged; it waits until {@link begin} says what of it the peer lacks */
  constructor(
    journal: Journal<T>,
    { gate, inFlightBytesMax }: { gate?: SendGate | undefined; inFlightBytesMax?: number | undefined } = {}
  ) {
    this.#journal = journal
    this.#gate = gate
    this.#inFlightBytesMax = inFlightBytesMax ?? Number.POSITIVE_INFINITY
    this.#sent = journal.acked
  }

  get journal(): Journal<T> {
    return this.#journal
  }

  /** The newest transaction that was numbered, and the chain after it. */
  get tx(): ChainPoint {
    return this.#journal.tx
  }

  /** The highest number that left in this epoch, or was acknowledged before, and the chain after it: what may be signed. */
  get sent(): ChainPoint {
    return this.#sent.seq > this.#journal.acked.seq ? this.#sent : this.#journal.acked
  }

  /** The newest that the peer acknowledged. */
  get acked(): ChainPoint {
    return this.#journal.acked
  }

  /** Something waits for nothing but the contract's rate. */
  get gated(): boolean {
    return this.#gated
  }

  /** Nothing waits and nothing is unacknowledged. */
  get flushed(): boolean {
    if (this.#journal.length > 0) return false
    for (const { waiting } of this.#channels.values()) {
      for (const { item, entry } of waiting) if (entry === undefined && item.state === 'waiting') return false
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
      channel = { waiting: new Fifo(), credit: new SendCredit(this.#grantedAhead.get(number)), cancelled: 0 }
      this.#grantedAhead.delete(number)
      this.#channels.set(number, channel)
    }
    return channel
  }

  /** READY is there: what the peer lacks goes out, oldest first. */
  begin(entries: Iterable<Unacked<T>>, { holdAfter = 0n }: { holdAfter?: bigint } = {}): void {
    this.#begun = true
    this.#holdAfter = holdAfter
    for (const entry of entries) this.#push(entry, false)
  }

  #push(entry: Unacked<T>, reserved: boolean): void {
    this.#channel(entry.item.channel).waiting.push({ item: entry.item, entry, reserved })
  }

  /** Live and control items; a transaction is numbered here and counts as synced. */
  queue(channel: number, kind: number, payload: Uint8Array, tag: T): Outgoing<T> {
    const item: Outgoing<T> = { kind, channel, payload, tag, state: 'waiting' }
    const { waiting } = this.#channel(channel)
    if (isTransaction(kind)) this.enqueue(this.#journal.append(item), 'unreserved')
    else waiting.push({ item, entry: undefined, reserved: false })
    return item
  }

  /** A live item that still waits never leaves; what it held is let go of, however long the items before it wait. */
  cancel(item: Outgoing<T>): void {
    item.state = 'cancelled'
    item.payload = NOTHING
    const channel = this.#channel(item.channel)
    channel.cancelled += 1
    if (channel.cancelled <= CANCELLED_KEPT || channel.cancelled * 2 <= channel.waiting.length) return
    channel.waiting.retain((one) => one.item.state !== 'cancelled')
    channel.cancelled = 0
  }

  /**
   * Takes window for a transaction that is to be numbered now, so that a number never waits for a slow reader while others go on.
   * @returns false while the channel's window, or what may be unacknowledged, is used up
   * @throws ProtocolError `RANGE` for channel 65
   */
  reserve(channel: number, payloadBytes: number): boolean {
    const { credit } = this.#channel(channel)
    const cost = windowCost(payloadBytes)
    if (this.#journal.length >= UNACKED_MAX || !credit.allows(cost)) return false
    credit.use(cost)
    return true
  }

  /** A numbered transaction is on disk. Before {@link begin} it only counts as synced: begin brings it. */
  enqueue(entry: Unacked<T>, window: 'reserved' | 'unreserved'): void {
    this.#journal.markSynced(entry.seq)
    if (this.#begun) this.#push(entry, window === 'reserved')
  }

  /** @returns the channels that `pack` would give something for now */
  *ready(): Iterable<number> {
    this.#gated = false
    for (const [number, channel] of this.#channels) if (this.#next(channel) !== undefined) yield number
  }

  #next(channel: Channel<T>): Waiting<T> | undefined {
    let next = channel.waiting.first()
    while (next !== undefined && this.#isPast(next)) {
      channel.waiting.shift()
      if (next.item.state === 'cancelled') channel.cancelled -= 1
      next = channel.waiting.first()
    }
    if (next === undefined) return undefined
    const { item, entry, reserved } = next
    if (isCounted(item.kind) && !reserved && !channel.credit.allows(windowCost(item.payload.length))) return undefined
    if (entry !== undefined) {
      const acked = this.#journal.acked.seq
      if (entry.seq > acked + BigInt(UNACKED_MAX)) return undefined
      if (entry.seq > this.#holdAfter && acked < this.#holdAfter) return undefined
      if (!this.#fitsInFlight(itemBytes(item.kind, item.payload.length))) return undefined
    }
    if (this.#gate?.maySend(item.kind) === false) {
      this.#gated = true
      return undefined
    }
    return next
  }

  /** One that is larger than the bound goes alone. */
  #fitsInFlight(bytes: number): boolean {
    return this.#inFlightBytes === 0 || this.#inFlightBytes + bytes <= this.#inFlightBytesMax
  }

  #left(seq: bigint, bytes: number): void {
    if (this.#inFlightBytesMax === Number.POSITIVE_INFINITY) return
    this.#inFlight.set(seq, bytes)
    this.#inFlightBytes += bytes
  }

  #isPast({ item, entry }: Waiting<T>): boolean {
    return entry === undefined ? item.state === 'cancelled' : entry.seq <= this.#journal.acked.seq
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
    let last: Unacked<T> | undefined
    while (items.length < RECORD_ITEMS_MAX) {
      const next = this.#next(channel)
      if (next === undefined) break
      const { item, entry, reserved } = next
      const size = itemBytes(item.kind, item.payload.length)
      if (items.length > 0 && bytes + size > RECORD_PACK_BYTES) break
      if (entry !== undefined && last !== undefined && entry.seq !== last.seq + 1n) break
      bytes += size
      channel.waiting.shift()
      item.state = 'sent'
      if (isCounted(item.kind) && !reserved) channel.credit.use(windowCost(item.payload.length))
      if (entry === undefined) unnumbered.push(item)
      else {
        if (last === undefined) firstSeq = entry.seq
        last = entry
        this.#left(entry.seq, size)
      }
      const packed = { kind: item.kind, channel: number, prev: entry?.prev, payload: item.payload }
      this.#gate?.sent(packed)
      items.push(packed)
    }
    if (items.length === 0) return undefined
    if (last !== undefined && last.seq > this.#sent.seq) this.#sent = { seq: last.seq, hash: last.hash }
    return { items, seq: firstSeq, hash: last?.hash ?? NO_HASH, unnumbered }
  }

  /**
   * @returns the transactions that this acknowledges for the first time
   * @throws ProtocolError `SEQUENCE` when the peer acknowledges what was never sent
   */
  ack(upTo: bigint): Unacked<T>[] {
    const acked = this.#journal.ack(upTo)
    for (const { seq } of acked) {
      this.#inFlightBytes -= this.#inFlight.get(seq) ?? 0
      this.#inFlight.delete(seq)
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

  /** The live items that will now never be sent, oldest first. Transactions stay in the journal. */
  abandon(): Outgoing<T>[] {
    const unsent: Outgoing<T>[] = []
    for (const { waiting } of this.#channels.values()) {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        if (next.entry === undefined && next.item.state === 'waiting') unsent.push(next.item)
      }
    }
    return unsent
  }
}
