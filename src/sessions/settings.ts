import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { Rotation } from '../../protocol/identity/rotation.ts'
import type { StreamTimes } from '../../protocol/session/closing.ts'
import type { SfcBlock } from '../../protocol/session/sfc.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import type { SessionEvidence } from '../evidence/evidence.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { KeySlots } from '../state/key-slots.ts'
import type { Store } from '../store/store.ts'
import type { ReadyAdditions } from './ready-additions.ts'
import type { SessionManager, SnapshotSource } from './session.ts'
import type { SourceLimitsInit } from './source-limits.ts'

export const PSS_PROTOCOL = '/rookery/pss/1.0.0'

export interface SessionAgents {
  byEid(eid: Eid): LocalAgent | undefined
  list(): readonly LocalAgent[]
  /** The agent that has or had this EID. Absent: agents keep theirs */
  ofAnyEid?(eid: Eid): RotatingAgent | undefined
  /** what a caller may mean: the agents as they are, and as they were while those secrets are kept */
  identities?(): Iterable<Signer>
}

/** A local agent whose EID may change. */
export interface RotatingAgent extends LocalAgent {
  /** oldest first */
  readonly former: readonly { readonly eid: Eid; readonly retiring?: { readonly certificate: Uint8Array } }[]
  /** signs as it is or was under this EID, while that secret is kept */
  signerOf(eid: Eid): Signer | undefined
}

/** Who may hold a session with one of our agents; asked when the caller has proved its EID. */
export type SessionPolicy = (caller: { local: LocalAgent; remote: Eid }) => { admit: true } | { admit: false; reason: TeardownReason }

export interface SessionManagerComponents {
  host: Host
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  agents: SessionAgents
  /** sessions, journals and receive positions live here */
  store: Store
  /** default: that of the evidence, where there is one */
  policy?: SessionPolicy
  /** keeps away from whom it refuses, takes what peers prove against themselves. Absent: nobody is refused, nothing is published */
  evidence?: SessionEvidence
  /** told of each certificate that a peer proved itself by, before it takes effect; must bear the same one twice */
  rotated?: (certificate: Uint8Array, rotation: Rotation) => Promise<void>
  /** where a remote agent is now; asked before a session is taken up again; `fresh`: what was known before did not do. Absent: where it was reached last */
  locate?: (remote: Eid, options: { signal: AbortSignal; fresh: boolean }) => Promise<PeerAddress>
  /** the state that takes the place of what a peer lost and the journal no longer holds; default: none */
  snapshot?: SnapshotSource
  /** keys of ESEs, which erasure destroys; default: in memory, so that values of sessions held before are gone */
  eseKeys?: KeySlots
  /** what other parts of the node put into every READY; default: nothing */
  ready?: ReadyAdditions
}

export interface SessionManagerInit {
  /** sessions at once, both roles; above it a caller is asked to wait, then refused. Default 1,000 */
  sessionsMax?: number
  /** handshakes that a caller gets without RETRY, a second; default 100 */
  handshakesPerSecond?: number
  /** and in a burst; default 200 */
  handshakesBurst?: number
  /** handshakes that one PeerId and one network get */
  sources?: SourceLimitsInit
  /** the contract offered to who asks for one; absent: a plain session is offered in its place */
  contract?: SfcBlock
  /** in its place, for one agent; `off`: none */
  contractOf?: (agent: LocalAgent) => SfcBlock | 'off' | undefined
  /** what RETRY asks a caller to wait while the node is full; default 2 */
  fullWaitSeconds?: number
  /** liveness and teardown times, for tests */
  times?: StreamTimes
  /** sessions on disk; above it a new one is refused as over capacity. Default 10,000, or sessionsMax where that is more */
  storedMax?: number
  /** bytes that wait to be sent or acknowledged, in all sessions; above it a session that has more than 1 MiB of it gets `SESSION_QUEUE_FULL`. Default 512 MiB */
  sendBytesAllMax?: number
  /** without an item for so long, and nothing unacknowledged, a session lets go of its connection and memory. Default 30 min */
  parkAfterMs?: number
  /** a session without an item for so long is dissolved. Default 90 days */
  parkedMaxMs?: number
  /** unacknowledged for so long, what a session holds is returned as "outcome unknown". Default 7 days */
  unackedMaxMs?: number
  /** values that all mirrors of peers' ESEs hold together; default 256 MiB */
  mirrorsBytesMax?: number
  /** the longest pause between two attempts to take a session up again; default 60 s */
  reconnectMsMax?: number
}

/** What the manager holds that peers can grow, for metrics and tests. */
export interface SessionManagerHeld {
  /** with a connection */
  sessions: number
  /** in memory, connected or not */
  loaded: number
  /** on disk */
  stored: number
  pendingHandshakes: number
  ownExchanges: number
  spentPairs: number
  guardedConnections: number
  guardedSources: number
}

export interface RunningSessionManager extends SessionManager {
  held(): SessionManagerHeld
  /** Breaks off every session with such a peer, those that only the disk holds included. */
  dismiss(isRefused: (remote: Eid) => boolean): Promise<void>
}
