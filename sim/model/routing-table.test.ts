import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventQueue } from './event-queue.ts'
import { lookUp } from './lookup.ts'
import { FastRandom } from './random.ts'
import { nearest, RoutingTable } from './routing-table.ts'

function places(count: number, seed: number) {
  const random = new FastRandom(seed)
  return {
    hi: Uint32Array.from({ length: count }, () => Math.floor(random.fraction() * 2 ** 32)),
    lo: Uint32Array.from({ length: count }, () => Math.floor(random.fraction() * 2 ** 32))
  }
}

describe('the routing table of a modelled node', () => {
  it('names the nearest by XOR, as sorting all of them would', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.nat(), fc.nat(2 ** 32 - 1), (count, seed, target) => {
        const own = places(count, seed)
        const all = Array.from({ length: count }, (_, i) => i)
        const distance = (i: number) =>
          BigInt(((own.hi[i] as number) ^ target) >>> 0) * 2n ** 32n + BigInt(((own.lo[i] as number) ^ 5) >>> 0)
        const sorted = [...all].sort((a, b) => (distance(a) < distance(b) ? -1 : 1)).slice(0, 8)
        expect(nearest(own, all, target, 5, 8)).toEqual(sorted)
      })
    )
  })

  it('holds k of those that share so many bits with it, and lets one that fell silent make room', () => {
    const own = places(5_000, 1)
    const table = new RoutingTable(own, 0, 8)
    for (let i = 0; i < 5_000; i++) table.add(i)
    const bits = (i: number) => Math.clz32((own.hi[i] as number) ^ (own.hi[0] as number))
    const count = (list: readonly number[], shared: number) => list.filter((i) => bits(i) === shared).length
    const others = Array.from({ length: 4_999 }, (_, i) => i + 1)
    for (let shared = 0; shared <= 32; shared++) expect(count(table.peers, shared)).toBe(Math.min(8, count(others, shared)))
    const dead = table.peers.find((i) => bits(i) === 0) as number
    const newcomer = others.find((i) => bits(i) === 0 && !table.peers.includes(i)) as number
    expect(table.wants(newcomer)).toBe(false)
    table.remove(dead)
    table.add(newcomer)
    expect(table.peers).toContain(newcomer)
    expect(table.peers).not.toContain(dead)
  })
})

describe('a look-up', () => {
  it('finds the k nearest of all through tables that know a few, and passes over the dead', () => {
    const count = 400
    const own = places(count, 2)
    const tables = Array.from({ length: count }, (_, i) => new RoutingTable(own, i, 8))
    const random = new FastRandom(3)
    for (let i = 0; i < count; i++) for (let n = 0; n < 40; n++) tables[i]?.add(random.below(count))
    for (let i = 0; i < count; i++)
      for (const peer of nearest(
        own,
        Array.from({ length: count }, (_, j) => j),
        own.hi[i] as number,
        own.lo[i] as number,
        9,
        i
      ))
        tables[i]?.add(peer)
    const isUp = (i: number) => i % 10 !== 0
    const world = {
      places: own,
      k: 8,
      alpha: 3,
      table: (i: number) => tables[i] as RoutingTable,
      isUp,
      roundTripMs: () => 10,
      met: () => {}
    }
    const up = Array.from({ length: count }, (_, i) => i).filter((i) => isUp(i) && i !== 1)
    const { nodes, hops, tookMs } = lookUp(world, 1, 123_456_789, 0)
    expect(nodes).toEqual(nearest(own, up, 123_456_789, 0, 8))
    expect(Math.max(...hops)).toBeGreaterThan(1)
    expect(tookMs).toBeGreaterThanOrEqual(30)
  })
})

describe('the event queue', () => {
  it('lets things happen by time, and at one instant in the order in which they were asked for', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { maxLength: 100 }), (times) => {
        const queue = new EventQueue()
        const happened: [number, number][] = []
        for (const [i, atMs] of times.entries()) queue.at(atMs, () => happened.push([atMs, i]))
        queue.runUntil(100)
        expect(happened).toEqual(
          [...times.entries()]
            .map(([i, atMs]) => [atMs, i])
            .sort(([a, i], [b, j]) => (a as number) - (b as number) || (i as number) - (j as number))
        )
        expect(queue.nowMs).toBe(100)
      })
    )
  })
})
