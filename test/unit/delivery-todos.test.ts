import { describe, expect, it } from 'vitest'
import { Drain } from '../../src/delivery/drain.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { createTodos } from '../../src/tasks/level-todos.ts'
import { bench, crypto, diskFull, localAgent, principalOf, seal } from './delivery-fixtures.ts'

const alice = localAgent('alice')
const bob = localAgent('bob')
const LEASE = { leaseMs: 30_000 }

async function withTodos(b: Awaited<ReturnType<typeof bench>>, approval: 'needed' | 'none') {
  const todos = await createTodos({ store: b.store, crypto, clock: b.clock, random: seededRandom(7), logger: silentLogger })
  const drain = new Drain({ ...b, todos, crypto, logger: silentLogger }, { approvalFor: () => approval })
  return { todos, drain }
}

async function put(b: Awaited<ReturnType<typeof bench>>, messageId: string): Promise<Uint8Array> {
  const object = await seal(alice, bob, b.clock.nowMs(), { messageId })
  await b.queue.enqueue({ audience: bob.eidHex, principal: principalOf(alice), object })
  return object
}

describe('the drain into the real Todo store', () => {
  it('[OD-40] gives no worker what came out of the queue until the owner approved it', async () => {
    const b = await bench()
    await put(b, 'm-1')
    const { todos, drain } = await withTodos(b, 'needed')
    const [event] = (await drain.drain(bob)).events
    expect(await todos.claim(bob.eidHex, 'w', LEASE)).toBeUndefined()
    await todos.approve(event?.todo as string, 'given')
    expect((await todos.claim(bob.eidHex, 'w', LEASE))?.id).toBe(event?.todo)
    await todos.stop()
  })

  it('[OD-41] [OD-43] [G-15] yields exactly one Todo, whichever write of the drain fails, and refuses the object ever after', async () => {
    for (let failAt = 0; failAt < 5; failAt++) {
      const b = await bench()
      const object = await put(b, 'm-1')
      const before = await withTodos(b, 'none')
      b.clock.advance(20_000)
      let writes = 0
      b.level.fault = () => (writes++ === failAt ? diskFull() : undefined)
      await before.drain.drain(bob).catch((error) => expect(error).toMatchObject({ code: 'STORE_WRITE_FAILED' }))
      b.level.fault = undefined
      await before.todos.stop()
      const restarted = await b.restart()
      const { todos, drain } = await withTodos(restarted, 'none')
      await drain.drain(bob)
      await restarted.queue.enqueue({ audience: bob.eidHex, principal: principalOf(alice), object })
      expect((await drain.drain(bob)).events.map((event) => event.outcome)).toEqual(['replayed'])
      expect((await todos.list({ agent: bob.eidHex })).todos).toHaveLength(1)
      expect(await restarted.queue.usage(bob.eidHex)).toMatchObject({ messages: 0, bytes: 0 })
      await todos.stop()
    }
  })

  it('[OD-42] makes one Todo of a message that came live and by the queue', async () => {
    const b = await bench()
    const { todos, drain } = await withTodos(b, 'none')
    await todos.create({
      agent: bob.eidHex,
      caller: { id: principalOf(alice), eid: alice.eidHex },
      message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hello' }] },
      door: 'a2a-pss'
    })
    await put(b, 'm-1')
    expect((await drain.drain(bob)).events).toMatchObject([{ outcome: 'replayed', reason: 'TODO_EXISTS' }])
    expect((await todos.list({ agent: bob.eidHex })).todos).toHaveLength(1)
    await todos.stop()
  })
})
