import type { QueueBounds } from '../../protocol/delivery/bounds.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { WriteOp } from '../store/store.ts'

export type { QueueBounds }

export interface QueueRecord {
  /** sorts in order of arrival */
  key: string
  audience: EidHex
  /** `object`: a governed object; `opaque`: a blob for a processor to come, which waits under TTL and bounds (OD-38) */
  kind: 'object' | 'opaque'
  /** the verified principal that deposited it (OD-31) */
  principal: string
  /** what it counts against in the cap of a peer, where that is not the principal: all without a grant share one (G-13) */
  slot?: string
  /** the governed object's name; of an opaque blob no issuer, and the hash of its bytes */
  issuer: EidHex | ''
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
   * Idempotent on (issuer, object id): the same bytes again get the same answer and no second count (G-02). A governed object is decoded and
   * its times, audience and signature are checked first, so that nobody takes a name that is not theirs (G-12).
   * @throws ProtocolError for an object that is malformed, not the issuer's, of the future or for another audience
   * @throws RookeryError `STORE_WRITE_FAILED`: nothing was queued, and nobody may say so (OD-22, OD-48)
   */
  enqueue(input: {
    audience: EidHex
    principal: string
    /** what it counts against; default: the principal */
    slot?: string | undefined
    object: Uint8Array
    ttlMs?: number
    kind?: QueueRecord['kind']
    /** of an opaque blob that is a message of its own though its bytes were there before; hex, 1 to 64 digits. Default: the hash of its bytes */
    opaqueId?: string
    /** what is known of an object that this process has sealed and signed just now: it is not decoded and verified again */
    sealed?: { issuer: EidHex; objectId: string; expiresAtMs: number }
    /** written in the same batch as the record, and only with it */
    alongside?: readonly WriteOp[]
  }): Promise<QueueAnswer>
  usage(audience: EidHex): Promise<QueueUsage>
  list(audience: EidHex, options?: { limit?: number }): Promise<QueueRecord[]>
  drop(audience: EidHex, key: string): Promise<boolean>
  /** drops what has expired; called by a timer and before every bound is judged */
  sweep(): Promise<number>
}

/** The removal of a record as part of another commit: perform `ops`, then call `done` to release what it counted. */
export interface Removal {
  readonly ops: readonly WriteOp[]
  done(): void
}

/** What a drain needs beyond the port: records one by one, and removal inside the commit of their effect (G-15). */
export interface DrainableQueue extends AsleepQueue {
  /** In order of arrival, after `afterKey`; damaged rows are set aside on the way. */
  records(audience: EidHex, options?: { afterKey?: string }): AsyncIterable<QueueRecord>
  removal(record: QueueRecord): Removal
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
