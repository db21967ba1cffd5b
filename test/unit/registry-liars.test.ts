import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  decodeRegistryRequest,
  encodeListResponse,
  encodePutResponse,
  type PutResponse,
  REGISTRY_PROTOCOL
} from '../../protocol/discovery/registry-messages.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { bitsWorthSolving } from '../../src/spaces/put-work.ts'
import { REGISTRY_DEADLINE_MS } from '../../src/spaces/registry-service.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, type FakeNodeInit, fakeNode, plainSolver } from './fakes/fake-node.ts'
import { ENERGY_ID, joinRecord } from './fakes/fake-records.ts'

const alice = fakeAgent('alice')
const members = { set: 'members' as const, key: ENERGY_ID }

let clock: ManualClock
let network: FakeNetwork
let nodes: FakeNode[]

async function start(count: number, init: FakeNodeInit = {}): Promise<FakeNode[]> {
  for (let i = 0; i < count; i++) nodes.push(await fakeNode(network, clock, `node-${nodes.length}`, [], init))
  network.meet(...nodes.map((node) => node.host))
  return nodes
}

const at = (i: number) => nodes[i] as FakeNode
const join = (name: string) => joinRecord(fakeAgent(name), alice.eid, clock.nowMs())
const ids = (listed: Awaited<ReturnType<FakeNode['registry']['list']>>) =>
  listed.entries.map(({ entry }) => Buffer.from(entry.id).toString('hex'))
const turns = async (count = 20) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** Serves the registry protocol by other rules. */
type Answer = (
  request: ReturnType<typeof decodeRegistryRequest>,
  stream: ByteStream
) => Uint8Array | undefined | Promise<Uint8Array | undefined>
const answering = (node: FakeNode, answer: Answer) =>
  node.host.handle(REGISTRY_PROTOCOL, async (stream) => {
    const response = await answer(decodeRegistryRequest(await readFrame(stream, 16_384)), stream)
    if (response === undefined) return
    await writeFrame(stream, response, 2 ** 31)
    await stream.closeWrite()
  })

beforeEach(() => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  nodes = []
})

afterEach(async () => {
  for (const node of nodes) await node.stop()
})

describe('a lying registrar blocks no honest search', () => {
  const next = (page: number) => {
    const cursor = new Uint8Array(32)
    new DataView(cursor.buffer).setUint32(0, page)
    return cursor
  }

  it('with pages without end, each slow: the others are heard, and it gets as long again as they took', async () => {
    await start(3)
    await at(0).registry.put({ ...members, record: join('bob') })
    let pages = 0
    await answering(at(1), async () => {
      await clock.sleep(1_000)
      return encodeListResponse({ status: 'ok', records: [], next: next(++pages) })
    })
    const startedMs = clock.monotonicMs()
    let done = false
    const listing = at(2)
      .registry.list(members)
      .finally(() => {
        done = true
      })
    while (!done) {
      clock.advance(100)
      await turns(4)
    }
    const listed = await listing
    expect(ids(listed)).toEqual([fakeAgent('bob').eidHex])
    expect(listed.answered).not.toContain(at(1).host.peer)
    expect(listed.complete).toBe(false)
    expect(clock.monotonicMs() - startedMs).toBeLessThan(5_000)
    expect(pages).toBeLessThan(6)
  })

  it('with rubbish, a different one in every answer: after 64 pieces it is heard no longer and is reported', async () => {
    await start(3)
    await at(0).registry.put({ ...members, record: join('bob') })
    let pieces = 0
    let pages = 0
    await answering(at(1), () => {
      const records = Array.from({ length: 100 }, () => Uint8Array.of(1, 2, ++pieces & 255, pieces >> 8))
      return encodeListResponse({ status: 'ok', records, next: next(++pages) })
    })
    const listed = await at(2).registry.list(members)
    expect(ids(listed)).toEqual([fakeAgent('bob').eidHex])
    expect(pages).toBe(1)
    expect(at(2).registry.faulty()).toEqual([{ peer: at(1).host.peer, hidden: 0, invented: 100, lastAtMs: clock.nowMs() }])
  })

  it('with an answer that trickles in: it has ten seconds for it', async () => {
    await start(2)
    await at(0).host.handle(REGISTRY_PROTOCOL, async (stream) => {
      await stream.write(Uint8Array.of(0, 0, 0, 200))
      for (let i = 0; i < 200; i++) {
        await clock.sleep(1_000)
        await stream.write(Uint8Array.of(1))
      }
    })
    const listing = at(1).registry.list(members)
    for (let ms = 0; ms < REGISTRY_DEADLINE_MS; ms += 500) {
      await turns(3)
      clock.advance(500)
    }
    expect(await listing).toMatchObject({ answered: [at(1).host.peer], complete: false })
  })

  it('with a PUT that it never reads: the writer goes on with the others and counts it as unreachable', async () => {
    await start(3)
    await at(0).host.handle(REGISTRY_PROTOCOL, () => new Promise(() => {}))
    const putting = at(2).registry.put({ ...members, record: join('bob') })
    await turns()
    clock.advance(REGISTRY_DEADLINE_MS)
    expect(await putting).toMatchObject({ registrars: 3, stored: 2, answers: { ok: 2, unreachable: 1 } })
  })
})

