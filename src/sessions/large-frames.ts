import { Fifo } from '../../protocol/session/fifo.ts'
import { withSignal } from '../platform/with-signal.ts'

/** Frames above 64 KiB that are read of one peer at once, over all its sessions; each may have 1 MiB. The next waits, unread. */
export const LARGE_FRAMES_PER_PEER_MAX = 16

/** What one peer may have of it. */
export interface FrameRoom {
  /** @returns gives the place back. Rejects with the signal's reason */
  enter(options?: { signal?: AbortSignal }): Promise<() => void>
}

/**
 * Places for large frames under way, by peer: a header promises up to 1 MiB, and a peer that opens many streams and stalls each in the middle of a frame
 * would hold as many MiB here. Peers do not wait for each other.
 */
export class LargeFrames {
  /** peers that have a frame under way; as many as are connected */
  readonly #byPeer = new Map<string, { reading: number; waiting: Fifo<() => void> }>()

  /** Frames under way, of all peers. */
  get reading(): number {
    let reading = 0
    for (const peer of this.#byPeer.values()) reading += peer.reading
    return reading
  }

  of(peer: string): FrameRoom {
    return { enter: ({ signal } = {}) => this.#enter(peer, signal) }
  }

  async #enter(peer: string, signal: AbortSignal | undefined): Promise<() => void> {
    signal?.throwIfAborted()
    const held = this.#byPeer.get(peer) ?? { reading: 0, waiting: new Fifo<() => void>() }
    this.#byPeer.set(peer, held)
    if (held.reading >= LARGE_FRAMES_PER_PEER_MAX) {
      const turn = Promise.withResolvers<void>()
      held.waiting.push(turn.resolve)
      try {
        await withSignal(turn.promise, signal)
      } catch (error) {
        // its turn may come all the same: then it passes it on
        void turn.promise.then(() => this.#leave(peer))
        throw error
      }
    } else held.reading += 1
    let left = false
    return () => {
      if (left) return
      left = true
      this.#leave(peer)
    }
  }

  /** The place goes to who waits longest. */
  #leave(peer: string): void {
    const held = this.#byPeer.get(peer)
    if (held === undefined) return
    const next = held.waiting.shift()
    if (next !== undefined) {
      next()
      return
    }
    held.reading -= 1
    if (held.reading === 0) this.#byPeer.delete(peer)
  }
}
