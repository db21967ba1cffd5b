import { describe, expect, it } from 'vitest'
import { FastRandom } from '../model/random.ts'
import { parseScenario } from '../scenario/parse.ts'
import { planOf } from '../scenario/plan.ts'
import { LinkModel } from './link-model.ts'

function link(network: string, groups = '{ group: a, count: 1, region: europe }, { group: b, count: 1, region: asia }') {
  const scenario = parseScenario(`name: x\ndescription: x.\nnodes: [${groups}]\nnetwork: ${network}\ntimeline: [{ stage: s }]\n`, 'x.yaml')
  return new LinkModel(planOf(scenario, 2, 1).nodes, scenario.network, new FastRandom(1))
}

describe('the link between two nodes', () => {
  it('takes half the round trip between their continents, give or take its jitter', () => {
    expect(link('{ latency: internet }').delayMs(0, 1, 100)).toBe(95)
    const jittery = link('{ latency: internet, jitter: 0.1 }')
    const delays = Array.from({ length: 500 }, () => jittery.delayMs(0, 1, 100))
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(85.5)
    expect(Math.max(...delays)).toBeLessThanOrEqual(104.5)
    expect(new Set(delays).size).toBeGreaterThan(400)
  })

  it('makes of loss the time of sending again', () => {
    const lossy = link('{ latency: 10ms, loss: 0.2 }')
    const delays = Array.from({ length: 2_000 }, () => lossy.delayMs(0, 1, 100))
    const late = delays.filter((ms) => ms > 10)
    expect(late.length / delays.length).toBeCloseTo(0.2, 1)
    expect(Math.min(...late)).toBe(10 + 25 + 20)
  })

  it('is as fast as the slower of its two ends', () => {
    const groups = '{ group: a, count: 1, hardware: server }, { group: b, count: 1, hardware: sensor }'
    expect(link('{ bandwidth: true }', groups).delayMs(0, 1, 31_250)).toBeCloseTo(1_000)
  })

  it('carries nothing between islands, and tells of it, until they are healed', () => {
    const model = link('{}')
    let told = 0
    model.onPartition(() => told++)
    model.partition([[0], [1]])
    expect([model.reaches(0, 1), model.mayDial(0, 1), told]).toEqual([false, false, 1])
    expect(model.reaches(0, 7)).toBe(true)
    model.heal()
    expect(model.mayDial(0, 1)).toBe(true)
  })

  it('lets nobody call into a symmetric NAT but whom its node has called, and into a cone NAT also those who can meet', () => {
    const symmetric = link('{}', '{ group: a, count: 1 }, { group: b, count: 1, nat: symmetric }')
    expect(symmetric.mayDial(0, 1)).toBe(false)
    expect(symmetric.mayDial(1, 0)).toBe(true)
    expect(symmetric.mayDial(0, 1)).toBe(true)
    expect(link('{}', '{ group: a, count: 1 }, { group: b, count: 1, nat: cone }').mayDial(0, 1)).toBe(true)
    expect(link('{}', '{ group: a, count: 1, nat: symmetric }, { group: b, count: 1, nat: cone }').mayDial(0, 1)).toBe(false)
  })
})
