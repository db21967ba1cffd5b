import { equals } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import type { Rotation } from '../../protocol/identity/rotation.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Crossings } from './crossings.ts'
import type { DurableSession } from './durable-session.ts'
import type { ManagerState } from './manager-state.ts'
import type { Openings } from './openings.ts'
import type { SessionShelf } from './session-shelf.ts'

export interface RenamingParts {
  shelf: SessionShelf
  openings: Openings
  crossings: Crossings
}

/** Rotations over all sessions (protocol/README.md §6, Rotation): told to every peer, proved at once, and settled when none goes by an old EID. */
export class SessionRenaming {
  readonly #m: ManagerState
  readonly #parts: RenamingParts
  readonly #settledListeners: ((agent: LocalAgent) => void)[] = []

  constructor(state: ManagerState, parts: RenamingParts) {
    this.#m = state
    this.#parts = parts
  }

  async rotated(agent: LocalAgent): Promise<void> {
    for (const epoch of [...this.#m.byCookies.values()]) {
      const { localEid } = epoch.established
      if (this.#m.own.agentOf(localEid) === agent && this.#m.own.signer(localEid) === undefined)
        epoch.lose(new Error('the secret of its EID is gone'))
    }
    for (const entry of [...this.#m.index.entries()]) {
      if (this.#m.own.agentOf(entry.local) !== agent || equals(entry.local, agent.eid)) continue
      const wasParked = entry.loaded === undefined
      const session = await this.#parts.shelf.hold(entry)
      if (session === undefined) continue
      const known = session.record.local
      session.sendRotations(this.#m.own.certificatesSince(agent, known), this.#m.own.eidsSince(agent, known))
      await session.journaled()
      if (wasParked) await this.#parts.shelf.letGo(entry, session)
    }
  }

  unsettled(agent: LocalAgent): Eid[] {
    const names = new Map<string, Eid>()
    for (const { local } of this.#m.index.entries()) {
      if (!equals(local, agent.eid) && this.#m.own.agentOf(local) === agent) names.set(eidHex(local), local)
    }
    for (const { established } of this.#m.byCookies.values()) {
      const { localEid } = established
      if (!equals(localEid, agent.eid) && this.#m.own.agentOf(localEid) === agent) names.set(eidHex(localEid), localEid)
    }
    return [...names.values()]
  }

  onSettled(listener: (agent: LocalAgent) => void): void {
    this.#settledListeners.push(listener)
  }

  tellSettled(agent: LocalAgent): void {
    for (const listener of this.#settledListeners) listener(agent)
  }

  /** The new EID must be nobody's that we hold a session with, nor ours: an honest rotation makes a fresh key. */
  async onRotation(session: DurableSession, rotation: Rotation, certificate: Uint8Array): Promise<void> {
    if (
      this.#m.own.agentOf(rotation.new) !== undefined ||
      this.#m.index.byPair(this.#m.own.pairOf(session.local.eid, rotation.new)) !== undefined
    ) {
      throw new ProtocolError('EID_MISMATCH', 'the certificate leads to an EID that is in use here', { field: 'new' })
    }
    await this.#m.components.rotated?.(certificate, rotation)
    await this.#m.components.evidence?.onRotation(certificate)
  }

  onRenamed(session: DurableSession, side: 'local' | 'remote', state: 'now' | 'stored'): void {
    const entry = this.#m.index.byId(session.id)
    if (entry !== undefined) {
      const { local, remote } = session.record
      const pair = this.#m.own.pairOf(local, remote)
      this.#m.index.rename(entry, { local, remote, pair })
      if (side === 'remote') this.#parts.crossings.came(pair, session)
    }
    if (side === 'remote' || state === 'now' || this.#m.isStopping) return
    this.tellSettled(session.local)
    this.#proveAnew(session)
  }

  /** What the peer has applied is proved at once: the session goes on under keys that the new EID signed for. */
  #proveAnew(session: DurableSession): void {
    const entry = this.#m.index.byId(session.id)
    const { epoch } = session
    if (entry === undefined || epoch === undefined || !epoch.isOpen || equals(epoch.established.localEid, session.local.eid)) return
    if (this.#parts.openings.of(entry.pair) !== undefined) return
    try {
      const opening = this.#parts.openings.start(entry.pair, session.local, session.remote, { peer: epoch.peer, addrs: [] }, session)
      opening.promise.catch((error: unknown) => epoch.lose(error)) // the secret of the old EID goes: nothing may be left that signs with it
    } catch (error) {
      this.#m.log.debug({ err: error }, 'the new identity is proved at the next resume')
    }
  }
}
