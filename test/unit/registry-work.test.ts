import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { concat, toHex, utf8 } from '../../protocol/bytes.ts'
import { prefixId } from '../../protocol/discovery/names.ts'
import { putBitsAsked } from '../../protocol/discovery/put-work.ts'
import { type PutRequest, type RegistrySet, registryKeyName } from '../../protocol/discovery/registry-messages.ts'
import { nonceBytes, putSeed, workBits } from '../../protocol/discovery/work.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { circuitRelaysKey, circuitRelayType } from '../../protocol/records/circuit-relay.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { pomKey } from '../../protocol/records/pom.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { openRegistryStore, type Publisher, type RegistryStore, type RegistryStoreInit } from '../../src/spaces/registry-store.ts'
import { cborCodec, Store } from '../../src/store/store.ts'
import { locatorPair, ticketOf } from './fakes/contradictions.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { announceRecord, ENERGY, ENERGY_ID, joinGone, joinRecord, pruneRecord } from './fakes/fake-records.ts'

const alice = fakeAgent('alice')
const self: Publisher = { kind: 'self' }
const member = (i: number) => fakeAgent(`member ${i}`)

let clock: ManualClock
let store: Store
const opened: RegistryStore[] = []

async function open(init: RegistryStoreInit = {}): Promise<RegistryStore> {
  const registry = await openRegistryStore({ store, clock, crypto: nodeCrypto, logger: silentLogger }, init)
  opened.push(registry)
  return registry
}

/** The first nonce whose work has exactly so many bits: what is asked, and no luck beyond it. */
function solved(record: Uint8Array, bits: number, key: Uint8Array = ENERGY_ID): Uint8Array {
  const seed = putSeed(nodeCrypto, key, record)
  for (let nonce = 0n; ; nonce++) if (workBits(seed, nonceBytes(nonce)) === bits) return nonceBytes(nonce)
}

const put = (record: Uint8Array, pow?: Uint8Array, set: RegistrySet = 'members', key: Uint8Array = ENERGY_ID): PutRequest => ({
  verb: 'put',
  set,
  key,
  record,
  ...(pow === undefined ? {} : { pow })
})
const join = (i: number) => joinRecord(member(i), alice.eid, clock.nowMs())
const circuitRelay = (i: number) => {
  const { eid: node, signer } = member(i)
  const ts = Math.floor(clock.nowMs() / 1_000)
  return buildRecord(nodeCrypto, circuitRelayType, { node, addrs: [], ts, exp: ts + 600 }, signer).bytes
}
const listAll = (registry: RegistryStore) =>
  registry.list({ verb: 'list', set: 'members', key: ENERGY_ID, cursor: new Uint8Array(0), limit: 100 })
const idsOf = async (registry: RegistryStore) => new Set((await listAll(registry)).records.map(String))

beforeEach(() => {
  clock = new ManualClock()
  store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
})

afterEach(async () => {
  for (const registry of opened.splice(0)) await registry.stop()
})

