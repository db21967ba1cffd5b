import { afterEach, describe, expect, it } from 'vitest'
import { locatorKey } from '../../protocol/discovery/dht-key.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const dirs: ReturnType<typeof nodeDir>[] = []
const nodes = new Set<RookeryNode>()
afterEach(async () => {
  await Promise.all([...nodes].map((one) => one.stop()))
  nodes.clear()
  for (const dir of dirs.splice(0)) dir.remove()
})

function directory() {
  const dir = nodeDir()
  dirs.push(dir)
  return dir
}

async function start(dataDir: string, config: ConfigInput = {}): Promise<RookeryNode> {
  const one = await createNode({ ...LOOPBACK, ...config, dataDir })
  nodes.add(one)
  return one
}

async function stop(one: RookeryNode): Promise<void> {
  nodes.delete(one)
  await one.stop()
}

const bootstrapOf = (one: RookeryNode) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`)
const text = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: messageId }] })

describe('a node that moves to another address', () => {
  it('[PSS-07] goes on with its sessions by resume; the generation of its locator rises, and the older one never wins', async () => {
    const dirs = { a: directory(), b: directory() }
    const a = await start(dirs.a.path)
    const bootstrap = bootstrapOf(a)
    let b = await start(dirs.b.path, { bootstrap, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] })
    while (a.host.dht.routingTableSize() === 0) await systemClock.sleep(20)
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob', handler: 'echo' })
    const session = await a.openSession(alice, bob.eid)
    expect((await a.send({ from: alice, to: bob.eid, message: text('m1') })).outcome).toBe('task')
    const before = await a.locators.resolve(bob.eid, { fresh: true })
    const old: Uint8Array[] = []
    for await (const bytes of a.host.dht.values(locatorKey(bob.eid))) old.push(bytes.slice())

    await stop(b)
    await expect.poll(() => session.info().state, { timeout: 15_000 }).toBe('disconnected')
    b = await start(dirs.b.path, { bootstrap, listen: ['/ip4/127.0.0.2/udp/0/quic-v1'] })
    expect(b.host.addresses().every((address) => address.startsWith('/ip4/127.0.0.2/'))).toBe(true)
    await expect.poll(() => session.info().state, { timeout: 30_000, interval: 100 }).toBe('established')
    expect(await a.send({ from: alice, to: bob.eid, message: text('m2') })).toMatchObject({ outcome: 'task' })
    expect(a.sessions.list().map(({ id }) => id)).toEqual([session.info().id])
    expect(b.sessions.list().map(({ id }) => id)).toEqual([session.info().id])

    await expect.poll(async () => (await a.locators.resolve(bob.eid, { fresh: true })).gen, { timeout: 15_000 }).toBeGreaterThan(before.gen)
    for (const bytes of old) await a.host.dht.put(locatorKey(bob.eid), bytes).catch(() => undefined)
    const after = await a.locators.resolve(bob.eid, { fresh: true })
    expect(after.gen).toBeGreaterThan(before.gen)
    expect(after.address.addrs.every((address) => address.startsWith('/ip4/127.0.0.2/'))).toBe(true)
  }, 90_000)

  it('[PSS-07] a request that the killed side had taken is answered by its next process, under the same task', async () => {
    const dirs = { a: directory(), b: directory() }
    const a = await start(dirs.a.path)
    const bootstrap = bootstrapOf(a)
    let b = await start(dirs.b.path, { bootstrap })
    while (a.host.dht.routingTableSize() === 0) await systemClock.sleep(20)
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob' })
    const pending = a.send({ from: alice, to: bob.eid, message: text('m1') }, { waitMs: 60_000 })
    await expect.poll(async () => (await b.todos.list({})).todos.length, { timeout: 15_000 }).toBe(1)
    const id = (await b.todos.list({})).todos[0]?.id
    await stop(b)
    b = await start(dirs.b.path, { bootstrap })
    await b.onTask('bob', async () => ({ text: 'done in the next life' }))
    expect(await pending).toMatchObject({ outcome: 'task', task: { id, status: { state: 'TASK_STATE_COMPLETED' } } })
    expect((await b.todos.list({})).todos).toHaveLength(1)
  }, 90_000)
})
