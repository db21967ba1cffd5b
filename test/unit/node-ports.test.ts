import { describe, expect, it } from 'vitest'
import { RookeryError } from '../../src/errors.ts'
import { openOnAnyPort, openOnGivenPort } from '../../src/node-ports.ts'
import { ManualClock } from '../../src/platform/clock.ts'

const inUse = (port: number) => new RookeryError('PORT_IN_USE', `${port} is taken`, { kind: 'conflict', value: port })

describe('ports [F094]', () => {
  it('chosen automatically: the first that is free, any at last', async () => {
    const tried: number[] = []
    const open = async (port: number) => {
      tried.push(port)
      if (port !== 0) throw inUse(port)
      return 'open'
    }
    expect(await openOnAnyPort([4710, 4711], open)).toBe('open')
    expect(tried).toEqual([4710, 4711, 0])
  })

  it('chosen automatically: another failure is not taken for a taken port', async () => {
    const failure = new Error('no such device')
    await expect(openOnAnyPort([4710], async () => Promise.reject(failure))).rejects.toBe(failure)
  })

  it('set by hand: tried for 3 s, then the failure itself; never another port', async () => {
    const clock = new ManualClock()
    let tries = 0
    const opening = openOnGivenPort(clock, async () => {
      tries++
      throw inUse(80)
    })
    const ended = opening.then(
      () => 'open',
      (error: unknown) => error
    )
    for (let i = 0; i < 20; i++) {
      for (let turn = 0; turn < 10; turn++) await Promise.resolve()
      clock.advance(500)
    }
    expect(await ended).toMatchObject({ code: 'PORT_IN_USE', value: 80 })
    expect(tries).toBe(7)
  })

  it('set by hand: a start that is given up ends the waiting', async () => {
    const abort = new AbortController()
    const opening = openOnGivenPort(new ManualClock(), async () => Promise.reject(inUse(80)), { signal: abort.signal })
    const reason = new Error('given up')
    setImmediate(() => abort.abort(reason))
    await expect(opening).rejects.toBe(reason)
  })
})
