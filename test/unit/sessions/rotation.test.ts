import { describe, expect, it } from 'vitest'
import { fromHex } from '../../../protocol/bytes.ts'
import { signRotation } from '../../../protocol/identity/rotation.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { PSS_PROTOCOL } from '../../../src/sessions/create-session-manager.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import { readSessionFrame } from '../../../src/sessions/frame-reader.ts'
import { initiate } from '../../../src/sessions/initiate.ts'
import type { Session } from '../../../src/sessions/session.ts'
import { agentOf, MemoryHost, MemoryNet, type NodeInit, settle } from './memory-net.ts'
import { RotatingNode } from './rotating-node.ts'

const A2A = 0x02
const text = (value: string) => new TextEncoder().encode(value)
const words = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `m${from + i}`)

async function two(init: { a?: NodeInit; b?: NodeInit } = {}) {
  const clock = new ManualClock()
  const net = new MemoryNet()
  const a = await RotatingNode.create(net, clock, 1, init.a)
  const b = await RotatingNode.create(net, clock, 2, init.b)
  return { clock, net, a, b }
}

function sendAll(session: Session, from: number, to: number): void {
  for (const word of words(from, to)) session.send(1, A2A, text(word)).catch(() => {})
}

async function until(clock: ManualClock, condition: () => boolean, limitMs = 120_000): Promise<void> {
  for (let passed = 0; passed <= limitMs; passed += 500) {
    await settle()
    if (condition()) return
    clock.advance(500)
  }
  throw new Error('it did not come about')
}

const stateOf = ({ node }: RotatingNode) => node.manager.list()[0]
/** Both hold the one session, connected, and each knows the other by the EID that it has now. */
const agreed = (a: RotatingNode, b: RotatingNode) =>
  [stateOf(a), stateOf(b)].every((info) => info?.state === 'established') &&
  stateOf(a)?.remote === b.did &&
  stateOf(b)?.remote === a.did &&
  [a, b].every((one) => one.node.manager.unsettled(one.agent).length === 0)

