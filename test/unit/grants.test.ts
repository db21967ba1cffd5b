import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/load.ts'
import { reloadConfig } from '../../src/config/reload.ts'
import { STRANGERS_SLOT } from '../../src/grants/access.ts'
import { GRANTS_ENDED_MAX, type Grants } from '../../src/grants/grants.ts'
import { GRANT_VERBS, type GrantVerb, ownerPrincipal } from '../../src/grants/principal.ts'
import { SendBuckets } from '../../src/grants/send-buckets.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import { testAgent } from '../support/a2a-fixture.ts'
import { eidOf, openAccess } from '../support/grants-fixture.ts'
import { agentOf, memoryStore } from './sessions/memory-net.ts'

const AGENT = eidOf(0xa1)
const OTHER = eidOf(0xa2)
const PEER = eidOf(0xb1)
const DAY = 86_400_000

async function opened(init: Partial<Parameters<typeof openAccess>[0]> = {}) {
  const store = init.store ?? memoryStore()
  return { store, ...(await openAccess({ ...init, store })) }
}

async function shown(grants: Grants, input: Partial<Parameters<Grants['create']>[0]> = {}) {
  const { grant, credential } = await grants.create({ agent: AGENT, name: 'desk', ...input })
  if (credential === undefined) throw new Error('no credential')
  return { grant, credential }
}

const denial = (work: () => void): { reason?: string; metadata?: Record<string, string>; retryAfterSec?: number } => {
  try {
    work()
    return {}
  } catch (error) {
    return error as { reason: string }
  }
}

