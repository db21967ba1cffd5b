import { Counter, collectDefaultMetrics, Gauge, type Metric, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client'
import { REGISTRY_STATUSES } from '../../protocol/discovery/registry-messages.ts'
import { filesByKind, kindOfTable, STORE_KINDS } from '../care/disk-use.ts'
import { homeOf } from '../identity/agent.ts'
import type { Traffic } from '../net/traffic.ts'
import type { LeveledLogger } from '../platform/pino-logger.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { version } from '../version.ts'
import { boundsOf } from './bounds.ts'
import type { Observed } from './observed.ts'

export interface NodeMetrics {
  /** all metrics in Prometheus' text format */
  text(): Promise<string>
  readonly contentType: string
  /** as values, for who reads them in this process */
  json(): Promise<MetricObjectWithValues<MetricValue<string>>[]>
  /** every metric with the names of its labels, those without a value too */
  facts(): { name: string; help: string; type: string; labels: readonly string[] }[]
}

const STORE_STATES = ['ok', 'full', 'failing', 'down'] as const
const SESSION_STATES = ['established', 'disconnected', 'closing', 'closed'] as const
const TODO_STATES = ['pending', 'claimed', 'input-required', 'auth-required', 'done', 'failed', 'canceled', 'rejected'] as const
const REGISTRY_REFUSALS = REGISTRY_STATUSES.filter((status) => status !== 'ok')
/** Dead letters are counted up to here: a scrape must not read a whole table. */
export const DEAD_LETTERS_COUNTED_MAX = 10_000

export interface NodeMetricsInit {
  /** `included`: also those of this process and of Node.js (`process_*`, `nodejs_*`), once a process */
  process: 'included' | 'left out'
  traffic?: Traffic | undefined
  observed?: Observed | undefined
  logger?: Pick<LeveledLogger, 'lines'> | undefined
}

/**
 * Metrics of a node, read from it when they are asked for (docs/metrics.md). Names end in their unit; label values are of closed sets, and of nothing that a peer or caller
 * wrote: states, doors, templates of routes, methods of our own, protocols that this node speaks, and names of local agents where `ops.agentLabels` says so.
 */
export function nodeMetrics(node: RookeryNode, init: NodeMetricsInit): NodeMetrics {
  const registry = new Registry()
  if (init.process === 'included') collectDefaultMetrics({ register: registry })
  for (const metric of init.observed?.all ?? []) registry.registerMetric(metric as Metric)
  const into = intoRegistry(registry)
  networkMetrics(node, into, init.traffic)
  workMetrics(node, into)
  deliveryMetrics(node, into)
  accessMetrics(node, into)
  storeMetrics(node, into)
  if (node.config.ops.agentLabels) agentMetrics(node, into)
  const { logger, observed } = init
  if (logger !== undefined) {
    into.counter('log_lines', 'lines of the log', ['level'], (it) => {
      for (const [level, count] of Object.entries(logger.lines())) it.inc({ level }, count)
    })
  }
  if (observed !== undefined) {
    into.counter('trace_spans', 'spans of traces that were to be recorded, and what the collector took or did not', ['outcome'], (it) => {
      const { ended = 0, exported = 0, failed = 0 } = node.spanCounts() ?? {}
      it.inc({ outcome: 'ended' }, ended)
      it.inc({ outcome: 'exported' }, exported)
      it.inc({ outcome: 'failed' }, failed)
    })
  }
  return {
    text: () => registry.metrics(),
    contentType: registry.contentType,
    json: () => registry.getMetricsAsJSON(),
    facts: () => factsOf(registry)
  }
}

function factsOf(registry: Registry): ReturnType<NodeMetrics['facts']> {
  return registry.getMetricsAsArray().map((metric) => {
    const { name, help, type, labelNames } = metric as unknown as { name: string; help: string; type: string; labelNames: string[] }
    // a histogram names the label of its buckets itself
    return { name, help, type: String(type), labels: labelNames.filter((label) => label !== 'le') }
  })
}

interface Into {
  /** a metric whose values are read together with those of its kind */
  gauge<L extends string>(name: string, help: string, labelNames: readonly L[], read: (it: Gauge<L>) => void | Promise<void>): void
  /** one that only rises while the node runs, kept elsewhere */
  counter<L extends string>(name: string, help: string, labelNames: readonly L[], read: (it: Counter<L>) => void): void
}

function intoRegistry(registry: Registry): Into {
  const registers = [registry]
  return {
    gauge: (name, help, labelNames, read) =>
      void new Gauge({
        name: `rookery_${name}`,
        help,
        labelNames,
        registers,
        async collect() {
          this.reset()
          await read(this)
        }
      }),
    counter: (name, help, labelNames, read) =>
      void new Counter({
        name: `rookery_${name}_total`,
        help,
        labelNames,
        registers,
        collect() {
          this.reset()
          read(this)
        }
      })
  }
}

function networkMetrics(node: RookeryNode, { gauge, counter }: Into, traffic: Traffic | undefined): void {
  gauge('info', 'always 1; what runs is in the labels', ['version', 'peer'], (it) => it.set({ version, peer: node.peer }, 1))
  gauge('start_time_seconds', 'when the node started, in Unix time', [], (it) => it.set(node.startedAtMs / 1_000))
  gauge('peers', 'peers connected', [], (it) => it.set(node.host.peers().length))
  gauge('routing_table_peers', 'peers in the routing table', [], (it) => it.set(node.host.dht.routingTableSize()))
  gauge('dht_server', '1 while this node serves the DHT, 0 while it is a client of it', [], (it) =>
    it.set(node.host.dht.mode() === 'server' ? 1 : 0)
  )
  gauge('sessions', 'sessions by state', ['state'], (it) => {
    const states = node.sessions.list().map(({ state }) => state)
    for (const state of SESSION_STATES) it.set({ state }, states.filter((one) => one === state).length)
  })
  gauge('bound_fill_ratio', 'how full a bound of the whole node is, 1: what comes next is refused', ['bound'], (it) => {
    for (const { bound, used, max } of boundsOf(node)) it.set({ bound }, used / max)
  })
  gauge('registry_keys', 'sets of entries that this node holds as a registrar', [], (it) => it.set(node.registry.stats().keys))
  gauge('registry_entries', 'entries in them', [], (it) => it.set(node.registry.stats().entries))
  gauge('registry_bytes', 'bytes of them', [], (it) => it.set(node.registry.stats().bytes))
  counter('registry_exchanges', 'exchanges with this registrar: answered, or ended without an answer', ['outcome'], (it) => {
    const { served, failed } = node.registry.stats()
    it.inc({ outcome: 'served' }, served)
    it.inc({ outcome: 'failed' }, failed)
  })
  counter('registry_refused', 'entries refused, by reason', ['reason'], (it) => {
    const { refused } = node.registry.stats()
    for (const reason of REGISTRY_REFUSALS) it.inc({ reason }, refused[reason] ?? 0)
  })
  gauge('faulty_registrars', 'registrars that hid or invented entries', [], (it) => it.set(node.registry.faulty().length))
  gauge('spaces', 'spaces that agents of this node announced or joined', ['role'], (it) => {
    for (const [role, count] of Object.entries(node.spaces.counts())) it.set({ role: role as 'curator' | 'member' }, count)
  })
  gauge(
    'space_records',
    'records of them: all, those not known to lie at every registrar, and those whose refresh waits',
    ['state'],
    (it) => {
      const { records, partial, waiting } = node.spaces.upkeep()
      it.set({ state: 'kept' }, records)
      it.set({ state: 'partial' }, partial)
      it.set({ state: 'waiting' }, waiting)
    }
  )
  gauge('space_records_late_seconds', 'how long the first of those waits', [], (it) => it.set(node.spaces.upkeep().lateMs / 1_000))
  gauge('discovery_requests_queued', 'anonymous requests of others taken and not yet answered', [], (it) =>
    it.set(node.discovery.stats().queued)
  )
  gauge('discovery_work_bits', 'bits of work that an anonymous request must bring now', [], (it) =>
    it.set(node.discovery.stats().difficulty)
  )
  counter('discovery_requests', 'anonymous requests of others: served, or why not', ['outcome'], (it) => {
    const { served, refused } = node.discovery.stats()
    it.inc({ outcome: 'served' }, served)
    for (const [outcome, count] of Object.entries(refused)) it.inc({ outcome }, count)
  })
  if (traffic === undefined) return
  counter('sent_bytes', 'bytes written to streams, by protocol', ['protocol'], (it) => {
    for (const { protocol, bytes } of traffic.sent()) it.inc({ protocol }, bytes)
  })
  counter('sent_messages', 'writes to streams, by protocol', ['protocol'], (it) => {
    for (const { protocol, messages } of traffic.sent()) it.inc({ protocol }, messages)
  })
}

function workMetrics(node: RookeryNode, { gauge }: Into): void {
  gauge('agents', 'agents that take work now, and those that sleep', ['state'], (it) => {
    const states = node.agents.list().map((agent) => node.reachability(agent).state)
    for (const state of ['accepts', 'asleep'] as const) it.set({ state }, states.filter((one) => one === state).length)
  })
  gauge('handlers_failed', 'agents whose handler is not at work though they have one', [], (it) =>
    it.set(node.agents.list().filter((agent) => node.handlerFault(agent) !== undefined).length)
  )
  gauge('todos', 'tasks kept, by state', ['state'], async (it) => {
    for (const state of TODO_STATES) it.set({ state }, await node.todos.count({ state }))
  })
  gauge(
    'dead_letters',
    `tasks whose attempts are used up and that wait for the owner, counted up to ${DEAD_LETTERS_COUNTED_MAX}`,
    [],
    async (it) => it.set((await node.todos.deadLetters({ limit: DEAD_LETTERS_COUNTED_MAX })).length)
  )
}

function deliveryMetrics(node: RookeryNode, { gauge }: Into): void {
  const usages = () => Promise.all(node.agents.list().map((agent) => node.queueUsage(agent)))
  gauge('queue_messages', 'messages that wait for sleeping agents', [], async (it) =>
    it.set((await usages()).reduce((sum, { messages }) => sum + messages, 0))
  )
  gauge('queue_bytes', 'bytes that wait for sleeping agents', [], async (it) =>
    it.set((await usages()).reduce((sum, { bytes }) => sum + bytes, 0))
  )
  gauge('queue_fill_ratio', 'the fullest of the queues, 0 to 1, by messages or bytes', [], async (it) => {
    const { messagesMax, bytesMax } = node.queueBounds
    it.set(Math.max(0, ...(await usages()).map(({ messages, bytes }) => Math.max(messages / messagesMax, bytes / bytesMax))))
  })
  gauge('queue_damaged_rows', 'rows of the queue that were set aside as damaged', [], (it) => it.set(node.queue.damaged))
  gauge('drain_held', '1 while no queue is handed over because the clock reads too early', [], (it) =>
    it.set(node.drainHeld === undefined ? 0 : 1)
  )
  gauge('outbox_messages', 'messages in the outbox; waiting: not delivered yet', ['state'], (it) => {
    const { messages, waiting } = node.mail.outbox.usage()
    it.set({ state: 'waiting' }, waiting)
    it.set({ state: 'ended' }, messages - waiting)
  })
  gauge('outbox_bytes', 'bytes in the outbox', [], (it) => it.set(node.mail.outbox.usage().bytes))
  gauge('outbox_oldest_seconds', 'age of the oldest message in the outbox that is not delivered yet; 0 where none waits', [], (it) => {
    const [oldest] = node.mail.outbox.list({ isOpen: true })
    it.set(oldest === undefined ? 0 : Math.max(0, node.clock.nowMs() - oldest.acceptedAtMs) / 1_000)
  })
  gauge('kept_messages', 'messages kept for agents of other nodes', [], async (it) =>
    it.set((await node.mail.held()).reduce((sum, { messages }) => sum + messages, 0))
  )
  gauge('kept_bytes', 'bytes of them', [], async (it) => it.set((await node.mail.held()).reduce((sum, { bytes }) => sum + bytes, 0)))
}

function accessMetrics(node: RookeryNode, { gauge, counter }: Into): void {
  gauge('grants', 'grants in force', [], (it) =>
    it.set(node.grants.list().filter((grant) => node.grants.state(grant) === 'in-force').length)
  )
  counter(
    'grant_sends',
    'tasks asked for with grants: let in, refused by their bucket, or let in by one that was nearly empty',
    ['outcome'],
    (it) => {
      const { taken, refused, nearMisses } = node.sendBuckets.counts()
      it.inc({ outcome: 'let_in' }, taken)
      it.inc({ outcome: 'rate_limited' }, refused)
      it.inc({ outcome: 'near_miss' }, nearMisses)
    }
  )
  counter('refused_without_grant', 'calls refused for want of a grant', [], (it) => it.inc(node.access.refused))
  gauge('friend_requests_pending', 'friend requests that wait for the owner', [], (it) => it.set(node.friends.waiting()))
  counter('friend_requests_busy', 'friend requests that the quota refused', [], (it) => it.inc(node.friends.busy))
  gauge('push_configs', 'webhooks that callers asked for', [], (it) => it.set(node.push?.counts().configs ?? 0))
  gauge('push_calls', 'calls to webhooks under way', [], (it) => it.set(node.push?.counts().calling ?? 0))
  counter('push_notifications', 'tries to tell webhooks', ['outcome'], (it) => {
    const { delivered = 0, failed = 0, givenUp = 0 } = node.push?.counts() ?? {}
    it.inc({ outcome: 'delivered' }, delivered)
    it.inc({ outcome: 'failed' }, failed)
    it.inc({ outcome: 'given_up' }, givenUp)
  })
}

function storeMetrics(node: RookeryNode, { gauge, counter }: Into): void {
  gauge('store_state', '1 for the state that the store is in', ['state'], async (it) => {
    const { state } = await node.storeState()
    for (const one of STORE_STATES) it.set({ state: one }, state === one ? 1 : 0)
  })
  gauge('store_free_bytes', 'free bytes of the volume of the store', [], async (it) => {
    const { freeBytes } = await node.storeState()
    if (freeBytes !== undefined) it.set(freeBytes)
  })
  gauge('store_reserve_bytes', 'bytes of it that nothing new may take', [], async (it) => {
    const { reserveBytes } = await node.storeState()
    if (reserveBytes !== undefined) it.set(reserveBytes)
  })
  counter('store_reopened', 'times that the store was opened anew after a write that failed', [], (it) => it.inc(node.store.reopened))
  gauge(
    'store_bytes',
    'bytes of the tables of the store, by what they are about; what lies in its log is not in it',
    ['kind'],
    async (it) => {
      for (const kind of STORE_KINDS) it.set({ kind }, 0)
      for (const table of await node.store.tables()) it.inc({ kind: kindOfTable(table) }, await node.store.bytesOnDisk(table))
    }
  )
  gauge('disk_bytes', 'bytes of the files in the data directory, by what they are', ['kind'], (it) => {
    const { dataDir } = node.config
    if (dataDir !== undefined) for (const { kind, bytes } of filesByKind(dataDir)) it.set({ kind }, bytes)
  })
}

/** What tells agents by their names. */
function agentMetrics(node: RookeryNode, { gauge }: Into): void {
  gauge('agent_accepts', '1 while the agent takes work, 0 while it sleeps', ['agent'], (it) => {
    for (const agent of node.agents.list()) it.set({ agent: agent.name }, node.reachability(agent).state === 'accepts' ? 1 : 0)
  })
  gauge('agent_queue_messages', 'messages that wait for the agent', ['agent'], async (it) => {
    for (const agent of node.agents.list()) it.set({ agent: agent.name }, (await node.queueUsage(agent)).messages)
  })
  gauge('agent_queue_bytes', 'bytes that wait for the agent', ['agent'], async (it) => {
    for (const agent of node.agents.list()) it.set({ agent: agent.name }, (await node.queueUsage(agent)).bytes)
  })
  gauge('agent_todos', 'tasks of the agent, by state', ['agent', 'state'], async (it) => {
    for (const agent of node.agents.list()) {
      for (const state of TODO_STATES) it.set({ agent: agent.name, state }, await node.todos.count({ agent: homeOf(agent), state }))
    }
  })
}