/** What `to` answers a stranger's connection that takes the session up with this key. */
async function resumesAs(net: MemoryNet, clock: ManualClock, seed: Uint8Array, id: string, to: RotatingNode): Promise<'taken' | 'refused'> {
  const host = new MemoryHost(net, 77)
  const signer = { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
  const stream = await host.openStream({ peer: to.node.peer, addrs: [] }, PSS_PROTOCOL)
  const { ack } = await initiate({ crypto: nodeCrypto, clock, random: seededRandom(99), self: host.peer }, stream, { signer }, to.eid, {
    signal: new AbortController().signal,
    resume: { sid: fromHex(id), flags: 0, sfc: undefined }
  })
  await stream.write(ack)
  const { header } = await readSessionFrame(stream)
  return header.type === FRAME.TEARDOWN ? 'refused' : 'taken'
}

describe('a rotation inside a session', () => {
  it('[PSS-21] [G-73] changes the remote EID at the peer, keeps id, numbers and channels, and proves the new EID in the next epoch', async () => {
    const { clock, a, b } = await two()
    const session = (await a.node.open(b.node)) as DurableSession
    sendAll(session, 0, 3)
    const { id } = session.info()
    const before = a.did
    const epoch = session.epoch
    await a.rotate()
    await until(clock, () => agreed(a, b))
    const theirs = (await b.node.manager.get(id)) as DurableSession
    expect(theirs.remote).toEqual(a.eid)
    expect(theirs.epoch?.established.remoteEid).toEqual(a.eid)
    expect(session.epoch).not.toBe(epoch)
    expect(b.node.events.filter(({ kind }) => kind === 'rotated')).toMatchObject([{ side: 'remote', old: before, new: a.did }])
    expect(a.node.events.filter(({ kind }) => kind === 'rotated')).toMatchObject([{ side: 'local', old: before, new: a.did }])
    await session.send(1, A2A, text('m3'))
    expect(b.node.handled).toEqual(words(0, 4))
    expect(session.info()).toMatchObject({ id, txSeq: '5', unacked: 0 })
  })

  it('[D-17] once applied lets only the new EID resume: the old key is answered as if the session were unknown', async () => {
    const { clock, net, a, b } = await two()
    const session = await a.node.open(b.node)
    await a.rotate()
    await until(clock, () => agreed(a, b))
    const [old, now] = a.files.seeds as [Uint8Array, Uint8Array]
    expect(await resumesAs(net, clock, old, session.info().id, b)).toBe('refused')
    expect(await resumesAs(net, clock, now, session.info().id, b)).toBe('taken')
  })

  it('destroys the old secret when every session has acknowledged: zeros in memory, nothing in the key file', async () => {
    const { clock, a, b } = await two()
    await a.node.open(b.node)
    await a.rotate()
    const buffer = a.agent.former[0]?.retiring?.seed as Uint8Array
    expect(buffer.some((byte) => byte !== 0)).toBe(true)
    expect(a.files.record.formerly[0]?.retiring).toBeDefined()
    await until(clock, () => agreed(a, b))
    a.agents.retire(a.agent, () => true)
    expect(buffer).toEqual(new Uint8Array(32))
    expect(a.files.record.formerly[0]?.retiring).toBeUndefined()
    expect(a.agent.signerOf(a.agent.former[0]?.eid as Uint8Array)).toBeUndefined()
  })

  it('reaches a peer that was away for two of them in a row, in order', async () => {
    const { clock, a, b } = await two()
    const session = await a.node.open(b.node)
    const names = [a.did]
    await b.node.kill()
    for (let i = 0; i < 2; i++) {
      await a.rotate()
      names.push(a.did)
    }
    sendAll(session, 0, 2)
    expect(a.node.manager.unsettled(a.agent)).toHaveLength(1)
    await b.start()
    await until(clock, () => agreed(a, b))
    const seen = b.node.events.flatMap((event) => (event.kind === 'rotated' ? [[event.old, event.new]] : []))
    expect(seen).toEqual([names.slice(0, 2), names.slice(1, 3)])
    await until(clock, () => b.node.handled.length === 2)
  })

  it('crosses with one of the peer: both end up known by their new EIDs, in one session', async () => {
    const { clock, a, b } = await two()
    const session = await a.node.open(b.node)
    const { id } = session.info()
    await Promise.all([a.rotate(), b.rotate()])
    sendAll(session, 0, 5)
    await until(clock, () => agreed(a, b))
    await until(clock, () => b.node.handled.length === 5)
    expect(b.node.handled).toEqual(words(0, 5))
    expect([stateOf(a)?.id, stateOf(b)?.id]).toEqual([id, id])
    expect(await a.node.manager.ended()).toEqual([])
  })

  it('crosses with one of the peer while both are apart and neither has seen the other', async () => {
    const { clock, a, b } = await two()
    const session = await a.node.open(b.node)
    const { id } = session.info()
    await b.node.kill()
    await a.rotate()
    await a.node.kill()
    await b.start()
    await b.rotate()
    await a.start()
    await until(clock, () => agreed(a, b), 300_000)
    expect([stateOf(a)?.id, stateOf(b)?.id]).toEqual([id, id])
  })

  it('opens no second session for the new EID that a peer finds before it has the certificate', async () => {
    const { clock, net, a, b } = await two()
    const session = await a.node.open(b.node)
    const { id } = session.info()
    await b.node.kill()
    await a.rotate()
    await b.start()
    const opened = b.node.manager.open(b.agent, a.eid, { peer: a.node.peer, addrs: [] })
    opened.catch(() => {})
    await until(clock, () => agreed(a, b))
    await until(clock, () => net.hosts.size === 2)
    expect((await opened).info().id).toBe(id)
  })

  it('refuses a new session to an EID that its owner gave up', async () => {
    const { clock, a, b } = await two()
    await a.node.open(b.node)
    await b.node.kill()
    const old = a.eid
    await a.rotate()
    const stranger = await RotatingNode.create(a.node.net, clock, 3)
    await expect(stranger.node.manager.open(stranger.agent, old, { peer: a.node.peer, addrs: [] })).rejects.toMatchObject({
      code: 'SESSION_REFUSED',
      data: { reason: 'policy' }
    })
  })

  for (const [what, forge] of [
    ['of another session', () => signRotation(agentOf(0x51).signer, agentOf(0x52).signer, 1)],
    ['to an EID of this node', (a: RotatingNode, b: RotatingNode) => signRotation(a.agent.signer, b.agent.signer, 1)],
    [
      'whose new key did not sign',
      (a: RotatingNode) => {
        const bytes = signRotation(a.agent.signer, agentOf(0x53).signer, 1)
        bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1
        return bytes
      }
    ]
  ] as const) {
    it(`[D-17] closes the session as violated for a certificate ${what}, and changes nothing`, async () => {
      const { clock, a, b } = await two()
      const session = (await a.node.open(b.node)) as DurableSession
      session.sendRotations([forge(a, b)])
      await until(clock, () => b.node.manager.list().length === 0)
      expect((await b.node.manager.ended())[0]).toMatchObject({ reason: 'violation', remote: a.did })
      expect(b.node.events.some(({ kind }) => kind === 'rotated')).toBe(false)
    })
  }

  it('closes the session as violated for a replay of a certificate that took effect', async () => {
    const { clock, a, b } = await two()
    const session = (await a.node.open(b.node)) as DurableSession
    await a.rotate()
    const certificate = a.agent.former[0]?.retiring?.certificate as Uint8Array
    await until(clock, () => agreed(a, b))
    session.sendRotations([certificate])
    await until(clock, () => b.node.manager.list().length === 0)
    expect((await b.node.manager.ended())[0]).toMatchObject({ reason: 'violation', remote: a.did })
  })

  it('lets nothing sign with a secret that is gone: after 24 h without an ack the epoch ends, and the session as unknown', async () => {
    const { clock, a, b } = await two({ b: { rotated: () => new Promise(() => {}) } })
    const session = (await a.node.open(b.node)) as DurableSession
    await a.rotate()
    const { epoch } = session
    await settle()
    expect(epoch?.isOver).toBe(false)
    expect(a.node.manager.unsettled(a.agent)).toHaveLength(1)
    a.agents.retire(a.agent, () => true)
    await a.node.manager.rotated(a.agent)
    expect(epoch?.isOver).toBe(true)
    await until(clock, () => session.isOver)
    expect((await a.node.manager.ended())[0]).toMatchObject({ reason: 'unknownSession' })
    expect(a.node.manager.unsettled(a.agent)).toEqual([])
  })

  it('leaves rotations to the node: an application cannot send one', async () => {
    const { a, b } = await two()
    const session = await a.node.open(b.node)
    await expect(session.send(0, 0x04, new Uint8Array(8))).rejects.toThrow(TypeError)
  })
})

describe('[PSS-21] [G-73] a crash in the middle of a rotation', () => {
  /** Five messages before, five after; then exactly one of the two EIDs resumes, and each message was handled once, in order. */
  async function survives(
    run: (world: Awaited<ReturnType<typeof two>> & { session: Session }) => Promise<void>,
    outcome: 'rotated' | 'not rotated',
    hooks: { b?: NodeInit } = {}
  ): Promise<void> {
    const world = await two(hooks)
    const { clock, net, a, b } = world
    const session = await a.node.open(b.node)
    const { id } = session.info()
    sendAll(session, 0, 5)
    await until(clock, () => b.node.handled.length === 5)
    const before = a.did
    await run({ ...world, session })
    await until(clock, () => agreed(a, b), 300_000)
    expect(a.did === before).toBe(outcome === 'not rotated')
    const again = (await a.node.manager.get(id)) as Session
    sendAll(again, 5, 10)
    await until(clock, () => b.node.handled.length === 10)
    expect(b.node.handled).toEqual(words(0, 10))
    expect([stateOf(a)?.id, stateOf(b)?.id]).toEqual([id, id])
    const last = await Promise.all(a.files.seeds.map((seed) => resumesAs(net, clock, seed, id, b)))
    expect(last).toEqual(outcome === 'rotated' ? ['refused', 'taken'] : ['taken'])
  }

  it.each([
    ['the side that rotates', 'a', 'before'],
    ['the side that rotates', 'a', 'after'],
    ['its peer', 'b', 'before'],
    ['its peer', 'b', 'after']
  ] as const)('at any write of %s (%s), right %s it, loses neither messages nor the rotation', async (_, side, how) => {
    let writes = 0
    for (let at = 1; at === writes + 1; at++) {
      const { clock, a, b } = await two()
      const session = await a.node.open(b.node)
      sendAll(session, 0, 5)
      await until(clock, () => b.node.handled.length === 5)
      const before = a.did
      const mortal = side === 'a' ? a : b
      let died = false
      void mortal.node.killAt(at, how).then(() => {
        died = true
      })
      void a.rotate()
      for (let passed = 0; !died && passed < 10_000; passed += 500) {
        await settle()
        clock.advance(500)
      }
      if (died) {
        writes = at
        await mortal.start()
      } else void mortal.node.killAt(Number.POSITIVE_INFINITY, how) // there was no such write
      await until(clock, () => agreed(a, b), 300_000)
      expect(a.did).not.toBe(before)
      sendAll((await a.node.manager.get(session.info().id)) as Session, 5, 10)
      await until(clock, () => b.node.handled.length >= 10)
      expect(b.node.handled).toEqual(words(0, 10))
    }
    expect(writes).toBeGreaterThan(1)
  })

  it('before the key file is written leaves the old EID', () =>
    survives(async ({ a }) => {
      a.files.dies = 'before'
      await expect(a.rotate()).rejects.toThrow('killed')
      await a.node.kill()
      await a.start()
    }, 'not rotated'))

  it('after the key file is written goes on with the new EID and tells the peer', () =>
    survives(async ({ a }) => {
      a.files.dies = 'after'
      await expect(a.rotate()).rejects.toThrow('killed')
      await a.node.kill()
      await a.start()
    }, 'rotated'))

  it('before the certificate is sent sends it from the journal', () =>
    survives(async ({ a, b, clock }) => {
      await b.node.kill()
      await a.rotate()
      await a.node.kill()
      await b.start()
      await a.start()
      await until(clock, () => stateOf(b) !== undefined)
    }, 'rotated'))

  it('of the peer before it applied the certificate applies it at the next resume', async () => {
    const world: { b?: RotatingNode } = {}
    let killed = false
    await survives(
      async ({ a, b, clock }) => {
        world.b = b
        await a.rotate()
        await until(clock, () => killed)
        await b.start()
      },
      'rotated',
      {
        b: {
          rotated: async () => {
            if (killed) return
            killed = true
            await world.b?.node.kill()
            await new Promise(() => {})
          }
        }
      }
    )
  })

  it('of the peer after it applied the certificate, before the ack, is met under the new EID', () =>
    survives(async ({ a, b, clock }) => {
      let killed = false
      b.node.manager.onEvent(({ kind }) => {
        if (kind !== 'rotated' || killed) return
        killed = true
        void b.node.kill()
      })
      await a.rotate()
      await until(clock, () => killed)
      await b.start()
    }, 'rotated'))

  it('of the side that rotates after the peer applied the certificate, before the ack, tries the new EID first', () =>
    survives(async ({ a, b, clock }) => {
      let killed = false
      b.node.manager.onEvent(({ kind }) => {
        if (kind !== 'rotated' || killed) return
        killed = true
        void a.node.kill()
      })
      await a.rotate()
      await until(clock, () => killed)
      await a.start()
    }, 'rotated'))

  it('after the ack needs nothing more', () =>
    survives(async ({ a, clock }) => {
      let killed = false
      a.node.manager.onEvent(({ kind }) => {
        if (kind !== 'rotated' || killed) return
        killed = true
        void a.node.kill()
      })
      await a.rotate()
      await until(clock, () => killed)
      await a.start()
    }, 'rotated'))
})
