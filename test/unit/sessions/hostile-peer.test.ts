import { describe, expect, it } from 'vitest'
import { toHex } from '../../../protocol/bytes.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { PSS_PROTOCOL } from '../../../src/sessions/create-session-manager.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import { IN_HAND_BYTES_ALL_MAX, UNSERVED_BYTES_MAX } from '../../../src/sessions/inbox.ts'
import { initiate } from '../../../src/sessions/initiate.ts'
import { LARGE_FRAMES_PER_PEER_MAX, LargeFrames } from '../../../src/sessions/large-frames.ts'
import { ManagerState } from '../../../src/sessions/manager-state.ts'
import { ATTEMPTS_MAX } from '../../../src/sessions/reconnects.ts'
import { SessionStore, TOMBSTONES_MAX } from '../../../src/sessions/session-store.ts'
import type { SessionManagerComponents, SessionManagerInit } from '../../../src/sessions/settings.ts'
import { EseStore } from '../../../src/state/ese-store.ts'
import { memoryKeySlots } from '../../../src/state/key-slots.ts'
import { agentOf, MemoryHost, MemoryNet, memoryStore, type Node, nodeOn, Pair, settle } from './memory-net.ts'
import { RotatingNode } from './rotating-node.ts'

const A2A = 0x02
const LIVE = 0x85
const MIB = 1_048_576
const text = (value: string) => new TextEncoder().encode(value)

function header(type: number, bodyBytes: number, cookies = '0011223344556677'.repeat(2)): Uint8Array {
  const frame = new Uint8Array(24)
  frame.set([1, type])
  new DataView(frame.buffer).setUint32(4, bodyBytes)
  frame.set(Buffer.from(cookies, 'hex'), 8)
  return frame
}

describe('a stranger that announces much and sends little', () => {
  it.each([
    ['a record of a session that it does not have', FRAME.DATA_STREAM],
    ['a TEARDOWN', FRAME.TEARDOWN],
    ['a REVOCATION_PUBLISH', FRAME.REVOCATION_PUBLISH]
  ])('[PSS-12] [PSS-16] [F059] is turned away at the header: %s of 1 MiB is never waited for', async (_, type) => {
    const pair = await Pair.create()
    const stranger = new MemoryHost(pair.net, 9)
    const stream = await stranger.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
    await stream.write(header(type, 1_052_672))
    await settle()
    await expect(stream.write(new Uint8Array(1))).rejects.toThrow()
    expect(pair.b.manager.held().pendingHandshakes).toBe(0)
  })

  it("[PSS-12] is turned away with another peer's cookies, too, though the session is there", async () => {
    const pair = await Pair.create()
    const { cookies } = (await pair.open()).info()
    const stranger = new MemoryHost(pair.net, 9)
    const stream = await stranger.openStream({ peer: pair.b.host.peer, addrs: [] }, PSS_PROTOCOL)
    await stream.write(header(FRAME.DATA_STREAM, 1_052_672, cookies.initiator + cookies.responder))
    await settle()
    await expect(stream.write(new Uint8Array(1))).rejects.toThrow()
  })
})

