import { Record as KadRecord } from '@libp2p/kad-dht'
import fc from 'fast-check'
import { Key } from 'interface-datastore'
import { MemoryLevel } from 'memory-level'
import { toString as bytesToText } from 'uint8arrays/to-string'
import { beforeEach, describe, expect, it } from 'vitest'
import { compare, concat, utf8 } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { DhtDatastore } from '../../src/net/dht-datastore.ts'
import { DHT_KEY_BYTES_MAX, DHT_NAMESPACES, type DhtRules, namespaceOf } from '../../src/net/dht-rules.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { bytesCodec, Store } from '../../src/store/store.ts'

/** Values: one byte rank, one byte lifetime in seconds from the epoch of the clock. Rank 0 is invalid. */
let clock: ManualClock
let startMs: number
let rules: DhtRules
const value = (rank: number, lifetimeS = 60, size = 2) => {
  const bytes = new Uint8Array(size)
  bytes.set([rank, lifetimeS])
  return bytes
}
const key = (i: number, namespace = 'eid') => concat([utf8(`/${namespace}/`), nodeCrypto.sha256(Uint8Array.of(i >> 8, i & 255))])
const nameOf = (k: Uint8Array) => new Key(`/dht/record/${bytesToText(k, 'base32')}`, false)

beforeEach(() => {
  clock = new ManualClock()
  startMs = clock.nowMs()
  const expiresAtMs = (_key: Uint8Array, v: Uint8Array) => startMs + (v[1] as number) * 1_000
  rules = {
    validate(k, v, nowMs) {
      if (v[0] === 0) throw new Error('rank 0')
      if (expiresAtMs(k, v) <= nowMs) throw new Error('expired')
    },
    select: (_key, held, offered) => ((offered[0] as number) > (held[0] as number) ? 'offered' : 'held'),
    expiresAtMs
  }
})

const make = (init: { store?: Store; bytesMax?: number } = {}) =>
  new DhtDatastore({ clock, crypto: nodeCrypto, rules, store: init.store }, init.bytesMax === undefined ? {} : { bytesMax: init.bytesMax })

