import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Traffic } from '../net/traffic.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { version } from '../version.ts'

export interface NodeMetrics {
  /** all metrics in Prometheus' text format */
  text(): Promise<string>
  readonly contentType: string
}

const STORE_STATES = ['ok', 'full', 'failing', 'down']

/**
 * Metrics of a node, read from it when they are asked for. Names end in their unit; label values are of closed sets: local agents' names, states, and
 * the protocols that this node speaks.
 * @param process - `included`: also those of this process and of Node.js (`process_*`, `nodejs_*`), once a process
 */
export function nodeMetrics(node: RookeryNode, { process, traffic }: { process: 'included' | 'left out'; traffic?: Traffic }): NodeMetrics {
  const registry = new Registry()
  if (process === 'included') collectDefaultMetrics({ register: registry })
  const registers = [registry]
  /** A metric whose values are read together with those of its kind. */
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[], read: (it: Gauge<L>) => void | Promise<void>) =>
    new Gauge({
      name: `rookery_${name}`,
      help,
      labelNames,
      registers,
      async collect() {
        this.reset()
        await read(this)
      }
    })
  /** One that only rises while the node runs, kept elsewhere. */
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[], read: (it: Counter<L>) => void) =>
    new Counter({
      name: `rookery_${name}_total`,
      help,
      labelNames,
      registers,
      collect() {
        this.reset()
        read(this)
      }
    })
  gauge('info', 'always 1; what runs is in the labels', ['version', 'peer'], (it) => it.set({ version, peer: node.peer }, 1))
  gauge('start_time_seconds', 'when the node started, in Unix time', [], (it) => it.set(node.startedAtMs / 1_000))
  gauge('peers', 'peers connected', [], (it) => it.set(node.host.peers().length))
  gauge('routing_table_peers', 'peers in the routing table', [], (it) => it.set(node.host.dht.routingTableSize()))
  gauge('dht_server', '1 while this node serves the DHT, 0 while it is a client of it', [], (it) =>
    it.set(node.host.dht.mode() === 'server' ? 1 : 0)
  )
  gauge('sessions', 'sessions open or being resumed', [], (it) => it.set(node.sessions.list().length))
  gauge('agent_accepts', '1 while the agent takes work, 0 while it sleeps', ['agent'], (it) => {
    for (const agent of node.agents.list()) it.set({ agent: agent.name }, node.reachability(agent).state === 'accepts' ? 1 : 0)
  })
  gauge('queue_messages', 'messages that wait for a sleeping agent', ['agent'], async (it) => {
    for (const agent of node.agents.list()) it.set({ agent: agent.name }, (await node.queueUsage(agent)).messages)
  })
  gauge('queue_bytes', 'bytes that wait for a sleeping agent', ['agent'], async (it) => {
    for (const agent of node.agents.list()) it.set({ agent: agent.name }, (await node.queueUsage(agent)).bytes)
  })
  gauge('queue_damaged_rows', 'rows of the queue that were set aside as damaged', [], (it) => it.set(node.queue.damaged))
  gauge('outbox_messages', 'messages in the outbox; waiting: not delivered yet', ['state'], (it) => {
    const { messages, waiting } = node.mail.outbox.usage()
    it.set({ state: 'waiting' }, waiting)
    it.set({ state: 'ended' }, messages - waiting)
  })
  gauge('outbox_bytes', 'bytes in the outbox', [], (it) => it.set(node.mail.outbox.usage().bytes))
  gauge('kept_messages', 'messages kept for agents of other nodes', [], async (it) => {
    it.set((await node.mail.held()).reduce((sum, { messages }) => sum + messages, 0))
  })
  gauge('registry_entries', 'entries that this node holds as a registrar', [], (it) => it.set(node.registry.stats().entries))
  gauge('registry_bytes', 'bytes of them', [], (it) => it.set(node.registry.stats().bytes))
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
  counter('push_notifications', 'tries to tell webhooks', ['outcome'], (it) => {
    const { delivered = 0, failed = 0, givenUp = 0 } = node.push?.counts() ?? {}
    it.inc({ outcome: 'delivered' }, delivered)
    it.inc({ outcome: 'failed' }, failed)
    it.inc({ outcome: 'given_up' }, givenUp)
  })
  counter('registry_refused', 'entries refused since the start, by reason', ['reason'], (it) => {
    for (const [reason, count] of Object.entries(node.registry.stats().refused)) it.inc({ reason }, count)
  })
  gauge('faulty_registrars', 'registrars that hid or invented entries', [], (it) => it.set(node.registry.faulty().length))
  gauge('store_state', '1 for the state that the store is in', ['state'], async (it) => {
    const { state } = await node.storeState()
    for (const one of STORE_STATES) it.set({ state: one }, state === one ? 1 : 0)
  })
  gauge('store_free_bytes', 'free bytes of the volume of the store', [], async (it) => {
    const { freeBytes } = await node.storeState()
    if (freeBytes !== undefined) it.set(freeBytes)
  })
  if (traffic !== undefined) {
    counter('sent_bytes', 'bytes written to streams since the start, by protocol', ['protocol'], (it) => {
      for (const { protocol, bytes } of traffic.sent()) it.inc({ protocol }, bytes)
    })
    counter('sent_messages', 'writes to streams since the start, by protocol', ['protocol'], (it) => {
      for (const { protocol, messages } of traffic.sent()) it.inc({ protocol }, messages)
    })
  }
  return { text: () => registry.metrics(), contentType: registry.contentType }
}
