import { describe, expect, it } from 'vitest'
import { GroupWorld } from '../../support/group-world.ts'

const all = () => true

function groupOf(count: number, seed = 1): GroupWorld {
  const world = new GroupWorld(count, seed)
  world.change({})
  world.shape(all)
  world.change({ add: world.agents.slice(1).map((agent) => agent.eid), history: 'snapshot' })
  world.settle(1_000)
  return world
}

describe('a group', () => {
  it('[PSS-04] shows every member what each of them wrote', () => {
    const world = groupOf(4)
    for (const agent of world.agents) world.write(agent, [{ op: 'set', key: `k${agent.index}`, value: agent.index }])
    world.settle(1_000)
    expect(world.differences()).toEqual([])
    for (const agent of world.agents) {
      expect(Object.values(GroupWorld.view(agent.core as never))).toHaveLength(4)
    }
  })
})
