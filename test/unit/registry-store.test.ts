import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { prefixId } from '../../protocol/discovery/names.ts'
import type { PutRequest, RegistrySet } from '../../protocol/discovery/registry-messages.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ManualClock, systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { openRegistryStore, type Publisher, type RegistryStore, type RegistryStoreInit } from '../../src/spaces/registry-store.ts'
import { Store } from '../../src/store/store.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { announceRecord, ENERGY_ID, joinGone, joinRecord } from './fakes/fake-records.ts'

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const self: Publisher = { kind: 'self' }
const peer = (name: string, remoteAddr = '/ip4/127.0.0.1/udp/1/quic-v1'): Publisher => ({ kind: 'peer', peer: name, remoteAddr })

/** No work below the bound, and more than anyone is asked for at it: the bound itself shows. */
const FULL_AT_BOUND = { first: -100, full: 33 }

let clock: ManualClock
let store: Store
const opened: RegistryStore[] = []

async function open(init: RegistryStoreInit = {}): Promise<RegistryStore> {
  const registry = await openRegistryStore({ store, clock, crypto: nodeCrypto, logger: silentLogger }, init)
  opened.push(registry)
  return registry
}

const put = (record: Uint8Array, set: RegistrySet = 'members', key: Uint8Array = ENERGY_ID): PutRequest => ({
  verb: 'put',
  set,
  key,
  record
})
const list = (registry: RegistryStore, more: { curator?: Uint8Array; tags?: string[]; cursor?: Uint8Array; limit?: number } = {}) =>
  registry.list({ verb: 'list', set: 'members', key: ENERGY_ID, cursor: new Uint8Array(0), limit: 100, ...more })
const member = (i: number) => fakeAgent(`member ${i}`)

beforeEach(() => {
  clock = new ManualClock()
  store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
})

afterEach(async () => {
  for (const registry of opened.splice(0)) await registry.stop()
})

describe('the start of a registrar', () => {
  it('says how far it is where it takes long, and nothing where it does not', async () => {
    const registry = await open()
    for (let i = 0; i < 10; i++)
      expect(await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), self)).toEqual({ status: 'ok' })
    const said: [object, string][] = []
    const logger = {
      ...silentLogger,
      child: () => ({ ...silentLogger, info: (fields: object, text: string) => void said.push([fields, text]) })
    }
    opened.push(await openRegistryStore({ store, clock, crypto: nodeCrypto, logger }))
    expect(said).toEqual([])
    let passedMs = 0
    const slow = { ...systemClock, monotonicMs: () => (passedMs += 1_000), after: () => () => {} }
    opened.push(await openRegistryStore({ store, clock: slow, crypto: nodeCrypto, logger }))
    expect(said.map(([fields]) => (fields as { entries: number }).entries)).toEqual([3, 6, 9, 10])
    expect(said.at(-1)).toEqual([{ entries: 10, tookMs: 11_000 }, 'the registry is counted'])
  })
})

