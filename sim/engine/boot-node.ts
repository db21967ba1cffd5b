import { peerIdFromString } from '@libp2p/peer-id'
import { MemoryLevel } from 'memory-level'
import type { ReachabilityMode } from '../../protocol/delivery/modes.ts'
import { RookeryError } from '../../src/errors.ts'
import type { WindowInput } from '../../src/identity/agents.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { Traffic } from '../../src/net/traffic.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { DirectNetwork } from '../net/direct-network.ts'
import { directTransport } from '../net/direct-transport.ts'
import type { NodeParts } from './seams.ts'
import { derivedBytes, derivedRandom } from './seeds.ts'

/** The simulator's profile: replicas and table small enough that hundreds of nodes fit in one process. */
export const SIM_K = 8
const SIM_ALPHA = 3
/** kad-dht's own look-up of itself is left to ours (`joinDht`, and the host's care of its table), which find all where it finds a few. */
const QUERY_SELF_MS = 300_000
/** The first connection of a node comes within this, or it never does. */
const CONNECT_TIMEOUT_MS = 120_000
const CONNECT_LOOK_MS = 10
const ASK_AGAIN_MS = 3_000

/** One of the product's own nodes with an agent. */
export interface SimNode {
  readonly index: number
  readonly node: RookeryNode
  readonly agent: HostedAgent
  readonly traffic: Traffic
  readonly level: MemoryLevel<string, Uint8Array>
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
  /** what it joins; without one it listens on QUIC at loopback */
  network?: DirectNetwork | undefined
  /** kept over a restart; by default one of its own */
  level?: MemoryLevel<string, Uint8Array>
  /** of routing: k peers for each number of shared bits, or (where attacks are judged) the product's own, which holds everyone of a small network */
  table?: 'by-prefix' | 'every-bucket' | undefined
  /** how its agent is reached; by default always */
  reachability?: { mode: ReachabilityMode; window?: WindowInput | undefined } | undefined
  /** over what every node has */
  parts?: NodeParts | undefined
}

export function newLevel(): MemoryLevel<string, Uint8Array> {
  return new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' })
}

/** Keys follow from seed and index; nothing is written to disk. */
export async function bootNode(init: BootInit): Promise<SimNode> {
  const { index, seed, bootstrap, signal, nodeSeed, network, reachability, parts, clock = systemClock, table = 'by-prefix' } = init
  const traffic = new Traffic()
  const level = init.level ?? parts?.level ?? newLevel()
  const agentSeed = derivedBytes(seed, 'agent-key', index)
  const node = await createNode(
    {
      bootstrap: [...bootstrap],
      registrarsMax: SIM_K,
      dht: { k: SIM_K, alpha: SIM_ALPHA, disjointPaths: 1 },
      http: { enabled: false },
      grants: { peers: 'anyone' },
      logs: { level: 'silent' },
      ...(network === undefined ? { listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] } : {}),
      ...parts?.config
    },
    {
      level,
      nodeSeed: nodeSeed ?? derivedBytes(seed, 'node-key', index),
      clock,
      random: derivedRandom(seed, 'random', index),
      ...(network === undefined ? { transport: 'quic' } : { transport: 'memory', memoryTransport: directTransport(network, index) }),
      http: 'off',
      dht: table === 'by-prefix' ? { table, initialQuerySelfIntervalMs: QUERY_SELF_MS } : {},
      locators: 'on-demand',
      records: 'leave',
      traffic,
      signal,
      ...parts?.overrides
    }
  )
  // agents live in files, of which a node in memory has none: one that starts again is given its own anew
  const agent = await node.addAgent({ name: 'agent', seed: agentSeed, ...reachability }).catch(async (error: unknown) => {
    await node.stop()
    throw error
  })
  return { index, node, agent, traffic, level, bootstrapAddrs: node.host.addresses().map((addr) => `${addr}/p2p/${node.peer}`) }
}

/**
 * Waits until it is connected, then looks itself up, by which it learns of its neighbours and they of it: Kademlia's join. Where the machine is so busy
 * that a first ping was given up, it asks those again that it is connected with.
 * @throws RookeryError `SIM_NOT_CONNECTED`; or the signal's reason
 */
export async function joinDht({ node, index }: SimNode, signal: AbortSignal): Promise<void> {
  const { dht } = node.host
  const own = peerIdFromString(node.peer).toMultihash().bytes
  const startedMs = systemClock.monotonicMs()
  let askedMs = startedMs
  while (dht.routingTableSize() === 0) {
    const nowMs = systemClock.monotonicMs()
    if (nowMs - startedMs > CONNECT_TIMEOUT_MS) {
      throw new RookeryError('SIM_NOT_CONNECTED', `node ${index} met nobody within ${CONNECT_TIMEOUT_MS} ms`, { kind: 'timeout' })
    }
    if (nowMs - askedMs > ASK_AGAIN_MS && node.host.peers().length > 0) {
      await dht.takeInConnected({ signal })
      askedMs = systemClock.monotonicMs()
    }
    await systemClock.sleep(CONNECT_LOOK_MS, { signal })
  }
  await dht.closestPeers(own, { signal })
}
