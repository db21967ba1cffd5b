import { describe, expect, it } from 'vitest'
import { ConnectionGuard } from '../../../protocol/session/connection-guard.ts'
import { decodeInit, encodeInit } from '../../../protocol/session/init.ts'
import { decodeNeg } from '../../../protocol/session/neg.ts'
import type { ConnectionInfo } from '../../../src/net/byte-stream.ts'
import { ConnectionGuards, PENDING_MAX, PENDING_PER_CONNECTION_MAX } from '../../../src/sessions/connection-guards.ts'
import { HandshakeBudget } from '../../../src/sessions/handshake-budget.ts'
import { SOURCES_MAX, SourceLimits } from '../../../src/sessions/source-limits.ts'
import { connectionOf, handshakePair, sent } from '../../support/handshake-pair.ts'

const at = (peer: string, ip: string) => ({
  peer,
  remoteAddr: ip.includes(':') ? `/ip6/${ip}/udp/4001/quic-v1` : `/ip4/${ip}/udp/4001/quic-v1`
})

function connectionInfo(peer: string, id = peer): ConnectionInfo {
  return { id, ...at(peer, '192.0.2.1'), transport: 'quic', direction: 'inbound', abort: () => {} }
}

/** How many handshakes the source gets at `nowMs` before it has to wait. */
function share(limits: SourceLimits, source: { peer: string; remoteAddr: string }, nowMs: number): number {
  const limit = limits.of(source)
  let count = 0
  for (; limit.waitSeconds(nowMs) === 0 && count < 1_000; count++) limit.spend(nowMs)
  return count
}

describe('source limits', () => {
  it('[G-73] [PSS-12] give one PeerId 16 handshakes at once and 16 a minute, whatever connection and address it comes from', () => {
    const limits = new SourceLimits()
    expect(share(limits, at('a', '8.8.8.8'), 0)).toBe(16)
    expect(share(limits, at('a', '9.9.9.9'), 0)).toBe(0)
    expect(limits.of(at('a', '9.9.9.9')).waitSeconds(0)).toBeCloseTo(3.75)
    expect(share(limits, at('b', '9.9.9.9'), 0)).toBe(16)
    expect(share(limits, at('a', '8.8.8.8'), 30_000)).toBe(8)
  })

  it.each([
    ['/24', (i: number) => `8.8.8.${i}`, '8.8.9.1'],
    ['/48', (i: number) => `2606:4700:77::${i.toString(16)}`, '2606:4700:78::1']
  ])('[G-73] [PSS-12] give one %s 100 handshakes at once and 25 a second, however many PeerIds it brings', (_, ip, elsewhere) => {
    const limits = new SourceLimits()
    const all = (nowMs: number) =>
      Array.from({ length: 100 }, (_, i) => share(limits, at(`${nowMs}-${i}`, ip(i)), nowMs)).reduce((a, b) => a + b)
    expect(all(0)).toBe(100)
    expect(all(1_000)).toBe(25)
    expect(share(limits, at('other', elsewhere), 1_000)).toBe(16)
  })

  it.each(['127.0.0.1', '::1', '10.1.2.3', '192.168.1.2', 'fd00::1'])(
    'bind no network to %s, where addresses are shared without an owner',
    (ip) => {
      const limits = new SourceLimits()
      for (let i = 0; i < 200; i++) expect(share(limits, at(`p${i}`, ip), 0)).toBe(16)
    }
  )

  it(`[G-73] hold at most ${SOURCES_MAX} PeerIds and as many networks, and none once their share has filled up again`, () => {
    const limits = new SourceLimits({ networkOf: (addr) => addr })
    for (let i = 0; i < SOURCES_MAX + 500; i++) limits.of({ peer: `p${i}`, remoteAddr: `n${i}` }).spend(0)
    expect(limits.size).toBe(2 * SOURCES_MAX)
    limits.sweep(40)
    expect(limits.size).toBe(SOURCES_MAX)
    limits.sweep(3_750)
    expect(limits.size).toBe(0)
  })
})

