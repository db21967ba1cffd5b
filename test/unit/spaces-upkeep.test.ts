import { MemoryLevel } from 'memory-level'
import { beforeEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { KeyedLock } from '../../src/platform/keyed-lock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { PublishBudget } from '../../src/spaces/publish-budget.ts'
import { type Refreshed, Refresher } from '../../src/spaces/refresher.ts'
import { SequenceBook } from '../../src/spaces/sequence-book.ts'
import { Store } from '../../src/store/store.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let clock: ManualClock

beforeEach(() => {
  clock = new ManualClock()
})

describe('the numbers of our records', () => {
  const level = () => new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })

  it('[F085] go up from the clock, from the last one and from what was seen, and never run twice', async () => {
    const book = new SequenceBook(new Store(level()), clock)
    const first = await book.next('join:a', -1)
    expect(first).toBe(clock.nowMs())
    const many = await Promise.all(Array.from({ length: 50 }, () => book.next('join:a', -1)))
    expect(many).toEqual(Array.from({ length: 50 }, (_, i) => first + 1 + i))
    expect(await book.next('join:a', first + 500)).toBe(first + 501)
    expect(await book.next('join:b', -1)).toBe(clock.nowMs())
  })

  it('are on disk before they are used: a restart after any of them goes on above it', async () => {
    const disk = level()
    const number = await new SequenceBook(new Store(disk), clock).next('join:a', clock.nowMs() + 30_000)
    clock.jumpWall(-10_000)
    expect(await new SequenceBook(new Store(disk), clock).next('join:a', -1)).toBe(number + 1)
  })

  it('[F085] wait for a clock that is behind them instead of running ahead of it, and end the wait with the signal', async () => {
    const book = new SequenceBook(new Store(level()), clock)
    let taken: number | undefined
    const waiting = book.next('join:a', clock.nowMs() + 5 * MINUTE_MS).then((number) => {
      taken = number
      return number
    })
    await new Promise((resolve) => setImmediate(resolve))
    clock.advance(3 * MINUTE_MS)
    await new Promise((resolve) => setImmediate(resolve))
    expect(taken).toBeUndefined()
    clock.advance(2 * MINUTE_MS)
    expect((await waiting) - clock.nowMs()).toBeLessThanOrEqual(MINUTE_MS)
    const controller = new AbortController()
    const endless = book.next('join:a', clock.nowMs() + 4 * MINUTE_MS, controller.signal)
    await new Promise((resolve) => setImmediate(resolve))
    controller.abort(new Error('stop'))
    await expect(endless).rejects.toThrow('stop')
  })
})

