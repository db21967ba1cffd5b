import { describe, expect, it } from 'vitest'
import { encodeFriendMessage, FRIEND_CHANNEL, type FriendMessage, GRANT_VERBS } from '../../protocol/grants/friend-messages.ts'
import { eidHex } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { FRIENDS_PENDING_MAX, type FriendRow, FriendRows } from '../../src/friends/friend-rows.ts'
import { FRIEND_DENIED_MS, FRIEND_REQUESTS_BURST, FRIEND_REQUESTS_PER_PEER_DAY, Friends } from '../../src/friends/friends.ts'
import { Grants } from '../../src/grants/grants.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { Successions } from '../../src/identity/successions.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Session } from '../../src/sessions/session.ts'
import type { Store } from '../../src/store/store.ts'
import { testAgent } from '../support/a2a-fixture.ts'
import { PairedSession } from '../support/session-pair.ts'
import { memoryStore } from './sessions/memory-net.ts'

const DAY = 86_400_000
const bob = testAgent(1)
const alice = testAgent(2)

interface Side {
  friends: Friends
  grants: Grants
  rows: FriendRows
  successions: Successions
  store: Store
  agent: LocalAgent
}

/** Sessions that a test lets come about, by the two names. */
class Net {
  readonly clock = new ManualClock()
  readonly sides: Side[] = []
  isUp = true

  async side(agent: LocalAgent, { store = memoryStore(), accepts = true } = {}): Promise<Side> {
    const components = { store, clock: this.clock, random: systemRandom, crypto: nodeCrypto, logger: silentLogger }
    const grants = await Grants.open(components)
    const rows = await FriendRows.open(components)
    const successions = await Successions.open(components)
    const friends = new Friends({
      ...components,
      rows,
      grants,
      accepts: () => accepts,
      ttlMs: () => 90 * DAY,
      rootOf: (hex) => successions.rootOf(hex),
      newest: (eid) => eid,
      agentOf: (home) => (home === (agent.homeHex ?? agent.eidHex) ? agent : undefined),
      open: async (_from, to) => {
        const other = this.sides.find((one) => eidHex(one.agent.eid) === eidHex(to))
        if (!this.isUp || other === undefined) throw new Error('out of reach')
        return this.meet(side, other)[0]
      }
    })
    const side: Side = { friends, grants, rows, successions, store, agent }
    this.sides.push(side)
    friends.start()
    return side
  }

  meet(a: Side, b: Side): [PairedSession, PairedSession] {
    const [one, two] = [new PairedSession(a.agent, b.agent), new PairedSession(b.agent, a.agent)]
    one.peer = two
    two.peer = one
    a.friends.serve(one as Session)
    b.friends.serve(two as Session)
    return [one, two]
  }
}

const stateOf = ({ rows, agent }: Side, direction: FriendRow['direction'], peer: LocalAgent) =>
  rows.get(direction, agent.eidHex, peer.eidHex)?.state
const seen = (side: Side, kind: string) =>
  new Promise<FriendRow>((resolve) => {
    const off = side.friends.onEvent((event) => {
      if (event.kind !== kind) return
      off()
      resolve(event.row)
    })
  })

async function asked(init: { accepts?: boolean } = {}) {
  const net = new Net()
  const owner = await net.side(bob, init)
  const holder = await net.side(alice)
  const ask = async () =>
    holder.friends.answered(await holder.friends.request(alice, bob.eid, { note: 'please' }), new AbortController().signal)
  return { net, owner, holder, ask }
}

/** Sends what a stranger likes, and gives what comes back. */
async function raw(owner: Side, from: LocalAgent, message: FriendMessage | Uint8Array): Promise<FriendMessage[]> {
  const { decodeFriendMessage } = await import('../../protocol/grants/friend-messages.ts')
  const stranger = new PairedSession(from, owner.agent)
  const there = new PairedSession(owner.agent, from)
  stranger.peer = there
  there.peer = stranger
  owner.friends.serve(there as Session)
  await stranger.send(FRIEND_CHANNEL, ITEM_KINDS.a2a, message instanceof Uint8Array ? message : encodeFriendMessage(message))
  await new Promise((resolve) => setImmediate(resolve))
  return stranger.received.map(({ payload }) => decodeFriendMessage(payload))
}

