import { describe, expect, it } from 'vitest'
import { TurnShare } from '../../src/net/turn-share.ts'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('the share of a turn', () => {
  it('[F059] lets two go on a turn, and who asks once comes next though another asks a thousand times', async () => {
    const share = new TurnShare(2)
    const order: string[] = []
    const caller = async (name: string, times: number) => {
      for (let i = 0; i < times; i++) {
        await share.enter()
        order.push(name)
      }
    }
    void caller('flood', 1_000)
    await turn()
    await turn()
    expect(order.length).toBeLessThanOrEqual(6)
    const before = order.length
    await caller('honest', 1)
    expect(order.slice(before).filter((name) => name === 'flood').length).toBeLessThanOrEqual(2)
  })

  it('lets each of many go on in the end, in the order they came, and asks for no turn when nobody waits', async () => {
    const share = new TurnShare(2)
    const order: number[] = []
    await Promise.all(Array.from({ length: 50 }, (_, i) => share.enter().then(() => order.push(i))))
    expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i))
    expect(share.waiting).toBe(0)
    await share.enter()
  })
})
