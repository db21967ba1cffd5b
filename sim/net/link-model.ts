import { type Random, randomFraction } from '../../src/platform/random.ts'
import type { Definition } from '../scenario/definition.ts'
import type { PlannedNode } from '../scenario/events.ts'
import { BANDWIDTH, ROUND_TRIP_MS } from './latency.ts'

/** QUIC and TCP wait at least this long before they send a lost packet again. */
const RETRANSMIT_MIN_MS = 25
const PACKET_BYTES = 1_200

const SOMEWHERE: PlannedNode = {
  index: -1,
  region: 'europe',
  group: { group: 'nodes', count: 1, region: 'europe', behaviour: 'honest', reachability: 'always_on', hardware: 'server', nat: 'none' }
}

export const NO_DELAYS: Definition['network'] = { latency: 'none', jitter: 0, loss: 0, bandwidth: false, partitions: [] }

/** What lies between nodes: how long bytes take, and who reaches whom. Both engines ask the same one. */
export class LinkModel {
  readonly #nodes: readonly PlannedNode[]
  readonly #network: Definition['network']
  readonly #random: Random
  /** island of each node; undefined: no partition */
  #islands: Map<number, number> | undefined
  /** ordered pairs for which a NAT has a hole */
  readonly #holes = new Set<number>()
  readonly #hasNats: boolean
  readonly #cuts = new Set<() => void>()

  constructor(nodes: readonly PlannedNode[], network: Definition['network'], random: Random) {
    this.#nodes = nodes
    this.#network = network
    this.#random = random
    this.#hasNats = nodes.some(({ group }) => group.nat !== 'none')
  }

  /** Nodes that no plan knew (an attacker's later ones) are where the first is. */
  #node(index: number): PlannedNode {
    return this.#nodes[index] ?? this.#nodes[0] ?? SOMEWHERE
  }

  /** whether any message takes time at all */
  get isInstant(): boolean {
    const { latency, bandwidth } = this.#network
    return latency === 'none' && !bandwidth
  }

  /** The median one-way time, without jitter, loss and size. */
  medianMs(from: number, to: number): number {
    const { latency } = this.#network
    if (latency === 'none') return 0
    return typeof latency === 'number' ? latency : ROUND_TRIP_MS[this.#node(from).region][this.#node(to).region] / 2
  }

  /** One way for so many bytes; lost packets come as the delay of sending them again. Draws. */
  delayMs(from: number, to: number, bytes: number): number {
    const { jitter, loss, bandwidth } = this.#network
    const median = this.medianMs(from, to)
    let ms = median
    if (jitter > 0 && median > 0) ms += median * jitter * (2 * randomFraction(this.#random) - 1)
    if (loss > 0) {
      const arrivesAll = (1 - loss) ** Math.ceil(bytes / PACKET_BYTES)
      for (let waitMs = RETRANSMIT_MIN_MS + 2 * median; randomFraction(this.#random) > arrivesAll && waitMs < 60_000; waitMs *= 2)
        ms += waitMs
    }
    if (bandwidth)
      ms += (bytes * 1_000) / Math.min(BANDWIDTH[this.#node(from).group.hardware].up, BANDWIDTH[this.#node(to).group.hardware].down)
    return ms
  }

  /** Whether packets pass at all. */
  reaches(from: number, to: number): boolean {
    if (this.#islands === undefined) return true
    const a = this.#islands.get(from)
    const b = this.#islands.get(to)
    return a === undefined || b === undefined || a === b
  }

  /**
   * Whether a new connection comes about. A NAT lets in whom its node has called; a cone NAT also who both call at once by way of somebody that both
   * know, which a symmetric one does not.
   */
  mayDial(from: number, to: number): boolean {
    if (!this.reaches(from, to)) return false
    const nat = this.#node(to).group.nat
    if (this.#hasNats) this.#holes.add(from * 2 ** 21 + to)
    if (nat === 'none' || this.#holes.has(to * 2 ** 21 + from)) return true
    return nat === 'cone' && this.#node(from).group.nat !== 'symmetric'
  }

  partition(islands: readonly (readonly number[])[]): void {
    this.#islands = new Map(islands.flatMap((nodes, island) => nodes.map((node): [number, number] => [node, island])))
    for (const cut of [...this.#cuts]) cut()
  }

  heal(): void {
    this.#islands = undefined
  }

  /** Told when connections may have been cut. */
  onPartition(listener: () => void): () => void {
    this.#cuts.add(listener)
    return () => this.#cuts.delete(listener)
  }
}
