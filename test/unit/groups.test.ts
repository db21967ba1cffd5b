import { compare } from 'uint8arrays/compare'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { toHex } from '../../protocol/bytes.ts'
import { DGK_LIFE_MS, GROUP_MEMBERS_MAX } from '../../protocol/group/bounds.ts'
import { type Eid, eid, eidHex } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ChangeFeed } from '../../src/groups/change-feed.ts'
import { createGroups } from '../../src/groups/create-groups.ts'
import { neighboursOf } from '../../src/groups/group-links.ts'
import { CHANGES_WAITING_MAX, GROUPS_MAX } from '../../src/groups/groups.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import type { SessionManager } from '../../src/sessions/session.ts'
import { memoryStore } from '../support/group-nodes.ts'
import { agentOf } from './sessions/memory-net.ts'

const alice = agentOf(0xa1)
const bob = agentOf(0xb2)

/** Groups of alice without any session; the disk can be handed on to a next start. */
async function groupsOn(clock: ManualClock, store = memoryStore()) {
  const sessions = { onSession: () => {} } as unknown as SessionManager
  const connect = async () => {
    throw new Error('out of reach')
  }
  const components = { crypto: nodeCrypto, clock, random: seededRandom(7), logger: silentLogger, store, sessions, connect }
  return { store, groups: await createGroups({ ...components, agentOf: (home) => (home === alice.eidHex ? alice : undefined) }) }
}

