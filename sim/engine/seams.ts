import type { ConfigInput } from '../../src/config/schema.ts'
import type { NodeOverrides } from '../../src/node.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type { SimNode } from './boot-node.ts'

export interface NodeParts {
  config?: ConfigInput
  overrides?: Omit<NodeOverrides, 'level'>
  /** its disk */
  level?: SimNode['level']
}

/** What a test puts in the place of real parts of real nodes, to break one on purpose. The nodes themselves know nothing of it. */
export interface Seams {
  /** of all nodes, and of what judges them; default: the system's */
  readonly clock?: Clock
  /** how long the end of a run waits for what was acknowledged and has not come; default 10 s */
  readonly lastWorkMs?: number
  /** settings and parts of one node, over those that every node has */
  parts?(index: number): NodeParts
  /** told of each node before it is put to work, after a restart too */
  onNode?(sim: SimNode): void | Promise<void>
}
