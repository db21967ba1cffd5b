import { describe, expect, it } from 'vitest'
import { placeOfNode } from '../engine/node-place.ts'
import { NO_DELAYS } from '../net/link-model.ts'
import { parseScenario } from '../scenario/parse.ts'
import { planOf } from '../scenario/plan.ts'
import { ModelNetwork, placeOfKey } from './model-network.ts'
import { ModelSpaces } from './model-spaces.ts'
import { FastRandom } from './random.ts'

const SEED = 4
const SPACE = 'org.agentnet/marketplace.energy@1'
const scenario = parseScenario(
  'name: n\ndescription: d\nnodes:\n  - { group: all, count: 60 }\ntimeline:\n  - stage: a minute\n  - { do: join, who: all, space: org.agentnet/a.b@1 }\n',
  'n.yaml'
)

function network(): ModelNetwork {
  const made = new ModelNetwork(planOf(scenario, 60, SEED).nodes, NO_DELAYS, SEED, new FastRandom(SEED))
  const up: number[] = []
  for (const { index } of made.nodes) {
    made.join(index, up)
    up.push(index)
  }
  for (const index of up) made.lookUp(index, made.placeOf(index))
  return made
}

describe('the modelled network', () => {
  it('has each node where the real engine puts it', () => {
    const { places, nodes } = network()
    for (const { index } of nodes) expect({ hi: places.hi[index], lo: places.lo[index] }).toEqual(placeOfKey(placeOfNode(SEED, index)))
  })

  it('names a node that asks as one of the nearest itself, after no hop and in its place', () => {
    const made = network()
    const own = made.placeOf(7)
    // beside its own place: only it shares all bits but the last
    const found = made.nearest(7, { hi: own.hi, lo: (own.lo ^ 1) >>> 0 })
    expect(found.nodes[0]).toBe(7)
    expect(found.hops[0]).toBe(0)
    expect(found.nodes).toHaveLength(made.k)
    expect(found.hops.slice(1).every((hops) => hops >= 1)).toBe(true)
    const far = made.nearest(7, { hi: ~own.hi >>> 0, lo: own.lo })
    expect(far.nodes).not.toContain(7)
    expect(far.nodes).toHaveLength(made.k)
  })

  it('asks the registrars that it found a moment ago again, and looks for them anew after ten seconds', () => {
    const made = network()
    const spaces = new ModelSpaces(made, { epochMs: 0, bug: undefined })
    const cost = (nowMs: number) => {
      const before = made.rpcs
      spaces.search(made.node(9), SPACE, 'topic', nowMs)
      return made.rpcs - before
    }
    const anew = cost(0)
    expect(cost(9_999)).toBeLessThan(anew)
    expect(cost(10_000)).toBeGreaterThan(cost(10_001))
  })
})
