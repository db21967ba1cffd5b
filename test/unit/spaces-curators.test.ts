import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { dsId } from '../../protocol/discovery/names.ts'
import { ANNOUNCE_TTL_SEC, type Announce, announceType, POLICY_OPEN } from '../../protocol/records/announce.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type Candidate, CuratorMemory, chooseCurator } from '../../src/spaces/curators.ts'
import { Store } from '../../src/store/store.ts'
import { fakeAgent } from './fakes/fake-agent.ts'

const alice = fakeAgent('alice')
const bob = fakeAgent('bob')
const carol = fakeAgent('carol')
const NOW_SEC = 1_767_225_600

function candidate(agent: typeof alice, replicas: number, more: Partial<Announce> = {}): Candidate {
  const payload: Announce = {
    ns: 'org.agentnet',
    topic: 'energy',
    ver: 1,
    desc: '',
    curator: agent.eid,
    seeds: [],
    policy: POLICY_OPEN,
    shards: 1,
    seq: NOW_SEC * 1_000,
    ts: NOW_SEC,
    exp: NOW_SEC + ANNOUNCE_TTL_SEC,
    ...more
  }
  return { record: buildRecord(nodeCrypto, announceType, payload, agent.signer), replicas }
}

describe('[G-21] whom a joiner follows', () => {
  it('is the only curator alive, uncontested', () => {
    const only = candidate(alice, 2)
    const gone = candidate(bob, 20, { gone: true })
    expect(chooseCurator([gone, only], {})).toEqual({ kind: 'chosen', candidate: only, contested: false })
  })

  it('is the one that most replicas hold where several live, and that is told', () => {
    const [few, many] = [candidate(alice, 3), candidate(bob, 12)]
    expect(chooseCurator([few, many], {})).toEqual({ kind: 'chosen', candidate: many, contested: true })
  })

  it('is nobody where two are held equally often: that is a tie, without those held less', () => {
    const [a, b, c] = [candidate(alice, 9), candidate(bob, 9), candidate(carol, 1)]
    expect(chooseCurator([c, a, b], {})).toEqual({ kind: 'tie', candidates: [a, b] })
  })

  it('is the pinned one before the remembered one, and the remembered one before the majority', () => {
    const [a, b, c] = [candidate(alice, 1), candidate(bob, 2), candidate(carol, 20)]
    expect(chooseCurator([a, b, c], { pin: alice.eid, remembered: bob.eid })).toMatchObject({ candidate: a, contested: false })
    expect(chooseCurator([a, b, c], { remembered: bob.eid })).toMatchObject({ candidate: b, contested: false })
    expect(chooseCurator([b, c], { pin: alice.eid })).toEqual({ kind: 'none' })
  })

  it('[G-22] goes along a hand-over only when both records name each other', () => {
    const to = { eid: bob.eid, ver: 1 }
    const from = { eid: alice.eid, ver: 1 }
    const old = candidate(alice, 5, { gone: true, next: to })
    const heir = candidate(bob, 5, { prev: from })
    expect(chooseCurator([old, heir], { pin: alice.eid })).toEqual({ kind: 'chosen', candidate: heir, contested: false })
    const claimed = candidate(bob, 5)
    expect(chooseCurator([old, claimed], { remembered: alice.eid })).toEqual({ kind: 'none' })
    const unnamed = candidate(alice, 5)
    const usurper = candidate(bob, 20, { prev: from })
    expect(chooseCurator([unnamed, usurper], { remembered: alice.eid })).toMatchObject({ candidate: unnamed })
  })

  it('ends where a chain of hand-overs bites its own tail', () => {
    const a = candidate(alice, 1, { gone: true, next: { eid: bob.eid, ver: 1 }, prev: { eid: bob.eid, ver: 1 } })
    const b = candidate(bob, 1, { gone: true, next: { eid: alice.eid, ver: 1 }, prev: { eid: alice.eid, ver: 1 } })
    expect(chooseCurator([a, b], { pin: alice.eid })).toEqual({ kind: 'none' })
  })

  it('tells the version that the curator went on to', () => {
    const gone = candidate(alice, 5, { gone: true, next: { eid: alice.eid, ver: 4 } })
    expect(chooseCurator([gone], {})).toEqual({ kind: 'none', moved: { curator: alice.eid, version: 4 } })
  })
})

it('[G-21] the memory of curators outlives the process that made it', async () => {
  const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  const dsid = dsId(nodeCrypto, { ns: 'org.agentnet', topic: 'energy', version: 1 })
  const first = await CuratorMemory.open(new Store(level))
  expect(await first.get(dsid)).toBeUndefined()
  await first.remember(dsid, alice.eid)
  const second = await CuratorMemory.open(new Store(level))
  expect(await second.get(dsid)).toEqual(alice.eid)
})
