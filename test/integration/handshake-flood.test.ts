import { beforeAll, describe, expect, it } from 'vitest'
import { type FloodRound, flood } from '../support/flood.ts'

const MIB = 1_048_576

describe('5,000 INITs from 10 connections over QUIC', () => {
  let warmUp: FloodRound
  let result: FloodRound
  /** of honest strangers, all floods together */
  let acks: number
  beforeAll(async () => {
    const { rounds } = await flood({ rounds: [5_000, 5_000], connections: 10, streams: 16, honestEveryMs: 250 })
    ;[warmUp, result] = rounds as [FloodRound, FloodRound]
    acks = rounds.reduce((sum, one) => sum + one.honestMs.length + one.honestFailed.length, 0)
  }, 120_000)

  it('[PSS-12] [F059] are all answered: a few by NEG, RETRY where a share is used up, CLOSE above eight a connection', () => {
    const { answers } = result
    expect(answers.neg + answers.retry + answers.close).toBe(answers.sent)
    expect(answers).toMatchObject({ dropped: 0, failed: 0 })
    expect(answers.sent).toBeGreaterThanOrEqual(5_000)
    expect(answers.neg).toBeGreaterThanOrEqual(10)
    expect(answers.close).toBeGreaterThan(answers.neg)
  })

  it('[PSS-12] [PSS-16] [F059] leave no handshake, no session and no connection behind, and the memory flat within 10 MiB', () => {
    const { after, honestMs } = result
    expect(after).toMatchObject({ connections: 0, held: { sessions: 0, pendingHandshakes: 0, ownExchanges: 0, guardedConnections: 0 } })
    expect(after.held.spentPairs).toBeGreaterThanOrEqual(honestMs.length)
    expect(after.held.spentPairs).toBeLessThanOrEqual(acks) // only a valid ACK spends a pair
    expect((after.heap - warmUp.after.heap) / MIB).toBeLessThan(10)
    expect((after.rss - warmUp.after.rss) / MIB).toBeLessThan(10)
  })

  it('[F059] keep no honest stranger out: it holds a session within 2 s while they last', () => {
    expect(result.honestFailed).toEqual([])
    expect(result.honestMs.length).toBeGreaterThan(2)
    expect(Math.max(...result.honestMs)).toBeLessThan(2_000)
  })

  it('[F059] keep the event loop at work for less than 200 ms in one go', () => {
    expect(result.during.loop.busyMaxMs).toBeLessThan(200)
  })
})
