import { Record as KadRecord, MessageType } from '@libp2p/kad-dht'
import { peerIdFromString } from '@libp2p/peer-id'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { Host } from '../../src/net/host.ts'
import { ManualClock, systemClock } from '../../src/platform/clock.ts'
import { addressOf, keyOf, makeValue, numberOf, startHost, stopHosts, until } from './host-fixture.ts'

const NODES = 10
const HOUR_MS = 3_600_000

/** All hosts of a test share one clock, so that a record's age is the test's to choose; only timers stand still with it. */
let clock: ManualClock
let hosts: Host[]

async function network(count: number): Promise<Host[]> {
  const first = await startHost({ carrier: 'memory', clock })
  const bootstrap = [`${first.addresses()[0]}/p2p/${first.peer}`]
  const others = await Promise.all(Array.from({ length: count - 1 }, () => startHost({ carrier: 'memory', clock, init: { bootstrap } })))
  const all = [first, ...others]
  await Promise.all(others.map((host) => until(host, () => host.dht.routingTableSize() > 0)))
  await until(first, () => first.dht.routingTableSize() === count - 1)
  // and by name and address, so that each finds all
  for (const host of all) while ((await host.dht.closestPeers(keyOf('eid', 0))).length < count) await systemClock.sleep(20)
  return all
}

async function all(values: AsyncIterable<Uint8Array>): Promise<number[]> {
  const numbers: number[] = []
  for await (const value of values) numbers.push(numberOf(value))
  return numbers.sort((a, b) => a - b)
}

const at = (i: number) => hosts[i] as Host
const soon = () => clock.nowMs() + HOUR_MS

beforeEach(async () => {
  clock = new ManualClock(Date.now())
  hosts = await network(NODES)
})
afterEach(stopHosts)

