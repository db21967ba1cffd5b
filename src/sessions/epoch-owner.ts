import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import type { StreamTimes } from '../../protocol/session/closing.ts'
import type { ContractMeter } from '../../protocol/session/contract.ts'
import type { Established } from '../../protocol/session/established.ts'
import type { Outgoing } from '../../protocol/session/journal.ts'
import type { CheckpointConflict, ReadyFacts, StreamEffect } from '../../protocol/session/stream-effects.ts'
import type { CarriedState } from '../../protocol/session/stream-init.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { FrameRoom } from './large-frames.ts'
import type { LiveSession } from './live-session.ts'
import type { JournalTag } from './session-store.ts'

/** What the driver keeps with an item; control items have none. */
export type ItemTag = JournalTag | undefined

export type DeliverEffect = Extract<StreamEffect<ItemTag>, { kind: 'deliver' | 'unknown' }>
export type SnapshotEffect = Extract<StreamEffect<ItemTag>, { kind: 'snapshot' }>

/** How an epoch ended. `lost`: without a word, the session is not over by it. */
export interface EpochEnd {
  reason: string
  lost: boolean
  by: 'local' | 'peer'
  error?: Error
}

/** The session that an epoch belongs to. */
export interface EpochOwner {
  /** both READYs are there; nothing was handed over yet */
  ready(epoch: LiveSession, facts: ReadyFacts): void
  deliver(epoch: LiveSession, effect: DeliverEffect): void
  /** undefined, or resolves when a stream may be read on that carries the channel; undefined: one that has not said yet */
  room(channel: number | undefined): Promise<void> | undefined
  snapshot(epoch: LiveSession, effect: SnapshotEffect): void
  acked(items: readonly Outgoing<ItemTag>[]): void
  /** the peer's windows or acknowledgments may have moved */
  moved(): void
  closing(epoch: LiveSession): void
  /** the contract's time is over */
  expired(epoch: LiveSession): void
  /** the peer contradicts itself, provably: what is to be revoked is, before this returns. `firstSeenMs`: Unix ms */
  contradicted(epoch: LiveSession, conflict: CheckpointConflict): void
  /** REVOCATION_PUBLISH came: reason u16 ‖ ticket, not judged yet; the end follows */
  revoked(epoch: LiveSession, payload: Uint8Array): void
  /** its streams are gone or going */
  ended(epoch: LiveSession, end: EpochEnd): void
}

export interface LiveSessionInit {
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  local: LocalAgent
  /** of the EID that this exchange was made with */
  signer: Signer
  established: Established
  /** what earlier epochs left; in a new session what the handshake made */
  carried: (established: Established) => CarriedState<ItemTag>
  owner: EpochOwner
  /** the session's, which outlives the epoch */
  contract?: ContractMeter | undefined
  /** the stream that carried the handshake */
  stream: ByteStream
  /** bounds how many large frames are read at once; absent: nothing does */
  frames?: FrameRoom | undefined
  /** opens another stream to the same peer */
  openStream: () => Promise<ByteStream>
  /** when INIT was sent or received, monotonic */
  startedMs: number
  roundTrips: number
  times?: StreamTimes
}
