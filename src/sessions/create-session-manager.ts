import { equals } from '../../protocol/bytes.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'
import { EseStore } from '../state/ese-store.ts'
import { memoryKeySlots } from '../state/key-slots.ts'
import { Crossings } from './crossings.ts'
import type { DurableSession } from './durable-session.ts'
import { Epochs } from './epochs.ts'
import { InboundExchanges } from './inbound-exchanges.ts'
import type { LiveSession } from './live-session.ts'
import { ManagerState } from './manager-state.ts'
import { Openings } from './openings.ts'
import type { Session, SessionEvent, SessionInfo, SessionOpenOptions } from './session.ts'
import { nodeStopping } from './session-errors.ts'
import { SessionEvents } from './session-events.ts'
import type { IndexEntry } from './session-index.ts'
import { SessionRecovery } from './session-recovery.ts'
import { SessionRenaming } from './session-renaming.ts'
import { SessionShelf } from './session-shelf.ts'
import type { Tombstone } from './session-store.ts'
import {
  PSS_PROTOCOL,
  type RunningSessionManager,
  type SessionManagerComponents,
  type SessionManagerHeld,
  type SessionManagerInit
} from './settings.ts'

export { FIRST_FRAME_MS } from './inbound-exchanges.ts'
export type {
  RunningSessionManager,
  SessionAgents,
  SessionManagerComponents,
  SessionManagerHeld,
  SessionManagerInit,
  SessionPolicy
} from './settings.ts'

export { PSS_PROTOCOL } from './settings.ts'

/** Streams of the protocol on one connection: sessions of all pairs of EIDs, and their channels. */
const INBOUND_STREAMS_MAX = 512
/** How long a stop waits for writes under way. */
export const STOP_MS = 3_000

/** Serves `/rookery/pss/1.0.0` and opens sessions over it. */
export async function createSessionManager(
  components: SessionManagerComponents,
  init: SessionManagerInit = {}
): Promise<RunningSessionManager> {
  const { store, crypto, random, eseKeys } = components
  const eses = await EseStore.open({ store, crypto, keys: eseKeys ?? memoryKeySlots(random) }, { mirrorsBytesMax: init.mirrorsBytesMax })
  const manager = new Sessions(components, init, eses)
  await manager.start()
  return manager
}

class Sessions implements RunningSessionManager {
  readonly #m: ManagerState
  readonly #events: SessionEvents
  readonly #shelf: SessionShelf
  readonly #epochs: Epochs
  readonly #crossings: Crossings
  readonly #openings: Openings
  readonly #recovery: SessionRecovery
  readonly #inbound: InboundExchanges
  readonly #renaming: SessionRenaming
  #unsubscribe: (() => void)[] = []

