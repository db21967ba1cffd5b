import v8 from 'node:v8'
import vm from 'node:vm'
import { describe, expect, it } from 'vitest'
import { concat } from '../../protocol/bytes.ts'
import { encodeCriteria } from '../../protocol/discovery/criteria.ts'
import { buildRequest, DISCOVERY_PROTOCOL, withHops, withNonce } from '../../protocol/discovery/request.ts'
import { decodeResponseHead, encodeRejection, encodeResponse } from '../../protocol/discovery/response.ts'
import { ITEM_BYTES } from '../../protocol/discovery/sealed-item.ts'
import { nonceBytes, requestSeed } from '../../protocol/discovery/work.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { DiscoveryComponents } from '../../src/discovery/components.ts'
import { ConnectionSlots } from '../../src/discovery/connection-slots.ts'
import { type DiscoveryService, serveDiscovery } from '../../src/discovery/discovery-service.ts'
import { RookeryError } from '../../src/errors.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import type { Logger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { ScalarSearch } from '../../src/work/search.ts'
import { type FakeHost, FakeNetwork } from './fakes/fake-network.ts'

const START_MS = 1_800_000_000_000
const TARGET = new Uint8Array(32).fill(7)

interface Served {
  clock: ManualClock
  network: FakeNetwork
  host: FakeHost
  service: DiscoveryService
  log: string[]
}

/** A node that serves discovery and knows nobody. */
async function serve(init: Parameters<typeof serveDiscovery>[1] = {}, more: Partial<DiscoveryComponents> = {}): Promise<Served> {
  const clock = new ManualClock(START_MS)
  const network = new FakeNetwork(clock)
  const host = network.add('node')
  const log: string[] = []
  const line = (_fields: object, message: string) => void log.push(message)
  const logger: Logger = { debug: line, info: line, warn: line, error: line, child: () => logger }
  const service = await serveDiscovery(
    {
      host,
      clock,
      random: seededRandom(1),
      crypto: nodeCrypto,
      logger,
      solver: { solve: async () => new Uint8Array(8) },
      registry: {
        registrars: async () => [{ peer: host.peer, addrs: [] }],
        held: async () => ({ status: 'ok', records: [] })
      },
      registrarsMax: 20,
      locators: {
        resolve: async () => {
          throw new RookeryError('AGENT_UNKNOWN', 'nobody', { kind: 'notFound' })
        },
        published: () => undefined,
        learn() {}
      },
      joins: () => [],
      points: () => [],
      agent: () => undefined,
      reputation: () => 100,
      policy: () => 'answer',
      ...more
    },
    init
  )
  return { clock, network, host, service, log }
}

/** A request with its work, ready to send. */
function solved(nowMs: number, { bits = 16, hops = 1, n = 0 }: { bits?: number; hops?: number; n?: number } = {}): Uint8Array {
  const ephemeral = nodeCrypto.x25519.publicKey(nodeCrypto.sha256(Uint8Array.of(n)))
  const wanted = { records: true, contact: true, difficulty: bits, fanOut: 1, target: TARGET, ephemeral, timestampMs: nowMs }
  const { header, criteria } = buildRequest(nodeCrypto, wanted, {})
  const search = new ScalarSearch()
  search.begin(requestSeed(header), 0, bits)
  const nonce = search.slice(0, 2 ** (bits + 6)) as number
  return concat([withHops(withNonce(header, nonceBytes(BigInt(nonce))), hops), criteria])
}

/** Sends bytes to the node over a stream of its own and gives all that comes back until it ends, or how it was dropped. */
async function send(served: Served, bytes: Uint8Array, from = 'stranger'): Promise<Uint8Array | 'dropped'> {
  const stranger = [...served.network.hosts.values()].find((host) => host.addrs[0] === `/memory/${from}`) ?? served.network.add(from)
  const stream = await stranger.openStream({ peer: served.host.peer, addrs: [] }, DISCOVERY_PROTOCOL)
  await stream.write(bytes)
  await stream.closeWrite()
  return await rest(stream)
}

async function rest(stream: ByteStream): Promise<Uint8Array | 'dropped'> {
  const parts: Uint8Array[] = []
  for (;;) {
    try {
      parts.push(await stream.read(1))
    } catch (error) {
      return (error as RookeryError).code === 'STREAM_ENDED' ? concat(parts) : 'dropped'
    }
  }
}

