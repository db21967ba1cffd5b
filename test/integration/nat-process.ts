/** A node in its network namespace, in a process of its own, driven by messages of its parent; each is answered once, with its `id`. */
import { MemoryLevel } from 'memory-level'
import { outboxStateText } from '../../protocol/delivery/outbox-state.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'

export type NatOrder =
  | { do: 'start'; number: number; config: ConfigInput; agent: string; handler?: 'echo' }
  | { do: 'reachability' }
  | { do: 'addresses' }
  | { do: 'peers' }
  | { do: 'locator'; did: string }
  | { do: 'send'; to: string; messageId: string }
  | { do: 'post'; to: string; messageId: string }
  | { do: 'outbox'; entry: string }
  | { do: 'sessions' }
  | { do: 'received' }
  | { do: 'fetch' }
  | { do: 'stream'; to: string; from: number; count: number }
  | { do: 'items' }
  | { do: 'acked' }
  | { do: 'stop' }

export const agentSeed = (number: number) => nodeCrypto.sha256(Uint8Array.of(0xd2, number))

/** Durable items of sessions, by their text: what came, what was acknowledged, what was given up and why. */
const CHANNEL = 16
const came: string[] = []
const acked: string[] = []
const failed: string[] = []

let node: RookeryNode | undefined
let agentName = ''

/** Whoever started it is gone: so is this. */
process.on('disconnect', () => process.exit())

process.on('message', ({ id, ...order }: NatOrder & { id: number }) => {
  obey(order as NatOrder).then(
    (answer) => process.send?.({ id, answer }, () => (order.do === 'stop' ? process.disconnect() : undefined)),
    (error: Error) => process.send?.({ id, error: error.message })
  )
})

const message = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: messageId }] })

async function obey(order: NatOrder): Promise<unknown> {
  if (order.do === 'start') {
    node = await createNode(
      { grants: { peers: 'anyone' }, ...order.config },
      {
        level: new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }),
        nodeSeed: nodeCrypto.sha256(Uint8Array.of(0xd1, order.number)),
        http: 'off',
        ...(process.env.ROOKERY_NAT_LOGS === undefined ? {} : { logger: createLogger({ level: 'debug', levels: {} }).child(order.agent) })
      }
    )
    agentName = order.agent
    node.sessions.onSession((session) =>
      session.onChannel(CHANNEL, async ({ payload }) => void came.push(new TextDecoder().decode(payload)))
    )
    await node.addAgent({
      name: agentName,
      seed: agentSeed(order.number),
      ...(order.handler === undefined ? {} : { handler: order.handler })
    })
    return { peer: node.peer, addresses: node.host.addresses() }
  }
  if (node === undefined) throw new TypeError('start it first')
  const agent = node.agents.get(agentName)
  switch (order.do) {
    case 'reachability':
      return node.host.reachability?.report()
    case 'addresses':
      return node.host.addresses()
    case 'peers':
      return node.host.peers()
    case 'locator':
      return (await node.locators.resolve(eidFromDid(order.did), { fresh: true })).address
    case 'send':
      return (await node.send({ from: agent, to: eidFromDid(order.to), message: message(order.messageId) })).outcome
    case 'post':
      return (await node.mail.post({ from: agent, to: eidFromDid(order.to), message: message(order.messageId) })).id
    case 'outbox': {
      const entry = node.mail.outbox.get(order.entry)
      if (entry === undefined) return 'unknown'
      const state = outboxStateText(entry.state)
      if (state === 'queued-here') await node.mail.retry(entry)
      return state
    }
    case 'sessions':
      return node.sessions.list()
    case 'received':
      return (await node.todos.list({ limit: 100 })).todos.map(({ history }) => history[0]?.messageId)
    case 'fetch':
      return await node.mail.fetch(agent)
    case 'stream': {
      const session = await node.openSession(agent, eidFromDid(order.to))
      for (let i = order.from; i < order.from + order.count; i++) {
        const text = `${agentName}-${i}`
        void session.send(CHANNEL, ITEM_KINDS.a2a, new TextEncoder().encode(text)).then(
          () => acked.push(text),
          (error: Error) => failed.push(`${text}: ${error.message}`)
        )
      }
      return session.info().id
    }
    case 'items':
      return came
    case 'acked':
      if (failed.length > 0) throw new Error(`given up: ${failed.join(', ')}`)
      return acked
    case 'stop':
      return await node.stop()
  }
}
