import type { Logger } from '../platform/logger.ts'
import type { EseStore } from '../state/ese-store.ts'
import { LargeFrames } from './large-frames.ts'
import type { LiveSession } from './live-session.ts'
import { OwnIdentities } from './own-identities.ts'
import { SessionIndex } from './session-index.ts'
import { SessionStore } from './session-store.ts'
import type { SessionManagerComponents, SessionManagerInit } from './settings.ts'

export const MINUTE_MS = 60_000
export const DAY_MS = 86_400_000
/** Sessions on disk of callers, unless more than that may be connected. */
const STORED_MAX = 10_000
/** What callers may have is `sessionsMax` and `storedMax`; our own agents may open this share more, so that no crowd of callers keeps them from calling. */
const OWN_SHARE = 0.1
/** Of what callers may have, this share goes to one PeerId at most, whose host may have hundreds of agents, */
const PEER_SHARE = 0.5
/** but so many in any case. */
const PEER_MIN = 8

/** What the parts of a session manager share. */
export class ManagerState {
  readonly components: SessionManagerComponents
  readonly init: SessionManagerInit
  readonly log: Logger
  readonly own: OwnIdentities
  /** the one session of two EIDs, in memory or not */
  readonly index = new SessionIndex()
  readonly store: SessionStore
  readonly eses: EseStore
  /** sessions with a connection, by cookie pair; at most sessionsMax, those that say goodbye excepted */
  readonly byCookies = new Map<string, LiveSession>()
  readonly largeFrames = new LargeFrames()
  readonly stopping = new AbortController()
  readonly sessionsMax: number
  readonly storedMax: number
  readonly parkAfterMs: number

  constructor(components: SessionManagerComponents, init: SessionManagerInit, eses: EseStore) {
    this.components = components
    this.eses = eses
    this.init = init
    this.log = components.logger.child('sessions')
    this.own = new OwnIdentities(components.agents)
    this.store = new SessionStore(components.store)
    this.sessionsMax = init.sessionsMax ?? 1_000
    this.storedMax = init.storedMax ?? Math.max(STORED_MAX, this.sessionsMax)
    this.parkAfterMs = init.parkAfterMs ?? 30 * MINUTE_MS
  }

  /** Sessions with a connection, those included that our own agents open. */
  get sessionsMaxOwn(): number {
    return this.sessionsMax + Math.floor(this.sessionsMax * OWN_SHARE)
  }

  /** Sessions on disk, those included that our own agents open. */
  get storedMaxOwn(): number {
    return this.storedMax + Math.floor(this.storedMax * OWN_SHARE)
  }

  /** One PeerId, whatever its EIDs, has as many connected sessions as it may. */
  isPeerFull(peer: string): boolean {
    const max = Math.max(PEER_MIN, Math.floor(this.sessionsMax * PEER_SHARE))
    if (this.byCookies.size < max) return false
    let count = 0
    for (const epoch of this.byCookies.values()) if (epoch.peer === peer && epoch.role === 'responder') count += 1
    return count >= max
  }

  /** The same for what is on disk of those that it opened. */
  isPeerStoredFull(peer: string): boolean {
    const max = Math.max(PEER_MIN, Math.floor(this.storedMax * PEER_SHARE))
    if (this.index.size < max) return false
    let count = 0
    for (const entry of this.index.entries()) if (entry.peer === peer && entry.openedBy === 'peer') count += 1
    return count >= max
  }

  get isStopping(): boolean {
    return this.stopping.signal.aborted
  }
}