describe('responder of a source that had its share', () => {
  const over = new ConnectionGuard({ source: { waitSeconds: (nowMs) => (nowMs < 7_000 ? 6.2 : 0), spend: () => {} } })

  it('[PSS-14] [F059] answers RETRY with the wait, without curve arithmetic, and serves who comes back after it', () => {
    const pair = handshakePair()
    const init = sent(pair.initiator.start(0))
    const connection = connectionOf({ guard: over })
    const retry = sent(pair.responder.receive(init, connection, 0))
    expect(retry.length).toBeLessThan(init.length)
    const asked = decodeNeg(retry)
    if (asked.kind !== 'retry') throw new Error('no RETRY')
    expect(asked.waitSeconds).toBe(7)
    const again = encodeInit({ ...decodeInit(init), retryCookie: asked.retryCookie })
    const early = pair.responder.receive(again, connection, 1_000)
    expect(early).toMatchObject({ kind: 'close', scope: 'stream', error: { code: 'BUSY' } })
    expect(decodeNeg(sent(pair.responder.receive(again, connection, 7_000))).kind).toBe('neg')
  })

  it('spends of the share for each NEG it computes, and nothing for a RETRY', () => {
    for (const [load, spent] of [
      [{ state: 'free' }, 1],
      [{ state: 'busy', waitSeconds: 3 }, 0]
    ] as const) {
      let count = 0
      const guard = new ConnectionGuard({ source: { waitSeconds: () => 0, spend: () => count++ } })
      const pair = handshakePair({ load: () => load })
      sent(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf({ guard }), 0))
      expect(count).toBe(spent)
    }
  })
})

describe('streams without a session', () => {
  it('[F059] a node full of them drops the oldest of the peer that has most, for one that has few', () => {
    const guards = new ConnectionGuards()
    const dropped: string[] = []
    const enter = (peer: string, id: string) => guards.enter(connectionInfo(peer, id), () => dropped.push(id))
    for (let i = 0; i < PENDING_MAX; i++) {
      const connection = Math.floor(i / PENDING_PER_CONNECTION_MAX)
      expect(enter(connection < 9 ? 'greedy' : `peer ${connection}`, `c${connection}`)).toBeDefined()
    }
    expect(guards.pending).toBe(PENDING_MAX)
    const honest = enter('honest', 'honest')
    expect(honest).toBeDefined()
    expect(dropped).toEqual(['c0'])
    expect(guards.pending).toBe(PENDING_MAX)
    expect(enter('greedy', 'c-new')).toBeUndefined()
    honest?.leave()
    honest?.leave()
    expect(guards.pending).toBe(PENDING_MAX - 1)
  })

  it('a peer that has as many as any other is refused when the node is full', () => {
    const guards = new ConnectionGuards()
    for (let i = 0; i < PENDING_MAX; i++) expect(guards.enter(connectionInfo(`p${i}`), () => expect.unreachable())).toBeDefined()
    expect(guards.enter(connectionInfo('late'), () => {})).toBeUndefined()
  })

  it(`one connection has at most ${PENDING_PER_CONNECTION_MAX}`, () => {
    const guards = new ConnectionGuards()
    const entries = Array.from({ length: PENDING_PER_CONNECTION_MAX }, () => guards.enter(connectionInfo('a'), () => {}))
    expect(guards.enter(connectionInfo('a'), () => {})).toBeUndefined()
    entries[0]?.leave()
    expect(guards.enter(connectionInfo('a'), () => {})).toBeDefined()
  })
})

describe('the budget of handshakes', () => {
  it('[PSS-14] [F059] asks nobody to wait longer than a second, however many came back with a cookie', () => {
    const budget = new HandshakeBudget({ perSecond: 100, burst: 200, nowMs: 0 })
    for (let i = 0; i < 200; i++) {
      expect(budget.waitSeconds(0)).toBe(0)
      budget.spend(0)
    }
    expect(budget.waitSeconds(0)).toBeCloseTo(0.01)
    for (let i = 0; i < 1_000; i++) budget.spend(0)
    expect(budget.waitSeconds(0)).toBeCloseTo(1)
    expect(budget.waitSeconds(500)).toBeCloseTo(0.5)
    expect(budget.waitSeconds(1_000)).toBe(0)
    expect(budget.isFull(1_000)).toBe(false)
    expect(budget.isFull(3_000)).toBe(true)
  })
})
