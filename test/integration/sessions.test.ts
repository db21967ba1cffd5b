import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, expect, it } from 'vitest'
import { FRAME } from '../../protocol/session/header.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { PSS_PROTOCOL } from '../../src/sessions/create-session-manager.ts'
import type { DurableSession } from '../../src/sessions/durable-session.ts'
import { readSessionFrame } from '../../src/sessions/frame-reader.ts'
import { agentOf, type Node, type NodeInit, nodeOn } from '../unit/sessions/memory-net.ts'
import { addressOf, startHost, stopHosts } from './host-fixture.ts'

const A2A = 0x02
const LIVE = 0x85
const text = (value: string) => new TextEncoder().encode(value)
const words = (items: { payload: Uint8Array }[]) => items.map(({ payload }) => new TextDecoder().decode(payload))

const nodes: Node[] = []
const children: ChildProcess[] = []

async function node(agents: LocalAgent[], init: NodeInit = {}, seed = 1): Promise<Node> {
  const one = await nodeOn(await startHost(), systemClock, agents, init, seed)
  nodes.push(one)
  return one
}

async function two(init: { a?: NodeInit; b?: NodeInit } = {}) {
  const a = await node([agentOf(0xa1)], init.a, 1)
  const b = await node([agentOf(0xb2)], init.b, 2)
  const open = () => a.manager.open(agentOf(0xa1), agentOf(0xb2).eid, addressOf(b.host))
  return { a, b, open }
}

interface Message {
  kind: 'listening' | 'session' | 'handled' | 'closed'
  address: PeerAddress
  text: string
  channel: number
}

/** The other node in a process of its own. */
async function process2(): Promise<{ child: ChildProcess; address: PeerAddress; handled: string[]; until(count: number): Promise<void> }> {
  const child = fork(new URL('./session-process.ts', import.meta.url), [], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  children.push(child)
  const handled: string[] = []
  child.on('message', (message: Message) => {
    if (message.kind === 'handled') handled.push(message.text)
  })
  const [first] = (await once(child, 'message')) as [Message]
  return {
    child,
    address: first.address,
    handled,
    async until(count) {
      while (handled.length < count) await once(child, 'message')
    }
  }
}

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
  await Promise.all(nodes.splice(0).map((one) => one.manager.stop()))
  await stopHosts()
})