describe('what a registrar takes', () => {
  it('[DS-14] [D-18] is a record of the right kind, whole, in time and under its own key, and nothing else', async () => {
    const registry = await open()
    const good = joinRecord(bob, alice.eid, clock.nowMs())
    const bent = good.slice()
    bent[bent.length - 1] = (bent[bent.length - 1] as number) ^ 1
    const refused: PutRequest[] = [
      put(bent),
      put(good, 'members', new Uint8Array(32)),
      put(good, 'announcements'),
      put(good, 'children'),
      put(announceRecord(alice, clock.nowMs())),
      put(announceRecord(alice, clock.nowMs()), 'children', prefixId(nodeCrypto, 'org.agentnet', 'market')),
      put(joinRecord(bob, alice.eid, clock.nowMs() - 3_600_000)),
      put(joinRecord(bob, alice.eid, clock.nowMs() + 121_000)),
      put(new Uint8Array([0x83])),
      put(good, 'prunes'),
      put(good, 'poms')
    ]
    for (const request of refused) expect(await registry.put(request, self)).toEqual({ status: 'invalid' })
    expect(registry.stats()).toMatchObject({ entries: 0, refused: { invalid: refused.length } })
    expect(await registry.put(put(good), self)).toEqual({ status: 'ok' })
    for (const prefix of ['', 'marketplace', 'marketplace.energy']) {
      const key = prefixId(nodeCrypto, 'org.agentnet', prefix)
      expect(await registry.put(put(announceRecord(alice, clock.nowMs()), 'children', key), self)).toEqual({ status: 'ok' })
    }
  })

  it('[F031] keeps the higher number, calls an equal or lower one stale and shows what it holds, over a restart too', async () => {
    const nowMs = clock.nowMs()
    let registry = await open()
    const seventh = joinRecord(bob, alice.eid, nowMs, { seq: nowMs + 7 })
    expect(await registry.put(put(seventh), self)).toEqual({ status: 'ok' })
    const attempts = [
      joinRecord(bob, alice.eid, nowMs, { seq: nowMs + 6 }),
      joinRecord(bob, alice.eid, nowMs, { seq: nowMs + 7, tags: ['x'] })
    ]
    for (const record of attempts) expect(await registry.put(put(record), self)).toEqual({ status: 'stale', held: seventh })
    await registry.stop()
    registry = await open()
    for (const record of attempts) expect(await registry.put(put(record), self)).toEqual({ status: 'stale', held: seventh })
    expect((await list(registry)).records).toEqual([seventh])
    expect(await registry.put(put(joinRecord(bob, alice.eid, nowMs, { seq: nowMs + 8 })), self)).toEqual({ status: 'ok' })
    expect(registry.stats()).toMatchObject({ keys: 1, entries: 1 })
  })

  it('[DS-09] holds several curators of one space side by side', async () => {
    const registry = await open()
    for (const curator of [alice, bob]) {
      expect(await registry.put(put(announceRecord(curator, clock.nowMs()), 'announcements'), self)).toEqual({ status: 'ok' })
    }
    const listed = await registry.list({ verb: 'list', set: 'announcements', key: ENERGY_ID, cursor: new Uint8Array(0), limit: 100 })
    expect(listed.records).toHaveLength(2)
  })

  it('does not serve one that is for others: with 40 nearer peers known a PUT is invalid', async () => {
    let nearer = 39
    const registry = await open({ closerKnown: () => nearer })
    expect(await registry.put(put(joinRecord(bob, alice.eid, clock.nowMs())), self)).toEqual({ status: 'ok' })
    nearer = 40
    expect(await registry.put(put(joinRecord(alice, alice.eid, clock.nowMs())), self)).toEqual({ status: 'invalid' })
  })
})

