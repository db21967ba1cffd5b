import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { Closing } from '../../src/platform/closing.ts'
import type { Logger } from '../../src/platform/logger.ts'
import { silentLogger } from '../../src/platform/logger.ts'

const settle = async () => {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}

function closing(totalMs = 1_000) {
  const clock = new ManualClock()
  const warned: object[] = []
  const logger: Logger = { ...silentLogger, warn: (fields) => void warned.push(fields) }
  return { clock, warned, closing: new Closing({ clock, logger }, { totalMs }) }
}

describe('closing', () => {
  it('goes in the opposite order of opening, each step once, and twice at once is once [F095]', async () => {
    const { closing: all } = closing()
    const order: string[] = []
    for (const name of ['store', 'host', 'http']) all.push(name, 100, async () => void order.push(name))
    const first = all.run()
    expect(all.run()).toBe(first)
    await first
    await all.run()
    expect(order).toEqual(['http', 'host', 'store'])
  })

  it('goes on after a step that throws, and names it', async () => {
    const { closing: all, warned } = closing()
    let closed = 0
    all.push('store', 100, () => void closed++)
    all.push('bad', 100, () => {
      throw new Error('no')
    })
    await all.run()
    expect(closed).toBe(1)
    expect(warned).toMatchObject([{ step: 'bad' }])
  })

  it('leaves behind a step that never ends, within its budget, and still closes the store [F095]', async () => {
    const { clock, closing: all, warned } = closing()
    let closed = 0
    all.push('store', 500, () => void closed++)
    all.push('stuck', 300, () => new Promise(() => {}))
    const done = all.run()
    await settle()
    clock.advance(299)
    await settle()
    expect(closed).toBe(0)
    clock.advance(1)
    await done
    expect(closed).toBe(1)
    expect(warned).toMatchObject([{ step: 'stuck', budgetMs: 300 }])
  })

  it('ends within its total even if every step is stuck', async () => {
    const { clock, closing: all } = closing(1_000)
    for (let i = 0; i < 6; i++) all.push(`stuck ${i}`, 900, () => new Promise(() => {}))
    let ended = false
    void all.run().then(() => {
      ended = true
    })
    for (let passedMs = 0; passedMs < 1_300 && !ended; passedMs += 10) {
      await settle()
      clock.advance(10)
    }
    await settle()
    expect(ended).toBe(true)
  })
})
