import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FindResult } from '../../src/spaces/spaces.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import type { FakeNode } from './fakes/fake-node.ts'
import { ENERGY_NAME as ENERGY, SpaceNet } from './fakes/space-net.ts'

const WIND = 'org.agentnet/marketplace.wind@1'
const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const agents = Array.from({ length: 25 }, (_, i) => fakeAgent(`member ${i}`))

let net: SpaceNet
let a: FakeNode
let b: FakeNode

beforeEach(async () => {
  net = new SpaceNet()
  ;[a, b] = (await net.add([alice, bob], { putsPerMinuteMax: 1_000 })) as [FakeNode, FakeNode]
  for (const agent of agents) b.agents.set(agent.eidHex, agent)
  for (const name of [ENERGY, WIND]) await a.spaces.announce({ name, curator: alice })
  for (const [i, agent] of agents.entries()) {
    await b.spaces.join({ name: i % 2 === 0 ? ENERGY : WIND, agent, tags: i < 20 ? ['seller', `n${i % 4}`] : ['buyer'] })
  }
})

afterEach(() => net.stop())

const query = { name: 'org.agentnet/marketplace' }

async function pages(size: number, between: (page: FindResult) => Promise<void> = async () => {}): Promise<string[][]> {
  const all: string[][] = []
  let after: string | undefined
  do {
    const page = await a.spaces.find({ ...query, page: { size, ...(after === undefined ? {} : { after }) } })
    all.push(page.members.map(({ did }) => did))
    after = page.next
    await between(page)
  } while (after !== undefined)
  return all
}

describe('a listing in pages', () => {
  it('[DS-15] [DS-17] holds every member once, in one order, whatever the size of a page', async () => {
    const whole = (await a.spaces.find(query)).members.map(({ space, did }) => `${space},${did}`).sort()
    for (const size of [1, 7, 24, 25, 100]) {
      const read = await pages(size)
      expect(read.flat()).toEqual(whole.map((one) => one.split(',')[1]))
      expect(read.every((page) => page.length <= size)).toBe(true)
      expect(read.length).toBe(Math.ceil(25 / size))
    }
  })

  it('[DS-15] shows whoever stays on exactly one page though others come and go and the snapshot is long gone', async () => {
    let turn = 0
    const read = await pages(5, async () => {
      const leaver = agents[turn] as (typeof agents)[number]
      await b.spaces.leave({ name: turn % 2 === 0 ? ENERGY : WIND, agent: leaver })
      const comer = fakeAgent(`late ${turn++}`)
      b.agents.set(comer.eidHex, comer)
      await b.spaces.join({ name: ENERGY, agent: comer })
      await net.pass(61_000)
    })
    const shown = read.flat()
    expect(new Set(shown).size).toBe(shown.length)
    for (const agent of agents.slice(turn)) expect(shown).toContain(agent.did)
    const left = agents.slice(0, turn - 1).map(({ did }) => did)
    const now = (await a.spaces.find(query)).members.map(({ did }) => did)
    for (const did of left) expect(now).not.toContain(did)
  })

  it('[DS-15] asks the registrars once for pages that are read one after the other', async () => {
    const asked = () => net.network.opened.get('/rookery/registry/1.0.0') ?? 0
    const first = await a.spaces.find({ ...query, page: { size: 5 } })
    const before = asked()
    await a.spaces.find({ ...query, page: { size: 5, after: first.next as string } })
    expect(asked()).toBe(before)
    await a.spaces.find({ ...query, page: { size: 5 } })
    expect(asked()).toBeGreaterThan(before)
  })

  it('[DS-15] filters before it counts: all tags, the mode', async () => {
    const seller = await a.spaces.find({ ...query, tags: ['seller', 'n1'], page: { size: 3 } })
    expect(seller.members).toHaveLength(3)
    const rest = await a.spaces.find({ ...query, tags: ['seller', 'n1'], page: { size: 3, after: seller.next as string } })
    expect([...seller.members, ...rest.members].map(({ tags }) => tags)).toEqual(Array.from({ length: 5 }, () => ['seller', 'n1']))
    expect(rest.next).toBeUndefined()
    expect((await a.spaces.find({ ...query, mode: 'sleep', page: { size: 3 } })).members).toEqual([])
  })

  it('names a cursor and a size that are none', async () => {
    for (const after of ['', 'x', `${ENERGY}|did:key:zabc`, 'x'.repeat(1_000)]) {
      await expect(a.spaces.find({ ...query, page: { size: 5, after } })).rejects.toMatchObject({
        code: 'CURSOR_INVALID',
        field: 'page.after'
      })
    }
    await expect(a.spaces.find({ ...query, page: { size: 0 } })).rejects.toMatchObject({
      code: 'LIMIT_INVALID',
      field: 'page.size',
      value: 0
    })
  })
})
