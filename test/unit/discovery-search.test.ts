import { describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { DISCOVERY_PROTOCOL, decodeRequestHeader, REQUEST_HEADER_BYTES } from '../../protocol/discovery/request.ts'
import { encodeRejection, encodeResponse, type Rejection } from '../../protocol/discovery/response.ts'
import { ITEM_BYTES } from '../../protocol/discovery/sealed-item.ts'
import { nonceBytes } from '../../protocol/discovery/work.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createDiscovery, type Discovery } from '../../src/discovery/create-discovery.ts'
import type { DiscoveryEvent } from '../../src/discovery/discover.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { ScalarSearch } from '../../src/work/search.ts'
import { FakeNetwork } from './fakes/fake-network.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'

/** A node that searches, and a first hop that does what the test says with each stream. */
async function world(hop: ((stream: ByteStream, number: number) => Promise<void>) | 'nobody') {
  const clock = new ManualClock(1_800_000_000_000)
  const network = new FakeNetwork(clock)
  const host = network.add('asker')
  const keys: string[] = []
  const bits: number[] = []
  let searches = 0
  if (hop !== 'nobody') {
    const stem = network.add('stem')
    network.meet(host, stem)
    await stem.handle(DISCOVERY_PROTOCOL, async (stream) => {
      const request = decodeRequestHeader(await stream.read(REQUEST_HEADER_BYTES))
      keys.push(toHex(request.ephemeral))
      bits.push(request.difficulty)
      await hop(stream, keys.length)
    })
  }
  const discovery: Discovery = await createDiscovery(
    {
      host,
      clock,
      random: seededRandom(3),
      crypto: nodeCrypto,
      logger: silentLogger,
      solver: {
        async solve(seed, wanted) {
          searches++
          const search = new ScalarSearch()
          search.begin(seed, 0, Math.min(wanted, 10)) // the hop of this test does not look
          return nonceBytes(BigInt(search.slice(0, 2 ** 18) ?? 0))
        }
      },
      registry: { registrars: async () => [{ peer: host.peer, addrs: [] }], held: async () => ({ status: 'ok', records: [] }) },
      registrarsMax: 20,
      locators: {
        resolve: async () => {
          throw new Error('nobody is looked up here')
        },
        published: () => undefined,
        learn() {}
      },
      joins: () => [],
      points: () => [],
      agent: () => undefined,
      reputation: () => 100,
      policy: () => 'answer'
    },
    { serve: 'no' }
  )
  const events: DiscoveryEvent[] = []
  const search = async () => {
    for await (const _ of discovery.discover({ name: SPACE }, { onEvent: (event) => events.push(event) }));
  }
  const outcome = () =>
    search().then(
      () => undefined,
      (error: unknown) => error
    )
  return { clock, outcome, events, keys, bits, solved: () => searches }
}

const rejecting =
  (...rejections: Rejection[]) =>
  async (stream: ByteStream, number: number) => {
    const rejection = rejections[Math.min(number, rejections.length) - 1] as Rejection
    await stream.write(encodeRejection(rejection))
    await stream.close()
  }

describe('a search', () => {
  it('says that nobody can carry it where no peer is known, before it does any work, and what to do', async () => {
    const { outcome, solved } = await world('nobody')
    expect(await outcome()).toMatchObject({ code: 'NO_PEERS', kind: 'unavailable', remedy: expect.stringContaining('rookery status') })
    expect(solved()).toBe(0)
  })

  it('[AD-02] [AD-04] [G-30] does the work that a hop asks for, with a new key, and gives up after three requests', async () => {
    const { outcome, keys, bits, events } = await world(
      rejecting({ difficulty: 18, reason: 'work' }, { difficulty: 20, reason: 'work' }, { difficulty: 22, reason: 'work' })
    )
    expect(await outcome()).toMatchObject({ code: 'DISCOVERY_REFUSED', kind: 'refused', field: 'difficulty' })
    expect(bits).toEqual([16, 18, 20])
    expect(new Set(keys).size).toBe(3)
    expect(events.filter(({ kind }) => kind === 'harder')).toHaveLength(2)
  })

  it('[AD-02] [G-30] solves nothing above its own limit, whatever a REJ asks', async () => {
    const { outcome, bits } = await world(rejecting({ difficulty: 25, reason: 'work' }))
    expect(await outcome()).toMatchObject({ code: 'WORK_TOO_HARD', field: 'difficulty', value: 25 })
    expect(bits).toEqual([16])
  })

  it('[AD-02] names the clock where a hop refuses the time', async () => {
    const { outcome } = await world(rejecting({ difficulty: 16, reason: 'clock' }))
    expect(await outcome()).toMatchObject({ code: 'DISCOVERY_REFUSED', field: 'clock', remedy: expect.stringContaining('clock') })
  })

  it('[AD-05] drops items that are not for it, and listens to nobody who sends 32 of them', async () => {
    const item = new Uint8Array(ITEM_BYTES).fill(9)
    let sent = 0
    const { outcome } = await world(async (stream) => {
      for (; sent < 5; sent++) await stream.write(encodeResponse(Array.from({ length: 16 }, () => item)))
      await stream.closed
    })
    expect(await outcome()).toBeUndefined()
  })

  it('[AD-07] ends without a word where everybody stays silent, after its time', async () => {
    const { clock, outcome, events } = await world(async (stream) => await stream.closed)
    const ended = outcome()
    while (!events.some(({ kind }) => kind === 'sent')) await new Promise((resolve) => setImmediate(resolve))
    await new Promise((resolve) => setImmediate(resolve))
    clock.advance(17_000)
    expect(await ended).toBeUndefined()
  })
})