describe('a DHT of ten nodes', () => {
  it('finds the same closest peers from everywhere, nearest first, the asker among them', async () => {
    const key = keyOf('eid', 1)
    const lists = await Promise.all(hosts.map((host) => host.dht.closestPeers(key)))
    for (const list of lists) expect(list.map(({ peer }) => peer)).toEqual(lists[0]?.map(({ peer }) => peer))
    const place = nodeCrypto.sha256(key)
    const distances = lists[0]?.map(({ peer }) =>
      Buffer.from(nodeCrypto.sha256(peerIdFromString(peer).toMultihash().bytes).map((byte, i) => byte ^ (place[i] as number))).toString(
        'hex'
      )
    )
    expect(distances).toHaveLength(NODES)
    expect(distances).toEqual([...(distances ?? [])].sort())
    for (const { addrs } of lists[0] ?? []) expect(addrs[0]).toMatch(/^\/memory\//)
    const nearest = await at(3).dht.closestPeers(key, { countMax: 4 })
    expect(nearest.map(({ peer }) => peer)).toEqual(lists[3]?.slice(0, 4).map(({ peer }) => peer))
  })

  it('counts, without a look-up, the peers of its own table that lie closer to a key, up to a bound', async () => {
    const key = keyOf('eid', 1)
    const order = (await at(0).dht.closestPeers(key)).map(({ peer }) => peer)
    const first = hosts[0] as Host
    expect(first.dht.closerKnown(key, 40)).toBe(order.indexOf(first.peer))
    const farthest = hosts.find((host) => host.peer === order.at(-1)) as Host
    expect(farthest.dht.closerKnown(key, 40)).toBeGreaterThan(0)
    expect(farthest.dht.closerKnown(key, 1)).toBe(1)
  })

  it('stores a value at all of them, says how many took it, and any node reads it', async () => {
    const key = keyOf('ds', 2)
    expect(await at(1).dht.put(key, makeValue(1, soon()))).toEqual({ stored: NODES, asked: NODES, known: NODES })
    for (const host of hosts) expect(await all(host.dht.values(key))).toEqual([1])
  })

  it('lets a newer value replace an older one, and neither an older nor an equal one the newer (F031)', async () => {
    const key = keyOf('eid', 3)
    await at(0).dht.put(key, makeValue(7, soon()))
    expect(await at(1).dht.put(key, makeValue(6, soon()))).toMatchObject({ stored: 0, asked: NODES })
    expect(await at(2).dht.put(key, makeValue(7, soon(), 1))).toMatchObject({ stored: 0, asked: NODES })
    for (const host of hosts) expect(await all(host.dht.values(key))).toEqual([7])
    expect(await at(4).dht.put(key, makeValue(8, soon()))).toMatchObject({ stored: NODES })
    expect(await all(at(5).dht.values(key))).toEqual([8])
  })

  it('takes the same bytes again, as their owner brings them', async () => {
    const key = keyOf('mail', 4)
    const value = makeValue(1, soon())
    await at(0).dht.put(key, value)
    expect(await at(0).dht.put(key, value)).toMatchObject({ stored: NODES })
  })

  it('yields each distinct value once when replicas differ, and stops asking when the reader has enough', async () => {
    const key = keyOf('ds', 5)
    await at(0).dht.put(key, makeValue(1, soon()))
    await putAt(at(1), [at(2), at(3)], key, makeValue(2, soon()))
    expect(await all(at(4).dht.values(key))).toEqual([1, 2])
    for await (const value of at(5).dht.values(key)) {
      expect([1, 2]).toContain(numberOf(value))
      break
    }
  })

  it('neither serves nor returns a value after its end (the library would for 48 hours)', async () => {
    const key = keyOf('gp', 6)
    await at(0).dht.put(key, makeValue(1, clock.nowMs() + 10_000))
    expect(await all(at(7).dht.values(key))).toEqual([1])
    clock.jumpWall(10_001)
    for (const host of hosts) expect(await all(host.dht.values(key))).toEqual([])
    expect(await at(0).dht.put(key, makeValue(1, soon()))).toMatchObject({ stored: NODES })
  })

  it.each(['foo', 'pk', 'constructor', '__proto__'])(
    'refuses a key under /%s/ at the caller and at every holder (F032)',
    async (namespace) => {
      const key = keyOf(namespace, 7)
      const value = makeValue(1, soon())
      await expect(at(0).dht.put(key, value)).rejects.toMatchObject({ code: 'DHT_NAMESPACE_UNKNOWN', field: 'key' })
      expect(await putAt(at(0), hosts.slice(1), key, value)).toBe(0)
      expect(await all(at(3).dht.values(key))).toEqual([])
    }
  )

  it('refuses what the rules refuse, and values over the bound, at the caller and at every holder', async () => {
    const key = keyOf('eid', 8)
    const wrong = makeValue(1, soon())
    wrong[0] = 2
    const huge = new Uint8Array(1_793)
    huge.set(makeValue(1, soon()))
    await expect(at(0).dht.put(key, wrong)).rejects.toThrow('no such value')
    await expect(at(0).dht.put(key, huge)).rejects.toMatchObject({ code: 'DHT_VALUE_TOO_LARGE' })
    for (const value of [wrong, huge]) expect(await putAt(at(0), hosts.slice(1), key, value)).toBe(0)
    expect(await all(at(2).dht.values(key))).toEqual([])
  })

  it('goes on reading and storing when a third of the nodes has gone', async () => {
    const key = keyOf('eid', 9)
    await at(0).dht.put(key, makeValue(1, soon()))
    await Promise.all(hosts.slice(7).map((host) => host.stop()))
    expect(await all(at(1).dht.values(key))).toEqual([1])
    expect(await at(1).dht.put(key, makeValue(2, soon()))).toEqual({ stored: 7, asked: 7, known: 7 })
  })

  it('gives up when the signal fires', async () => {
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(at(0).dht.closestPeers(keyOf('eid', 1), { signal })).rejects.toThrow('enough')
    await expect(all(at(0).dht.values(keyOf('eid', 1), { signal }))).rejects.toThrow('enough')
  })
})

describe('three nodes over QUIC', () => {
  it('[DS-06] that know one bootstrap node find each other, and each reads by key what another put', async () => {
    await stopHosts()
    const a = await startHost()
    const bootstrap = [`${a.addresses()[0]}/p2p/${a.peer}`]
    const three = [a, await startHost({ init: { bootstrap } }), await startHost({ init: { bootstrap } })] as const
    for (const host of three) await until(host, () => host.dht.routingTableSize() > 0)
    await until(a, () => a.dht.routingTableSize() === 2)
    const key = keyOf('ds', 1)
    const expiresAtMs = Date.now() + HOUR_MS
    expect(await three[1].dht.put(key, makeValue(1, expiresAtMs))).toEqual({ stored: 3, asked: 3, known: 3 })
    for (const host of three) {
      expect(await all(host.dht.values(key))).toEqual([1])
      for (const { addrs } of await host.dht.closestPeers(key)) expect(addrs[0]).toMatch(/^\/ip4\/127\.0\.0\.1\/udp\/\d+\/quic-v1$/)
    }
  })
})

describe('one node alone', () => {
  it('is its own closest peer and stores and reads at itself', async () => {
    const alone = await startHost({ carrier: 'memory', clock })
    const key = keyOf('eid', 1)
    expect((await alone.dht.closestPeers(key)).map(({ peer }) => peer)).toEqual([alone.peer])
    expect(await alone.dht.put(key, makeValue(1, soon()))).toEqual({ stored: 1, asked: 1, known: 1 })
    expect(await all(alone.dht.values(key))).toEqual([1])
  })

  it('answers no DHT query and counts itself out as a client (F040)', async () => {
    const client = await startHost({ carrier: 'memory', clock, init: { dht: { mode: 'client' } } })
    expect(client.dht.mode()).toBe('client')
    const other = at(0)
    await expect(other.openStream(addressOf(client), '/rookery/kad/1.0.0')).rejects.toMatchObject({ code: 'PROTOCOL_UNSUPPORTED' })
    expect((await client.dht.closestPeers(keyOf('eid', 1))).map(({ peer }) => peer)).not.toContain(client.peer)
  })
})

/** Sends PUT_VALUE as any stranger can, past our own rules; returns how many holders took it. */
async function putAt(from: Host, to: readonly Host[], key: Uint8Array, value: Uint8Array): Promise<number> {
  let taken = 0
  for (const holder of to) {
    const stream = await from.openStream(addressOf(holder), '/rookery/kad/1.0.0')
    const message = putMessage(key, new KadRecord(key, value, new Date(clock.nowMs())).serialize().subarray())
    await stream.write(Uint8Array.from([...varint(message.length), ...message]))
    taken += await stream.read(1).then(
      () => 1,
      () => 0
    )
    await stream.close()
  }
  return taken
}

/** A kad-dht Message in protobuf: type (field 1), key (2), record (3). */
function putMessage(key: Uint8Array, record: Uint8Array): Uint8Array {
  expect(MessageType.PUT_VALUE).toBe('PUT_VALUE')
  return Uint8Array.from([0x08, 0, 0x12, ...varint(key.length), ...key, 0x1a, ...varint(record.length), ...record])
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)]
}
