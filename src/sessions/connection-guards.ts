import { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import type { ConnectionInfo } from '../net/byte-stream.ts'

/** Connections that are remembered; above it the longest unused is forgotten. */
const CONNECTIONS_MAX = 4_096
/** Streams of one connection without a session yet; the next is reset. */
export const PENDING_PER_CONNECTION_MAX = 64
/** The same over all connections. */
export const PENDING_MAX = 1_024

interface Guarded {
  guard: ConnectionGuard
  peer: string
  pending: number
}

/** What each connection may still ask of the responder, and how many handshakes of it are under way. */
export class ConnectionGuards {
  /** by connection id, the longest unused first; at most CONNECTIONS_MAX entries */
  readonly #connections = new Map<string, Guarded>()
  #pending = 0

  get size(): number {
    return this.#connections.size
  }

  get pending(): number {
    return this.#pending
  }

  /** @returns undefined when the connection, or the node, has too many streams without a session */
  enter(connection: ConnectionInfo): { guard: ConnectionGuard; leave: () => void } | undefined {
    const held = this.#connections.get(connection.id) ?? { guard: new ConnectionGuard(), peer: connection.peer, pending: 0 }
    this.#connections.delete(connection.id)
    this.#connections.set(connection.id, held)
    if (this.#connections.size > CONNECTIONS_MAX) this.#connections.delete(this.#connections.keys().next().value as string)
    if (held.pending >= PENDING_PER_CONNECTION_MAX || this.#pending >= PENDING_MAX) return undefined
    held.pending += 1
    this.#pending += 1
    let left = false
    const leave = () => {
      if (left) return
      left = true
      held.pending -= 1
      this.#pending -= 1
    }
    return { guard: held.guard, leave }
  }

  /** The last connection of a peer is gone. */
  forget(peer: string): void {
    for (const [id, held] of this.#connections) if (held.peer === peer) this.#connections.delete(id)
  }
}
