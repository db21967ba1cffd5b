import { RookeryError } from '../../src/errors.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { drawDistinct } from '../scenarios/draw.ts'
import { type BootInit, bootNode, joinDht, SIM_K, type SimNode } from './boot-node.ts'
import { eachOf } from './each-of.ts'
import { derivedRandom } from './seeds.ts'

/** Nodes that start and join at the same time */
const BOOT_AT_ONCE = 8
const STOP_AT_ONCE = 16
/** Nodes that a new one knows of: the first, and two more, so that not all lean on one. */
const BOOTSTRAP_OTHERS = 2
const SETTLE_LOOK_MS = 100
const SETTLE_TIMEOUT_MS = 60_000
/** A node that still knows too few looks itself up again this often. */
const LOOK_UP_AGAIN_MS = 1_000

export interface RealEngineInit {
  nodes: number
  seed: number
  signal: AbortSignal
}

/** Real nodes in this process, each the product's own, on the memory transport. */
export class RealEngine {
  readonly nodes: SimNode[] = []
  readonly #init: RealEngineInit

  constructor(init: RealEngineInit) {
    this.#init = init
  }

  /**
   * The first node alone, then the others some at a time, each through nodes that run already.
   * @param step - called when one more has joined
   * @throws RookeryError `SIM_NOT_CONNECTED`; what a node's start throws; or the signal's reason
   */
  async boot(step: () => void): Promise<void> {
    const { nodes, seed, signal } = this.#init
    const random = derivedRandom(seed, 'bootstrap')
    const joined: SimNode[] = []
    const start = async (index: number, through: readonly SimNode[]): Promise<SimNode> => {
      signal.throwIfAborted()
      const bootstrap = through.flatMap((other) => other.bootstrapAddrs)
      const node = await bootNode({ index, seed, bootstrap, signal })
      this.nodes.push(node)
      return node
    }
    const first = await start(0, [])
    joined.push(first)
    step()
    await eachOf(indices(1, nodes), BOOT_AT_ONCE, async (index) => {
      const node = await start(index, [first, ...drawDistinct(random, joined.slice(1), BOOTSTRAP_OTHERS)])
      await joinDht(node, signal)
      joined.push(node)
      step()
    })
    this.nodes.sort((a, b) => a.index - b.index)
  }

  /**
   * Resolves when every node's routing table holds k others, or all there are.
   * @throws RookeryError `SIM_NOT_SETTLED`; or the signal's reason
   */
  async settle(progress: (settled: number) => void): Promise<void> {
    const { nodes, signal } = this.#init
    const wanted = Math.min(SIM_K, nodes - 1)
    const startedMs = systemClock.monotonicMs()
    let lookedUpMs = startedMs
    for (;;) {
      const lacking = this.nodes.filter(({ node }) => node.host.dht.routingTableSize() < wanted)
      progress(nodes - lacking.length)
      if (lacking.length === 0) return
      const nowMs = systemClock.monotonicMs()
      if (nowMs - startedMs > SETTLE_TIMEOUT_MS) {
        throw new RookeryError('SIM_NOT_SETTLED', `${lacking.length} of ${nodes} nodes know fewer than ${wanted} others`, {
          kind: 'timeout',
          remedy: 'run fewer nodes, or use a machine with more time to spare'
        })
      }
      if (nowMs - lookedUpMs > LOOK_UP_AGAIN_MS) {
        lookedUpMs = nowMs
        await eachOf(lacking, BOOT_AT_ONCE, (node) => joinDht(node, signal))
      }
      await systemClock.sleep(SETTLE_LOOK_MS, { signal })
    }
  }

  /** More nodes, with host keys of one's own choice, once the others run; they join through nodes that do. */
  async add(seeds: readonly Uint8Array[], more: Pick<BootInit, 'clock'> = {}): Promise<SimNode[]> {
    const { seed, signal } = this.#init
    const through = drawDistinct(derivedRandom(seed, 'bootstrap-later'), this.nodes, 1 + BOOTSTRAP_OTHERS)
    const bootstrap = through.flatMap((other) => other.bootstrapAddrs)
    const first = this.nodes.length
    const added: SimNode[] = []
    await eachOf([...seeds.entries()], BOOT_AT_ONCE, async ([i, nodeSeed]) => {
      const node = await bootNode({ index: first + i, seed, bootstrap, signal, nodeSeed, ...more })
      this.nodes.push(node)
      added.push(node)
      await joinDht(node, signal)
    })
    return added
  }

  node(index: number): SimNode {
    const node = this.nodes[index]
    if (node === undefined) throw new TypeError(`there is no node ${index}`)
    return node
  }

  async stop(step: () => void = () => {}): Promise<void> {
    await eachOf(this.nodes.splice(0), STOP_AT_ONCE, async ({ node }) => {
      await node.stop()
      step()
    })
  }
}

function indices(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i)
}
