import { describe, expect, it } from 'vitest'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import type { Session } from '../../../src/sessions/session.ts'
import { CrashingNode } from './crashing-node.ts'
import { agentOf, MemoryNet, type NodeInit, Pair, settle } from './memory-net.ts'

const A2A = 0x02
const MAILBOX = 0x03
const LIVE = 0x85
const text = (value: string) => new TextEncoder().encode(value)
const block: SfcBlock = {
  site: 'edge',
  scopes: SFC_SCOPE.SEND_MESSAGES | SFC_SCOPE.STREAM,
  eseBytesMax: 0,
  messagesPerMinuteMax: 600,
  payloadBytesMax: 1_024,
  sessionSecondsMax: 3_600,
  storedBytesMax: 0,
  concurrentTasksMax: 4,
  region: 276
}
const sides = (a: Session, b: Session | undefined) => [a.info().contract?.block, b?.info().contract?.block]

async function until(clock: ManualClock, condition: () => boolean, limitMs = 120_000): Promise<void> {
  for (let passed = 0; passed <= limitMs; passed += 500) {
    await settle()
    if (condition()) return
    clock.advance(500)
  }
  throw new Error('it did not come about')
}

async function crashing(init: { a?: NodeInit; b?: NodeInit } = {}) {
  const clock = new ManualClock()
  const net = new MemoryNet()
  const a = await new CrashingNode(net, clock, agentOf(0xa1), 1, init.a).start()
  const b = await new CrashingNode(net, clock, agentOf(0xb2), 2, init.b).start()
  const open = (contract?: Partial<SfcBlock>) =>
    a.manager.open(a.agent, b.agent.eid, { peer: b.peer, addrs: [] }, contract === undefined ? {} : { contract })
  return { clock, net, a, b, open }
}

describe('a contract is agreed on', () => {
  it('[SFC-01] [SFC-04] [SFC-05] only where it is asked for: the same responder opens plain sessions too', async () => {
    const plain = await Pair.create({ b: { contract: block } })
    const session = await plain.open()
    expect(sides(session, plain.b.sessions[0])).toEqual([undefined, undefined])
    const pair = await Pair.create({ b: { contract: block } })
    const held = await pair.open({ contract: {} })
    const view = { ...block, scopes: ['send-messages', 'stream'] }
    expect(sides(held, pair.b.sessions[0])).toEqual([view, view])
    await held.send(1, A2A, text('both work'))
    await session.send(1, A2A, text('both work'))
  })

  it('[SFC-03] [SFC-08] within the two round trips of any handshake', async () => {
    const pair = await Pair.create({ b: { contract: block } })
    expect((await pair.open({ contract: {} })).info()).toMatchObject({ roundTrips: 2, state: 'established' })
  })

  it.each([
    ['payloadBytesMax', { payloadBytesMax: 1_025 }],
    ['scopes', { scopes: SFC_SCOPE.MAILBOX }],
    ['site', { site: 'cloud' as const }],
    ['region', { region: 250 }]
  ])('[SFC-07] is not where %s falls short: no session, and the field is named', async (field, needs: Partial<SfcBlock>) => {
    const pair = await Pair.create({ b: { contract: block } })
    await expect(pair.open({ contract: needs })).rejects.toMatchObject({ code: 'CONTRACT_REFUSED', kind: 'refused', field: `sfc.${field}` })
    await settle()
    expect(pair.b.sessions).toHaveLength(0)
    expect(pair.a.manager.held().sessions).toBe(0)
  })

  it('[SFC-05] is the own one of an agent that has one, or none where that says so', async () => {
    const own = { ...block, payloadBytesMax: 77 }
    const pair = await Pair.create({ b: { contract: block, contractOf: ({ eid }) => (eid[0] === pair.agentB.eid[0] ? own : 'off') } })
    expect((await pair.open({ contract: {} })).info().contract?.block.payloadBytesMax).toBe(77)
    const none = await Pair.create({ b: { contract: block, contractOf: () => 'off' } })
    await expect(none.open({ contract: {} })).rejects.toMatchObject({ code: 'CONTRACT_REFUSED', field: 'sfc.block' })
    const general = await Pair.create({ b: { contract: block, contractOf: () => undefined } })
    expect((await general.open({ contract: {} })).info().contract?.block.payloadBytesMax).toBe(block.payloadBytesMax)
  })

  it('[SFC-05] [G-44] is not where the responder offers none: a plain session in its place is not taken', async () => {
    const pair = await Pair.create()
    await expect(pair.open({ contract: {} })).rejects.toMatchObject({ code: 'CONTRACT_REFUSED', field: 'sfc.block' })
    expect((await pair.open()).info().contract).toBeUndefined()
  })

  it('and a session that is open already is given only to who needs no more', async () => {
    const pair = await Pair.create({ b: { contract: block } })
    const plain = await pair.open()
    await expect(pair.open({ contract: {} })).rejects.toMatchObject({ code: 'CONTRACT_UNMET', kind: 'conflict', field: 'sfc.block' })
    await plain.close()
    const held = await pair.open({ contract: {} })
    expect(await pair.open({ contract: { payloadBytesMax: 1_024 } })).toBe(held)
    expect(await pair.open()).toBe(held)
    await expect(pair.open({ contract: { payloadBytesMax: 2_048 } })).rejects.toMatchObject({
      code: 'CONTRACT_UNMET',
      field: 'sfc.payloadBytesMax'
    })
  })
})

