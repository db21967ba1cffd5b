import { afterEach, describe, expect, it } from 'vitest'
import { outboxStateText } from '../../protocol/delivery/outbox-state.ts'
import { nodeStatus } from '../../src/api/node-status.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { OutboxEntry } from '../../src/delivery/outbox.ts'
import type { KeeperRound } from '../../src/delivery/own-keepers.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { createNode, type NodeOverrides, type RookeryNode } from '../../src/node.ts'
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
  start(config?: ConfigInput, overrides?: NodeOverrides): Promise<RookeryNode>
}

/** A data directory with one agent; its node may come and go. */
async function place(agent: string): Promise<Place> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const start = async (config: ConfigInput = {}, overrides: NodeOverrides = {}) => {
    const node = await createNode({ ...TCP, http: { enabled: false }, ...config, dataDir: dir.path }, overrides)
    cleanups.push(() => node.stop())
    return node
  }
  const first = await start()
  const { did } = await first.addAgent({ name: agent })
  await first.stop()
  return { did, start }
}

const listening = (one: RookeryNode): ConfigInput => ({ listen: [...one.host.addresses()] })
const bootstrapOf = (one: RookeryNode) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`)
const connected = async (node: RookeryNode) => {
  while (node.host.peers().length === 0 || node.host.dht.routingTableSize() === 0) await systemClock.sleep(20)
}
const text = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: `hello ${messageId}` }] })

/** Tries again, whatever the backoff says, until all are in that state; what they are then, in order. */
async function settled(node: RookeryNode, ids: readonly string[], state: string): Promise<OutboxEntry[]> {
  for (;;) {
    const entries = ids.map((id) => node.mail.outbox.get(id) as OutboxEntry)
    const open = entries.find((entry) => outboxStateText(entry.state) !== state)
    if (open === undefined) return entries
    await node.mail.retry(open)
    await systemClock.sleep(20)
  }
}

/** A round that met bob's keeper; one that began before the network was there did not. */
async function asked(node: RookeryNode): Promise<KeeperRound> {
  for (;;) {
    const round = await node.mail.fetch(node.agents.get('bob'))
    if (round.missed === 0) return round
    await systemClock.sleep(20)
  }
}

describe('mail for an agent whose host is off', () => {
  it('[G-18] [F082] finds its keepers by its mail record, which they put again, when its locator has run out before the sender came by', async () => {
    const [kate, alice, bob] = [await place('kate'), await place('alice'), await place('bob')]
    let k = await kate.start({ keeper: { for: [bob.did] } })
    const joined: ConfigInput = { bootstrap: bootstrapOf(k) }
    const sameAddress = listening(k)
    let b = await bob.start({ ...joined, keepers: [kate.did] })
    await connected(b)
    const target = b.agents.get('bob')
    await b.mailRecords.publish(target)
    expect(await asked(b)).toMatchObject({ met: 1, missed: 0 })
    await b.stop()
    await k.stop()

    // two days later: of what bob published himself nothing is left but what his keeper holds
    const aheadMs = 2 * 86_400_000
    const later = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs }
    k = await kate.start({ ...sameAddress, keeper: { for: [bob.did] } }, { clock: later })
    const a = await alice.start({ bootstrap: bootstrapOf(k) }, { clock: later })
    await connected(a)
    const { id } = await a.mail.post({ from: a.agents.get('alice'), to: target.eid, message: text('late') })
    const [kept] = await settled(a, [id], 'kept-by-1')
    expect(kept?.keepers).toHaveLength(1)
    expect(await k.mail.held()).toMatchObject([{ messages: 1 }])

    b = await bob.start({ bootstrap: bootstrapOf(k) }, { clock: later })
    await connected(b)
    await b.mailRecords.publish(b.agents.get('bob'))
    await expect.poll(() => b.mailRecords.former(b.agents.get('bob')).length, { timeout: 10_000 }).toBe(1)
    await asked(b)
    expect((await b.todos.list({ limit: 10 })).todos.map(({ history }) => history[0]?.messageId)).toEqual(['late'])
    expect(await k.mail.held()).toMatchObject([{ messages: 0 }])
  }, 120_000)

  it('[G-18] [OD-50] is kept sealed by a keeper that both sides wished for, reaches the agent once and in order, and its sender, who was off meanwhile, hears so', async () => {
    const [kate, alice, bob] = [await place('kate'), await place('alice'), await place('bob')]
    const k = await kate.start({ keeper: { for: [bob.did] } })
    const joined: ConfigInput = { bootstrap: bootstrapOf(k) }
    let b = await bob.start({ ...joined, keepers: [kate.did] })
    let a = await alice.start(joined)
    await Promise.all([connected(a), connected(b)])
    const target = b.agents.get('bob')
    await Promise.all([b.locators.publish(target), k.locators.publish(k.agents.get('kate'))])
    expect(await asked(b)).toMatchObject({ met: 1, missed: 0, fetched: 0 })
    expect((await a.locators.resolve(target.eid)).keepers).toEqual([kate.did])
    await b.stop()

    const ids = ['one', 'two', 'three']
    const posted: string[] = []
    for (const id of ids) {
      const entry = await a.mail.post({ from: a.agents.get('alice'), to: target.eid, message: text(id) })
      expect(entry.state.name).toBe('queued-here')
      posted.push(entry.id)
    }
    const kept = await settled(a, posted, 'kept-by-1')
    expect(kept[0]?.keepers).toHaveLength(1)
    expect(await k.mail.held()).toMatchObject([{ messages: 3 }])
    expect((await nodeStatus(k)).keeping).toMatchObject([{ did: bob.did, messages: 3 }])
    await a.stop()

    b = await bob.start({ ...joined, keepers: [kate.did] })
    await connected(b)
    await asked(b)
    expect((await b.todos.list({ limit: 10 })).todos).toHaveLength(ids.length)
    // in the order in which they become work: several may have come within one millisecond
    for (const id of ids) {
      const todo = await b.todos.claim(homeOf(b.agents.get('bob')), 'test', { leaseMs: 60_000 })
      expect(todo?.history[0]?.messageId).toBe(id)
    }
    expect(await k.mail.held()).toMatchObject([{ messages: 0 }])
    expect(await asked(b)).toMatchObject({ fetched: 0 })
    await b.stop()

    a = await alice.start(joined)
    const delivered = await settled(a, posted, 'delivered')
    expect(delivered.map(({ messageId }) => messageId)).toEqual(ids)
    expect((await a.mail.outbox.evidence(delivered[0] as OutboxEntry)).confirmation).toBeInstanceOf(Uint8Array)
  }, 120_000)
})
