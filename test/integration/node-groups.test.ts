import { afterEach, describe, expect, it } from 'vitest'
import type { Group } from '../../src/groups/groups.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const opened: { node: RookeryNode; dir: ReturnType<typeof nodeDir> }[] = []

afterEach(async () => {
  for (const { node, dir } of opened.splice(0).reverse()) {
    await node.stop()
    dir.remove()
  }
})

async function start(bootstrap: RookeryNode | undefined, settings: { groups?: { accept: 'nobody' } } = {}): Promise<RookeryNode> {
  const dir = nodeDir()
  const peers = bootstrap?.host.addresses().map((address) => `${address}/p2p/${bootstrap.peer}`) ?? []
  const node = await createNode({ ...LOOPBACK, ...settings, bootstrap: peers, dataDir: dir.path })
  opened.push({ node, dir })
  return node
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await systemClock.sleep(20)
}

async function two() {
  const a = await start(undefined)
  const b = await start(a)
  await until(() => [a, b].every((one) => one.host.dht.routingTableSize() > 0))
  const alice = await a.addAgent({ name: 'alice' })
  const bob = await b.addAgent({ name: 'bob' })
  const own = await a.groups.create(alice, { name: 'board' })
  await own.invite(bob.eid)
  await until(() => b.groups.list().length === 1)
  return { a, b, alice, bob, own, theirs: b.groups.list()[0] as Group }
}

describe('groups of whole nodes', () => {
  it('[PSS-24] [D-31] a member that rotates is one under its new EID; what it wrote under the old one is erased everywhere', async () => {
    const { a, b, bob, own, theirs } = await two()
    await theirs.set('k', 'old')
    const before = bob.eid
    await until(() => own.get('k', before) === 'old')
    await b.rotate(bob)
    expect(theirs.isOver).toBe(true)
    await until(() => own.members().includes(bob.did) && b.groups.list().some((group) => group.members().includes(bob.did)))
    expect(own.get('k', before)).toBeUndefined()
    const again = b.groups.get(bob, 'board')
    await again.set('k', 'new')
    await until(() => own.get('k', bob.eid) === 'new')
    expect(a.groups.list()).toHaveLength(1)
  }, 30_000)

  it('[G-54] an owner that rotates stays the owner: members take the list that its new EID signs', async () => {
    const { a, b, alice, bob, theirs } = await two()
    await a.rotate(alice)
    await until(() => theirs.view().owner === alice.did && theirs.members().includes(alice.did))
    const own = a.groups.get(alice, 'board')
    expect(own.view()).toMatchObject({ role: 'owner', owner: alice.did })
    await theirs.set('k', 1)
    await until(() => own.get('k', bob.eid) === 1)
    await own.remove(bob.eid)
    await until(() => b.groups.list().length === 0)
  }, 30_000)

  it('passes over invitations where groups.accept says so', async () => {
    const a = await start(undefined)
    const b = await start(a, { groups: { accept: 'nobody' } })
    await until(() => [a, b].every((one) => one.host.dht.routingTableSize() > 0))
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob' })
    const own = await a.groups.create(alice, { name: 'board' })
    await own.invite(bob.eid)
    await until(() => own.view().members.some(({ did, linked }) => did === bob.did && linked))
    await a.sessions.get(a.sessions.list()[0]?.id ?? '').then((session) => session?.details())
    expect(b.groups.list()).toEqual([])
  }, 30_000)
})
