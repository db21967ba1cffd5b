import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CLOSE, decodeClose, encodeClose } from '../../../protocol/session/close.ts'
import { ConnectionGuard } from '../../../protocol/session/connection-guard.ts'
import { cookie } from '../../../protocol/session/cookie.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { encodeInit, NO_RESUME_ID, NO_RETRY_COOKIE } from '../../../protocol/session/init.ts'
import { Responder } from '../../../protocol/session/responder.ts'
import { initTarget } from '../../../protocol/session/target.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import type { ByteStream } from '../../../src/net/byte-stream.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { PSS_PROTOCOL } from '../../../src/sessions/create-session-manager.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import { readSessionFrame } from '../../../src/sessions/frame-reader.ts'
import { initiate } from '../../../src/sessions/initiate.ts'
import { peerIds } from '../../../src/sessions/peer-bytes.ts'
import { agentOf, MemoryHost, type MemoryStream, nodeOn, Pair, settle } from './memory-net.ts'

const A2A = 0x02
const LIVE = 0x85
const text = (value: string) => new TextEncoder().encode(value)
const words = (items: { payload: Uint8Array }[]) => items.map(({ payload }) => new TextDecoder().decode(payload))

function initFrame(to: Uint8Array, salt = 1, retryCookie: Uint8Array = NO_RETRY_COOKIE): Uint8Array {
  const nonceI = new Uint8Array(32).fill(salt)
  return encodeInit({
    flags: 0,
    iCookie: cookie(new Uint8Array(8).fill(salt)),
    nonceI,
    ephI: nodeCrypto.x25519.publicKey(new Uint8Array(32).fill(salt + 1)),
    target: initTarget(nodeCrypto, to, nonceI),
    resumeId: NO_RESUME_ID,
    retryCookie
  })
}