describe('the work that a registrar asks for', () => {
  it('is none under half full, 12 bits at half, rises to 24, and in a full set passes the least held', () => {
    expect(putBitsAsked(0, 10_000, 0)).toBe(0)
    expect(putBitsAsked(4_999, 10_000, 0)).toBe(0)
    expect(putBitsAsked(5_000, 10_000, 0)).toBe(12)
    expect(putBitsAsked(7_500, 10_000, 0)).toBe(18)
    expect(putBitsAsked(9_999, 10_000, 0)).toBe(23)
    expect(putBitsAsked(10_000, 10_000, 0)).toBe(24)
    expect(putBitsAsked(10_000, 10_000, 24)).toBe(25)
    expect(putBitsAsked(500, 1_000, 0)).toBe(12)
  })

  it('has the seed H("rookery/v1/put-pow" ‖ 0x00 ‖ key ‖ H(record)), so it counts for one record at one key', () => {
    const record = join(1)
    const expected = nodeCrypto.sha256(concat([utf8('rookery/v1/put-pow'), Uint8Array.of(0), ENERGY_ID, nodeCrypto.sha256(record)]))
    expect(putSeed(nodeCrypto, ENERGY_ID, record)).toEqual(expected)
    expect(putSeed(nodeCrypto, ENERGY_ID, join(2))).not.toEqual(expected)
    expect(putSeed(nodeCrypto, new Uint8Array(32), record)).not.toEqual(expected)
  })

  it('is asked with the bits from half full on, and a PUT that brings it is taken', async () => {
    const registry = await open({ membersMax: 8, workBits: { first: 4, full: 8 } })
    for (let i = 0; i < 4; i++) expect(await registry.put(put(join(i)), self)).toEqual({ status: 'ok' })
    expect(await registry.put(put(join(4)), self)).toEqual({ status: 'need-work', bits: 4 })
    expect(await registry.put(put(join(4), solved(join(4), 3)), self)).toEqual({ status: 'need-work', bits: 4 })
    expect(await registry.put(put(join(4), solved(join(5), 4)), self)).toEqual({ status: 'need-work', bits: 4 })
    expect(await registry.put(put(join(4), solved(join(4), 4)), self)).toEqual({ status: 'ok' })
    expect(await registry.put(put(join(5)), self)).toEqual({ status: 'need-work', bits: 5 })
    expect(registry.stats()).toMatchObject({ entries: 5, refused: { 'need-work': 4 } })
  })

  it('is asked by 12 bits at half of 10,000 members, as the protocol says', async () => {
    const registry = await open({ membersMax: 10 })
    for (let i = 0; i < 5; i++) await registry.put(put(join(i)), self)
    expect(await registry.put(put(join(5)), self)).toEqual({ status: 'need-work', bits: 12 })
    expect(await registry.put(put(join(5), solved(join(5), 12)), self)).toEqual({ status: 'ok' })
  })

  it('is asked before the signature is looked at, and costs nothing of the entries a minute', async () => {
    const registry = await open({ membersMax: 2, putsPerMinuteMax: 2 })
    await registry.put(put(join(0)), self)
    const bent = join(1)
    bent[bent.length - 1] = (bent[bent.length - 1] as number) ^ 1
    const stranger: Publisher = { kind: 'peer', peer: 'p', remoteAddr: '/ip4/127.0.0.1/udp/1/quic-v1' }
    for (let i = 0; i < 20; i++) expect(await registry.put(put(bent), stranger)).toEqual({ status: 'need-work', bits: 12 })
    expect(await registry.put(put(bent, solved(bent, 12)), stranger)).toEqual({ status: 'invalid' })
    expect(await registry.put(put(join(1), solved(join(1), 12)), stranger)).toEqual({ status: 'ok' })
  })

  const entries: Record<RegistrySet, (i: number) => { key: Uint8Array; record: Uint8Array }> = {
    members: (i) => ({ key: ENERGY_ID, record: join(i) }),
    announcements: (i) => ({ key: ENERGY_ID, record: announceRecord(member(i), clock.nowMs()) }),
    children: (i) => ({ key: prefix, record: announceRecord(member(i), clock.nowMs()) }),
    prunes: (i) => ({ key: ENERGY_ID, record: pruneRecord(alice, member(i).eid, clock.nowMs()) }),
    poms: (i) => ({ key: pomKey(nodeCrypto, accused.target), record: ticketOf(accused, member(i), clock.nowMs()).bytes }),
    relays: (i) => ({ key: circuitRelaysKey(nodeCrypto), record: circuitRelay(i) })
  }
  const accused = locatorPair(fakeAgent('accused'), 1_767_225_600_000)
  const prefix = prefixId(nodeCrypto, ENERGY.ns, 'marketplace')
  for (const [set, make] of Object.entries(entries) as [RegistrySet, (i: number) => { key: Uint8Array; record: Uint8Array }][]) {
    it(`is asked for ${set}`, async () => {
      const registry = await open({ membersMax: 2, othersMax: 2, workBits: { first: 4, full: 6 } })
      const [first, second] = [make(0), make(1)]
      expect(await registry.put({ verb: 'put', set, ...first }, self)).toEqual({ status: 'ok' })
      expect(await registry.put({ verb: 'put', set, ...second }, self)).toEqual({ status: 'need-work', bits: 4 })
      const pow = solved(second.record, 4, second.key)
      expect(await registry.put({ verb: 'put', set, ...second, pow }, self)).toEqual({ status: 'ok' })
    })
  }

  it('is asked of a renewal as of a new entry, not of the same bytes again nor of a tombstone of what is held', async () => {
    const registry = await open({ membersMax: 2, workBits: { first: 4, full: 6 } })
    await registry.put(put(join(0)), self)
    const held = join(1)
    await registry.put(put(held, solved(held, 4)), self)
    expect(await registry.put(put(held), self)).toEqual({ status: 'ok' })
    clock.advance(1_000)
    expect(await registry.put(put(join(1)), self)).toEqual({ status: 'need-work', bits: 4 })
    expect(await registry.put(put(joinGone(member(1), alice.eid, clock.nowMs())), self)).toEqual({ status: 'ok' })
    expect(await registry.put(put(joinGone(member(7), alice.eid, clock.nowMs())), self)).toMatchObject({ status: 'need-work' })
  })

  it('displaces the least in a full set, never one that has as much', async () => {
    const registry = await open({ membersMax: 4, workBits: { first: 1, full: 3 } })
    const bits = [0, 0, 3, 5]
    const records = bits.map((_, i) => join(i))
    for (const [i, record] of records.entries()) {
      const pow = bits[i] === 0 ? undefined : solved(record, bits[i] as number)
      expect(await registry.put(put(record, pow), self)).toEqual({ status: 'ok' })
    }
    for (const i of [4, 5]) {
      expect(await registry.put(put(join(i), solved(join(i), 2)), self)).toEqual({ status: 'need-work', bits: 3 })
      expect(await registry.put(put(join(i), solved(join(i), 6)), self)).toEqual({ status: 'ok' })
    }
    const kept = await idsOf(registry)
    expect(records.map((record) => kept.has(String(record)))).toEqual([false, false, true, true])
    expect(await registry.put(put(join(6), solved(join(6), 3)), self)).toEqual({ status: 'need-work', bits: 4 })
    expect(await registry.put(put(join(6), solved(join(6), 4)), self)).toEqual({ status: 'ok' })
    const left = await idsOf(registry)
    expect([records[3], join(4), join(5), join(6)].every((record) => left.has(String(record)))).toBe(true)
    expect(registry.stats()).toMatchObject({ entries: 4, keys: 1 })
  })

  it('is full for good once the least held has 32 bits', () => {
    expect(putBitsAsked(4, 4, 32)).toBe(33)
  })

  it('displaces what has expired before anything that lives, and keeps the sums right', async () => {
    const registry = await open({ membersMax: 2, workBits: { first: 0, full: 2 } })
    const ts = Math.floor(clock.nowMs() / 1_000)
    const short = joinRecord(member(0), alice.eid, clock.nowMs(), { exp: ts + 10 })
    await registry.put(put(short, solved(short, 9)), self)
    await registry.put(put(join(1)), self)
    clock.advance(11_000)
    const next = join(2)
    expect(await registry.put(put(next, solved(next, 2)), self)).toEqual({ status: 'ok' })
    await registry.sweep()
    expect((await listAll(registry)).records).toHaveLength(2)
    expect(registry.stats().entries).toBe(2)
  })

  it('is remembered over a restart: what has the least goes first then too, and LIST gives the nonces on', async () => {
    const init = { membersMax: 2, workBits: { first: 1, full: 2 } }
    let registry = await open(init)
    const weak = join(0)
    const strong = join(1)
    await registry.put(put(strong, solved(strong, 7)), self)
    await registry.put(put(weak, solved(weak, 3)), self)
    await registry.stop()
    registry = await open(init)
    const { records, pows } = await listAll(registry)
    expect(records.map((record, i) => workBits(putSeed(nodeCrypto, ENERGY_ID, record), pows?.[i] as Uint8Array)).sort()).toEqual([3, 7])
    const next = join(2)
    expect(await registry.put(put(next, solved(next, 3)), self)).toEqual({ status: 'need-work', bits: 4 })
    expect(await registry.put(put(next, solved(next, 4)), self)).toEqual({ status: 'ok' })
    expect((await idsOf(registry)).has(String(strong))).toBe(true)
  })

  it('lets who does not work keep no honest member out: 200 sybils at no work against members that solve 6 bits', async () => {
    const registry = await open({ membersMax: 20, workBits: { first: 2, full: 6 } })
    const sybil = (i: number): LocalAgent => fakeAgent(`sybil ${i}`)
    const put1 = (agent: LocalAgent, curator: Eid, bits: number) => {
      const record = joinRecord(agent, curator, clock.nowMs())
      return registry.put(put(record, bits === 0 ? undefined : solved(record, bits)), self)
    }
    for (let i = 0; i < 200; i++) await put1(sybil(i), alice.eid, 0)
    expect(registry.stats().entries).toBe(10)
    for (let i = 0; i < 20; i++) expect(await put1(member(i), alice.eid, 6)).toEqual({ status: 'ok' })
    for (let i = 200; i < 400; i++) expect((await put1(sybil(i), alice.eid, 0)).status).toBe('need-work')
    const held = await idsOf(registry)
    for (let i = 0; i < 20; i++) expect(held.has(String(joinRecord(member(i), alice.eid, clock.nowMs())))).toBe(true)
  }, 120_000)
})

