import { derivedRandom } from '../engine/seeds.ts'
import { drawDistinct, drawInteger, drawPairs } from './draw.ts'

export const SEARCHES = 20
export const SESSIONS = 20

/** Who does what in a run of first-contact; numbers are indices of nodes. */
export interface FirstContactPlan {
  announcer: number
  joiners: number[]
  searches: { node: number; by: 'topic' | 'parent' }[]
  sessions: { from: number; to: number }[]
}

/** Same number of nodes and same seed, same plan. Every second search is by the parent topic. */
export function planFirstContact(nodes: number, seed: number): FirstContactPlan {
  const random = derivedRandom(seed, 'first-contact')
  const all = Array.from({ length: nodes }, (_, i) => i)
  const announcer = drawInteger(random, nodes)
  return {
    announcer,
    joiners: drawDistinct(random, all, nodes).filter((index) => index !== announcer),
    searches: drawDistinct(random, all, SEARCHES).map((node, i) => ({ node, by: i % 2 === 0 ? 'topic' : 'parent' })),
    sessions: drawPairs(random, nodes, SESSIONS).map(([from, to]) => ({ from, to }))
  }
}
