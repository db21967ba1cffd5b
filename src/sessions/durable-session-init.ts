import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Rotation } from '../../protocol/identity/rotation.ts'
import type { ContractTotals } from '../../protocol/session/contract.ts'
import type { Journal } from '../../protocol/session/journal.ts'
import type { ReceiveLedger } from '../../protocol/session/ledger.ts'
import type { SessionEvidence } from '../evidence/evidence.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { EseRow, EseSeeds, EseStore } from '../state/ese-store.ts'
import type { DurableSession } from './durable-session.ts'
import type { EpochEnd } from './epoch-owner.ts'
import type { LiveSession } from './live-session.ts'
import type { ReadyAdditions } from './ready-additions.ts'
import type { SessionEvent, SnapshotSource } from './session.ts'
import type { SessionRecord } from './session-record.ts'
import type { JournalTag, SessionStore } from './session-store.ts'

/** What a {@link DurableSession} is made of, and whom it tells. */
export interface DurableSessionInit {
  crypto: CryptoProvider
  random: Random
  clock: Clock
  logger: Logger
  store: SessionStore
  local: LocalAgent
  record: SessionRecord
  /** read back from disk; absent: a new session, which begins with its first epoch */
  held?: { journal: Journal<JournalTag>; ledger: ReceiveLedger; totals: ContractTotals | undefined }
  eses: EseStore
  /** of the session's two ESEs; absent: their key was destroyed */
  pair: { row: EseRow; seeds: EseSeeds } | undefined
  /** what waits in all sessions of the node, and the bound of it; absent: nothing does */
  sendBytesAll?: () => number
  sendBytesAllMax?: number | undefined
  /** the first READY came, or the session was read back: register channels now */
  onOpen: (session: DurableSession) => void
  onReady: (session: DurableSession, epoch: LiveSession) => void
  /** an epoch that had been open, or was to open, ended; the session goes on */
  onDisconnected: (session: DurableSession, epoch: LiveSession, end: EpochEnd) => void
  /** the session is over */
  onEnd: (session: DurableSession, epoch: LiveSession | undefined) => void
  onEvent: (event: SessionEvent) => void
  /** @throws ProtocolError where the new EID cannot be one of this session's */
  onRotation: (session: DurableSession, rotation: Rotation, certificate: Uint8Array) => Promise<void>
  /** one of the two goes by another EID: in memory, and on disk */
  onRenamed: (session: DurableSession, side: 'local' | 'remote', state: 'now' | 'stored') => void
  /** something waits to be sent and no epoch is open */
  onWanted: (session: DurableSession) => void
  /** what a peer is told that lost what the journal no longer holds */
  snapshot: SnapshotSource | undefined
  /** what other parts of the node put into READY; absent: nothing */
  ready: ReadyAdditions | undefined
  /** judges what the peer proves against itself, and what it hands in; absent: a contradiction is a VIOLATION like any other */
  evidence: SessionEvidence | undefined
}