describe('a session under a contract', () => {
  it('[SFC-08] refuses to send what goes over it, and goes on', async () => {
    const pair = await Pair.create({ b: { contract: block } })
    const session = await pair.open({ contract: {} })
    await expect(session.send(1, A2A, new Uint8Array(1_025))).rejects.toMatchObject({
      code: 'CONTRACT_LIMIT',
      field: 'sfc.payloadBytesMax'
    })
    await expect(session.send(2, MAILBOX, text('x'))).rejects.toMatchObject({ code: 'CONTRACT_LIMIT', field: 'sfc.scopes' })
    await expect(pair.b.sessions[0]?.send(2, MAILBOX, text('x'))).rejects.toMatchObject({ code: 'CONTRACT_LIMIT' })
    await session.send(1, A2A, new Uint8Array(1_024))
    expect(session.info()).toMatchObject({ state: 'established', txSeq: '1', unacked: 0 })
  })

  it('[SFC-08] makes a send wait for its rate', async () => {
    const pair = await Pair.create({ b: { contract: { ...block, messagesPerMinuteMax: 2 } } })
    const session = await pair.open({ contract: {} })
    await session.send(1, LIVE, text('first'))
    let sent = false
    const second = session.send(1, A2A, text('second')).then(() => {
      sent = true
    })
    await settle()
    expect(sent).toBe(false)
    pair.clock.advance(29_000)
    await settle()
    expect(sent).toBe(false)
    await until(pair.clock, () => sent, 5_000)
    await second
    expect(pair.b.inbox).toHaveLength(2)
  })

  it('[SFC-08] shows both sides what was used of it', async () => {
    const pair = await Pair.create({ b: { contract: block } })
    const session = await pair.open({ contract: {} })
    await session.send(1, A2A, new Uint8Array(700))
    await pair.b.sessions[0]?.send(1, LIVE, new Uint8Array(50))
    await settle()
    pair.clock.advance(60_000)
    const used = { messages: 1, payloadBytes: 700, payloadBytesLargest: 700 }
    expect(session.info().contract?.usage).toMatchObject({
      seconds: 60,
      secondsLeft: 3_540,
      sent: used,
      received: { messages: 1, payloadBytes: 50 }
    })
    expect(pair.b.sessions[0]?.info().contract?.usage).toMatchObject({ received: used, sent: { messages: 1, payloadBytesLargest: 50 } })
  })

  it('[SFC-09] [G-46] is torn down by the node itself when its seconds are over, counted from the first handshake', async () => {
    const pair = await Pair.create({ b: { contract: { ...block, sessionSecondsMax: 40 } } })
    const session = await pair.open({ contract: {} })
    await session.send(1, A2A, text('in time'))
    for (let second = 0; second < 39; second += 1) {
      pair.clock.advance(1_000)
      await settle()
    }
    expect(session.info().state).toBe('established')
    await until(pair.clock, () => session.info().state === 'closed', 10_000)
    expect(await session.closed).toEqual({ reason: 'contract' })
    expect(await pair.b.sessions[0]?.closed).toEqual({ reason: 'contract' })
    await expect(session.send(1, A2A, text('late'))).rejects.toMatchObject({ code: 'SESSION_CLOSED' })
    expect((await pair.open({ contract: {} })).info().id).not.toBe(session.info().id)
  })

  it('[SFC-09] keeps its contract byte for byte, and its time, over restarts of either side', async () => {
    const { clock, a, b, open } = await crashing({ b: { contract: block } })
    const session = await open({})
    await session.send(1, A2A, new Uint8Array(500))
    const { id } = session.info()
    clock.advance(2_000)
    await settle()
    await b.kill()
    await b.start({ contract: { ...block, payloadBytesMax: 9 } }) // what it offers now is for new sessions
    await until(clock, () => b.manager.list()[0]?.state === 'established')
    await a.kill()
    await a.start()
    await until(clock, () => a.manager.list()[0]?.state === 'established')
    for (const { manager } of [a, b]) {
      const [info] = manager.list()
      expect(info?.id).toBe(id)
      expect(info?.contract?.block).toEqual({ ...block, scopes: ['send-messages', 'stream'] })
      expect(info?.contract?.usage.seconds).toBeGreaterThanOrEqual(2)
    }
    expect(a.manager.list()[0]?.contract?.usage.sent).toMatchObject({ messages: 1, payloadBytes: 500 })
    await expect((await open()).send(1, A2A, new Uint8Array(1_025))).rejects.toMatchObject({ code: 'CONTRACT_LIMIT' })
  })

  it('[SFC-09] is over after its time also where no connection carried it then, and what waited is returned', async () => {
    const { clock, b, open } = await crashing({ b: { contract: { ...block, sessionSecondsMax: 30 } } })
    const session = await open({})
    await b.kill()
    await settle()
    const waiting = session.send(1, A2A, text('nobody there'))
    waiting.catch(() => {})
    await until(clock, () => session.info().state === 'closed', 600_000)
    expect(await session.closed).toEqual({ reason: 'contract' })
    await expect(waiting).rejects.toMatchObject({ code: 'SESSION_LOST' })
  })
})

