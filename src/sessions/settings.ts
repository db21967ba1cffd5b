import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { StreamTimes } from '../../protocol/session/closing.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { SessionManager } from './session.ts'
import type { SourceLimitsInit } from './source-limits.ts'

export interface SessionAgents {
  byEid(eid: Eid): LocalAgent | undefined
  list(): readonly LocalAgent[]
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
  policy?: SessionPolicy
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
  /** what RETRY asks a caller to wait while the node is full; default 2 */
  fullWaitSeconds?: number
  /** liveness and teardown times, for tests */
  times?: StreamTimes
}

/** What the manager holds that peers can grow, for metrics and tests. */
export interface SessionManagerHeld {
  sessions: number
  pendingHandshakes: number
  ownExchanges: number
  spentPairs: number
  guardedConnections: number
  guardedSources: number
}

export interface RunningSessionManager extends SessionManager {
  held(): SessionManagerHeld
}
