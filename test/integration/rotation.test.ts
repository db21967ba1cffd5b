import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { homeOf } from '../../src/identity/agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { SessionEvent } from '../../src/sessions/session.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const opened: { node: RookeryNode | undefined; dir: ReturnType<typeof nodeDir> }[] = []

afterEach(async () => {
  for (const { node, dir } of opened.splice(0).reverse()) {
    await node?.stop()
    dir.remove()
  }
})

async function start(bootstrap: RookeryNode | undefined, dir = nodeDir()): Promise<{ node: RookeryNode; dir: ReturnType<typeof nodeDir> }> {
  const entry: { node: RookeryNode | undefined; dir: ReturnType<typeof nodeDir> } = { node: undefined, dir }
  opened.push(entry)
  const peers = bootstrap?.host.addresses().map((address) => `${address}/p2p/${bootstrap.peer}`) ?? []
  entry.node = await createNode({ ...LOOPBACK, bootstrap: peers, dataDir: dir.path })
  return entry as { node: RookeryNode; dir: ReturnType<typeof nodeDir> }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await systemClock.sleep(20)
}

async function two() {
  const { node: a, dir } = await start(undefined)
  const { node: b } = await start(a)
  await until(() => [a, b].every((one) => one.host.peers().length > 0 && one.host.dht.routingTableSize() > 0))
  const alice = await a.addAgent({ name: 'alice', handler: 'echo' })
  const bob = await b.addAgent({ name: 'bob', handler: 'echo' })
  return { a, b, dir, alice, bob }
}

const message = (messageId: string, text = 'hello') => ({ messageId, role: 'ROLE_USER', parts: [{ text }] })
const keyFile = (dir: { path: string }, name: string) => readFileSync(join(dir.path, 'agents', `${name}.json`), 'utf8')

describe('an agent that rotates', () => {
  it('[PSS-21] [G-73] keeps its session: the peer sees the new EID, the next epoch proves it, the old secret is gone from the disk', async () => {
    const { a, b, dir, alice, bob } = await two()
    const session = await a.openSession(alice, bob.eid)
    const before = alice.did
    const oldSeed = JSON.parse(keyFile(dir, 'alice')).seed as string
    const events: SessionEvent[] = []
    b.sessions.onEvent((event) => events.push(event))
    const report = await a.rotate(alice)
    expect(report.old).toBe(before)
    expect(report.did).toBe(alice.did)
    expect(alice.did).not.toBe(before)
    await until(() => events.some(({ kind }) => kind === 'resumed'))
    expect(events.find(({ kind }) => kind === 'rotated')).toMatchObject({ side: 'remote', old: before, new: alice.did })
    const [theirs] = b.sessions.list()
    expect(theirs).toMatchObject({ id: session.info().id, remote: alice.did, state: 'established' })
    expect(session.info()).toMatchObject({ local: alice.did, state: 'established' })
    await until(() => !keyFile(dir, 'alice').includes(oldSeed))
    expect(JSON.parse(keyFile(dir, 'alice')).formerly).toEqual([
      { did: before, rotatedAtMs: expect.any(Number), certificate: expect.any(String) }
    ])
    expect(await a.send({ from: alice, to: bob.eid, message: message('m1') })).toMatchObject({ outcome: 'task' })
    expect(a.sessions.list()).toHaveLength(1)
  })

  it('keeps its tasks and those that it gave to others, under both names', async () => {
    const { a, b, alice, bob } = await two()
    const given = await a.send({ from: alice, to: bob.eid, message: message('m1') })
    expect(given).toMatchObject({ outcome: 'task' })
    const got = await b.send({ from: bob, to: alice.eid, message: message('m2') })
    expect(got).toMatchObject({ outcome: 'task' })
    const old = alice.eid
    await a.rotate(alice)
    await until(() => b.sessions.list()[0]?.remote === alice.did)
    // the same message again is the same task, whoever of the two now has another name
    expect((await a.send({ from: alice, to: bob.eid, message: message('m1') })).task?.id).toBe(given.task?.id)
    expect((await b.send({ from: bob, to: old, message: message('m2') })).task?.id).toBe(got.task?.id)
    expect((await a.todos.list({ agent: homeOf(alice) })).todos.map(({ id }) => id)).toEqual([got.task?.id])
  })

  it('[DS-04] [G-22] withdraws what the old EID published: locator, joins; hands its space over by next and prev', async () => {
    const { a, b, alice, bob } = await two()
    await a.spaces.announce({ name: SPACE, curator: alice })
    await a.spaces.join({ name: SPACE, agent: alice, tags: ['seller'] })
    const old = alice.eid
    await a.rotate(alice)
    await until(async () => {
      const { members, spaces } = await b.spaces.find({ name: SPACE })
      return members.length === 1 && members[0]?.did === alice.did && spaces.some(({ curator }) => curator === alice.did)
    })
    expect((await a.spaces.list()).map(({ agent, role }) => `${role} ${agent}`).sort()).toEqual([
      `curator ${alice.did}`,
      `member ${alice.did}`
    ])
    await expect(b.locators.resolve(old, { fresh: true })).rejects.toMatchObject({
      code: expect.stringMatching(/^AGENT_(WITHDRAWN|ROTATED)$/)
    })
    await expect(a.locators.resolve(old)).rejects.toMatchObject({ code: 'AGENT_ROTATED', data: { did: alice.did } })
    expect((await b.locators.resolve(alice.eid, { fresh: true })).mailboxKey).toEqual(alice.mailboxKey)
    await b.spaces.join({ name: SPACE, agent: bob })
    expect((await b.spaces.find({ name: SPACE })).members.map(({ curator }) => curator)).toEqual([alice.did, alice.did])
  })

  it('answers at its old A2A URL with an error that names the new DID', async () => {
    const { a, alice } = await two()
    const url = a.agentUrl(alice) as string
    const did = alice.did
    await a.rotate(alice)
    const answer = await fetch(`${url}/.well-known/agent-card.json`)
    expect(answer.status).toBe(410)
    expect(await answer.text()).toContain(alice.did)
    expect(url).toContain(encodeURIComponent(did).replaceAll('%3A', ':'))
    expect((await fetch(`${a.agentUrl(alice)}/.well-known/agent-card.json`)).status).toBe(200)
  })

  it('[PSS-21] is known again after both restarts, though its peer was away when it rotated', async () => {
    const first = await two()
    const { a, b, alice, bob } = first
    const session = await a.openSession(alice, bob.eid)
    const { id } = session.info()
    const entry = opened.find(({ node }) => node === b)
    await b.stop()
    const before = alice.did
    expect(await a.rotate(alice)).toMatchObject({ unacknowledged: 1 })
    await a.stop()
    const { node: a2 } = await start(undefined, first.dir)
    const { node: b2 } = await start(a2, entry?.dir)
    expect(a2.agents.get('alice').did).toBe(alice.did)
    await until(() => b2.sessions.list().some((info) => info.id === id && info.remote === alice.did && info.state === 'established'))
    await until(() => !('seed' in JSON.parse(keyFile(first.dir, 'alice')).formerly[0]))
    expect(before).not.toBe(alice.did)
  })
})
