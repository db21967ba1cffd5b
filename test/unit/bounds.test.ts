import { describe, expect, it } from 'vitest'
import { BOUNDS_WATCH_MS, BoundsWatch } from '../../src/ops/bounds.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { LogRing } from '../../src/platform/log-ring.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'

describe('the bounds of a node', () => {
  it('[OD-30] are told to the operator when they are reached, with setting and remedy, once until there is room again', () => {
    const [clock, ring] = [new ManualClock(), new LogRing()]
    const logger = createLogger({ level: 'info', sink: ring })
    let sessions = 999
    const node = {
      config: { sessionsMax: 1_000, registry: { bytesMax: 1_000 } },
      sessions: { held: () => ({ sessions }) },
      registry: { stats: () => ({ bytes: 0 }) },
      todos: { openCount: 0, bounds: { openMax: 10 } }
    }
    const watch = new BoundsWatch(node as unknown as ConstructorParameters<typeof BoundsWatch>[0], { clock, logger })
    watch.start()
    const said = (count: number) => {
      sessions = count
      const before = ring.newest
      for (let i = 0; i < 3; i++) clock.advance(BOUNDS_WATCH_MS)
      return ring.after(before, 100).records.map(({ level, message, fields }) => ({ level, message, ...JSON.parse(fields) }))
    }
    expect(said(999)).toEqual([])
    expect(said(1_000)).toEqual([
      {
        level: 'warn',
        message: 'a bound is reached; callers are asked to wait, then refused with SESSION_BUSY',
        bound: 'sessions',
        used: 1_000,
        max: 1_000,
        setting: 'sessionsMax',
        remedy: 'raise sessionsMax, or see what fills it'
      }
    ])
    expect(said(950)).toEqual([]) // a bound that comes and goes is told of once
    expect(said(1_000)).toEqual([])
    expect(said(899)).toMatchObject([{ level: 'info', bound: 'sessions', used: 899 }])
    expect(said(1_001)).toMatchObject([{ level: 'warn', used: 1_001 }])
    watch.stop()
    expect(said(10)).toEqual([])
  })
})