/** Lets what is under way reach the store and come back. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

async function epochOf(read: () => number, epoch: number): Promise<void> {
  while (read() !== epoch) await turn()
}

describe('the owner of a group', () => {
  it('[PSS-23] replaces the key every hour, counted from the last change', async () => {
    const clock = new ManualClock()
    const { groups } = await groupsOn(clock)
    const board = await groups.create(alice, { name: 'board' })
    expect(board.view().epoch).toBe(1)
    clock.advance(DGK_LIFE_MS - 1)
    await turn()
    expect(board.view().epoch).toBe(1)
    clock.advance(1)
    await epochOf(() => board.view().epoch, 2)
    clock.advance(DGK_LIFE_MS / 2)
    await board.invite(bob.eid)
    expect(board.view().epoch).toBe(3)
    clock.advance(DGK_LIFE_MS - 1)
    await turn()
    expect(board.view().epoch).toBe(3)
    clock.advance(1)
    await epochOf(() => board.view().epoch, 4)
    await groups.stop()
  })

  it('[PSS-24] [G-54] keeps the trust list over a restart, and begins it with a key that nobody had before', async () => {
    const clock = new ManualClock()
    const { groups, store } = await groupsOn(clock)
    const board = await groups.create(alice, { name: 'board' })
    await board.invite(bob.eid)
    await board.set('k', 'a value that no disk shows')
    const { id } = board
    await groups.stop()
    const raw = store.table('groups', { encode: (bytes: Uint8Array) => bytes, decode: (bytes) => bytes })
    for await (const [, bytes] of raw.entries()) expect(Buffer.from(bytes).includes('no disk shows')).toBe(false)
    const again = await groupsOn(clock, store)
    const back = again.groups.get(alice, id)
    expect(back.view().epoch).toBe(3)
    expect(back.members()).toEqual([alice.did, bob.did].sort())
    await again.groups.stop()
  })

  it('refuses the 65th member, a name without letters and the 65th group, and says which bound it hit', async () => {
    const { groups } = await groupsOn(new ManualClock())
    const board = await groups.create(alice, { name: 'board' })
    for (let i = 1; i < GROUP_MEMBERS_MAX; i++) await board.invite(agentOf(i).eid)
    await expect(board.invite(agentOf(0xee).eid)).rejects.toMatchObject({
      code: 'GROUP_FULL',
      field: 'membersMax',
      value: GROUP_MEMBERS_MAX
    })
    await expect(groups.create(alice, { name: '' })).rejects.toMatchObject({ code: 'GROUP_NAME_INVALID', field: 'name' })
    for (let i = 1; i < GROUPS_MAX; i++) await groups.create(alice, { name: 'more' })
    await expect(groups.create(alice, { name: 'more' })).rejects.toMatchObject({ code: 'GROUPS_FULL', value: GROUPS_MAX })
    expect(() => groups.get(alice, 'more')).toThrow(expect.objectContaining({ code: 'GROUP_AMBIGUOUS' }))
    await groups.stop()
  })

  it('writes all of a batch or nothing, and names the bound of its state', async () => {
    const { groups } = await groupsOn(new ManualClock())
    const board = await groups.create(alice, { name: 'board' })
    const large = new Uint8Array(400_000)
    await board.set('one', large)
    await board.set('two', large)
    const batch = board.write([
      { op: 'set', key: 'small', value: 1 },
      { op: 'set', key: 'three', value: large }
    ])
    await expect(batch).rejects.toMatchObject({ code: 'GROUP_WRITE_REFUSED', field: 'bytesMax' })
    expect([...board.state().keys()].sort()).toEqual(['one', 'two'])
    await groups.stop()
    expect(board.get('one')).toBeUndefined()
  })
})

describe('a group by a schema', () => {
  it('[ESE-02] checks what is written before it leaves and what was written when it is read, each member for itself', async () => {
    const { groups } = await groupsOn(new ManualClock())
    const board = await groups.create(alice, { name: 'board' })
    const typed = board.as({ task: z.object({ done: z.boolean() }) })
    await typed.set('task', { done: true })
    const task = await typed.get('task')
    expectTypeOf(task).toEqualTypeOf<{ done: boolean } | undefined>()
    expect(task).toEqual({ done: true })
    expect(await typed.everyones('task')).toEqual({ values: new Map([[alice.did, { done: true }]]), invalid: new Map() })
    const wrong = { done: 'yes' } as unknown as { done: boolean }
    await expect(typed.set('task', wrong)).rejects.toMatchObject({ code: 'ESE_SCHEMA', field: 'task' })
    expect(board.get('task')).toEqual({ done: true })
    await board.set('task', 7)
    await expect(typed.get('task')).rejects.toMatchObject({ code: 'ESE_SCHEMA', field: 'task' })
    const { values, invalid } = await typed.everyones('task')
    expect([values.size, invalid.get(alice.did)?.code]).toEqual([0, 'ESE_SCHEMA'])
    await board.set('other', 7)
    await expect(typed.everyones('other' as 'task')).rejects.toMatchObject({ code: 'ESE_SCHEMA', field: 'key', value: 'other' })
    await typed.delete('task')
    expect(await typed.get('task')).toBeUndefined()
    await groups.stop()
  })
})

describe('links of a large group', () => {
  it('[PSS-04] are at most 12 of 64 members, both ways, and reach everyone', () => {
    const members = Array.from({ length: GROUP_MEMBERS_MAX }, (_, i) => eid(nodeCrypto.sha256(Uint8Array.of(i))))
    const links = new Map(members.map((one) => [eidHex(one), neighboursOf(one, members)]))
    for (const [hex, others] of links) {
      expect(others.length).toBeLessThanOrEqual(12)
      for (const other of others) expect(links.get(eidHex(other))?.map((one) => toHex(one))).toContain(hex)
    }
    const reached = [...members].sort(compare).slice(0, 1)
    let hops = 0
    for (let edge: Eid[] = reached; edge.length > 0; hops++) {
      edge = edge.flatMap((one) => links.get(eidHex(one)) ?? []).filter((one) => !reached.includes(one))
      edge = [...new Set(edge)]
      reached.push(...edge)
    }
    expect(reached).toHaveLength(GROUP_MEMBERS_MAX)
    expect(hops).toBeLessThanOrEqual(6)
  })
})

describe('changes of a group', () => {
  it('tell a reader that is too slow that it missed some, and hold up nobody', async () => {
    const feed = new ChangeFeed()
    const slow = feed.read()
    const change = { kind: 'erased', member: 'm' } as const
    for (let i = 0; i <= CHANGES_WAITING_MAX; i++) feed.push(change)
    expect((await slow.next()).value).toEqual({ kind: 'missed' })
    expect((await slow.next()).value).toEqual(change)
    feed.end()
    expect((await slow.next()).done).toBe(true)
  })

  it('end with the signal, also while nothing comes', async () => {
    const stop = new AbortController()
    const next = new ChangeFeed().read({ signal: stop.signal }).next()
    stop.abort()
    expect((await next).done).toBe(true)
  })
})
