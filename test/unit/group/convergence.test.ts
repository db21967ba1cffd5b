import fc from 'fast-check'
import { describe, it } from 'vitest'
import { faultsOf, worldPlan } from '../../support/group-property.ts'

/** What CI can afford; `npm run soak:groups` does 50,000. */
const RUNS = 120

describe('members of a group', () => {
  it('[PSS-04] [PSS-07] [PSS-24] agree in state and hash once they can reach each other, and nobody was told what it was no member for', () => {
    fc.assert(
      fc.property(worldPlan, (plan) => {
        const faults = faultsOf(plan)
        if (faults.length > 0) throw new Error(faults.join('\n'))
      }),
      { numRuns: RUNS }
    )
  }, 60_000)
})
