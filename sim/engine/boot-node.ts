import { peerIdFromString } from '@libp2p/peer-id'
import { MemoryLevel } from 'memory-level'
import { RookeryError } from '../../src/errors.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { Traffic } from '../../src/net/traffic.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { derivedBytes, derivedRandom } from './seeds.ts'

/** The simulator's profile: replicas and table small enough that hundreds of nodes fit in one process. */
export const SIM_K = 8
const SIM_ALPHA = 3
/** The first connection of a node comes within this, or it never does. */
const CONNECT_TIMEOUT_MS = 30_000
const CONNECT_LOOK_MS = 10

/** One of the product's own nodes with an agent. */
export interface SimNode {
  readonly index: number
  readonly node: RookeryNode
  readonly agent: HostedAgent
  readonly traffic: Traffic
  /** multiaddrs that others bootstrap from */
  readonly bootstrapAddrs: readonly string[]
}

export interface BootInit {
  index: number
  seed: number
  bootstrap: readonly string[]
  signal: AbortSignal
  /** of the host key, 32 bytes; by default it follows from seed and index */
  nodeSeed?: Uint8Array
  /** by default the system's */
  clock?: Clock
}

/** Keys follow from seed and index; nothing is written to disk. */
export async function bootNode({ index, seed, bootstrap, signal, nodeSeed, clock = systemClock }: BootInit): Promise<SimNode> {
  const traffic = new Traffic()
  const node = await createNode(
    {
      bootstrap: [...bootstrap],
      registrarsMax: SIM_K,
      dht: { k: SIM_K, alpha: SIM_ALPHA, disjointPaths: 1 },
      http: { enabled: false },
      grants: { peers: 'anyone' },
      logs: { level: 'silent' }
    },
    {
      level: new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }),
      nodeSeed: nodeSeed ?? derivedBytes(seed, 'node-key', index),
      clock,
      random: derivedRandom(seed, 'random', index),
      transport: 'memory',
      http: 'off',
      locators: 'on-demand',
      records: 'leave',
      traffic,
      signal
    }
  )
  const agent = await node.addAgent({ name: 'agent', seed: derivedBytes(seed, 'agent-key', index) }).catch(async (error: unknown) => {
    await node.stop()
    throw error
  })
  return { index, node, agent, traffic, bootstrapAddrs: node.host.addresses().map((addr) => `${addr}/p2p/${node.peer}`) }
}

/**
 * Waits until it knows another node, then looks itself up, by which it learns of its neighbours and they of it: Kademlia's join.
 * @throws RookeryError `SIM_NOT_CONNECTED`; or the signal's reason
 */
export async function joinDht({ node, index }: SimNode, signal: AbortSignal): Promise<void> {
  const { dht } = node.host
  const startedMs = systemClock.monotonicMs()
  while (dht.routingTableSize() === 0) {
    if (systemClock.monotonicMs() - startedMs > CONNECT_TIMEOUT_MS) {
      throw new RookeryError('SIM_NOT_CONNECTED', `node ${index} met nobody within ${CONNECT_TIMEOUT_MS} ms`, { kind: 'timeout' })
    }
    await systemClock.sleep(CONNECT_LOOK_MS, { signal })
  }
  await dht.closestPeers(peerIdFromString(node.peer).toMultihash().bytes, { signal })
}