describe('a grant', () => {
  it('[TD-03] is proved by a credential that is given out once and stored as a hash alone', async () => {
    const { store, grants, access } = await opened()
    const { grant, credential } = await shown(grants)
    expect(credential).toMatch(/^rkg_[0-9a-f]{16}_[\w-]{43}$/)
    expect(access.ofBearer(credential)).toMatchObject({ kind: 'grant', id: `grant:${grant.id}`, grant: { id: grant.id, agent: AGENT } })
    const secret = credential.split('_').slice(2).join('_')
    for await (const [, row] of store
      .table('grant', { encode: () => new Uint8Array(), decode: (bytes) => new TextDecoder().decode(bytes) })
      .entries()) {
      expect(row).not.toContain(secret)
      expect(row).toContain(grant.hash)
    }
  })

  it('[TD-03] is in force after a restart, and not with another secret, another id, or a text that is none', async () => {
    const { store, grants, clock } = await opened()
    const { grant, credential } = await shown(grants)
    const other = await shown(grants, { name: 'other' })
    const { access } = await opened({ store, clock })
    expect(access.ofBearer(credential)?.grant?.id).toBe(grant.id)
    const swapped = `rkg_${grant.id}_${other.credential.slice(21)}`
    for (const wrong of [
      swapped,
      `${credential}x`,
      credential.toUpperCase(),
      '',
      'x'.repeat(10_000),
      `rkg_${'0'.repeat(16)}_${'A'.repeat(43)}`
    ]) {
      expect(access.ofBearer(wrong)).toBeUndefined()
    }
  })

  it('[TD-04] allows its verbs at its agent and nothing else', async () => {
    const { grants, access } = await opened()
    const { credential } = await shown(grants, { verbs: ['read', 'send'] })
    const principal = access.ofBearer(credential)
    if (principal === undefined) throw new Error('no principal')
    const table: [typeof AGENT, GrantVerb, string | undefined][] = [
      [AGENT, 'send', undefined],
      [AGENT, 'read', undefined],
      [AGENT, 'cancel', 'GRANT_SCOPE'],
      [AGENT, 'push', 'GRANT_SCOPE'],
      [OTHER, 'send', 'GRANT_SCOPE'],
      [OTHER, 'read', 'GRANT_SCOPE']
    ]
    for (const [agent, verb, cause] of table) {
      expect(denial(() => access.authorize(principal, { agent, verb })).metadata?.cause).toBe(cause)
    }
    expect(access.refused).toBe(4)
  })

  it('[TD-04] is bound to queues of its agent where it names some, and to none else', async () => {
    const agent = testAgent(1)
    const { grants, access } = await opened()
    const { credential, grant } = await shown(grants, { agent: agent.eidHex, queues: ['billing', 'night', 'billing'] })
    const principal = access.ofBearer(credential)
    if (principal === undefined) throw new Error('no principal')
    expect(principal.grant?.queues).toEqual(['billing', 'night'])
    const may = (queue: string | undefined) =>
      denial(() => access.authorize(principal, { agent: agent.eidHex, verb: 'send', queue })).metadata
    expect([undefined, 'night', 'billing'].map(may)).toEqual([undefined, undefined, undefined])
    expect(may('other')).toMatchObject({ cause: 'GRANT_SCOPE', queue: 'other' })
    expect(access.queueOf(agent, `grant:${grant.id}`)).toBe('billing')
    for (const queues of [[], ['a b'], Array(17).fill('q')])
      await expect(shown(grants, { queues })).rejects.toMatchObject({ field: 'queues' })
  })

  it('[G-56] ends at once when it is revoked: its signal fires, the credential proves nothing, also after a restart', async () => {
    const { store, grants, access, clock } = await opened()
    const { grant, credential } = await shown(grants)
    const held = access.ofBearer(credential)
    if (held === undefined) throw new Error('no principal')
    const events: string[] = []
    grants.onEvent(({ kind }) => events.push(kind))
    expect(held.grant?.ended.aborted).toBe(false)
    await grants.revoke(grant.id)
    expect(held.grant?.ended.aborted).toBe(true)
    expect(access.ofBearer(credential)).toBeUndefined()
    expect(denial(() => access.authorize(held, { agent: AGENT, verb: 'read' }))).toMatchObject({ reason: 'UNAUTHENTICATED' })
    await grants.revoke(grant.id)
    expect(events).toEqual(['revoked'])
    expect((await opened({ store, clock })).access.ofBearer(credential)).toBeUndefined()
    await expect(grants.revoke('0000000000000000')).rejects.toMatchObject({ code: 'GRANT_UNKNOWN', field: 'id' })
  })

  it('[TD-02] ends at its date by itself, tells who listens, and stays ended when the clock goes back', async () => {
    const clock = new ManualClock()
    const { grants, access } = await opened({ clock })
    const { credential, grant } = await shown(grants, { ttlMs: DAY })
    const held = access.ofBearer(credential)
    const events: string[] = []
    grants.onEvent(({ kind }) => events.push(kind))
    clock.advance(DAY - 1)
    expect(access.ofBearer(credential)).toBeDefined()
    clock.advance(1)
    expect(access.ofBearer(credential)).toBeUndefined()
    expect(held?.grant?.ended.aborted).toBe(true)
    expect(events).toEqual(['expired'])
    clock.jumpWall(-DAY)
    expect(access.ofBearer(credential)).toBeUndefined()
    expect(grants.state(grant)).toBe('expired')
  })

  it('[TD-02] is never made with a name, a life or verbs that are not allowed', async () => {
    const { grants } = await opened()
    const wrong: [Partial<Parameters<Grants['create']>[0]>, string][] = [
      [{ name: '' }, 'name'],
      [{ name: 'a\u001b[2Jb' }, 'name'],
      [{ name: 'a\u202eb' }, 'name'],
      [{ name: 'x'.repeat(65) }, 'name'],
      [{ verbs: [] }, 'verbs'],
      [{ ttlMs: 0 }, 'ttlMs'],
      [{ ttlMs: 367 * DAY }, 'ttlMs'],
      [{ ttlMs: 1_000.5 }, 'ttlMs']
    ]
    for (const [input, field] of wrong) await expect(shown(grants, input)).rejects.toMatchObject({ code: 'GRANT_INVALID', field })
    expect(grants.list()).toEqual([])
  })

  it('[TD-06] is one for each agent and peer: a second is refused, or takes the place of the first in one write', async () => {
    const { grants, access } = await opened()
    const first = await shown(grants, { peer: PEER })
    await expect(shown(grants, { peer: PEER })).rejects.toMatchObject({ code: 'GRANT_EXISTS', value: first.grant.id })
    const held = access.ofPeer(AGENT, PEER)
    const second = await shown(grants, { peer: PEER, replace: true, verbs: ['read'] })
    expect(held.grant?.ended.aborted).toBe(true)
    expect(access.ofBearer(first.credential)).toBeUndefined()
    expect(access.ofPeer(AGENT, PEER)).toMatchObject({ grant: { id: second.grant.id, verbs: ['read'] } })
    expect((await shown(grants, { agent: OTHER, peer: PEER })).grant.agent).toBe(OTHER)
  })

  it('lists those that ended up to a bound, and lets the one go that ended first', async () => {
    const clock = new ManualClock()
    const { store, grants } = await opened({ clock })
    const first = await shown(grants, { ttlMs: 1_000 })
    for (let i = 1; i < GRANTS_ENDED_MAX; i++) await grants.create({ agent: AGENT, name: `g${i}`, ttlMs: 1_000 + i })
    clock.advance(60_000)
    const kept = await shown(grants)
    expect(grants.list()).toHaveLength(GRANTS_ENDED_MAX + 1)
    await grants.revoke(kept.grant.id)
    expect(grants.list()).toHaveLength(GRANTS_ENDED_MAX)
    expect(grants.get(first.grant.id)).toBeUndefined()
    const { grants: again } = await opened({ store, clock })
    expect(again.list()).toHaveLength(GRANTS_ENDED_MAX)
  })

  it('is promised after the write alone: where the disk refuses it there is none, and a revocation holds until the next start', async () => {
    const { store, grants, access } = await opened()
    const { grant, credential } = await shown(grants)
    const commit = store.commit.bind(store)
    store.commit = () => Promise.reject(new Error('disk'))
    await expect(shown(grants, { name: 'second' })).rejects.toThrow('disk')
    expect(grants.list()).toHaveLength(1)
    await expect(grants.revoke(grant.id)).rejects.toThrow('disk')
    expect(access.ofBearer(credential)).toBeUndefined()
    store.commit = commit
  })
})

