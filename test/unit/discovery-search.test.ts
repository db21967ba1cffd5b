import { describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { encodeAnswer } from '../../protocol/discovery/answer.ts'
import { shardKey } from '../../protocol/discovery/names.ts'
import { DISCOVERY_PROTOCOL, decodeRequestHeader, REQUEST_HEADER_BYTES } from '../../protocol/discovery/request.ts'
import { encodeRejection, encodeResponse, type Rejection } from '../../protocol/discovery/response.ts'
import { ITEM_BYTES, sealItem } from '../../protocol/discovery/sealed-item.ts'
import { nonceBytes, requestSeed } from '../../protocol/discovery/work.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createDiscovery, type Discovery } from '../../src/discovery/create-discovery.ts'
import type { DiscoveryEvent } from '../../src/discovery/discover.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { ScalarSearch } from '../../src/work/search.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { announceRecord, ENERGY_ID } from './fakes/fake-records.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const NOW_MS = 1_800_000_000_000

type Hop = (stream: ByteStream, number: number, request: { header: Uint8Array; target: Uint8Array; ephemeral: Uint8Array }) => Promise<void>

/** A node that searches, and a first hop that does what the test says with each stream. */
async function world(hop: Hop | 'nobody') {
  const clock = new ManualClock(NOW_MS)
  const network = new FakeNetwork(clock)
  const host = network.add('asker')
  const keys: string[] = []
  const bits: number[] = []
  const targets: string[] = []
  let searches = 0
  if (hop !== 'nobody') {
    const stem = network.add('stem')
    network.meet(host, stem)
    await stem.handle(DISCOVERY_PROTOCOL, async (stream) => {
      const header = await stream.read(REQUEST_HEADER_BYTES)
      const request = decodeRequestHeader(header)
      targets.push(toHex(request.target))
      keys.push(toHex(request.ephemeral))
      bits.push(request.difficulty)
      await hop(stream, keys.length, { header, ...request })
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
  const search = async (name: string) => {
    for await (const _ of discovery.discover({ name }, { onEvent: (event) => events.push(event) }));
  }
  const outcome = (name = SPACE) =>
    search(name).then(
      () => undefined,
      (error: unknown) => error
    )
  return { clock, outcome, events, keys, bits, targets, solved: () => searches }
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
    let over = 0
    const { outcome, events } = await world(async (stream) => {
      await stream.write(encodeResponse(Array.from({ length: 31 }, () => item)))
      await new Promise((resolve) => setImmediate(resolve))
      const before = over
      void stream.closed.then(() => over++)
      await new Promise((resolve) => setImmediate(resolve))
      expect(over).toBe(before)
      await stream.write(encodeResponse([item])) // and it says no more: only its 32nd item ends the search, no time passes
      await stream.closed
    })
    expect(await outcome()).toBeUndefined()
    expect(events.filter(({ kind }) => kind === 'found')).toEqual([])
  })

  describe('of a space with several parts', () => {
    const curator = fakeAgent('curator')
    const said = async (request: Parameters<Hop>[2], shards: number) => {
      const content = encodeAnswer({ announce: announceRecord(curator, NOW_MS, { shards }) })
      const sealed = {
        seed: requestSeed(request.header),
        recipient: request.ephemeral,
        ephemeralSecret: new Uint8Array(32).fill(3),
        content
      }
      return encodeResponse([await sealItem(nodeCrypto, sealed)])
    }
    const telling =
      (shards: number): Hop =>
      async (stream, _number, request) => {
        if (toHex(request.target) === toHex(ENERGY_ID)) await stream.write(await said(request, shards))
        await stream.close()
      }

    it('[DS-15] [DS-16] learns from registrars how many they are and asks them one after the other, each with a key of its own, at most four', async () => {
      const { outcome, targets, keys, events } = await world(telling(8))
      expect(await outcome()).toBeUndefined()
      const parts = Array.from({ length: 8 }, (_, i) => toHex(shardKey(nodeCrypto, ENERGY_ID, 8, i)))
      expect(targets[0]).toBe(toHex(ENERGY_ID))
      expect(targets).toHaveLength(5)
      expect(new Set(targets).size).toBe(5)
      for (const target of targets.slice(1)) expect(parts).toContain(target)
      expect(new Set(keys).size).toBe(5)
      expect(events.filter(({ kind }) => kind === 'parts')).toEqual(Array.from({ length: 4 }, () => ({ kind: 'parts', shards: 8 })))
    })

    it('[G-21] goes by the curator alone that the name pins', async () => {
      const { outcome, targets } = await world(telling(8))
      expect(await outcome(`${SPACE}#${fakeAgent('another').did}`)).toBeUndefined()
      expect(targets).toHaveLength(1)
      expect(await outcome(`${SPACE}#${curator.did}`)).toBeUndefined()
      expect(targets).toHaveLength(6)
    })
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
