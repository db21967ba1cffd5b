import { afterEach, describe, expect, it } from 'vitest'
import { SHARDS_MAX } from '../../protocol/discovery/names.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { CuratorMemory } from '../../src/spaces/curators.ts'
import { createMemberReader, type MembersQuery } from '../../src/spaces/member-reader.ts'
import type { ListOutcome, ListQuery, RegistryClient } from '../../src/spaces/registry-client.ts'
import { SearchTally } from '../../src/spaces/search-tally.ts'
import { createSpaceSearch } from '../../src/spaces/space-search.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import type { FakeNode } from './fakes/fake-node.ts'
import { announceRecord } from './fakes/fake-records.ts'
import { ENERGY_NAME as ENERGY, ENERGY_KEY, SpaceNet } from './fakes/space-net.ts'

let net: SpaceNet
afterEach(() => net.stop())

/** A registry that has nothing and counts what it is asked for. */
function counting(): { registry: RegistryClient; asked: ListQuery[] } {
  const asked: ListQuery[] = []
  const outcome: ListOutcome = { entries: [], known: [], asked: [], answered: [], hops: 0, complete: true }
  const list = async (query: ListQuery) => {
    asked.push(query)
    return outcome
  }
  return { registry: { list } as unknown as RegistryClient, asked }
}

const parts = (asked: readonly ListQuery[]) => asked.filter(({ set }) => set === 'members').length

describe('a search of a space that strangers announce too', () => {
  it('[G-21] [G-24] lists no more keys for all of them together than for two of the greatest number of parts, and says that it is incomplete', async () => {
    net = new SpaceNet()
    const rivals = Array.from({ length: 20 }, (_, i) => fakeAgent(`rival ${i}`))
    const [reader, other] = (await net.add([fakeAgent('reader'), fakeAgent('other')])) as [FakeNode, FakeNode]
    const read: MembersQuery[] = []
    const search = createSpaceSearch({
      host: reader.host,
      registry: reader.registry,
      clock: net.clock,
      crypto: nodeCrypto,
      curators: await CuratorMemory.open(reader.store),
      reader: {
        prunes: async () => new Map(),
        async read(query) {
          read.push(query)
          return { members: [], pruned: 0, truncated: false }
        }
      },
      isOurs: () => false
    })
    for (const rival of rivals) {
      const record = announceRecord(rival, net.clock.nowMs(), { shards: SHARDS_MAX })
      await other.registry.put({ set: 'announcements', key: ENERGY_KEY, record })
    }
    await search.find({ name: ENERGY })
    expect(read).toHaveLength(20)
    const keys = read.map(({ keysMax }) => keysMax as number)
    expect(Math.min(...keys)).toBeGreaterThan(0)
    expect(keys.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(2 * (SHARDS_MAX + 1))
    await search.find({ name: `${ENERGY}#${rivals[0]?.did}` })
    expect(read.at(-1)?.keysMax).toBeGreaterThanOrEqual(SHARDS_MAX + 1)
  })

  it('[G-24] lists so many keys as it may, DS_ID first, and all of them where nothing bounds it', async () => {
    net = new SpaceNet()
    const [node] = (await net.add([fakeAgent('reader')])) as [FakeNode]
    const curator = fakeAgent('curator')
    const announce = decodeRecord(announceType, announceRecord(curator, net.clock.nowMs(), { shards: SHARDS_MAX }))
    const read = async (more: Pick<MembersQuery, 'keysMax'>) => {
      const { registry, asked } = counting()
      const reader = createMemberReader({ host: node.host, registry, clock: net.clock, crypto: nodeCrypto }, { network: 'lan' })
      const { truncated } = await reader.read({ announce, curators: [curator.eid], ...more }, new SearchTally())
      return { keys: parts(asked), truncated }
    }
    expect(await read({})).toEqual({ keys: SHARDS_MAX + 1, truncated: false })
    expect(await read({ keysMax: 9 })).toEqual({ keys: 9, truncated: true })
  })
})
