import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isZero } from '../../../protocol/bytes.ts'
import { ProtocolError } from '../../../protocol/errors.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { createSessionManager, type RunningSessionManager, type SessionManagerInit } from '../../../src/sessions/create-session-manager.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import type { Session } from '../../../src/sessions/session.ts'
import type { EseSide } from '../../../src/state/ese-side.ts'
import { checkpointPair, signedBy } from '../fakes/contradictions.ts'
import { type EvidenceNode, evidenceNode, quiet } from '../fakes/evidence-node.ts'
import { FakeNetwork } from '../fakes/fake-network.ts'
import { lie } from '../fakes/liar.ts'
import { agentOf, MemoryHost, MemoryNet, memoryStore, settle } from './memory-net.ts'

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

interface Party {
  agent: LocalAgent
  peer: string
  evidence: EvidenceNode
  manager: RunningSessionManager
  sessions: Session[]
}

let clock: ManualClock
let net: MemoryNet
let network: FakeNetwork
let parties: Party[]

beforeEach(() => {
  clock = new ManualClock()
  net = new MemoryNet()
  network = new FakeNetwork(clock)
  parties = []
})

afterEach(async () => {
  for (const { manager, evidence } of parties) {
    await manager.stop()
    await evidence.stop()
  }
})

async function party(name: string, seed: number, init: SessionManagerInit = {}): Promise<Party> {
  const agent = agentOf(seed)
  const evidence = await evidenceNode(network, clock, name, [agent])
  const host = new MemoryHost(net, seed)
  const manager = await createSessionManager(
    {
      host,
      clock,
      random: seededRandom(seed),
      crypto: nodeCrypto,
      logger: silentLogger,
      store: memoryStore(),
      agents: { list: () => [agent], byEid: (eid) => (Buffer.compare(eid, agent.eid) === 0 ? agent : undefined) },
      evidence: evidence.evidence
    },
    init
  )
  const sessions: Session[] = []
  manager.onSession((session) => {
    sessions.push(session)
    session.onChannel(1, async () => {})
  })
  const one = { agent, peer: host.peer, evidence, manager, sessions }
  parties.push(one)
  return one
}

const all = () => quiet(parties.map(({ evidence }) => evidence))
const open = (from: Party, to: Party, contract?: Partial<SfcBlock>) =>
  from.manager.open(from.agent, to.agent.eid, { peer: to.peer, addrs: [] }, contract === undefined ? {} : { contract })
const standing = (of: Party, by: Party) => by.evidence.evidence.standing(of.agent.eid)

/** The buffer that holds a value of our own ESE. */
function heldValue(session: Session, key: string): Uint8Array {
  const { side } = session.states.own as unknown as { side: EseSide }
  return side.replica.map.held(key) as Uint8Array
}

async function three() {
  const alice = await party('alice', 1)
  const mallory = await party('mallory', 2)
  const carol = await party('carol', 3)
  network.meet(...parties.map(({ evidence }) => evidence.host))
  const session = await open(alice, mallory)
  await settle()
  return { alice, mallory, carol, session, theirs: mallory.sessions[0] as Session }
}

