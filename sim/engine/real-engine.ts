import { RookeryError } from '../../src/errors.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { DirectNetwork } from '../net/direct-network.ts'
import { LinkModel, NO_DELAYS } from '../net/link-model.ts'
import { type BootInit, bootNode, joinDht, SIM_K, type SimNode } from './boot-node.ts'
import { drawDistinct } from './draw.ts'
import { eachOf } from './each-of.ts'
import type { Seams } from './seams.ts'
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
  /** what lies between the nodes; by default nothing takes time. `quic`: real connections at loopback */
  network?: DirectNetwork | 'quic'
  clock?: Clock
  /** of a network over several threads: which nodes are this one's, and where any of them listens */
  share?: { indices: readonly number[]; addressOf(index: number): string }
  /** how the agent of each node is reached */
  reachability?: (index: number) => BootInit['reachability']
  seams?: Seams | undefined
}

/** Real nodes in this process, each the product's own, on the memory transport. */
export class RealEngine {
  readonly nodes: SimNode[] = []
  /** nodes that were killed, with the end of their stop */
  readonly #down = new Map<number, Promise<void>>()
  readonly network: DirectNetwork | undefined
  readonly #init: RealEngineInit

  constructor(init: RealEngineInit) {
    this.#init = init
    this.network =
      init.network === 'quic'
        ? undefined
        : (init.network ?? new DirectNetwork(new LinkModel([], NO_DELAYS, derivedRandom(init.seed, 'links'))))
  }

  /**
   * The first node alone, then the others some at a time, each through nodes that run already.
   * @param step - called when one more has joined
   * @throws RookeryError `SIM_NOT_CONNECTED`; what a node's start throws; or the signal's reason
   */
  async boot(step: () => void): Promise<void> {
    const { nodes, seed, signal, share } = this.#init
    const random = derivedRandom(seed, 'bootstrap')
    if (share === undefined) {
      await this.bootFirst()
      step()
    }
    const joined: SimNode[] = [...this.nodes]
    await eachOf(share?.indices.filter((index) => index > 0) ?? indices(1, nodes), BOOT_AT_ONCE, async (index) => {
      signal.throwIfAborted()
      const through =
        share === undefined
          ? [this.node(0), ...drawDistinct(random, joined.slice(1), BOOTSTRAP_OTHERS)].flatMap((other) => other.bootstrapAddrs)
          : // those of the first half are up by then, in whichever thread
            [0, ...drawDistinct(random, indices(1, Math.floor(index / 2)), BOOTSTRAP_OTHERS)].map((other) => share.addressOf(other))
      const node = await this.#boot(index, { bootstrap: through })
      this.nodes.push(node)
      await joinDht(node, signal)
      joined.push(node)
      step()
    })
    this.nodes.sort((a, b) => a.index - b.index)
  }

  /** The node that all others begin with. */
  async bootFirst(): Promise<void> {
    this.nodes.push(await this.#boot(0, { bootstrap: [] }))
  }

  /**
   * Resolves when every node's routing table holds k others, or all there are.
   * @throws RookeryError `SIM_NOT_SETTLED`; or the signal's reason
   */
  async settle(progress: (settled: number) => void): Promise<void> {
    const { nodes, signal } = this.#init
    const wanted = Math.min(SIM_K, nodes - 1)
    const all = this.nodes.length
    const startedMs = systemClock.monotonicMs()
    let lookedUpMs = startedMs
    for (;;) {
      const lacking = this.nodes.filter(({ node }) => node.host.dht.routingTableSize() < wanted)
      progress(all - lacking.length)
      if (lacking.length === 0) return
      const nowMs = systemClock.monotonicMs()
      if (nowMs - startedMs > SETTLE_TIMEOUT_MS) {
        throw new RookeryError('SIM_NOT_SETTLED', `${lacking.length} of ${all} nodes know fewer than ${wanted} others`, {
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
      const node = await this.#boot(first + i, { bootstrap, nodeSeed, ...more })
      this.nodes.push(node)
      added.push(node)
      await joinDht(node, signal)
    })
    return added
  }

  #boot(index: number, more: Pick<BootInit, 'bootstrap' | 'nodeSeed' | 'clock' | 'level'>): Promise<SimNode> {
    const { seed, signal, reachability, seams } = this.#init
    const clock = this.#init.clock ?? seams?.clock
    return bootNode({
      index,
      seed,
      signal,
      network: this.network,
      ...(clock === undefined ? {} : { clock }),
      reachability: reachability?.(index),
      parts: seams?.parts?.(index),
      ...more
    })
  }

  /** Ends a node without a word to anyone; its disk stays. */
  async kill(index: number): Promise<void> {
    const sim = this.node(index)
    if (this.#down.has(index)) return
    const stopped = sim.node.stop()
    this.#down.set(index, stopped)
    await stopped
  }

  /** Starts it again on the same disk, through nodes that run. */
  async restart(index: number): Promise<SimNode> {
    const before = this.node(index)
    const stopped = this.#down.get(index)
    if (stopped === undefined) return before
    // nobody opens a disk that the life before has not let go of
    await stopped
    await before.level.close()
    await before.level.open()
    const { seed, signal } = this.#init
    const up = this.nodes.filter((other) => other.index !== index && !this.#down.has(other.index))
    const through = drawDistinct(derivedRandom(seed, 'bootstrap-again', index), up, 1 + BOOTSTRAP_OTHERS)
    const sim = await this.#boot(index, { bootstrap: through.flatMap((other) => other.bootstrapAddrs), level: before.level })
    this.nodes[this.nodes.indexOf(before)] = sim
    this.#down.delete(index)
    await joinDht(sim, signal)
    return sim
  }

  isUp(index: number): boolean {
    return !this.#down.has(index)
  }

  node(index: number): SimNode {
    const node = this.nodes[index]?.index === index ? this.nodes[index] : this.nodes.find((one) => one.index === index)
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
