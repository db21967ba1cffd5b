import { equals } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { PeerAddress } from '../net/host.ts'
import { withSignal } from '../platform/with-signal.ts'
import { Deadline } from './deadline.ts'
import type { DurableSession } from './durable-session.ts'
import type { LiveSession } from './live-session.ts'
import { DAY_MS, type ManagerState } from './manager-state.ts'
import type { Openings } from './openings.ts'
import { Reconnects } from './reconnects.ts'
import type { SessionShelf } from './session-shelf.ts'

/** An attempt in the background to take a session up again. */
const RESUME_MS = 20_000

/** Takes sessions up again: after a pause that grows, or at once where something says that it may work now. */
export class SessionRecovery {
  readonly reconnects: Reconnects
  readonly #m: ManagerState
  readonly #shelf: SessionShelf
  readonly #openings: Openings

  constructor(state: ManagerState, shelf: SessionShelf, openings: Openings) {
    const { clock, random } = state.components
    this.#m = state
    this.#shelf = shelf
    this.#openings = openings
    this.reconnects = new Reconnects(
      { clock, random },
      {
        msMax: state.init.reconnectMsMax ?? 60_000,
        peerOf: (id) => state.index.byId(id)?.peer ?? id,
        attempt: (id, failures) => this.#resume(id, failures)
      }
    )
  }

  /**
   * A process that was killed says no goodbye, but once restarted it dials again: what its old connections carried is asked for at once, and what
   * is lost is taken up.
   */
  onConnection({ peer, id }: { peer: string; id: string }): void {
    for (const session of this.#m.index.loaded()) {
      if (session.epoch === undefined) {
        if (session.record.address.peer === peer) this.reconnects.seen(session.id)
      } else if (session.epoch.peer === peer && session.epoch.connection.id !== id) session.epoch.probe()
    }
  }

  /** Our own addresses changed: what is open must show that it still works, what is lost is tried at once. */
  addressesChanged(): void {
    for (const session of this.#m.index.loaded()) {
      if (session.epoch === undefined) this.reconnects.now(session.id)
      else session.epoch.probe()
    }
  }

  locatorSeen(remote: Eid, address: PeerAddress): void {
    for (const session of this.#m.index.loaded()) {
      if (!equals(session.remote, remote)) continue
      session.reachedAt(address)
      if (session.epoch === undefined) this.reconnects.now(session.id)
      else session.epoch.probe()
    }
  }

  onDisconnected(session: DurableSession, epoch: LiveSession): void {
    if (this.#m.isStopping) return
    const entry = this.#m.index.byId(session.id)
    if (entry?.loaded !== session) return
    if (this.#shelf.isIdle(session)) void this.#shelf.park(entry, session)
    else this.reconnects.schedule(session.id, { served: epoch.hasMoved && epoch.connection.bytesLimit !== undefined })
  }

  onWanted(session: DurableSession): void {
    const entry = this.#m.index.byId(session.id)
    if (entry === undefined || this.#m.isStopping) return
    entry.loaded ??= session
    this.reconnects.schedule(session.id)
  }

  async #resume(id: string, failures: number): Promise<'done' | 'failed'> {
    const entry = this.#m.index.byId(id)
    const session = entry === undefined ? undefined : await this.#shelf.hold(entry)
    if (entry === undefined || session === undefined || session.isOver || session.epoch !== undefined) return 'done'
    const { clock } = this.#m.components
    if (this.#isRefused(session.remote)) {
      await session.finish('policy', undefined, undefined)
      return 'done'
    }
    if (session.contractIsOver) {
      await session.finish('contract', undefined, undefined)
      return 'done'
    }
    const oldestMs = session.oldestUnackedAtMs
    if (oldestMs !== undefined && clock.nowMs() - oldestMs >= (this.#m.init.unackedMaxMs ?? 7 * DAY_MS)) {
      await session.finish('expired', undefined, undefined)
      return 'done'
    }
    if (this.#shelf.isIdle(session)) {
      await this.#shelf.park(entry, session)
      return 'done'
    }
    const deadline = new Deadline(clock, this.#m.stopping.signal)
    deadline.set(clock.monotonicMs() + RESUME_MS, new ProtocolError('TIMEOUT', 'the session could not be taken up in time'))
    try {
      const address = await this.#addressOf(session, { signal: deadline.signal, fresh: failures > 0 })
      const opening = this.#openings.of(entry.pair) ?? this.#openings.start(entry.pair, session.local, session.remote, address, session)
      await withSignal(opening.promise, deadline.signal)
      return 'done'
    } catch (error) {
      this.#m.log.debug({ session: id, err: error }, 'a session could not be taken up yet')
      return session.isOver || session.epoch !== undefined ? 'done' : 'failed'
    } finally {
      deadline.dispose()
    }
  }

  #isRefused(remote: Eid): boolean {
    try {
      this.#m.components.evidence?.admit(remote)
      return false
    } catch {
      return true
    }
  }

  /** Where its locator says, looked up anew once an attempt failed; where that cannot be had, where it was reached last. */
  async #addressOf(session: DurableSession, options: { signal: AbortSignal; fresh: boolean }): Promise<PeerAddress> {
    const { locate } = this.#m.components
    if (locate !== undefined) {
      try {
        return await locate(session.remote, options)
      } catch {
        options.signal.throwIfAborted()
      }
    }
    return session.record.address
  }
}