describe('registrars that hold the ten nearest places of a key', () => {
  it('hide nothing from a reader, who draws the ten that it asks from all twenty', async () => {
    await start(21)
    const near = (await at(0).host.dht.closestPeers(members.key, { countMax: 21 })).map(({ peer }) => peer)
    const placed = near.map((peer) => nodes.find(({ host }) => host.peer === peer) as FakeNode)
    for (const node of placed.slice(0, 10)) {
      await answering(node, ({ verb }) =>
        verb === 'put' ? encodePutResponse({ status: 'ok' }) : encodeListResponse({ status: 'ok', records: [] })
      )
    }
    // no registrar of the key itself, so that it goes by what others tell
    const reader = placed[20] as FakeNode
    await (placed[19] as FakeNode).registry.put({ ...members, record: join('bob') })
    for (let look = 0; look < 5; look++) {
      const listed = await reader.registry.list(members)
      expect(listed.asked).toHaveLength(10)
      expect(ids(listed)).toEqual([fakeAgent('bob').eidHex])
      clock.advance(11_000) // the registrars of a key are drawn anew every ten seconds
    }
  })
})

describe('the report of registrars', () => {
  /** Took the record with `ok` and shows nothing. */
  const hide = (node: FakeNode, put: PutResponse = { status: 'ok' }) =>
    answering(node, (request) => (request.verb === 'put' ? encodePutResponse(put) : encodeListResponse({ status: 'ok', records: [] })))

  it('names one that took an entry and leaves it out of a listing more than a minute later, not before', async () => {
    await start(4)
    await hide(at(0))
    await at(3).registry.put({ ...members, record: join('bob') })
    clock.advance(60_000)
    await at(3).registry.list(members)
    expect(at(3).registry.faulty()).toEqual([])
    clock.advance(1)
    expect(ids(await at(3).registry.list(members))).toEqual([fakeAgent('bob').eidHex])
    expect(at(3).registry.faulty()).toMatchObject([{ peer: at(0).host.peer, hidden: 1, invented: 0 }])
  })

  it('counts one that shows an older record than it took', async () => {
    await start(3)
    const old = join('bob')
    await answering(at(0), (request) =>
      request.verb === 'put' ? encodePutResponse({ status: 'ok' }) : encodeListResponse({ status: 'ok', records: [old] })
    )
    clock.advance(1_000)
    await at(2).registry.put({ ...members, record: join('bob') })
    clock.advance(61_000)
    await at(2).registry.list(members)
    expect(at(2).registry.faulty()).toMatchObject([{ peer: at(0).host.peer, hidden: 1 }])
  })

  it('counts nobody whose entry has run out, was not asked for, or made room for one with more work', async () => {
    await start(3)
    await hide(at(0))
    await at(2).registry.put({ ...members, record: join('bob') })
    clock.advance(61_000)
    await at(2).registry.list({ ...members, tags: ['solar'] })
    await at(2).registry.list({ ...members, id: fakeAgent('carol').eid })
    expect(at(2).registry.faulty()).toEqual([])
    await hide(at(0), { status: 'need-work', bits: 24 })
    await at(2).registry.list(members)
    await at(2).registry.idle()
    expect(at(2).registry.faulty()).toEqual([])
    clock.advance(3_600_000)
    await at(2).registry.list(members)
    expect(at(2).registry.faulty()).toEqual([])
  })

  it('is kept over a restart, and forgiven after a day there too', async () => {
    await start(4)
    await hide(at(0))
    await at(3).registry.put({ ...members, record: join('bob') })
    clock.advance(61_000)
    await at(3).registry.list(members)
    const told = at(3).registry.faulty()
    expect(told).toMatchObject([{ peer: at(0).host.peer, hidden: 1 }])
    await at(3).restart()
    expect(at(3).registry.faulty()).toEqual(told)
    clock.advance(24 * 3_600_000 + 1)
    await at(3).restart()
    expect(at(3).registry.faulty()).toEqual([])
  })

  it('asks who is named last, hears it all the same, and forgives after a day', async () => {
    await start(14)
    const key = members.key
    const nearest = (await at(13).registry.registrars(key))[0]
    const liar = nodes.find((node) => node.host.peer === nearest?.peer && node !== at(13)) ?? at(0)
    await hide(liar)
    await at(13).registry.put({ ...members, record: join('bob') })
    clock.advance(61_000)
    while (at(13).registry.faulty().length === 0) {
      const others = nodes.filter((node) => node !== liar && node !== at(13)).slice(0, 6)
      for (const node of others) node.host.online = false
      await at(13).registry.list(members)
      for (const node of others) node.host.online = true
      clock.advance(61_000)
    }
    expect((await at(13).registry.list(members)).asked).not.toContain(liar.host.peer)
    clock.advance(24 * 3_600_000 + 1)
    expect(at(13).registry.faulty()).toEqual([])
  })
})