describe('a session between two nodes', () => {
  it('opens in two round trips and names the session by both cookies, the same on both sides', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    const [theirs] = pair.b.sessions
    const info = session.info()
    expect(info).toMatchObject({ role: 'initiator', state: 'established', transport: 'memory', roundTrips: 2, remote: pair.agentB.did })
    expect(theirs?.info()).toMatchObject({ role: 'responder', id: info.id, cookies: info.cookies, roundTrips: 2, remote: pair.agentA.did })
    expect(info.cookies.initiator).toMatch(/^[0-9a-f]{16}$/)
    expect(info.cookies.responder).not.toBe('0000000000000000')
  })

  it("[PSS-01] refuses a session with one's own EID", async () => {
    const pair = await Pair.create()
    await expect(pair.a.manager.open(pair.agentA, pair.agentA.eid, { peer: pair.b.host.peer, addrs: [] })).rejects.toMatchObject({
      code: 'SESSION_REFUSED',
      data: { reason: 'self' }
    })
  })

  it('carries messages both ways on two channels, in order within each', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    const back = pair.b.sessions[0]
    await Promise.all([
      ...Array.from({ length: 50 }, (_, i) => session.send(1 + (i % 2), A2A, text(`a${i}`))),
      ...Array.from({ length: 50 }, (_, i) => back?.send(1 + (i % 2), A2A, text(`b${i}`)))
    ])
    for (const [node, letter] of [
      [pair.b, 'a'],
      [pair.a, 'b']
    ] as const) {
      for (const channel of [1, 2]) {
        const got = words(node.inbox.filter((item) => item.channel === channel))
        expect(got).toEqual(Array.from({ length: 25 }, (_, i) => `${letter}${2 * i + channel - 1}`))
      }
    }
    expect(session.info()).toMatchObject({ txSeq: '50', txAcked: '50' })
  })

  it('[PSS-03] hands a live item to the peer at once: no timer fires in between', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    await session.send(1, LIVE, text('now'))
    await pair.b.received(1)
    expect(pair.b.inbox[0]).toMatchObject({ channel: 1, kind: LIVE })
    expect(pair.clock.monotonicMs()).toBe(0)
    expect(session.info().txSeq).toBe('0')
  })

  it('resolves a durable send only when the handler of the peer has: an acknowledgment is a synced effect', async () => {
    const effect = Promise.withResolvers<void>()
    const pair = await Pair.create({ b: { handler: () => effect.promise } })
    const session = await pair.open()
    let done = false
    const sent = session.send(1, A2A, text('x')).then(() => {
      done = true
    })
    await pair.b.received(1)
    await settle()
    expect(done).toBe(false)
    effect.resolve()
    await sent
    expect(session.info()).toMatchObject({ txAcked: '1' })
  })

  it('takes a message of 1 MiB and refuses a larger one, naming the bound', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    const large = new Uint8Array(1_048_576).map((_, i) => i % 251)
    await session.send(1, A2A, large)
    expect(pair.b.inbox[0]?.payload).toEqual(large)
    await expect(session.send(1, A2A, new Uint8Array(1_048_577))).rejects.toMatchObject({
      code: 'MESSAGE_TOO_LARGE',
      field: 'payload',
      value: 1_048_577
    })
  })

  it('makes a sender wait for a slow reader, and holds no more than the window at either side', async () => {
    const gate = Promise.withResolvers<void>()
    const pair = await Pair.create({ b: { handler: () => gate.promise } })
    const session = (await pair.open()) as DurableSession
    const chunk = new Uint8Array(65_536)
    let resolved = 0
    const sends = Array.from({ length: 64 }, () =>
      session.send(1, A2A, chunk).then(() => {
        resolved += 1
      })
    )
    await pair.b.received(16)
    await settle()
    expect(pair.b.inbox).toHaveLength(16) // 1 MiB
    expect(resolved).toBe(0)
    expect(session.held().sendItems).toBe(64)
    gate.resolve()
    await Promise.all(sends)
    expect(pair.b.inbox).toHaveLength(64)
    expect(session.held()).toMatchObject({ sendItems: 0, sendBytes: 0 })
  })

  it('refuses what exceeds the bound of waiting messages, and takes the next once some are through', async () => {
    const gate = Promise.withResolvers<void>()
    const pair = await Pair.create({ b: { handler: () => gate.promise } })
    const session = await pair.open()
    const large = new Uint8Array(1_048_576)
    const sends = Array.from({ length: 64 }, () => session.send(1, A2A, large))
    await expect(session.send(1, A2A, large)).rejects.toMatchObject({ code: 'SESSION_QUEUE_FULL', data: { bytesMax: 67_108_864 } })
    gate.resolve()
    await Promise.all(sends)
    await session.send(1, A2A, large)
  })

  it('takes back a message whose sender gave up before it left', async () => {
    const gate = Promise.withResolvers<void>()
    const pair = await Pair.create({ b: { handler: () => gate.promise } })
    const session = await pair.open()
    const large = new Uint8Array(1_048_576)
    const first = session.send(1, A2A, large)
    const given = new AbortController()
    const second = session.send(1, A2A, text('given up'), { signal: given.signal })
    await pair.b.received(1)
    given.abort(new Error('enough'))
    await expect(second).rejects.toThrow('enough')
    gate.resolve()
    await first
    await session.send(1, A2A, text('after'))
    expect(words(pair.b.inbox.slice(1))).toEqual(['after'])
  })

  it('reuses a live session, and shares one that is being opened', async () => {
    const pair = await Pair.create()
    const [one, two] = await Promise.all([pair.open(), pair.open()])
    expect(two).toBe(one)
    expect(await pair.open()).toBe(one)
    expect(await pair.openBack()).toBe(pair.b.sessions[0])
    expect(pair.b.manager.held().sessions).toBe(1)
  })

  it('keeps what comes on a channel before anyone serves it, and closes the session when that exceeds its bound', async () => {
    const pair = await Pair.create({ b: { channels: [] } })
    const session = await pair.open()
    const sent = session.send(7, A2A, text('early'))
    await settle()
    const got: string[] = []
    pair.b.sessions[0]?.onChannel(7, async (item) => void got.push(...words([item])))
    await sent
    expect(got).toEqual(['early'])
    const rejected = [8, 9].map((channel) =>
      expect(session.send(channel, A2A, new Uint8Array(700_000))).rejects.toMatchObject({ code: 'SESSION_LOST' })
    )
    expect(await session.closed).toEqual({ reason: 'violation' })
    await Promise.all(rejected)
  })

  it('a handler that throws closes the session, and the sender learns that the outcome is unknown', async () => {
    const pair = await Pair.create({ b: { handler: () => Promise.reject(new Error('disk full')) } })
    const session = await pair.open()
    await expect(session.send(1, A2A, text('x'))).rejects.toMatchObject({
      code: 'SESSION_LOST',
      data: { outcome: 'unknown', reason: 'failed' }
    })
    expect(await pair.b.sessions[0]?.closed).toEqual({ reason: 'failed' })
  })
})