  constructor(components: SessionManagerComponents, init: SessionManagerInit, eses: EseStore) {
    const state = new ManagerState(components, init, eses)
    this.#m = state
    this.#events = new SessionEvents(state.log)
    this.#crossings = new Crossings(components.clock)
    this.#shelf = new SessionShelf(
      state,
      {
        onOpen: (session) => this.#events.opened(session),
        onReady: (session, epoch) => this.#onReady(session, epoch),
        onDisconnected: (session, epoch) => this.#recovery.onDisconnected(session, epoch),
        onEnd: (session) => this.#onEnd(session),
        onEvent: (event) => this.#events.tell(event),
        onRotation: (of, rotation, certificate) => this.#renaming.onRotation(of, rotation, certificate),
        onRenamed: (of, side, when) => this.#renaming.onRenamed(of, side, when),
        onWanted: (session) => this.#recovery.onWanted(session)
      },
      (id) => this.#recovery.reconnects.forget(id)
    )
    this.#epochs = new Epochs(state, this.#shelf, (epoch) => this.#onEpochEnd(epoch))
    this.#openings = new Openings(state, this.#shelf, this.#epochs, this.#crossings)
    this.#recovery = new SessionRecovery(state, this.#shelf, this.#openings)
    const { reconnects } = this.#recovery
    this.#inbound = new InboundExchanges(state, { shelf: this.#shelf, epochs: this.#epochs, openings: this.#openings, reconnects })
    this.#renaming = new SessionRenaming(state, { shelf: this.#shelf, openings: this.#openings, crossings: this.#crossings })
  }

  async start(): Promise<void> {
    const { index, own, store, parkAfterMs } = this.#m
    const { clock, host } = this.#m.components
    for await (const record of store.records()) {
      if (own.agentOf(record.local) !== undefined) index.add(record, own.pairOf(record.local, record.remote))
    }
    const unacked = await store.unacked()
    for (const { id, activeAtMs } of index.entries()) {
      if (unacked.has(id) || clock.nowMs() - activeAtMs < parkAfterMs) this.#recovery.reconnects.schedule(id)
    }
    this.#unsubscribe = [
      host.onAddressesChanged(() => this.#recovery.addressesChanged()),
      host.onPeer(({ kind, peer }) => {
        if (kind === 'disconnect') this.#inbound.forget(peer)
      }),
      host.onConnection((connection) => this.#recovery.onConnection(connection))
    ]
    this.#shelf.start()
    this.#inbound.start()
    await host.handle(PSS_PROTOCOL, (stream) => this.#inbound.serve(stream), { inboundStreamsMax: INBOUND_STREAMS_MAX })
  }

  open(from: LocalAgent, to: Eid, address: PeerAddress, options: SessionOpenOptions = {}): Promise<Session> {
    return this.#openings.open(from, to, address, options)
  }

  locatorSeen(remote: Eid, address: PeerAddress): void {
    this.#recovery.locatorSeen(remote, address)
  }

  held(): SessionManagerHeld {
    return {
      sessions: this.#m.byCookies.size,
      loaded: [...this.#m.index.loaded()].length,
      stored: this.#m.index.size,
      ownExchanges: this.#openings.size,
      ...this.#inbound.held()
    }
  }

  list(): SessionInfo[] {
    return [...this.#m.index.loaded()].map((session) => session.info())
  }

  async listAll(): Promise<SessionInfo[]> {
    const all: SessionInfo[] = []
    for (const entry of [...this.#m.index.entries()]) {
      const session = await this.#shelf.read(entry)
      if (session !== undefined) all.push(session.info())
    }
    return all
  }

  async get(id: string): Promise<Session | undefined> {
    const entry = this.#m.index.byId(id)
    return entry === undefined ? undefined : await this.#shelf.hold(entry)
  }

  ended(): Promise<Tombstone[]> {
    return this.#m.store.tombstones()
  }

  recent(): readonly SessionEvent[] {
    return this.#events.recent
  }

  onEvent(listener: (event: SessionEvent) => void): () => void {
    return this.#events.onEvent(listener)
  }

  /** The listener learns of sessions that are in memory already, too. */
  onSession(listener: (session: Session) => void): void {
    this.#events.onSession(listener, this.#m.index.loaded())
  }

  rotated(agent: LocalAgent): Promise<void> {
    return this.#renaming.rotated(agent)
  }

  unsettled(agent: LocalAgent): Eid[] {
    return this.#renaming.unsettled(agent)
  }

  onSettled(listener: (agent: LocalAgent) => void): void {
    this.#renaming.onSettled(listener)
  }

  async dismiss(isRefused: (remote: Eid) => boolean): Promise<void> {
    for (const entry of [...this.#m.index.entries()]) {
      if (!isRefused(entry.remote)) continue
      const session = await this.#shelf.take(entry)
      session?.abort('policy')
    }
  }

  #onReady(session: DurableSession, epoch: LiveSession): void {
    const pair = this.#m.own.pairOf(session.local.eid, session.remote)
    const before = this.#m.index.byPair(pair)
    if (this.#m.index.byId(session.id) === undefined) {
      this.#m.index.add(session.record, pair, session)
      if (before !== undefined) void this.#supersede(before)
    }
    const entry = this.#m.index.byId(session.id)
    if (entry !== undefined) entry.peer = epoch.peer
    this.#recovery.reconnects.connected(session.id)
    const { local, record } = session
    if (!equals(record.local, local.eid)) {
      session.sendRotations(this.#m.own.certificatesSince(local, record.local), this.#m.own.eidsSince(local, record.local))
    }
    if (epoch.role === 'responder') this.#crossings.came(pair, session)
  }

  /** The peer no longer has it, and a new session of the same two takes its place. */
  async #supersede(entry: IndexEntry): Promise<void> {
    const session = await this.#shelf.take(entry)
    session?.abort('superseded')
  }

  #onEpochEnd(epoch: LiveSession): void {
    if (!equals(epoch.established.localEid, epoch.local.eid) && !this.#m.isStopping) this.#renaming.tellSettled(epoch.local)
    if (epoch.role === 'responder') this.#inbound.release(epoch.cookies)
  }

  #onEnd(session: DurableSession): void {
    this.#recovery.reconnects.forget(session.id)
    if (this.#m.index.byId(session.id)?.loaded === session) this.#m.index.remove(session.id)
    if (!this.#m.isStopping) this.#renaming.tellSettled(session.local)
  }

  async stop(): Promise<void> {
    if (this.#m.isStopping) return
    const { host, clock } = this.#m.components
    this.#inbound.stop()
    this.#shelf.stop()
    for (const off of this.#unsubscribe) off()
    this.#recovery.reconnects.stop()
    await host.unhandle(PSS_PROTOCOL)
    this.#m.stopping.abort(nodeStopping())
    const over = Promise.withResolvers<void>()
    const cancel = clock.after(STOP_MS, over.resolve)
    const released = [...this.#m.index.loaded()].map((session) => session.shutDown(nodeStopping()))
    for (const epoch of [...this.#m.byCookies.values()]) epoch.lose(nodeStopping())
    await Promise.race([Promise.all(released), over.promise])
    cancel()
    this.#inbound.wipe()
  }
}
