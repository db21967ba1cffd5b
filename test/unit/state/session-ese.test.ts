import { describe, expect, it } from 'vitest'
import { isZero } from '../../../protocol/bytes.ts'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import type { Session } from '../../../src/sessions/session.ts'
import { type KeySlots, memoryKeySlots } from '../../../src/state/key-slots.ts'
import type { SessionEse } from '../../../src/state/session-ese.ts'
import type { StateEvent } from '../../../src/state/watch.ts'
import { CrashingNode } from '../sessions/crashing-node.ts'
import { agentOf, MemoryNet, type NodeInit, Pair, settle } from '../sessions/memory-net.ts'
import { RotatingNode } from '../sessions/rotating-node.ts'

const block: SfcBlock = {
  site: 'any',
  scopes: SFC_SCOPE.READ_ESE | SFC_SCOPE.WRITE_ESE | SFC_SCOPE.SEND_MESSAGES,
  eseBytesMax: 4_096,
  messagesPerMinuteMax: 6_000,
  payloadBytesMax: 4_096,
  sessionSecondsMax: 3_600,
  storedBytesMax: 0,
  concurrentTasksMax: 4,
  region: 0
}

async function until(clock: ManualClock, condition: () => boolean, limitMs = 120_000): Promise<void> {
  for (let passed = 0; passed <= limitMs; passed += 500) {
    await settle()
    if (condition()) return
    clock.advance(500)
  }
  throw new Error('it did not come about')
}

/** A's session, and the same at B. */
async function open(init: { a?: NodeInit; b?: NodeInit } = {}, options: { contract?: Partial<SfcBlock>; exclusive?: boolean } = {}) {
  const pair = await Pair.create(init)
  const a = await pair.open(options)
  await settle()
  return { pair, a, b: pair.b.sessions[0] as Session }
}

interface Killable {
  clock: ManualClock
  a: CrashingNode
  b: CrashingNode
  keys: { a: KeySlots; b: KeySlots }
}

async function killable(): Promise<Killable> {
  const clock = new ManualClock()
  const net = new MemoryNet()
  const keys = { a: memoryKeySlots(seededRandom(7)), b: memoryKeySlots(seededRandom(8)) }
  const a = await new CrashingNode(net, clock, agentOf(0xa1), 1, { eseKeys: keys.a }).start()
  const b = await new CrashingNode(net, clock, agentOf(0xb2), 2, { eseKeys: keys.b }).start()
  return { clock, a, b, keys }
}

const sessionOf = async (node: CrashingNode) => (await node.manager.get(node.manager.list()[0]?.id ?? '')) as Session
const isUp = (...nodes: CrashingNode[]) => nodes.every((node) => node.manager.list()[0]?.state === 'established')

