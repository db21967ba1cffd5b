/** A node on the link of its network namespace, in a process of its own, driven by messages of its parent; each is answered once, with its `id`. */
import { MemoryLevel } from 'memory-level'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import type { NeighbourChange } from '../../src/local/neighbours.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'

export type LinkOrder =
  | { do: 'start'; number: number; address: string }
  | { do: 'peers' }
  | { do: 'register'; tag: string }
  | { do: 'points' }
  | { do: 'read'; did: string; tag: string }
  | { do: 'alarms' }
  | { do: 'stop' }

/** The system's table of neighbours is read twice a second here, not every half minute. */
const NEIGHBOURS_MS = 30_000
const clock = {
  ...systemClock,
  after: (ms: number, run: () => void) => systemClock.after(ms === NEIGHBOURS_MS ? 500 : ms, run)
}

let node: RookeryNode | undefined
let agent: HostedAgent | undefined
const alarms: NeighbourChange[] = []

process.on('message', ({ id, ...order }: LinkOrder & { id: number }) => {
  obey(order as LinkOrder).then(
    (answer) => process.send?.({ id, answer }, () => (order.do === 'stop' ? process.disconnect() : undefined)),
    (error: Error) => process.send?.({ id, error: error.message })
  )
})

async function obey(order: LinkOrder): Promise<unknown> {
  if (order.do === 'start') {
    node = await createNode(
      {
        listen: [`/ip4/${order.address}/udp/0/quic-v1`],
        mdns: true,
        localPoints: { enabled: true, agents: ['agent'] },
        grants: { peers: 'anyone' },
        logs: { level: 'silent' }
      },
      {
        level: new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }),
        nodeSeed: nodeCrypto.sha256(Uint8Array.of(0xe1, order.number)),
        clock,
        http: 'off'
      }
    )
    agent = await node.addAgent({ name: 'agent', seed: nodeCrypto.sha256(Uint8Array.of(0xe2, order.number)) })
    node.localPoints?.onNeighbourChange((change) => alarms.push(change))
    return { peer: node.peer, did: agent.did }
  }
  if (node === undefined || agent === undefined) throw new TypeError('start it first')
  switch (order.do) {
    case 'peers':
      return node.host.peers()
    case 'register':
      return await node.localPoints?.register({ agent, tag: order.tag, access: 'open', value: { on: true } })
    case 'points':
      return node.localPoints?.list()
    case 'read':
      return await node.readLocalPoint(agent, eidFromDid(order.did), order.tag)
    case 'alarms':
      return alarms
    case 'stop':
      return await node.stop()
  }
}