describe('a caller that withholds its READY', () => {
  it('[PSS-12] [PSS-16] [F059] is not read on its other streams, and loses them with the session after 10 s', async () => {
    const pair = await Pair.create()
    const host = new MemoryHost(pair.net, 9)
    const agent = agentOf(9)
    const address = { peer: pair.b.host.peer, addrs: [] }
    const control = await host.openStream(address, PSS_PROTOCOL)
    const components = { crypto: nodeCrypto, clock: pair.clock, random: seededRandom(9), self: host.peer }
    const { established, ack } = await initiate(components, control, agent, pair.agentB.eid, { signal: new AbortController().signal })
    await control.write(ack)
    await settle()
    const { i, r } = established.cookies
    const further = await host.openStream(address, PSS_PROTOCOL)
    await further.write(header(FRAME.DATA_STREAM, 200_000, toHex(i) + toHex(r)))
    await further.write(new Uint8Array(200_000))
    await settle()
    expect(further.outgoing.bytes).toBe(200_000)
    pair.clock.advance(10_000)
    await settle()
    await expect(further.write(new Uint8Array(1))).rejects.toThrow()
    expect(pair.b.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
  })
})

describe('large frames under way', () => {
  it('[F059] are 16 of one peer at most; the next waits for a place, and other peers do not', async () => {
    const frames = new LargeFrames()
    const bad = frames.of('bad')
    const places = await Promise.all(Array.from({ length: LARGE_FRAMES_PER_PEER_MAX }, () => bad.enter()))
    let entered = false
    const next = bad.enter().then((leave) => {
      entered = true
      return leave
    })
    await settle()
    expect(entered).toBe(false)
    const leaveGood = await frames.of('good').enter()
    expect(frames.reading).toBe(LARGE_FRAMES_PER_PEER_MAX + 1)
    places[0]?.()
    places[0]?.() // once is enough
    const leaveNext = await next
    expect(frames.reading).toBe(LARGE_FRAMES_PER_PEER_MAX + 1)
    for (const leave of [...places.slice(1), leaveNext, leaveGood]) leave()
    expect(frames.reading).toBe(0)
  })

  it('[F059] lose no place to a reader that gave up while it waited', async () => {
    const frames = new LargeFrames()
    const bad = frames.of('bad')
    const places = await Promise.all(Array.from({ length: LARGE_FRAMES_PER_PEER_MAX }, () => bad.enter()))
    const patience = new AbortController()
    const given = bad.enter({ signal: patience.signal })
    patience.abort(new Error('enough'))
    await expect(given).rejects.toThrow('enough')
    for (const leave of places) leave()
    await settle()
    expect(frames.reading).toBe(0)
  })
})

/** Cuts the connection and takes the session up again. */
async function again(pair: Pair): Promise<DurableSession> {
  pair.net.cut(pair.a.host.peer, pair.b.host.peer)
  await settle()
  return (await pair.open()) as DurableSession
}

describe('a peer that takes a session up again and again', () => {
  it('[PSS-17] [F059] gets no new room for live items that nobody serves: those of ended connections go first', async () => {
    const pair = await Pair.create()
    let session = (await pair.open()) as DurableSession
    const theirs = pair.b.sessions[0] as DurableSession
    for (let i = 0; i < 6; i++) {
      await session.send(9, LIVE, new Uint8Array(900_000))
      await settle()
      expect(theirs.held().unservedBytes).toBeLessThanOrEqual(UNSERVED_BYTES_MAX)
      session = await again(pair)
    }
    expect(theirs.isOver).toBe(false)
  })

  it('[PSS-17] [F059] gets no new room for transactions that nobody serves: 1 MiB a session, over all connections', async () => {
    const pair = await Pair.create()
    const session = (await pair.open()) as DurableSession
    const theirs = pair.b.sessions[0] as DurableSession
    session.send(9, A2A, new Uint8Array(900_000)).catch(() => {})
    await settle()
    await again(pair)
    expect(theirs.isOver).toBe(false)
    session.send(9, A2A, new Uint8Array(900_000)).catch(() => {})
    expect(await theirs.closed).toEqual({ reason: 'violation' })
  })

  it('[PSS-17] [F059] is not read on a channel whose handlers still have two windows of what came before, and is once they let go', async () => {
    const gate = Promise.withResolvers<void>()
    const pair = await Pair.create({ b: { handler: () => gate.promise } })
    let session = (await pair.open()) as DurableSession
    for (let i = 0; i < 3; i++) {
      if (i > 0) session = await again(pair)
      session.send(1, LIVE, new Uint8Array(1_000_000)).catch(() => {})
      await settle()
    }
    session.send(1, LIVE, text('behind them')).catch(() => {})
    session.send(2, LIVE, text('another channel goes on')).catch(() => {})
    await settle()
    expect(pair.b.inbox.map(({ channel }) => channel)).toEqual([1, 1, 1, 2])
    gate.resolve()
    await pair.b.received(5)
  })

  it('[PSS-17] [F059] makes handlers hold 8 MiB and a record at most, however often it does', async () => {
    const gate = Promise.withResolvers<void>()
    const pair = await Pair.create({ b: { handler: () => gate.promise } })
    let session = (await pair.open()) as DurableSession
    for (let i = 0; i < 14; i++) {
      session.send(1, LIVE, new Uint8Array(1_000_000)).catch(() => {})
      await settle()
      session = await again(pair)
    }
    const held = pair.b.inbox.length * 1_000_000
    expect(held).toBeGreaterThan(IN_HAND_BYTES_ALL_MAX - MIB)
    expect(held).toBeLessThanOrEqual(IN_HAND_BYTES_ALL_MAX + MIB)
    session.send(1, LIVE, text('now')).catch(() => {})
    gate.resolve()
    await pair.b.received(pair.b.inbox.length + 1)
    expect(pair.b.inbox.at(-1)?.payload).toEqual(text('now'))
  })
})

describe('what the node keeps of events and of ends', () => {
  it('[F059] holds no payload: what was never acknowledged goes to the listeners, not into the list for people', async () => {
    const pair = await Pair.create({ b: { handler: () => new Promise(() => {}) } })
    const session = await pair.open()
    const told: Uint8Array[] = []
    pair.a.manager.onEvent((event) => {
      if (event.kind === 'outcome-unknown') told.push(event.entry.payload)
    })
    session.send(1, A2A, new Uint8Array(1_000_000)).catch(() => {})
    await pair.b.received(1)
    ;(session as DurableSession).abort('failed')
    await settle()
    expect(told.map(({ length }) => length)).toEqual([1_000_000])
    const kept = pair.a.manager.recent().filter((event) => event.kind === 'outcome-unknown')
    expect(kept).toHaveLength(1)
    expect(kept[0]?.kind === 'outcome-unknown' && kept[0].entry.payload.length).toBe(0)
  })

  it('[PSS-21] keeps about 1,000 tombstones also between two sweeps, the newest', async () => {
    const store = new SessionStore(memoryStore())
    for (let i = 0; i < 2_500; i++) {
      const id = i.toString(16).padStart(32, '0')
      await store.commit(await store.gone(id, { id, local: 'l', remote: 'r', reason: 'done', endedAtMs: i }))
    }
    const kept = await store.tombstones()
    expect(kept.length).toBeLessThanOrEqual(TOMBSTONES_MAX + 130)
    expect(kept.at(-1)?.endedAtMs).toBe(2_499)
  })
})

/** Callers on one host, each with an EID of its own. */
async function crowd(net: MemoryNet, clock: ManualClock, seed: number, count: number): Promise<Node> {
  return await nodeOn(
    new MemoryHost(net, seed),
    clock,
    Array.from({ length: count }, (_, i) => agentOf(seed * 16 + i)),
    {},
    seed
  )
}

async function tryOpen(from: Node, agent: LocalAgent, to: Node): Promise<'open' | 'refused'> {
  try {
    await from.manager.open(agent, (to.agents[0] as LocalAgent).eid, { peer: to.host.peer, addrs: [] })
    return 'open'
  } catch {
    return 'refused'
  }
}

/** Time passes, and pings are answered. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 5_000) {
    clock.advance(5_000)
    await settle()
  }
}

describe('a crowd of cheap EIDs', () => {
  it('[PSS-14] [F059] fills no disk with sessions that hold nothing: they make room, those that were used stay', async () => {
    const [net, clock] = [new MemoryNet(), new ManualClock()]
    const node = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(1)], { storedMax: 20, sources: { peerPerMinute: 1_000 } })
    const friend = await crowd(net, clock, 2, 1)
    const session = await friend.manager.open(friend.agents[0] as LocalAgent, agentOf(1).eid, { peer: node.host.peer, addrs: [] })
    await session.send(1, A2A, text('worth keeping'))
    net.cut(friend.host.peer, node.host.peer)
    let refused = 0
    for (let host = 3; host < 12; host++) {
      const callers = await crowd(net, clock, host, 8)
      for (const agent of callers.agents) {
        if ((await tryOpen(callers, agent, node)) === 'refused') refused += 1
        await settle()
      }
      await callers.manager.stop() // they vanish: nobody takes these sessions up again
      net.cut(callers.host.peer, node.host.peer)
      await settle()
      expect(node.manager.held().stored).toBeLessThanOrEqual(20)
    }
    expect(refused).toBe(0)
    expect(await node.manager.get(session.info().id)).toBeDefined()
  })

  it('[PSS-14] [F059] behind one PeerId gets half of the sessions at most: others still come in', async () => {
    const [net, clock] = [new MemoryNet(), new ManualClock()]
    const node = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(1)], { sessionsMax: 20, sources: { peerPerMinute: 1_000 } })
    const many = await crowd(net, clock, 2, 15)
    const outcomes: string[] = []
    for (const agent of many.agents) {
      if (outcomes.length === 8) await pass(clock, 60_000) // no connection gets more handshakes a minute
      outcomes.push(await tryOpen(many, agent, node))
    }
    expect(outcomes.filter((one) => one === 'open')).toHaveLength(10)
    const other = await crowd(net, clock, 3, 1)
    expect(await tryOpen(other, other.agents[0] as LocalAgent, node)).toBe('open')
  })

  it('[PSS-14] [F059] does not keep our own agents from calling: a tenth more is theirs', async () => {
    const [net, clock] = [new MemoryNet(), new ManualClock()]
    const node = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(1)], { sessionsMax: 10, storedMax: 10, fullWaitSeconds: 0 })
    for (const seed of [2, 3]) {
      const callers = await crowd(net, clock, seed, 5)
      for (const agent of callers.agents) expect(await tryOpen(callers, agent, node)).toBe('open')
    }
    const called = await crowd(net, clock, 4, 2)
    expect(await tryOpen(called, called.agents[0] as LocalAgent, node)).toBe('refused')
    expect(await tryOpen(node, agentOf(1), called)).toBe('open')
  })

  it('[OD-24] says that it is the disk that is full of sessions, where fewer are connected than may be', async () => {
    const [net, clock] = [new MemoryNet(), new ManualClock()]
    const node = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(1)], { sessionsMax: 100, storedMax: 2 })
    const called = await crowd(net, clock, 2, 3)
    const opening = (agent: LocalAgent) => node.manager.open(agentOf(1), agent.eid, { peer: called.host.peer, addrs: [] })
    for (const agent of called.agents.slice(0, 2)) await opening(agent)
    await expect(opening(called.agents[2] as LocalAgent)).rejects.toMatchObject({
      code: 'SESSION_BUSY',
      field: 'sessionsMax',
      message: 'this node already keeps 2 sessions, those included that only its disk holds',
      data: { reason: 'storedMax', max: 2 }
    })
  })

  it('[OD-24] keeps as many on disk as may be connected, however many those are', async () => {
    const store = memoryStore()
    const eses = await EseStore.open({ store, crypto: nodeCrypto, keys: memoryKeySlots(seededRandom(1)) })
    const components = {
      store,
      logger: silentLogger,
      agents: { byEid: () => undefined, list: () => [] }
    } as unknown as SessionManagerComponents
    const stored = (init: SessionManagerInit) => new ManagerState(components, init, eses).storedMax
    expect([stored({}), stored({ sessionsMax: 5_000 }), stored({ sessionsMax: 20_000 })]).toEqual([10_000, 10_000, 20_000])
  })
})

describe('peers that acknowledge nothing', () => {
  it('[PSS-20] [F059] make their journals grow to what the node has for all of them; who has little in its own may go on', async () => {
    const [net, clock] = [new MemoryNet(), new ManualClock()]
    const node = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(1)], { sendBytesAllMax: 4 * MIB })
    const never = await nodeOn(new MemoryHost(net, 2), clock, [agentOf(2)], { handler: () => new Promise(() => {}) }, 2)
    const friend = await nodeOn(new MemoryHost(net, 3), clock, [agentOf(3)], {}, 3)
    const open = (to: Node) =>
      node.manager.open(agentOf(1), (to.agents[0] as LocalAgent).eid, { peer: to.host.peer, addrs: [] }) as Promise<DurableSession>
    const [greedy, modest] = [await open(never), await open(friend)]
    let full: unknown
    for (let i = 0; i < 10 && full === undefined; i++)
      greedy.send(1, A2A, new Uint8Array(1_000_000)).catch((error: unknown) => (full ??= error))
    await settle()
    expect(full).toMatchObject({ code: 'SESSION_QUEUE_FULL' })
    expect(greedy.held().sendBytes).toBeLessThanOrEqual(4 * MIB)
    await modest.send(1, A2A, new Uint8Array(1_000_000)) // all that waits is the other's
  })
})

describe('a session that only the disk holds', () => {
  it('[PSS-21] is not announced just to be ended: superseded by a peer that lost its memory, or dismissed', async () => {
    for (const how of ['superseded', 'policy']) {
      const pair = await Pair.create()
      const old = await pair.open()
      await old.send(1, A2A, text('x'))
      await pair.b.manager.stop()
      pair.net.cut(pair.a.host.peer, pair.b.host.peer)
      const b = await nodeOn(pair.b.host, pair.clock, [pair.agentB], { store: pair.b.store, parkAfterMs: 0 }, 3)
      const forgetful = await nodeOn(new MemoryHost(pair.net, 1), pair.clock, [pair.agentA], {}, 9)
      if (how === 'policy') await b.manager.dismiss(() => true)
      else await forgetful.manager.open(pair.agentA, pair.agentB.eid, { peer: b.host.peer, addrs: [] })
      await settle()
      expect(b.sessions.map((session) => session.info().id)).not.toContain(old.info().id)
      expect(await b.manager.ended()).toMatchObject([{ id: old.info().id, reason: how }])
    }
  })
})

describe('a peer that crashes again within 10 s', () => {
  it('[PSS-07] [G-43] is let in at once: its exchange began after the READY of ours', async () => {
    for (const seeds of [
      [0xa1, 0xb2],
      [0xb2, 0xa1]
    ] as [number, number][]) {
      const pair = await Pair.create({ seeds })
      const stale = await pair.openBack() // B's own exchange, whichever EID is the smaller
      pair.clock.advance(1)
      const restarted = await nodeOn(new MemoryHost(pair.net, 1), pair.clock, [pair.agentA], {}, 9)
      const session = await restarted.manager.open(pair.agentA, pair.agentB.eid, { peer: pair.b.host.peer, addrs: [] })
      expect(await stale.closed).toEqual({ reason: 'superseded' })
      expect(session.info().state).toBe('established')
      expect(pair.clock.monotonicMs()).toBe(1)
    }
  })
})

describe('a rotation with many parked sessions', () => {
  it('[PSS-21] [G-73] needs no memory for them until their turn comes, and reaches all of them', async () => {
    const [net, clock] = [new MemoryNet(), new ManualClock()]
    const rotating = await RotatingNode.create(net, clock, 1, { parkAfterMs: 60_000 })
    const hosts = await Promise.all(Array.from({ length: 12 }, (_, i) => crowd(net, clock, 3 + i, 3)))
    const peers = hosts.flatMap((host) => host.agents.map((agent) => ({ host, agent })))
    for (const { host, agent } of peers) {
      const session = await rotating.node.manager.open(rotating.agent, agent.eid, { peer: host.host.peer, addrs: [] })
      await session.send(1, A2A, text('x'))
    }
    await pass(clock, 180_000)
    expect(rotating.node.manager.held()).toMatchObject({ loaded: 0, stored: peers.length })
    await rotating.rotate()
    expect(rotating.node.manager.held().loaded).toBe(0)
    let atOnceMax = 0
    for (let i = 0; i < 100 && rotating.node.manager.unsettled(rotating.agent).length > 0; i++) {
      clock.advance(1_000)
      atOnceMax = Math.max(atOnceMax, rotating.node.manager.held().ownExchanges)
      await settle()
    }
    expect(rotating.node.manager.unsettled(rotating.agent)).toEqual([])
    expect(atOnceMax).toBeLessThanOrEqual(ATTEMPTS_MAX)
  })
})
