import { MemoryLevel } from 'memory-level'
import { equals } from '../../protocol/bytes.ts'
import type { Evidence } from '../../protocol/evidence/proof.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createGroups, type InvitationPolicy } from '../../src/groups/create-groups.ts'
import type { Group, Groups } from '../../src/groups/groups.ts'
import { ReadyRuns } from '../../src/groups/ready-runs.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import type { Host, PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { createSessionManager, type RunningSessionManager } from '../../src/sessions/create-session-manager.ts'
import { Store } from '../../src/store/store.ts'

/** A host with sessions and groups of one agent, over its own store. */
export interface GroupNode {
  host: Host
  agent: LocalAgent
  store: Store
  sessions: RunningSessionManager
  groups: Groups
  ready: ReadyRuns
  forks: Evidence[]
  stop(): Promise<void>
}

/** Nodes that know each other's addresses, and who of them may dial whom. */
export class GroupNodes {
  readonly nodes: GroupNode[] = []
  /** by EID: where the agent is */
  readonly #addresses = new Map<EidHex, PeerAddress>()
  /** whether a node dials another one, by their places */
  mayDial: (from: number, to: number) => boolean = () => true

  async add(
    host: Host,
    address: PeerAddress,
    agent: LocalAgent,
    { store = memoryStore(), accept }: { store?: Store; accept?: InvitationPolicy } = {}
  ): Promise<GroupNode> {
    const at = this.nodes.length
    const components = { clock: systemClock, random: systemRandom, crypto: nodeCrypto, logger: silentLogger, store }
    const agents = { byEid: (eid: Eid) => (equals(eid, agent.eid) ? agent : undefined), list: () => [agent] }
    this.#addresses.set(agent.eidHex, address)
    const locate = async (to: Eid) => this.#addressOf(at, to)
    const ready = new ReadyRuns()
    const sessions = await createSessionManager({ ...components, host, agents, locate, ready }, { reconnectMsMax: 1_000 })
    const forks: Evidence[] = []
    const groups = await createGroups({
      ...components,
      sessions,
      ready,
      agentOf: (home) => (home === agent.eidHex ? agent : undefined),
      connect: async (from, to, { signal }) => await sessions.open(from, to, this.#addressOf(at, to), { signal }),
      ...(accept === undefined ? {} : { accept }),
      onFork: (evidence) => forks.push(evidence)
    })
    const stop = async () => {
      await groups.stop()
      await sessions.stop()
      await host.stop()
    }
    const node = { host, agent, store, sessions, groups, ready, forks, stop }
    this.nodes.push(node)
    return node
  }

  #addressOf(from: number, to: Eid): PeerAddress {
    const place = this.nodes.findIndex(({ agent }) => equals(agent.eid, to))
    const address = this.#addresses.get(eidHex(to))
    if (address === undefined || !this.mayDial(from, place)) throw new Error('out of reach')
    return address
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()))
    this.nodes.length = 0
  }
}

export function memoryStore(): Store {
  return new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
}

/** The group of that name, as soon as the agent holds it. */
export async function groupAt(node: GroupNode, name: string): Promise<Group> {
  const held = node.groups.list().find((group) => group.name === name)
  if (held !== undefined) return held
  const { promise, resolve } = Promise.withResolvers<Group>()
  const off = node.groups.onGroup((group) => {
    if (group.name === name) resolve(group)
  })
  try {
    return await promise
  } finally {
    off()
  }
}

/** Resolves once `is` holds; asked again after every change in any of the groups. */
export async function until(groups: readonly Group[], is: () => boolean): Promise<void> {
  const stop = new AbortController()
  try {
    // listening before looking: no change is missed
    const loops = groups.map((group) => group.changes({ signal: stop.signal })[Symbol.asyncIterator]())
    const next = loops.map((loop) => loop.next())
    while (!is()) {
      const at = await Promise.race(next.map((one, i) => one.then(() => i)))
      next[at] = (loops[at] as AsyncIterator<unknown>).next() as (typeof next)[number]
    }
  } finally {
    stop.abort()
  }
}
