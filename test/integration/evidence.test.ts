import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { isZero } from '../../protocol/bytes.ts'
import { callControl } from '../../src/api/control-client.ts'
import { main } from '../../src/cli/main.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { DurableSession } from '../../src/sessions/durable-session.ts'
import type { LiveSession } from '../../src/sessions/live-session.ts'
import type { Session } from '../../src/sessions/session.ts'
import { SessionStore } from '../../src/sessions/session-store.ts'
import { openStore } from '../../src/store/open-store.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { checkpointPair, signedBy } from '../unit/fakes/contradictions.ts'
import { lie } from '../unit/fakes/liar.ts'

const opened: { stop(): Promise<void>; dir: ReturnType<typeof nodeDir> }[] = []
afterEach(async () => {
  for (const { stop, dir } of opened.splice(0).reverse()) {
    await stop()
    dir.remove()
  }
})

async function node(config: ConfigInput = {}): Promise<RookeryNode> {
  const dir = nodeDir()
  const started = await createNode({ ...LOOPBACK, ...config, dataDir: dir.path })
  opened.push({ stop: () => started.stop(), dir })
  return started
}

const bootstrapOf = (one: RookeryNode) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`)

async function connected(...nodes: RookeryNode[]): Promise<void> {
  while (nodes.some((one) => one.host.dht.routingTableSize() < nodes.length - 1)) await systemClock.sleep(20)
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await systemClock.sleep(20)
}

describe('three nodes and a proof', () => {
  it('[TRM-07] [TRM-08] close and refuse sessions with the target on the word of its own signatures, and a third that saw nothing agrees', async () => {
    const a = await node()
    const m = await node({ bootstrap: bootstrapOf(a) })
    const c = await node({ bootstrap: bootstrapOf(a) })
    await connected(a, m, c)
    const alice = await a.addAgent({ name: 'alice' })
    const mallory = await m.addAgent({ name: 'mallory' })
    const carol = await c.addAgent({ name: 'carol' })
    const session = await a.openSession(alice, mallory.eid)

    expect(await a.evidence.found(checkpointPair(signedBy(mallory.signer)))).toBe('challenged')
    await session.closed
    await expect(a.openSession(alice, mallory.eid)).rejects.toMatchObject({ code: 'AGENT_REFUSED', kind: 'refused' })
    await expect(m.openSession(mallory, alice.eid)).rejects.toMatchObject({ code: 'SESSION_REFUSED', data: { reason: 'policy' } })

    await until(() => a.evidence.view(mallory.eid).ticket === 'published')
    expect(c.evidence.list()).toEqual(c.evidence.standing(mallory.eid) === 'nominal' ? [] : [c.evidence.view(mallory.eid)])
    expect(await c.evidence.check(mallory.eid)).toBe('challenged')
    await expect(c.openSession(carol, mallory.eid)).rejects.toMatchObject({ code: 'AGENT_REFUSED' })
    expect((await c.openSession(carol, alice.eid)).info().state).toBe('established')
  })
})

describe('a verdict and the sessions with its target', () => {
  it('[TRM-08] ends at the start what an earlier run left, also parked sessions that nothing would take up again', async () => {
    const dir = nodeDir()
    const first = await createNode({ ...LOOPBACK, dataDir: dir.path })
    const m = await node()
    const alice = await first.addAgent({ name: 'alice' })
    const mallory = await m.addAgent({ name: 'mallory' })
    first.locators.resolve = async () => ({ address: { peer: m.peer, addrs: m.host.addresses() } }) as never
    const { id } = (await first.openSession(alice, mallory.eid)).info()
    first.sessions.dismiss = async () => {} // the process dies before it gets there
    expect(await first.evidence.found(checkpointPair(signedBy(mallory.signer)))).toBe('challenged')
    expect(first.sessions.list()).toMatchObject([{ id, state: 'established' }])
    await first.stop()
    const store = await openStore(dir.path, { software: 'test' })
    const sessions = new SessionStore(store)
    for await (const record of sessions.records())
      await sessions.commit([sessions.record({ ...record, activeAtMs: record.activeAtMs - 7_200_000 })])
    await store.close()

    const second = await createNode({ ...LOOPBACK, dataDir: dir.path })
    opened.push({ stop: () => second.stop(), dir })
    while ((await second.sessions.ended()).length === 0) await systemClock.sleep(20)
    expect(await second.sessions.ended()).toMatchObject([{ id, reason: 'policy' }])
    expect(await second.sessions.listAll()).toEqual([])
  })

  it('[TRM-08] ends one that was opened while the verdict came', async () => {
    const a = await node()
    const m = await node()
    const alice = await a.addAgent({ name: 'alice' })
    const mallory = await m.addAgent({ name: 'mallory' })
    a.locators.resolve = async () => ({ address: { peer: m.peer, addrs: m.host.addresses() } }) as never
    await a.evidence.found(checkpointPair(signedBy(mallory.signer)))
    a.evidence.admit = () => {} // it was asked before the verdict was there
    const session = await a.openSession(alice, mallory.eid)
    expect(await session.closed).toEqual({ reason: 'policy' })
  })
})

describe('a peer that signs two checkpoints for one number', () => {
  it('[TRM-05] [TRM-06] [TRM-07] [TRM-08] is revoked over QUIC, told why, and refused by a third node that fetched the ticket', async () => {
    const a = await node()
    const m = await node({ bootstrap: bootstrapOf(a) })
    const c = await node({ bootstrap: bootstrapOf(a) })
    await connected(a, m, c)
    const alice = await a.addAgent({ name: 'alice' })
    const mallory = await m.addAgent({ name: 'mallory' })
    const carol = await c.addAgent({ name: 'carol' })
    const session = await a.openSession(alice, mallory.eid)
    const { keys } = ((session as DurableSession).epoch as LiveSession).established
    await until(() => m.sessions.list().some(({ id, state }) => id === session.info().id && state === 'established'))
    const theirs = (await m.sessions.get(session.info().id)) as Session

    lie(theirs, mallory.signer, 7n, 1)
    lie(theirs, mallory.signer, 7n, 2)
    expect((await session.closed).reason).toBe('revoked')
    expect(
      [keys.i2r, keys.r2i]
        .flatMap(({ key, iv, chain }) => [key, iv, chain])
        .concat(keys.export)
        .every(isZero)
    ).toBe(true)
    expect((await theirs.closed).reason).toBe('revoked')
    await until(() => m.evidence.view(mallory.eid).evidence !== undefined)
    expect(m.evidence.view(mallory.eid).evidence).toMatchObject({ kind: 'checkpoint', origin: 'told', accuser: alice.did })

    await until(() => a.evidence.view(mallory.eid).ticket === 'published')
    expect(await c.evidence.check(mallory.eid)).toBe('challenged')
    await expect(c.openSession(carol, mallory.eid)).rejects.toMatchObject({ code: 'AGENT_REFUSED' })
    await expect(m.openSession(mallory, carol.eid)).rejects.toMatchObject({ code: 'SESSION_REFUSED', data: { reason: 'policy' } })
    expect(await a.sessions.listAll()).toEqual([])
  })
})

describe('a copied data directory', () => {
  it('[TRM-08] does not start while its identity answers elsewhere, whole or under another PeerId, and starts once it does not', async () => {
    const a = await node()
    const first = await node({ bootstrap: bootstrapOf(a) })
    await connected(a, first)
    const alice = await first.addAgent({ name: 'alice' })
    await until(() => a.evidence.standing(alice.eid) === 'nominal')
    await a.locators.resolve(alice.eid)
    const { dir: original } = opened.at(-1) as { dir: ReturnType<typeof nodeDir> }
    const [whole, agentsOnly, later] = [nodeDir(), nodeDir(), nodeDir()]
    for (const dir of [whole, agentsOnly, later]) opened.push({ stop: async () => {}, dir })
    cpSync(original.path, whole.path, { recursive: true, force: true })
    cpSync(original.path, later.path, { recursive: true, force: true })
    cpSync(join(original.path, 'agents'), join(agentsOnly.path, 'agents'), { recursive: true })
    const config = { ...LOOPBACK, bootstrap: bootstrapOf(a) }
    for (const dir of [agentsOnly, whole]) {
      await expect(createNode({ ...config, dataDir: dir.path })).rejects.toMatchObject({
        code: 'IDENTITY_ELSEWHERE',
        kind: 'conflict',
        value: alice.did,
        data: { peer: first.peer }
      })
    }
    await first.stop()
    const restored = await createNode({ ...config, dataDir: later.path })
    opened.push({ stop: () => restored.stop(), dir: later })
    expect(restored.agents.get('alice').did).toBe(alice.did)
  })
})

describe('rookery standing', () => {
  it('[TRM-08] shows who is refused and why, for people and for programs, and asks the registrars about one', async () => {
    const served = await node()
    const { dir } = opened.at(-1) as { dir: ReturnType<typeof nodeDir> }
    await openControl(served, dir.path)
    const alice = await served.addAgent({ name: 'alice' })
    const said: string[] = []
    const streams = { stdout: { write: (text: string) => said.push(text) }, stderr: { write: () => true } }
    const run = (...argv: string[]) =>
      main(['--data', dir.path, '--no-color', ...argv], { streams: streams as never, signal: new AbortController().signal, env: {} })
    expect(await run('standing')).toBe(0)
    expect(said.join('')).toContain('nobody is refused')

    const mallory = signedBy(alice.signer)
    await served.evidence.found(checkpointPair(mallory))
    said.length = 0
    expect(await run('standing')).toBe(0)
    expect(said.join('')).toMatch(new RegExp(`${alice.did} +challenged +checkpoint`))
    said.length = 0
    expect(await run('standing', 'alice', '--json')).toBe(0)
    expect(JSON.parse(said.join(''))).toMatchObject([
      { did: alice.did, standing: 'challenged', refused: true, ledger: 'none', evidence: { kind: 'checkpoint', origin: 'own' } }
    ])
    await expect(callControl(dir.path, 'standing', { did: 'did:web:x' })).rejects.toMatchObject({ code: 'DID_INVALID' })
  })
})
