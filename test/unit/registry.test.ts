import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encodeListResponse, encodePutResponse, REGISTRY_PROTOCOL } from '../../protocol/discovery/registry-messages.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { writeFrame } from '../../src/net/frame.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { REGISTRY_DEADLINE_MS } from '../../src/spaces/registry-service.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, fakeNode } from './fakes/fake-node.ts'
import { announceRecord, ENERGY_ID, joinGone, joinRecord } from './fakes/fake-records.ts'

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const members = { set: 'members' as const, key: ENERGY_ID }

let clock: ManualClock
let network: FakeNetwork
let nodes: FakeNode[]

async function start(count: number, addrs?: (i: number) => string): Promise<FakeNode[]> {
  for (let i = 0; i < count; i++) {
    const node = await fakeNode(network, clock, `node-${i}`, [])
    if (addrs !== undefined) node.host.addrs = [addrs(i)]
    nodes.push(node)
  }
  network.meet(...nodes.map((node) => node.host))
  return nodes
}

const tick = () => new Promise((resolve) => setImmediate(resolve))
const dids = (listed: Awaited<ReturnType<FakeNode['registry']['list']>>) =>
  listed.entries.filter(({ entry }) => !entry.gone).map(({ entry }) => Buffer.from(entry.id).toString('hex'))

beforeEach(() => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  nodes = []
})

afterEach(async () => {
  for (const node of nodes) await node.stop()
})

describe('[F104] a stranger on the registry protocol', () => {
  const u32 = (n: number) => Uint8Array.of(n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255)
  const attacks: Record<string, (stream: ByteStream) => Promise<void>> = {
    'ends the stream without a byte': (stream) => stream.closeWrite(),
    'resets it after one byte': async (stream) => {
      await stream.write(Uint8Array.of(0))
      stream.reset(new Error('gone'))
    },
    'announces 2^31 bytes': (stream) => stream.write(u32(0x80000000)),
    'announces one byte more than a request may have': (stream) => stream.write(u32(16 * 1024 + 1)),
    'sends no bytes after a length of zero': (stream) => stream.write(u32(0)),
    'ends in the middle of a frame': async (stream) => {
      await stream.write(u32(100))
      await stream.write(new Uint8Array(50))
      await stream.closeWrite()
    },
    'sends what is no CBOR': (stream) => writeFrame(stream, new TextEncoder().encode('{"verb":"keys"}'), 1_000),
    'sends 10 MB of one byte': (stream) => stream.write(new Uint8Array(10_000_000).fill(0x41)),
    'nests 16,000 brackets': (stream) => writeFrame(stream, new Uint8Array(16_000).fill(0x81), 16_000)
  }
  for (const [what, attack] of Object.entries(attacks)) {
    it(`${what}: the stream is reset and counted, the service goes on`, async () => {
      const [server, client] = (await start(2)) as [FakeNode, FakeNode]
      const stream = await client.host.openStream({ peer: server.host.peer, addrs: [] }, REGISTRY_PROTOCOL)
      await attack(stream)
      await expect(stream.read(1)).rejects.toMatchObject({ code: 'STREAM_RESET' })
      expect(server.registry.stats()).toMatchObject({ failed: 1, served: 0 })
      expect(server.host.handlerErrors).toHaveLength(1)
      expect((await client.registry.list(members)).answered).toHaveLength(2)
    })
  }

  it('sends nothing for ten seconds: its stream is reset', async () => {
    const [server, client] = (await start(2)) as [FakeNode, FakeNode]
    const stream = await client.host.openStream({ peer: server.host.peer, addrs: [] }, REGISTRY_PROTOCOL)
    await stream.write(Uint8Array.of(0, 0))
    clock.advance(REGISTRY_DEADLINE_MS - 1)
    await tick()
    expect(server.registry.stats().failed).toBe(0)
    clock.advance(1)
    await expect(stream.read(1)).rejects.toMatchObject({ code: 'STREAM_RESET' })
    expect(server.host.handlerErrors).toMatchObject([{ code: 'REGISTRY_TIMEOUT' }])
  })
})

