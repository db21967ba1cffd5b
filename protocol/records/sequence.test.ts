import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SEQUENCE_AHEAD_MS } from './envelope.ts'
import { NO_NUMBERS, nextSequence, SEQUENCE_LANES, SEQUENCE_WAIT_MAX_MS, type UsedNumbers } from './sequence.ts'

const NOW_MS = 1_800_000_000_500
const DAY_MS = 86_400_000

const usedUpTo = (last: number): UsedNumbers => (last < 0 ? NO_NUMBERS : { top: last, lane: 0, last })

describe('the numbers of a signer', () => {
  it('[F085] are the clock when nothing is known', () => {
    expect(nextSequence({ used: NO_NUMBERS, seen: -1, nowMs: NOW_MS })).toMatchObject({ number: NOW_MS, waitMs: 0 })
  })

  it('[F085] follow the last one written and the highest one seen', () => {
    expect(nextSequence({ used: usedUpTo(NOW_MS), seen: -1, nowMs: NOW_MS })).toMatchObject({ number: NOW_MS + 1, waitMs: 0 })
    expect(nextSequence({ used: usedUpTo(NOW_MS), seen: NOW_MS + 7, nowMs: NOW_MS })).toMatchObject({ number: NOW_MS + 8, waitMs: 0 })
  })

  it('[F085] wait for the clock instead of running more than 60 s ahead of it', () => {
    const used = usedUpTo(NOW_MS + 90_000)
    const far = nextSequence({ used, seen: -1, nowMs: NOW_MS })
    expect(far.number).toBe(NOW_MS + 90_001)
    expect(far.waitMs).toBeGreaterThan(0)
    expect(nextSequence({ used, seen: -1, nowMs: NOW_MS + far.waitMs })).toMatchObject({ number: far.number, waitMs: 0 })
    expect(nextSequence({ used, seen: -1, nowMs: NOW_MS + far.waitMs - 1 }).waitMs).toBe(1)
  })

  it('[D-26] rise strictly, are never refused by a reader, and become usable after the wait that was told', () => {
    const near = fc.integer({ min: -200_000, max: 200_000 })
    fc.assert(
      fc.property(near, near, fc.nat(999), (last, seen, fraction) => {
        const nowMs = NOW_MS + fraction
        const input = { used: usedUpTo(nowMs + last), seen: nowMs + seen }
        const { number, waitMs } = nextSequence({ ...input, nowMs })
        expect(number).toBeGreaterThan(Math.max(nowMs + last, input.seen))
        const usableAt = nowMs + waitMs
        const usable = nextSequence({ ...input, nowMs: usableAt })
        expect(usable.waitMs).toBe(0)
        expect(usable.number).toBeGreaterThanOrEqual(Math.max(number, usableAt))
        expect(usable.number - Math.max(number, usableAt)).toBeLessThanOrEqual(SEQUENCE_LANES)
        expect(number).toBeLessThanOrEqual(Math.floor(usableAt / 1_000) * 1_000 + SEQUENCE_AHEAD_MS)
      })
    )
  })

  it('[F085] are of now again at once when a clock that was a day ahead is right again, and pass the highest one when its time comes', () => {
    const before = nextSequence({ used: NO_NUMBERS, seen: -1, nowMs: NOW_MS })
    const wrong = nextSequence({ used: before.used, seen: -1, nowMs: NOW_MS + DAY_MS })
    const right = nextSequence({ used: wrong.used, seen: NOW_MS, nowMs: NOW_MS + 10_000 })
    expect(right.waitMs).toBe(0)
    expect(right.number).toBeGreaterThan(before.number)
    expect(right.number - (NOW_MS + 10_000)).toBeLessThanOrEqual(1_024)
    const next = nextSequence({ used: right.used, seen: right.number, nowMs: NOW_MS + 10_000 })
    expect(next.number).toBeGreaterThan(right.number)
    const later = nextSequence({ used: next.used, seen: -1, nowMs: NOW_MS + DAY_MS + 10_000 })
    expect(later.number).toBeGreaterThan(wrong.number)
    expect(later.used).toEqual({ top: later.number, lane: 0, last: later.number })
  })

  it('[F085] do not wait for a number of theirs in the network that only a wrong clock can have made', () => {
    const { number, waitMs } = nextSequence({ used: NO_NUMBERS, seen: NOW_MS + DAY_MS, nowMs: NOW_MS })
    expect({ number, waitMs }).toEqual({ number: NOW_MS, waitMs: 0 })
  })

  it('[D-26] never come twice however the clock jumps, are never ahead of a reader, and are usable within five minutes', () => {
    const step = fc.oneof(
      fc.nat(5_000),
      fc.integer({ min: -DAY_MS, max: DAY_MS }),
      fc.integer({ min: -700, max: 700 }).map((hours) => hours * 3_600_000)
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: SEQUENCE_LANES - 1 }), (steps) => {
        let used = NO_NUMBERS
        let nowMs = NOW_MS
        const taken = new Set<number>()
        for (const ms of [0, ...steps]) {
          nowMs += ms
          let next = nextSequence({ used, seen: -1, nowMs })
          expect(next.waitMs).toBeLessThanOrEqual(SEQUENCE_WAIT_MAX_MS)
          nowMs += next.waitMs
          next = nextSequence({ used, seen: -1, nowMs })
          expect(next.waitMs).toBe(0)
          expect(next.number).toBeLessThanOrEqual(Math.floor(nowMs / 1_000) * 1_000 + SEQUENCE_AHEAD_MS)
          expect(taken.has(next.number)).toBe(false)
          taken.add(next.number)
          used = next.used
        }
      })
    )
  })

  it('[D-26] wait where the clock went back oftener than there are lanes: a number that comes twice would be evidence against its signer', () => {
    let used: UsedNumbers = { top: NOW_MS + DAY_MS, lane: 0, last: NOW_MS + DAY_MS }
    for (let i = 0; i < SEQUENCE_LANES; i++) {
      const nowMs = NOW_MS + DAY_MS - (i + 1) * 3_600_000
      used = nextSequence({ used, seen: -1, nowMs }).used
      expect(used.lane).toBe(i + 1)
    }
    const { waitMs } = nextSequence({ used, seen: -1, nowMs: used.last - 3_600_000 })
    expect(waitMs).toBeGreaterThan(SEQUENCE_WAIT_MAX_MS)
  })
})
