import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { GP_TTL_SEC } from '../../protocol/records/gp.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { createPoints } from '../../src/points/create-points.ts'
import { POINTS_MAX } from '../../src/points/own-points.ts'
import { Store } from '../../src/store/store.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { type FakeHost, FakeNetwork } from './fakes/fake-network.ts'

const alice = fakeAgent('alice')

function world() {
  const clock = new ManualClock(1_800_000_000_000)
  const network = new FakeNetwork(clock)
  const [host, other] = [network.add('a'), network.add('b')]
  network.meet(host, other)
  const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  const open = (agents: readonly LocalAgent[] = [alice], at: FakeHost = host, store = new Store(level)) =>
    createPoints({
      host: at,
      store,
      clock,
      random: seededRandom(1),
      crypto: nodeCrypto,
      logger: silentLogger,
      agents: (hex) => agents.find((agent) => agent.eidHex === hex),
      open: async () => {
        throw new Error('no sessions here')
      }
    })
  return { clock, network, host, other, open }
}

describe('points of a node', () => {
  it('[ESE-09] go on after a restart: the value, the trust list and the grants, signed anew before their hour is over', async () => {
    const { clock, open } = world()
    const first = await open()
    await first.register({ agent: alice, tag: 'log', access: 'trust', value: { a: 1 }, trust: [fakeAgent('bob').eid] })
    await first.register({ agent: alice, tag: 'door', access: 'grant', value: 'in' })
    await first.grant({ agent: alice, tag: 'door' }, { ttlMs: 86_400_000 })
    const before = first.list()
    await first.stop()
    const second = await open()
    await second.idle()
    expect(new Set(second.list())).toEqual(new Set(before))
    const record = () => second.list().find(({ tag }) => tag === 'log')
    clock.advance((GP_TTL_SEC / 2) * 1_000 + 60_000)
    await second.idle()
    expect(record()?.expiresAtMs).toBeGreaterThan(before[0]?.expiresAtMs ?? 0)
    expect(record()?.gen).toBeGreaterThan(before[0]?.gen ?? 0)
    await second.stop()
  })

  it('[D-21] are not kept alive for an agent that is gone', async () => {
    const { clock, network, open, other } = world()
    const first = await open()
    await first.register({ agent: alice, tag: 'log', access: 'open', value: 1 })
    await first.stop()
    const second = await open([])
    await second.idle()
    expect(second.list()).toEqual([])
    const reader = await open([], other, new Store(new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' })))
    expect(await reader.resolve({ eid: alice.eid, tag: 'log' })).toMatchObject({ tag: 'log' })
    clock.advance(GP_TTL_SEC * 1_000)
    await expect(reader.resolve({ eid: alice.eid, tag: 'log' })).rejects.toMatchObject({ code: 'POINT_UNKNOWN' })
    expect(network.hosts.size).toBe(2)
    await Promise.all([second.stop(), reader.stop()])
  })

  it('take a number above what the network holds, so that a restored backup never signs an old one', async () => {
    const { open } = world()
    const lost = await open([alice], undefined, new Store(new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' })))
    const held = await lost.register({ agent: alice, tag: 'log', access: 'open', value: 1 })
    const restored = await open()
    const again = await restored.register({ agent: alice, tag: 'log', access: 'open', value: 2 })
    expect(again.gen).toBeGreaterThan(held.gen)
    await Promise.all([lost.stop(), restored.stop()])
  })

  it('are bounded, and the one beyond is told which bound it met', async () => {
    const { open } = world()
    const points = await open()
    for (let i = 0; i < POINTS_MAX; i++) await points.register({ agent: alice, tag: `t${i}`, access: 'open', value: i })
    await expect(points.register({ agent: alice, tag: 'more', access: 'open', value: 0 })).rejects.toMatchObject({
      code: 'POINTS_TOO_MANY',
      kind: 'refused',
      field: 'tag',
      value: 'more'
    })
    expect(points.records()).toHaveLength(POINTS_MAX)
    await points.stop()
  })

  it('give at most 64 grants at a time, and one more once another is revoked or has ended', async () => {
    const { clock, open } = world()
    const points = await open()
    await points.register({ agent: alice, tag: 'door', access: 'grant', value: 1 })
    const grant = (ttlMs: number) => points.grant({ agent: alice, tag: 'door' }, { ttlMs })
    for (let i = 0; i < 64; i++) await grant(1_000)
    await expect(grant(1_000)).rejects.toMatchObject({ code: 'POINT_GRANTS_TOO_MANY' })
    clock.advance(1_000)
    expect(await grant(1_000)).toHaveLength(32)
    expect(points.list()[0]?.grants).toHaveLength(1)
    await points.stop()
  })
})
