import type { CryptoProvider } from '../crypto/provider.ts'
import { LazyMap } from '../lazy.ts'
import { type ChainPoint, type ChannelHead, chainNext, noHead } from './chain.ts'

/** What is kept of a received transaction beside its effect, in the same batch: with it a restart knows that the effect is there. */
export interface Position {
  readonly channel: number
  /** the channel's transaction before */
  readonly prev: bigint
  readonly digest: Uint8Array
}

/** A transaction beyond the run that this side has met before the epoch began. */
export interface Known {
  readonly digest: Uint8Array
  /** its effect is on disk; else a handler is still at it */
  synced: boolean
  /** it lies beyond its channel's head, so the peer sends it again; what lies below is told in READY and does not come again */
  comesAgain: boolean
}

/**
 * What this side has of the peer's transactions, carried from epoch to epoch: the complete run whose effects are synced, the channels' heads
 * there, and what lies beyond. READY tells of it; nothing in it is handed over again.
 */
export class ReceiveLedger {
  readonly #crypto: CryptoProvider
  /** at most CHANNELS_MAX entries */
  #heads: LazyMap<number, ChannelHead>
  /** synced beyond the run; at most UNACKED_MAX entries, as the receiver refuses what lies further */
  readonly #beyond = new LazyMap<bigint, Position>()
  /** of `#beyond`, those that wait for the one before on their channel: `channel/prev` → number */
  readonly #after = new LazyMap<string, bigint>()
  /** handed over, not synced yet; at most UNACKED_MAX entries */
  readonly #inHand = new LazyMap<bigint, Position>()
  #run: ChainPoint

  constructor(crypto: CryptoProvider, start: ChainPoint, heads: ReadonlyMap<number, ChannelHead> = new Map()) {
    this.#crypto = crypto
    this.#run = start
    this.#heads = new LazyMap(heads)
  }

  /** Everything up to here is synced. */
  get run(): ChainPoint {
    return this.#run
  }

  /** Each channel's newest transaction up to which everything on the channel is synced. */
  get heads(): ReadonlyMap<number, ChannelHead> {
    return this.#heads
  }

  /** Nothing of the peer ever came. */
  get isUntouched(): boolean {
    return this.#run.seq === 0n && this.#beyond.size === 0 && this.#inHand.size === 0
  }

  get inHand(): number {
    return this.#inHand.size
  }

  /** Handed over: on its way to an effect. */
  take(seq: bigint, position: Position): void {
    this.#inHand.set(seq, position)
  }

  /** Its effect and its position are on disk. */
  synced(seq: bigint): void {
    const position = this.#inHand.get(seq)
    if (position === undefined) return
    this.#inHand.delete(seq)
    this.restore(seq, position)
  }

  /** A position that was read back from disk. */
  restore(seq: bigint, position: Position): void {
    if (seq <= this.#run.seq) return
    this.#beyond.set(seq, position)
    this.#after.set(`${position.channel}/${position.prev}`, seq)
    this.#moveHead(position.channel)
    for (;;) {
      const next = this.#run.seq + 1n
      const one = this.#beyond.get(next)
      if (one === undefined) return
      this.#beyond.delete(next)
      this.#after.delete(`${one.channel}/${one.prev}`)
      this.#run = { seq: next, hash: chainNext(this.#crypto, this.#run.hash, one.digest) }
    }
  }

  #moveHead(channel: number): void {
    let head = this.#heads.get(channel) ?? noHead()
    for (;;) {
      const next = this.#after.get(`${channel}/${head.seq}`)
      const position = next === undefined ? undefined : this.#beyond.get(next)
      if (next === undefined || position === undefined) break
      head = { seq: next, digest: position.digest }
    }
    if (head.seq > 0n) this.#heads.set(channel, head)
  }

  /** What was met beyond the run: it must not be handed over again. */
  known(): Map<bigint, Known> {
    const known = new Map<bigint, Known>()
    for (const [seq, { channel, digest }] of this.#beyond) {
      known.set(seq, { digest, synced: true, comesAgain: seq > (this.#heads.get(channel)?.seq ?? 0n) })
    }
    for (const [seq, { digest }] of this.#inHand) known.set(seq, { digest, synced: false, comesAgain: true })
    return known
  }

  /** A snapshot was applied: everything before it is covered, what was in hand counts no more. */
  reset(run: ChainPoint, heads: ReadonlyMap<number, ChannelHead>): void {
    this.#run = run
    this.#heads = new LazyMap(heads)
    this.#beyond.clear()
    this.#after.clear()
    this.#inHand.clear()
  }
}
