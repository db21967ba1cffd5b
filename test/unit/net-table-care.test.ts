import { describe, expect, it } from 'vitest'
import { TableCare } from '../../src/net/table-care.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'

function careOf(size: () => number, takeIn: () => Promise<void> = async () => {}) {
  const clock = new ManualClock()
  const at: number[] = []
  const keys: Uint8Array[] = []
  const care = new TableCare(
    { clock, random: seededRandom(1), logger: silentLogger },
    {
      size,
      enough: 40,
      lookUpSelf: async () => void at.push(clock.monotonicMs()),
      lookUp: async (key) => void keys.push(key),
      takeIn
    }
  )
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 100) {
      clock.advance(Math.min(100, left))
      for (let i = 0; i < 4; i++) await Promise.resolve()
    }
  }
  return { care, at, keys, pass }
}

describe('the care of a routing table', () => {
  it('looks itself up about a second after the first peer, while that brings new ones after 4, 15 and 60 s, and every five minutes', async () => {
    let size = 5
    const { care, at, pass } = careOf(() => size++)
    await pass(60_000)
    expect(at).toEqual([])
    care.peerArrived()
    await pass(40 * 60_000)
    const pauses = at.map((ms, i) => ms - (at[i - 1] ?? 60_000))
    for (const [i, expected] of [1_000, 4_000, 15_000, 60_000, 300_000, 300_000].entries()) {
      expect(pauses[i]).toBeGreaterThanOrEqual(expected / 2)
      expect(pauses[i]).toBeLessThanOrEqual(expected * 1.5 + 100)
    }
    expect(at.length).toBeLessThan(4 + 40 / 2.5)
    expect(size).toBeGreaterThan(5)
    care.stop()
    const before = at.length
    await pass(20 * 60_000)
    expect(at).toHaveLength(before)
  })

  it('leaves it at every five minutes once two look-ups brought nobody, or the table is not small', async () => {
    for (const [size, soon] of [
      [5, 2],
      [40, 1]
    ] as const) {
      const { care, at, pass } = careOf(() => size)
      care.peerArrived()
      await pass(100_000)
      expect([size, at.length]).toEqual([size, soon])
      await pass(20 * 60_000)
      expect(at.length).toBeGreaterThan(soon + 1)
      expect(at.length).toBeLessThan(soon + 9)
      care.stop()
    }
  })

  it('looks up a random key beside while the table is small, and begins anew for new peers only then', async () => {
    let size = 5
    const { care, at, keys, pass } = careOf(() => size)
    care.peerArrived()
    await pass(10_000)
    expect(keys).toHaveLength(at.length)
    expect(new Set(keys.map(String)).size).toBe(keys.length)
    size = 40
    await pass(100_000)
    const found = keys.length
    const before = at.length
    care.peerArrived()
    await pass(3_000)
    expect([at.length, keys.length]).toEqual([before, found])
    size = 3
    care.peerArrived()
    care.peerArrived()
    await pass(1_600)
    expect(at.length).toBe(before + 1)
    care.stop()
  })

  it('goes on after a look-up that fails', async () => {
    const clock = new ManualClock()
    let tries = 0
    const care = new TableCare(
      { clock, random: seededRandom(1), logger: silentLogger },
      {
        size: () => 0,
        enough: 40,
        lookUpSelf: async () => {
          tries++
          throw new Error('nobody')
        },
        lookUp: async () => {},
        takeIn: async () => {}
      }
    )
    care.peerArrived()
    for (let i = 0; i < 100; i++) {
      clock.advance(500)
      for (let j = 0; j < 4; j++) await Promise.resolve()
    }
    expect(tries).toBe(2)
    for (let i = 0; i < 1_000; i++) {
      clock.advance(500)
      for (let j = 0; j < 4; j++) await Promise.resolve()
    }
    expect(tries).toBeGreaterThanOrEqual(3)
    care.stop()
  })

  it('takes peers in that are connected and missing five seconds after one arrived and ever later then, while the table is small, whatever fails', async () => {
    let size = 3
    const tries: number[] = []
    const { care, pass } = careOf(
      () => size,
      async () => {
        tries.push(size)
        throw new Error('no sign of life')
      }
    )
    await pass(60_000)
    expect(tries).toEqual([])
    care.peerArrived()
    await pass(8_000)
    expect(tries).toHaveLength(1)
    await pass(20 * 60_000)
    expect(tries.length).toBeGreaterThanOrEqual(6)
    expect(tries.length).toBeLessThanOrEqual(20)
    size = 40
    await pass(10 * 60_000)
    const before = tries.length
    await pass(60_000)
    expect(tries).toHaveLength(before)
    size = 3
    care.peerArrived()
    await pass(10_000)
    expect(tries.length).toBeGreaterThan(before)
    care.stop()
    const last = tries.length
    await pass(60_000)
    expect(tries).toHaveLength(last)
  })
})