describe('a session in the library', () => {
  it('tells everything about itself', async () => {
    const pair = await Pair.create({ b: { contract: block } })
    const session = await pair.open({ contract: {} })
    await session.send(1, A2A, text('one'))
    await session.send(2, A2A, text('two'))
    const asked = session.details()
    await settle()
    const details = await asked
    expect(details).toMatchObject({
      state: 'established',
      rttMs: 0,
      epoch: { ageMs: 0, keyGeneration: 0 },
      vectors: { tx: { seq: '2' }, acked: { seq: '2' }, rx: { seq: '0' } },
      channels: [
        { channel: 1, sent: '1', received: '0', unacked: 0, waitingBytes: 0 },
        { channel: 2, sent: '2', received: '0', unacked: 0, waitingBytes: 0 }
      ]
    })
    expect(details.vectors.tx.hash).toMatch(/^[0-9a-f]{64}$/)
    expect(details.vectors.tx.hash).toBe((await pair.b.sessions[0]?.details())?.vectors.rx.hash)
  })

  it('tells no round trip and no epoch where no connection carries it', async () => {
    const { b, open } = await crashing()
    const session = await open()
    await b.kill()
    await settle()
    const details = await session.details()
    expect(details.state).toBe('disconnected')
    expect(details).not.toHaveProperty('rttMs')
    expect(details).not.toHaveProperty('epoch')
  })

  it('is closed where `await using` leaves its block, and tells its events', async () => {
    const pair = await Pair.create()
    const kinds: string[] = []
    let closed: Promise<{ reason: string }> | undefined
    {
      await using session = await pair.open()
      session.onEvent(({ kind }) => kinds.push(kind))
      closed = session.closed
    }
    expect(await closed).toEqual({ reason: 'done' })
    expect(kinds).toEqual(['ended'])
  })

  it('gives a channel as an async iterable, and acknowledges what its loop is done with', async () => {
    const pair = await Pair.create({ b: { channels: [] } })
    const session = await pair.open()
    const sends = ['a', 'b', 'c'].map((word) => session.send(7, A2A, text(word)))
    const words: string[] = []
    const loop = (async () => {
      for await (const { payload } of (pair.b.sessions[0] as Session).items(7)) words.push(new TextDecoder().decode(payload))
    })()
    await Promise.all(sends)
    expect(words).toEqual(['a', 'b', 'c'])
    await session.close()
    await loop
  })
})