const request = (id: number, more: Partial<Extract<FriendMessage, { type: 'request' }>> = {}): FriendMessage => ({
  type: 'request',
  id: new Uint8Array(16).fill(id),
  name: 'stranger',
  note: '',
  verbs: [...GRANT_VERBS],
  ...more
})
const statesOf = (messages: FriendMessage[]) => messages.map((message) => (message.type === 'answer' ? message.state : message.type))

describe('a friend request', () => {
  it('[TD-06] makes no grant until a person approves it; then one is vended over the session, in one write with the decision', async () => {
    const { owner, holder, ask } = await asked()
    expect(await ask()).toMatchObject({ state: 'pending', note: 'please' })
    expect(owner.grants.list()).toEqual([])
    const told = seen(holder, 'approved')
    const { grant } = await owner.friends.approve(bob.eidHex, alice.eidHex, { verbs: ['send', 'read'], ttlMs: DAY })
    const row = await told
    expect(row.grant).toMatchObject({ id: grant.id, verbs: ['send', 'read'], untilMs: grant.expiresAtMs })
    expect(owner.grants.ofCredential(row.grant?.credential ?? '')?.id).toBe(grant.id)
    expect(grant).toMatchObject({ peer: alice.eidHex, origin: 'friend', name: alice.name })
    const { grants, rows } = await new Net().side(bob, { store: owner.store })
    expect(grants.ofPeer(bob.eidHex, alice.eidHex)?.id).toBe(grant.id)
    expect(rows.get('in', bob.eidHex, alice.eidHex)).toMatchObject({ state: 'approved', grant: { id: grant.id } })
    expect(JSON.stringify(owner.rows.all())).not.toContain('rkg_')
  })

  it('[TD-06] that was denied is denied by itself for a week, without anything for the owner to look at', async () => {
    const { net, owner, holder, ask } = await asked()
    await ask()
    const told = seen(holder, 'denied')
    await owner.friends.deny(bob.eidHex, alice.eidHex)
    await told
    const before = owner.rows.all()
    expect((await ask()).state).toBe('denied')
    expect(owner.rows.all().map(({ id }) => id)).toEqual(before.map(({ id }) => id))
    net.clock.advance(FRIEND_DENIED_MS)
    expect((await ask()).state).toBe('pending')
  })

  it('[TD-06] is told of by whoever can, whenever: out of reach now, at the next session', async () => {
    const { net, owner, holder } = await asked()
    net.isUp = false
    const row = await holder.friends.request(alice, bob.eid)
    expect(await holder.friends.answered(row, AbortSignal.timeout(20))).toMatchObject({ state: 'sent', untold: true })
    const arrived = seen(owner, 'asked')
    net.meet(owner, holder)
    await arrived
    await owner.friends.approve(bob.eidHex, alice.eidHex)
    expect(owner.rows.get('in', bob.eidHex, alice.eidHex)?.untold).toBe(true)
    const told = seen(holder, 'approved')
    net.meet(owner, holder)
    expect((await told).grant?.credential).toMatch(/^rkg_/)
  })

  it('[G-56] tells its holder when what it brought is revoked, by command or by removal, and a new one is asked of a person again', async () => {
    const { owner, holder, ask } = await asked()
    await ask()
    const told = seen(holder, 'approved')
    const { grant } = await owner.friends.approve(bob.eidHex, alice.eidHex)
    await told
    const ended = seen(holder, 'ended')
    await owner.grants.revoke(grant.id)
    expect(await ended).not.toHaveProperty('grant')
    expect(stateOf(owner, 'in', alice)).toBe('ended')
    expect((await ask()).state).toBe('pending')
    await owner.friends.approve(bob.eidHex, alice.eidHex)
    await owner.friends.remove(bob.eidHex, alice.eidHex)
    expect(owner.grants.list().map((one) => owner.grants.state(one))).toEqual(['revoked', 'revoked'])
    await expect(owner.friends.approve(bob.eidHex, testAgent(9).eidHex)).rejects.toMatchObject({ code: 'FRIEND_UNKNOWN' })
  })

  it('[TD-06] of who has a grant by the owner’s hand is answered with it, without a person', async () => {
    const { owner, ask } = await asked()
    const { grant } = await owner.grants.create({ agent: bob.eidHex, name: 'by hand', peer: alice.eidHex })
    expect(await ask()).toMatchObject({ state: 'approved', grant: { id: grant.id } })
    expect(owner.rows.all()).toEqual([])
  })

  it('[TD-06] is denied by itself where the operator takes none', async () => {
    const { owner, ask } = await asked({ accepts: false })
    expect((await ask()).state).toBe('denied')
    expect(owner.rows.all()).toEqual([])
  })
})