describe('the end of a session', () => {
  it('[TRM-01] close tells the peer by PSS_TEARDOWN and waits for its FIN-ACK', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    await session.close()
    expect(await session.closed).toEqual({ reason: 'done' })
    expect(await pair.b.sessions[0]?.closed).toEqual({ reason: 'done' })
    await expect(session.send(1, A2A, text('late'))).rejects.toMatchObject({ code: 'SESSION_CLOSED' })
    expect(pair.a.manager.held().sessions).toBe(0)
    expect(pair.b.manager.held().sessions).toBe(0)
    await settle()
    for (const { a, b } of pair.net.streams) await Promise.all([a.closed, b.closed])
    const again = await pair.open()
    expect(again.info().id).not.toBe(session.info().id)
  })

  it('[TRM-02] 10,000 queued messages arrive before TEARDOWN', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    const sends = Array.from({ length: 10_000 }, (_, i) => session.send(1 + (i % 2), A2A, text(`${i}`)))
    await session.close()
    await Promise.all(sends)
    expect(pair.b.inbox).toHaveLength(10_000)
    expect(await pair.b.sessions[0]?.closed).toEqual({ reason: 'done' })
  })

  it('a cut connection leaves a session disconnected: what is durable goes on over the next one, what is live is said to be lost', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    await session.send(1, A2A, text('before'))
    pair.net.cut(pair.a.host.peer, pair.b.host.peer)
    await settle()
    expect(session.info().state).toBe('disconnected')
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, loaded: 1, guardedConnections: 0 })
    await expect(session.send(1, LIVE, text('live'))).rejects.toMatchObject({ code: 'SESSION_LOST', data: { outcome: 'not-sent' } })
    const sent = session.send(1, A2A, text('durable'))
    await settle()
    expect(pair.b.inbox).toHaveLength(1)
    pair.clock.advance(2_500)
    await sent
    expect(pair.b.inbox.map(({ payload }) => Buffer.from(payload).toString())).toEqual(['before', 'durable'])
    expect(session.info()).toMatchObject({ state: 'established', unacked: 0 })
  })

  it('[F046] a peer that went silent is not counted as delivered: the send waits, and resolves when the peer is back', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    await session.send(1, A2A, text('heard'))
    // B freezes: nothing of it reads or answers any more.
    for (const { b } of pair.net.streams) b.readInto = () => new Promise(() => {})
    let done = false
    const sent = session.send(1, A2A, text('nobody hears')).then(() => {
      done = true
    })
    for (const ms of [14_000, 15_000]) {
      pair.clock.advance(ms)
      await settle()
      expect(done).toBe(false)
    }
    pair.clock.advance(15_500) // silence is a loss after 30 s
    await settle()
    expect(session.info().lastLoss).toMatch(/the peer went silent/)
    pair.clock.advance(2_000)
    await sent
    expect(pair.b.inbox).toHaveLength(2)
  })

  it('[F056] a killed peer that dials again makes its old session prove itself: lost after 2 s, kept where it answers', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    const dialledAgain = () => {
      for (const listener of (pair.a.host as MemoryHost).connectionListeners) listener({ peer: pair.b.host.peer, id: 'another connection' })
    }
    dialledAgain()
    await settle()
    pair.clock.advance(2_500)
    await settle()
    expect(session.info().state).toBe('established')

    for (const { b } of pair.net.streams) b.write = () => new Promise(() => {})
    const sent = session.send(1, A2A, text('to the one before'))
    await settle()
    dialledAgain()
    await settle()
    pair.clock.advance(2_500)
    await settle()
    expect(session.info().state).toBe('disconnected')
    pair.clock.advance(2_000)
    await sent
    expect(pair.b.inbox.map(({ payload }) => Buffer.from(payload).toString())).toEqual(['to the one before'])
  })

  it('a record that does not open ends the epoch, neither the session nor the connection', async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    await session.send(1, A2A, text('x'))
    const carrier = pair.net.streams[1] as { a: MemoryStream }
    const { cookies } = session.info()
    const forged = new Uint8Array(24 + 72 + 10)
    forged.set([1, FRAME.DATA_STREAM, 0, 0, 0, 0, 0, 82])
    forged.set(Buffer.from(cookies.initiator + cookies.responder, 'hex'), 8)
    forged.fill(0xff, 24, 32)
    await carrier.a.write(forged)
    await settle()
    expect(pair.b.sessions[0]?.info().state).toBe('disconnected')
    expect(session.info().state).toBe('disconnected')
    expect(await pair.open()).toBe(session)
    expect(session.info().state).toBe('established')
  })

  it('[PSS-21] stop leaves every session as it is: the peer sees it disconnected, and who waits here is told', async () => {
    const pair = await Pair.create({ b: { handler: () => new Promise(() => {}) } })
    const session = await pair.open()
    const sent = expect(session.send(1, A2A, text('never acknowledged'))).rejects.toMatchObject({
      code: 'SESSION_LOST',
      data: { outcome: 'unknown', reason: 'shutdown' }
    })
    await pair.b.received(1)
    await pair.a.manager.stop()
    await sent
    expect(await session.closed).toEqual({ reason: 'shutdown' })
    await settle()
    expect(pair.b.sessions[0]?.info().state).toBe('disconnected')
    expect(pair.a.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
    await expect(pair.openBack()).rejects.toMatchObject({ code: 'DIAL_FAILED' })
    await expect(pair.open()).rejects.toMatchObject({ code: 'SESSION_CLOSED' })
  })
})

