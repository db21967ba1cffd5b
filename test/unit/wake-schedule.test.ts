import { describe, expect, it } from 'vitest'
import { WakeSchedule } from '../../src/delivery/wake-schedule.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'

const HOUR_MS = 3_600_000
const agentOf = (reachability: LocalAgent['reachability']) => ({ eidHex: 'ab', reachability }) as LocalAgent

describe('the wake schedule', () => {
  it('calls at every opening of the window, in seconds of the UTC epoch [OD-08]', () => {
    const clock = new ManualClock(1_767_225_600_000)
    const opened: number[] = []
    const schedule = new WakeSchedule(clock, () => opened.push(clock.nowMs()))
    schedule.follow(agentOf({ mode: 'hourly_wake', window: { periodSec: 3_600, openSec: 300, offsetSec: 600 } }))
    clock.advance(3 * HOUR_MS)
    expect(opened.map((ms) => ms % HOUR_MS)).toEqual([600_000, 600_000, 600_000])
  })

  it('follows a wall clock that jumps, within a minute', () => {
    const clock = new ManualClock(1_767_225_600_000)
    const opened: number[] = []
    const schedule = new WakeSchedule(clock, () => opened.push(clock.nowMs()))
    schedule.follow(agentOf({ mode: 'hourly_wake', window: { periodSec: 3_600, openSec: 300, offsetSec: 1_800 } }))
    clock.advance(1_000)
    clock.jumpWall(25 * 60_000)
    clock.advance(6 * 60_000)
    expect(opened).toHaveLength(1)
    expect((opened[0] as number) % HOUR_MS).toBe(1_800_000)
  })

  it('leaves other modes alone, and an agent that changed to one', () => {
    const clock = new ManualClock()
    let opened = 0
    const schedule = new WakeSchedule(clock, () => opened++)
    schedule.follow(agentOf({ mode: 'hourly_wake', window: { periodSec: 60, openSec: 5, offsetSec: 0 } }))
    schedule.follow(agentOf({ mode: 'sleep' }))
    clock.advance(HOUR_MS)
    expect(opened).toBe(0)
    schedule.follow(agentOf({ mode: 'hourly_wake', window: { periodSec: 60, openSec: 5, offsetSec: 0 } }))
    schedule.stop()
    clock.advance(HOUR_MS)
    expect(opened).toBe(0)
  })

  it('opens for a sleeper at the time that it named, at once where that has passed, and again each minute until it was woken [OD-10]', () => {
    const clock = new ManualClock(1_767_225_600_000)
    const opened: number[] = []
    const schedule = new WakeSchedule(clock, () => opened.push(clock.nowMs()))
    const untilMs = clock.nowMs() + 8 * HOUR_MS
    const agent = agentOf({ mode: 'sleep', untilMs })
    schedule.follow(agent)
    clock.advance(8 * HOUR_MS - 1)
    expect(opened).toEqual([])
    clock.advance(1)
    expect(opened).toEqual([untilMs])
    clock.advance(60_000)
    expect(opened).toEqual([untilMs, untilMs + 60_000])
    schedule.follow(agentOf({ mode: 'always_on' }))
    clock.advance(HOUR_MS)
    expect(opened).toHaveLength(2)
    schedule.follow(agentOf({ mode: 'sleep', untilMs }))
    clock.advance(0)
    expect(opened).toHaveLength(3)
  })
})
