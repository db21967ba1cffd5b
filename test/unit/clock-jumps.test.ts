import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { announceKey, joinKey, locatorKey } from '../../protocol/discovery/dht-key.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { joinType } from '../../protocol/records/join.ts'
import { locatorType } from '../../protocol/records/locator.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { Outbox } from '../../src/delivery/outbox.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { SETTLE_MS, SettledTime } from '../../src/platform/settled-time.ts'
import { openRegistryStore } from '../../src/spaces/registry-store.ts'
import { SeenRecords } from '../../src/spaces/seen-records.ts'
import { Store } from '../../src/store/store.ts'
import { openTodos, principal, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { locatorOf, signedBy, tombstoneOf } from './fakes/contradictions.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, fakeNode, settle } from './fakes/fake-node.ts'
import { ENERGY_ID, joinRecord } from './fakes/fake-records.ts'
import { ENERGY_NAME } from './fakes/space-net.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const [alice, bob] = [fakeAgent('alice'), fakeAgent('bob')]
const AGENT = testAgent(1).eidHex

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
const memoryStore = () => new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))

describe('what a node tells of its agents when its clock jumps', () => {
  /** everybody's but the node's */
  let right: ManualClock
  let own: ManualClock
  let a: FakeNode
  let others: FakeNode[]

  beforeEach(async () => {
    right = new ManualClock()
    own = new ManualClock()
    const network = new FakeNetwork(right)
    a = await fakeNode(network, own, 'a', [alice, bob])
    others = [await fakeNode(network, right, 'b'), await fakeNode(network, right, 'c')]
    network.meet(a.host, ...others.map(({ host }) => host))
    cleanups.push(() => Promise.all([a, ...others].map((node) => node.stop())))
    await a.spaces.announce({ name: ENERGY_NAME, curator: alice })
    await a.spaces.join({ name: ENERGY_NAME, agent: bob, tags: ['solar'] })
    await a.locators.publish(alice)
  })

  async function pass(ms: number, stepMs = MINUTE_MS): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      right.advance(stepMs)
      own.advance(stepMs)
      await settle([a, ...others])
    }
  }
  const at = (key: Uint8Array) => {
    const bytes = others[0]?.host.values.get(toHex(key))
    if (bytes === undefined) throw new Error('the network holds nothing there')
    return bytes
  }
  const held = () => [
    decodeRecord(announceType, at(announceKey(ENERGY_ID))).payload,
    decodeRecord(joinType, at(joinKey(ENERGY_ID, bob.eid))).payload,
    decodeRecord(locatorType, at(locatorKey(alice.eid))).payload
  ]
  const numbers = () => held().map((payload) => ('gen' in payload ? payload.gen : payload.seq))
  async function isFound(): Promise<void> {
    for (const node of others) {
      expect((await node.spaces.find({ name: ENERGY_NAME })).members.map(({ did }) => did)).toEqual([bob.did])
      expect(await node.locators.resolve(alice.eid, { fresh: true })).toMatchObject({ did: alice.did })
    }
  }

  for (const [name, stepMs] of [
    ['a day ahead', DAY_MS],
    ['an hour ahead', HOUR_MS],
    ['an hour back', -HOUR_MS],
    ['a day back', -DAY_MS]
  ] as const) {
    it(`[F085] [DS-19] is signed anew within two minutes of the time that its clock, ${name} for a while, is right again; it vanishes at no time`, async () => {
      await pass(10 * MINUTE_MS)
      const before = numbers()
      own.jumpWall(stepMs)
      await pass(5 * MINUTE_MS)
      await isFound()
      own.jumpWall(-stepMs)
      await pass(2 * MINUTE_MS)
      await isFound()
      const after = held()
      for (const [i, number] of numbers().entries()) expect(number).toBeGreaterThan(before[i] as number)
      for (const { ts } of after) expect(Math.abs(ts * 1_000 - right.nowMs())).toBeLessThanOrEqual(2 * MINUTE_MS)
      for (let i = 0; i < (Math.abs(stepMs) < DAY_MS ? 3 : 26); i++) {
        await pass(HOUR_MS, 10 * MINUTE_MS)
        await isFound()
      }
    })
  }

  it('[F085] goes on after a restart with its clock wrong and another with its clock right', async () => {
    own.jumpWall(DAY_MS)
    await a.restart()
    await pass(5 * MINUTE_MS)
    own.jumpWall(-DAY_MS)
    await a.restart()
    await pass(2 * MINUTE_MS)
    await isFound()
    for (const { ts } of held()) expect(Math.abs(ts * 1_000 - right.nowMs())).toBeLessThanOrEqual(2 * MINUTE_MS)
  })

  it('[F085] withdraws in truth what was withdrawn while its clock was ahead', async () => {
    own.jumpWall(DAY_MS)
    await a.locators.withdraw(alice)
    await a.spaces.leave({ name: ENERGY_NAME, agent: bob })
    own.jumpWall(-DAY_MS)
    await pass(2 * MINUTE_MS)
    const [reader] = others as [FakeNode]
    await expect(reader.locators.resolve(alice.eid, { fresh: true })).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN' })
    expect((await reader.spaces.find({ name: ENERGY_NAME })).members).toEqual([])
  })
})

