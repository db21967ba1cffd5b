import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import type { Session } from '../../../src/sessions/session.ts'
import type { StandardSchema } from '../../../src/state/standard-schema.ts'
import { Pair, settle } from '../sessions/memory-net.ts'

async function open() {
  const pair = await Pair.create()
  const a = await pair.open()
  await settle()
  return { a, b: pair.b.sessions[0] as Session }
}

/** A validator of nobody's library: answers later, and turns the value into something else. */
const celsius: StandardSchema<number, string> = {
  '~standard': {
    version: 1,
    vendor: 'here',
    validate: async (value) => {
      await Promise.resolve()
      return typeof value === 'number' ? { value: `${value} °C` } : { issues: [{ message: 'no temperature', path: ['deep', { key: 0 }] }] }
    }
  }
}

describe('state by a schema', () => {
  it('[ESE-02] is checked when it is read: what a peer wrote wrongly is refused by key and issue, what it wrote rightly has its type', async () => {
    const { a, b } = await open()
    const shown = b.states.peer.as({ load: z.number().max(1), at: celsius })
    await a.states.own.set('load', 0.5)
    await a.states.own.set('at', 21)
    const load = await shown.get('load')
    expectTypeOf(load).toEqualTypeOf<number | undefined>()
    expect([load, await shown.get('at')]).toEqual([0.5, '21 °C'])
    await a.states.own.set('load', 2)
    await a.states.own.set('at', 'warm')
    await expect(shown.get('load')).rejects.toMatchObject({ code: 'ESE_SCHEMA', kind: 'refused', field: 'load' })
    await expect(shown.get('at')).rejects.toMatchObject({ field: 'at', data: { issues: ['deep.0: no temperature'] } })
    for (const key of ['other', 'toString']) await a.states.own.set(key, 1)
    await expect(shown.get('other' as 'at')).rejects.toMatchObject({ code: 'ESE_SCHEMA', field: 'key', value: 'other' })
    await expect(shown.get('toString' as 'at')).rejects.toMatchObject({ code: 'ESE_SCHEMA' })
  })

  it('is checked before it is written: nothing leaves', async () => {
    const { a, b } = await open()
    const own = a.states.own.as({ task: z.object({ done: z.boolean() }) })
    await own.set('task', { done: true })
    await expect(own.set('task', { done: 'yes' } as unknown as { done: boolean })).rejects.toMatchObject({ code: 'ESE_SCHEMA' })
    expect(b.states.peer.get('task')).toEqual({ done: true })
    await own.delete('task')
    expect(b.states.peer.has('task')).toBe(false)
  })

  it('one schema may speak for every key; a watcher is told of what it refuses and goes on', async () => {
    const { a, b } = await open()
    const events: unknown[] = []
    const watching = (async () => {
      for await (const event of b.states.peer.as(z.number()).watch()) {
        events.push(event)
        if (event.kind === 'set' && event.value === 2) return
      }
    })()
    await settle()
    await a.states.own.set('x', 1)
    await a.states.own.set('y', 'no')
    await a.states.own.set('z', 2)
    await watching
    expect(events).toMatchObject([
      { kind: 'set', key: 'x', value: 1 },
      { kind: 'invalid', key: 'y', issues: [expect.stringContaining('number')] },
      { kind: 'set', key: 'z', value: 2 }
    ])
  })
})
