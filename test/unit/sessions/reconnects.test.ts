import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../src/platform/clock.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { ATTEMPTS_MAX, ATTEMPTS_PER_PEER_MAX, FLAPS_MAX, Reconnects, STEADY_MS } from '../../../src/sessions/reconnects.ts'

/** Attempts that stay under way until the test ends them. */
function attempts(init: { peerOf?: (id: string) => string } = {}) {
  const clock = new ManualClock()
  const open = new Map<string, (outcome: 'done' | 'failed') => void>()
  const started: string[] = []
  const reconnects = new Reconnects(
    { clock, random: seededRandom(7) },
    {
      msMax: 60_000,
      peerOf: init.peerOf ?? ((id) => id),
      attempt: (id) => {
        started.push(id)
        return new Promise((resolve) => open.set(id, resolve))
      }
    }
  )
  const end = async (id: string, outcome: 'done' | 'failed') => {
    open.get(id)?.(outcome)
    open.delete(id)
    await Promise.resolve()
    await Promise.resolve()
    await Promise.resolve()
  }
  return { clock, reconnects, started, open, end }
}

const ids = (count: number, prefix = 's') => Array.from({ length: count }, (_, i) => `${prefix}${i}`)

describe('taking lost sessions up again', () => {
  it('[F080] [PSS-07] runs at most 32 attempts at once, however many are due, and the next as one ends', async () => {
    const { clock, reconnects, started, open, end } = attempts()
    for (const id of ids(5_000)) reconnects.schedule(id)
    clock.advance(2_000)
    expect(started).toHaveLength(ATTEMPTS_MAX)
    for (const id of [...open.keys()].slice(0, 5)) await end(id, 'failed')
    expect(started).toHaveLength(ATTEMPTS_MAX + 5)
    expect(reconnects.running).toBe(ATTEMPTS_MAX)
  })

  it('[F080] gives one peer at most 4 of them: others do not wait for one that lets all attempts time out', () => {
    const { reconnects, started } = attempts({ peerOf: (id) => (id.startsWith('bad') ? 'bad' : id) })
    for (const id of ids(100, 'bad')) reconnects.now(id)
    for (const id of ids(10, 'good')) reconnects.now(id)
    expect(started.filter((id) => id.startsWith('bad'))).toHaveLength(ATTEMPTS_PER_PEER_MAX)
    expect(started.filter((id) => id.startsWith('good'))).toHaveLength(10)
  })

  it('[F080] lets those go first that failed least', async () => {
    const { clock, reconnects, started, end } = attempts()
    for (const id of ids(ATTEMPTS_MAX, 'first')) reconnects.now(id)
    for (const id of ids(ATTEMPTS_MAX, 'first')) await end(id, 'failed')
    clock.advance(5_000) // all of them are under way again, as their second attempt
    reconnects.schedule('other')
    clock.advance(2_000)
    for (const id of ids(3, 'first')) await end(id, 'failed')
    expect(started.at(-1)).toBe('other')
  })

  it('[F080] asks a peer that takes a session up and drops it at once after 2, 4 and then 8 s, and from the start again after a minute that held', async () => {
    const { clock, reconnects, started, end } = attempts()
    const pauses: number[] = []
    const dropped = async (lastsMs: number) => {
      reconnects.connected('s')
      await end('s', 'done')
      clock.advance(lastsMs)
      reconnects.schedule('s')
      const before = started.length
      let pauseMs = 0
      for (; started.length === before; pauseMs += 50) clock.advance(50)
      pauses.push(pauseMs)
    }
    reconnects.now('s')
    for (let i = 0; i < 5; i++) await dropped(100)
    pauses.forEach((pauseMs, i) => {
      const meantMs = 1_000 * 2 ** Math.min(i + 1, FLAPS_MAX)
      expect(pauseMs).toBeGreaterThanOrEqual(meantMs * 0.75 - 50)
      expect(pauseMs).toBeLessThanOrEqual(meantMs * 1.25 + 50)
    })
    await dropped(STEADY_MS)
    expect(pauses.at(-1)).toBeLessThanOrEqual(1_300)
  })

  it('[F080] waits out its pause, too, when the peer shows on a connection right after: two that try bring each other on without one', async () => {
    const { clock, reconnects, started, end } = attempts()
    reconnects.seen('s') // lost longer ago: at once
    reconnects.connected('s')
    await end('s', 'done')
    clock.advance(50)
    reconnects.schedule('s')
    reconnects.seen('s')
    expect(started).toHaveLength(1)
    clock.advance(2_500)
    expect(started).toHaveLength(2)
    await end('s', 'failed')
    reconnects.connected('s')
    clock.advance(STEADY_MS)
    reconnects.schedule('s')
    reconnects.seen('s')
    expect(started).toHaveLength(3)
  })

  it('[F080] counts no failure where a relay cut a connection that had served', async () => {
    const { clock, reconnects, started, end } = attempts()
    reconnects.now('s')
    for (let i = 0; i < 5; i++) {
      reconnects.connected('s')
      await end('s', 'done')
      clock.advance(50)
      reconnects.schedule('s', { served: true })
      clock.advance(1_300)
      expect(started).toHaveLength(i + 2)
    }
  })

  it('[PSS-07] tries again where the connection was lost while the attempt that brought it was still ending', async () => {
    const { clock, reconnects, started, end } = attempts()
    reconnects.now('s')
    reconnects.connected('s')
    reconnects.schedule('s')
    await end('s', 'done')
    clock.advance(3_000)
    expect(started).toEqual(['s', 's'])
  })

  it('forgets a session that is gone, wherever it stood', async () => {
    const { clock, reconnects, started, end } = attempts()
    for (const id of ids(ATTEMPTS_MAX + 1)) reconnects.now(id)
    reconnects.forget(`s${ATTEMPTS_MAX}`)
    reconnects.schedule('later')
    reconnects.forget('later')
    for (const id of ids(ATTEMPTS_MAX)) await end(id, 'done')
    clock.advance(60_000)
    expect(started).toHaveLength(ATTEMPTS_MAX)
    expect(reconnects.size).toBe(0)
  })
})
