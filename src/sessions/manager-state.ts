import type { Logger } from '../platform/logger.ts'
import type { EseStore } from '../state/ese-store.ts'
import type { LiveSession } from './live-session.ts'
import { OwnIdentities } from './own-identities.ts'
import { SessionIndex } from './session-index.ts'
import { SessionStore } from './session-store.ts'
import type { SessionManagerComponents, SessionManagerInit } from './settings.ts'

export const MINUTE_MS = 60_000
export const DAY_MS = 86_400_000

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
    this.storedMax = init.storedMax ?? 10_000
    this.parkAfterMs = init.parkAfterMs ?? 30 * MINUTE_MS
  }

  get isStopping(): boolean {
    return this.stopping.signal.aborted
  }
}
