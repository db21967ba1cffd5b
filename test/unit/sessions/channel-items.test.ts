import { describe, expect, it } from 'vitest'
import { channelItems } from '../../../src/sessions/channel-items.ts'
import type { Inbound, Session } from '../../../src/sessions/session.ts'

const text = (value: string) => new TextEncoder().encode(value)
const word = ({ payload }: Inbound) => new TextDecoder().decode(payload)

/** A session of which a test plays the peer. */
function fakeSession() {
  const handlers = new Map<number, (item: Inbound) => Promise<void>>()
  const over = Promise.withResolvers<{ reason: string }>()
  const handled: string[] = []
  const session = {
    onChannel: (channel: number, handler: (item: Inbound) => Promise<void>) => handlers.set(channel, handler),
    closed: over.promise
  } as unknown as Session
  const arrive = (value: string, channel = 1) => {
    const item = { channel, kind: 0x85, payload: text(value), position: () => [] }
    void handlers
      .get(channel)?.(item)
      .then(() => handled.push(value))
  }
  return { session, arrive, handled, end: () => over.resolve({ reason: 'done' }), handlers }
}

const turns = async () => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

describe("a channel's items", () => {
  it('come in order, and end with the session', async () => {
    const { session, arrive, end } = fakeSession()
    const words: string[] = []
    const loop = (async () => {
      for await (const item of channelItems(session, 1)) words.push(word(item))
    })()
    arrive('a')
    await turns()
    arrive('b')
    arrive('c')
    await turns()
    end()
    await loop
    expect(words).toEqual(['a', 'b', 'c'])
  })

  it('count as handled only when the loop asks for the next', async () => {
    const { session, arrive, handled, end } = fakeSession()
    const items = channelItems(session, 1)
    const first = items.next()
    arrive('a')
    arrive('b')
    expect(word((await first).value as Inbound)).toBe('a')
    await turns()
    expect(handled).toEqual([])
    await items.next()
    await turns()
    expect(handled).toEqual(['a'])
    await items.return()
    await turns()
    expect(handled).toEqual(['a', 'b'])
    end()
  })

  it('that a loop left behind are there for the next', async () => {
    const { session, arrive, end, handlers } = fakeSession()
    const words: string[] = []
    const loop = async () => {
      for await (const item of channelItems(session, 1)) {
        words.push(word(item))
        break
      }
    }
    const one = loop()
    arrive('a')
    arrive('b')
    await one
    await loop()
    expect(words).toEqual(['a', 'b'])
    expect(handlers.size).toBe(1)
    end()
  })

  it('are shared by two loops, each item once', async () => {
    const { session, arrive, end } = fakeSession()
    const words: string[] = []
    const loop = async () => {
      for await (const item of channelItems(session, 1)) words.push(word(item))
    }
    const loops = [loop(), loop()]
    await turns()
    for (const value of ['a', 'b', 'c', 'd']) arrive(value)
    await turns()
    end()
    await Promise.all(loops)
    expect(words.toSorted()).toEqual(['a', 'b', 'c', 'd'])
  })
})