describe('a peer that signs two checkpoints for one number', () => {
  it('[TRM-05] [TRM-06] [ESE-05] is revoked: every secret of the epoch and every ESE value is zero before the first byte of the frame leaves, and nothing stays on disk', async () => {
    const { alice, mallory, session, theirs } = await three()
    const { keys } = ((session as DurableSession).epoch as NonNullable<DurableSession['epoch']>).established
    await session.states.own.set('x', 'secret')
    const value = heldValue(session, 'x')
    expect(isZero(value)).toBe(false)
    const secrets = () => [keys.i2r, keys.r2i].flatMap(({ key, iv, chain }) => [key, iv, chain]).concat(keys.export, value)
    expect(isZero(keys.export)).toBe(false)
    const zeroAtSend: boolean[] = []
    for (const { a, b } of net.streams)
      for (const stream of [a, b]) {
        const write = stream.write.bind(stream)
        stream.write = async (bytes, options) => {
          if (bytes[1] === FRAME.REVOCATION_PUBLISH) zeroAtSend.push(secrets().every(isZero))
          await write(bytes, options)
        }
      }
    const unacked = session.send(9, A2A, new Uint8Array(3)).catch((error: unknown) => error)
    await settle()
    lie(theirs, mallory.agent.signer, 50n, 1)
    await settle()
    expect(session.info().state).toBe('established')
    lie(theirs, mallory.agent.signer, 50n, 2)
    expect((await session.closed).reason).toBe('revoked')
    expect((await theirs.closed).reason).toBe('revoked')
    expect(zeroAtSend).toEqual([true])
    expect(await unacked).toMatchObject({ code: 'SESSION_LOST', data: { outcome: 'unknown' } })
    await settle()
    expect(await alice.manager.listAll()).toEqual([])
    expect((await alice.manager.ended()).map(({ reason }) => reason)).toEqual(['revoked'])
  })

  it('[TRM-07] [TRM-08] is refused by a third node that fetched the ticket, both ways, and by the node that met it', async () => {
    const { alice, mallory, carol, session, theirs } = await three()
    const pair = [lie(theirs, mallory.agent.signer, 50n, 1), lie(theirs, mallory.agent.signer, 50n, 2)]
    await session.closed
    await all()
    expect(alice.evidence.evidence.view(mallory.agent.eid)).toMatchObject({
      standing: 'challenged',
      ticket: 'published',
      evidence: { kind: 'checkpoint', origin: 'own' }
    })
    expect(pair).toHaveLength(2)
    expect(await carol.evidence.evidence.check(mallory.agent.eid)).toBe('challenged')
    for (const one of [alice, carol]) {
      await expect(open(one, mallory)).rejects.toMatchObject({ code: 'AGENT_REFUSED' })
      await expect(open(mallory, one)).rejects.toMatchObject({ code: 'SESSION_REFUSED', data: { reason: 'policy' } })
    }
    expect((await open(alice, carol)).info().state).toBe('established')
  })

  it('[TRM-07] is published by its partner though it lets go at once and reads no frame', async () => {
    const { alice, mallory, session, theirs } = await three()
    lie(theirs, mallory.agent.signer, 50n, 1)
    lie(theirs, mallory.agent.signer, 50n, 2)
    for (const { a, b } of net.streams) for (const stream of [a, b]) stream.closeWrite = () => Promise.reject(new Error('gone'))
    await session.closed
    net.cut(alice.peer, mallory.peer)
    await all()
    expect(alice.evidence.evidence.view(mallory.agent.eid).ticket).toBe('published')
  })

  it('[TRM-05] is not, where it says the same twice or speaks of two numbers', async () => {
    const { mallory, alice, session, theirs } = await three()
    for (const [seq, hash] of [
      [50n, 1],
      [50n, 1],
      [51n, 2]
    ] as const)
      lie(theirs, mallory.agent.signer, seq, hash)
    await settle()
    expect(session.info().state).toBe('established')
    expect(standing(mallory, alice)).toBe('nominal')
  })

  it('[TRM-08] tells its own node, which judges the ticket like any other', async () => {
    const alice = await party('alice', 1)
    const mallory = await party('mallory', 2) // no registrar joins the two: the frame is all that alice's node learns by
    const session = await open(alice, mallory)
    await settle()
    const theirs = mallory.sessions[0] as Session
    lie(session, alice.agent.signer, 50n, 1)
    lie(session, alice.agent.signer, 50n, 2)
    await theirs.closed
    await session.closed
    await settle()
    await all()
    expect(standing(alice, mallory)).toBe('challenged')
    expect(alice.evidence.evidence.view(alice.agent.eid).evidence).toMatchObject({ kind: 'checkpoint', origin: 'told' })
  })
})

