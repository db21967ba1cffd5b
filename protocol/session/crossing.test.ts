import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compare } from '../bytes.ts'
import { eid } from '../identity/eid.ts'
import { CROSSING_MS, type ExchangePurpose, type OwnExchange, settleCrossing } from './crossing.ts'
import { FLAG } from './flags.ts'

const SMALL = eid(new Uint8Array(32).fill(1))
const LARGE = eid(new Uint8Array(32).fill(2))
const fresh: ExchangePurpose = { resumeId: undefined, flags: 0 }
const resume = (fill: number): ExchangePurpose => ({ resumeId: new Uint8Array(16).fill(fill), flags: FLAG.RESUME })
const unfinished = (purpose: ExchangePurpose): OwnExchange => ({ ...purpose, readyAtMs: undefined })

describe('both sides open at once', () => {
  it('[G-43] lets an ACK pass where there is no own exchange', () => {
    expect(settleCrossing({ localEid: SMALL, remoteEid: LARGE, incoming: fresh, own: undefined, nowMs: 0 })).toBe('clear')
  })

  it.each([
    ['new sessions', fresh],
    ['resumes of one session', resume(5)]
  ])('[G-43] lets the exchange of the smaller EID stand: %s', (_, purpose) => {
    const facts = { incoming: purpose, own: unfinished(purpose), nowMs: 0 }
    expect(settleCrossing({ localEid: SMALL, remoteEid: LARGE, ...facts })).toBe('refuse')
    expect(settleCrossing({ localEid: LARGE, remoteEid: SMALL, ...facts })).toBe('yield')
  })

  it('[G-43] has both sides come to the same end for any two EIDs', () => {
    const key = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(eid)
    fc.assert(
      fc.property(key, key, (a, b) => {
        fc.pre(compare(a, b) !== 0)
        const facts = { incoming: fresh, own: unfinished(fresh), nowMs: 0 }
        const verdicts = [settleCrossing({ localEid: a, remoteEid: b, ...facts }), settleCrossing({ localEid: b, remoteEid: a, ...facts })]
        expect(verdicts.sort()).toEqual(['refuse', 'yield'])
      })
    )
  })

  it('[G-43] sees no crossing between two EXCLUSIVE sessions, other sessions, or a resume and a new one', () => {
    const exclusive = { resumeId: undefined, flags: FLAG.EXCLUSIVE }
    for (const [incoming, own] of [
      [fresh, exclusive],
      [exclusive, fresh],
      [exclusive, exclusive],
      [resume(1), resume(2)],
      [resume(1), fresh],
      [fresh, resume(1)]
    ] as [ExchangePurpose, ExchangePurpose][]) {
      expect(settleCrossing({ localEid: SMALL, remoteEid: LARGE, incoming, own: unfinished(own), nowMs: 0 })).toBe('clear')
    }
  })

  it('[G-43] counts an own exchange for 10 s after its READY, then the newest ACK takes the session over', () => {
    const own = { ...fresh, readyAtMs: 1_000 }
    const facts = { localEid: SMALL, remoteEid: LARGE, incoming: fresh, own }
    expect(settleCrossing({ ...facts, nowMs: 1_000 + CROSSING_MS - 1 })).toBe('refuse')
    expect(settleCrossing({ ...facts, nowMs: 1_000 + CROSSING_MS })).toBe('clear')
  })

  it('[G-43] [PSS-07] is no crossing once NEG left after the READY of mine: a peer that crashed again need not wait', () => {
    const own = { ...fresh, readyAtMs: 1_000 }
    const facts = { localEid: SMALL, remoteEid: LARGE, own, nowMs: 1_500 }
    expect(settleCrossing({ ...facts, incoming: { ...fresh, negSentMs: 1_001 } })).toBe('clear')
    expect(settleCrossing({ ...facts, incoming: { ...fresh, negSentMs: 1_000 } })).toBe('refuse')
    expect(settleCrossing({ ...facts, incoming: { ...fresh, negSentMs: 999 } })).toBe('refuse')
    expect(settleCrossing({ ...facts, incoming: { ...fresh, negSentMs: 1_400 }, own: unfinished(fresh) })).toBe('refuse')
  })
})
