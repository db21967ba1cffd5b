import { equals } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { eidToDid } from '../../protocol/identity/eid.ts'
import { openRotation, type Rotation } from '../../protocol/identity/rotation.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { CONTROL_CHANNEL } from '../../protocol/session/stream-init.ts'
import type { SessionEse } from '../state/session-ese.ts'
import type { DurableSession } from './durable-session.ts'
import type { LiveSession } from './live-session.ts'
import type { Outbox } from './outbox.ts'
import type { Inbound, SessionEvent } from './session.ts'
import type { SessionState } from './session-state.ts'
import type { JournalTag } from './session-store.ts'

export interface RotationsInit {
  session: DurableSession
  ese: SessionEse
  outbox: Outbox
  send: (channel: number, kind: number, payload: Uint8Array, tag: JournalTag) => void
  tidy: () => Promise<void>
  tell: (event: SessionEvent) => void
}

/** Either side of a session takes another EID (protocol/README.md §6, Rotation): certificates out, certificates in, and the name that it goes by. */
export class SessionRotations {
  readonly #s: SessionState
  readonly #init: RotationsInit
  /** rotations of the peer under way */
  #applying: Promise<void> = Promise.resolve()

  constructor(state: SessionState, init: RotationsInit) {
    this.#s = state
    this.#init = init
  }

  /** Certificates of ours that the peer has not acknowledged; each goes into the journal once. */
  send(certificates: readonly Uint8Array[]): void {
    const { end, closeWanted, journal, init } = this.#s
    if (end !== undefined || closeWanted !== undefined) return
    const waiting = [...journal.entries].map(({ item }) => item)
    const held = [...waiting, ...this.#init.outbox.pending(CONTROL_CHANNEL)].filter(({ kind }) => kind === ITEM_KINDS.rotation)
    for (const payload of certificates) {
      if (held.some((item) => equals(item.payload, payload))) continue
      const done = Promise.withResolvers<void>()
      done.promise.catch(() => {}) // a session that ends has no use for it
      const tag: JournalTag = { atMs: init.clock.nowMs(), resolve: done.resolve, reject: done.reject }
      this.#init.send(CONTROL_CHANNEL, ITEM_KINDS.rotation, payload, tag)
    }
  }

  /** The peer goes by the new EID from here on, and so does the record, with the write that drops the transaction. */
  acked(certificate: Uint8Array): void {
    this.goesBy('local', openRotation(this.#s.init.crypto, certificate))
  }

  goesBy(side: 'local' | 'remote', { old, new: next }: Pick<Rotation, 'old' | 'new'>): void {
    const { record, init } = this.#s
    if (equals(record[side], next)) return
    this.#s.record = { ...record, [side]: next }
    const { session, tell, tidy } = this.#init
    init.onRenamed(session, side, 'now')
    tell({ kind: 'rotated', session: session.info(), side, old: eidToDid(old), new: eidToDid(next) })
    if (side === 'local') void tidy().then(() => init.onRenamed(session, side, 'stored'))
  }

  /** One after the other: a second certificate is measured by what the first left. */
  take(epoch: LiveSession, item: Inbound): Promise<void> {
    const applied = this.#applying.then(() => this.#apply(epoch, item))
    this.#applying = applied.catch(() => {})
    return applied
  }

  /** The record with the new EID and the position are one batch; a replayed, forged or foreign certificate is a VIOLATION. */
  async #apply(epoch: LiveSession, { channel, payload, position }: Inbound): Promise<void> {
    const { init } = this.#s
    const { session, tell } = this.#init
    const before = this.#s.record.remote
    try {
      if (channel !== CONTROL_CHANNEL) throw new ProtocolError('RANGE', 'a rotation belongs on channel 0', { field: 'channel' })
      const certificate = payload.slice()
      const rotation = openRotation(init.crypto, certificate)
      if (!equals(rotation.old, before)) {
        throw new ProtocolError('EID_MISMATCH', 'the certificate is of another EID than this session goes by', { field: 'old' })
      }
      await init.onRotation(session, rotation, certificate)
      this.#s.record = { ...this.#s.record, remote: rotation.new }
      const erasure = this.#init.ese.rotatePeer(rotation.new)
      try {
        await this.#s.commit([init.store.record(this.#s.row), ...erasure.ops, ...position()])
        erasure.written()
      } catch (error) {
        this.#s.record = { ...this.#s.record, remote: before }
        epoch.lose(error)
        throw error
      }
      init.onRenamed(session, 'remote', 'stored')
      tell({ kind: 'rotated', session: session.info(), side: 'remote', old: eidToDid(before), new: eidToDid(rotation.new) })
    } catch (error) {
      if (error instanceof ProtocolError) epoch.abort('violation', error)
      throw error
    }
  }
}
