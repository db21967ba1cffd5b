import { dsId, parseSpaceName } from '../../../protocol/discovery/names.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { FakeNetwork } from './fake-network.ts'
import { type FakeNode, type FakeNodeInit, fakeNode, pass } from './fake-node.ts'

export const ENERGY_NAME = 'org.agentnet/marketplace.energy@1'
export const ENERGY_KEY = dsId(nodeCrypto, parseSpaceName(ENERGY_NAME))
export const HOUR_MS = 3_600_000

/** Nodes over one manual clock, one for each agent, all of which know each other. */
export class SpaceNet {
  readonly clock = new ManualClock()
  readonly network = new FakeNetwork(this.clock)
  readonly nodes: FakeNode[] = []

  async add(agents: readonly LocalAgent[], init: FakeNodeInit = {}): Promise<FakeNode[]> {
    const added: FakeNode[] = []
    for (const agent of agents) {
      const node = await fakeNode(this.network, this.clock, agent.name, [agent], init)
      this.nodes.push(node)
      added.push(node)
    }
    this.network.meet(...this.nodes.map((node) => node.host))
    return added
  }

  /** Step by step, so that what falls due is done before the next. */
  async pass(ms: number, each: () => Promise<void> = async () => {}, stepMs = 60_000): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      await pass(this.clock, Math.min(stepMs, left), this.nodes, stepMs)
      await each()
    }
  }

  /** As {@link pass}, in steps of ten minutes and without a look between them. */
  async passFar(ms: number): Promise<void> {
    await this.pass(ms, undefined, 600_000)
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) await node.stop()
  }
}

export async function collect<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const value of values) all.push(value)
  return all
}
