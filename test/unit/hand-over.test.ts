import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encodeKeysResponse, encodeListResponse, REGISTRY_PROTOCOL } from '../../protocol/discovery/registry-messages.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, type FakeNodeInit, fakeNode, pass } from './fakes/fake-node.ts'
import { announceRecord, ENERGY_ID, joinGone, joinRecord } from './fakes/fake-records.ts'

const alice = fakeAgent('alice')
const members = { set: 'members' as const, key: ENERGY_ID }
const member = (i: number) => fakeAgent(`member ${i}`)

let clock: ManualClock
let network: FakeNetwork
let nodes: FakeNode[]

async function start(count: number, init: FakeNodeInit = { handOver: 'automatic' }): Promise<FakeNode[]> {
  const from = nodes.length
  for (let i = from; i < from + count; i++) nodes.push(await fakeNode(network, clock, `node-${i}`, [], init))
  return nodes.slice(from)
}
const join = (i: number) => joinRecord(member(i), alice.eid, clock.nowMs())
const at = (i: number) => nodes[i] as FakeNode

beforeEach(() => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  nodes = []
})

afterEach(async () => {
  for (const node of nodes) await node.stop()
})

describe('a newcomer among the registrars of a key', () => {
  it('pulls all that its neighbours hold there, tombstones too, some seconds after it met them', async () => {
    await start(3)
    network.meet(...nodes.map((node) => node.host))
    for (let i = 0; i < 250; i++) {
      if (i % 30 === 0) clock.advance(60_000)
      await at(0).registry.put({ ...members, record: join(i) })
    }
    await at(0).registry.put({ ...members, record: joinGone(member(0), alice.eid, clock.nowMs() + 1) })
    await at(0).registry.put({ set: 'announcements', key: ENERGY_ID, record: announceRecord(alice, clock.nowMs()) })
    const [newcomer] = (await start(1)) as [FakeNode]
    network.meet(...nodes.map((node) => node.host))
    expect(newcomer.registry.stats().entries).toBe(0)
    await pass(clock, 10_000, nodes, 1_000)
    expect(newcomer.registry.stats()).toMatchObject({ keys: 2, entries: 251, takenOver: 251 })
    for (const node of nodes) if (node !== newcomer) node.host.online = false
    const listed = await newcomer.registry.list(members)
    expect(listed.entries.filter(({ entry }) => !entry.gone)).toHaveLength(249)
  })

  it('takes no key that 20 nearer peers hold', async () => {
    await start(40, { handOver: 'by-hand' })
    network.meet(...nodes.map((node) => node.host))
    const registrars = new Set((await at(0).registry.registrars(ENERGY_ID)).map(({ peer }) => peer))
    await at(0).registry.put({ ...members, record: join(1) })
    for (const node of nodes) await node.registry.takeOver()
    for (const node of nodes)
      expect([node.host.peer, node.registry.stats().entries]).toEqual([node.host.peer, registrars.has(node.host.peer) ? 1 : 0])
  })

  it('becomes one when a registrar goes: the next nearest takes its place within the next round', async () => {
    await start(24)
    network.meet(...nodes.map((node) => node.host))
    await pass(clock, 10_000, nodes, 10_000)
    await at(0).registry.put({ ...members, record: join(1) })
    const named = new Set((await at(0).registry.registrars(ENERGY_ID)).map(({ peer }) => peer))
    const spare = nodes.filter((node) => !named.has(node.host.peer))
    for (const node of spare) expect(node.registry.stats().entries).toBe(0)
    for (const node of nodes.filter((one) => named.has(one.host.peer)).slice(0, 4)) node.host.online = false
    await pass(clock, 11 * 60_000, nodes, 60_000)
    for (const node of spare) expect(node.registry.stats().entries).toBe(1)
  })

  it('believes a neighbour nothing that does not verify, and keeps its own bounds', async () => {
    const [liar, newcomer] = (await start(2, { handOver: 'by-hand', membersMax: 4 })) as [FakeNode, FakeNode]
    const bent = join(0)
    bent[bent.length - 1] = (bent[bent.length - 1] as number) ^ 1
    const records = [bent, joinRecord(member(9), alice.eid, clock.nowMs() - 4_000_000), ...[1, 2, 3, 4, 5, 6].map(join)]
    await liar.host.handle(REGISTRY_PROTOCOL, async (stream) => {
      const isKeys = Buffer.from(await readFrame(stream, 16_384)).includes('keys')
      const keys = encodeKeysResponse({ status: 'ok', keys: [members, { set: 'members', key: new Uint8Array(32) }] })
      await writeFrame(stream, isKeys ? keys : encodeListResponse({ status: 'ok', records }), 2 ** 20)
      await stream.closeWrite()
    })
    network.meet(liar.host, newcomer.host)
    await newcomer.registry.takeOver()
    expect(newcomer.registry.stats()).toMatchObject({ keys: 1, entries: 2, takenOver: 2 })
    expect(newcomer.registry.faulty()).toMatchObject([{ peer: liar.host.peer }])
  })

  it('is held up by no neighbour: one that turns its keys in a circle, one that is silent', async () => {
    const [turner, silent, honest, newcomer] = (await start(4, { handOver: 'by-hand' })) as [FakeNode, FakeNode, FakeNode, FakeNode]
    network.meet(honest.host)
    await honest.registry.put({ ...members, record: join(1) })
    let pages = 0
    await turner.host.handle(REGISTRY_PROTOCOL, async (stream) => {
      pages++
      await readFrame(stream, 16_384)
      await writeFrame(stream, encodeKeysResponse({ status: 'ok', keys: [], next: new Uint8Array(33).fill(7) }), 2 ** 20)
      await stream.closeWrite()
    })
    await silent.host.handle(REGISTRY_PROTOCOL, () => new Promise(() => {}))
    network.meet(...nodes.map((node) => node.host))
    const round = newcomer.registry.takeOver()
    for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve))
    clock.advance(10_000)
    await round
    expect(newcomer.registry.stats().entries).toBe(1)
    expect(pages).toBeLessThanOrEqual(3)
  })

  it('asks for what it has pulled already only half an hour later', async () => {
    const [a, b] = (await start(2, { handOver: 'by-hand' })) as [FakeNode, FakeNode]
    network.meet(a.host, b.host)
    await a.registry.put({ ...members, record: join(1) })
    const streams = () => network.opened.get(REGISTRY_PROTOCOL) ?? 0
    await b.registry.takeOver()
    const before = streams()
    await b.registry.takeOver()
    expect(streams() - before).toBe(1)
    clock.advance(30 * 60_000)
    await b.registry.takeOver()
    expect(streams() - before).toBe(3)
  })

  it('pulls nothing as a client, and nothing after its stop', async () => {
    const [a, b] = (await start(2, { handOver: 'by-hand' })) as [FakeNode, FakeNode]
    network.meet(a.host, b.host)
    await a.registry.put({ ...members, record: join(1) })
    b.host.dhtMode = 'client'
    const before = network.opened.get(REGISTRY_PROTOCOL)
    await b.registry.takeOver()
    b.host.dhtMode = 'server'
    await b.registry.stop()
    await b.registry.takeOver()
    expect(network.opened.get(REGISTRY_PROTOCOL)).toBe(before)
  })
})