describe('opening under load, refusal and attack', () => {
  it('refuses an agent that the node does not host', async () => {
    const pair = await Pair.create()
    await expect(pair.a.manager.open(pair.agentA, agentOf(0x77).eid, { peer: pair.b.host.peer, addrs: [] })).rejects.toMatchObject({
      code: 'HANDSHAKE_FAILED',
      data: { reason: 'TARGET' }
    })
  })

  it('a refusal by policy is a TEARDOWN under the new keys and leaves nothing behind', async () => {
    const pair = await Pair.create({ b: { policy: () => ({ admit: false, reason: 'policy' }) } })
    await expect(pair.open()).rejects.toMatchObject({ code: 'SESSION_REFUSED', data: { reason: 'policy' } })
    expect(pair.b.sessions).toEqual([])
    await settle()
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
  })

  it('[PSS-14] answers no ordinary NEG at capacity: RETRY with a wait, then busy', async () => {
    const pair = await Pair.create({ b: { sessionsMax: 1, fullWaitSeconds: 2 } })
    await pair.open()
    const third = await nodeOn(new MemoryHost(pair.net, 3), pair.clock, [agentOf(0xc3)], {}, 3)
    const opening = third.manager.open(third.agents[0] as never, pair.agentB.eid, { peer: pair.b.host.peer, addrs: [] })
    const refused = expect(opening).rejects.toMatchObject({ code: 'SESSION_BUSY' })
    await settle()
    const { a } = pair.net.streams.at(-1) as { a: MemoryStream }
    expect(a.incoming.carried).toBe(24 + 18) // RETRY, nothing computed
    pair.clock.advance(2_000)
    await refused
    expect(pair.b.manager.held().sessions).toBe(1)
  })

  it('a busy responder asks to come back with a cookie, and then serves: three round trips', async () => {
    const pair = await Pair.create({ b: { handshakesBurst: 1, handshakesPerSecond: 0.5 } })
    await pair.open()
    const third = await nodeOn(new MemoryHost(pair.net, 3), pair.clock, [agentOf(0xc3)], {}, 3)
    const opening = third.manager.open(third.agents[0] as never, pair.agentB.eid, { peer: pair.b.host.peer, addrs: [] })
    await settle()
    pair.clock.advance(2_000)
    const session = await opening
    expect(session.info().roundTrips).toBe(3)
    expect(pair.b.sessions[1]?.info().roundTrips).toBe(3)
  })

  it('own openings beyond sessionsMax are refused before anything is sent', async () => {
    const pair = await Pair.create({ a: { sessionsMax: 1 } })
    await pair.open()
    await expect(pair.a.manager.open(pair.agentA, agentOf(0x55).eid, { peer: pair.b.host.peer, addrs: [] })).rejects.toMatchObject({
      code: 'SESSION_BUSY',
      field: 'sessionsMax'
    })
  })

  it.each([
    [CLOSE.BUSY, 'SESSION_BUSY', 'BUSY'],
    [CLOSE.COOKIE, 'HANDSHAKE_FAILED', 'COOKIE']
  ])('an ACK that is answered CLOSE (%s) is told as %s, with its hint', async (code, error, reason) => {
    const pair = await Pair.create()
    const responder = new Responder<never>({
      crypto: nodeCrypto,
      random: (length) => seededRandom(9).bytes(length),
      nowMs: 0,
      identities: () => [pair.agentB.signer],
      load: () => ({ state: 'free' }),
      offer: () => ({}),
      policy: () => ({ kind: 'accept' })
    })
    await pair.b.host.unhandle(PSS_PROTOCOL)
    await pair.b.host.handle(PSS_PROTOCOL, async (stream) => {
      const { frame } = await readSessionFrame(stream)
      const connection = {
        peers: peerIds(pair.b.host.peer, stream.connection, 'responder'),
        remoteAddr: text('x'),
        guard: new ConnectionGuard()
      }
      const step = responder.receive(frame, connection, 0)
      if (step.kind === 'send') await stream.write(step.frame)
      const { header } = await readSessionFrame(stream)
      await stream.write(encodeClose(code, { i: header.iCookie, r: header.rCookie }))
      await stream.close()
    })
    await expect(pair.open()).rejects.toMatchObject({ code: error, data: { reason } })
    expect(pair.a.manager.held()).toMatchObject({ sessions: 0, ownExchanges: 0 })
  })

  /** The code of the one CLOSE that came, and nothing after it. */
  async function closeOn(stream: ByteStream): Promise<number> {
    const { frame } = await readSessionFrame(stream)
    await expect(stream.read(1)).rejects.toMatchObject({ code: 'STREAM_ENDED' })
    return decodeClose(frame).code
  }

  it.each(['INIT', 'ACK'])('[PSS-11] a malformed header in place of %s is answered CLOSE, then the stream ends', async (place) => {
    const pair = await Pair.create()
    const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
    if (place === 'ACK') {
      await stream.write(initFrame(pair.agentB.eid))
      await readSessionFrame(stream)
    }
    await stream.write(new Uint8Array(24).fill(7))
    expect(await closeOn(stream)).toBe(CLOSE.MALFORMED)
    await settle()
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
  })

  it('[PSS-11] a caller that stalls is answered CLOSE (late)', async () => {
    const pair = await Pair.create()
    const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
    await stream.write(initFrame(pair.agentB.eid).subarray(0, 30))
    await settle()
    pair.clock.advance(10_000)
    expect(await closeOn(stream)).toBe(CLOSE.LATE)
  })

  it('[PSS-11] a malformed header in place of NEG is answered CLOSE, and the caller is told what was wrong with it', async () => {
    const pair = await Pair.create()
    const answered = Promise.withResolvers<number>()
    await pair.b.host.unhandle(PSS_PROTOCOL)
    await pair.b.host.handle(PSS_PROTOCOL, async (stream) => {
      await readSessionFrame(stream)
      await stream.write(new Uint8Array(24).fill(7))
      answered.resolve(decodeClose((await readSessionFrame(stream)).frame).code)
    })
    await expect(pair.open()).rejects.toMatchObject({ code: 'HANDSHAKE_FAILED', data: { reason: 'FRAME_VERSION' } })
    expect(await answered.promise).toBe(CLOSE.MALFORMED)
  })

  it('lets go of the cookie pair where the agent is removed between policy and session', async () => {
    let removed: LocalAgent | undefined
    const pair = await Pair.create({
      b: {
        policy: () => {
          removed ??= pair.b.agents.pop()
          return { admit: true }
        }
      }
    })
    const to = { eid: pair.agentB.eid, address: { peer: pair.b.host.peer, addrs: [] } }
    await expect(pair.a.manager.open(pair.agentA, to.eid, to.address)).rejects.toMatchObject({ data: { reason: 'TARGET' } })
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, spentPairs: 1 })
    pair.b.agents.push(removed as LocalAgent)
    pair.clock.advance(180_001)
    await pair.a.manager.open(pair.agentA, to.eid, to.address)
    expect(pair.b.manager.held()).toMatchObject({ sessions: 1, spentPairs: 1 }) // the live one's
  })

  it('drops a peer that stalls in the handshake after 10 s, at whatever byte', async () => {
    const pair = await Pair.create()
    const frame = initFrame(pair.agentB.eid)
    for (const length of [0, 10, 24, 100, 256]) {
      const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
      if (length > 0) await stream.write(frame.subarray(0, length))
      await settle()
      expect(pair.b.manager.held().pendingHandshakes).toBe(1)
      pair.clock.advance(9_999)
      await settle()
      expect(pair.b.manager.held().pendingHandshakes).toBe(1)
      pair.clock.advance(1)
      await settle()
      expect(pair.b.manager.held().pendingHandshakes).toBe(0)
      await (stream as MemoryStream).closed
    }
  })

  it('[F103] drops a caller that proves itself and then sends no READY, after 10 s', async () => {
    const pair = await Pair.create()
    const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
    const { signal } = new AbortController()
    const components = { crypto: nodeCrypto, clock: pair.clock, random: seededRandom(5), self: pair.a.host.peer }
    const { ack } = await initiate(components, stream, pair.agentA, pair.agentB.eid, { signal })
    await stream.write(ack)
    await settle()
    expect(pair.b.manager.held()).toMatchObject({ sessions: 1, spentPairs: 1 })
    expect(pair.b.manager.list()).toEqual([])
    pair.clock.advance(10_000)
    await stream.closed
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
    pair.clock.advance(180_001)
    const session = await pair.open()
    await session.close()
    expect(pair.b.manager.held().spentPairs).toBe(1) // the last one's, for 180 s
  })

  it('a responder that never answers is given up after 10 s', async () => {
    const pair = await Pair.create()
    await pair.b.host.unhandle(PSS_PROTOCOL)
    await pair.b.host.handle(PSS_PROTOCOL, async () => {})
    const opening = expect(pair.open()).rejects.toMatchObject({ code: 'HANDSHAKE_FAILED', data: { reason: 'TIMEOUT' } })
    await settle()
    pair.clock.advance(10_000)
    await opening
    expect(pair.a.manager.held().ownExchanges).toBe(0)
  })

  it('both open at once: one session comes about, and both callers hold it', async () => {
    for (const seeds of [
      [0xa1, 0xb2],
      [0xb2, 0xa1]
    ] as [number, number][]) {
      const pair = await Pair.create({ seeds })
      const [one, two] = await Promise.all([pair.open(), pair.openBack()])
      expect(one.info().id).toBe(two.info().id)
      await one.send(1, A2A, text('there'))
      await two.send(1, A2A, text('back'))
      expect(words(pair.b.inbox)).toEqual(['there'])
      expect(words(pair.a.inbox)).toEqual(['back'])
      expect(pair.a.manager.held()).toMatchObject({ sessions: 1, ownExchanges: 0 })
      expect(pair.b.manager.held()).toMatchObject({ sessions: 1, ownExchanges: 0 })
    }
  })

  it('a peer that lost its memory opens anew: the newest valid ACK takes the session over', async () => {
    const pair = await Pair.create()
    await pair.open()
    const before = pair.b.sessions[0]
    const restarted = await nodeOn(new MemoryHost(pair.net, 1), pair.clock, [pair.agentA], {}, 9)
    const session = await restarted.manager.open(pair.agentA, pair.agentB.eid, { peer: pair.b.host.peer, addrs: [] })
    expect(await before?.closed).toEqual({ reason: 'superseded' })
    expect(pair.b.manager.list().map(({ id }) => id)).toEqual([session.info().id])
  })

  it('a restarted peer is let in after 10 s where the other side still holds a young session of its own', async () => {
    for (const seeds of [
      [0xa1, 0xb2],
      [0xb2, 0xa1]
    ] as [number, number][]) {
      const pair = await Pair.create({ seeds })
      const stale = await pair.openBack() // B's own exchange
      const restarted = await nodeOn(new MemoryHost(pair.net, 1), pair.clock, [pair.agentA], {}, 9)
      const opening = restarted.manager.open(pair.agentA, pair.agentB.eid, { peer: pair.b.host.peer, addrs: [] })
      await settle()
      pair.clock.advance(10_000)
      const session = await opening
      expect(await stale.closed).toEqual({ reason: 'superseded' })
      expect(pair.b.manager.list().map(({ id }) => id)).toEqual([session.info().id])
    }
  })

  it("a stream with another peer's cookies is dropped and the session goes on", async () => {
    const pair = await Pair.create()
    const session = await pair.open()
    const thief = new MemoryHost(pair.net, 9)
    const { cookies } = session.info()
    const frame = new Uint8Array(24 + 72)
    frame.set([1, FRAME.DATA_STREAM, 0, 0, 0, 0, 0, 72])
    frame.set(Buffer.from(cookies.initiator + cookies.responder, 'hex'), 8)
    const stream = await thief.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
    await stream.write(frame)
    await stream.closed
    await session.send(1, A2A, text('still here'))
  })

  it('[F050] resets the unread side of a stream that it refuses: 500 of 500 sessions open afterwards', async () => {
    const pair = await Pair.create()
    const junk = new Uint8Array(1_000).fill(7)
    for (let i = 0; i < 500; i++) {
      const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
      await stream.write(junk)
      await stream.closed
    }
    for (let i = 0; i < 500; i++) {
      pair.clock.advance(10_000)
      const session = await pair.open()
      await session.close()
    }
    expect(pair.b.sessions).toHaveLength(500)
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
  })

  it('[F103] [PSS-16] 20,000 handshakes broken off at random points leave nothing behind', async () => {
    const pair = await Pair.create({ b: { handshakesBurst: 50 } })
    let seed = 1
    const random = (max: number) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
      return seed % max
    }
    const frame = initFrame(pair.agentB.eid)
    for (let i = 0; i < 20_000; i++) {
      const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
      const bytes = frame.subarray(0, random(4) === 0 ? 256 : random(256))
      if (bytes.length > 0) await stream.write(bytes)
      if (random(2) === 0) stream.reset(new Error('gone'))
      else pair.net.cut(pair.a.host.peer, pair.b.host.peer)
      pair.net.streams.length = 0
      if (i % 1_000 === 999) await settle()
    }
    await settle()
    expect(pair.b.manager.held()).toEqual({
      sessions: 0,
      loaded: 0,
      stored: 0,
      pendingHandshakes: 0,
      ownExchanges: 0,
      spentPairs: 0,
      guardedConnections: expect.any(Number),
      guardedSources: 1
    })
    expect(pair.b.manager.held().guardedConnections).toBeLessThanOrEqual(1)
    pair.clock.advance(60_000)
    await (await pair.open()).close()
  })

  it('meets arbitrary first bytes with a reset, never with a session', async () => {
    const pair = await Pair.create()
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 400 }), async (bytes) => {
        const stream = await pair.a.host.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
        await stream.write(bytes).catch(() => {})
        await stream.closeWrite()
        await stream.closed
        expect(pair.b.manager.held()).toMatchObject({ sessions: 0 })
        pair.net.cut(pair.a.host.peer, pair.b.host.peer)
      }),
      { numRuns: 100 }
    )
  })
})