describe('the ESE pair of a session', () => {
  it('[PSS-02] is there on both sides after ESTABLISHED: one own, one mirror, equal on both sides', async () => {
    const { a, b } = await open()
    await Promise.all([a.states.own.set('load', 0.5), b.states.own.set('load', { cpu: null })])
    expect(b.states.peer.entries()).toEqual([['load', 0.5]])
    expect(a.states.peer.entries()).toEqual([['load', { cpu: null }]])
    expect(b.states.peer.hash()).toBe(a.states.own.hash())
    expect(a.states.peer.hash()).toBe(b.states.own.hash())
  })

  it('[PSS-03] [ESE-02] carries every kind of change, in order and as a whole, without a message of the application', async () => {
    const { pair, a, b } = await open()
    const { own } = a.states
    const seen: number[] = []
    const watching = (async () => {
      for await (const event of b.states.peer.watch()) {
        if (event.kind !== 'set') continue
        seen.push(b.states.peer.size)
        if (event.key === 'z') return
      }
    })()
    await settle()
    void own.set('task', { title: 'one', tags: ['x'] })
    void own.patch('task', [{ op: 'add', path: '/tags/-', value: 'y' }])
    void own.merge('task', { title: 'two' })
    void own.set('blob', Uint8Array.of(0, 255))
    void own.delete('blob')
    await own.write([
      { op: 'set', key: 'x', value: 1 },
      { op: 'set', key: 'y', value: 2 },
      { op: 'set', key: 'z', value: 3 }
    ])
    await watching
    expect(seen.at(-1)).toBe(4)
    expect(b.states.peer.get('task')).toEqual({ title: 'two', tags: ['x', 'y'] })
    expect(b.states.peer.hash()).toBe(own.hash())
    expect(pair.b.inbox).toEqual([])
  })

  it('refuses a change that cannot be, names the field, and leaves both sides as they were', async () => {
    const { a, b } = await open()
    const { own } = a.states
    await own.set('a', 1)
    await expect(own.patch('b', [])).rejects.toMatchObject({ code: 'ESE_REFUSED', kind: 'usage', field: 'key' })
    await expect(own.set('b', Number.NaN)).rejects.toMatchObject({ code: 'ESE_REFUSED', field: 'json' })
    await expect(own.set('', 1)).rejects.toMatchObject({ code: 'ESE_LIMIT', field: 'key' })
    await expect(own.set('b', 'x'.repeat(600_000))).rejects.toMatchObject({ code: 'ESE_LIMIT', kind: 'refused', field: 'value' })
    await expect(
      own.write([
        { op: 'set', key: 'a', value: 2 },
        { op: 'patch', key: 'a', patch: [{ op: 'remove', path: '/x' }] }
      ])
    ).rejects.toMatchObject({ code: 'ESE_REFUSED', field: 'patch[0]' })
    await own.set('c', 3)
    expect(b.states.peer.entries()).toEqual([
      ['a', 1],
      ['c', 3]
    ])
  })

  it('[ESE-01] [G-47] the journal holds no value in clear while the peer is away', async () => {
    const { clock, a, b } = await killable()
    const session = await a.open(b)
    await session.states.own.set('first', 'seen')
    await b.kill()
    await settle()
    const waiting = session.states.own.set('MARKERKEY', 'MARKERVALUE')
    await settle()
    let disk = ''
    for await (const [key, value] of (await a.backup()).iterator()) disk += key + new TextDecoder('latin1').decode(value)
    expect(disk.length).toBeGreaterThan(500)
    expect(disk).not.toContain('MARKER')
    expect(disk).not.toContain('seen')
    await b.start()
    await until(clock, () => isUp(a, b))
    await waiting
    expect((await sessionOf(b)).states.peer.get('MARKERKEY')).toBe('MARKERVALUE')
  })

  it('[G-47] a side that restarts says so in READY and gets both states back from the peer', async () => {
    const { clock, a, b } = await killable()
    const session = await a.open(b)
    await session.states.own.write(Array.from({ length: 1_000 }, (_, i) => ({ op: 'set', key: `k${i}`, value: 'v'.repeat(200) })))
    await (await sessionOf(b)).states.own.set('theirs', [1, 2, 3])
    const hash = session.states.own.hash()
    await a.kill()
    await a.start()
    await until(clock, () => isUp(a, b))
    const again = await sessionOf(a)
    await until(clock, () => again.states.own.status === 'current' && again.states.peer.status === 'current')
    expect(b.events.filter(({ kind }) => kind === 'resumed')).toMatchObject([{ eseLost: true }])
    expect(again.states.own.hash()).toBe(hash)
    expect(again.states.peer.get('theirs')).toEqual([1, 2, 3])
    await again.states.own.set('k1', 'new')
    expect((await sessionOf(b)).states.peer.get('k1')).toBe('new')
    expect((await sessionOf(b)).states.peer.hash()).toBe(again.states.own.hash())
  })

  it('[G-47] while it waits for the view, reads and partial writes are refused, and the whole can be written anew', async () => {
    const { clock, a, b } = await killable()
    const session = await a.open(b)
    await session.states.own.set('old', 1)
    await a.kill()
    await b.kill()
    await a.start()
    const again = (await a.manager.get(session.info().id)) as Session
    expect(again.states.own.status).toBe('lost')
    expect(() => again.states.own.get('old')).toThrow(expect.objectContaining({ code: 'ESE_LOST', kind: 'unavailable' }))
    await expect(again.states.own.set('x', 1)).rejects.toMatchObject({ code: 'ESE_LOST' })
    const replaced = again.states.own.replace({ anew: true })
    expect(again.states.own.entries()).toEqual([['anew', true]])
    await b.start()
    await until(clock, () => isUp(a, b))
    await replaced
    expect((await sessionOf(b)).states.peer.entries()).toEqual([['anew', true]])
  })

  it('[ESE-01] what both sides lost is gone: both begin anew, equal', async () => {
    const { clock, a, b } = await killable()
    const session = await a.open(b)
    await session.states.own.set('old', 1)
    await (await sessionOf(b)).states.own.set('old', 2)
    await a.kill()
    await b.kill()
    await a.start()
    await b.start()
    await until(clock, () => isUp(a, b))
    const [left, right] = [await sessionOf(a), await sessionOf(b)]
    await until(clock, () => [left, right].every(({ states }) => states.own.status === 'current' && states.peer.status === 'current'))
    for (const { states } of [left, right]) expect([states.own.size, states.peer.size]).toEqual([0, 0])
    await left.states.own.set('new', 3)
    expect(right.states.peer.entries()).toEqual([['new', 3]])
  })
})

