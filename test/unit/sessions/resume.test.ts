import { describe, expect, it, vi } from 'vitest'
import { compare, toHex } from '../../../protocol/bytes.ts'
import { eidToDid } from '../../../protocol/identity/eid.ts'
import { ACK_BODY_BYTES, FRAME, HEADER_BYTES } from '../../../protocol/session/header.ts'
import { Journal } from '../../../protocol/session/journal.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import type { Session, SessionEvent } from '../../../src/sessions/session.ts'
import { CrashingNode } from './crashing-node.ts'
import { agentOf, MemoryNet, type NodeInit, settle } from './memory-net.ts'

const A2A = 0x02
const text = (value: string) => new TextEncoder().encode(value)
const words = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `m${from + i}`)

async function two(init: { a?: NodeInit; b?: NodeInit; seeds?: [number, number] } = {}) {
  const clock = new ManualClock()
  const net = new MemoryNet()
  const [seedA, seedB] = init.seeds ?? [0xa1, 0xb2]
  const a = await new CrashingNode(net, clock, agentOf(seedA), 1, init.a).start()
  const b = await new CrashingNode(net, clock, agentOf(seedB), 2, init.b).start()
  return { clock, net, a, b }
}

/** Sends `m<from>` … without waiting; failures of a process that dies are its own. */
function sendAll(session: Session, from: number, to: number, channels = 1): Promise<void>[] {
  return words(from, to).map((word, i) => {
    const sent = session.send(1 + (i % channels), A2A, text(word))
    sent.catch(() => {})
    return sent
  })
}

/** Lets time pass until `condition` holds, at most `limitMs` of it. */
async function until(clock: ManualClock, condition: () => boolean, limitMs = 120_000): Promise<void> {
  for (let passed = 0; passed <= limitMs; passed += 500) {
    await settle()
    if (condition()) return
    clock.advance(500)
  }
  throw new Error('it did not come about')
}

const connected = (...nodes: CrashingNode[]) => nodes.every(({ manager }) => manager.list().some(({ state }) => state === 'established'))
const kinds = (events: SessionEvent[]) => events.map(({ kind }) => kind)

