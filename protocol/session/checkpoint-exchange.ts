import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { findConflicts } from '../evidence/checkpoint-conflicts.ts'
import type { ChainPoint } from './chain.ts'
import { type CheckpointSubject, type Direction, signCheckpoint, verifyCheckpoint } from './checkpoint.ts'
import type { Established } from './established.ts'
import type { CheckpointConflict } from './stream-effects.ts'

/** A side signs its own direction after so many transactions, or after so long while it is active. */
export const CHECKPOINT_TRANSACTIONS = 1_024
export const CHECKPOINT_MS = 30_000

/** Signed checkpoints of one epoch, both ways (protocol/README.md §6, Checkpoint): when ours are due, and whether the peer's contradict each other. */
export class CheckpointExchange {
  readonly #crypto: CryptoProvider
  readonly #signer: Signer
  readonly #own: CheckpointSubject
  readonly #theirs: CheckpointSubject
  #signedSeq: bigint
  #signedMs: number
  #peer: Uint8Array | undefined
  /** when it arrived, monotonic */
  #peerMs = 0
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
  }

  /** The peer's newest; 185 bytes. */
  get peer(): Uint8Array | undefined {
    return this.#peer
  }

  /** Two of the peer that contradict each other. */
  get conflict(): CheckpointConflict | undefined {
    return this.#conflict
  }

  /** Signs what was sent, when it is time to. */
  due({ seq, hash }: ChainPoint, nowMs: number): Uint8Array | undefined {
    const unsigned = seq - this.#signedSeq
    if (unsigned < BigInt(CHECKPOINT_TRANSACTIONS) && (unsigned <= 0n || nowMs - this.#signedMs < CHECKPOINT_MS)) return undefined
    this.#signedSeq = seq
    this.#signedMs = nowMs
    return this.sign({ seq, hash })
  }

  sign(point: ChainPoint): Uint8Array {
    return signCheckpoint(this.#own, point, this.#signer)
  }

  /** @throws ProtocolError those of `verifyCheckpoint` */
  verify(payload: Uint8Array): ChainPoint {
    return verifyCheckpoint(this.#crypto, payload, this.#theirs)
  }

  /** @throws ProtocolError `HASH_MISMATCH`: the peer signed another chain for the same number; the pair is kept as {@link conflict} */
  compare(arrived: Uint8Array): void {
    const held = this.#peer
    if (held === undefined || findConflicts(this.#crypto, [held, arrived]).length === 0) return
    this.#conflict = { a: held, b: arrived.slice(), firstSeenMs: this.#peerMs }
    throw new ProtocolError('HASH_MISMATCH', 'the peer signed two chains for one number', { field: 'checkpoint.h' })
  }

  keep(payload: Uint8Array, nowMs: number): void {
    this.#peer = payload.slice()
    this.#peerMs = nowMs
  }
}
