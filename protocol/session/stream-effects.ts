import type { ProtocolError } from '../errors.ts'
import type { ChainPoint, ChannelHead } from './chain.ts'
import type { Outgoing } from './journal.ts'
import type { Position } from './ledger.ts'

/** Two checkpoints of the peer that contradict each other: a proof of malfeasance (protocol/README.md §6, Checkpoint). 185 bytes each. */
export interface CheckpointConflict {
  a: Uint8Array
  b: Uint8Array
  /** when the earlier arrived, monotonic */
  firstSeenMs: number
}

export interface StreamClose {
  /** a teardown reason's name, or `unanswered`, `revoked` */
  reason: string
  by: 'local' | 'peer'
  /** what the peer did wrong */
  error?: ProtocolError
  /** what proves it to others; the driver may still `revoke`, in place of the TEARDOWN that is due */
  conflict?: CheckpointConflict
}

/** What the peer's READY said, and what follows. */
export interface ReadyFacts {
  peer: {
    /** what it has of ours, and what it numbered itself */
    rx: bigint
    tx: bigint
    heads: ReadonlyMap<number, ChannelHead>
    /** it came back without its ESE values */
    eseLost: boolean
  }
  /** transactions of earlier epochs that go out again */
  resent: number
  /** `wanted`: the journal no longer reaches back to what the peer has; nothing leaves before `sendSnapshot` */
  snapshot: 'none' | 'wanted'
}

/** What the driver is to do or to know. */
export type StreamEffect<T> =
  /** both READYs are there */
  | ({ kind: 'ready' } & ReadyFacts)
  /** hand over; report `synced` (transactions) and `handled` afterwards. `position` is to be stored with the effect */
  | { kind: 'deliver'; channel: number; itemKind: number; seq: bigint | undefined; position?: Position; payload: Uint8Array }
  /** apply in one batch, with where this side then stands; report `snapshotSynced(run.seq)` afterwards */
  | {
      kind: 'snapshot'
      /** what was lost: `lostFrom` to `base` */
      lostFrom: bigint
      base: bigint
      bytes: Uint8Array
      run: ChainPoint
      heads: ReadonlyMap<number, ChannelHead>
    }
  /** a transaction of a kind without meaning here: no effect; report it, then `synced` and `handled` as for one with an effect */
  | { kind: 'unknown'; channel: number; itemKind: number; seq: bigint; position: Position; payload: Uint8Array }
  /** the peer synced these; `upTo` and the sender's chain after it */
  | { kind: 'acked'; items: Outgoing<T>[]; upTo: ChainPoint }
  /** the peer closes: nothing new may start */
  | { kind: 'closing'; reason: string }
  /** over; a last frame of the control channel may still be pulled */
  | { kind: 'closed'; close: StreamClose }
  /** REVOCATION_PUBLISH came: reason u16 ‖ record */
  | { kind: 'revocation'; payload: Uint8Array }
  /** the answer to a ping that the driver asked for */
  | { kind: 'pong'; rttMs: number }
  /** the contract's time is over: the driver starts nothing new and closes */
  | { kind: 'expired' }
  /** nothing was heard for too long: the epoch is over, the session is not */
  | { kind: 'silent' }

export interface OutgoingFrame<T> {
  /** one whole record */
  bytes: Uint8Array
  /** live items inside; transactions are told by `acked` */
  sent: Outgoing<T>[]
  effects: StreamEffect<T>[]
}
