import type { ProtocolError } from '../errors.ts'
import type { ChainPoint } from './chain.ts'
import type { Outgoing } from './send-side.ts'

export interface StreamClose {
  /** a teardown reason's name, or `unanswered`, `revoked` */
  reason: string
  by: 'local' | 'peer'
  /** what the peer did wrong */
  error?: ProtocolError
}

/** What the driver is to do or to know. */
export type StreamEffect<T> =
  /** both READYs are there */
  | { kind: 'ready' }
  /** hand over; report `synced` (transactions) and `handled` afterwards */
  | { kind: 'deliver'; channel: number; itemKind: number; seq: bigint | undefined; payload: Uint8Array }
  /** a transaction of a kind without meaning here: no effect; report it, then `synced` and `handled` as for one with an effect */
  | { kind: 'unknown'; channel: number; itemKind: number; seq: bigint; payload: Uint8Array }
  /** the peer synced these; `upTo` and the sender's chain after it */
  | { kind: 'acked'; items: Outgoing<T>[]; upTo: ChainPoint }
  /** the peer closes: nothing new may start */
  | { kind: 'closing'; reason: string }
  /** over; a last frame of the control channel may still be pulled */
  | { kind: 'closed'; close: StreamClose }
  /** REVOCATION_PUBLISH came: reason u16 ‖ record */
  | { kind: 'revocation'; payload: Uint8Array }
  /** nothing was heard for too long: the epoch is over, the session is not */
  | { kind: 'silent' }

export interface OutgoingFrame<T> {
  /** one whole record */
  bytes: Uint8Array
  /** live items inside; transactions are told by `acked` */
  sent: Outgoing<T>[]
  effects: StreamEffect<T>[]
}
