import type { Clock } from '../platform/clock.ts'
import type { DurableSession } from './durable-session.ts'
import { sessionError } from './session-errors.ts'
import type { PairKey } from './session-index.ts'

/** A caller whose exchange gave way waits so long for the peer's. */
const CROSSING_WAIT_MS = 10_000

/** Callers that may have to take the session that the peer opens between the same two, in place of their own. */
export class Crossings {
  readonly #clock: Clock
  /** by pair; each is settled by the peer's session or after CROSSING_WAIT_MS */
  readonly #awaiting = new Map<PairKey, Set<(session: DurableSession) => void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The session that the peer opens, if it comes in time; disposed by the caller. */
  next(pair: PairKey): { session: Promise<DurableSession>; dispose: () => void } {
    const coming = Promise.withResolvers<DurableSession>()
    coming.promise.catch(() => {})
    const waiting = this.#awaiting.get(pair) ?? new Set()
    this.#awaiting.set(pair, waiting)
    waiting.add(coming.resolve)
    const cancel = this.#clock.after(CROSSING_WAIT_MS, () =>
      coming.reject(
        sessionError('HANDSHAKE_FAILED', 'both sides opened at once and neither session came about', { data: { reason: 'superseded' } })
      )
    )
    const dispose = () => {
      cancel()
      waiting.delete(coming.resolve)
      if (waiting.size === 0) this.#awaiting.delete(pair)
    }
    return { session: coming.promise, dispose }
  }

  came(pair: PairKey, session: DurableSession): void {
    for (const resolve of this.#awaiting.get(pair) ?? []) resolve(session)
  }
}
