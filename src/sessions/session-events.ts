import type { Logger } from '../platform/logger.ts'
import type { Session, SessionEvent } from './session.ts'

/** The newest events that are kept for who asks. */
const EVENTS_MAX = 256

/** Who is told of a manager's sessions, and of what happens to them. A listener that throws harms nobody. */
export class SessionEvents {
  readonly #log: Logger
  readonly #sessionListeners: ((session: Session) => void)[] = []
  readonly #eventListeners = new Set<(event: SessionEvent) => void>()
  /** at most EVENTS_MAX */
  readonly #recent: SessionEvent[] = []

  constructor(log: Logger) {
    this.#log = log
  }

  get recent(): readonly SessionEvent[] {
    return this.#recent
  }

  onEvent(listener: (event: SessionEvent) => void): () => void {
    this.#eventListeners.add(listener)
    return () => this.#eventListeners.delete(listener)
  }

  tell(event: SessionEvent): void {
    this.#recent.push(withoutContent(event))
    if (this.#recent.length > EVENTS_MAX) this.#recent.shift()
    const { kind } = event
    const facts = { session: event.session.id, remote: event.session.remote, ...('reason' in event ? { reason: event.reason } : {}) }
    if (kind === 'diverged' || kind === 'gap') this.#log.warn({ kind, ...facts }, 'a session lost something')
    else this.#log.debug({ kind, ...facts }, 'a session changed')
    for (const listener of this.#eventListeners) {
      try {
        listener(event)
      } catch (error) {
        this.#log.error({ err: error }, 'a listener of session events failed')
      }
    }
  }

  /** @param held - sessions that are in memory already, of which the listener learns too */
  onSession(listener: (session: Session) => void, held: Iterable<Session>): void {
    this.#sessionListeners.push(listener)
    for (const session of held) this.#call(listener, session)
  }

  opened(session: Session): void {
    for (const listener of this.#sessionListeners) this.#call(listener, session)
  }

  #call(listener: (session: Session) => void, session: Session): void {
    try {
      listener(session)
    } catch (error) {
      this.#log.error({ error: error instanceof Error ? error.message : String(error) }, 'a session listener failed')
    }
  }
}

/** What is kept is for people: a payload has up to 1 MiB, a snapshot 16, and 256 of them would stay for long. */
function withoutContent(event: SessionEvent): SessionEvent {
  if (event.kind === 'outcome-unknown') return { ...event, entry: { ...event.entry, payload: new Uint8Array(0) } }
  if (event.kind !== 'gap' || event.bytes === undefined) return event
  const { bytes: _, ...kept } = event
  return kept
}