describe('hostile friend messages', () => {
  it('[TD-20] are bounded for each peer: so many new requests a day, and no more rows than one', async () => {
    const { net, owner } = await asked()
    for (let i = 0; i < FRIEND_REQUESTS_PER_PEER_DAY; i++) expect(statesOf(await raw(owner, testAgent(7), request(i)))).toEqual(['pending'])
    expect(statesOf(await raw(owner, testAgent(7), request(99)))).toEqual(['busy'])
    expect(owner.rows.all()).toHaveLength(1)
    net.clock.advance(DAY)
    expect(statesOf(await raw(owner, testAgent(7), request(100)))).toEqual(['pending'])
  })

  it('[TD-20] are bounded for all peers together, in number a minute and in what waits for a person; grants and their buckets are not touched', async () => {
    const { net, owner } = await asked()
    const states: string[] = []
    for (let i = 0; i < FRIEND_REQUESTS_BURST + 5; i++) states.push(...statesOf(await raw(owner, testAgent(100 + i), request(1))))
    expect(states.filter((state) => state === 'busy')).toHaveLength(5)
    for (let i = 125; owner.rows.pending() < FRIENDS_PENDING_MAX; i++) {
      net.clock.advance(6_000)
      await raw(owner, testAgent(i), request(1))
    }
    net.clock.advance(DAY)
    expect(statesOf(await raw(owner, testAgent(253), request(1)))).toEqual(['busy'])
    expect(owner.rows.pending()).toBe(FRIENDS_PENDING_MAX)
    expect(owner.friends.busy).toBeGreaterThanOrEqual(6)
    expect((await owner.grants.create({ agent: bob.eidHex, name: 'still possible' })).grant.id).toBeTypeOf('string')
  }, 60_000)

  it('[TD-06] that are replayed change nothing: the same request is answered as it stands', async () => {
    const { owner } = await asked()
    const twice = request(5)
    await raw(owner, testAgent(7), twice)
    const row = owner.rows.all()
    expect(statesOf(await raw(owner, testAgent(7), twice))).toEqual(['pending'])
    expect(owner.rows.all()).toEqual(row)
  })

  it('[TD-06] with control characters, too long, or no message at all are dropped; the session goes on', async () => {
    const { owner } = await asked()
    for (const bad of [
      encodeFriendMessage(request(1, { note: '\u001b[2J\u001b]0;owned\u0007' })),
      encodeFriendMessage(request(1, { name: 'a\r\nb' })),
      encodeFriendMessage(request(1, { note: 'x'.repeat(513) })),
      new Uint8Array(5_000),
      Uint8Array.of(0xff)
    ]) {
      expect(await raw(owner, testAgent(7), bad)).toEqual([])
    }
    expect(owner.friends.ignored).toBe(5)
    expect(owner.rows.all()).toEqual([])
    expect(statesOf(await raw(owner, testAgent(7), request(2)))).toEqual(['pending'])
  })

  it('[TD-02] [TD-06] that claim an approval nobody asked for, or of another request, make nothing', async () => {
    const { owner, holder } = await asked()
    const forged: FriendMessage = {
      type: 'answer',
      id: new Uint8Array(16).fill(9),
      state: 'approved',
      grant: { id: '0011223344556677', verbs: [...GRANT_VERBS], untilMs: 9e15 }
    }
    await raw(owner, alice, forged)
    expect(owner.rows.all()).toEqual([])
    await holder.friends.request(alice, bob.eid)
    await raw(holder, bob, forged)
    expect(holder.rows.get('out', alice.eidHex, bob.eidHex)?.grant).toBeUndefined()
    expect(owner.grants.list()).toEqual([])
  })
})