describe('a mirror that misses a batch', () => {
  it('[PSS-06] [G-47] gives the connection up, asks for a view and equals the writer again', async () => {
    const { pair, a, b } = await open()
    await a.states.own.set('a', 1)
    const { own } = (a.states.own as unknown as { ese: SessionEse }).ese
    own.sealer('op').seal(new Uint8Array(3)) // a batch whose write to the journal failed: its number is used up
    const refused = a.states.own.set('b', 2)
    await until(pair.clock, () => b.states.peer.status === 'current' && b.states.peer.size === 2)
    await refused
    expect(b.info().resumes).toBe(1)
    expect(b.states.peer.hash()).toBe(a.states.own.hash())
    await a.states.own.set('c', 3)
    expect(b.states.peer.get('c')).toBe(3)
  })
})

describe('what peers make a node hold', () => {
  it('[ESE-02] is bounded over all sessions: a mirror beyond it lets go of its values, and has them again when there is room', async () => {
    const { pair, a, b } = await open({ b: { mirrorsBytesMax: 10_000 } })
    await a.states.own.set('a', 'x'.repeat(9_000))
    expect(b.states.peer.size).toBe(1)
    const held = (b.states.peer as unknown as { side: { replica: { map: { held(key: string): Uint8Array } } } }).side.replica.map.held('a')
    await a.states.own.set('b', 'x'.repeat(2_000))
    expect(b.states.peer.status).toBe('lost')
    expect(isZero(held)).toBe(true)
    await a.states.own.delete('a')
    ;(b as DurableSession).epoch?.lose(new Error('the cable is out'))
    await until(pair.clock, () => b.states.peer.status === 'current')
    expect(b.states.peer.hash()).toBe(a.states.own.hash())
    expect(b.info().state).toBe('established')
  })
})

describe('erasure of an ESE', () => {
  const heldBy = (session: Session) =>
    (session.states as unknown as { own: { side: { replica: { map: { held(key: string): Uint8Array } } } } }).own.side.replica.map

  it.each(['close', 'abort'])('[ESE-05] the end of the session overwrites the values before the call returns (%s)', async (how) => {
    const { a, b } = await open()
    await a.states.own.set('a', 'secret')
    await b.states.own.set('b', 'secret')
    const mine = heldBy(a).held('a')
    const theirs = (b.states.peer as unknown as { side: { replica: { map: { held(key: string): Uint8Array } } } }).side.replica.map.held(
      'a'
    )
    expect([isZero(mine), isZero(theirs)]).toEqual([false, false])
    if (how === 'close') await a.close()
    else (a as DurableSession).abort('violation')
    expect(isZero(mine)).toBe(true)
    for (const state of [a.states.own, a.states.peer]) {
      expect(state.status).toBe('gone')
      expect(() => state.get('a')).toThrow(expect.objectContaining({ code: 'ESE_GONE' }))
    }
    await expect(a.states.own.set('a', 1)).rejects.toMatchObject({ code: 'ESE_GONE' })
    await b.closed
    expect(isZero(theirs)).toBe(true)
    expect(b.states.peer.status).toBe('gone')
  })

  it('[ESE-03] [ESE-04] a rotation overwrites what its EID wrote before it returns, at the peer with the certificate; the new EID begins empty', async () => {
    const clock = new ManualClock()
    const net = new MemoryNet()
    const a = await RotatingNode.create(net, clock, 1)
    const b = await RotatingNode.create(net, clock, 2)
    const session = await a.node.open(b.node)
    await settle()
    const theirs = b.node.sessions[0] as Session
    await session.states.own.set('a', 'secret')
    await theirs.states.own.set('b', 'stays')
    const mine = heldBy(session).held('a')
    const mirror = (
      theirs.states.peer as unknown as { side: { replica: { map: { held(key: string): Uint8Array } } } }
    ).side.replica.map.held('a')
    await a.rotate()
    expect(isZero(mine)).toBe(true)
    expect(session.states.own.size).toBe(0)
    await until(clock, () => session.info().remote === b.did && theirs.info().remote === a.did)
    await until(clock, () => theirs.states.peer.size === 0)
    expect(isZero(mirror)).toBe(true)
    expect(session.states.peer.get('b')).toBe('stays')
    await until(clock, () => a.node.manager.unsettled(a.agent).length === 0)
    await session.states.own.set('again', 1)
    expect(theirs.states.peer.entries()).toEqual([['again', 1]])
    expect(theirs.states.peer.hash()).toBe(session.states.own.hash())
  })

  it('[ESE-03] [ESE-04] what was under way when its EID rotated reaches the peer and opens nothing', async () => {
    const clock = new ManualClock()
    const net = new MemoryNet()
    const a = await RotatingNode.create(net, clock, 1)
    const b = await RotatingNode.create(net, clock, 2, { eseKeys: memoryKeySlots(seededRandom(8)) })
    const session = await a.node.open(b.node)
    await settle()
    await session.states.own.set('a', 'seen')
    await b.node.kill()
    await settle()
    const late = session.states.own.set('late', 'never seen')
    late.catch(() => {})
    await settle()
    await a.rotate()
    await b.start()
    await until(clock, () => a.node.manager.unsettled(a.agent).length === 0 && isUp(a.node, b.node))
    await late
    const theirs = await sessionOf(b.node)
    expect(theirs.states.peer.status).toBe('current')
    expect(theirs.states.peer.size).toBe(0)
    await session.states.own.set('again', 1)
    expect(theirs.states.peer.entries()).toEqual([['again', 1]])
  })
})

