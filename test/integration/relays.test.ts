import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { outboxStateText } from '../../protocol/delivery/outbox-state.ts'
import { eid, eidToDid } from '../../protocol/identity/eid.ts'
import { nodeStatus } from '../../src/api/node-status.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { openChannel } from '../../src/sessions/channel.ts'

/** Nobody is there: who tells this address alone cannot be dialled. */
const NOWHERE = ['/ip4/127.0.0.1/tcp/9']
const PATIENCE = { timeout: 60_000, interval: 100 }

const nodes: RookeryNode[] = []
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((one) => one.stop()))
})

async function start(config: ConfigInput = {}): Promise<RookeryNode> {
  const one = await createNode(
    { listen: ['/ip4/127.0.0.1/tcp/0'], grants: { peers: 'anyone' }, ...config },
    { level: new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }), nodeSeed: systemRandom.bytes(32), http: 'off' }
  )
  nodes.push(one)
  return one
}

const relaying = (relayServer: object = {}): ConfigInput => ({ reachability: { relayServer: { enabled: true, ...relayServer } } })
const joining = (one: RookeryNode): ConfigInput => ({ bootstrap: one.host.addresses().map((addr) => `${addr}/p2p/${one.peer}`) })
const report = (one: RookeryNode) => {
  const said = one.host.reachability?.report()
  if (said === undefined) throw new Error('this host knows nothing of how it is reached')
  return said
}
const text = (messageId: string, length = 1) => ({ messageId, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(length) }] })

/** Two relays that peers dialled, and two nodes that nobody can dial, which hold places there. */
async function network(relayServer: object = {}): Promise<{ relays: RookeryNode[]; hidden: [RookeryNode, RookeryNode] }> {
  const first = await start(relaying(relayServer))
  const second = await start({ ...relaying(relayServer), ...joining(first) })
  const hide: ConfigInput = { announce: NOWHERE, dht: { mode: 'client' }, ...joining(first) }
  const hidden: [RookeryNode, RookeryNode] = [await start(hide), await start(hide)]
  for (const one of hidden) await expect.poll(() => report(one).relays.length, PATIENCE).toBe(2)
  return { relays: [first, second], hidden }
}

