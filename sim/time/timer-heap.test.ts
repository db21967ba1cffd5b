import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TimerHeap } from './timer-heap.ts'

describe('timers by when they are due', () => {
  it('come out in the order of their times, those of one instant in the order they were set, without those taken out', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ atMs: fc.nat(30), isCancelled: fc.boolean() }), { maxLength: 80 }), (wanted) => {
        const heap = new TimerHeap<{ atMs: number; order: number; place: number }>()
        const timers = wanted.map(({ atMs }, order) => ({ atMs, order, place: -1 }))
        for (const timer of timers) heap.add(timer)
        for (const [i, timer] of timers.entries()) if (wanted[i]?.isCancelled) heap.remove(timer)
        const left = timers.filter((_, i) => wanted[i]?.isCancelled === false)
        expect(heap.size).toBe(left.length)
        const out: number[] = []
        for (let next = heap.first(); next !== undefined; next = heap.first()) {
          out.push(next.order)
          heap.remove(next)
        }
        expect(out).toEqual([...left].sort((a, b) => a.atMs - b.atMs || a.order - b.order).map(({ order }) => order))
      })
    )
  })
})