describe('a session that is taken up again', () => {
  it('[PSS-07] [D-21] goes on after the responder restarts: same session, nothing acked lost, nothing applied twice', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 20))
    const { id } = session.info()
    await b.kill()
    const waiting = sendAll(session, 20, 40)
    await settle()
    expect(session.info()).toMatchObject({ state: 'disconnected', unacked: 20 })
    await b.start()
    await until(clock, () => connected(a, b))
    await Promise.all(waiting)
    expect(b.handled).toEqual(words(0, 40))
    expect(b.manager.list()[0]).toMatchObject({ id, rxSeq: '40' })
    expect(session.info()).toMatchObject({ id, txAcked: '40', unacked: 0 })
    expect(session.info().resumes).toBeGreaterThan(0)
  })

  it('[PSS-07] [D-21] [F071] goes on after the sender restarts, with what it had journaled and nobody had', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 3))
    await b.kill()
    await settle()
    sendAll(session, 3, 6)
    await settle()
    await a.kill()
    await b.start()
    clock.advance(5_000)
    await settle()
    expect(b.handled).toEqual(words(0, 3))
    await a.start()
    await until(clock, () => b.handled.length === 6)
    expect(b.handled).toEqual(words(0, 6))
    await until(clock, () => a.manager.list()[0]?.unacked === 0)
  })

  it('[F073] [F077] hands over what the gap held, in order, before anything newer', async () => {
    const { clock, net, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 3))
    net.cut(a.peer, b.peer)
    await settle()
    const gap = sendAll(session, 3, 8)
    await until(clock, () => connected(a, b))
    await Promise.all([...gap, ...sendAll(session, 8, 10)])
    expect(b.handled).toEqual(words(0, 10))
    expect(a.events).toContainEqual(expect.objectContaining({ kind: 'resumed', resent: 5, peerHas: 3n }))
  })

  it('[F077] a batch that was taken and not confirmed comes again in order, after a restart as before one', async () => {
    const held = Promise.withResolvers<void>()
    const { clock, a, b } = await two()
    await b.kill()
    await b.start({ handler: () => held.promise })
    const session = await a.open(b)
    const sends = sendAll(session, 0, 5)
    await settle()
    await b.kill()
    await b.start()
    await until(clock, () => connected(a, b))
    await Promise.all(sends)
    expect(b.handled).toEqual(words(0, 5))
  })

  it('does not hand over again what a handler is still at when the connection changes under it', async () => {
    const held = Promise.withResolvers<void>()
    let calls = 0
    const { clock, net, a, b } = await two({
      b: {
        handler: async () => {
          calls += 1
          await held.promise
        }
      }
    })
    const session = await a.open(b)
    const sends = sendAll(session, 0, 4, 2)
    await settle()
    expect(calls).toBe(4)
    net.cut(a.peer, b.peer)
    await until(clock, () => connected(a, b))
    await settle()
    expect(calls).toBe(4)
    held.resolve()
    await Promise.all(sends)
    expect(b.handled).toHaveLength(4)
    expect(session.info()).toMatchObject({ unacked: 0 })
  })

  it('a handler that stored its position with its effect is not called again, also where the process died before the acknowledgment', async () => {
    const { clock, a, b } = await two()
    await b.kill()
    let stored = 0
    await b.start({
      handler: async (item) => {
        await b.commit(item.position())
        stored += 1
        await new Promise(() => {})
      }
    })
    const session = await a.open(b)
    const sends = sendAll(session, 0, 3)
    await until(clock, () => stored === 3)
    await b.kill()
    await b.start()
    await until(clock, () => connected(a, b))
    await Promise.all(sends)
    expect(b.handled).toEqual([])
    expect(b.manager.list()[0]).toMatchObject({ rxSeq: '3' })
  })

  it.each([
    ['the one that opened resumes', 'a'],
    ['the one that answered resumes: the roles swap, the directions keep their names', 'b']
  ] as const)('[G-50] %s', async (_, who) => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 2))
    const other = who === 'a' ? b : a
    const one = who === 'a' ? a : b
    await other.kill()
    await other.start()
    const again = await one.open(other)
    expect(again.info()).toMatchObject({ role: 'initiator', id: session.info().id })
    await Promise.all(sendAll(again, 2, 4))
    const receiver = who === 'a' ? b : a
    expect(receiver.handled).toEqual(who === 'a' ? words(0, 4) : words(2, 4))
    clock.advance(31_000)
    await settle()
    expect([...kinds(a.events), ...kinds(b.events)]).not.toContain('diverged')
  })

  it('both resume at once: one exchange stands, and both go on with the same session', async () => {
    const { clock, net, a, b } = await two()
    const session = await a.open(b)
    clock.advance(11_000)
    await settle()
    net.cut(a.peer, b.peer)
    await settle()
    const both = await Promise.all([a.open(b), b.open(a)])
    expect(both.map((one) => one.info().id)).toEqual([session.info().id, session.info().id])
    expect(a.manager.held().sessions).toBe(1)
    await Promise.all([...sendAll(both[0], 0, 3), ...sendAll(both[1], 3, 6)])
    expect([a.handled, b.handled]).toEqual([words(3, 6), words(0, 3)])
  })

  it('[PSS-07] who gave way to the exchange of a peer that then dies opens anew, and hears nothing of the crossing', async () => {
    const clock = new ManualClock()
    const net = new MemoryNet()
    const [smaller, larger] = [agentOf(0xa1), agentOf(0xb2)].sort((one, other) => compare(one.eid, other.eid)) as [LocalAgent, LocalAgent]
    const stands = await new CrashingNode(net, clock, smaller, 1).start()
    let died: Promise<void> | undefined
    const policy = () => {
      died ??= stands.kill({ network: 'silent' }) // judged, let in, given way to: and gone before its READY is read
      return { admit: true } as const
    }
    const yields = await new CrashingNode(net, clock, larger, 2, { policy }).start()
    const { push } = net.streams
    net.streams.push = (...pairs) => {
      for (const { a } of pairs) {
        const write = a.write.bind(a)
        // ACK goes out alone, READY does not follow it
        a.write = (bytes, options) => write(bytes[1] === FRAME.ACK ? bytes.subarray(0, HEADER_BYTES + ACK_BODY_BYTES) : bytes, options)
      }
      return push.apply(net.streams, pairs)
    }
    stands.open(yields).catch(() => {})
    let outcome: Session | Error | undefined
    yields.open(stands).then(
      (session) => {
        outcome = session
      },
      (error: Error) => {
        outcome = error
      }
    )
    await until(clock, () => died !== undefined)
    await died
    net.streams.push = push
    await stands.start()
    await until(clock, () => outcome !== undefined)
    if (outcome instanceof Error) throw outcome
    expect(outcome?.info()).toMatchObject({ state: 'established', remote: eidToDid(smaller.eid) })
  })

  it('[F056] a resume takes over a connection that still looks alive, and the old one takes effect no more', async () => {
    const { clock, net, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 2))
    clock.advance(11_000)
    await settle()
    const old = net.streams.map((pair) => pair.b)
    await a.kill({ network: 'silent' })
    await a.start()
    const again = await a.open(b)
    expect(again.info().id).toBe(session.info().id)
    await Promise.all(sendAll(again, 2, 4))
    expect(b.handled).toEqual(words(0, 4))
    expect(b.manager.held().sessions).toBe(1)
    expect(old.length).toBeGreaterThan(0)
  })

  it('a responder that forgot answers UNKNOWN_SESSION: what was not acknowledged is unknown, entry by entry, and a new session starts', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 2))
    await b.kill()
    await settle()
    const lost = sendAll(session, 2, 4).map((sent) => sent.catch((error: unknown) => error))
    await settle()
    b.forget()
    await b.start()
    await until(clock, () => kinds(a.events).includes('ended'))
    for (const outcome of await Promise.all(lost))
      expect(outcome).toMatchObject({ code: 'SESSION_LOST', data: { reason: 'unknownSession' } })
    const unknown = a.events.filter((event) => event.kind === 'outcome-unknown')
    expect(
      unknown.map((event) => event.kind === 'outcome-unknown' && [event.entry.seq, new TextDecoder().decode(event.entry.payload)])
    ).toEqual([
      [3n, 'm2'],
      [4n, 'm3']
    ])
    expect(await session.closed).toEqual({ reason: 'unknownSession' })
    const next = await a.open(b)
    expect(next.info().id).not.toBe(session.info().id)
    await Promise.all(sendAll(next, 4, 5))
    expect(b.handled).toEqual(['m0', 'm1', 'm4'])
  })

  it('a receiver restored from a backup gets a snapshot in place of what is no longer held, and both sides are told what was lost', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 3))
    clock.advance(2_000)
    await settle()
    const copy = await b.backup()
    await Promise.all(sendAll(session, 3, 7, 2))
    clock.advance(2_000)
    await settle()
    await b.kill()
    b.restore(copy)
    const after = sendAll(session, 7, 9, 2)
    await settle()
    await b.start()
    await until(clock, () => kinds(b.events).includes('gap') && kinds(a.events).includes('gap'))
    await Promise.all(after)
    expect(b.handled.toSorted()).toEqual(words(0, 9)) // the gap was handled in the life that is gone
    expect(b.events.find(({ kind }) => kind === 'gap')).toMatchObject({ direction: 'received', from: 4n, to: 7n })
    expect(a.events.find(({ kind }) => kind === 'gap')).toMatchObject({ direction: 'sent', from: 4n, to: 7n })
    await Promise.all(sendAll(session, 9, 12))
    expect(b.handled.slice(9)).toEqual(words(9, 12))
    expect(session.info()).toMatchObject({ unacked: 0, txSeq: '13' }) // 12 and the snapshot
    await b.kill()
    await b.start()
    await until(clock, () => connected(a, b))
    await Promise.all(sendAll(session, 12, 13))
    expect(kinds([...a.events, ...b.events])).not.toContain('diverged')
  })

  it('[PSS-07] [F059] a receiver that never takes its snapshot makes the sender write it once, however often it comes back for it', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    const copy = await b.backup()
    await Promise.all(sendAll(session, 0, 3))
    clock.advance(2_000)
    await settle()
    await b.kill()
    const after = sendAll(session, 3, 5)
    const put = vi.spyOn(Journal.prototype, 'putSnapshot')
    for (let i = 0; i < 3; i++) {
      b.restore(copy)
      await b.start()
      const seen = new Promise<void>((resolve) => {
        b.manager.onEvent(({ kind }) => {
          if (kind === 'gap') void b.kill().then(resolve) // before it is on disk
        })
      })
      await until(clock, () => kinds(b.events).filter((kind) => kind === 'gap').length > i)
      await seen
    }
    expect(put).toHaveBeenCalledTimes(1)
    put.mockRestore()
    b.restore(copy)
    await b.start()
    await Promise.all([until(clock, () => session.info().unacked === 0), ...after])
    expect(b.handled).toEqual(words(0, 5))
    expect(kinds([...a.events, ...b.events])).not.toContain('diverged')
  })

  it('a sender restored from a backup has diverged: both sides are told, nothing is merged, and a new session starts', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await Promise.all(sendAll(session, 0, 3))
    clock.advance(2_000)
    await settle()
    const copy = await a.backup()
    await Promise.all(sendAll(session, 3, 6))
    await a.kill()
    a.restore(copy)
    await a.start()
    await until(clock, () => kinds(a.events).includes('diverged') && kinds(b.events).includes('diverged'))
    expect(a.manager.list()).toEqual([])
    expect(await a.manager.ended()).toContainEqual(expect.objectContaining({ id: session.info().id, reason: 'diverged' }))
    expect(await b.manager.ended()).toContainEqual(expect.objectContaining({ id: session.info().id, reason: 'diverged' }))
    const next = await a.open(b)
    expect(next.info().id).not.toBe(session.info().id)
    await Promise.all(sendAll(next, 6, 7))
    expect(b.handled).toEqual(words(0, 7))
  })

  it('[F080] tries again after about 1, 2 and 4 s with jitter, and is back within 10 s of the recovery', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    await b.kill()
    await settle()
    const tries: number[] = []
    const startMs = clock.monotonicMs()
    const dial = a.host.openStream.bind(a.host)
    a.host.openStream = (...args) => {
      tries.push(clock.monotonicMs() - startMs)
      return dial(...args)
    }
    for (let i = 0; i < 160; i++) {
      clock.advance(50)
      await settle()
    }
    expect(tries).toHaveLength(3)
    const pauses = tries.map((at, i) => at - (tries[i - 1] ?? 0))
    for (const [i, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThanOrEqual(2 ** i * 750)
      expect(pause).toBeLessThanOrEqual(2 ** i * 1_250 + 100)
    }
    await b.start()
    await until(clock, () => session.info().state === 'established', 10_000)
  })

  it('is taken up at once when the peer dials, when our addresses change, and when a newer locator is seen', async () => {
    for (const cause of ['peer', 'addresses', 'locator'] as const) {
      const { clock, a, b } = await two()
      const session = await a.open(b)
      await b.kill()
      await settle()
      clock.advance(60_000) // by now the pauses are long
      await settle()
      await b.start({ parkAfterMs: 1 }) // B itself tries nothing
      if (cause === 'peer') for (const listener of a.host.connectionListeners) listener({ peer: b.peer, id: 'new' })
      if (cause === 'addresses') for (const listener of a.host.addressListeners) listener()
      if (cause === 'locator') a.manager.locatorSeen(b.agent.eid, { peer: b.peer, addrs: ['/memory/elsewhere'] })
      await settle()
      expect(session.info().state).toBe('established')
    }
  })

  it('[G-46] [PSS-21] is the same session after 30 days idle with 3 restarts, and holds nothing in memory meanwhile', async () => {
    const { clock, a, b } = await two()
    const { id } = (await a.open(b)).info()
    for (let day = 1; day <= 30; day++) {
      for (let hour = 0; hour < 24; hour++) {
        clock.advance(3_600_000)
        await settle()
      }
      expect(a.manager.held()).toMatchObject({ sessions: 0, loaded: 0, stored: 1 })
      expect(b.manager.held()).toMatchObject({ sessions: 0, loaded: 0, stored: 1 })
      const restarted = day === 8 ? a : day === 15 ? b : day === 22 ? a : undefined
      if (restarted === undefined) continue
      await restarted.kill()
      await restarted.start()
    }
    const again = await a.open(b)
    expect(again.info().id).toBe(id)
    await Promise.all(sendAll(again, 0, 1))
    expect(b.handled).toEqual(['m0'])
  })

  it('[G-46] a parked session that nobody uses for the published limit is dissolved on both sides', async () => {
    const { clock, a, b } = await two({ a: { parkedMaxMs: 3 * 86_400_000 } })
    const { id } = (await a.open(b)).info()
    for (let hour = 0; hour < 75; hour++) {
      clock.advance(3_600_000)
      await settle()
    }
    expect(a.manager.held().stored).toBe(0)
    expect(await a.manager.ended()).toContainEqual(expect.objectContaining({ id, reason: 'expired' }))
    const next = await b.open(a)
    expect(next.info().id).not.toBe(id)
    expect(b.manager.held().stored).toBe(1)
  })

  it('what stays unacknowledged beyond the age limit is returned as unknown', async () => {
    const { clock, a, b } = await two({ a: { unackedMaxMs: 600_000 } })
    const session = await a.open(b)
    await b.kill()
    await settle()
    const sent = session.send(1, A2A, text('too old')).catch((error: unknown) => error)
    await until(clock, () => kinds(a.events).includes('outcome-unknown'), 1_200_000)
    expect(await sent).toMatchObject({ code: 'SESSION_LOST', data: { reason: 'expired' } })
  })

  it('[F086] 200 messages around the moments at which the peer goes and comes arrive once each, in order', async () => {
    const { clock, a, b } = await two()
    const session = await a.open(b)
    let seed = 7
    const random = (max: number) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
      return (seed >>> 8) % max
    }
    const sends: Promise<void>[] = []
    for (let i = 0; i < 200; i++) {
      sends.push(...sendAll(session, i, i + 1))
      if (random(4) === 0) for (let turn = random(6); turn > 0; turn--) await new Promise<void>((resolve) => setImmediate(resolve))
      if (random(25) !== 0) continue
      await b.kill()
      clock.advance(random(3_000))
      await b.start()
    }
    await until(clock, () => b.handled.length >= 200)
    await Promise.all(sends)
    expect(b.handled).toEqual(words(0, 200))
  })

  it('[PSS-07] a restart of either side at each of 500 points loses nothing acked and applies nothing twice', async () => {
    for (let point = 0; point < 500; point++) {
      const { clock, a, b } = await two()
      const victim = point % 2 === 0 ? a : b
      await b.kill()
      const storing: NodeInit = { handler: (item) => b.apply(item) }
      await b.start(storing)
      const session = await a.open(b)
      const acked: string[] = []
      for (const [i, word] of words(0, 12).entries()) {
        session.send(1 + (i % 2), A2A, text(word)).then(
          () => acked.push(word),
          () => {}
        )
      }
      for (let turn = 0; turn < (point % 120) / 2; turn++) await Promise.resolve()
      for (let turn = 0; turn < point % 7; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
      await victim.kill()
      const ackedBefore = [...acked]
      await victim.start(victim === b ? storing : {})
      await until(clock, () => connected(a, b) && a.manager.list()[0]?.unacked === 0)
      await settle()
      const applied = await b.applied()
      expect([point, applied.length]).toEqual([point, new Set(applied).size])
      for (const word of ackedBefore) expect([point, applied]).toEqual([point, expect.arrayContaining([word])])
      if (victim === b) expect([point, applied.sort()]).toEqual([point, words(0, 12).sort()])
    }
  }, 60_000)

  it('[F076] counters seeded at 2^53 − 2 neither wrap nor round on disk', async () => {
    const { sessionCodec } = await import('../../../src/sessions/session-record.ts')
    const point = {
      seq: 9_007_199_254_740_990n,
      hash: new Uint8Array(32).fill(3),
      heads: new Map([[1, { seq: 2n ** 64n - 1n, digest: new Uint8Array(32).fill(4) }]])
    }
    const record = {
      sid: new Uint8Array(16).fill(1),
      local: agentOf(1).eid,
      remote: agentOf(2).eid,
      direction: 1 as const,
      flags: 5,
      sfc: new Uint8Array(32).fill(9),
      openedAtMs: 1,
      activeAtMs: 2,
      address: { peer: 'p', addrs: ['/ip4/127.0.0.1/udp/1/quic-v1'] },
      tx: point,
      rx: { ...point, seq: 4_294_967_294n }
    }
    expect(sessionCodec.decode(sessionCodec.encode(record))).toEqual(record)
    expect(toHex(sessionCodec.encode(record))).toBe(toHex(sessionCodec.encode(sessionCodec.decode(sessionCodec.encode(record)))))
  })
})