describe('the bounds of the protocol, as they are set', () => {
  type Row = { r: Uint8Array; e: number; n: number; g: boolean; c: Uint8Array; t: string[]; w?: number; p?: Uint8Array }
  const SETS: readonly RegistrySet[] = ['members', 'announcements', 'children', 'prunes', 'poms', 'relays']

  /** Rows as an earlier run left them; what they hold is not looked at. */
  async function fill(set: RegistrySet, key: Uint8Array, count: number, bytes = 4, work = 0): Promise<void> {
    const rows = store.table('registry-entries', cborCodec<Row>())
    const exp = Math.floor(clock.nowMs() / 1_000) + 3_600
    const prefix = toHex(registryKeyName(set, key))
    const ops = Array.from({ length: count }, (_, i) =>
      rows.put(`${prefix}:${i.toString(16).padStart(64, '0')}`, {
        r: new Uint8Array(bytes),
        e: exp,
        n: 1,
        g: false,
        c: new Uint8Array(32),
        t: [],
        ...(work === 0 ? {} : { w: work, p: new Uint8Array(8) })
      })
    )
    await store.commit(ops)
  }

  it('ask for the first work at 5,000 members and for 24 bits at 10,000, for 25 where the least held has 24', async () => {
    await fill('members', ENERGY_ID, 4_999)
    expect(await (await open()).put(put(join(1)), self)).toEqual({ status: 'ok' })
    await fill('members', ENERGY_ID, 5_001)
    expect(await (await open()).put(put(join(2)), self)).toEqual({ status: 'need-work', bits: 12 })
    await fill('members', ENERGY_ID, 9_999)
    const full = await open()
    expect(full.stats().entries).toBe(10_000)
    expect(await full.put(put(join(2)), self)).toEqual({ status: 'need-work', bits: 24 })
    store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    await fill('members', ENERGY_ID, 10_000, 4, 24)
    expect(await (await open()).put(put(join(3)), self)).toEqual({ status: 'need-work', bits: 25 })
  })

  for (const set of SETS.slice(1)) {
    it(`ask for the first work at 500 ${set} and for 24 bits at 1,000`, async () => {
      const accused = locatorPair(fakeAgent('accused'), clock.nowMs())
      const prefix = prefixId(nodeCrypto, ENERGY.ns, 'marketplace')
      const key =
        set === 'children'
          ? prefix
          : set === 'poms'
            ? pomKey(nodeCrypto, accused.target)
            : set === 'relays'
              ? circuitRelaysKey(nodeCrypto)
              : ENERGY_ID
      const record = {
        announcements: () => announceRecord(alice, clock.nowMs()),
        children: () => announceRecord(alice, clock.nowMs()),
        prunes: () => pruneRecord(alice, member(1).eid, clock.nowMs()),
        poms: () => ticketOf(accused, alice, clock.nowMs()).bytes,
        relays: () => circuitRelay(1),
        members: () => join(1)
      }[set]()
      await fill(set, key, 500)
      expect(await (await open()).put(put(record, undefined, set, key), self)).toEqual({ status: 'need-work', bits: 12 })
      await fill(set, key, 1_000)
      expect(await (await open()).put(put(record, undefined, set, key), self)).toEqual({ status: 'need-work', bits: 24 })
    })
  }

  it('end at 64 MiB in all sets together', async () => {
    const MIB = 1_048_576
    const each = 4_096 + 200
    const keys = 16
    const perKey = Math.floor((64 * MIB) / each / keys)
    for (let i = 0; i < keys; i++) await fill('poms', new Uint8Array(32).fill(i), perKey, 4_096)
    const registry = await open()
    const before = registry.stats().bytes
    expect(64 * MIB - before).toBeLessThan(keys * each)
    let status = 'ok'
    for (let i = 0; status === 'ok'; i++) status = (await registry.put(put(join(i)), self)).status
    expect(status).toBe('full')
    expect(registry.stats().bytes).toBeLessThanOrEqual(64 * MIB)
    expect(registry.stats().bytes).toBeGreaterThan(64 * MIB - each)
  })
})
