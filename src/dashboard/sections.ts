import type { ControlContext, ControlHandlers } from '../api/control-server.ts'
import type { AgentView, ControlResults, QueueEntry } from '../api/methods.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { SessionInfo } from '../sessions/session.ts'

/** Entries of a list that the page gets; it is told how many there are. */
export const LIST_MAX = 200
const QUEUE_ENTRIES_MAX = 50
/** Sessions that only the disk holds change seldom, and reading them costs. */
const PARKED_MS = 10_000

/** What the page shows, part by part; each is sent again when it has changed. */
export const SECTIONS = ['status', 'network', 'sessions', 'mail', 'trust'] as const
export type SectionName = (typeof SECTIONS)[number]

export interface NetworkSection {
  peer: string
  addresses: string[]
  scope: 'lan' | 'public'
  dhtMode: 'client' | 'server'
  peers: { peer: string; isInTable: boolean }[]
  peersTotal: number
  /** those of the routing table without a connection */
  known: string[]
  tableTotal: number
  spaces: ControlResults['space.list']
  spacesTotal: number
}

export interface MailSection {
  agents: { name: string; now: AgentView['reachable']['now']; queue: AgentView['queue']; entries: QueueEntry[] }[]
  outbox: ControlResults['outbox.list'] & { total: number }
}

/** Reads sections by the control API's own methods, so that page and command line never say different things. */
export class Sections {
  readonly #node: RookeryNode
  readonly #handlers: ControlHandlers
  readonly #context: ControlContext
  #parked: { atMs: number; sessions: SessionInfo[] } | undefined

  constructor(node: RookeryNode, handlers: ControlHandlers) {
    this.#node = node
    this.#handlers = handlers
    this.#context = { signal: node.signal, progress() {}, event() {}, async emit() {}, afterAnswer() {} }
  }

  async read(name: SectionName): Promise<object> {
    switch (name) {
      case 'status':
        return await this.#status()
      case 'network':
        return await this.#network()
      case 'sessions':
        return await this.#sessions()
      case 'mail':
        return await this.#mail()
      case 'trust':
        return await this.#trust()
    }
  }

  /** Without what changes by itself every second. */
  async #status(): Promise<object> {
    const { node, store, bounds: _bounds, ...rest } = await this.#handlers.status({}, this.#context)
    const { uptimeMs: _uptimeMs, ...still } = node
    const agents = rest.agents.map(({ tokenFile: _tokenFile, ...agent }) => agent)
    return { ...rest, agents, node: still, store: { state: store.state, ...(store.reason === undefined ? {} : { reason: store.reason }) } }
  }

  async #network(): Promise<NetworkSection> {
    const { host, config, spaces } = this.#node
    const table = host.dht.table()
    const inTable = new Set(table)
    const peers = host.peers().sort()
    const connected = new Set(peers)
    const own = await spaces.list()
    const names = new Map<string, string>(this.#node.agents.list().map(({ did, name }) => [did, name]))
    return {
      peer: this.#node.peer,
      addresses: host.addresses(),
      scope: config.network,
      dhtMode: host.dht.mode(),
      peers: peers.slice(0, LIST_MAX).map((peer) => ({ peer, isInTable: inTable.has(peer) })),
      peersTotal: peers.length,
      known: table
        .filter((peer) => !connected.has(peer))
        .sort()
        .slice(0, LIST_MAX),
      tableTotal: table.length,
      spaces: own.slice(0, LIST_MAX).map((one) => ({ ...one, agent: names.get(one.agent) ?? one.agent })),
      spacesTotal: own.length
    }
  }

  async #sessions(): Promise<object> {
    const { sessions, clock } = this.#node
    const live = sessions.list()
    if (this.#parked === undefined || clock.monotonicMs() - this.#parked.atMs >= PARKED_MS) {
      this.#parked = { atMs: clock.monotonicMs(), sessions: await sessions.listAll() }
    }
    const ids = new Set(live.map(({ id }) => id))
    const parked = this.#parked.sessions.filter(({ id, state }) => !ids.has(id) && state === 'disconnected')
    const all = [...live, ...parked].sort((a, b) => b.activeAtMs - a.activeAtMs)
    return { sessions: all.slice(0, LIST_MAX), total: all.length }
  }

  async #mail(): Promise<MailSection> {
    const agents = await this.#handlers['agent.list']({}, this.#context)
    const outbox = await this.#handlers['outbox.list']({}, this.#context)
    const newest = [...outbox.messages].sort((a, b) => b.changedAtMs - a.changedAtMs)
    return {
      agents: await Promise.all(
        agents.map(async ({ name, reachable, queue }) => ({
          name,
          now: reachable.now,
          queue,
          entries: queue.messages === 0 ? [] : await this.#handlers['queue.list']({ agent: name, limit: QUEUE_ENTRIES_MAX }, this.#context)
        }))
      ),
      outbox: { ...outbox, messages: newest.slice(0, LIST_MAX), total: newest.length }
    }
  }

  async #trust(): Promise<object> {
    const [grants, friends] = await Promise.all([
      this.#handlers['grant.list']({ all: true }, this.#context),
      this.#handlers['friends.list']({}, this.#context)
    ])
    const { counts: _counts, ...still } = grants
    return {
      ...still,
      grants: [...grants.grants].sort((a, b) => b.createdAtMs - a.createdAtMs).slice(0, LIST_MAX),
      grantsTotal: grants.grants.length,
      friends: [...friends.friends].sort((a, b) => b.changedAtMs - a.changedAtMs).slice(0, LIST_MAX),
      waiting: friends.waiting,
      friendsTotal: friends.friends.length
    }
  }
}
