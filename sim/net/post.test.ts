import { describe, expect, it } from 'vitest'
import { Post } from './post.ts'

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

describe('the post', () => {
  it('keeps the order of what has no time to wait, also of what a delivery sends', async () => {
    const post = new Post()
    const got: number[] = []
    post.deliver(0, () => {
      got.push(1)
      post.deliver(0, () => got.push(3))
    })
    post.deliver(0, () => got.push(2))
    expect(got).toEqual([])
    await nextTurn()
    expect(got).toEqual([1, 2, 3])
  })

  it('lets timers have a turn though two ends answer each other for ever, and loses nothing', async () => {
    const post = new Post()
    let count = 0
    const again = () => {
      count++
      if (count < 10_000) post.deliver(0, again)
    }
    post.deliver(0, again)
    await new Promise((resolve) => setTimeout(resolve, 0))
    expect(count).toBeLessThan(10_000)
    while (count < 10_000) await nextTurn()
    expect(count).toBe(10_000)
  })
})
