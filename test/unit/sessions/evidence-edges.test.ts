import { afterEach, describe, expect, it } from 'vitest'
import { ProtocolError } from '../../../protocol/errors.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { createSessionManager, type RunningSessionManager, type SessionManagerInit } from '../../../src/sessions/create-session-manager.ts'
import { LINGER_MS } from '../../../src/sessions/live-session.ts'
import type { Session } from '../../../src/sessions/session.ts'
import { type EvidenceNode, evidenceNode } from '../fakes/evidence-node.ts'
import { FakeNetwork } from '../fakes/fake-network.ts'
import { lie } from '../fakes/liar.ts'
import { agentOf, MemoryHost, MemoryNet, type MemoryStream, memoryStore, settle } from './memory-net.ts'
import { RotatingNode } from './rotating-node.ts'

const A2A = 0x02
const block: SfcBlock = {
  site: 'edge',
  scopes: SFC_SCOPE.SEND_MESSAGES | SFC_SCOPE.STREAM,
  eseBytesMax: 0,
  messagesPerMinuteMax: 600,
  payloadBytesMax: 1_024,
  sessionSecondsMax: 3_600,
  storedBytesMax: 0,
  concurrentTasksMax: 4,
  region: 276
}

const running: { manager: RunningSessionManager; evidence: EvidenceNode }[] = []
afterEach(async () => {
  for (const { manager, evidence } of running.splice(0)) {
    await manager.stop()
    await evidence.stop()
  }
})

function world() {
  const clock = new ManualClock()
  const [net, network] = [new MemoryNet(), new FakeNetwork(clock)]
  const party = async (seed: number, init: SessionManagerInit = {}) => {
    const agent = agentOf(seed)
    const evidence = await evidenceNode(network, clock, `party-${seed}`, [agent])
    const host = new MemoryHost(net, seed)
    const agents = { list: () => [agent], byEid: (eid: Uint8Array) => (Buffer.compare(eid, agent.eid) === 0 ? agent : undefined) }
    const parts = { host, clock, random: seededRandom(seed), crypto: nodeCrypto, logger: silentLogger, store: memoryStore() }
    const manager = await createSessionManager({ ...parts, agents, evidence: evidence.evidence }, init)
    const sessions: Session[] = []
    manager.onSession((session) => {
      sessions.push(session)
      session.onChannel(1, async () => {})
    })
    running.push({ manager, evidence })
    return { agent, peer: host.peer, evidence: evidence.evidence, manager, sessions }
  }
  return { clock, net, party }
}

describe('a rotation that a peer shows', () => {
  it('[G-73] [OD-31] is kept as the retirement of the old EID: what clears a charge later is what this node held itself', async () => {
    const { clock, net, party } = world()
    const alice = await party(1)
    const bob = await RotatingNode.create(net, clock, 2)
    const session = await bob.node.manager.open(bob.agent, alice.agent.eid, { peer: alice.peer, addrs: [] })
    await session.send(1, A2A, new Uint8Array(1))
    const before = bob.eid
    expect(alice.evidence.view(before).retired).toBeUndefined()
    await bob.rotate()
    for (let i = 0; i < 20 && alice.sessions[0]?.remote !== bob.eid; i++) {
      await settle()
      clock.advance(100)
    }
    expect(alice.evidence.view(before).retired).toEqual({ by: 'rotation', heldSinceMs: expect.any(Number) })
    expect(alice.evidence.view(bob.eid).retired).toBeUndefined()
  })
})

describe('a breach that is found while no connection carries the session', () => {
  it('[SFC-08] [TRM-05] [G-52] ends it with CONTRACT here, and the peer is refused for a day; there is nobody to tell', async () => {
    const { clock, net, party } = world()
    const alice = await party(1, { contract: block })
    const bob = await party(2)
    const session = await bob.manager.open(bob.agent, alice.agent.eid, { peer: alice.peer, addrs: [] }, { contract: {} })
    await session.send(1, A2A, new Uint8Array(1))
    const theirs = alice.sessions[0] as Session
    net.cut(alice.peer, bob.peer)
    await settle()
    expect(theirs.info().state).toBe('disconnected')
    theirs.breach(new ProtocolError('CONTRACT', 'two tasks too many', { field: 'sfc.concurrentTasksMax' }))
    expect(await theirs.closed).toEqual({ reason: 'contract' })
    await settle()
    expect(await alice.manager.ended()).toMatchObject([{ reason: 'contract' }])
    expect(alice.evidence.view(bob.agent.eid)).toMatchObject({
      standing: 'nominal',
      refused: true,
      distrusted: { reason: 'contract (sfc.concurrentTasksMax): two tasks too many', untilMs: clock.nowMs() + 86_400_000 }
    })
    theirs.breach(new ProtocolError('CONTRACT', 'once more', { field: 'sfc.scopes' })) // it is over
    await settle()
    expect(alice.evidence.view(bob.agent.eid).distrusted?.reason).toContain('two tasks')
  })
})

describe('a revocation on its way out', () => {
  async function revoking(write: (send: () => Promise<void>) => Promise<void>) {
    const { clock, net, party } = world()
    const alice = await party(1)
    const mallory = await party(2)
    const session = await alice.manager.open(alice.agent, mallory.agent.eid, { peer: mallory.peer, addrs: [] })
    await settle()
    const control = net.streams.find(({ a }) => a.connection.peer === mallory.peer)?.a as MemoryStream
    const send = control.write.bind(control)
    control.write = (bytes, options) => {
      const now = () => send(bytes, options)
      return bytes[1] === FRAME.REVOCATION_PUBLISH ? write(now) : now()
    }
    const theirs = mallory.sessions[0] as Session
    lie(theirs, mallory.agent.signer, 50n, 1)
    await settle()
    lie(theirs, mallory.agent.signer, 50n, 2)
    expect(await session.closed).toEqual({ reason: 'revoked' })
    await settle()
    return { clock, control, theirs }
  }

  it('[TRM-07] is waited for before the stream ends, so that the accused hears of it', async () => {
    const gate = Promise.withResolvers<void>()
    const { control, theirs } = await revoking(async (send) => {
      await gate.promise
      await send()
    })
    expect(control.outgoing.ended).toBe(false)
    expect(theirs.info().state).toBe('established')
    gate.resolve()
    expect(await theirs.closed).toEqual({ reason: 'revoked' })
    await settle()
    expect(control.outgoing.ended).toBe(true)
  })

  it('[TRM-07] holds the streams for 5 s at most, where the accused does not read', async () => {
    const { clock, control } = await revoking(() => new Promise(() => {}))
    clock.advance(LINGER_MS - 1)
    await settle()
    expect(control.outgoing.ended).toBe(false)
    clock.advance(1)
    await settle()
    expect(control.outgoing.ended).toBe(true)
  })
})
