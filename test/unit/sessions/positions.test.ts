import { describe, expect, it } from 'vitest'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import type { Inbound } from '../../../src/sessions/session.ts'
import { bytesCodec } from '../../../src/store/store.ts'
import { memoryStore, Pair } from './memory-net.ts'

const text = (value: string) => new TextEncoder().encode(value)

/** Sends three messages one after the other. @returns the receiver's synced batches and stored positions */
async function received(handler: (item: Inbound, store: ReturnType<typeof memoryStore>) => Promise<void>) {
  const store = memoryStore()
  const pair = await Pair.create({ b: { store, handler: (item) => handler(item, store) } })
  const session = await pair.open()
  await session.send(1, ITEM_KINDS.a2a, text('first'))
  const before = store.syncs
  for (const word of ['a', 'b', 'c']) await session.send(1, ITEM_KINDS.a2a, text(word))
  const positions: string[] = []
  for await (const key of store.table('session-rx', bytesCodec).keys()) positions.push(key)
  return { syncs: store.syncs - before, positions: positions.length }
}

describe('where a durable message stands', () => {
  it('[PSS-06] is on disk by the sync of its effect, and by no other', async () => {
    let count = 0
    const one = await received((item, store) =>
      store.commit([store.table('effects', bytesCodec).put(`${count++}`, item.payload.slice()), ...item.position()])
    )
    expect(one).toEqual({ syncs: 3, positions: 4 })
  })

  it('[PSS-06] is written by the session where the handler took it and stored nothing', async () => {
    const taken: unknown[] = []
    const one = await received(async (item) => void taken.push(item.position()))
    expect(taken).toHaveLength(4)
    expect(one).toEqual({ syncs: 3, positions: 4 })
  })
})
