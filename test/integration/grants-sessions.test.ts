import { afterEach, describe, expect, it } from 'vitest'
import { controlHandlers } from '../../src/api/control-handlers.ts'
import { homeOf } from '../../src/identity/agent.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const closing: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function node(bootstrap: RookeryNode[] = []): Promise<RookeryNode> {
  const dir = nodeDir()
  const peers = bootstrap.flatMap((one) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`))
  const started = await createNode({
    ...LOOPBACK,
    http: { enabled: false },
    grants: { peers: 'required' },
    bootstrap: peers,
    dataDir: dir.path
  })
  closing.push(async () => {
    await started.stop()
    dir.remove()
  })
  return started
}

/** Bob's node and Alice's, which knows where he is. */
async function pair() {
  const there = await node()
  const here = await node([there])
  const bob = await there.addAgent({ name: 'bob', handler: 'echo' })
  const alice = await here.addAgent({ name: 'alice' })
  const send = (messageId: string, from: HostedAgent = alice) =>
    here.send({ from, to: bob.eid, message: { messageId, role: 'ROLE_USER', parts: [{ text: 'hello' }] } }, { waitMs: 20_000 })
  return { there, here, bob, alice, send }
}

const todosOf = async (one: RookeryNode) => (await one.todos.list({})).todos

describe('a grant over a session', () => {
  it('[TD-07] [TD-37] refuses an agent that found another and read its card, until that one’s owner lets it in; then it makes tasks as itself', async () => {
    const { there, here, bob, alice, send } = await pair()
    await here.openSession(alice, bob.eid)
    await expect(send('m1')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await todosOf(there)).toEqual([])
    const { grant } = await there.grants.create({ agent: homeOf(bob), name: 'alice', peer: alice.eidHex })
    expect(await send('m1')).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })
    expect((await todosOf(there)).map(({ caller, door }) => [caller, door])).toEqual([[`eid:${alice.eidHex}`, 'a2a-pss']])

    await here.rotate(alice)
    expect(await send('m2')).toMatchObject({ outcome: 'task' })
    expect((await todosOf(there)).map(({ caller }) => caller)).toEqual([`eid:${homeOf(alice)}`, `eid:${homeOf(alice)}`])

    await there.grants.revoke(grant.id)
    await expect(send('m3')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await todosOf(there)).toHaveLength(2)
  })

  it('[TD-07] [G-13] keeps no mail of an agent without a grant, and drops what it left when its grant ends before the wake', async () => {
    const { there, here, bob, alice } = await pair()
    await there.sleep(bob)
    const leave = (messageId: string) =>
      here.send({ from: alice, to: bob.eid, message: { messageId, role: 'ROLE_USER', parts: [{ text: 'later' }] } }, { via: 'mailbox' })
    expect(await leave('m1')).toMatchObject({ outcome: 'asleep', asleep: { queued: false } })
    const { grant } = await there.grants.create({ agent: homeOf(bob), name: 'alice', peer: alice.eidHex })
    expect(await leave('m2')).toMatchObject({ outcome: 'queued' })
    await there.grants.revoke(grant.id)
    expect(await there.wake(bob)).toMatchObject({ accepted: 0, discarded: 1, events: [{ reason: 'NO_GRANT' }] })
    expect(await todosOf(there)).toEqual([])
  })

  it('[TD-19] [TD-R3] has its bucket over a session too, and says when to come again; what an outbox undertook waits for the grant, at nobody else', async () => {
    const { there, here, bob, alice, send } = await pair()
    const entry = await here.mail.post({
      from: alice,
      to: bob.eid,
      message: { messageId: 'later', role: 'ROLE_USER', parts: [{ text: 'x' }] }
    })
    await expect.poll(() => here.mail.progress(entry).lastError).toBe('PERMISSION_DENIED')
    expect(await todosOf(there)).toEqual([])
    await there.grants.create({ agent: homeOf(bob), name: 'alice', peer: alice.eidHex, limits: { burst: 2, perMin: 1 } })
    await here.mail.retry(entry)
    await expect.poll(() => here.mail.outbox.get(entry.id)?.state.name).not.toBe('queued-here')
    expect(await send('m1')).toMatchObject({ outcome: 'task' })
    await expect(send('m2')).rejects.toMatchObject({ code: 'SEND_RATE_LIMITED', data: { retryAfterSec: expect.any(Number) } })
    expect(await send('m1')).toMatchObject({ outcome: 'task' })
    expect(await todosOf(there)).toHaveLength(2)
    expect(there.sendBuckets.counts()).toMatchObject({ refused: 2 })
  })

  it('[TD-06] [G-73] is vended by a friend request that a person approves, goes along when the peer rotates, and its end is told', async () => {
    const { there, here, bob, alice, send } = await pair()
    const owner = controlHandlers(there)
    const holder = controlHandlers(here)
    const context = { signal: new AbortController().signal, progress() {}, event() {}, async emit() {}, afterAnswer() {} }
    expect(await holder['friends.request']({ did: bob.did, note: 'hello' }, context)).toMatchObject({ state: 'pending', told: true })
    await expect(send('m1')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await owner.status({}, context)).toMatchObject({
      friendRequests: 1,
      bounds: { 'grants.sendBurst': 20, 'grants.sendPerMin': 10 }
    })
    expect(await owner['friends.list']({}, context)).toMatchObject({
      waiting: 1,
      friends: [{ direction: 'in', did: alice.did, note: 'hello' }]
    })
    await owner['friends.approve']({ did: alice.did }, context)
    expect(await send('m1')).toMatchObject({ outcome: 'task' })
    const shown = async () => (await holder['friends.show']({ did: bob.did }, context)).friends[0]
    await expect.poll(async () => (await shown())?.credential).toMatch(/^rkg_/)

    await here.rotate(alice)
    expect(await send('m2')).toMatchObject({ outcome: 'task' })
    expect((await owner['friends.list']({}, context)).friends).toMatchObject([{ did: alice.did, state: 'approved' }])

    await owner['friends.remove']({ did: alice.did }, context)
    await expect(send('m3')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    await expect.poll(async () => (await shown())?.state).toBe('ended')
  })
})