describe('sessions over QUIC', () => {
  it('[PSS-05] run inside QUIC, and say so', async () => {
    const { b, open } = await two()
    const session = await open()
    expect(session.info()).toMatchObject({ transport: 'quic', roundTrips: 2, role: 'initiator', state: 'established' })
    expect(session.info().remoteAddr).toMatch(/^\/ip4\/127\.0\.0\.1\/udp\/\d+\/quic-v1/)
    expect(session.info().handshakeMs).toBeGreaterThan(0)
    expect(b.sessions[0]?.info()).toMatchObject({
      transport: 'quic',
      role: 'responder',
      id: session.info().id,
      cookies: session.info().cookies
    })
  })

  it('send both ways on two channels', async () => {
    const { a, b, open } = await two()
    const session = await open()
    const back = b.sessions[0]
    await Promise.all(
      Array.from({ length: 200 }, (_, i) => [
        session.send(1 + (i % 2), A2A, text(`a${i}`)),
        back?.send(1 + (i % 2), A2A, text(`b${i}`))
      ]).flat()
    )
    for (const [one, letter] of [
      [b, 'a'],
      [a, 'b']
    ] as const) {
      for (const channel of [1, 2]) {
        expect(words(one.inbox.filter((item) => item.channel === channel))).toEqual(
          Array.from({ length: 100 }, (_, i) => `${letter}${2 * i + channel - 1}`)
        )
      }
    }
  })

  it('carry a message of 1 MiB, durable and live', async () => {
    const { b, open } = await two()
    const session = await open()
    const large = new Uint8Array(1_048_576).map((_, i) => (i * 7) % 251)
    await session.send(1, A2A, large)
    await session.send(1, LIVE, large)
    await b.received(2)
    expect(b.inbox.map(({ payload }) => Buffer.compare(payload, large))).toEqual([0, 0])
  })

  it('[PSS-03] hand live items over as they come, each within its round trip', async () => {
    const { a, b, open } = await two()
    const session = await open()
    for (let i = 0; i < 20; i++) {
      await session.send(1, LIVE, text(`ping ${i}`))
      await b.received(i + 1)
      await b.sessions[0]?.send(1, LIVE, text(`pong ${i}`))
      await a.received(i + 1)
    }
    expect(words(a.inbox)).toEqual(Array.from({ length: 20 }, (_, i) => `pong ${i}`))
  })

  it('[PSS-20] a channel whose reader stands still holds up no other channel', async () => {
    const gate = Promise.withResolvers<void>()
    const { b, open } = await two({ b: { handler: async ({ channel }) => (channel === 1 ? gate.promise : undefined) } })
    const session = (await open()) as DurableSession
    const slow = Array.from({ length: 40 }, () => session.send(1, A2A, new Uint8Array(65_536)))
    await b.received(16)
    for (let i = 0; i < 20; i++) await session.send(2, LIVE, text(`${i}`))
    await b.received(36)
    expect(b.inbox.filter(({ channel }) => channel === 1)).toHaveLength(16) // the window of 1 MiB, no more
    gate.resolve()
    await Promise.all(slow)
    expect(session.held()).toMatchObject({ sendItems: 0, sendBytes: 0 })
  })

  it('a slow reader makes send wait, and memory stays within the bounds of windows', async () => {
    let open1 = true
    const waiting: (() => void)[] = []
    const { b, open } = await two({
      b: { handler: () => (open1 ? Promise.resolve() : new Promise((resolve) => void waiting.push(resolve))) }
    })
    const session = await open()
    await session.send(1, A2A, new Uint8Array(1_000))
    open1 = false
    const chunk = new Uint8Array(65_536)
    const before = process.memoryUsage().arrayBuffers
    let sent = 0
    const writer = (async () => {
      for (let i = 0; i < 200; i++) {
        await session.send(1, LIVE, chunk)
        sent++
      }
    })()
    await b.received(33)
    const stuck = b.inbox.length
    expect(stuck).toBeLessThanOrEqual(34) // two starting windows
    expect(sent).toBeLessThanOrEqual(stuck)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 * 1_048_576)
    open1 = true
    for (const go of waiting.splice(0)) go()
    await writer
    await b.received(201)
  })

  it('[TRM-01] close ends with FIN-ACK on both sides and takes no streams along', async () => {
    const { a, b, open } = await two()
    for (let i = 0; i < 3; i++) {
      const session = await open()
      const other = b.sessions[i]
      await Promise.all([session.send(1, A2A, text('x')), session.send(2, A2A, text('y'))])
      await session.close()
      expect(await session.closed).toEqual({ reason: 'done' })
      expect(await other?.closed).toEqual({ reason: 'done' })
    }
    expect(a.manager.held()).toMatchObject({ sessions: 0, ownExchanges: 0 })
    expect(b.manager.held()).toMatchObject({ sessions: 0, pendingHandshakes: 0 })
  })

  it('[TRM-02] queued messages arrive before the session is closed', async () => {
    const { b, open } = await two()
    const session = await open()
    const sends = Array.from({ length: 2_000 }, (_, i) => session.send(1, A2A, text(`${i}`)))
    await session.close()
    await Promise.all(sends)
    expect(b.inbox).toHaveLength(2_000)
  })

  it('another EID than the one asked for is refused', async () => {
    const { a, b } = await two()
    await expect(a.manager.open(agentOf(0xa1), agentOf(0x77).eid, addressOf(b.host))).rejects.toMatchObject({
      code: 'HANDSHAKE_FAILED',
      data: { reason: 'TARGET' }
    })
  })

  it('a refusal by policy reaches the caller as SESSION_REFUSED', async () => {
    const { open } = await two({ b: { policy: () => ({ admit: false, reason: 'policy' }) } })
    await expect(open()).rejects.toMatchObject({ code: 'SESSION_REFUSED', data: { reason: 'policy' } })
  })

  it('[PSS-14] a busy node asks for a return with a cookie: three round trips, then a session', async () => {
    const { b, open } = await two({ b: { handshakesBurst: 1, handshakesPerSecond: 2 } })
    await open()
    const c = await node([agentOf(0xc3)], {}, 3)
    const session = await c.manager.open(agentOf(0xc3), agentOf(0xb2).eid, addressOf(b.host))
    expect(session.info().roundTrips).toBe(3)
  })

  it('both nodes open at once and hold one session', async () => {
    const { a, b, open } = await two()
    const back = () => b.manager.open(agentOf(0xb2), agentOf(0xa1).eid, addressOf(a.host))
    const [one, other] = await Promise.all([open(), back()])
    expect(one.info().id).toBe(other.info().id)
    await one.send(1, A2A, text('there'))
    await other.send(1, A2A, text('back'))
    expect([a.manager.held().sessions, b.manager.held().sessions]).toEqual([1, 1])
  })

  it('[F050] streams that are refused half-read cost nothing: 200 of them, then sessions go on in both directions', async () => {
    const { a, b, open } = await two()
    const session = await open()
    const junk = new Uint8Array(1_000).fill(7)
    for (const [from, to] of [
      [a, b],
      [b, a]
    ] as const) {
      for (let i = 0; i < 100; i++) {
        const stream = await from.host.openStream(addressOf(to.host), PSS_PROTOCOL)
        await stream.write(junk).catch(() => {})
        expect((await readSessionFrame(stream)).header.type).toBe(FRAME.CLOSE)
        await stream.close()
        await stream.closed
      }
    }
    await session.send(1, A2A, text('there'))
    await b.sessions[0]?.send(1, A2A, text('back'))
    expect([a.manager.held().pendingHandshakes, b.manager.held().pendingHandshakes]).toEqual([0, 0])
  })
})

