import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  afterNews,
  awaitsDelivery,
  isOutboxEnd,
  type OutboxState,
  outboxStateText,
  RETRY_FIRST_MS,
  RETRY_JITTER,
  RETRY_LAST_MS,
  retryAfterMs
} from './outbox-state.ts'

const arbState: fc.Arbitrary<OutboxState> = fc.oneof(
  fc.constantFrom<OutboxState>(
    { name: 'queued-here' },
    { name: 'delivered' },
    { name: 'handled' },
    { name: 'expired' },
    { name: 'refused', reason: 'X' }
  ),
  fc.integer({ min: 0, max: 4 }).map((by): OutboxState => ({ name: 'kept', by }))
)

describe('the state of a message that was handed over', () => {
  it('[F088] never goes back from what the audience confirmed, and never leaves an end, whatever news come in whatever order', () => {
    fc.assert(
      fc.property(fc.array(arbState, { maxLength: 12 }), (news) => {
        let state: OutboxState = { name: 'queued-here' }
        let wasDelivered = false
        for (const one of news) {
          const next = afterNews(state, one)
          if (isOutboxEnd(state)) expect(next).toEqual(state)
          if (wasDelivered) expect(['delivered', 'handled']).toContain(next.name)
          wasDelivered ||= next.name === 'delivered' || next.name === 'handled'
          if (next.name === 'kept') expect(next.by).toBeGreaterThan(0)
          expect(awaitsDelivery(next) && isOutboxEnd(next)).toBe(false)
          state = next
        }
      })
    )
  })

  it('[F088] says how many keep it, and falls back to here alone when none does any more', () => {
    const kept = afterNews({ name: 'queued-here' }, { name: 'kept', by: 2 })
    expect(outboxStateText(kept)).toBe('kept-by-2')
    expect(outboxStateText(afterNews(kept, { name: 'kept', by: 1 }))).toBe('kept-by-1')
    expect(outboxStateText(afterNews(kept, { name: 'kept', by: 0 }))).toBe('queued-here')
    expect(outboxStateText({ name: 'refused', reason: 'AGENT_WITHDRAWN' })).toBe('refused(AGENT_WITHDRAWN)')
  })

  it('waits twice as long after each failure, up to a bound, less a part by chance, and not before the audience means to be back', () => {
    expect([1, 2, 3].map((n) => retryAfterMs(n, 0))).toEqual([RETRY_FIRST_MS, RETRY_FIRST_MS * 2, RETRY_FIRST_MS * 4])
    expect(retryAfterMs(1_000, 0)).toBe(RETRY_LAST_MS)
    expect(retryAfterMs(1, 0, 60_000)).toBe(60_000)
    expect(retryAfterMs(1, 0, 10 * RETRY_LAST_MS)).toBe(RETRY_LAST_MS)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (n, chance) => {
        const whole = retryAfterMs(n, 0)
        expect(retryAfterMs(n, chance)).toBeLessThanOrEqual(whole)
        expect(retryAfterMs(n, chance)).toBeGreaterThanOrEqual(Math.floor(whole * (1 - RETRY_JITTER)))
      })
    )
  })
})
