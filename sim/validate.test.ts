import { describe, expect, it } from 'vitest'
import { AGREEMENT, agreementAt } from './validate.ts'

describe('the model and real nodes', () => {
  it('agree within 10 % on hops and success at 100 nodes', { timeout: 600_000 }, async () => {
    const { hops, success, apart } = await agreementAt(100)
    expect(success.real).toBeGreaterThan(0.9)
    expect(hops.real).toBeGreaterThan(1)
    expect(apart, JSON.stringify({ hops, success })).toBeLessThanOrEqual(AGREEMENT)
  })
})
