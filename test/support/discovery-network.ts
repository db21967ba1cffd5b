import { MemoryLevel } from 'memory-level'
import { vi } from 'vitest'
import { DISCOVERY_PROTOCOL } from '../../protocol/discovery/request.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { Libp2pHost } from '../../src/net/libp2p-host.ts'
import { createNode, type NodeOverrides, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Logger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'

/** One stream of the discovery protocol as one node saw it. */
export interface Seen {
  /** PeerId of the node that saw it */
  readonly node: string
  readonly direction: 'in' | 'out'
  /** PeerId at the other end */
  readonly peer: string
  readonly read: Uint8Array[]
  readonly written: Uint8Array[]
}

/** Records every discovery stream of every host of this process, until {@link restore}. */
export function watchDiscovery(): { seen: Seen[]; restore(): void } {
  const seen: Seen[] = []
  const recorded = (stream: ByteStream, node: string, direction: Seen['direction']): ByteStream => {
    const entry: Seen = { node, direction, peer: stream.connection.peer, read: [], written: [] }
    seen.push(entry)
    return {
      protocol: stream.protocol,
      connection: stream.connection,
      closed: stream.closed,
      async read(length, options) {
        const bytes = await stream.read(length, options)
        entry.read.push(bytes.slice())
        return bytes
      },
      async readInto(target, options) {
        await stream.readInto(target, options)
        entry.read.push(target.slice())
      },
      async write(bytes, options) {
        entry.written.push(bytes.slice())
        await stream.write(bytes, options)
      },
      closeWrite: () => stream.closeWrite(),
      close: () => stream.close(),
      reset: (reason) => stream.reset(reason)
    }
  }
  const { handle, openStream } = Libp2pHost.prototype
  const handling = vi.spyOn(Libp2pHost.prototype, 'handle').mockImplementation(function (this: Libp2pHost, protocol, handler, options) {
    const watched = protocol === DISCOVERY_PROTOCOL ? (stream: ByteStream) => handler(recorded(stream, this.peer, 'in')) : handler
    return handle.call(this, protocol, watched, options)
  })
  const opening = vi.spyOn(Libp2pHost.prototype, 'openStream').mockImplementation(async function (
    this: Libp2pHost,
    target,
    protocol,
    options
  ) {
    const stream = await openStream.call(this, target, protocol, options)
    return protocol === DISCOVERY_PROTOCOL ? recorded(stream, this.peer, 'out') : stream
  })
  return {
    seen,
    restore() {
      handling.mockRestore()
      opening.mockRestore()
    }
  }
}

export interface TestNode {
  readonly node: RookeryNode
  readonly agent: HostedAgent
  /** every line that it logged, whatever the level */
  readonly log: string[]
  /** all that it has stored, as text of key and value in hex */
  stored(): Promise<string[]>
}

export interface TestNetworkInit {
  nodes: number
  /** replicas and registrars of a key; with fewer than there are nodes some are no registrars */
  k: number
  overrides?: (index: number) => NodeOverrides
}

/** Real nodes on the memory transport that all know the first and what Kademlia tells them. */
export async function startNetwork({ nodes, k, overrides = () => ({}) }: TestNetworkInit): Promise<TestNode[]> {
  const first = await start(0, [], k, overrides(0))
  const bootstrap = [`${first.node.host.addresses()[0]}/p2p/${first.node.peer}`]
  const others = await Promise.all(Array.from({ length: nodes - 1 }, (_, i) => start(i + 1, bootstrap, k, overrides(i + 1))))
  const all = [first, ...others]
  await Promise.all(
    all.map(async ({ node }) => {
      while (node.host.dht.routingTableSize() === 0) await systemClock.sleep(5)
      await node.host.dht.closestPeers(nodeCrypto.sha256(new TextEncoder().encode(node.peer)))
    })
  )
  return all
}

async function start(index: number, bootstrap: string[], k: number, overrides: NodeOverrides): Promise<TestNode> {
  const log: string[] = []
  const line = (fields: object, message: string) => {
    log.push(`${message} ${JSON.stringify(fields, (_key, value) => (value instanceof Error ? value.message : value))}`)
  }
  const logger: Logger = { debug: line, info: line, warn: line, error: line, child: () => logger }
  const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  const node = await createNode(
    { bootstrap, registrarsMax: k, dht: { k, alpha: 3, disjointPaths: 1 }, http: { enabled: false } },
    {
      level,
      nodeSeed: nodeCrypto.sha256(Uint8Array.of(0xd1, index)),
      random: seededRandom(0xd1 + index),
      transport: 'memory',
      http: 'off',
      locators: 'on-demand',
      records: 'leave',
      logger,
      ...overrides
    }
  )
  const agent = await node.addAgent({ name: 'agent', seed: nodeCrypto.sha256(Uint8Array.of(0xd2, index)) })
  return {
    node,
    agent,
    log,
    async stored() {
      const rows: string[] = []
      for await (const [key, value] of level.iterator()) rows.push(`${key} ${Buffer.from(value).toString('hex')}`)
      return rows
    }
  }
}

export async function stopNetwork(nodes: readonly TestNode[]): Promise<void> {
  await Promise.all(nodes.map(({ node }) => node.stop()))
}
