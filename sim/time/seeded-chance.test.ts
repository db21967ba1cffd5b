import { describe, expect, it } from 'vitest'
import { FastRandom } from '../model/random.ts'
import { type Chance, seedChance } from './seeded-chance.ts'

function drawn(seed: number) {
  const chance: Chance = { Math: { random: Math.random }, crypto: { getRandomValues: (array) => array } }
  seedChance(chance, new FastRandom(seed))
  const bytes = new Uint8Array(40)
  chance.crypto.getRandomValues(bytes.subarray(3, 37))
  return { bytes, fraction: chance.Math.random(), words: chance.crypto.getRandomValues(new Uint32Array(4)) }
}

describe('the chance of a thread in virtual time', () => {
  it('is the same for the same seed, and another for another', () => {
    expect(drawn(1)).toEqual(drawn(1))
    expect(drawn(1).bytes).not.toEqual(drawn(2).bytes)
    expect(drawn(1).fraction).not.toBe(drawn(2).fraction)
  })

  it('fills what it is given and nothing beside, and gives it back', () => {
    const { bytes, words, fraction } = drawn(1)
    expect([...bytes.subarray(0, 3), ...bytes.subarray(37)]).toEqual([0, 0, 0, 0, 0, 0])
    expect(new Set(bytes.subarray(3, 37)).size).toBeGreaterThan(10)
    expect(words.every((word) => word > 0)).toBe(true)
    expect(fraction).toBeGreaterThanOrEqual(0)
    expect(fraction).toBeLessThan(1)
  })
})
