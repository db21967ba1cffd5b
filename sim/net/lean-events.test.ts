import { describe, expect, it } from 'vitest'
import { LeanEvents } from './lean-events.ts'

describe('the listeners of one end', () => {
  it('are called in their order, each once a time, those that listen once one time', () => {
    const events = new LeanEvents()
    const seen: string[] = []
    const first = () => void seen.push('first')
    events.add('x', first)
    events.add('x', first)
    events.add('x', { handleEvent: ({ type }) => void seen.push(type) }, { once: true })
    events.dispatch(new Event('x'))
    events.dispatch(new Event('y'))
    events.dispatch(new Event('x'))
    expect(seen).toEqual(['first', 'x', 'first'])
    events.remove('x', first)
    expect(events.count('x')).toBe(0)
  })

  it('are not called any more once one before them, or their signal, took them away', () => {
    const events = new LeanEvents()
    const seen: string[] = []
    const second = () => void seen.push('second')
    const ended = new AbortController()
    events.add('x', () => events.remove('x', second))
    events.add('x', second)
    events.add('x', () => void seen.push('third'), { signal: ended.signal })
    events.dispatch(new Event('x'))
    ended.abort()
    events.add('x', second, { signal: ended.signal })
    events.dispatch(new Event('x'))
    expect(seen).toEqual(['third'])
  })

  it('that come while others are called hear of the next event', () => {
    const events = new LeanEvents()
    const seen: string[] = []
    events.add('x', () => events.add('x', () => void seen.push('late')), { once: true })
    events.dispatch(new Event('x'))
    expect(seen).toEqual([])
    events.dispatch(new Event('x'))
    expect(seen).toEqual(['late'])
  })
})