describe('the bounds of a registrar', () => {
  it('takes no more than the bound of a set, still renews what it holds, and takes new ones once old ones expired', async () => {
    const registry = await open({ membersMax: 3, workBits: FULL_AT_BOUND })
    for (let i = 0; i < 3; i++)
      expect(await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), self)).toEqual({ status: 'ok' })
    expect(await registry.put(put(joinRecord(member(3), alice.eid, clock.nowMs())), self)).toEqual({ status: 'full' })
    clock.advance(1_000)
    expect(await registry.put(put(joinRecord(member(0), alice.eid, clock.nowMs())), self)).toEqual({ status: 'ok' })
    clock.advance(3_599_000)
    await registry.sweep()
    expect(registry.stats().entries).toBe(1)
    expect(await registry.put(put(joinRecord(member(3), alice.eid, clock.nowMs())), self)).toEqual({ status: 'ok' })
  })

  it('bounds every other set on its own, and all of them together in bytes', async () => {
    const registry = await open({ othersMax: 1, bytesMax: 2_000, workBits: FULL_AT_BOUND })
    expect(await registry.put(put(announceRecord(alice, clock.nowMs()), 'announcements'), self)).toEqual({ status: 'ok' })
    expect(await registry.put(put(announceRecord(bob, clock.nowMs()), 'announcements'), self)).toEqual({ status: 'full' })
    let taken = 0
    for (let i = 0; i < 10; i++) {
      const { status } = await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), self)
      if (status === 'ok') taken++
    }
    expect(taken).toBeGreaterThan(0)
    expect(taken).toBeLessThan(10)
    expect(registry.stats().bytes).toBeLessThanOrEqual(2_000)
  })

  it('[F029] takes 32 entries a minute from a peer, counts neither repetitions nor its own node, and goes on a minute later', async () => {
    const registry = await open()
    const records = Array.from({ length: 34 }, (_, i) => joinRecord(member(i), alice.eid, clock.nowMs()))
    const statuses = []
    for (const record of records) statuses.push((await registry.put(put(record), peer('p1'))).status)
    expect(statuses.filter((status) => status === 'ok')).toHaveLength(32)
    expect(statuses.slice(32)).toEqual(['full', 'full'])
    expect(await registry.put(put(records[33] as Uint8Array), peer('p2'))).toEqual({ status: 'ok' })
    expect(await registry.put(put(records[32] as Uint8Array), self)).toEqual({ status: 'ok' })
    clock.advance(2_000)
    for (let i = 0; i < 100; i++) expect(await registry.put(put(records[0] as Uint8Array), peer('p1'))).toEqual({ status: 'ok' })
  })

  it('counts the peers of one public /24 or /48 together, those of a private network apart', async () => {
    const registry = await open({ putsPerMinuteMax: 2 })
    const from = async (i: number, name: string, addr: string) =>
      (await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), peer(name, addr))).status
    expect(await from(0, 'p0', '/ip4/8.8.4.1/udp/1/quic-v1')).toBe('ok')
    expect(await from(1, 'p1', '/ip4/8.8.4.2/udp/1/quic-v1')).toBe('ok')
    expect(await from(2, 'p2', '/ip4/8.8.4.3/udp/1/quic-v1')).toBe('full')
    expect(await from(2, 'p3', '/ip4/8.8.5.3/udp/1/quic-v1')).toBe('ok')
    expect(await from(3, 'q0', '/ip6/2600:1f18:7::1/udp/1/quic-v1')).toBe('ok')
    expect(await from(4, 'q1', '/ip6/2600:1f18:7:9::1/udp/1/quic-v1')).toBe('ok')
    expect(await from(5, 'q2', '/ip6/2600:1f18:7:a::1/udp/1/quic-v1')).toBe('full')
    for (let i = 6; i < 10; i++) expect(await from(i, `r${i}`, '/ip4/192.168.1.5/udp/1/quic-v1')).toBe('ok')
  })

  it('[F029] drops the rows of 1,000 throwaway keys two lives later without a restart, and takes a new one', async () => {
    const registry = await open()
    const ts = Math.floor(clock.nowMs() / 1_000)
    for (let i = 0; i < 1_000; i++) {
      await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs(), { exp: ts + 60 })), peer(`p${i % 100}`))
    }
    expect(registry.stats().entries).toBe(1_000)
    clock.advance(120_000)
    expect((await list(registry)).records).toEqual([])
    await registry.sweep()
    expect(registry.stats()).toMatchObject({ keys: 0, entries: 0, bytes: 0 })
    const rows = []
    for (const table of ['registry-entries', 'registry-expiries']) {
      for await (const row of store.table(table, { encode: (v: Uint8Array) => v, decode: (v) => v }).keys()) rows.push(row)
    }
    expect(rows).toEqual([])
    expect(await registry.put(put(joinRecord(bob, alice.eid, clock.nowMs())), peer('p'))).toEqual({ status: 'ok' })
  })

  it('removes what has expired of a set with one sync for hundreds, so that a sweep holds up nobody for minutes', async () => {
    const registry = await open()
    for (let i = 0; i < 60; i++) await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), self)
    const before = store.syncs
    clock.advance(3_600_001)
    await registry.sweep() // after the one that the minute began
    expect(store.syncs - before).toBe(1)
    expect(registry.stats()).toMatchObject({ keys: 0, entries: 0, bytes: 0 })
  })

  it('loses nothing to the sweep that was renewed meanwhile', async () => {
    const registry = await open()
    const ts = Math.floor(clock.nowMs() / 1_000)
    await registry.put(put(joinRecord(bob, alice.eid, clock.nowMs(), { exp: ts + 10 })), self)
    clock.advance(11_000)
    const renewed = joinRecord(bob, alice.eid, clock.nowMs())
    await Promise.all([registry.sweep(), registry.put(put(renewed), self), registry.sweep()])
    expect((await list(registry)).records).toEqual([renewed])
    expect(registry.stats().entries).toBe(1)
  })

  it('knows after a restart how full it is', async () => {
    const init = { membersMax: 2, workBits: FULL_AT_BOUND }
    const first = await open(init)
    for (let i = 0; i < 2; i++) await first.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), self)
    const before = first.stats()
    await first.stop()
    const second = await open(init)
    expect(second.stats()).toMatchObject({ keys: before.keys, entries: 2, bytes: before.bytes })
    expect(await second.put(put(joinRecord(member(2), alice.eid, clock.nowMs())), self)).toEqual({ status: 'full' })
  })
})