describe('who asks', () => {
  it('[TD-35] is the same principal for a grant of a peer over HTTP and over its session', async () => {
    const { grants, access } = await opened()
    const { credential } = await shown(grants, { peer: PEER })
    expect(access.ofBearer(credential)).toMatchObject({ kind: 'grant', id: `eid:${PEER}` })
    expect(access.ofPeer(AGENT, PEER)).toMatchObject({ kind: 'grant', id: `eid:${PEER}` })
  })

  it('[TD-07] [TD-37] has no right by an EID alone, whoever it is, unless the operator opened the door', async () => {
    for (const [peers, cause] of [
      ['required', 'NO_GRANT'],
      ['anyone', undefined]
    ] as const) {
      const { access } = await opened({ peers })
      for (const verb of GRANT_VERBS) {
        expect(denial(() => access.authorize(access.ofPeer(AGENT, PEER), { agent: AGENT, verb })).metadata?.cause).toBe(cause)
      }
    }
  })

  it('[G-56] keeps out a peer whose grant was revoked, also where the door is open to anyone', async () => {
    const { grants, access } = await opened({ peers: 'anyone' })
    const { grant } = await shown(grants, { peer: PEER })
    access.authorize(access.ofPeer(AGENT, PEER), { agent: AGENT, verb: 'send' })
    await grants.revoke(grant.id)
    expect(denial(() => access.authorize(access.ofPeer(AGENT, PEER), { agent: AGENT, verb: 'send' })).reason).toBe('PERMISSION_DENIED')
    expect(access.maySend(AGENT, PEER)).toBe(false)
    expect(access.maySend(AGENT, eidOf(0xb2))).toBe(true)
  })

  it('[G-73] keeps its grant when it takes another EID, and its tasks with it', async () => {
    const { grants, access, successions } = await opened()
    const before = agentOf(1)
    const after = agentOf(2)
    const { grant } = await shown(grants, { peer: before.eidHex })
    await successions.note({ old: before.eid, new: after.eid })
    const principal = access.ofPeer(AGENT, after.eidHex)
    expect(principal).toMatchObject({ kind: 'grant', id: `eid:${before.eidHex}`, grant: { id: grant.id } })
    access.authorize(principal, { agent: AGENT, verb: 'send' })
    expect(access.ofPeer(AGENT, agentOf(3).eidHex).kind).toBe('peer')
  })

  it('[G-13] [G-73] counts in a queue by its grant, over a rotation too, and with all other strangers without one', async () => {
    const { grants, access, successions } = await opened({ peers: 'anyone' })
    const [before, after] = [agentOf(1), agentOf(2)]
    const { grant } = await shown(grants, { peer: before.eidHex })
    await successions.note({ old: before.eid, new: after.eid })
    expect(access.slotOf(AGENT, before.eidHex)).toBe(`eid:${before.eidHex}`)
    expect(access.slotOf(AGENT, after.eidHex)).toBe(`eid:${before.eidHex}`)
    expect(access.slotOf(AGENT, PEER)).toBe(STRANGERS_SLOT)
    expect(access.slotOf(AGENT, eidOf(0xb2))).toBe(STRANGERS_SLOT)
    await grants.revoke(grant.id)
    expect(access.slotOf(AGENT, after.eidHex)).toBe(STRANGERS_SLOT)
  })

  it('[TD-03] may do everything with the token of an agent of this node', async () => {
    const agent = testAgent(1)
    const { access } = await opened({ byToken: (text) => (text === agent.token ? agent : undefined) })
    const principal = access.ofBearer(agent.token)
    expect(principal).toEqual(ownerPrincipal(agent))
    for (const verb of GRANT_VERBS) access.authorize(principal as never, { agent: OTHER, verb })
    expect(access.refused).toBe(0)
  })

  it('[TD-04] [OD-34] is asked again when what it left in the queue is handed over', async () => {
    const agent = testAgent(1)
    const { grants, access } = await opened({ own: [agent, testAgent(2)] })
    const bearer = await shown(grants, { agent: agent.eidHex })
    const bound = await shown(grants, { agent: agent.eidHex, peer: PEER })
    const reader = await shown(grants, { agent: agent.eidHex, verbs: ['read'] })
    const may = (principal: string) => access.maySendStill(agent, principal)
    expect([`grant:${bearer.grant.id}`, `eid:${PEER}`, `eid:${agent.eidHex}`, `eid:${testAgent(2).eidHex}`].map(may)).toEqual([
      true,
      true,
      true,
      true
    ])
    expect([`grant:${reader.grant.id}`, `eid:${eidOf(0xb9)}`, 'grant:0000000000000000'].map(may)).toEqual([false, false, false])
    await grants.revoke(bearer.grant.id)
    await grants.revoke(bound.grant.id)
    expect([`grant:${bearer.grant.id}`, `eid:${PEER}`].map(may)).toEqual([false, false])
  })
})

