import type { PeerId } from '@libp2p/interface'

interface Held {
  /** resolves when the one before has let go */
  tail: Promise<void>
  waiting: number
}

/** What of libp2p's peer store takes and waits for locks. */
interface LockedStore {
  getReadLock(peer: PeerId): Promise<() => void>
  getWriteLock(peer: PeerId): Promise<() => void>
}

/**
 * Gives libp2p's peer store plain locks. Its own are queues with timers and abort signals of their own, which cost more than what they guard: a
 * look-up asks the store for each peer that it names. Our datastore reads and writes a row in one step, so a reader needs no lock; writers of one
 * peer, each of which reads, changes and writes, follow each other.
 */
export function withPlainLocks(peerStore: unknown): void {
  const { store } = peerStore as { store?: LockedStore }
  if (store === undefined) return
  const byPeer = new Map<string, Held>()
  const nothing = () => {}
  store.getReadLock = async () => nothing
  store.getWriteLock = async (peer) => {
    const name = peer.toString()
    const held = byPeer.get(name) ?? { tail: Promise.resolve(), waiting: 0 }
    byPeer.set(name, held)
    const before = held.tail
    const { promise, resolve } = Promise.withResolvers<void>()
    held.tail = promise
    held.waiting++
    await before
    return () => {
      if (--held.waiting === 0) byPeer.delete(name)
      resolve()
    }
  }
}
