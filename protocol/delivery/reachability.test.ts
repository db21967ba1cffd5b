import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { REACHABILITY_MODES, type WakeWindow } from './modes.ts'
import {
  checkedWindow,
  isOpen,
  keepsMessages,
  nextOpeningMs,
  type ReachabilitySetting,
  reachabilityAt,
  wakeWindowOf
} from './reachability.ts'

interface Row {
  id: string
  req: string
  note: string
  setting?: ReachabilitySetting
  window?: WakeWindow
  nowMs: number
  attached: boolean
  decoded?: unknown
  error?: string
}
const rows = JSON.parse(readFileSync(new URL('../vectors/reachability.json', import.meta.url), 'utf8')) as Row[]

const arbWindow = fc
  .record({ periodSec: fc.integer({ min: 60, max: 7 * 86_400 }), open: fc.nat(), offset: fc.nat() })
  .map(({ periodSec, open, offset }) => ({ periodSec, openSec: 1 + (open % periodSec), offsetSec: offset % periodSec }))
const arbNowMs = fc.integer({ min: 0, max: 4_000_000_000_000 })

describe('reachability', () => {
  for (const row of rows) {
    it(`[${row.req}] vector ${row.id}: ${row.note}`, () => {
      if (row.setting !== undefined) expect(reachabilityAt(row.setting, row)).toEqual(row.decoded)
      else {
        const window = row.window as WakeWindow
        expect(() => checkedWindow(window)).toThrow(expect.objectContaining({ name: 'ProtocolError', code: row.error }))
      }
    })
  }

  it('[OD-04] [OD-12] knows the four modes by the names seen in the field, in the draft table’s order', () => {
    expect(REACHABILITY_MODES).toEqual(['always_on', 'session', 'hourly_wake', 'sleep'])
    expect(REACHABILITY_MODES.filter((mode) => keepsMessages({ mode }))).toEqual(['hourly_wake', 'sleep'])
    expect(REACHABILITY_MODES.filter((mode) => keepsMessages({ mode, queueing: 'off' }))).toEqual([])
  })

  it('[OD-16] [G-14] names a wait after which the published window is open, and not a second longer than needed', () => {
    fc.assert(
      fc.property(arbWindow, arbNowMs, (window, nowMs) => {
        const answer = reachabilityAt({ mode: 'hourly_wake', window }, { nowMs, attached: true })
        if (answer.state === 'accepts') {
          expect(isOpen(window, nowMs)).toBe(true)
          return
        }
        const waitMs = (answer.retryAfterSec as number) * 1_000
        expect(isOpen(window, nowMs + waitMs)).toBe(true)
        expect(nextOpeningMs(window, nowMs) - nowMs).toBeGreaterThan(waitMs - 1_000)
        expect(Number.isInteger(answer.retryAfterSec)).toBe(true)
      })
    )
  })

  it('[G-14] opens on multiples of the period from the UTC epoch plus the offset', () => {
    fc.assert(
      fc.property(arbWindow, arbNowMs, (window, nowMs) => {
        const openingMs = nextOpeningMs(window, nowMs)
        expect((openingMs / 1_000 - window.offsetSec) % window.periodSec).toBe(0)
        expect(isOpen(window, openingMs)).toBe(true)
        expect(openingMs).toBeGreaterThan(nowMs)
      })
    )
  })

  it('[OD-49] spreads 1,000 agents of one setting so that at most 2 % wake in any second, all over the hour', () => {
    const perSecond = new Map<number, number>()
    const perMinute = new Set<number>()
    for (let i = 0; i < 1_000; i++) {
      const { offsetSec } = wakeWindowOf(nodeCrypto, eid(nodeCrypto.sha256(Uint8Array.of(i >> 8, i & 255))))
      perSecond.set(offsetSec, (perSecond.get(offsetSec) ?? 0) + 1)
      perMinute.add(Math.floor(offsetSec / 60))
    }
    expect(Math.max(...perSecond.values())).toBeLessThanOrEqual(20)
    expect(perMinute.size).toBe(60)
  })

  it('[OD-49] gives an agent the same window every time, and refuses a rhythm out of range', () => {
    const one = eid(nodeCrypto.sha256(Uint8Array.of(1)))
    expect(wakeWindowOf(nodeCrypto, one)).toEqual(wakeWindowOf(nodeCrypto, one))
    expect(wakeWindowOf(nodeCrypto, one, { periodSec: 86_400, openSec: 600 })).toMatchObject({ periodSec: 86_400, openSec: 600 })
    expect(() => wakeWindowOf(nodeCrypto, one, { periodSec: 30 })).toThrow(ProtocolError)
  })
})