describe('a writer whose registrars ask for work', () => {
  const endless: FakeNodeInit['solver'] = {
    solve: (_seed, _bits, { signal } = {}) =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }))
  }
  const crowded = { membersMax: 4, workBits: { first: 6, full: 8 } }

  it('solves it once for all of them and gets its place', async () => {
    let solved = 0
    const solver: FakeNodeInit['solver'] = {
      async solve(seed, bits) {
        solved++
        return await plainSolver.solve(seed, bits)
      }
    }
    await start(6, { ...crowded, solver })
    for (const name of ['a', 'b']) await at(0).registry.put({ ...members, record: join(name) })
    expect(solved).toBe(0)
    const texts: string[] = []
    const record = join('bob')
    const outcome = await at(0).registry.put({ ...members, record }, { onProgress: (text) => texts.push(text) })
    expect(outcome).toMatchObject({ registrars: 6, stored: 6, answers: { ok: 6 } })
    expect(outcome.workBits).toBeGreaterThanOrEqual(6)
    expect(texts).toContain('working 6 bits for a place')
    expect(solved).toBe(1)
    expect(await at(0).registry.put({ ...members, record })).toMatchObject({ stored: 6 })
    expect(solved).toBe(1)
  })

  it('solves once more when a set has filled meanwhile, and then leaves that registrar out', async () => {
    await start(2)
    let asked = 2
    await answering(at(0), () => {
      asked += 4
      return encodePutResponse({ status: 'need-work', bits: asked })
    })
    const outcome = await at(1).registry.put({ ...members, record: join('bob') })
    expect(outcome).toMatchObject({ registrars: 2, stored: 1, answers: { ok: 1, 'need-work': 1 } })
    expect(outcome.workBits).toBeGreaterThanOrEqual(6)
    expect(asked).toBeLessThanOrEqual(14)
  })

  it('does none above 24 bits, and none for a lone asker among many', () => {
    expect(bitsWorthSolving([24, 24, 24], 3)).toBe(24)
    expect(bitsWorthSolving([25, 25, 32], 3)).toBe(0)
    expect(bitsWorthSolving([24], 20)).toBe(0)
    expect(bitsWorthSolving([24, 20, 20, 20], 20)).toBe(0)
    expect(bitsWorthSolving([24, 20, 20, 20, 20], 20)).toBe(20)
    expect(bitsWorthSolving([12], 1)).toBe(12)
    expect(bitsWorthSolving([], 20)).toBe(0)
  })

  it('stops with its caller', async () => {
    const controller = new AbortController()
    await start(2, {
      solver: endless
    })
    await answering(at(0), () => encodePutResponse({ status: 'need-work', bits: 24 }))
    const putting = at(1).registry.put({ ...members, record: join('bob') }, { signal: controller.signal })
    await turns()
    controller.abort(new Error('enough'))
    await expect(putting).rejects.toThrow('enough')
  })

  it('is given up after two minutes, and the others keep what they took', async () => {
    await start(2, {
      solver: endless
    })
    await answering(at(0), () => encodePutResponse({ status: 'need-work', bits: 24 }))
    const putting = at(1).registry.put({ ...members, record: join('bob') })
    await turns()
    clock.advance(120_000)
    expect(await putting).toMatchObject({ stored: 1, answers: { ok: 1, 'need-work': 1 } })
  })

  it('is not needed again by who repairs: the nonce goes with the entry', async () => {
    await start(4, crowded)
    for (const name of ['a', 'b']) await at(0).registry.put({ ...members, record: join(name) })
    at(1).host.online = false
    await at(0).registry.put({ ...members, record: join('bob') })
    at(1).host.online = true
    expect(at(1).registry.stats()).toMatchObject({ entries: 2 })
    const listed = await at(3).registry.list(members)
    expect(listed.entries.find(({ entry }) => Buffer.from(entry.id).toString('hex') === bobHex)?.pow).toHaveLength(8)
    await at(3).registry.idle()
    expect(at(1).registry.stats()).toMatchObject({ entries: 3 })
  })
  const bobHex = fakeAgent('bob').eidHex
})
