import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { SFC_SCOPE, type SfcBlock } from '../../protocol/session/sfc.ts'
import { nodeStatus } from '../../src/api/node-status.ts'
import type { RookeryNode } from '../../src/node.ts'
import { createNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Session } from '../../src/sessions/session.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { agentOf, type Node, nodeOn } from '../unit/sessions/memory-net.ts'
import { addressOf, startHost, stopHosts } from './host-fixture.ts'

const A2A = 0x02
const LIVE = 0x85
const text = (value: string) => new TextEncoder().encode(value)
const block: SfcBlock = {
  site: 'any',
  scopes: SFC_SCOPE.SEND_MESSAGES | SFC_SCOPE.STREAM | SFC_SCOPE.CREATE_TASKS | SFC_SCOPE.MAILBOX,
  eseBytesMax: 0,
  messagesPerMinuteMax: 600,
  payloadBytesMax: 4_096,
  sessionSecondsMax: 3_600,
  storedBytesMax: 900,
  concurrentTasksMax: 1,
  region: 0
}

const nodes: Node[] = []
const running: RookeryNode[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.stop()))
  await Promise.all(nodes.splice(0).map((one) => one.manager.stop()))
  await stopHosts()
})

async function two(offer: Partial<SfcBlock> = {}) {
  const a = await nodeOn(await startHost(), systemClock, [agentOf(0xa1)], {}, 1)
  const b = await nodeOn(await startHost(), systemClock, [agentOf(0xb2)], { contract: { ...block, ...offer } }, 2)
  nodes.push(a, b)
  const open = (contract?: Partial<SfcBlock>) =>
    a.manager.open(agentOf(0xa1), agentOf(0xb2).eid, addressOf(b.host), contract === undefined ? {} : { contract })
  return { a, b, open }
}

describe('contracts over QUIC', () => {
  it('[SFC-01] [SFC-03] [SFC-05] are agreed on in the two round trips of the handshake, and both sides hold the same block', async () => {
    const { b, open } = await two()
    const session = await open({ payloadBytesMax: 4_096 })
    expect(session.info()).toMatchObject({ transport: 'quic', roundTrips: 2 })
    expect(session.contract?.block).toEqual({ ...block })
    expect(b.sessions[0]?.contract?.block).toEqual(session.contract?.block)
  })

  it('[SFC-07] that fall short end in no session, and the field is named', async () => {
    const { b, open } = await two()
    await expect(open({ storedBytesMax: 901 })).rejects.toMatchObject({ code: 'CONTRACT_REFUSED', field: 'sfc.storedBytesMax' })
    expect(b.sessions).toHaveLength(0)
    await (await open()).send(1, A2A, text('a plain session is still to be had'))
  })

  it('[SFC-08] let through what keeps to them, refuse the rest where it begins, and show the use', async () => {
    const { b, open } = await two()
    const session = await open({})
    await session.send(1, A2A, new Uint8Array(4_096))
    await session.send(1, LIVE, text('live'))
    await b.received(2)
    await expect(session.send(1, A2A, new Uint8Array(4_097))).rejects.toMatchObject({
      code: 'CONTRACT_LIMIT',
      field: 'sfc.payloadBytesMax'
    })
    const details = await session.details()
    expect(details.rttMs).toBeGreaterThan(0)
    expect(details.contract?.usage.sent).toMatchObject({ messages: 2, payloadBytes: 4_100, payloadBytesLargest: 4_096 })
    expect(b.sessions[0]?.info().contract?.usage.received).toMatchObject({ messages: 2, payloadBytes: 4_100 })
  })

  it('[SFC-09] [G-46] end by a teardown of the node itself when their seconds are over', async () => {
    const { b, open } = await two({ sessionSecondsMax: 1 })
    const session = await open({})
    await session.send(1, A2A, text('in time'))
    expect(await session.closed).toEqual({ reason: 'contract' })
    expect(await b.sessions[0]?.closed).toEqual({ reason: 'contract' })
    expect(session.info().unacked).toBe(0)
  })
})

function wholeContract() {
  const { scopes: _bits, ...limits } = block
  return { ...limits, scopes: ['send-messages' as const, 'create-tasks' as const, 'mailbox' as const] }
}

/** A node with one agent that reaches all others at the given one. */
async function caller(there: RookeryNode) {
  const level = new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' })
  const here = await createNode({ ...LOOPBACK }, { level, nodeSeed: new Uint8Array(32).fill(1) })
  running.push(here)
  const address = { peer: there.peer, addrs: there.host.addresses() }
  here.locators.resolve = async () => ({ address }) as never
  return { here, asker: await here.addAgent({ name: 'asker' }) }
}