describe('the bucket of a grant', () => {
  async function limited(init: Partial<Parameters<typeof openAccess>[0]> = {}) {
    const clock = new ManualClock()
    const made = await opened({ clock, ...init })
    const of = async (name: string, limits?: { burst?: number; perMin?: number }) => {
      const { credential, grant } = await shown(made.grants, { name, limits })
      const principal = made.access.ofBearer(credential)
      if (principal === undefined) throw new Error('no principal')
      return { grant, principal, take: () => denial(() => void made.access.takeToken(principal)) }
    }
    return { ...made, clock, of }
  }

  it('[TD-Q1] [TD-19] lets 20 through at once and 10 a minute after that, each grant for itself', async () => {
    const { of, clock, access, buckets } = await limited()
    const one = await of('one')
    const two = await of('two')
    for (let i = 0; i < 20; i++) expect(one.take()).toEqual({})
    expect(one.take()).toMatchObject({
      reason: 'SEND_RATE_LIMITED',
      retryAfterSec: 6,
      status: 429,
      metadata: { burst: '20', perMin: '10' }
    })
    expect(two.take()).toEqual({})
    clock.advance(5_999)
    expect(one.take()).toMatchObject({ retryAfterSec: 1 })
    clock.advance(1)
    expect(one.take()).toEqual({})
    expect(one.take()).toMatchObject({ retryAfterSec: 6 })
    expect(buckets.counts()).toMatchObject({ taken: 22, refused: 3 })
    access.takeToken(ownerPrincipal(testAgent(1)))
    expect(buckets.counts().taken).toBe(22)
  })

  it('[TD-Q1] has its token back when the message had come before', async () => {
    const { of, access } = await limited({ limits: { burst: 1, perMin: 1 } })
    const { principal, take } = await of('one')
    const giveBack = access.takeToken(principal)
    expect(take()).toMatchObject({ reason: 'SEND_RATE_LIMITED' })
    giveBack()
    expect(take()).toEqual({})
    expect(take()).toMatchObject({ reason: 'SEND_RATE_LIMITED' })
  })

  it('[TD-22] follows a limit that is set for the node or for the one grant, from then on', async () => {
    const { of, buckets, grants, clock, limits } = await limited({ limits: { burst: 2, perMin: 60 } })
    const { grant, take } = await of('one')
    take()
    take()
    expect(take()).toMatchObject({ retryAfterSec: 1 })
    Object.assign(limits, { burst: 5, perMin: 600 })
    expect(take()).toMatchObject({ retryAfterSec: 1 })
    clock.advance(400)
    for (let i = 0; i < 4; i++) expect(take()).toEqual({})
    expect(take()).toMatchObject({ retryAfterSec: 1 })
    await grants.tune(grant.id, { perMin: 1 })
    expect(buckets.limitsOf(grant.id)).toEqual({ burst: 5, perMin: 1 })
    expect(take()).toMatchObject({ retryAfterSec: 60 })
    await grants.tune(grant.id, {})
    expect(buckets.limitsOf(grant.id)).toEqual({ burst: 5, perMin: 600 })
  })

  it('[TD-22] follows the settings of the node as they are read at the start and again by a reload', async () => {
    const config = parseConfig({ grants: { sendBurst: 1, sendPerMin: 1 } })
    const clock = new ManualClock()
    const { grants } = await opened({ clock })
    const buckets = new SendBuckets({ clock, grants }, () => ({ burst: config.grants.sendBurst, perMin: config.grants.sendPerMin }))
    const { grant } = await shown(grants)
    expect([buckets.take(grant.id), buckets.take(grant.id)]).toEqual([0, 60])
    expect(reloadConfig(config, parseConfig({ grants: { sendBurst: 1, sendPerMin: 600 } }))).toEqual({
      applied: ['grants.sendPerMin'],
      restart: []
    })
    expect(buckets.take(grant.id)).toBe(1)
    clock.advance(100)
    expect(buckets.take(grant.id)).toBe(0)
  })

  it('[TD-23] [TD-R1] writes a line of its own for a refusal, and counts refusals and near misses', async () => {
    const lines: object[] = []
    const logger: Logger = { ...silentLogger, warn: (fields) => lines.push(fields), child: () => logger }
    const { of, buckets } = await limited({ limits: { burst: 5, perMin: 1 }, logger })
    const { grant, take } = await of('one')
    for (let i = 0; i < 6; i++) take()
    expect(lines).toEqual([{ event: 'grant-rate-limited', grant: grant.id, name: 'one', burst: 5, perMin: 1, waitSec: 60 }])
    expect(buckets.counts()).toEqual({ taken: 5, refused: 1, nearMisses: 1 })
  })
})