describe('a reader of the registry', () => {
  const answers = (bytes: Uint8Array) => async (stream: ByteStream) => {
    await stream.read(4)
    await writeFrame(stream, bytes, 2 ** 31)
    await stream.closeWrite()
  }
  const cursor = (byte: number) => new Uint8Array(32).fill(byte)

  it('[DS-12] believes no entry that it has not verified, whoever serves it', async () => {
    const [honest, liar, reader] = (await start(3)) as [FakeNode, FakeNode, FakeNode]
    await honest.registry.put({ ...members, record: joinRecord(bob, alice.eid, clock.nowMs()) })
    const bent = joinRecord(carol, alice.eid, clock.nowMs())
    bent[bent.length - 1] = (bent[bent.length - 1] as number) ^ 1
    const records = [
      bent,
      joinRecord(carol, alice.eid, clock.nowMs() - 4_000_000),
      joinRecord(carol, alice.eid, clock.nowMs() + 500_000),
      joinRecord(carol, alice.eid, clock.nowMs(), { dsid: new Uint8Array(32) as typeof ENERGY_ID }),
      announceRecord(carol, clock.nowMs()),
      Uint8Array.of(1, 2, 3)
    ]
    await liar.host.handle(REGISTRY_PROTOCOL, answers(encodeListResponse({ status: 'ok', records })))
    const listed = await reader.registry.list(members)
    expect(dids(listed)).toEqual([bob.eidHex])
    expect(listed.answered).toHaveLength(3)
    expect(listed.entries[0]?.servedBy).not.toContain(liar.host.peer)
  })

  it('listens no longer to a registrar that serves many entries which do not verify, and does not count it as an answer', async () => {
    const [honest, liar, reader] = (await start(3)) as [FakeNode, FakeNode, FakeNode]
    await honest.registry.put({ ...members, record: joinRecord(bob, alice.eid, clock.nowMs()) })
    const records = Array.from({ length: 100 }, (_, i) => Uint8Array.of(1, 2, i))
    await liar.host.handle(REGISTRY_PROTOCOL, answers(encodeListResponse({ status: 'ok', records })))
    const listed = await reader.registry.list(members)
    expect(dids(listed)).toEqual([bob.eidHex])
    expect(listed.answered).not.toContain(liar.host.peer)
    expect(listed.complete).toBe(false)
  })

  it('[DS-15] leaves out what does not match though a registrar serves it', async () => {
    const [liar, reader] = (await start(2)) as [FakeNode, FakeNode]
    const records = [joinRecord(bob, carol.eid, clock.nowMs(), { tags: ['solar'] }), joinRecord(carol, alice.eid, clock.nowMs())]
    await liar.host.handle(REGISTRY_PROTOCOL, answers(encodeListResponse({ status: 'ok', records })))
    expect(dids(await reader.registry.list({ ...members, curator: alice.eid }))).toEqual([carol.eidHex])
    expect(dids(await reader.registry.list({ ...members, tags: ['solar'] }))).toEqual([bob.eidHex])
  })

  const broken: Record<string, (stream: ByteStream) => Promise<void>> = {
    'answers with too much': answers(new Uint8Array(1024 * 1024 + 1)),
    'answers with what is no CBOR': answers(Uint8Array.of(0xff, 0xff)),
    'answers a PUT instead': answers(encodePutResponse({ status: 'ok' })),
    'answers full': answers(encodeListResponse({ status: 'full', records: [] })),
    'turns its pages in a circle': answers(encodeListResponse({ status: 'ok', records: [], next: cursor(7) })),
    'ends without an answer': (stream) => stream.close(),
    throws: () => Promise.reject(new Error('broken'))
  }
  for (const [what, handler] of Object.entries(broken)) {
    it(`[F104] does without a registrar that ${what}`, async () => {
      const [honest, bad, reader] = (await start(3)) as [FakeNode, FakeNode, FakeNode]
      await honest.registry.put({ ...members, record: joinRecord(bob, alice.eid, clock.nowMs()) })
      await bad.host.handle(REGISTRY_PROTOCOL, handler)
      const listed = await reader.registry.list(members)
      expect(dids(listed)).toEqual([bob.eidHex])
      expect(listed.asked).toHaveLength(3)
      expect(listed.answered).not.toContain(bad.host.peer)
      expect(listed.complete).toBe(false)
    })
  }

  it('waits ten seconds for a registrar that is silent, not longer', async () => {
    const [silent, reader] = (await start(2)) as [FakeNode, FakeNode]
    await silent.host.handle(REGISTRY_PROTOCOL, () => new Promise(() => {}))
    const listing = reader.registry.list(members)
    for (let i = 0; i < 5; i++) await tick()
    clock.advance(REGISTRY_DEADLINE_MS)
    expect(await listing).toMatchObject({ answered: [reader.host.peer], complete: false })
  })

  it('stops when its caller does', async () => {
    const [silent, reader] = (await start(2)) as [FakeNode, FakeNode]
    await silent.host.handle(REGISTRY_PROTOCOL, () => new Promise(() => {}))
    const controller = new AbortController()
    const listing = reader.registry.list(members, { signal: controller.signal })
    await tick()
    controller.abort(new Error('enough'))
    await expect(listing).rejects.toThrow('enough')
  })

  it('asks ten of the twenty registrars, and more only for those that fail', async () => {
    const all = await start(25)
    const reader = all[0] as FakeNode
    const first = await reader.registry.list(members)
    expect(first.known).toHaveLength(20)
    expect(first.asked).toHaveLength(10)
    expect(first).toMatchObject({ complete: true })
    const dead = new Set(first.asked.slice(0, 4))
    for (const node of all)
      if (dead.has(node.host.peer) && node !== reader) node.host.handle(REGISTRY_PROTOCOL, () => Promise.reject(new Error('dead')))
    const second = await reader.registry.list(members)
    expect(second.answered).toHaveLength(10)
    expect(second.asked.length).toBeGreaterThan(10)
    for (const node of all) if (node !== reader) node.host.handle(REGISTRY_PROTOCOL, () => Promise.reject(new Error('dead')))
    const third = await reader.registry.list(members)
    expect(third.asked).toHaveLength(20)
    expect(third.complete).toBe(false)
  })

  it('stops early once it has as many as were asked for, whoever else is silent', async () => {
    const all = await start(10)
    const [first, reader, ...others] = all as [FakeNode, FakeNode, ...FakeNode[]]
    const agents = Array.from({ length: 5 }, (_, i) => fakeAgent(`m${i}`))
    for (const agent of agents) await first.registry.put({ ...members, record: joinRecord(agent, alice.eid, clock.nowMs()) })
    for (const silent of others) await silent.host.handle(REGISTRY_PROTOCOL, () => new Promise(() => {}))
    const listed = await reader.registry.list({ ...members, limit: 2 })
    expect(dids(listed).length).toBeGreaterThanOrEqual(2)
    expect(listed.asked).toHaveLength(10)
    expect(listed.answered.length).toBeLessThanOrEqual(2)
    expect(listed.complete).toBe(true)
  })

  it('asks itself without a stream, and alone is its own only registrar', async () => {
    const [alone] = (await start(1)) as [FakeNode]
    expect(await alone.registry.put({ ...members, record: joinRecord(bob, alice.eid, clock.nowMs()) })).toMatchObject({
      registrars: 1,
      stored: 1
    })
    expect(await alone.registry.list(members)).toMatchObject({ known: [alone.host.peer], answered: [alone.host.peer], complete: true })
    expect(network.opened.get(REGISTRY_PROTOCOL)).toBeUndefined()
  })

  it('finds the one entry that it names, among many', async () => {
    const [a, b] = (await start(2)) as [FakeNode, FakeNode]
    const agents = Array.from({ length: 8 }, (_, i) => fakeAgent(`m${i}`))
    for (const agent of agents) await a.registry.put({ ...members, record: joinRecord(agent, alice.eid, clock.nowMs()) })
    for (const agent of agents) expect(dids(await b.registry.list({ ...members, id: agent.eid }))).toEqual([agent.eidHex])
    expect(dids(await b.registry.list({ ...members, id: fakeAgent('nobody').eid }))).toEqual([])
  })

  it('lets a tombstone that one registrar has win over what the others still serve', async () => {
    const [a, b, c] = (await start(3)) as [FakeNode, FakeNode, FakeNode]
    await a.registry.put({ ...members, record: joinRecord(bob, alice.eid, clock.nowMs()) })
    b.host.online = false
    clock.advance(1_000)
    await a.registry.put({ ...members, record: joinGone(bob, alice.eid, clock.nowMs()) })
    b.host.online = true
    expect(dids(await c.registry.list(members))).toEqual([])
    await c.registry.idle()
    for (const node of [a, c]) node.host.online = false
    expect(dids(await b.registry.list(members))).toEqual([])
  })

  it('puts an entry to the registrars that lack it, at most 32 a listing', async () => {
    const [a, b, c] = (await start(3)) as [FakeNode, FakeNode, FakeNode]
    b.host.online = false
    for (let i = 0; i < 40; i++) {
      if (i === 20) clock.advance(60_000)
      await a.registry.put({ ...members, record: joinRecord(fakeAgent(`m${i}`), alice.eid, clock.nowMs()) })
    }
    b.host.online = true
    expect(b.registry.stats().entries).toBe(0)
    await c.registry.list(members)
    await c.registry.idle()
    expect(b.registry.stats().entries).toBe(32)
  })
})

describe('the registrars of a key', () => {
  it('are at most two of one public /24, however near the others are', async () => {
    const all = await start(24, (i) => (i < 20 ? `/ip4/8.8.4.${i + 1}/udp/4001/quic-v1` : `/ip4/9.9.${i}.1/udp/4001/quic-v1`))
    const chosen = await (all[0] as FakeNode).registry.registrars(ENERGY_ID)
    expect(chosen.filter(({ addrs }) => addrs[0]?.startsWith('/ip4/8.8.4.'))).toHaveLength(2)
    expect(chosen).toHaveLength(6)
  })

  it('may all be on one loopback or private network', async () => {
    const all = await start(22, (i) => (i % 2 === 0 ? `/ip4/127.0.0.1/udp/${4000 + i}/quic-v1` : `/ip4/192.168.1.${i}/udp/4001/quic-v1`))
    expect(await (all[0] as FakeNode).registry.registrars(ENERGY_ID)).toHaveLength(20)
  })
})