describe('sessions with another process', () => {
  it('a killed peer is noticed within the idle limit, and what it did not acknowledge stays in the journal', async () => {
    const a = await node([agentOf(0xa1)])
    const other = await process2()
    const session = await a.manager.open(agentOf(0xa1), agentOf(0xb2).eid, other.address)
    await session.send(1, A2A, text('before'))
    await other.until(1)
    other.child.kill('SIGKILL')
    await once(other.child, 'exit')
    const startedMs = systemClock.monotonicMs()
    const sent = expect(session.send(1, A2A, text('after'))).rejects.toMatchObject({ code: 'SESSION_LOST', data: { reason: 'shutdown' } })
    await expect.poll(() => session.info().state, { timeout: 30_000 }).toBe('disconnected')
    expect(systemClock.monotonicMs() - startedMs).toBeLessThan(30_000)
    expect(a.manager.list()).toMatchObject([{ state: 'disconnected', unacked: 1 }])
    await a.manager.stop()
    await sent
  })

  it('[F046] what is sent to a frozen peer counts as delivered only when it says so, and arrives once after the thaw', async () => {
    const a = await node([agentOf(0xa1)])
    const other = await process2()
    const session = await a.manager.open(agentOf(0xa1), agentOf(0xb2).eid, other.address)
    for (let i = 1; i <= 3; i++) await session.send(1, A2A, text(`${i}`))
    other.child.kill('SIGSTOP')
    let delivered = 3
    const sends = Array.from({ length: 7 }, (_, i) =>
      session.send(1, A2A, text(`${i + 4}`)).then(() => {
        delivered += 1
      })
    )
    await systemClock.sleep(1_500)
    expect(delivered).toBe(3)
    expect(session.info()).toMatchObject({ txAcked: '3' })
    other.child.kill('SIGCONT')
    await Promise.all(sends)
    expect(delivered).toBe(10)
    await other.until(10)
    expect(other.handled).toEqual(Array.from({ length: 10 }, (_, i) => `${i + 1}`))
  })
})