describe('the refresher', () => {
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const start = () => new Refresher({ clock, random: seededRandom(7), logger: silentLogger })
  async function minutes(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      clock.advance(MINUTE_MS)
      await settle()
    }
  }
  function recorder(result: (verb: 'sign' | 'put') => Partial<Refreshed> | Error = () => ({})) {
    const startedMs = clock.nowMs()
    const calls: { verb: 'sign' | 'put'; minute: number }[] = []
    let signedAtMs = startedMs
    const call = (verb: 'sign' | 'put') => async (): Promise<Refreshed> => {
      calls.push({ verb, minute: Math.round((clock.nowMs() - startedMs) / MINUTE_MS) })
      const outcome = result(verb)
      if (outcome instanceof Error) throw outcome
      if (verb === 'sign') signedAtMs = clock.nowMs()
      return { signedAtMs, coverage: 'full', ...outcome }
    }
    return { calls, sign: call('sign'), put: call('put') }
  }

  it('[DS-19] [G-28] puts the same bytes at a quarter of the life and signs anew at half, each up to a tenth early', async () => {
    const refresher = start()
    const { calls, ...verbs } = recorder()
    refresher.keep('a', { ttlMs: HOUR_MS, signedAtMs: clock.nowMs(), coverage: 'full', ...verbs })
    await minutes(10 * 60)
    const signed = calls.filter(({ verb }) => verb === 'sign').map(({ minute }) => minute)
    for (const [i, minute] of signed.entries()) {
      const gap = minute - (signed[i - 1] ?? 0)
      expect(gap).toBeGreaterThanOrEqual(27)
      expect(gap).toBeLessThanOrEqual(30)
    }
    expect(signed.length).toBeGreaterThanOrEqual(20)
    expect(calls[0]).toMatchObject({ verb: 'put' })
    expect(calls[0]?.minute).toBeGreaterThanOrEqual(13)
    expect(calls[0]?.minute).toBeLessThanOrEqual(15)
    await refresher.stop()
  })

  it('tries a partial put again after one minute, two, four and at most a quarter of the life', async () => {
    const refresher = start()
    const { calls, ...verbs } = recorder((verb) => (verb === 'put' ? { coverage: 'partial' } : {}))
    refresher.keep('a', { ttlMs: 24 * HOUR_MS, signedAtMs: clock.nowMs(), coverage: 'partial', ...verbs })
    await minutes(64)
    expect(calls.map(({ minute }) => minute)).toHaveLength(6)
    await refresher.stop()
  })

  it('tries a signature that failed again and goes on with the others meanwhile', async () => {
    const refresher = start()
    let fail = true
    const broken = recorder(() => (fail ? new Error('disk full') : {}))
    const fine = recorder()
    refresher.keep('broken', { ttlMs: HOUR_MS, signedAtMs: Number.NEGATIVE_INFINITY, coverage: 'none', sign: broken.sign, put: broken.put })
    refresher.keep('fine', { ttlMs: HOUR_MS, signedAtMs: clock.nowMs(), coverage: 'full', sign: fine.sign, put: fine.put })
    await minutes(5)
    expect(broken.calls.length).toBeGreaterThanOrEqual(3)
    expect(broken.calls.every(({ verb }) => verb === 'sign')).toBe(true)
    fail = false
    await minutes(60)
    expect(fine.calls.length).toBeGreaterThanOrEqual(2)
    expect(broken.calls.at(-1)?.minute).toBeGreaterThan(5)
    await refresher.stop()
  })

  it('notices within a minute that the wall clock was set forward past what is due', async () => {
    const refresher = start()
    const { calls, ...verbs } = recorder()
    refresher.keep('a', { ttlMs: HOUR_MS, signedAtMs: clock.nowMs(), coverage: 'full', ...verbs })
    clock.jumpWall(50 * MINUTE_MS)
    await minutes(1)
    expect(calls).toMatchObject([{ verb: 'sign' }])
    await refresher.stop()
  })

  it('[DS-10] goes on putting a tombstone that is not signed again, with pauses that grow', async () => {
    const refresher = start()
    const signedAtMs = clock.nowMs()
    let calls = 0
    const put = async (): Promise<Refreshed> => {
      calls++
      return { signedAtMs, coverage: 'partial' }
    }
    refresher.keep('gone', { ttlMs: HOUR_MS, signedAtMs, coverage: 'partial', sign: put, put })
    await minutes(58)
    expect(calls).toBeGreaterThanOrEqual(5)
    expect(calls).toBeLessThanOrEqual(9)
    await refresher.stop()
  })

  it('[G-28] begins with what has been due longest, and tells how many wait and for how long', async () => {
    const refresher = start()
    const begun: string[] = []
    const gate = Promise.withResolvers<void>()
    const item = (name: string, signedAgoMs: number) => {
      const call = async (): Promise<Refreshed> => {
        begun.push(name)
        await gate.promise
        return { signedAtMs: clock.nowMs(), coverage: 'full' }
      }
      refresher.keep(name, { ttlMs: HOUR_MS, signedAtMs: clock.nowMs() - signedAgoMs, coverage: 'full', sign: call, put: call })
    }
    for (const name of ['a', 'b', 'c', 'd']) item(name, 2 * HOUR_MS)
    item('late', 40 * MINUTE_MS)
    item('latest', 50 * MINUTE_MS)
    item('later', 45 * MINUTE_MS)
    item('not due', 0)
    expect(begun).toEqual(['a', 'b', 'c', 'd'])
    const { lateMs, ...counts } = refresher.stats()
    expect(counts).toEqual({ records: 8, partial: 0, waiting: 3 })
    expect(lateMs).toBeGreaterThanOrEqual(20 * MINUTE_MS)
    expect(lateMs).toBeLessThanOrEqual(23 * MINUTE_MS)
    refresher.forget('later')
    gate.resolve()
    await settle()
    expect(begun.slice(4)).toEqual(['latest', 'late'])
    await settle()
    expect(refresher.stats()).toEqual({ records: 7, partial: 0, waiting: 0, lateMs: 0 })
    await refresher.stop()
  })

  it('runs at most four at once, and nothing after its stop', async () => {
    const refresher = start()
    let running = 0
    let most = 0
    const gate = Promise.withResolvers<void>()
    const work = async (): Promise<Refreshed> => {
      most = Math.max(most, ++running)
      await gate.promise
      running--
      return { signedAtMs: clock.nowMs(), coverage: 'full' }
    }
    for (let i = 0; i < 10; i++) {
      refresher.keep(`${i}`, { ttlMs: HOUR_MS, signedAtMs: Number.NEGATIVE_INFINITY, coverage: 'none', sign: work, put: work })
    }
    await settle()
    expect(most).toBe(4)
    const stopped = refresher.stop()
    gate.resolve()
    await stopped
    await minutes(5)
    expect(most).toBe(4)
    expect(running).toBe(0)
  })
})

describe('a publisher’s budget', () => {
  it('refills over a minute, is one for all its sources, and refuses strangers while it can remember no more', () => {
    const budget = new PublishBudget(clock, 2, 3)
    expect(budget.take(['peer', 'net'])).toBe('taken')
    expect(budget.take(['peer', 'net'])).toBe('taken')
    expect(budget.take(['peer', 'net'])).toBe('refused')
    expect(budget.take(['other', 'net'])).toBe('refused')
    clock.advance(30_000)
    expect(budget.take(['peer', 'net'])).toBe('taken')
    expect(budget.take(['peer', 'net'])).toBe('refused')
    expect(budget.take(['other'])).toBe('taken')
    expect(budget.take(['a fourth'])).toBe('refused')
    clock.advance(MINUTE_MS)
    expect(budget.take(['a fourth'])).toBe('taken')
    expect(budget.take([])).toBe('taken')
  })
})

describe('a lock by key', () => {
  it('runs one at a time for a key in the order of asking, others beside it, and survives a failure', async () => {
    const lock = new KeyedLock()
    const order: string[] = []
    const gate = Promise.withResolvers<void>()
    const first = lock.run('a', async () => {
      await gate.promise
      order.push('a1')
    })
    const failing = lock.run('a', () => Promise.reject(new Error('a2')))
    const third = lock.run('a', async () => void order.push('a3'))
    await lock.run('b', async () => void order.push('b1'))
    gate.resolve()
    await first
    await expect(failing).rejects.toThrow('a2')
    await third
    expect(order).toEqual(['b1', 'a1', 'a3'])
  })
})
