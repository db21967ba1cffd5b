import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { derivedBytes, derivedRandom } from '../engine/seeds.ts'
import { planFirstContact } from './first-contact-plan.ts'

describe('the plan of first-contact', () => {
  it('[F107] is the same for the same seed and another for another', () => {
    expect(planFirstContact(100, 1)).toEqual(planFirstContact(100, 1))
    expect(planFirstContact(100, 1)).not.toEqual(planFirstContact(100, 2))
    expect(planFirstContact(100, 1)).not.toEqual(planFirstContact(101, 1))
  })

  it('[DS-05] lets one announce, all others join, twenty search, half of them by the parent topic, and twenty pairs talk', () => {
    const { announcer, joiners, searches, sessions } = planFirstContact(100, 1)
    expect(new Set([announcer, ...joiners]).size).toBe(100)
    expect(joiners).toHaveLength(99)
    expect(new Set(searches.map(({ node }) => node)).size).toBe(20)
    expect(searches.filter(({ by }) => by === 'parent')).toHaveLength(10)
    expect(sessions).toHaveLength(20)
  })

  it('[PSS-01] pairs different nodes, no pair twice in either direction, whatever the size of the network', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 300 }), fc.nat(), (nodes, seed) => {
        const { announcer, searches, sessions } = planFirstContact(nodes, seed)
        expect(announcer).toBeLessThan(nodes)
        expect(searches).toHaveLength(Math.min(20, nodes))
        expect(sessions).toHaveLength(Math.min(20, (nodes * (nodes - 1)) / 2))
        for (const { from, to } of sessions) expect(from).not.toBe(to)
        expect(new Set(sessions.map(({ from, to }) => [from, to].sort().join())).size).toBe(sessions.length)
        for (const index of [...searches.map(({ node }) => node), ...sessions.flatMap(({ from, to }) => [from, to])]) {
          expect(index).toBeGreaterThanOrEqual(0)
          expect(index).toBeLessThan(nodes)
        }
      }),
      { numRuns: 30 }
    )
  })
})

describe('what follows from a seed', () => {
  it('gives each node and purpose keys of its own, the same in every run', () => {
    expect(derivedBytes(1, 'node-key', 3)).toEqual(derivedBytes(1, 'node-key', 3))
    const others = [
      derivedBytes(1, 'node-key', 4),
      derivedBytes(2, 'node-key', 3),
      derivedBytes(1, 'agent-key', 3),
      derivedBytes(1, 'node-key', 3)
    ]
    expect(new Set(others.map(String)).size).toBe(4)
  })

  it('gives a stream of bytes that does not depend on how it is read', () => {
    const [one, two] = [derivedRandom(1, 'random', 0), derivedRandom(1, 'random', 0)]
    const long = one.bytes(100)
    expect([...two.bytes(33), ...two.bytes(1), ...two.bytes(66)]).toEqual([...long])
    expect(derivedRandom(1, 'random', 1).bytes(100)).not.toEqual(long)
  })
})
