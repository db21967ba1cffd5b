import type { ProtocolTraffic } from '../../src/net/traffic.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { KeyedLock } from '../../src/platform/keyed-lock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { eachOf } from '../engine/each-of.ts'
import { collectedHeapBytes } from '../engine/lean-heap.ts'
import { LoopWatch } from '../engine/machine-watch.ts'
import { RealEngine, type RealEngineInit } from '../engine/real-engine.ts'
import type { Seams } from '../engine/seams.ts'
import type { Fact } from './facts.ts'
import type { AuditTotal, NodeAction, NodePool } from './node-pool.ts'
import { type Performed, Performer } from './performer.ts'

const AUDITS_AT_ONCE = 16

/** Real nodes in this thread. */
export class LocalPool implements NodePool {
  readonly engine: RealEngine
  readonly #performer: Performer
  readonly #seams: Seams
  readonly #indexByPeer = new Map<string, number>()
  #watch = new LoopWatch()
  readonly #lives = new KeyedLock()
  #looks = 0

  constructor(init: RealEngineInit) {
    this.#seams = init.seams ?? {}
    const clock: Clock = init.clock ?? this.#seams.clock ?? systemClock
    this.engine = new RealEngine(init)
    this.#performer = new Performer({ seed: init.seed, nodes: init.nodes, clock, patienceMs: this.#seams.lastWorkMs })
  }

  async boot(step: () => void): Promise<void> {
    await this.engine.boot(step)
    for (const sim of this.engine.nodes) {
      this.#indexByPeer.set(sim.node.peer, sim.index)
      await this.#prepare(sim)
    }
  }

  async #prepare(sim: SimNode): Promise<void> {
    await this.#seams.onNode?.(sim)
    await this.#performer.prepare(sim)
  }

  bootFirst(): Promise<void> {
    return this.engine.bootFirst()
  }

  settle(progress: (settled: number) => void): Promise<void> {
    return this.engine.settle(progress)
  }

  async perform(action: NodeAction, signal: AbortSignal): Promise<Performed> {
    if (action.do === 'kill' || action.do === 'restart') {
      // on a slow machine the next crash is due before the node is back from the last: one life at a time
      await this.#lives.run(String(action.node), async () => {
        if (action.do === 'kill') await this.engine.kill(action.node)
        else if (!this.engine.isUp(action.node)) await this.#prepare(await this.engine.restart(action.node))
      })
      return { outcome: { action }, facts: [] }
    }
    return await this.#performer.perform(this.engine.node(action.node), action, signal)
  }

  async partition(islands: readonly (readonly number[])[] | undefined): Promise<void> {
    const link = this.engine.network?.link
    if (islands === undefined) link?.heal()
    else link?.partition(islands)
  }

  async audit(awake: 'woken' | 'as-it-is', signal: AbortSignal): Promise<AuditTotal> {
    const total: AuditTotal = { facts: [], queued: 0, queuedMost: 0 }
    const up = this.engine.nodes.filter(({ index }) => this.engine.isUp(index))
    await eachOf(up, AUDITS_AT_ONCE, async (sim) => {
      const { facts, queued } = await this.#performer.audit(sim, awake, signal)
      total.facts.push(...facts)
      total.queued += queued
      total.queuedMost = Math.max(total.queuedMost, queued)
    })
    total.facts.push(...(await this.#probe(up, signal)))
    return total
  }

  /** At each look another node is tried. */
  async #probe(up: readonly SimNode[], signal: AbortSignal): Promise<Fact[]> {
    const target = up[this.#looks++ % Math.max(1, up.length)]
    const caller = up[this.#looks % Math.max(1, up.length)]
    return target === undefined || caller === undefined || target === caller ? [] : await this.#performer.probe(caller, target, signal)
  }

  async chains(nodes: readonly number[]): Promise<Fact[]> {
    return nodes.flatMap((index) => this.#performer.chains({ index }))
  }

  async links(max: number): Promise<[number, number][]> {
    return this.engine.nodes.flatMap(({ index, node }) => {
      if (index >= max || !this.engine.isUp(index)) return []
      return node.host
        .peers()
        .map((peer) => this.#indexByPeer.get(peer) ?? -1)
        .filter((other) => other > index && other < max)
        .map((other): [number, number] => [index, other])
    })
  }

  async sent(): Promise<ProtocolTraffic[][]> {
    return this.engine.nodes.map(({ traffic }) => traffic.sent())
  }

  async heapBytes(): Promise<number> {
    return collectedHeapBytes()
  }

  async loop(): Promise<{ utilization: number; delayP99Ms: number }> {
    const { utilization, delayP99Ms } = this.#watch.figures()
    this.#watch = new LoopWatch()
    return { utilization, delayP99Ms }
  }

  async stop(step: () => void): Promise<void> {
    this.#watch.figures()
    await this.engine.stop(step)
  }
}
