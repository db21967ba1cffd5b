import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { CborFields, decodeCbor } from '../../protocol/cbor.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { type FakeNode, fakeNode, settle } from './fakes/fake-node.ts'
import { ENERGY_NAME as ENERGY, HOUR_MS, SpaceNet } from './fakes/space-net.ts'

const SECOND = 'org.agentnet/marketplace.energy@2'
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')

/** A level that dies at its n-th write: before it, or once it is on disk and nobody has heard of it. */
class DyingLevel {
  readonly level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  left = Number.POSITIVE_INFINITY
  how: 'before' | 'after' = 'before'
  onDeath: () => void = () => {}

  constructor() {
    const write = this.level.batch.bind(this.level) as (...args: unknown[]) => Promise<void>
    const dying = async (...args: unknown[]): Promise<void> => {
      if (this.left <= 0) throw new Error('the process is dead')
      this.left--
      if (this.left > 0) return await write(...args)
      if (this.how === 'after') await write(...args)
      this.onDeath()
      throw new Error('the process died')
    }
    Object.assign(this.level, { batch: dying })
  }
}

/** An agent that notes what it signs: two different records under one number are a lie. */
function noting(name: string, signed: Map<string, string>, lies: string[]): LocalAgent {
  const agent = fakeAgent(name)
  const sign = (message: Uint8Array) => {
    const text = new TextDecoder('latin1').decode(message)
    const kind = /^rookery\/v1\/record\/([a-z]+)\0/.exec(text)?.[1]
    if (kind === 'announce' || kind === 'join') {
      const payload = message.slice('rookery/v1/record/'.length + kind.length + 1)
      const fields = new CborFields(decodeCbor(payload), kind)
      const of =
        kind === 'join' ? toHex(fields.bytes('dsid', { length: 32 })) : `${fields.text('topic', { bytesMax: 256 })}@${fields.uint('ver')}`
      const place = `${kind} ${of} ${fields.uint('seq')}`
      if (signed.has(place) && signed.get(place) !== toHex(payload)) lies.push(place)
      signed.set(place, toHex(payload))
    }
    return agent.signer.sign(message)
  }
  return { ...agent, signer: { publicKey: agent.signer.publicKey, sign } }
}

class Crash {
  readonly net = new SpaceNet()
  readonly disk = new DyingLevel()
  readonly lies: string[] = []
  readonly alice: LocalAgent
  readonly heir: LocalAgent
  a: FakeNode
  c: FakeNode

  static async make(): Promise<Crash> {
    const crash = new Crash()
    crash.a = await fakeNode(crash.net.network, crash.net.clock, 'alice', [crash.alice, crash.heir], { level: crash.disk.level })
    crash.net.nodes.push(crash.a)
    const [, c] = (await crash.net.add([bob, carol])) as [FakeNode, FakeNode]
    crash.c = c
    await crash.a.spaces.announce({ name: ENERGY, curator: crash.alice, description: 'kilowatts' })
    await crash.a.spaces.join({ name: ENERGY, agent: crash.alice, tags: ['seller'] })
    await c.spaces.join({ name: ENERGY, agent: carol })
    await settle(crash.net.nodes)
    return crash
  }

  private constructor() {
    const signed = new Map<string, string>()
    this.alice = noting('alice', signed, this.lies)
    this.heir = noting('heir', new Map(), this.lies)
    this.a = undefined as unknown as FakeNode
    this.c = undefined as unknown as FakeNode
  }

  /** @returns whether the process died on the way */
  async run(work: () => Promise<unknown>, at: number, how: 'before' | 'after'): Promise<boolean> {
    let isDead = false
    Object.assign(this.disk, {
      left: at,
      how,
      onDeath: () => {
        isDead = true
        this.a.host.online = false
      }
    })
    await work().catch((error: unknown) => {
      if (!isDead) throw error
    })
    await settle(this.net.nodes).catch(() => {})
    if (!isDead) this.disk.left = Number.POSITIVE_INFINITY
    return isDead
  }

  /** The same disk and identity in a new process, a minute later. */
  async again(): Promise<void> {
    this.a.host.online = false
    await this.a.stop().catch(() => {})
    this.disk.left = Number.POSITIVE_INFINITY
    const agents = [this.alice, this.heir]
    this.a = await fakeNode(this.net.network, this.net.clock, 'alice', agents, { level: this.disk.level })
    this.net.nodes[0] = this.a
    this.net.network.meet(...this.net.nodes.map((node) => node.host))
    await this.net.pass(3 * 60_000)
  }