describe('a broken contract', () => {
  it.each(['on the wire', 'in what lasts beyond an item'] as const)(
    '[TRM-05] [G-52] %s closes the session and is kept from others: refused here for a day, no ticket',
    async (where) => {
      const alice = await party('alice', 1, { contract: block })
      const mallory = await party('mallory', 2)
      const carol = await party('carol', 3)
      network.meet(...parties.map(({ evidence }) => evidence.host))
      const theirs = await open(mallory, alice, {})
      await settle()
      const session = alice.sessions[0] as DurableSession
      if (where === 'on the wire') {
        Object.defineProperty(theirs.contract, 'refusal', { value: () => undefined })
        theirs.send(1, A2A, new Uint8Array(2_048)).catch(() => {})
      } else session.breach(breachOf(mallory))
      expect((await session.closed).reason).toBe('contract')
      await settle()
      await all()
      const view = alice.evidence.evidence.view(mallory.agent.eid)
      expect(view).toMatchObject({ standing: 'nominal', refused: true, ticket: 'none' })
      expect(view.distrusted?.reason).toContain('contract')
      await expect(open(alice, mallory)).rejects.toMatchObject({ code: 'AGENT_REFUSED' })
      await expect(open(mallory, alice)).rejects.toMatchObject({ data: { reason: 'policy' } })
      expect(await carol.evidence.evidence.check(mallory.agent.eid)).toBe('nominal')
      expect((await open(carol, mallory)).info().state).toBe('established')
      clock.advance(86_400_001)
      await settle()
      expect((await open(alice, mallory)).info().state).toBe('established')
    }
  )

  it('[TRM-05] [G-52] is not what the end of a contract is: nobody is distrusted for it', async () => {
    const alice = await party('alice', 1, { contract: { ...block, sessionSecondsMax: 60 } })
    const mallory = await party('mallory', 2)
    await open(mallory, alice, {})
    await settle()
    const session = alice.sessions[0] as Session
    for (let s = 0; s < 180 && session.info().state !== 'closed'; s += 5) {
      clock.advance(5_000)
      await settle()
    }
    expect((await session.closed).reason).toBe('contract')
    expect(alice.evidence.evidence.view(mallory.agent.eid).refused).toBe(false)
  })
})

describe('a verdict', () => {
  it('[TRM-08] ends sessions with its target that only the disk holds, and no others', async () => {
    const alice = await party('alice', 1, { parkAfterMs: 60_000 })
    const mallory = await party('mallory', 2, { parkAfterMs: 60_000 })
    const carol = await party('carol', 3)
    const others = await open(alice, carol)
    await open(alice, mallory)
    for (let s = 0; s < 120; s += 20) {
      clock.advance(20_000)
      await settle()
      await others.send(1, A2A, new Uint8Array(1))
    }
    expect(alice.manager.list().map(({ remote }) => remote)).toEqual([carol.agent.did])
    expect((await alice.manager.listAll()).map(({ remote }) => remote).sort()).toEqual([carol.agent.did, mallory.agent.did].sort())
    await alice.evidence.evidence.found(checkpointPair(signedBy(mallory.agent.signer)))
    await alice.manager.dismiss((remote) => alice.evidence.evidence.standing(remote) !== 'nominal')
    await settle()
    expect((await alice.manager.listAll()).map(({ remote }) => remote)).toEqual([carol.agent.did])
    expect(await alice.manager.ended()).toMatchObject([{ remote: mallory.agent.did, reason: 'policy' }])
    expect(others.info().state).toBe('established')
  })

  it('[TRM-08] keeps a lost session from being taken up again: nothing is dialled, what waits is returned', async () => {
    const alice = await party('alice', 1)
    const mallory = await party('mallory', 2)
    const session = await open(alice, mallory)
    await mallory.manager.stop()
    net.cut(alice.peer, mallory.peer)
    await settle()
    const waiting = session.send(1, A2A, new Uint8Array(1)).catch((error: unknown) => error)
    await settle()
    await alice.evidence.evidence.distrust(mallory.agent.eid, 'a leak')
    const dialled = net.streams.length
    for (let s = 0; s < 10 && session.info().state !== 'closed'; s++) {
      clock.advance(60_000)
      await settle()
    }
    expect((await session.closed).reason).toBe('policy')
    expect(await waiting).toMatchObject({ code: 'SESSION_LOST' })
    expect(net.streams).toHaveLength(dialled)
  })
})

function breachOf({ agent }: Party): ProtocolError {
  return new ProtocolError('CONTRACT', `${agent.name} stores more than was granted`, { field: 'sfc.storedBytesMax' })
}
