import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SEQUENCE_AHEAD_MS } from './envelope.ts'
import { nextSequence } from './sequence.ts'

const NOW_MS = 1_800_000_000_500

describe('the numbers of a signer', () => {
  it('[F085] are the clock when nothing is known', () => {
    expect(nextSequence({ last: -1, seen: -1, nowMs: NOW_MS })).toEqual({ number: NOW_MS, waitMs: 0 })
  })

  it('[F085] follow the last one written and the highest one seen', () => {
    expect(nextSequence({ last: NOW_MS, seen: -1, nowMs: NOW_MS })).toEqual({ number: NOW_MS + 1, waitMs: 0 })
    expect(nextSequence({ last: NOW_MS, seen: NOW_MS + 7, nowMs: NOW_MS })).toEqual({ number: NOW_MS + 8, waitMs: 0 })
  })

  it('[F085] wait for the clock instead of running more than 60 s ahead of it', () => {
    const far = nextSequence({ last: NOW_MS + 90_000, seen: -1, nowMs: NOW_MS })
    expect(far.number).toBe(NOW_MS + 90_001)
    expect(far.waitMs).toBeGreaterThan(0)
    expect(nextSequence({ last: NOW_MS + 90_000, seen: -1, nowMs: NOW_MS + far.waitMs })).toEqual({ number: far.number, waitMs: 0 })
    expect(nextSequence({ last: NOW_MS + 90_000, seen: -1, nowMs: NOW_MS + far.waitMs - 1 }).waitMs).toBe(1)
  })

  it('[D-26] rise strictly, are never refused by a reader, and become usable after the wait that was told', () => {
    const near = fc.integer({ min: -200_000, max: 200_000 })
    fc.assert(
      fc.property(near, near, fc.nat(999), (last, seen, fraction) => {
        const nowMs = NOW_MS + fraction
        const input = { last: nowMs + last, seen: nowMs + seen }
        const { number, waitMs } = nextSequence({ ...input, nowMs })
        expect(number).toBeGreaterThan(Math.max(input.last, input.seen))
        const usableAt = nowMs + waitMs
        expect(nextSequence({ ...input, nowMs: usableAt })).toEqual({ number: Math.max(number, usableAt), waitMs: 0 })
        expect(number).toBeLessThanOrEqual(Math.floor(usableAt / 1_000) * 1_000 + SEQUENCE_AHEAD_MS)
      })
    )
  })
})
