import { ProtocolError } from '../../protocol/errors.ts'
import { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import type { ConnectionInfo } from '../net/byte-stream.ts'
import { SourceLimits, type SourceLimitsInit } from './source-limits.ts'

/** Connections that are remembered; above it the longest unused is forgotten. */
const CONNECTIONS_MAX = 4_096
/** Streams of one connection without a session yet; the next is reset. */
export const PENDING_PER_CONNECTION_MAX = 64
/** The same over all connections; the next takes the place of the oldest of the peer that has most, unless that is its own. */
export const PENDING_MAX = 1_024

interface Guarded {
  guard: ConnectionGuard
  peer: string
  pending: number
}

interface Pending {
  drop(reason: Error): void
  leave(): void
}

/** What each connection may still ask of the responder, and how many handshakes of it are under way. */
export class ConnectionGuards {
  /** by connection id, the longest unused first; at most CONNECTIONS_MAX entries */
  readonly #connections = new Map<string, Guarded>()
  /** streams without a session by peer, the oldest first; at most PENDING_MAX in all */
  readonly #pendingByPeer = new Map<string, Set<Pending>>()
  readonly #sources: SourceLimits
  #pending = 0

  constructor(init: SourceLimitsInit = {}) {
    this.#sources = new SourceLimits(init)
  }

  get size(): number {
    return this.#connections.size
  }

  get pending(): number {
    return this.#pending
  }

  /** PeerIds and networks for which handshakes were computed of late */
  get sources(): number {
    return this.#sources.size
  }

  /**
   * A stream without a session begins. `drop` is called when it has to make room for one of a peer that has fewer.
   * @returns undefined when the connection, or the node, has too many of them
   */
  enter(connection: ConnectionInfo, drop: (reason: Error) => void): { guard: ConnectionGuard; leave: () => void } | undefined {
    const held = this.#connections.get(connection.id) ?? {
      guard: new ConnectionGuard({ source: this.#sources.of(connection) }),
      peer: connection.peer,
      pending: 0
    }
    this.#connections.delete(connection.id)
    this.#connections.set(connection.id, held)
    if (this.#connections.size > CONNECTIONS_MAX) this.#connections.delete(this.#connections.keys().next().value as string)
    if (held.pending >= PENDING_PER_CONNECTION_MAX) return undefined
    if (this.#pending >= PENDING_MAX && !this.#makeRoom(connection.peer)) return undefined
    const pending: Pending = {
      drop,
      leave: () => {
        const ofPeer = this.#pendingByPeer.get(connection.peer)
        if (ofPeer?.delete(pending) !== true) return
        if (ofPeer.size === 0) this.#pendingByPeer.delete(connection.peer)
        held.pending -= 1
        this.#pending -= 1
      }
    }
    const ofPeer = this.#pendingByPeer.get(connection.peer) ?? new Set()
    this.#pendingByPeer.set(connection.peer, ofPeer.add(pending))
    held.pending += 1
    this.#pending += 1
    return { guard: held.guard, leave: pending.leave }
  }

  /** Who fills the node with streams that say nothing loses one of them to a peer that has fewer, so that nobody is locked out. */
  #makeRoom(peer: string): boolean {
    let most: Set<Pending> | undefined
    for (const ofPeer of this.#pendingByPeer.values()) if (ofPeer.size > (most?.size ?? 0)) most = ofPeer
    if (most === undefined || most.size <= (this.#pendingByPeer.get(peer)?.size ?? 0) + 1) return false
    const [oldest] = most
    oldest?.leave()
    oldest?.drop(new ProtocolError('BUSY', 'too many streams without a session, most of them of this peer'))
    return true
  }

  /** Forgets the sources that owe nothing any more. */
  sweep(nowMs: number): void {
    this.#sources.sweep(nowMs)
  }

  /** The last connection of a peer is gone. */
  forget(peer: string): void {
    for (const [id, held] of this.#connections) if (held.peer === peer) this.#connections.delete(id)
  }
}