describe('nodes that nobody can dial', () => {
  it('hold places at relays that the registry names, say so in status and locator, and are called over them', async () => {
    const { relays, hidden } = await network()
    const [a, b] = hidden
    expect(report(b)).toMatchObject({ state: 'relayed' })
    expect(
      report(b)
        .relays.map(({ peer }) => peer)
        .sort()
    ).toEqual(relays.map(({ peer }) => peer).sort())
    expect((await nodeStatus(b)).reachability).toMatchObject({ state: 'relayed', relays: [{}, {}] })
    expect(relays.map((one) => report(one))).toMatchObject([
      { state: 'direct', serving: { reservations: 2, reservationsMax: 64 } },
      { state: 'direct', serving: { reservations: 2, reservationsMax: 64 } }
    ])

    const [alice, bob] = [await a.addAgent({ name: 'alice' }), await b.addAgent({ name: 'bob', handler: 'echo' })]
    const told = async () => (await a.locators.resolve(bob.eid, { fresh: true }).catch(() => undefined))?.address.addrs ?? []
    await expect.poll(async () => (await told()).filter((addr) => addr.endsWith('/p2p-circuit')).length, PATIENCE).toBe(2)
    expect((await a.send({ from: alice, to: bob.eid, message: text('m1') })).outcome).toBe('task')
    expect(a.sessions.list()).toMatchObject([{ state: 'established', transport: 'relay' }])

    const [gone, left] = relays as [RookeryNode, RookeryNode]
    await gone.stop()
    await expect.poll(() => report(b).relays.map(({ peer }) => peer), PATIENCE).toEqual([left.peer])
    await expect
      .poll(async () => (await a.send({ from: alice, to: bob.eid, message: text('m2') }).catch(() => undefined))?.outcome, PATIENCE)
      .toBe('task')
    expect((await b.todos.list({ limit: 10 })).todos.map(({ history }) => history[0]?.messageId).sort()).toEqual(['m1', 'm2'])
  }, 240_000)

  it('go on with a session when a relay has carried its bytes, and lose nothing', async () => {
    const { hidden } = await network({ bytesMax: 65_536 })
    const [a, b] = hidden
    const [alice, bob] = [await a.addAgent({ name: 'alice' }), await b.addAgent({ name: 'bob', handler: 'echo' })]
    await expect
      .poll(
        async () =>
          (await a.locators.resolve(bob.eid, { fresh: true }).catch(() => undefined))?.address.addrs.some((addr) =>
            addr.endsWith('/p2p-circuit')
          ),
        PATIENCE
      )
      .toBe(true)
    const refusals: string[] = []
    for (const id of ['m1', 'm2', 'm3', 'm4']) {
      const untilMs = systemClock.monotonicMs() + 90_000
      for (;;) {
        const sent = await a
          .send({ from: alice, to: bob.eid, message: text(id, 14_000) }, { signal: AbortSignal.timeout(30_000) })
          .catch((error: unknown) => String(error))
        if (typeof sent !== 'string' && sent.outcome === 'task') break
        refusals.push(`${id}: ${typeof sent === 'string' ? sent : sent.outcome}`)
        if (systemClock.monotonicMs() > untilMs)
          throw new Error(`not sent, ${refusals.join('; ')}; sessions ${JSON.stringify(a.sessions.list())}`)
        await systemClock.sleep(200)
      }
    }
    expect((await b.todos.list({ limit: 10 })).todos.map(({ history }) => history[0]?.messageId).sort()).toEqual(['m1', 'm2', 'm3', 'm4'])
    expect(a.sessions.list()[0]?.resumes).toBeGreaterThan(0)

    // more at once than one connection carries: what the cut loses comes again, and each connection brings the rest nearer to its end
    const session = await a.openSession(alice, bob.eid)
    const back = await b.sessions.get(session.info().id)
    if (back === undefined) throw new Error('the peer does not hold the session')
    const [out, into] = [openChannel(session, 20), openChannel(back, 20)]
    const numbers = Array.from({ length: 12 }, (_, i) => i)
    const sent = Promise.all(numbers.map((i) => out.send(new Uint8Array(14_000).fill(i))))
    const came: unknown[] = []
    while (came.length < numbers.length) came.push((await into.receive({ signal: AbortSignal.timeout(120_000) }))?.payload[0])
    expect(came).toEqual(numbers)
    await Promise.all([sent, into.stop()])
  }, 480_000)

  it('[G-18] without a relay have their mail kept by their keepers, from which they fetch it', async () => {
    const seeds = { kate: systemRandom.bytes(32), bob: systemRandom.bytes(32) }
    const didOf = (seed: Uint8Array) => eidToDid(eid(nodeCrypto.ed25519.publicKey(seed)))
    const k = await start({ keeper: { for: [didOf(seeds.bob)] } })
    const kate = await k.addAgent({ name: 'kate', seed: seeds.kate })
    const hide: ConfigInput = { announce: NOWHERE, dht: { mode: 'client' }, reachability: { relay: 'off' }, ...joining(k) }
    const b = await start({ ...hide, keepers: [didOf(seeds.kate)] })
    const a = await start(hide)
    const bob = await b.addAgent({ name: 'bob', seed: seeds.bob })
    const alice = await a.addAgent({ name: 'alice' })
    await expect.poll(() => [a, b].map((one) => report(one).state), PATIENCE).toEqual(['unreachable', 'unreachable'])
    await Promise.all([k.locators.publish(kate), b.locators.publish(bob)])
    await expect.poll(async () => (await b.mail.fetch(bob)).missed, PATIENCE).toBe(0)

    await expect(a.openSession(alice, bob.eid)).rejects.toThrow()
    const { id } = await a.mail.post({ from: alice, to: bob.eid, message: text('kept') })
    const state = async () => {
      const entry = a.mail.outbox.get(id)
      if (entry === undefined) return 'gone'
      if (outboxStateText(entry.state) === 'queued-here') await a.mail.retry(entry)
      return outboxStateText(entry.state)
    }
    await expect.poll(state, PATIENCE).toBe('kept-by-1')
    expect(await k.mail.held()).toMatchObject([{ messages: 1 }])
    await expect
      .poll(async () => {
        await b.mail.fetch(bob)
        return (await b.todos.list({ limit: 10 })).todos.map(({ history }) => history[0]?.messageId)
      }, PATIENCE)
      .toEqual(['kept'])
    expect(await k.mail.held()).toMatchObject([{ messages: 0 }])
  }, 240_000)
})