/** Two whole nodes; the second offers a contract. */
async function wholeNodes(mode: 'always_on' | 'sleep' = 'always_on') {
  const make = async (seed: number, config: Parameters<typeof createNode>[0]) => {
    const level = new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' })
    const node = await createNode({ ...LOOPBACK, http: { enabled: false }, ...config }, { level, nodeSeed: new Uint8Array(32).fill(seed) })
    running.push(node)
    return node
  }
  const there = await make(2, { sessions: { contract: wholeContract(), contracts: { worker: wholeContract(), guard: 'off' } } })
  const here = await make(1, { bootstrap: there.host.addresses().map((address) => `${address}/p2p/${there.peer}`) })
  while ([here, there].some(({ host }) => host.peers().length === 0 || host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  const worker = await there.addAgent({ name: 'worker', mode })
  const asker = await here.addAgent({ name: 'asker' })
  const session: Session = await here.openSession(asker, worker.eid, { contract: {} })
  const ask = (messageId: string, bytes = 10) =>
    here.send(
      { from: asker, to: worker.eid, message: { messageId, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(bytes) }] } },
      { waitMs: 0 }
    )
  return { here, there, worker, asker, session, ask }
}

describe('contracts of whole nodes', () => {
  it('[SFC-08] bound the tasks that run at once: one more is refused where it is asked, until one has ended', async () => {
    const { there, worker, session, ask } = await wholeNodes()
    expect(await ask('m1')).toMatchObject({ outcome: 'task' })
    expect(session.info().contract?.usage.sent.concurrentTasks).toBe(1)
    await expect(ask('m2')).rejects.toMatchObject({ code: 'RATE_LIMITED', message: expect.stringContaining('concurrentTasksMax') })
    expect(session.info().state).toBe('established')
    const claimed = await there.todos.claim(worker.eidHex, 'test', { leaseMs: 10_000 })
    await there.todos.complete(claimed?.id ?? '', 'test', [])
    const theirs = await there.session(session.info().id)
    expect(theirs.info().contract?.usage.received.concurrentTasks).toBe(0)
  })

  it('[SFC-08] [TRM-05] [G-52] close the session of a caller that holds more tasks than it may, who is refused from then on and not accused', async () => {
    const { there, asker, session, ask } = await wholeNodes()
    await ask('m1')
    session.contract?.release('sent', 'concurrentTasks', 1) // a caller that does not count
    const again = ask('m2').catch((error: unknown) => error)
    expect(await session.closed).toEqual({ reason: 'contract' })
    expect(await again).toMatchObject({ message: expect.stringContaining('contract') })
    await expect(ask('m3')).rejects.toMatchObject({ message: expect.stringContaining('policy') })
    expect(there.sessions.list()).toEqual([])
    expect(there.evidence.view(asker.eid)).toMatchObject({ standing: 'nominal', refused: true, ticket: 'none' })
  })

  it('[SFC-08] [SFC-09] count the tasks of a caller on after a restart of the worker, and let go of one that ends then', async () => {
    const dir = nodeDir()
    try {
      const config = { ...LOOPBACK, dataDir: dir.path, sessions: { contract: wholeContract() } }
      const first = await createNode(config)
      const worker = await first.addAgent({ name: 'worker' })
      const { here, asker } = await caller(first)
      const { id } = (await here.openSession(asker, worker.eid, { contract: {} })).info()
      const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'x' }] }
      expect(await here.send({ from: asker, to: worker.eid, message }, { waitMs: 0 })).toMatchObject({ outcome: 'task' })
      await first.stop()

      const again = await createNode(config)
      running.push(again)
      const tasks = async () => (await again.session(id)).info().contract?.usage.received.concurrentTasks
      expect(await tasks()).toBe(1)
      const claimed = await again.todos.claim(worker.eidHex, 'test', { leaseMs: 10_000 })
      await again.todos.complete(claimed?.id ?? '', 'test', [])
      while ((await tasks()) !== 0) await systemClock.sleep(20)
      await Promise.all(running.splice(0).map((one) => one.stop()))
    } finally {
      dir.remove()
    }
  })

  it('[SFC-06] [OD-30] stand in the status, limit by limit', async () => {
    const { there } = await wholeNodes()
    const { bounds } = await nodeStatus(there)
    expect(bounds).toMatchObject({ 'sessions.contract.payloadBytesMax': 4_096, 'sessions.contract.concurrentTasksMax': 1 })
    expect(bounds).toMatchObject({ 'sessions.contracts.worker.messagesPerMinuteMax': 600 })
    expect(Object.keys(bounds).filter((name) => name.startsWith('sessions.contracts.guard'))).toEqual([])
  })

  it('[SFC-08] bound what is stored for an agent that sleeps', async () => {
    const { session, ask } = await wholeNodes('sleep')
    expect(await ask('m1', 100)).toMatchObject({ outcome: 'queued' })
    const stored = session.info().contract?.usage.sent.storedBytes ?? 0
    expect(stored).toBeGreaterThan(100)
    await expect(ask('m2', 700)).rejects.toThrow(/storedBytesMax/)
    expect(session.info()).toMatchObject({ state: 'established', contract: { usage: { sent: { storedBytes: stored } } } })
  })
})
