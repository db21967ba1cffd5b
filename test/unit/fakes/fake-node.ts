import { MemoryLevel } from 'memory-level'
import { nonceBytes, workBits } from '../../../protocol/discovery/work.ts'
import type { EidHex } from '../../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import type { ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { createLocators } from '../../../src/spaces/create-locators.ts'
import { createSpaces, type SpacesInit } from '../../../src/spaces/create-spaces.ts'
import type { HandOverInit } from '../../../src/spaces/hand-over.ts'
import { createRegistry, type Registry } from '../../../src/spaces/registry.ts'
import type { RegistryClientInit } from '../../../src/spaces/registry-client.ts'
import type { RegistryStoreInit } from '../../../src/spaces/registry-store.ts'
import { Store } from '../../../src/store/store.ts'
import type { WorkSolver } from '../../../src/work/work-solver.ts'
import type { FakeHost, FakeNetwork } from './fake-network.ts'

export type FakeNodeInit = RegistryStoreInit &
  RegistryClientInit &
  HandOverInit &
  SpacesInit & { solver?: Pick<WorkSolver, 'solve'>; level?: MemoryLevel<string, Uint8Array> }

/** The spaces part of a node over a fake host, with a memory store. */
export interface FakeNode {
  host: FakeHost
  store: Store
  registry: Registry
  spaces: Awaited<ReturnType<typeof createSpaces>>
  locators: Awaited<ReturnType<typeof createLocators>>
  agents: Map<EidHex, LocalAgent>
  /** stops the parts and opens new ones over the same store, as a restart does */
  restart(): Promise<void>
  stop(): Promise<void>
}

let seeds = 1

/** On this thread, for the few bits that tests ask for. */
export const plainSolver: Pick<WorkSolver, 'solve'> = {
  async solve(seed, bits) {
    for (let nonce = 0n; ; nonce++) if (workBits(seed, nonceBytes(nonce)) >= bits) return nonceBytes(nonce)
  }
}

export async function fakeNode(
  network: FakeNetwork,
  clock: ManualClock,
  name: string,
  agents: readonly LocalAgent[] = [],
  init: FakeNodeInit = {}
): Promise<FakeNode> {
  const host = network.add(name)
  const store = new Store(init.level ?? new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
  const held = new Map(agents.map((agent) => [agent.eidHex, agent]))
  const open = async () => {
    const parts = { host, store, clock, random: seededRandom(seeds++), crypto: nodeCrypto, logger: silentLogger }
    const { solver = plainSolver } = init
    const registry = await createRegistry({ ...parts, solver }, { handOver: 'by-hand', ...init })
    const settings = {
      ...(init.network === undefined ? {} : { network: init.network }),
      ...(init.shardSplitAt === undefined ? {} : { shardSplitAt: init.shardSplitAt })
    }
    const spaces = await createSpaces({ ...parts, registry, agents: (hex) => held.get(hex) }, settings)
    const locators = await createLocators({ ...parts, agents: (hex) => held.get(hex) }, settings)
    return { registry, spaces, locators }
  }
  const node: FakeNode = {
    host,
    store,
    agents: held,
    ...(await open()),
    async restart() {
      await this.spaces.stop()
      await this.locators.stop()
      await this.registry.stop()
      Object.assign(this, await open())
    },
    async stop() {
      await this.spaces.stop()
      await this.locators.stop()
      await this.registry.stop()
    }
  }
  return node
}

/**
 * Moves the clock in steps and lets what falls due finish before the next one.
 * The real event loop has to turn for the store's writes, hence the immediate.
 */
export async function pass(clock: ManualClock, ms: number, nodes: readonly FakeNode[], stepMs = 60_000): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.advance(Math.min(stepMs, left))
    await settle(nodes)
  }
}

export async function settle(nodes: readonly FakeNode[]): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
  for (const node of nodes) {
    await node.spaces.idle()
    await node.locators.idle()
    await node.registry.idle()
  }
}
