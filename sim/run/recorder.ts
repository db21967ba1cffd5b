import type { SimAction } from '../scenario/events.ts'
import type { Measured } from './measured.ts'

/** Points of one curve, at most; a longer run gets wider steps. */
const POINTS_MAX = 240
/** Nodes and lines of one picture of the network, at most */
const TOPOLOGY_NODES_MAX = 400
/** more would fill the ring until nothing can be told apart */
const TOPOLOGY_EDGES_MAX = 1_000

/** One step of time: what began in it and how it ended, what woke, what waited. */
export interface SeriesPoint {
  atMs: number
  ok: number
  failed: number
  woke: number
  /** messages in all asleep queues at its end, and in the longest; the highest value of the step */
  queued: number
  queuedMost: number
}

export interface Topology {
  atMs: number
  label: string
  nodes: { index: number; region: string; state: 'up' | 'down' | 'asleep' | 'hostile' }[]
  edges: [number, number][]
  /** of the network, where the picture holds a part */
  ofNodes: number
  /** between the nodes shown, where it holds some of them, spread evenly */
  ofEdges: number
}

/** What came of one action; latencies where it went well. */
export interface Outcome {
  action: SimAction
  /** undefined: it went well */
  error?: { code: string; message: string }
  latencyMs?: number
  hops?: number
  membersFound?: number
  handshakeMs?: number
  roundTripMs?: number
}

/** Figures of a run in either engine, by kind and over time. */
export class Recorder {
  readonly measured: Measured = {
    join: { wanted: 0, latenciesMs: [] },
    discovery: { wanted: 0, members: 0, latenciesMs: [], hops: [], membersFound: [] },
    sessions: { wanted: 0, opened: 0, handshakesMs: [], roundTripsMs: [] },
    sends: { wanted: 0, acked: 0, latenciesMs: [] }
  }
  readonly topologies: Topology[] = []
  /** wakes by second of the period, for the picture of the storm */
  readonly wakesBySecond = new Map<number, number>()
  readonly #steps = new Map<number, SeriesPoint>()
  #stepMs: number
  /** steps in which somebody looked at the queues */
  readonly #looked = new Set<SeriesPoint>()
  #counts = new Map<string, { ok: number; failed: number }>()

  /** @param expectedMs - how long the run is meant to take; decides the step of the curves */
  constructor(expectedMs = 60_000) {
    this.#stepMs = Math.max(100, Math.ceil(expectedMs / POINTS_MAX / 100) * 100)
  }

  get stepMs(): number {
    return this.#stepMs
  }

  #at(atMs: number): SeriesPoint {
    const step = Math.floor(atMs / this.#stepMs)
    let point = this.#steps.get(step)
    if (point === undefined) {
      if (this.#steps.size >= POINTS_MAX * 2) this.#widen()
      point = { atMs: Math.floor(atMs / this.#stepMs) * this.#stepMs, ok: 0, failed: 0, woke: 0, queued: 0, queuedMost: 0 }
      this.#steps.set(Math.floor(atMs / this.#stepMs), point)
    }
    return point
  }

  #widen(): void {
    this.#stepMs *= 2
    const old = [...this.#steps.values()]
    this.#steps.clear()
    for (const one of old) {
      const point = this.#at(one.atMs)
      if (this.#looked.delete(one)) this.#looked.add(point)
      point.ok += one.ok
      point.failed += one.failed
      point.woke += one.woke
      point.queued = Math.max(point.queued, one.queued)
      point.queuedMost = Math.max(point.queuedMost, one.queuedMost)
    }
  }

  /** An action is about to be tried. */
  wanted({ do: verb }: SimAction): void {
    const { join, discovery, sessions, sends } = this.measured
    if (verb === 'join') join.wanted++
    else if (verb === 'discover') discovery.wanted++
    else if (verb === 'openSession') sessions.wanted++
    else if (verb === 'send' && sends !== undefined) sends.wanted++
  }

  done(outcome: Outcome, atMs: number): void {
    const { action, error } = outcome
    const point = this.#at(atMs)
    const count = this.#counts.get(action.do) ?? { ok: 0, failed: 0 }
    this.#counts.set(action.do, count)
    if (error !== undefined) {
      point.failed++
      count.failed++
      return
    }
    point.ok++
    count.ok++
    const { join, discovery, sessions, sends } = this.measured
    const latency = outcome.latencyMs ?? 0
    if (action.do === 'join') join.latenciesMs.push(latency)
    else if (action.do === 'discover') {
      discovery.latenciesMs.push(latency)
      if (outcome.hops !== undefined) discovery.hops.push(outcome.hops)
      discovery.membersFound.push(outcome.membersFound ?? 0)
    } else if (action.do === 'openSession') {
      sessions.opened++
      if (outcome.handshakeMs !== undefined) sessions.handshakesMs.push(outcome.handshakeMs)
      if (outcome.roundTripMs !== undefined) sessions.roundTripsMs.push(outcome.roundTripMs)
    } else if (action.do === 'send' && sends !== undefined) {
      sends.acked++
      sends.latenciesMs.push(latency)
    }
  }

  /** @param secondOfPeriod - of a node that woke by itself; undefined: it was woken */
  woke(atMs: number, secondOfPeriod?: number): void {
    this.#at(atMs).woke++
    if (secondOfPeriod === undefined) return
    this.wakesBySecond.set(secondOfPeriod, (this.wakesBySecond.get(secondOfPeriod) ?? 0) + 1)
  }

  queued(atMs: number, all: number, most: number): void {
    const point = this.#at(atMs)
    this.#looked.add(point)
    point.queued = Math.max(point.queued, all)
    point.queuedMost = Math.max(point.queuedMost, most)
  }

  /** A picture; of a large network the first nodes and what is between them. */
  drew(topology: Omit<Topology, 'ofNodes' | 'ofEdges'>): void {
    const nodes = topology.nodes.slice(0, TOPOLOGY_NODES_MAX)
    const shown = new Set(nodes.map(({ index }) => index))
    const all = topology.edges.filter(([a, b]) => shown.has(a) && shown.has(b))
    const step = Math.max(1, all.length / TOPOLOGY_EDGES_MAX)
    const edges = Array.from({ length: Math.min(all.length, TOPOLOGY_EDGES_MAX) }, (_, i) => all[Math.floor(i * step)] as [number, number])
    this.topologies.push({ ...topology, nodes, edges, ofNodes: topology.nodes.length, ofEdges: all.length })
  }

  /** In order of time. Between two looks at the queues they hold what they held at the first. */
  series(): SeriesPoint[] {
    let queues = { queued: 0, queuedMost: 0 }
    return [...this.#steps.values()]
      .sort((a, b) => a.atMs - b.atMs)
      .map((point) => {
        if (!this.#looked.has(point)) return { ...point, ...queues }
        queues = { queued: point.queued, queuedMost: point.queuedMost }
        return point
      })
  }

  counts(): Record<string, { ok: number; failed: number }> {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)))
  }
}