  async seen(name: string): Promise<{ curator: string | undefined; members: string[] }> {
    const { spaces, members } = await this.c.spaces.find({ name })
    return { curator: spaces[0]?.curator, members: members.map(({ did }) => did).sort() }
  }
}

/** Runs `work` with a death at every write that it makes, before and after each, until it gets through. */
async function atEveryWrite(
  work: (crash: Crash) => Promise<unknown>,
  check: (crash: Crash, isDead: boolean) => Promise<void>
): Promise<number> {
  let deaths = 0
  for (const how of ['before', 'after'] as const) {
    for (let at = 1; ; at++) {
      const crash = await Crash.make()
      const isDead = await crash.run(() => work(crash), at, how)
      if (isDead) await crash.again()
      await check(crash, isDead)
      expect(crash.lies).toEqual([])
      await crash.net.stop()
      if (!isDead) break
      deaths++
    }
  }
  return deaths
}

describe('a process that dies at any write', () => {
  it('[G-22] [F085] while a version follows another: either the old lives, or the new does and the old points to it', async () => {
    const deaths = await atEveryWrite(
      ({ a, alice }) => a.spaces.announce({ name: SECOND, curator: alice }),
      async (crash) => {
        const [first, second] = [await crash.c.spaces.show(ENERGY), await crash.c.spaces.show(SECOND)]
        if (second.curator === undefined) expect(first.curator).toBe(crash.alice.did)
        else {
          expect(second.announcements).toMatchObject([{ curator: crash.alice.did, prev: { version: 1 } }])
          expect(first).toMatchObject({ trust: 'none', movedToVersion: 2 })
        }
        await crash.a.spaces.announce({ name: SECOND, curator: crash.alice })
        expect((await crash.seen(SECOND)).curator).toBe(crash.alice.did)
        expect(await crash.c.spaces.show(ENERGY)).toMatchObject({ trust: 'none', movedToVersion: 2 })
      }
    )
    expect(deaths).toBeGreaterThan(10)
  }, 120_000)

  it('[G-22] while a space goes to another identity: one curator is followed, nobody is out of sight, and a second try ends it', async () => {
    await atEveryWrite(
      ({ a, alice, heir }) => a.spaces.handOver(alice, heir),
      async (crash) => {
        const everyone = async () => (await crash.seen(ENERGY)).members
        const { curator } = await crash.seen(ENERGY)
        expect([crash.alice.did, crash.heir.did]).toContain(curator)
        expect(await everyone()).toContain(carol.did)
        expect((await everyone()).filter((did) => did === crash.alice.did || did === crash.heir.did).length).toBeGreaterThanOrEqual(1)
        await crash.a.spaces.handOver(crash.alice, crash.heir)
        expect(await crash.seen(ENERGY)).toEqual({ curator: crash.heir.did, members: [carol.did, crash.heir.did].sort() })
        expect((await crash.a.spaces.list()).every(({ agent }) => agent === crash.heir.did)).toBe(true)
      }
    )
  }, 120_000)

  it('[DS-19] [G-28] while it refreshes: the join and the announcement go on under higher numbers', async () => {
    await atEveryWrite(
      async ({ net, a }) => {
        net.clock.advance(31 * 60_000)
        await settle([a])
      },
      async (crash) => {
        expect(await crash.seen(ENERGY)).toEqual({ curator: crash.alice.did, members: [carol.did, crash.alice.did].sort() })
        await crash.net.passFar(2 * HOUR_MS)
        expect(await crash.seen(ENERGY)).toEqual({ curator: crash.alice.did, members: [carol.did, crash.alice.did].sort() })
      }
    )
  }, 120_000)

  it('[DS-10] [G-23] while it leaves: what it withdrew stays withdrawn, and what it did not it still keeps', async () => {
    await atEveryWrite(
      ({ a, alice }) => a.spaces.leave({ name: ENERGY, agent: alice }),
      async (crash) => {
        const kept = await crash.a.spaces.list()
        const { curator, members } = await crash.seen(ENERGY)
        expect(curator !== undefined).toBe(kept.some(({ role }) => role === 'curator'))
        if (curator !== undefined) expect(members.includes(crash.alice.did)).toBe(kept.some(({ role }) => role === 'member'))
      }
    )
  }, 120_000)
})
