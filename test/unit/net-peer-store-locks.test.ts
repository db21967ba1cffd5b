import type { PeerId } from '@libp2p/interface'
import { describe, expect, it } from 'vitest'
import { withPlainLocks } from '../../src/net/peer-store-locks.ts'

const peer = (name: string) => ({ toString: () => name }) as unknown as PeerId

function locked() {
  const peerStore = {
    store: {
      getReadLock: (_peer: PeerId): Promise<() => void> => Promise.reject(new Error('the library’s own')),
      getWriteLock: (_peer: PeerId): Promise<() => void> => Promise.reject(new Error('the library’s own'))
    }
  }
  withPlainLocks(peerStore)
  return peerStore.store
}

describe('the plain locks of the peer store', () => {
  it('let writers of one peer follow each other in the order they came, and those of others pass', async () => {
    const store = locked()
    const done: string[] = []
    const write = async (name: string, what: string) => {
      const release = await store.getWriteLock(peer(name))
      done.push(`${what} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      done.push(`${what} ends`)
      release()
    }
    await Promise.all([write('a', 'first'), write('a', 'second'), write('b', 'other')])
    expect(done.filter((one) => !one.startsWith('other'))).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
    expect(done.indexOf('other begins')).toBeLessThan(done.indexOf('first ends'))
    await write('a', 'third')
    expect(done.at(-1)).toBe('third ends')
  })

  it('let readers through while one writes', async () => {
    const store = locked()
    const release = await store.getWriteLock(peer('a'))
    const readReleased = await store.getReadLock(peer('a'))
    readReleased()
    release()
    await expect(store.getWriteLock(peer('a'))).resolves.toBeTypeOf('function')
  })
})
