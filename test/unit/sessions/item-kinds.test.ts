import { describe, expect, it } from 'vitest'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import type { Inbound } from '../../../src/sessions/session.ts'
import { Pair } from './memory-net.ts'

const text = (value: string) => new TextEncoder().encode(value)

describe('a kind of item', () => {
  it('that a part of the node takes reaches it on every channel, acknowledged; the rest goes by its channel', async () => {
    const pair = await Pair.create()
    const taken: Inbound[] = []
    pair.b.manager.onSession((session) =>
      session.onKind(ITEM_KINDS.groupOp, async (item) => {
        taken.push({ ...item, payload: item.payload.slice() })
      })
    )
    const session = await pair.open()
    await Promise.all([
      session.send(1, ITEM_KINDS.groupOp, text('op on a served channel')),
      session.send(40, ITEM_KINDS.groupOp, text('op on another')),
      session.send(1, ITEM_KINDS.a2a, text('message'))
    ])
    expect(taken.map(({ channel }) => channel).sort((x, y) => x - y)).toEqual([1, 40])
    expect(pair.b.inbox.map(({ kind }) => kind)).toEqual([ITEM_KINDS.a2a])
    expect(session.info()).toMatchObject({ txSeq: '3', txAcked: '3' })
  })

  it('[PSS-21] cannot be that of rotations or of ESEs, which are the session’s own', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    for (const kind of [ITEM_KINDS.rotation, ITEM_KINDS.eseOp, ITEM_KINDS.eseView]) {
      expect(() => session.onKind(kind, async () => {})).toThrow(TypeError)
      await expect(session.send(40, kind, text('forged'))).rejects.toThrow(TypeError)
    }
  })
})

describe("what a part of the node adds to a session's READY", () => {
  it('[ESE-01] tells the peer, when the session is taken up, that the values were lost', async () => {
    const pair = await Pair.create({ a: { ready: { eseLost: () => true } } })
    const session = await pair.open()
    const theirs = pair.b.sessions[0]
    const resumed = new Promise<boolean>((resolve) => {
      theirs?.onEvent((event) => {
        if (event.kind === 'resumed') resolve(event.eseLost)
      })
    })
    const { epoch } = session as unknown as { epoch: { lose(cause: Error): void } }
    epoch.lose(new Error('the cable is out'))
    while (session.info().state !== 'established') {
      pair.clock.advance(1_000)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(await resumed).toBe(true)
  })
})
