import { decodeReadyRuns, encodeReadyRuns, type ReadyRun } from '../../protocol/group/group-vector.ts'
import type { ReadyAdditions } from '../sessions/ready-additions.ts'
import type { Session } from '../sessions/session.ts'

/** READY's part about groups: what both sides hold of every run is known as the session opens, without another round trip. */
export class ReadyRuns implements ReadyAdditions {
  readonly #told = new WeakMap<Session, readonly ReadyRun[]>()
  #source: (session: Session) => readonly ReadyRun[] = () => []

  /** @param source - our runs that the peer may know of, at most 255 */
  from(source: (session: Session) => readonly ReadyRun[]): void {
    this.#source = source
  }

  groups(session: Session): Uint8Array {
    return encodeReadyRuns(this.#source(session))
  }

  takeGroups(session: Session, bytes: Uint8Array): void {
    this.#told.set(session, decodeReadyRuns(bytes.slice()))
  }

  /** The peer's, of its newest READY. */
  told(session: Session): readonly ReadyRun[] {
    return this.#told.get(session) ?? []
  }
}
