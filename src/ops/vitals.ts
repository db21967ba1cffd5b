import { type EventLoopUtilization, monitorEventLoopDelay, performance } from 'node:perf_hooks'
import type { Traffic } from '../net/traffic.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { TODO_STATES } from '../tasks/states.ts'
import type { TodoState } from '../tasks/todo.ts'

/** Two readings closer than this share one measurement of the process. */
const MEASURE_MS_MIN = 500
const NANOS = 1e6

/** What the process costs, measured since the reading before. */
export interface ProcessVitals {
  memory: { rssBytes: number; heapUsedBytes: number; heapTotalBytes: number }
  /** share of one core, 0 to 1 and more where several work */
  cpu: number
  /** how late timers were, ms, and the share of the time that JavaScript ran */
  eventLoop: { meanMs: number; p99Ms: number; maxMs: number; utilization: number }
}

/** The node at a moment. Totals count since the start; a rate is the difference of two readings over their `monotonicMs`. */
export interface NodeVitals extends ProcessVitals {
  atMs: number
  monotonicMs: number
  uptimeMs: number
  peers: number
  routingTableSize: number
  sessions: { live: number; disconnected: number }
  tasks: { byState: Record<TodoState, number>; created: number; ended: number }
  queued: { messages: number; bytes: number }
  outbox: { messages: number; waiting: number; bytes: number }
  /** absent where traffic is not counted */
  sent?: { messages: number; bytes: number }
}

/** Reads how the node and its process are. Counting costs an addition a commit; the process is measured when somebody asks. */
export class Vitals {
  readonly #node: RookeryNode
  readonly #traffic: Traffic | undefined
  readonly #delay = monitorEventLoopDelay({ resolution: 20 })
  #created = 0
  #ended = 0
  #last: { atMs: number; cpuMicros: number; loop: EventLoopUtilization; measured: ProcessVitals } | undefined

  constructor(node: RookeryNode, { traffic }: { traffic?: Traffic } = {}) {
    this.#node = node
    this.#traffic = traffic
    this.#delay.enable()
    const off = node.todos.onCommit((_todo, events) => {
      for (const { kind } of events) {
        if (kind === 'created') this.#created++
        else if (kind === 'ended') this.#ended++
      }
    })
    node.closeFirst('vitals', 50, () => {
      off()
      this.#delay.disable()
    })
  }

  async read(): Promise<NodeVitals> {
    const node = this.#node
    const sessions = node.sessions.list()
    const live = sessions.filter(({ state }) => state === 'established').length
    const counts = await Promise.all(TODO_STATES.map((state) => node.todos.count({ state })))
    const queues = await Promise.all(node.agents.list().map((agent) => node.queueUsage(agent)))
    const { messages, waiting, bytes } = node.mail.outbox.usage()
    const sent = this.#traffic?.sent()
    return {
      atMs: node.clock.nowMs(),
      monotonicMs: node.clock.monotonicMs(),
      uptimeMs: node.clock.nowMs() - node.startedAtMs,
      peers: node.host.peers().length,
      routingTableSize: node.host.dht.routingTableSize(),
      sessions: { live, disconnected: sessions.length - live },
      tasks: {
        byState: Object.fromEntries(TODO_STATES.map((state, i) => [state, counts[i] ?? 0])) as Record<TodoState, number>,
        created: this.#created,
        ended: this.#ended
      },
      queued: { messages: sum(queues.map((one) => one.messages)), bytes: sum(queues.map((one) => one.bytes)) },
      outbox: { messages, waiting, bytes },
      ...(sent === undefined ? {} : { sent: { messages: sum(sent.map((one) => one.messages)), bytes: sum(sent.map((one) => one.bytes)) } }),
      ...this.#process()
    }
  }

  #process(): ProcessVitals {
    const nowMs = this.#node.clock.monotonicMs()
    const before = this.#last
    if (before !== undefined && nowMs - before.atMs < MEASURE_MS_MIN) return before.measured
    const { user, system } = process.cpuUsage()
    const cpuMicros = user + system
    const loop = performance.eventLoopUtilization()
    const share = before === undefined ? loop : performance.eventLoopUtilization(loop, before.loop)
    const { rss, heapUsed, heapTotal } = process.memoryUsage()
    const late = (nanos: number) => (Number.isFinite(nanos) ? Math.max(0, Math.round((nanos / NANOS - 20) * 10) / 10) : 0)
    const measured: ProcessVitals = {
      memory: { rssBytes: rss, heapUsedBytes: heapUsed, heapTotalBytes: heapTotal },
      cpu: before === undefined ? 0 : rounded((cpuMicros - before.cpuMicros) / 1_000 / (nowMs - before.atMs)),
      eventLoop: {
        meanMs: this.#delay.count === 0 ? 0 : late(this.#delay.mean),
        p99Ms: this.#delay.count === 0 ? 0 : late(this.#delay.percentile(99)),
        maxMs: this.#delay.count === 0 ? 0 : late(this.#delay.max),
        utilization: rounded(share.utilization)
      }
    }
    this.#delay.reset()
    this.#last = { atMs: nowMs, cpuMicros, loop, measured }
    return measured
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0)
}

function rounded(share: number): number {
  return Math.round(share * 1_000) / 1_000
}
