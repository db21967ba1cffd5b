import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { locatorKey } from '../../protocol/discovery/dht-key.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { locatorType } from '../../protocol/records/locator.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { SeenRecords } from '../../src/spaces/seen-records.ts'
import { bytesCodec } from '../../src/store/store.ts'
import { locatorOf, locatorPair } from './fakes/contradictions.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, fakeNode, pass, settle } from './fakes/fake-node.ts'

const HOUR_MS = 3_600_000
const alice = fakeAgent('alice')
const bob = fakeAgent('bob')

let clock: ManualClock
let network: FakeNetwork
let a: FakeNode
let b: FakeNode
let c: FakeNode

beforeEach(async () => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  a = await fakeNode(network, clock, 'alice', [alice])
  b = await fakeNode(network, clock, 'bob', [bob])
  c = await fakeNode(network, clock, 'carol')
  network.meet(a.host, b.host, c.host)
})

afterEach(async () => {
  alice.reachability = { mode: 'always_on' }
  for (const node of [a, b, c]) await node.stop()
})

const stored = (node: FakeNode) => node.host.values.get(toHex(locatorKey(alice.eid)))
const held = (node: FakeNode) => decodeRecord(locatorType, stored(node) as Uint8Array).payload

describe('locators', () => {
  it('tells where an agent is, how it can be reached and what to seal to', async () => {
    alice.reachability = { mode: 'hourly_wake', window: { periodSec: 3_600, openSec: 60, offsetSec: 300 } }
    const published = await a.locators.publish(alice)
    const resolved = await b.locators.resolve(alice.eid)
    expect(resolved).toEqual(published)
    expect(resolved).toMatchObject({
      did: alice.did,
      address: { peer: a.host.peer, addrs: ['/memory/alice'] },
      mode: 'hourly_wake',
      window: { periodSec: 3_600, openSec: 60, offsetSec: 300 },
      expiresAtMs: clock.nowMs() + 24 * HOUR_MS
    })
    expect(resolved.mailboxKey).toEqual(alice.mailboxKey)
  })

  it('says AGENT_UNKNOWN of an agent that was never published', async () => {
    await expect(b.locators.resolve(alice.eid)).rejects.toMatchObject({ code: 'AGENT_UNKNOWN', kind: 'notFound', value: alice.did })
  })

  it('answers for its own agents without asking anyone', async () => {
    a.host.hides = b.host.hides = c.host.hides = true
    expect(await a.locators.resolve(alice.eid)).toMatchObject({ did: alice.did, address: { peer: a.host.peer } })
  })

  it('[F034] tells a withheld record from one that never was, and accepts no older one after it', async () => {
    await a.locators.publish(alice)
    const older = stored(b) as Uint8Array
    clock.advance(60_000)
    const { gen } = await a.locators.publish(alice)
    expect((await b.locators.resolve(alice.eid)).gen).toBe(gen)
    const seenAtMs = clock.nowMs()
    for (const node of [a, b, c]) node.host.hides = true
    clock.advance(1_000)
    expect((await b.locators.resolve(alice.eid)).gen).toBe(gen)
    await expect(b.locators.resolve(alice.eid, { fresh: true })).rejects.toMatchObject({
      code: 'AGENT_NOT_SERVED',
      kind: 'unavailable',
      message: expect.stringContaining(`not served; last seen gen ${gen} at ${new Date(seenAtMs).toISOString()}`),
      data: { gen, seenAtMs }
    })
    for (const node of [a, b, c]) node.host.lies = older
    await expect(b.locators.resolve(alice.eid, { fresh: true })).rejects.toMatchObject({ code: 'AGENT_NOT_SERVED', data: { gen } })
    for (const node of [a, b, c]) node.host.lies = undefined
    c.host.hides = false
    expect((await b.locators.resolve(alice.eid, { fresh: true })).gen).toBe(gen)
  })

  it('[F034] [F031] remembers over a restart what it saw: what is older is not accepted, `not served` is not `unknown`, gone stays gone', async () => {
    await a.locators.publish(alice)
    const older = stored(b) as Uint8Array
    clock.advance(60_000)
    const { gen } = await a.locators.publish(alice)
    await b.locators.resolve(alice.eid)
    for (const node of [a, b, c]) node.host.lies = older
    await b.restart()
    expect((await b.locators.resolve(alice.eid)).gen).toBe(gen)
    await expect(b.locators.resolve(alice.eid, { fresh: true })).rejects.toMatchObject({ code: 'AGENT_NOT_SERVED', data: { gen } })
    for (const node of [a, b, c]) node.host.lies = undefined
    await a.locators.withdraw(alice)
    await expect(b.locators.resolve(alice.eid, { fresh: true })).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
    await b.restart()
    for (const node of [a, b, c]) node.host.lies = older
    await expect(b.locators.resolve(alice.eid)).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
  })

  it('remembers so many agents and no more, the one asked for longest ago goes first, on disk too', async () => {
    const { store } = b
    const cache = await SeenRecords.locators(store, silentLogger, 3)
    const locators = ['a', 'b', 'c', 'd'].map((name) => locatorOf(fakeAgent(name), clock.nowMs()))
    for (const [i, record] of locators.entries()) {
      expect(await cache.offer(record, clock.nowMs() + i)).toBe('newer')
      if (i === 2) expect(cache.get(fakeAgent('a').eid)).toBeDefined()
    }
    expect(cache.size).toBe(3)
    expect(cache.get(fakeAgent('b').eid)).toBeUndefined()
    const again = await SeenRecords.locators(store, silentLogger, 2)
    expect(again.size).toBe(2)
    const rows = store.table('seen-locators', bytesCodec)
    let count = 0
    for await (const _ of rows.keys()) count++
    expect(count).toBe(2)
  })

  it('knows after a restart who signed two locators of one generation', async () => {
    const cache = await SeenRecords.locators(b.store, silentLogger)
    const { a: one, b: two } = locatorPair(alice, clock.nowMs())
    await cache.offer(decodeRecord(locatorType, one), clock.nowMs())
    expect(await cache.offer(decodeRecord(locatorType, two), clock.nowMs())).toBe('equivocation')
    const again = await SeenRecords.locators(b.store, silentLogger)
    expect(again.get(alice.eid)).toMatchObject({ equivocated: true })
    expect(again.get(alice.eid)?.record.bytes).toEqual(one)
  })

  it('[F034] uses what it knows until that expires, then says not served instead of unknown', async () => {
    await a.locators.publish(alice)
    await b.locators.resolve(alice.eid)
    await a.locators.stop()
    clock.advance(24 * HOUR_MS - 1_000)
    expect(await b.locators.resolve(alice.eid)).toMatchObject({ did: alice.did })
    clock.advance(1_000)
    await expect(b.locators.resolve(alice.eid)).rejects.toMatchObject({ code: 'AGENT_NOT_SERVED' })
  })

  it('[F028] [F085] is signed anew at half of its life with a number near the clock, so it never runs out while the node is up', async () => {
    await a.locators.publish(alice)
    const gens = new Set<number>()
    for (let hour = 0; hour < 72; hour++) {
      await pass(clock, HOUR_MS, [a, b, c], 600_000)
      const { gen, expiresAtMs } = await b.locators.resolve(alice.eid, { fresh: true })
      expect(expiresAtMs - clock.nowMs()).toBeGreaterThan(11 * HOUR_MS)
      expect(Math.abs(gen - held(c).ts * 1_000)).toBeLessThan(60_000)
      gens.add(gen)
    }
    expect(gens.size).toBeGreaterThanOrEqual(6)
    expect(gens.size).toBeLessThanOrEqual(8)
  })

  it('puts a new generation when its addresses change, once for a burst of changes', async () => {
    const { gen } = await a.locators.publish(alice)
    a.host.setAddresses(['/ip4/127.0.0.1/udp/4001/quic-v1'])
    a.host.setAddresses(['/ip4/127.0.0.1/udp/4002/quic-v1'])
    await pass(clock, 2_000, [a], 500)
    expect(held(c).addrs).toEqual(['/ip4/127.0.0.1/udp/4002/quic-v1'])
    expect(held(c).gen).toBeGreaterThan(gen)
    const renewed = held(c).gen
    a.host.setAddresses(['/ip4/127.0.0.1/udp/4002/quic-v1'])
    await pass(clock, 30_000, [a], 1_000)
    expect(held(c).gen).toBe(renewed)
  })

  it('notices after a restart that its agent’s mode changed, and keeps the numbers going up', async () => {
    const { gen } = await a.locators.publish(alice)
    alice.reachability = { mode: 'sleep' }
    await a.restart()
    await settle([a])
    expect(held(c)).toMatchObject({ mode: 'sleep' })
    expect(held(c).gen).toBeGreaterThan(gen)
  })

  it('passes a number of its own that it finds in the network though its disk forgot it', async () => {
    const { gen } = await a.locators.publish(alice)
    clock.jumpWall(-30_000)
    const again = await fakeNode(network, clock, 'alice-new-disk', [alice])
    network.meet(again.host, b.host)
    expect((await again.locators.publish(alice)).gen).toBeGreaterThan(gen)
    await again.stop()
  })

  it('stays as it is when the node stops, so that senders still know where to leave something', async () => {
    await a.locators.publish(alice)
    await a.locators.stop()
    expect(held(c).gone).toBeUndefined()
    expect(await b.locators.resolve(alice.eid, { fresh: true })).toMatchObject({ did: alice.did })
  })

  it('is gone for good once withdrawn, for others and for its own node', async () => {
    await a.locators.publish(alice)
    await b.locators.resolve(alice.eid)
    await a.locators.withdraw(alice)
    await expect(b.locators.resolve(alice.eid, { fresh: true })).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
    await expect(b.locators.resolve(alice.eid)).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
    await expect(a.locators.publish(alice)).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
    await a.restart()
    await expect(a.locators.publish(alice)).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
  })

  it('[F035] neither publishes nor passes on private addresses in a public network', async () => {
    await a.stop()
    const mixed = [
      '/ip4/10.0.0.5/udp/1/quic-v1',
      '/ip4/8.8.4.4/udp/4001/quic-v1',
      '/ip4/127.0.0.1/udp/1/quic-v1',
      '/ip4/100.64.0.1/tcp/1',
      '/ip6/::1/tcp/1',
      '/ip6/fd00::1/tcp/1',
      '/ip6/::ffff:10.0.0.5/tcp/1',
      '/ip6/2600:1f18::5/udp/4001/quic-v1'
    ]
    const open = ['/ip4/8.8.4.4/udp/4001/quic-v1', '/ip6/2600:1f18::5/udp/4001/quic-v1']
    const lan = await fakeNode(network, clock, 'lan', [alice], { network: 'lan' })
    const wan = await fakeNode(network, clock, 'wan', [], { network: 'public' })
    lan.host.addrs = mixed
    network.meet(lan.host, wan.host)
    expect((await lan.locators.publish(alice)).address.addrs).toEqual(mixed)
    expect((await wan.locators.resolve(alice.eid)).address.addrs).toEqual(open)
    const carol = fakeAgent('carol')
    wan.agents.set(carol.eidHex, carol)
    wan.host.addrs = mixed
    expect((await wan.locators.publish(carol)).address.addrs).toEqual(open)
    await lan.stop()
    await wan.stop()
    a = lan
  })
})
