import { describe, expect, it } from 'vitest'
import { reachabilityAt } from '../../protocol/delivery/reachability.ts'
import { ATTACH_LEASE_MAX_MS, ATTACHMENTS_MAX, Attachments } from '../../src/delivery/attachments.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { localAgent } from './delivery-fixtures.ts'

function desk() {
  const clock = new ManualClock()
  const changes: string[] = []
  const attachments = new Attachments({ clock, random: systemRandom }, (home, now) => changes.push(`${home.slice(0, 4)} ${now}`))
  return { clock, changes, attachments }
}

describe('the lease of an agent’s process', () => {
  it('[G-16] [OD-06] makes a session agent reachable while it is renewed, and not a moment longer', () => {
    const { clock, changes, attachments } = desk()
    const bob = localAgent('bob', { mode: 'session' })
    const state = () => reachabilityAt(bob.reachability, { nowMs: clock.nowMs(), attached: attachments.has(bob) }).state
    expect(state()).toBe('asleep')
    const { id } = attachments.attach(bob, { leaseMs: 10_000 })
    expect(state()).toBe('accepts')
    clock.advance(9_000)
    attachments.renew(id)
    clock.advance(9_999)
    expect(state()).toBe('accepts')
    clock.advance(1)
    expect(state()).toBe('asleep')
    expect(() => attachments.renew(id)).toThrow(expect.objectContaining({ code: 'ATTACHMENT_UNKNOWN', remedy: 'attach again' }))
    expect(changes).toEqual([`${bob.eidHex.slice(0, 4)} attached`, `${bob.eidHex.slice(0, 4)} detached`])
  })

  it('[G-16] counts a detached process inside an open window as outside of it, and is not moved by a wall clock that jumps', () => {
    const { clock, attachments } = desk()
    const bob = localAgent('bob', { mode: 'hourly_wake', window: { periodSec: 3_600, openSec: 3_600, offsetSec: 0 } })
    const state = () => reachabilityAt(bob.reachability, { nowMs: clock.nowMs(), attached: attachments.has(bob) })
    expect(state()).toEqual({ state: 'asleep', queues: true })
    const one = attachments.attach(bob, { leaseMs: 10_000 })
    const two = attachments.attach(bob, { leaseMs: 10_000 })
    clock.jumpWall(86_400_000)
    expect(state().state).toBe('accepts')
    expect(attachments.detach(one.id)).toBe(true)
    expect(state().state).toBe('accepts')
    expect(attachments.detach(two.id)).toBe(true)
    expect(attachments.detach(two.id)).toBe(false)
    expect(state()).toEqual({ state: 'asleep', queues: true })
  })

  it('[G-16] bounds the processes of an agent and the length of a lease', () => {
    const { attachments } = desk()
    const [bob, carol] = [localAgent('bob'), localAgent('carol')]
    for (let i = 0; i < ATTACHMENTS_MAX; i++) attachments.attach(bob)
    expect(() => attachments.attach(bob)).toThrow(expect.objectContaining({ code: 'ATTACHMENTS_MAX', kind: 'refused' }))
    attachments.attach(carol)
    for (const leaseMs of [0, 999, 1_000.5, ATTACH_LEASE_MAX_MS + 1, Number.NaN]) {
      expect(() => attachments.attach(carol, { leaseMs })).toThrow(expect.objectContaining({ code: 'LEASE_INVALID', field: 'leaseMs' }))
    }
    attachments.stop()
    expect(attachments.has(bob)).toBe(false)
  })
})
