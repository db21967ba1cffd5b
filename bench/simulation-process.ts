/** One size of one kind of network in a process of its own, for simulation.bench.ts: prints its figures as JSON. */
import { yamux } from '@chainsafe/libp2p-yamux'
import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { identify } from '@libp2p/identify'
import { kadDHT, passthroughMapper } from '@libp2p/kad-dht'
import { memory } from '@libp2p/memory'
import { ping } from '@libp2p/ping'
import { plaintext } from '@libp2p/plaintext'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import { SIM_K } from '../sim/engine/boot-node.ts'
import { eachOf } from '../sim/engine/each-of.ts'
import { leanHeap } from '../sim/engine/lean-heap.ts'
import { derivedBytes } from '../sim/engine/seeds.ts'
import { LocalPool } from '../sim/run/local-pool.ts'
import type { NodePool } from '../sim/run/node-pool.ts'
import { ThreadPool } from '../sim/run/thread-pool.ts'
import { runScenario } from '../sim/run-scenario.ts'
import { planOf } from '../sim/scenario/plan.ts'
import { loadScenario } from '../sim/scenario/shipped.ts'

const [kind, count = '100'] = process.argv.slice(2)
const nodes = Number(count)
const SEED = 1
const AT_ONCE = 8
const UNBOUNDED = 1_000_000

/**
 * Nodes of plain libp2p on its own memory transport: identify, ping and Kademlia, and nothing of ours. They have what many nodes in one process need: the
 * same k, alpha and paths as ours, no monitor of connections, and no bound on how fast others may call.
 */
async function plainNodes(): Promise<void> {
  const started: Libp2p[] = []
  const addressOf = (node: Libp2p) => `${node.getMultiaddrs()[0]}`
  const start = async (index: number) => {
    const privateKey = await generateKeyPairFromSeed('Ed25519', derivedBytes(SEED, 'node-key', index))
    const through =
      started.length === 0
        ? []
        : [started[0], started[Math.floor(started.length / 2)], started.at(-1)].map((node) => addressOf(node as Libp2p))
    const node = await createLibp2p({
      privateKey,
      addresses: { listen: [`/memory/${index}`] },
      transports: [memory()],
      connectionEncrypters: [plaintext()],
      streamMuxers: [yamux({ enableKeepAlive: false })],
      connectionGater: { denyDialMultiaddr: () => false },
      connectionMonitor: { enabled: false },
      connectionManager: { maxConnections: nodes, inboundConnectionThreshold: UNBOUNDED, maxIncomingPendingConnections: UNBOUNDED },
      services: {
        identify: identify(),
        ping: ping(),
        dht: kadDHT({
          protocol: '/plain/kad/1.0.0',
          kBucketSize: SIM_K,
          alpha: 3,
          disjointPaths: 1,
          clientMode: false,
          allowQueryWithZeroPeers: true,
          peerInfoMapper: passthroughMapper
        })
      }
    })
    started.push(node as never)
    const { dht } = node.services as unknown as {
      dht: { routingTable: { size: number }; getClosestPeers(key: Uint8Array): AsyncIterable<unknown> }
    }
    for (const address of new Set(through)) await node.dial(multiaddr(address))
    while (index > 0 && dht.routingTable.size === 0) await new Promise((resolve) => setTimeout(resolve, 10))
    if (index > 0) for await (const _found of dht.getClosestPeers(node.peerId.toMultihash().bytes));
  }
  await start(0)
  await eachOf(
    Array.from({ length: nodes - 1 }, (_, i) => i + 1),
    AT_ONCE,
    start
  )
}

async function ourNodes(threads: number): Promise<void> {
  const definition = loadScenario('first-contact')
  const signal = new AbortController().signal
  const plan = planOf(definition, nodes, SEED)
  const pool: NodePool =
    threads === 1
      ? new LocalPool({ nodes, seed: SEED, signal })
      : new ThreadPool({ nodes, seed: SEED, threads, plan, network: definition.network, signal })
  await pool.boot(() => {})
  await pool.settle(() => {})
}

leanHeap()
const cpuSince = process.cpuUsage()
const startedMs = performance.now()
let extra = {}
if (kind === 'plain') await plainNodes()
else if (kind === 'model') {
  const { model } = await runScenario('internet', { nodes })
  extra = { events: model?.events, simulatedMs: model?.simulatedMs }
} else await ourNodes(kind === 'threads' ? 2 : 1)
const { user, system } = process.cpuUsage(cpuSince)
const rssBytes = process.memoryUsage.rss()
console.log(JSON.stringify({ kind, nodes, wallMs: performance.now() - startedMs, cpuMs: (user + system) / 1_000, rssBytes, ...extra }))
process.exit(0)
