import { createSocket } from 'node:dgram'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { REACHABILITY_MODES } from '../../protocol/delivery/modes.ts'
import { nodeStatus } from '../../src/api/node-status.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createNode, type NodeOverrides, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { openStore } from '../../src/store/open-store.ts'
import { jsonCodec } from '../../src/store/store.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'

const opened: { node?: RookeryNode; dir: ReturnType<typeof nodeDir> }[] = []
afterEach(async () => {
  for (const { node, dir } of opened.splice(0).reverse()) {
    await node?.stop()
    dir.remove()
  }
})

async function node(config: ConfigInput = {}, overrides: NodeOverrides = {}): Promise<RookeryNode> {
  const dir = nodeDir()
  const entry: { node?: RookeryNode; dir: ReturnType<typeof nodeDir> } = { dir }
  opened.push(entry)
  entry.node = await createNode({ ...LOOPBACK, ...config, dataDir: dir.path }, overrides)
  return entry.node
}

const bootstrapOf = (one: RookeryNode) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`)

async function pair(): Promise<{ a: RookeryNode; b: RookeryNode }> {
  const a = await node()
  const b = await node({ bootstrap: bootstrapOf(a) })
  await connected(a, b)
  return { a, b }
}

async function connected(...nodes: RookeryNode[]): Promise<void> {
  while (nodes.some((one) => one.host.peers().length === 0 || one.host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
}

const text = (messageId: string, value = 'hello') => ({ messageId, role: 'ROLE_USER', parts: [{ text: value }] })

describe('two nodes over QUIC', () => {
  it('find each other by topic, hold a session, and answer a message with a completed task', async () => {
    const { a, b } = await pair()
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob', handler: 'echo' })
    await a.spaces.announce({ name: SPACE, curator: alice })
    await b.spaces.join({ name: SPACE, agent: bob, tags: ['seller'] })
    for (const name of [SPACE, 'org.agentnet/marketplace']) {
      expect((await a.spaces.find({ name })).members.map((member) => member.did)).toEqual([bob.did])
    }
    const session = await a.openSession(alice, bob.eid)
    expect(session.info()).toMatchObject({ state: 'established', transport: 'quic', roundTrips: 2 })
    expect(await a.session(session.info().id)).toBe(session)
    const outcome = await a.send({ from: alice, to: bob.eid, message: text('m1') })
    expect(outcome).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })
    expect(JSON.stringify(outcome.task?.artifacts)).toContain('hello')
    expect((await nodeStatus(a)).sessions).toBe(1)
  })

  it('queue for an agent that sleeps, hand over once at the wake, and run nothing consequential without approval [OD-40]', async () => {
    const { a, b } = await pair()
    const alice = await a.addAgent({ name: 'alice' })
    const carol = await b.addAgent({ name: 'carol' })
    let runs = 0
    await b.onTask(carol, async () => {
      runs++
      return { text: 'done' }
    })
    await b.sleep(carol)
    expect(await a.send({ from: alice, to: carol.eid, message: text('m1') })).toMatchObject({
      outcome: 'queued',
      asleep: { status: 503, queued: true }
    })
    expect((await b.queueUsage(carol)).messages).toBe(1)
    expect(await b.wake(carol)).toMatchObject({ accepted: 1, discarded: 0 })
    const [todo] = (await b.todos.list({})).todos
    expect(todo).toMatchObject({ approval: 'needed', door: 'asleep-queue' })
    expect(runs).toBe(0)
    await b.todos.approve(todo?.id as string, 'given')
    expect((await b.todos.settled(todo?.id as string)).state).toBe('done')
    expect(runs).toBe(1)
    await b.sleep(carol)
    expect(await a.send({ from: alice, to: carol.eid, message: text('m1') })).toMatchObject({ outcome: 'task', task: { id: todo?.id } })
    expect((await a.send({ from: alice, to: carol.eid, message: text('m1') }, { via: 'mailbox' })).outcome).toBe('queued')
    expect(await b.wake(carol)).toMatchObject({ accepted: 0, events: [{ outcome: 'replayed' }] })
    expect(runs).toBe(1)
  })

  it('answer a send that waits no longer with the task as it is, and the work goes on', async () => {
    const { a, b } = await pair()
    const alice = await a.addAgent({ name: 'alice' })
    const slow = await b.addAgent({ name: 'slow' })
    const release = Promise.withResolvers<void>()
    let runs = 0
    await b.onTask(slow, async () => {
      runs++
      await release.promise
      return { text: 'at last' }
    })
    const early = await a.send({ from: alice, to: slow.eid, message: text('m1') }, { waitMs: 300 })
    expect(early).toMatchObject({ outcome: 'task' })
    expect(JSON.stringify(early.task)).not.toContain('at last')
    release.resolve()
    const late = await a.send({ from: alice, to: slow.eid, message: text('m1') })
    expect(late.task?.id).toBe(early.task?.id)
    expect(JSON.stringify(late.task)).toContain('at last')
    expect(runs).toBe(1)
  })

  it('a clean stop withdraws the join, so that a search no longer finds it', async () => {
    const a = await node()
    const alice = await a.addAgent({ name: 'alice' })
    await a.spaces.announce({ name: SPACE, curator: alice })
    const b = await node({ bootstrap: bootstrapOf(a) })
    await connected(a, b)
    const bob = await b.addAgent({ name: 'bob' })
    await b.spaces.join({ name: SPACE, agent: bob })
    expect((await a.spaces.find({ name: SPACE })).members).toHaveLength(1)
    await b.stop()
    expect((await a.spaces.find({ name: SPACE })).members).toHaveLength(0)
  })
})

describe('two agents of one node', () => {
  it('send to each other without a session, asleep too', async () => {
    const one = await node()
    const alice = await one.addAgent({ name: 'alice' })
    const bob = await one.addAgent({ name: 'bob', handler: 'echo' })
    expect(await one.send({ from: alice, to: bob.eid, message: text('m1') })).toMatchObject({
      outcome: 'task',
      task: { status: { state: 'TASK_STATE_COMPLETED' } }
    })
    await one.sleep(bob)
    expect(await one.send({ from: alice, to: bob.eid, message: text('m2') })).toMatchObject({ outcome: 'queued', asleep: { queued: true } })
    expect(await one.wake(bob)).toMatchObject({ accepted: 1 })
    expect(one.sessions.list()).toEqual([])
  })
})

describe('status', () => {
  it('lists the four modes of the specification [OD-04] and says when nobody is there', async () => {
    const one = await node()
    const status = await nodeStatus(one)
    expect(status.modesOffered).toEqual([...REACHABILITY_MODES])
    expect(status.network).toBe('isolated')
    const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
    for (const mode of REACHABILITY_MODES) expect(readme).toContain(mode)
  })

  it('publishes the bounds that really apply, in status and card, and the queue fills to just those [OD-30]', async () => {
    const one = await node({ queue: { messagesMax: 3, messagesPerPeerMax: 3, ttlMax: '2d' } })
    const alice = await one.addAgent({ name: 'alice' })
    const bob = await one.addAgent({ name: 'bob', mode: 'sleep' })
    const status = await nodeStatus(one)
    expect(status.bounds).toMatchObject({ 'queue.messagesMax': 3, 'queue.messagesPerPeerMax': 3, 'queue.ttlMaxMs': 2 * 86_400_000 })
    const card = (await (await fetch(`${status.http?.url}/agents/${bob.did}/.well-known/agent-card.json`)).json()) as {
      capabilities: { extensions: { params: Record<string, unknown> }[] }
    }
    expect(card.capabilities.extensions[0]?.params).toEqual({ mode: 'sleep' })
    expect(card.capabilities.extensions[1]?.params).toMatchObject({
      mode: 'sleep',
      queue: { messagesMax: 3, messagesPerPeerMax: 3, ttlMaxSec: 2 * 86_400 }
    })
    for (let i = 0; i < 3; i++) {
      expect((await one.send({ from: alice, to: bob.eid, message: text(`m${i}`) })).outcome).toBe('queued')
    }
    expect(await one.send({ from: alice, to: bob.eid, message: text('m3') })).toMatchObject({
      outcome: 'queue-full',
      asleep: { status: 429, queued: false, kind: 'peer' }
    })
    expect(await one.queueUsage(bob)).toMatchObject({ messages: 3, bounds: { messagesMax: 3 } })
  })
})

describe('the data directory', () => {
  it('holds the queued ciphertext, and nothing is written beside it [OD-50]', async () => {
    const one = await node()
    const alice = await one.addAgent({ name: 'alice' })
    const bob = await one.addAgent({ name: 'bob', mode: 'sleep' })
    await one.send({ from: alice, to: bob.eid, message: text('m1', 'the-plain-text-of-it') })
    const dataDir = one.config.dataDir as string
    await one.stop()
    const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
    const holding = (needle: string) =>
      files.filter((file) => {
        try {
          return readFileSync(join(dataDir, file)).includes(needle)
        } catch {
          return false
        }
      })
    expect(holding('a2a:message').every((file) => file.startsWith('store/'))).toBe(true)
    expect(holding('a2a:message').length).toBeGreaterThan(0)
    expect(holding('the-plain-text-of-it')).toEqual([])
    const outside = files.filter((file) => !/^(store|agents)(\/|$)|^(ese-keys|node\.key|node\.json|control\.sock)$/.test(file))
    expect(outside).toEqual([])
  })

  it('of a newer schema, with a bad key, or not initialised gives a named error and nothing changes', async () => {
    const dir = nodeDir()
    try {
      const first = await createNode({ ...LOOPBACK, dataDir: dir.path })
      await first.stop()
      const opened = await openStore(dir.path, { software: 'rookery 9.9.9' })
      await opened.commit([opened.table('meta', jsonCodec<object>()).put('schema', { version: 99, by: 'rookery 9.9.9' })])
      await opened.close()
      await expect(createNode({ ...LOOPBACK, dataDir: dir.path })).rejects.toMatchObject({ code: 'SCHEMA_NEWER', value: 99 })
      const key = readFileSync(join(dir.path, 'node.key'))
      writeFileSync(join(dir.path, 'node.key'), '')
      await expect(createNode({ ...LOOPBACK, dataDir: dir.path })).rejects.toMatchObject({ code: 'KEY_FILE_INVALID' })
      writeFileSync(join(dir.path, 'node.key'), key)
      await expect(createNode({ ...LOOPBACK, dataDir: join(dir.path, 'empty') })).rejects.toMatchObject({ code: 'NOT_INITIALISED' })
      expect(readdirSync(dir.path).sort()).toEqual(['agents', 'ese-keys', 'node.key', 'store'])
    } finally {
      dir.remove()
    }
  })
})

describe('stopping [F095]', () => {
  it('ends within 5 s while a dial to nowhere, a look-up and a silent session are under way, and twice at once', async () => {
    const { a, b } = await pair()
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob' })
    await a.openSession(alice, bob.eid)
    const hole = createSocket('udp4')
    await new Promise<void>((resolve) => hole.bind(0, '127.0.0.1', resolve))
    const nowhere = {
      peer: '12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN',
      addrs: [`/ip4/127.0.0.1/udp/${hole.address().port}/quic-v1`]
    }
    const work = [
      a.host.openStream(nowhere, '/x/1'),
      a.host.dht.closestPeers(nodeCrypto.sha256(Uint8Array.of(1))),
      a.send({ from: alice, to: bob.eid, message: text('m1') }, { waitMs: 60_000 })
    ].map((promise) =>
      promise.then(
        () => 'ended',
        () => 'ended'
      )
    )
    const beganMs = performance.now()
    const first = a.stop()
    const second = a.stop()
    await Promise.all([first, second])
    expect(performance.now() - beganMs).toBeLessThan(5_000)
    expect(await Promise.all(work)).toEqual(['ended', 'ended', 'ended'])
    await a.stop()
    hole.close()
  })

  it('of a start that is given up leaves nothing behind', async () => {
    const dir = nodeDir()
    try {
      const abort = new AbortController()
      const starting = createNode({ ...LOOPBACK, dataDir: dir.path }, { signal: abort.signal })
      const reason = new Error('given up')
      abort.abort(reason)
      await expect(starting).rejects.toBe(reason)
      await using again = await createNode({ ...LOOPBACK, dataDir: dir.path })
      expect(again.peer).toBe(dir.peer)
    } finally {
      dir.remove()
    }
  })
})

describe('in memory', () => {
  it('many nodes live in one process without a file of their own', async () => {
    const seed = (i: number) => nodeCrypto.sha256(Uint8Array.of(1, i))
    const make = (i: number, bootstrap: string[]) =>
      createNode(
        { bootstrap, registrarsMax: 8, grants: { peers: 'anyone' } },
        {
          level: new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' }),
          nodeSeed: seed(i),
          random: seededRandom(i),
          transport: 'memory',
          http: 'off'
        }
      )
    const listeners = process.listenerCount('SIGTERM') + process.listenerCount('exit')
    const first = await make(0, [])
    const nodes = [first, ...(await Promise.all([1, 2, 3, 4].map((i) => make(i, bootstrapOf(first)))))]
    try {
      expect(process.listenerCount('SIGTERM') + process.listenerCount('exit')).toBe(listeners)
      await connected(...nodes)
      const alice = await first.addAgent({ name: 'alice', seed: seed(100) })
      const bob = await (nodes[4] as RookeryNode).addAgent({ name: 'bob', handler: 'echo', seed: seed(101) })
      expect(await first.send({ from: alice, to: bob.eid, message: text('m1') })).toMatchObject({ outcome: 'task' })
      expect(first.agents.tokenFile(alice)).toBeUndefined()
    } finally {
      await Promise.all(nodes.map((one) => one.stop()))
    }
  })
})

describe('the crypto provider', () => {
  it('that lacks a primitive, or accepts what it must refuse, ends the start by name; nothing weaker is used [D-13]', async () => {
    const dir = nodeDir()
    try {
      const lacking: CryptoProvider = { ...nodeCrypto, x25519: { ...nodeCrypto.x25519, sharedSecret: () => undefined } }
      const credulous: CryptoProvider = { ...nodeCrypto, ed25519: { ...nodeCrypto.ed25519, verify: () => true } }
      const broken: CryptoProvider = {
        ...nodeCrypto,
        aead: {
          ...nodeCrypto.aead,
          seal: () => {
            throw new Error('no AES here')
          },
          open: () => undefined
        }
      }
      for (const crypto of [lacking, credulous, broken]) {
        await expect(createNode({ ...LOOPBACK, dataDir: dir.path }, { crypto })).rejects.toMatchObject({ code: 'CRYPTO_UNAVAILABLE' })
      }
      expect(readdirSync(dir.path)).toEqual(['node.key'])
    } finally {
      dir.remove()
    }
  })
})
