import type { EidHex } from '../../protocol/identity/eid.ts'

/** OD-24 … OD-29; published in card and status (OD-30). */
export interface QueueBounds {
  /** default 500 */
  messagesMax: number
  /** default 2 MiB, over the stored objects' bytes */
  bytesMax: number
  /** default 50 */
  messagesPerPeerMax: number
  /** default 7 days */
  ttlMaxMs: number
}

export interface QueueRecord {
  /** sorts in order of arrival */
  key: string
  audience: EidHex
  /** the verified principal that deposited it (OD-31) */
  principal: string
  /** the governed object's name */
  issuer: EidHex
  objectId: string
  /** the object's bytes, as they came */
  object: Uint8Array
  enqueuedAtMs: number
  /** min(object end, sender's wish, our maximum) (G-09) */
  expiresAtMs: number
}

export type QueueAnswer =
  | { status: 'queued'; record: QueueRecord; again: boolean }
  | { status: 'full'; kind: 'messages' | 'bytes' | 'peer' }
  | { status: 'too-large'; bytesMax: number }
  | { status: 'expired' }
  | { status: 'conflict' }

export interface QueueUsage {
  messages: number
  bytes: number
  bounds: QueueBounds
}

/** What arrives for an agent that sleeps: bounded, on disk before it is promised, one per local agent (OD-22 … OD-30). */
export interface AsleepQueue {
  /**
   * Idempotent on (issuer, object id): the same bytes again get the same answer and no second count (G-02).
   * @throws RookeryError `STORE_WRITE_FAILED`: nothing was queued, and nobody may say so (OD-22, OD-48)
   */
  enqueue(input: { audience: EidHex; principal: string; object: Uint8Array; ttlMs?: number }): Promise<QueueAnswer>
  usage(audience: EidHex): Promise<QueueUsage>
  list(audience: EidHex, options?: { limit?: number }): Promise<QueueRecord[]>
  drop(audience: EidHex, key: string): Promise<boolean>
  /** drops what has expired; called by a timer and before every bound is judged */
  sweep(): Promise<number>
}

/** What became of one record when its agent woke. */
export interface DrainEvent {
  key: string
  objectId: string
  outcome: 'accepted' | 'replayed' | 'invalid' | 'expired' | 'waits'
  /** a ProtocolErrorCode where it was refused */
  reason?: string
  todo?: string
}

export interface DrainReport {
  accepted: number
  discarded: number
  waiting: number
  events: DrainEvent[]
  /** the drain was held: the clock reads earlier than the highest time on disk (G-10) */
  held?: string
}
