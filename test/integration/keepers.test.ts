import { afterEach, describe, expect, it } from 'vitest'
import { outboxStateText } from '../../protocol/delivery/outbox-state.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { OutboxEntry } from '../../src/delivery/outbox.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A dial of a host that is off fails at once. */
const TCP: ConfigInput = { ...LOOPBACK, listen: ['/ip4/127.0.0.1/tcp/0'] }

interface Place {
  readonly did: string
  start(config?: ConfigInput): Promise<RookeryNode>
}

/** A data directory with one agent; its node may come and go. */
async function place(agent: string): Promise<Place> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const start = async (config: ConfigInput = {}) => {
    const node = await createNode({ ...TCP, http: { enabled: false }, ...config, dataDir: dir.path })
    cleanups.push(() => node.stop())
    return node
  }
  const first = await start()
  const { did } = await first.addAgent({ name: agent })
  await first.stop()
  return { did, start }
}

const bootstrapOf = (one: RookeryNode) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`)
const connected = async (node: RookeryNode) => {
  while (node.host.peers().length === 0 || node.host.dht.routingTableSize() === 0) await systemClock.sleep(20)
}
const text = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: `hello ${messageId}` }] })

/** Resolves once a message is in one of these states. */
function reached(node: RookeryNode, id: string, ...states: string[]): Promise<OutboxEntry> {
  return new Promise((resolve) => {
    const look = (entry: OutboxEntry | undefined) => {
      if (entry !== undefined && entry.id === id && states.includes(outboxStateText(entry.state))) resolve(entry)
    }
    node.mail.outbox.onEvent(({ entry }) => look(entry))
    look(node.mail.outbox.get(id))
  })
}

describe('mail for an agent whose host is off', () => {
  it('[G-18] [OD-50] is kept sealed by a keeper that both sides wished for, reaches the agent once and in order, and its sender, who was off meanwhile, hears so', async () => {
    const [kate, alice, bob] = [await place('kate'), await place('alice'), await place('bob')]
    const k = await kate.start({ keeper: { for: [bob.did] } })
    const joined: ConfigInput = { bootstrap: bootstrapOf(k) }
    let b = await bob.start({ ...joined, keepers: [kate.did] })
    let a = await alice.start(joined)
    await Promise.all([connected(a), connected(b)])
    const target = b.agents.get('bob')
    await Promise.all([b.locators.publish(target), k.locators.publish(k.agents.get('kate'))])
    expect(await b.mail.fetch(target)).toMatchObject({ met: 1, missed: 0, fetched: 0 })
    expect((await a.locators.resolve(target.eid)).keepers).toEqual([kate.did])
    await b.stop()

    const ids = ['one', 'two', 'three']
    const posted = []
    for (const id of ids) posted.push(await a.mail.post({ from: a.agents.get('alice'), to: target.eid, message: text(id) }))
    expect(posted.map(({ state }) => state.name)).toEqual(['queued-here', 'queued-here', 'queued-here'])
    const kept = await Promise.all(posted.map(({ id }) => reached(a, id, 'kept-by-1')))
    expect(kept[0]?.keepers).toHaveLength(1)
    expect(await k.mail.held()).toMatchObject([{ messages: 3 }])
    await a.stop()

    b = await bob.start({ ...joined, keepers: [kate.did] })
    await connected(b)
    await b.mail.fetch(b.agents.get('bob'))
    const arrived = (await b.todos.list({ limit: 10 })).todos.sort((x, y) => x.createdAtMs - y.createdAtMs)
    expect(arrived.map(({ history }) => history[0]?.messageId)).toEqual(ids)
    expect(await k.mail.held()).toMatchObject([{ messages: 0 }])
    expect(await b.mail.fetch(b.agents.get('bob'))).toMatchObject({ fetched: 0 })
    await b.stop()

    a = await alice.start(joined)
    const delivered = await Promise.all(posted.map(({ id }) => reached(a, id, 'delivered')))
    expect(delivered.map(({ messageId }) => messageId)).toEqual(ids)
    expect((await a.mail.outbox.evidence(delivered[0] as OutboxEntry)).confirmation).toBeInstanceOf(Uint8Array)
  }, 120_000)
})