describe('who took a record while its clock was ahead', () => {
  it('[F085] takes the right one when its clock is right: as a registrar', async () => {
    const clock = new ManualClock()
    const registry = await openRegistryStore({ store: memoryStore(), clock, crypto: nodeCrypto, logger: silentLogger })
    cleanups.push(() => registry.stop())
    const put = (record: Uint8Array) => registry.put({ verb: 'put', set: 'members', key: ENERGY_ID, record }, { kind: 'self' })
    const rightMs = clock.nowMs()
    clock.jumpWall(DAY_MS)
    expect(await put(joinRecord(bob, alice.eid, clock.nowMs()))).toEqual({ status: 'ok' })
    clock.jumpWall(-DAY_MS)
    const now = joinRecord(bob, alice.eid, rightMs)
    expect(await put(now)).toEqual({ status: 'ok' })
    expect(await put(joinRecord(bob, alice.eid, rightMs - 1_000))).toEqual({ status: 'stale', held: now })
  })

  it('[F085] [F034] takes the right one when its clock is right: as a reader, also after a tombstone of the future', async () => {
    const seen = await SeenRecords.locators(memoryStore(), silentLogger)
    const who = signedBy(alice.signer)
    const nowMs = new ManualClock().nowMs()
    expect(await seen.offer(tombstoneOf(who, nowMs + DAY_MS), nowMs + DAY_MS)).toBe('newer')
    expect(await seen.offer(locatorOf(who, nowMs), nowMs)).toBe('newer')
    expect(seen.live(alice.eid, nowMs)?.payload.gen).toBe(nowMs)
    expect(await seen.offer(locatorOf(who, nowMs - 1_000), nowMs)).toBe('older')
  })
})

describe('what is thrown away because its time is over', () => {
  it('[F062] the time by which things are thrown away is whole, for keys are made of it, though elapsed time has fractions', () => {
    let wallMs = 1_800_000_000_000
    let elapsedMs = 12.375
    const settled = new SettledTime({ nowMs: () => wallMs, monotonicMs: () => elapsedMs })
    wallMs += DAY_MS
    elapsedMs += 1_000.8125
    expect(settled.nowMs()).toBe(1_800_000_001_000)
  })

  it('[G-10] goes by a clock that jumped ahead only once that has stood for a quarter of an hour, and by one that went back at once', () => {
    const clock = new ManualClock()
    const settled = new SettledTime(clock)
    const startMs = clock.nowMs()
    clock.jumpWall(DAY_MS)
    expect(settled.nowMs()).toBe(startMs)
    clock.advance(SETTLE_MS - 1)
    expect(settled.nowMs()).toBe(startMs + SETTLE_MS - 1)
    clock.jumpWall(-DAY_MS)
    expect(settled.nowMs()).toBe(clock.nowMs())
    clock.jumpWall(DAY_MS)
    expect(settled.nowMs()).toBe(clock.nowMs() - DAY_MS)
    clock.advance(SETTLE_MS)
    expect(settled.nowMs()).toBe(clock.nowMs())
    clock.jumpWall(-2 * DAY_MS)
    expect(settled.nowMs()).toBe(clock.nowMs())
    clock.jumpWall(30_000)
    expect(settled.nowMs()).toBe(clock.nowMs())
  })

  it('[F085] leaves a pruned member pruned', async () => {
    const clock = new ManualClock()
    const network = new FakeNetwork(clock)
    const mallory = fakeAgent('mallory')
    const nodes = [await fakeNode(network, clock, 'a', [alice]), await fakeNode(network, clock, 'm', [mallory])] as const
    network.meet(...nodes.map(({ host }) => host))
    cleanups.push(() => Promise.all(nodes.map((node) => node.stop())))
    const [a, m] = nodes
    await a.spaces.announce({ name: ENERGY_NAME, curator: alice })
    await m.spaces.join({ name: ENERGY_NAME, agent: mallory })
    await a.spaces.prune({ name: ENERGY_NAME, curator: alice, member: mallory.eid, untilMs: clock.nowMs() + 12 * HOUR_MS })
    const pass = async (minutes: number) => {
      for (let i = 0; i < minutes; i++) {
        clock.advance(MINUTE_MS)
        await settle(nodes)
      }
    }
    clock.jumpWall(3 * DAY_MS)
    await pass(5)
    clock.jumpWall(-3 * DAY_MS)
    await pass(5)
    expect((await m.spaces.find({ name: ENERGY_NAME })).members).toEqual([])
  })

  it('[G-10] keeps what ended in the outbox and ended tasks, and delivers what waits there', async () => {
    const clock = new ManualClock()
    const outbox = await Outbox.open({ store: memoryStore(), crypto: nodeCrypto, clock })
    const { entry } = await outbox.add({ from: AGENT, to: testAgent(2).eidHex, message: textMessage('m1'), ttlMs: HOUR_MS })
    const todos = await openTodos(memoryStore(), clock, { retainMs: HOUR_MS, nameRetainMs: HOUR_MS })
    cleanups.push(() => todos.stop())
    const { todo } = await todos.create({ agent: AGENT, caller: principal(11), message: textMessage('m1'), door: 'library' })
    await todos.claimOne(todo.id, 'h', { leaseMs: HOUR_MS })
    await todos.complete(todo.id, 'h', [])
    clock.jumpWall(DAY_MS)
    await outbox.sweep()
    expect(await todos.sweep()).toBe(0)
    expect(outbox.get(entry.id)?.state).toEqual(entry.state)
    clock.jumpWall(-DAY_MS)
    clock.advance(2 * HOUR_MS)
    await outbox.sweep()
    expect(await todos.sweep()).toBeGreaterThan(0)
    expect(outbox.get(entry.id)?.state).not.toEqual(entry.state)
  })
})