describe('the DHT datastore', () => {
  it('[D-18] keeps the value that wins and refuses the one that loses, whoever brings it (F031)', async () => {
    const datastore = make()
    await datastore.putValue(key(1), value(7))
    await expect(datastore.putValue(key(1), value(6))).rejects.toMatchObject({ code: 'DHT_RECORD_STALE' })
    await expect(datastore.put(nameOf(key(1)), new KadRecord(key(1), value(6), new Date()).serialize().subarray())).rejects.toMatchObject({
      code: 'DHT_RECORD_STALE'
    })
    await datastore.putValue(key(1), value(7))
    await datastore.putValue(key(1), value(8))
    expect(datastore.value(key(1))).toEqual(value(8))
    expect(KadRecord.deserialize(await datastore.get(nameOf(key(1)))).value).toEqual(value(8))
  })

  it('[D-18] takes nothing that the rules refuse, under no namespace, and under no name but its own', async () => {
    const datastore = make()
    await expect(datastore.putValue(key(1), value(0))).rejects.toThrow('rank 0')
    await expect(datastore.putValue(key(1), new Uint8Array(1_793).fill(1))).rejects.toMatchObject({ code: 'DHT_VALUE_TOO_LARGE' })
    await expect(datastore.putValue(key(1, 'constructor'), value(1))).rejects.toMatchObject({ code: 'DHT_NAMESPACE_UNKNOWN' })
    const record = new KadRecord(key(1), value(1), new Date()).serialize().subarray()
    await expect(datastore.put(nameOf(key(2)), record)).rejects.toMatchObject({ code: 'DHT_KEY_MISMATCH' })
    await expect(datastore.put(new Key('/dht/provider/a/b'), Uint8Array.of(1))).rejects.toMatchObject({ code: 'DHT_PROVIDERS_REFUSED' })
    expect(datastore.size).toBe(0)
  })

  it('[F085] takes a lower value where the one held was let in by a clock that ran ahead', async () => {
    const datastore = make()
    const isAhead = (v: Uint8Array, nowMs: number) => v[0] === 9 && nowMs < startMs + 3_600_000
    const { validate } = rules
    rules.validate = (k, v, nowMs) => {
      if (isAhead(v, nowMs)) throw new Error('of the future')
      validate(k, v, nowMs - (v[0] === 9 ? 3_600_000 : 0))
    }
    rules.expiresAtMs = () => startMs + 7_200_000
    clock.jumpWall(3_600_000)
    await datastore.putValue(key(1), value(9))
    clock.jumpWall(-3_600_000)
    await datastore.putValue(key(1), value(7))
    expect(datastore.value(key(1))).toEqual(value(7))
    await expect(datastore.putValue(key(1), value(6))).rejects.toMatchObject({ code: 'DHT_RECORD_STALE' })
  })

  it('reads no value at or after its end, lets a lower one follow then, and sweeps', async () => {
    const datastore = make()
    await datastore.putValue(key(1), value(9, 10))
    await datastore.putValue(key(2), value(9, 20))
    clock.advance(9_999)
    expect(datastore.value(key(1))).toBeDefined()
    clock.advance(1)
    expect(await datastore.has(nameOf(key(1)))).toBe(false)
    await expect(Promise.resolve(datastore.get(nameOf(key(1))))).rejects.toMatchObject({ name: 'NotFoundError' })
    await datastore.putValue(key(1), value(1, 60))
    clock.advance(10_000)
    expect(datastore.sweep()).toBe(1)
    expect(datastore.size).toBe(1)
  })

  it('stays within its bytes: the farthest keys go first, and a far one is refused while nearer fill it', async () => {
    const bytesMax = 20_000
    const datastore = make({ bytesMax })
    const place = nodeCrypto.sha256(utf8('our place'))
    datastore.setPlace(place)
    const distance = (k: Uint8Array) => nodeCrypto.sha256(k).map((byte, i) => byte ^ (place[i] as number))
    const keys = Array.from({ length: 400 }, (_, i) => key(i))
    let refused = 0
    for (const k of keys) {
      await datastore.putValue(k, value(1, 60, 100)).catch((error: { code: string }) => {
        expect(error.code).toBe('DHT_FULL')
        refused++
      })
      expect(datastore.bytes).toBeLessThanOrEqual(bytesMax)
    }
    const sorted = keys.toSorted((a, b) => compare(distance(a), distance(b)))
    const kept = sorted.filter((k) => datastore.value(k) !== undefined)
    expect(kept).toHaveLength(datastore.size)
    expect(kept).toEqual(sorted.slice(0, kept.length))
    expect(kept.length).toBeGreaterThan(60)
    expect(refused).toBeGreaterThan(0)
  })

  it('is as it was after a restart, without what has ended or no longer passes', async () => {
    const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
    const store = new Store(level)
    const before = make({ store })
    for (const [i, lifetimeS] of [10, 60, 60].entries()) await before.putValue(key(i), value(1 + i, lifetimeS))
    await before.putValue(key(2), value(5))
    clock.advance(10_000)
    const judged = rules.validate
    rules.validate = (k, v, nowMs) => {
      if (v[0] === 2) throw new Error('no longer')
      judged(k, v, nowMs)
    }
    const after = make({ store })
    await after.load()
    expect([0, 1, 2].map((i) => after.value(key(i)))).toEqual([undefined, undefined, value(5)])
    const again = make({ store })
    await again.load()
    expect(again.size).toBe(1)
    await store.close()
  })

  it('leaves no row of a value that went while its write waited, and a start with less room than before holds no more than fits', async () => {
    const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    const rows = async () => (await Array.fromAsync(store.table('dht-values', bytesCodec).keys())).length
    const datastore = make({ store })
    const writes = [
      datastore.putValue(key(1), value(1, 10)),
      datastore.putValue(key(1), value(2, 10)),
      datastore.putValue(key(2), value(1))
    ]
    clock.advance(10_000)
    datastore.sweep()
    await Promise.all(writes)
    while ((await rows()) > 1) await new Promise((resolve) => setImmediate(resolve))
    expect(datastore.value(key(1))).toBeUndefined()
    for (let i = 3; i < 20; i++) await datastore.putValue(key(i), value(1))
    expect(await rows()).toBe(18)
    const smaller = make({ store, bytesMax: 1_000 })
    await smaller.load()
    expect(smaller.bytes).toBeLessThanOrEqual(1_000)
    expect(smaller.size).toBeGreaterThan(0)
  })

  it("[F103] keeps no more of libp2p's own rows than their bytes, whatever larger buffer they come in", async () => {
    const datastore = await make()
    const name = new Key('/peers/x', false)
    await datastore.put(name, new Uint8Array(65_536).fill(7).subarray(100, 300))
    const held = await datastore.get(name)
    expect(held).toEqual(new Uint8Array(200).fill(7))
    expect(held.buffer.byteLength).toBe(200)
  })

  it('holds after any order of puts the highest rank that was offered', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 255 }), { minLength: 1, maxLength: 20 }), async (ranks) => {
        const datastore = make()
        for (const rank of ranks) await datastore.putValue(key(1), value(rank)).catch(() => {})
        expect(datastore.value(key(1))?.[0]).toBe(Math.max(...ranks))
      })
    )
  })
})

describe('namespaces', () => {
  it('[DS-06] knows the five of the wire format and no other (F032)', () => {
    for (const namespace of DHT_NAMESPACES) expect(namespaceOf(key(1, namespace))).toBe(namespace)
    for (const other of ['', 'e', 'EID', 'eidx', 'pk', 'ipns', 'constructor', '__proto__', 'toString']) {
      expect(() => namespaceOf(key(1, other))).toThrow(expect.objectContaining({ code: 'DHT_NAMESPACE_UNKNOWN', field: 'key' }))
    }
    expect(() => namespaceOf(concat([utf8('/eid/'), new Uint8Array(DHT_KEY_BYTES_MAX)]))).toThrow(
      expect.objectContaining({ code: 'DHT_NAMESPACE_UNKNOWN' })
    )
  })

  it('meets any bytes with a namespace or a named error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
        try {
          expect(DHT_NAMESPACES).toContain(namespaceOf(bytes))
        } catch (error) {
          expect(error).toMatchObject({ code: 'DHT_NAMESPACE_UNKNOWN' })
        }
      })
    )
  })
})
