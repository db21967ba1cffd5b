import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { distribution, percentile } from './distribution.ts'

describe('a distribution', () => {
  it('tells exact percentiles by nearest rank', () => {
    const hundred = Array.from({ length: 100 }, (_, i) => 100 - i)
    expect(distribution(hundred, 'ms')).toMatchObject({ unit: 'ms', count: 100, min: 1, p50: 50, p90: 90, p99: 99, max: 100, mean: 50.5 })
    expect(percentile([7], 0.99)).toBe(7)
    expect(percentile([], 0.5)).toBe(0)
  })

  it('is all zero without samples', () => {
    expect(distribution([], 'ms')).toEqual({ unit: 'ms', count: 0, min: 0, p50: 0, p90: 0, p99: 0, max: 0, mean: 0, bins: [] })
  })

  it('puts whole samples into bins of whole numbers', () => {
    expect(distribution([1, 2, 2, 2], 'hops', { whole: true }).bins).toEqual([
      { from: 1, to: 2, count: 1 },
      { from: 2, to: 3, count: 3 }
    ])
    expect(distribution([209, 908], 'messages', { whole: true }).bins[0]).toEqual({ from: 200, to: 250, count: 1 })
  })

  it('puts every sample into the one bin that spans it', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 100_000 }), { minLength: 1, maxLength: 200 }), (samples) => {
        const { bins, count } = distribution(samples, 'bytes', { whole: true })
        expect(bins.reduce((sum, bin) => sum + bin.count, 0)).toBe(count)
        for (const bin of bins) expect(bin.count).toBe(samples.filter((one) => one >= bin.from && one < bin.to).length)
        expect(bins.length).toBeLessThanOrEqual(22)
      })
    )
  })

  it('puts samples that differ by less than a label shows into one bin', () => {
    expect(distribution([5.4e-323, 0], 'ms').bins).toEqual([{ from: 0, to: 0.001, count: 2 }])
  })

  it('loses no sample in bins of fractions', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 10_000, noNaN: true }), { minLength: 1, maxLength: 200 }), (samples) => {
        const { bins } = distribution(samples, 'ms')
        expect(bins.reduce((sum, bin) => sum + bin.count, 0)).toBe(samples.length)
      })
    )
  })
})