describe('a lease', () => {
  const LEASE = { leaseMs: MINUTE_MS }
  async function claimed() {
    const clock = new ManualClock()
    const todos = await openTodos(memoryStore(), clock, { interruptMs: DAY_MS })
    cleanups.push(() => todos.stop())
    const { todo } = await todos.create({ agent: AGENT, caller: principal(11), message: textMessage('m1'), door: 'library' })
    return { clock, todos, id: todo.id }
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))

  it('[TD-08] does not end because the clock jumps a day ahead, nor last because it goes back', async () => {
    const { clock, todos, id } = await claimed()
    await todos.claim(AGENT, 'w1', LEASE)
    clock.jumpWall(DAY_MS)
    clock.advance(30_000)
    // something else that is due makes it look
    const other = await todos.create({ agent: AGENT, caller: principal(11), message: textMessage('m2'), door: 'library' })
    await todos.claimOne(other.todo.id, 'w2', { leaseMs: 1_000 })
    const back = new Promise<void>((resolve) => todos.onCommit((one) => one.state === 'pending' && resolve()))
    clock.advance(1_000)
    await back
    expect((await todos.get(other.todo.id))?.state).toBe('pending')
    expect((await todos.get(id))?.state).toBe('claimed')
    await todos.renew(id, 'w1', LEASE)
    clock.jumpWall(-DAY_MS)
    const ended = new Promise<void>((resolve) => todos.onCommit((one) => one.state === 'pending' && resolve()))
    clock.advance(MINUTE_MS)
    await ended
    expect(await todos.get(id)).toMatchObject({ state: 'pending', failure: 'the lease ran out' })
    await expect(todos.complete(id, 'w1', [])).rejects.toMatchObject({ code: 'LEASE_LOST', kind: 'conflict' })
  })

  it('[TD-08] and a wait for an answer neither: it ends after its time and not with a jump', async () => {
    const { clock, todos, id } = await claimed()
    await todos.claim(AGENT, 'w1', LEASE)
    await todos.ask(id, 'w1', { for: 'input', message: { messageId: 'q', role: 'ROLE_AGENT', parts: [{ text: 'which?' }] } })
    clock.jumpWall(2 * DAY_MS)
    clock.advance(HOUR_MS)
    await turn()
    expect((await todos.get(id))?.state).toBe('input-required')
    clock.jumpWall(-2 * DAY_MS)
    const failed = new Promise<void>((resolve) => todos.onCommit((one) => one.state === 'failed' && resolve()))
    clock.advance(23 * HOUR_MS)
    await failed
    expect(await todos.get(id)).toMatchObject({ state: 'failed', failure: 'interrupt_timeout' })
  })
})
