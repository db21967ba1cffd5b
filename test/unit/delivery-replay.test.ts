import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { REPLAY_RETENTION_MS, ReplayCache, type ReplayClaim } from '../../src/delivery/replay-cache.ts'
import { Store } from '../../src/store/store.ts'
import { asEidHex, FaultyLevel } from './delivery-fixtures.ts'

const NOW_MS = 1_800_000_000_000
const HOUR_MS = 3_600_000
const issuer = asEidHex('aa'.repeat(32))
const stranger = asEidHex('bb'.repeat(32))

async function open(level = new FaultyLevel(), namesMax = 100) {
  const store = new Store(level)
  const cache = await ReplayCache.open({ store }, { namesMax })
  const enter = async (from: typeof issuer, id: string, endMs = NOW_MS + HOUR_MS, nowMs = NOW_MS) => {
    const claim = await cache.claim(from, id, endMs, nowMs)
    if (typeof claim === 'string') return claim
    await store.commit(claim.ops)
    claim.done()
    return 'entered'
  }
  return { level, store, cache, enter }
}

describe('the replay cache', () => {
  it('[G-12] keeps names by issuer and id: a stranger’s id burns nobody else’s', async () => {
    const { enter } = await open()
    expect(await enter(stranger, '01')).toBe('entered')
    expect(await enter(issuer, '01')).toBe('entered')
    expect(await enter(issuer, '01')).toBe('seen')
  })

  it('[OD-36] knows its names after a restart, and forgets them only at the end plus the skew', async () => {
    const { level, enter } = await open()
    await enter(issuer, '01')
    const { cache, enter: enterAgain } = await open(level)
    expect(cache.size).toBe(1)
    expect(await enterAgain(issuer, '01')).toBe('seen')
    expect(await cache.prune(NOW_MS + HOUR_MS + 60_000)).toBe(0)
    expect(await cache.has(issuer, '01')).toBe(true)
    expect(await cache.prune(NOW_MS + HOUR_MS + 60_001)).toBe(1)
    expect(await cache.has(issuer, '01')).toBe(false)
    expect(cache.size).toBe(0)
  })

  it('[G-11] refuses new names at its bound and evicts no live one', async () => {
    const { cache, enter } = await open(new FaultyLevel(), 3)
    for (const id of ['01', '02', '03']) expect(await enter(issuer, id)).toBe('entered')
    expect(await enter(issuer, '04')).toBe('full')
    for (const id of ['01', '02', '03']) expect(await enter(issuer, id)).toBe('seen')
    expect(await enter(issuer, '04', NOW_MS + 3 * HOUR_MS, NOW_MS + 2 * HOUR_MS)).toBe('entered')
    expect(cache.size).toBe(1)
  })

  it('[G-11] refuses an end beyond what it can remember', async () => {
    const { enter } = await open()
    expect(await enter(issuer, '01', NOW_MS + REPLAY_RETENTION_MS + 1)).toBe('beyond')
    expect(await enter(issuer, '01', NOW_MS + REPLAY_RETENTION_MS)).toBe('entered')
  })

  it('[OD-42] gives one of many claims at the same time, and gives the name back when its commit failed', async () => {
    const { cache, enter } = await open()
    const claims = await Promise.all(Array.from({ length: 10 }, () => cache.claim(issuer, '01', NOW_MS + HOUR_MS, NOW_MS)))
    const won = claims.filter((claim): claim is ReplayClaim => typeof claim !== 'string')
    expect(won).toHaveLength(1)
    won[0]?.abandon()
    expect(cache.size).toBe(0)
    expect(await enter(issuer, '01')).toBe('entered')
  })

  it('[G-11] counts what is on disk through any sequence of claims, failures, prunes and restarts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ kind: fc.constantFrom('enter', 'fail', 'prune', 'restart'), id: fc.nat(9), minutes: fc.nat(90) }), {
          maxLength: 40
        }),
        async (steps) => {
          let one = await open(new FaultyLevel(), 5)
          const live = new Map<string, number>()
          let nowMs = NOW_MS
          for (const { kind, id, minutes } of steps) {
            const endMs = nowMs + HOUR_MS
            if (kind === 'enter') {
              const answer = await one.enter(issuer, `0${id}`, endMs, nowMs)
              if (answer === 'entered') live.set(`0${id}`, endMs)
              if (answer === 'seen') expect(live.has(`0${id}`)).toBe(true)
            } else if (kind === 'fail') {
              const claim = await one.cache.claim(issuer, `0${id}`, endMs, nowMs)
              if (typeof claim !== 'string') claim.abandon()
            } else if (kind === 'prune') {
              nowMs += minutes * 60_000
              await one.cache.prune(nowMs)
            } else one = await open(one.level, 5)
            for (const [name, end] of live) {
              if (await one.cache.has(issuer, name)) continue
              expect(end + 60_000).toBeLessThan(nowMs)
              live.delete(name)
            }
            expect(one.cache.size).toBe(live.size)
            expect(live.size).toBeLessThanOrEqual(5)
          }
        }
      ),
      { numRuns: 60 }
    )
  })
})
