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
/** Nodes that a new one knows of, drawn, so that not all lean on the same: a node refuses whoever comes when it has its most connections. */
const BOOTSTRAP_THROUGH = 3
const SETTLE_LOOK_MS = 100
const SETTLE_TIMEOUT_MS = 180_000
/** By then a node that has just met its first peer has looked itself up again. */
const LAST_LOOK_UP_MS = 2_000
/** A node that still knows too few looks itself up again this often. */
const LOOK_UP_AGAIN_MS = 1_000

export interface RealEngineInit {
  nodes: number
  seed: number
  signal: AbortSignal
  /** what lies between the nodes; by default nothing takes time. `quic`: real connections at loopback */
  network?: DirectNetwork | 'quic'
  clock?: Clock
  /** between two starts: in virtual time all of them would otherwise come at one instant */
  bootEachMs?: number
  /** of a network over several threads: which nodes are this one's, and where any of them listens */
  share?: { indices: readonly number[]; addressOf(index: number): string }
  table?: BootInit['table']
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
    const { nodes, seed, signal, share, bootEachMs = 0 } = this.#init
    const random = derivedRandom(seed, 'bootstrap')
    if (share === undefined) {
      await this.bootFirst()
      step()
    }
    const joined: SimNode[] = [...this.nodes]
    const startedMs = systemClock.monotonicMs()
    const underWay = share === undefined ? 0 : BOOT_AT_ONCE * Math.ceil(nodes / Math.max(1, share.indices.length))
    await eachOf(share?.indices.filter((index) => index > 0) ?? indices(1, nodes), BOOT_AT_ONCE, async (index) => {
      signal.throwIfAborted()
      const waitMs = startedMs + index * bootEachMs - systemClock.monotonicMs()
      if (bootEachMs > 0 && waitMs > 0) await systemClock.sleep(waitMs, { signal })
      const through =
        share === undefined
          ? drawDistinct(random, joined, BOOTSTRAP_THROUGH).flatMap((other) => other.bootstrapAddrs)
          : // those of the first half are up by then, in whichever thread, but for those that start at the same time
            drawDistinct(random, indices(0, Math.max(1, Math.min(Math.ceil(index / 2), index - underWay))), BOOTSTRAP_THROUGH).map(
              (other) => share.addressOf(other)
            )
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
    const { nodes, signal, bootEachMs = 0 } = this.#init
    // in virtual time no time has passed since the last one came: it still looks itself up once more (`src/net/table-care.ts`)
    if (bootEachMs > 0) await systemClock.sleep(LAST_LOOK_UP_MS, { signal })
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
        await eachOf(lacking, BOOT_AT_ONCE, async (sim) => {
          await joinDht(sim, signal)
          // a first ping that came too late on a busy machine keeps a peer out of the table that is connected all the time
          await sim.node.host.dht.takeInConnected({ signal })
        })
      }
      await systemClock.sleep(SETTLE_LOOK_MS, { signal })
    }
  }

  /** More nodes, with host keys of one's own choice, once the others run; they join through nodes that do. */
  async add(seeds: readonly Uint8Array[], more: Pick<BootInit, 'clock'> = {}): Promise<SimNode[]> {
    const { seed, signal } = this.#init
    const through = drawDistinct(derivedRandom(seed, 'bootstrap-later'), this.nodes, BOOTSTRAP_THROUGH)
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
    const { seed, signal, reachability, seams, table } = this.#init
    const clock = this.#init.clock ?? seams?.clock
    return bootNode({
      index,
      seed,
      signal,
      network: this.network,
      table,
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
    const through = drawDistinct(derivedRandom(seed, 'bootstrap-again', index), up, BOOTSTRAP_THROUGH)
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
