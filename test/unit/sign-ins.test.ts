import { describe, expect, it } from 'vitest'
import { CODE_MS_MAX, CODES_MAX, SIGN_IN_IDLE_MS, SIGN_INS_MAX, SignIns } from '../../src/dashboard/sign-ins.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'

function make() {
  const clock = new ManualClock()
  return { clock, signIns: new SignIns({ clock, random: systemRandom }) }
}

describe('signing in to the dashboard', () => {
  it('takes a one-time code once, and gives a token that is another secret', () => {
    const { signIns } = make()
    const { code } = signIns.issue()
    const token = signIns.redeem(code)
    expect(token).toMatch(/^[\w-]{43}$/)
    expect(token).not.toBe(code)
    expect(signIns.redeem(code)).toBeUndefined()
    expect(signIns.accepts(token as string)).toBe(true)
    expect(signIns.accepts(code)).toBe(false)
    expect(signIns.accepts('A'.repeat(43))).toBe(false)
  })

  it('takes no code that is older than two minutes', () => {
    const { clock, signIns } = make()
    const late = signIns.issue().code
    clock.advance(CODE_MS_MAX + 1)
    expect(signIns.redeem(late)).toBeUndefined()
    const { code, expiresAtMs } = signIns.issue()
    expect(expiresAtMs - clock.nowMs()).toBe(CODE_MS_MAX)
    clock.advance(CODE_MS_MAX)
    expect(signIns.redeem(code)).toBeDefined()
  })

  it('keeps a page signed in while it asks, and signs it out after twelve silent hours, or at once when it says so', () => {
    const { clock, signIns } = make()
    const token = signIns.redeem(signIns.issue().code) as string
    for (let i = 0; i < 3; i++) {
      clock.advance(SIGN_IN_IDLE_MS)
      expect(signIns.accepts(token)).toBe(true)
    }
    clock.advance(SIGN_IN_IDLE_MS + 1)
    expect(signIns.accepts(token)).toBe(false)
    const other = signIns.redeem(signIns.issue().code) as string
    signIns.end(other)
    expect(signIns.accepts(other)).toBe(false)
  })

  it('[OD-30] holds so many codes and pages at most: the oldest code goes, and the page that was silent longest', () => {
    const { signIns } = make()
    const codes = Array.from({ length: CODES_MAX + 1 }, () => signIns.issue().code)
    expect(signIns.redeem(codes[0] as string)).toBeUndefined()
    expect(signIns.redeem(codes[1] as string)).toBeDefined()
    const tokens = Array.from({ length: SIGN_INS_MAX }, () => signIns.redeem(signIns.issue().code) as string)
    expect(signIns.accepts(tokens[0] as string)).toBe(true)
    signIns.redeem(signIns.issue().code)
    expect(signIns.accepts(tokens[0] as string)).toBe(true)
    expect(signIns.accepts(tokens[1] as string)).toBe(false)
  })
})