describe('a node that is asked', () => {
  it('[AD-02] takes a request with its work, once', async () => {
    const served = await serve()
    const request = solved(START_MS)
    expect(await send(served, request)).toEqual(new Uint8Array(0))
    expect(await send(served, request)).toBe('dropped')
    expect(served.service.stats()).toMatchObject({ served: 1, queued: 0, remembered: 1, refused: { replayed: 1 } })
  })

  it('[AD-02] [D-04] [D-05] answers too little work, and a wrong clock, with what it asks for, at most once a second a connection', async () => {
    const served = await serve()
    const lacking = solved(START_MS)
    lacking[119] = 1 ^ (lacking[119] as number)
    const stream = async (bytes: Uint8Array) => {
      const answer = await send(served, bytes)
      return answer === 'dropped' ? answer : decodeResponseHead(answer)
    }
    expect(await stream(lacking)).toEqual({ type: 'rej', difficulty: 16, reason: 'work' })
    expect(await stream(solved(START_MS - 120_001))).toEqual({ type: 'rej', difficulty: 16, reason: 'clock' })
    expect(served.service.stats().refused).toMatchObject({ work: 1, clock: 1 })
  })

  it('[G-31] sends one REJ a second over one connection, however many requests it brings', async () => {
    const clock = new ManualClock(START_MS)
    const slot = new ConnectionSlots(clock).of('c')
    expect([slot?.mayReject(), slot?.mayReject()]).toEqual([true, false])
    clock.advance(999)
    expect(slot?.mayReject()).toBe(false)
    clock.advance(1)
    expect(slot?.mayReject()).toBe(true)
  })

  it('[AD-03] [G-31] has one buffer for each connection and none for a connection beyond the bound, until one is at rest', async () => {
    const clock = new ManualClock(START_MS)
    const slots = new ConnectionSlots(clock, 2)
    const first = slots.of('a')
    expect(slots.of('a')).toBe(first)
    const reading = Promise.withResolvers<void>()
    const held = [first?.read(() => reading.promise), slots.of('b')?.read(() => reading.promise)]
    expect([slots.of('c'), slots.size]).toEqual([undefined, 2])
    reading.resolve()
    await Promise.all(held)
    expect(slots.of('c')).toBeDefined()
    expect(slots.size).toBeLessThanOrEqual(2)
  })

  it('[AD-03] drops a header that does not come within five seconds, a cut one, and criteria that are not those of the hash', async () => {
    const served = await serve()
    const stranger = served.network.add('slow')
    const stream = await stranger.openStream({ peer: served.host.peer, addrs: [] }, DISCOVERY_PROTOCOL)
    await stream.write(solved(START_MS).subarray(0, 119))
    const ended = rest(stream)
    await new Promise((resolve) => setImmediate(resolve))
    served.clock.advance(4_999)
    expect(served.service.stats().refused.late).toBe(0)
    served.clock.advance(1)
    expect(await ended).toBe('dropped')
    expect(await send(served, solved(START_MS).subarray(0, 60))).toBe('dropped')
    const other = solved(START_MS)
    expect(await send(served, concat([other.subarray(0, 120), encodeCriteria({ tags: ['a'] }).subarray(0, 1)]))).toBe('dropped')
    expect(served.service.stats()).toMatchObject({ queued: 0, served: 0, refused: { late: 2, faulty: 1 } })
  })

  it('[AD-03] drops more bytes than a request has, by reading none of them', async () => {
    const served = await serve()
    expect(await send(served, concat([solved(START_MS), new Uint8Array(100_000)]))).toEqual(new Uint8Array(0))
    expect(served.service.stats()).toMatchObject({ served: 1 })
  })

  it('[G-30] asks for more work as its queue fills, and refuses what comes with less', async () => {
    const waiting = Promise.withResolvers<void>()
    const held = async () => {
      await waiting.promise
      return { status: 'ok' as const, records: [] }
    }
    const served = await serve({ capacity: 4 }, { registry: { registrars: async () => [], held } })
    const first = send(served, solved(START_MS, { n: 1 }), 'first')
    while (served.service.stats().queued === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(served.service.stats().difficulty).toBe(20)
    const answer = await send(served, solved(START_MS, { n: 2 }), 'second')
    expect(decodeResponseHead(answer as Uint8Array)).toEqual({ type: 'rej', difficulty: 20, reason: 'work' })
    waiting.resolve()
    await first
    expect(served.service.stats()).toMatchObject({ difficulty: 16, queued: 0 })
  })

  /** A node that delivers to one registrar, which does what the test says. */
  async function relaying(registrar: (stream: ByteStream) => Promise<void>) {
    const registrars: { peer: string; addrs: string[] }[] = []
    const served = await serve({}, { registry: { registrars: async () => registrars, held: async () => ({ status: 'ok', records: [] }) } })
    const host = served.network.add('registrar')
    registrars.push({ peer: host.peer, addrs: [] })
    const headers: Uint8Array[] = []
    await host.handle(DISCOVERY_PROTOCOL, async (stream) => {
      headers.push(await stream.read(120))
      await registrar(stream)
    })
    return { ...served, headers }
  }

  it('[G-34] passes back 32 items and one REJ of whatever the next hop sends, whole items only, and lowers the hops', async () => {
    const item = new Uint8Array(ITEM_BYTES).fill(5)
    const served = await relaying(async (stream) => {
      for (let i = 0; i < 3; i++) await stream.write(encodeRejection({ difficulty: 20, reason: 'work' }))
      for (let i = 0; i < 5; i++) await stream.write(encodeResponse(Array.from({ length: 10 }, () => item)))
      await stream.closeWrite()
    })
    const request = solved(START_MS, { hops: 2 })
    const answer = (await send(served, request)) as Uint8Array
    expect(answer.length).toBe(4 + 32 * (4 + ITEM_BYTES))
    expect(decodeResponseHead(answer.subarray(0, 4))).toEqual({ type: 'rej', difficulty: 20, reason: 'work' })
    expect(decodeResponseHead(answer.subarray(4, 8))).toEqual({ type: 'res', count: 1 })
    expect(served.headers).toEqual([withHops(request.subarray(0, 120), 1)])
    expect(served.service.stats()).toMatchObject({ queued: 0, served: 1 })
  })

  it('[G-33] keeps the pair of streams for fifteen seconds and not longer', async () => {
    const served = await relaying((stream) => stream.closed)
    const answer = send(served, solved(START_MS, { hops: 2 }))
    while (served.headers.length === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(served.service.stats().queued).toBe(1)
    served.clock.advance(15_000)
    await answer
    expect(served.service.stats().queued).toBe(0)
  })

  it('[AD-03] is left by 100,000 bad requests as they found it: heap, maps, log', { timeout: 120_000 }, async () => {
    const served = await serve()
    v8.setFlagsFromString('--expose-gc')
    const collect = vm.runInNewContext('gc') as () => void
    const good = solved(START_MS)
    const bad = Array.from({ length: 5 }, () => good.slice(0, 120))
    ;(bad[0] as Uint8Array)[0] = 9 // version
    ;(bad[1] as Uint8Array)[6] = 0xff // criteria length
    ;(bad[2] as Uint8Array)[72] = 1 // time
    ;(bad[3] as Uint8Array)[3] = 15 // claims too little
    ;(bad[4] as Uint8Array)[119] = 1 ^ (good[119] as number) // no work
    const handler = served.host.handler(DISCOVERY_PROTOCOL)
    const one = (i: number) => handler(strangerStream(bad[i % 5] as Uint8Array, `connection-${i % 8}`))
    const flood = async (count: number) => {
      for (let i = 0; i < count; i += 500) await Promise.all(Array.from({ length: 500 }, (_, j) => one(i + j)))
    }
    await flood(20_000) // what the engine itself sets up
    collect()
    const before = process.memoryUsage()
    const state = served.service.stats()
    await flood(100_000)
    collect()
    const after = process.memoryUsage()
    const { refused, ...then } = served.service.stats()
    const { refused: _, ...now } = state
    expect(then).toEqual(now)
    expect(then).toMatchObject({ queued: 0, remembered: 0, served: 0, difficulty: 16 })
    expect(then.connections).toBeLessThanOrEqual(8)
    expect(Object.values(refused).reduce((sum, count) => sum + count, 0)).toBe(120_000)
    expect(served.log).toEqual([])
    expect(served.host.handlerErrors).toEqual([])
    // ten bytes a request would be a megabyte
    expect(after.heapUsed - before.heapUsed).toBeLessThan(500_000)
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(100_000)
  })
})

/** A stream as a stranger opens it: the header at once, then the end. */
function strangerStream(header: Uint8Array, connection: string): ByteStream {
  return {
    protocol: DISCOVERY_PROTOCOL,
    connection: {
      id: connection,
      peer: connection,
      remoteAddr: '/memory/x',
      transport: 'memory',
      direction: 'inbound',
      abort() {}
    },
    async read() {
      throw new RookeryError('STREAM_ENDED', 'nothing more', { kind: 'unavailable' })
    },
    async readInto(target) {
      target.set(header)
    },
    async write() {},
    async closeWrite() {},
    async close() {},
    reset() {},
    closed: Promise.resolve()
  }
}