describe('an ESE under a contract', () => {
  it('[SFC-02] [ESE-02] is refused without its scopes, on both sides, and nothing leaves', async () => {
    const { a, b } = await open({ b: { contract: { ...block, scopes: SFC_SCOPE.SEND_MESSAGES } } }, { contract: {} })
    await expect(a.states.own.set('a', 'secret')).rejects.toMatchObject({ code: 'CONTRACT_LIMIT', kind: 'refused', field: 'sfc.scopes' })
    expect(() => b.states.peer.get('a')).toThrow(expect.objectContaining({ code: 'CONTRACT_LIMIT' }))
    expect(() => b.states.peer.watch()).toThrow(expect.objectContaining({ code: 'CONTRACT_LIMIT' }))
    expect(a.info().txSeq).toBe('0')
  })

  it.each([
    ['write only', SFC_SCOPE.WRITE_ESE],
    ['read only', SFC_SCOPE.READ_ESE]
  ])('[ESE-02] %s shows nothing: a value that nobody may read is not sent', async (_title, scopes) => {
    const { a } = await open({ b: { contract: { ...block, scopes } } }, { contract: {} })
    await expect(a.states.own.set('a', 1)).rejects.toMatchObject({ code: 'CONTRACT_LIMIT', field: 'sfc.scopes' })
  })

  it('[SFC-08] [ESE-02] keeps to its max ESE bytes, by what is held and not by what was ever written', async () => {
    const { a, b } = await open({ b: { contract: block } }, { contract: {} })
    const { own } = a.states
    for (let i = 0; i < 50; i++) await own.set('same', 'x'.repeat(1_000))
    await own.set('b', 'x'.repeat(2_000))
    await expect(own.set('c', 'x'.repeat(1_000))).rejects.toMatchObject({ code: 'ESE_LIMIT', field: 'bytesMax' })
    await own.delete('b')
    await own.set('c', 'x'.repeat(1_000))
    expect(a.info().contract?.usage.sent.eseBytes).toBe(own.info().bytes)
    expect(b.info().contract?.usage.received.eseBytes).toBe(own.info().bytes)
    expect(b.info().state).toBe('established')
  })
})

describe('watching an ESE', () => {
  it('a slow watcher sees a key once with its newest value, and holds nobody up', async () => {
    const { a, b } = await open()
    const events: StateEvent<unknown>[] = []
    const watching = (async () => {
      for await (const event of b.states.peer.watch({ keys: ['n', 'end'] })) {
        events.push(event)
        if (events.length === 1) await a.closed.then(() => {})
      }
    })()
    await settle()
    await a.states.own.set('n', -1)
    for (let i = 0; i < 100; i++) void a.states.own.set('n', i)
    void a.states.own.set('not asked for', 1)
    await a.states.own.set('end', true)
    expect(b.states.peer.get('n')).toBe(99)
    expect(events).toHaveLength(1)
    await a.close()
    await watching
    expect(events.slice(1)).toEqual([{ kind: 'status', status: 'gone' }])
  })

  it('more keys than a watcher may have waiting become one reset', async () => {
    const { a, b } = await open()
    const watch = b.states.peer.watch()
    for (let from = 0; from < 5_000; from += 1_000) {
      await a.states.own.write(Array.from({ length: 1_000 }, (_, i) => ({ op: 'set', key: `k${from + i}`, value: i })))
    }
    expect(await watch.next()).toEqual({ done: false, value: { kind: 'reset' } })
    const more = a.states.own.set('one', 1)
    expect(await watch.next()).toEqual({ done: false, value: { kind: 'set', key: 'one', value: 1 } })
    await more
    await watch.return()
  })

  it('at most 256 watch one state; one that is left makes room, asked or not', async () => {
    const { a } = await open()
    const watches = Array.from({ length: 256 }, () => a.states.peer.watch())
    expect(() => a.states.peer.watch()).toThrow(expect.objectContaining({ code: 'ESE_WATCHERS_MAX', field: 'watchers', value: 256 }))
    await watches[0]?.return()
    expect(() => a.states.peer.watch()).not.toThrow()
  })

  it('ends quietly with its signal', async () => {
    const { a } = await open()
    const stop = new AbortController()
    const watch = a.states.peer.watch({ signal: stop.signal })
    const next = watch.next()
    stop.abort()
    expect(await next).toEqual({ done: true, value: undefined })
  })
})