describe('what a registrar lists', () => {
  it('[DS-15] matches curator and tags, and shows tombstones whatever is asked', async () => {
    const registry = await open()
    await registry.put(put(joinRecord(member(1), alice.eid, clock.nowMs(), { tags: ['solar', 'buy'] })), self)
    await registry.put(put(joinRecord(member(2), alice.eid, clock.nowMs(), { tags: ['solar'] })), self)
    await registry.put(put(joinRecord(member(3), bob.eid, clock.nowMs(), { tags: ['solar'] })), self)
    const gone = joinGone(member(4), alice.eid, clock.nowMs())
    await registry.put(put(gone), self)
    expect((await list(registry)).records).toHaveLength(4)
    expect((await list(registry, { curator: alice.eid })).records).toHaveLength(3)
    expect((await list(registry, { curator: bob.eid, tags: ['solar'] })).records).toHaveLength(2)
    expect((await list(registry, { tags: ['solar', 'buy'], curator: alice.eid })).records).toHaveLength(2)
    expect((await list(registry, { tags: ['none'] })).records).toEqual([gone])
  })

  it('gives every entry exactly once over pages of any size', async () => {
    const registry = await open()
    for (let i = 0; i < 25; i++) await registry.put(put(joinRecord(member(i), alice.eid, clock.nowMs())), self)
    for (const limit of [1, 7, 24, 25, 26, 100]) {
      const seen: Uint8Array[] = []
      let cursor: Uint8Array | undefined = new Uint8Array(0)
      for (let pages = 0; cursor !== undefined && pages < 30; pages++) {
        const page = await list(registry, { cursor, limit })
        seen.push(...page.records)
        cursor = page.next
      }
      expect(new Set(seen.map(String)).size).toBe(25)
      expect(seen).toHaveLength(25)
    }
  })

  it('names its keys page by page, in order', async () => {
    const registry = await open()
    await registry.put(put(joinRecord(bob, alice.eid, clock.nowMs())), self)
    await registry.put(put(joinRecord(alice, alice.eid, clock.nowMs())), self)
    await registry.put(put(announceRecord(alice, clock.nowMs()), 'announcements'), self)
    const { keys, next } = await registry.keys({ verb: 'keys', cursor: new Uint8Array(0) })
    expect(keys).toEqual([
      { set: 'members', key: ENERGY_ID },
      { set: 'announcements', key: ENERGY_ID }
    ])
    expect(next).toBeUndefined()
    const after = await registry.keys({ verb: 'keys', cursor: Uint8Array.of(0, ...ENERGY_ID) })
    expect(after.keys).toEqual([{ set: 'announcements', key: ENERGY_ID }])
  })
})
