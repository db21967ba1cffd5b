import { equals } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { LazyMap } from '../lazy.ts'
import type { ChainPoint } from './chain.ts'
import { type CheckpointSubject, type Direction, signCheckpoint, verifyCheckpoint } from './checkpoint.ts'
import type { Established } from './established.ts'
import type { CheckpointConflict } from './stream-effects.ts'

/** A side signs its own direction after so many transactions, or after so long while it is active. */
export const CHECKPOINT_TRANSACTIONS = 1_024
export const CHECKPOINT_MS = 30_000
/** Of the peer's, the newest that are kept: two of one number that differ are a proof, whatever came between them. */
export const CHECKPOINTS_HELD_MAX = 16
/** What a peer may send at once, and how that grows again: at twice the pace at which an honest one signs. A signature costs more to check than to send. */
export const CHECKPOINTS_AT_ONCE_MAX = 16
const ALLOWANCE_MS = 10_000
const ALLOWANCE_TRANSACTIONS = CHECKPOINT_TRANSACTIONS / 2

interface Held extends ChainPoint {
  /** 185 */
  bytes: Uint8Array
  /** when it arrived, monotonic */
  atMs: number
}

/** Signed checkpoints of one epoch, both ways (protocol/README.md §6, Checkpoint): when ours are due, and whether the peer's contradict each other. */
export class CheckpointExchange {
  readonly #crypto: CryptoProvider
  readonly #signer: Signer
  readonly #own: CheckpointSubject
  readonly #theirs: CheckpointSubject
  #signedSeq: bigint
  #signedMs: number
  /** by number, the newest last; at most CHECKPOINTS_HELD_MAX entries */
  readonly #held = new LazyMap<bigint, Held>()
  #peer: Uint8Array | undefined
  #allowance: { left: number; atMs: number; run: bigint }
  #conflict: CheckpointConflict | undefined

  /** @param start - the newest transaction of ours that needs no signature any more */
  constructor(
    init: { crypto: CryptoProvider; signer: Signer; established: Established; nowMs: number },
    direction: Direction,
    start: bigint
  ) {
    const { sid, epoch, localEid, remoteEid } = init.established
    this.#crypto = init.crypto
    this.#signer = init.signer
    this.#own = { sid, epoch, direction, eid: localEid }
    this.#theirs = { sid, epoch, direction: direction === 0 ? 1 : 0, eid: remoteEid }
    this.#signedSeq = start
    this.#signedMs = init.nowMs
    this.#allowance = { left: CHECKPOINTS_AT_ONCE_MAX, atMs: init.nowMs, run: 0n }
  }

  /** The peer's newest; 185 bytes. */
  get peer(): Uint8Array | undefined {
    return this.#peer
  }

  /** Two of the peer that contradict each other. */
  get conflict(): CheckpointConflict | undefined {
    return this.#conflict
  }

  isDue({ seq }: ChainPoint, nowMs: number): boolean {
    const unsigned = seq - this.#signedSeq
    return unsigned >= BigInt(CHECKPOINT_TRANSACTIONS) || (unsigned > 0n && nowMs - this.#signedMs >= CHECKPOINT_MS)
  }

  /** Signs what was sent, when it is time to. */
  due({ seq, hash }: ChainPoint, nowMs: number): Uint8Array | undefined {
    if (!this.isDue({ seq, hash }, nowMs)) return undefined
    this.#signedSeq = seq
    this.#signedMs = nowMs
    return this.sign({ seq, hash })
  }

  sign(point: ChainPoint): Uint8Array {
    return signCheckpoint(this.#own, point, this.#signer)
  }

  /**
   * A checkpoint of the peer: verified, then compared with those that are held.
   * @param run - the number up to which everything of the peer arrived
   * @throws ProtocolError those of `verifyCheckpoint`; `RANGE`: more than anybody has reason to sign; `HASH_MISMATCH`: the peer signed another chain
   *   for the same number, and the pair is kept as {@link conflict}
   */
  verify(payload: Uint8Array, run: bigint, nowMs: number): ChainPoint {
    this.#allow(run, nowMs)
    const { seq, hash } = verifyCheckpoint(this.#crypto, payload, this.#theirs)
    const held = this.#held.get(seq)
    if (held !== undefined && !equals(held.hash, hash)) {
      this.#conflict = { a: held.bytes, b: payload.slice(), firstSeenMs: held.atMs }
      throw new ProtocolError('HASH_MISMATCH', 'the peer signed two chains for one number', { field: 'checkpoint.h' })
    }
    return { seq, hash }
  }

  #allow(run: bigint, nowMs: number): void {
    const { left, atMs, run: before } = this.#allowance
    const gained = (nowMs - atMs) / ALLOWANCE_MS + Number(run - before) / ALLOWANCE_TRANSACTIONS
    const allowed = Math.min(CHECKPOINTS_AT_ONCE_MAX, left + Math.max(0, gained))
    if (allowed < 1) throw new ProtocolError('RANGE', 'the peer sends more checkpoints than it has reason to', { field: 'checkpoint' })
    this.#allowance = { left: allowed - 1, atMs: nowMs, run }
  }

  /** One that {@link verify} took. */
  keep(payload: Uint8Array, { seq, hash }: ChainPoint, nowMs: number): void {
    this.#peer = payload.slice()
    const atMs = this.#held.get(seq)?.atMs ?? nowMs
    this.#held.delete(seq)
    this.#held.set(seq, { seq, hash: hash.slice(), bytes: this.#peer, atMs })
    if (this.#held.size > CHECKPOINTS_HELD_MAX) this.#held.delete(this.#held.keys().next().value as bigint)
  }
}
