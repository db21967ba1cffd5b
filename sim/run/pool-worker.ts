import { parentPort, workerData } from 'node:worker_threads'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../src/errors.ts'
import { nodeKeyOf } from '../../src/identity/peer-id.ts'
import { leanBuffers } from '../engine/lean-heap.ts'
import { derivedBytes, derivedRandom } from '../engine/seeds.ts'
import { DirectNetwork } from '../net/direct-network.ts'
import { LinkModel } from '../net/link-model.ts'
import { LocalPool } from './local-pool.ts'
import { type PoolCall, type PoolReply, type PoolWorkerData, threadOf } from './pool-calls.ts'
import { reachabilityOf } from './reachability-of.ts'
import { ThreadBridge } from './thread-bridge.ts'

/** One worker of a {@link ThreadPool}: its share of the nodes, and calls from the pool. */
const { thread, threads, nodes, seed, plan, network: settings, ports } = workerData as PoolWorkerData
leanBuffers()
const stopping = new AbortController()
const peers = Array.from({ length: nodes }, (_, index) => nodeKeyOf(derivedBytes(seed, 'node-key', index), nodeCrypto).peer)
const others = new Map(
  peers.flatMap((peer, index) =>
    threadOf(index, threads) === thread ? [] : [[peer, { thread: threadOf(index, threads), index }] as const]
  )
)
const network = new DirectNetwork(new LinkModel(plan.nodes, settings, derivedRandom(seed, 'links', thread)), String(thread))
const bridge = new ThreadBridge(network, new Map(ports.map(({ thread: other, port }) => [other, port])), others)
network.bridge = bridge
const pool = new LocalPool({
  nodes,
  seed,
  signal: stopping.signal,
  network,
  reachability: (index) => reachabilityOf(plan.nodes[index], seed),
  share: {
    indices: peers.map((_, index) => index).filter((index) => threadOf(index, threads) === thread),
    addressOf: (index) => `/memory/${peers[index]}/p2p/${peers[index]}`
  }
})
const calls = new Map<number, AbortController>()
const say = (reply: PoolReply) => parentPort?.postMessage(reply)

async function answer(method: string, args: readonly unknown[], signal: AbortSignal): Promise<unknown> {
  switch (method) {
    case 'bootFirst':
      return await pool.bootFirst()
    case 'boot':
      return await pool.boot(() => say({ progress: 'booted' }))
    case 'settle':
      return await pool.settle((settled) => say({ settled }))
    case 'perform':
      return await pool.perform(args[0] as never, signal)
    case 'partition':
      return await pool.partition(args[0] as never)
    case 'audit':
      return await pool.audit(args[0] as never, signal)
    case 'chains':
      return await pool.chains(args[0] as number[])
    case 'links':
      return await pool.links(args[0] as number)
    case 'sent':
      return (await pool.sent()).map((list, i) => ({ index: pool.engine.nodes[i]?.index ?? 0, list }))
    case 'heapBytes':
      return await pool.heapBytes()
    case 'loop':
      return await pool.loop()
    case 'stop':
      stopping.abort(new Error('the run is over'))
      await pool.stop(() => say({ progress: 'stopped' }))
      return bridge.close()
    default:
      throw new TypeError(`a worker knows no ${method}`)
  }
}

parentPort?.on('message', (call: PoolCall) => {
  if ('cancel' in call) return calls.get(call.cancel)?.abort(new Error('cancelled'))
  const { id, method, args } = call
  const controller = new AbortController()
  calls.set(id, controller)
  answer(method, args, controller.signal)
    .then(
      (result) => say({ id, result }),
      (error: unknown) =>
        say({
          id,
          error:
            error instanceof RookeryError
              ? { message: error.message, code: error.code, kind: error.kind }
              : { message: error instanceof Error ? error.message : String(error) }
        })
    )
    .finally(() => calls.delete(id))
})
