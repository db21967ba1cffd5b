import { afterEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { FLAG, hasFlag } from '../../protocol/session/flags.ts'
import type { Group } from '../../src/groups/groups.ts'
import type { DurableSession } from '../../src/sessions/durable-session.ts'
import { type GroupNode, GroupNodes, groupAt, memoryStore, until } from '../support/group-nodes.ts'
import { agentOf } from '../unit/sessions/memory-net.ts'
import { addressOf, startHost, stopHosts } from './host-fixture.ts'

const world = new GroupNodes()

afterEach(async () => {
  await world.stop()
  await stopHosts()
  world.mayDial = () => true
})

/** So many nodes over QUIC, and the group "board" that the first one owns and all are members of. */
async function board(count: number, mayDial: (a: number, b: number) => boolean = () => true): Promise<Group[]> {
  world.mayDial = mayDial
  for (let i = 0; i < count; i++) {
    const host = await startHost()
    await world.add(host, addressOf(host), agentOf(0x40 + i))
  }
  const [first, ...others] = world.nodes
  if (first === undefined) throw new Error('no node')
  const own = await first.groups.create(first.agent, { name: 'board' })
  for (const { agent } of others) await own.invite(agent.eid)
  return [own, ...(await Promise.all(others.map((node) => groupAt(node, 'board'))))]
}

const isSame = (groups: readonly Group[]) => new Set(groups.map((group) => group.hash())).size === 1
const seen = (group: Group, key: string) => [...group.everyones(key).values()].sort((a, b) => Number(a) - Number(b))

describe('groups over real sessions', () => {
  it('[PSS-04] five nodes in a ring converge after concurrent writes', async () => {
    const groups = await board(5, (a, b) => Math.abs(a - b) === 1 || Math.abs(a - b) === 4)
    await Promise.all(groups.flatMap((group, i) => Array.from({ length: 10 }, (_, n) => group.set(`k${n}`, i * 100 + n))))
    await until(groups, () => isSame(groups) && groups.every((group) => seen(group, 'k9').length === 5))
    for (const group of groups) {
      expect(seen(group, 'k9')).toEqual([9, 109, 209, 309, 409])
      // nobody was linked to more than its two neighbours
      expect(group.view().members.filter(({ linked }) => linked)).toHaveLength(2)
    }
  }, 30_000)

  it('[PSS-24] gives the next key to those who stay, and tells who was removed', async () => {
    const [own, stays, goes] = (await board(3)) as [Group, Group, Group]
    await stays.set('secret', 'before')
    await until([goes], () => goes.get('secret', world.nodes[1]?.agent.eid) === 'before')
    const changes: string[] = []
    const reading = (async () => {
      for await (const change of goes.changes()) changes.push(change.kind)
    })()
    await own.remove(world.nodes[2]?.agent.eid as never)
    await reading
    expect(changes.at(-1)).toBe('removed')
    expect(goes.isOver).toBe(true)
    await expect(goes.set('k', 1)).rejects.toMatchObject({ code: 'GROUP_OVER' })
    expect(goes.state(world.nodes[1]?.agent.eid)).toEqual(new Map())
    await until([own, stays], () => stays.view().epoch === own.view().epoch)
    await stays.set('secret', 'after')
    await until([own], () => own.get('secret', world.nodes[1]?.agent.eid) === 'after')
    expect(world.nodes[2]?.groups.list()).toEqual([])
  }, 30_000)

  it('[PSS-07] [G-47] a member that restarts has its state back from the others, and no value of it was on its disk', async () => {
    const groups = await board(3)
    const marker = `marker-${toHex(crypto.getRandomValues(new Uint8Array(8)))}`
    const [own, other, mine] = groups as [Group, Group, Group]
    await mine.set('kept', marker)
    await until([own, other], () => isSame(groups))
    const node = world.nodes[2]
    if (node === undefined) throw new Error('no node')
    for await (const [, value] of node.store.table('groups', { encode: (v: Uint8Array) => v, decode: (v) => v }).entries()) {
      expect(Buffer.from(value).includes(marker)).toBe(false)
    }
    world.nodes.pop()
    await node.stop()
    const host = await startHost()
    const again = await world.add(host, addressOf(host), node.agent, { store: node.store })
    const back = await groupAt(again, 'board')
    await back.set('new', 1)
    expect(back.get('kept')).toBe(marker)
    await until([own, other, back], () => isSame([own, other, back]) && seen(other, 'new').length === 1)
    expect(other.get('kept', node.agent.eid)).toBe(marker)
  }, 30_000)

  it('[G-54] only the owner changes members; an invitation that the agent does not want is passed over', async () => {
    const [own, member] = (await board(2)) as [Group, Group]
    await expect(member.invite(agentOf(0x60).eid)).rejects.toMatchObject({ code: 'GROUP_NOT_OWNER', data: { owner: own.agent.did } })
    await expect(own.remove(agentOf(0x60).eid)).rejects.toMatchObject({ code: 'GROUP_MEMBER_UNKNOWN' })
    await expect(own.remove(own.agent.eid)).rejects.toMatchObject({ code: 'GROUP_OWNER_STAYS' })
    const host = await startHost()
    const shy = await world.add(host, addressOf(host), agentOf(0x61), { store: memoryStore(), accept: () => 'ignore' })
    await own.invite(shy.agent.eid)
    await member.set('k', 1)
    await until([own], () => own.view().members.some(({ did, linked }) => did === shy.agent.did && linked) || seen(own, 'k').length === 1)
    expect(shy.groups.list()).toEqual([])
  }, 30_000)

  it('[PSS-07] READY of a session that goes on tells what each side holds of every run, and what is missing follows', async () => {
    const [own, member] = (await board(2)) as [Group, Group]
    const [first, second] = world.nodes as [GroupNode, GroupNode]
    await member.set('k', 1)
    await until([own, member], () => isSame([own, member]))
    const session = (await first.sessions.get(first.sessions.list()[0]?.id ?? '')) as DurableSession
    expect(hasFlag(session.record.flags, FLAG.GROUP)).toBe(true)
    expect(first.ready.told(session)).toEqual([]) // it opened before there was a group
    const happened = (kind: string) => new Promise<void>((resolve) => session.onEvent((event) => void (event.kind === kind && resolve())))
    const [lost, resumed] = [happened('disconnected'), happened('resumed')]
    session.epoch?.connection.abort(new Error('cut by the test'))
    await lost
    await member.set('k', 2)
    await own.set('k', 3)
    await resumed
    await until([own, member], () => isSame([own, member]) && own.get('k', second.agent.eid) === 2)
    expect(member.get('k', first.agent.eid)).toBe(3)
    const told = first.ready.told(session)
    expect(told.map(({ gid, writer, n }) => [toHex(gid), toHex(writer), n >= 2n])).toEqual([[own.id, second.agent.eidHex, true]])
  }, 30_000)

  it('a member that left stays away, until the owner invites it anew', async () => {
    const [own, member] = (await board(2)) as [Group, Group]
    const [first, second] = world.nodes as [GroupNode, GroupNode]
    await member.leave()
    await expect(member.set('k', 1)).rejects.toMatchObject({ code: 'GROUP_OVER' })
    await own.rekey() // offers it the next key, which it does not take
    await own.set('k', 1)
    const session = await second.sessions.get(second.sessions.list()[0]?.id ?? '')
    await session?.details() // a ping behind what was sent
    expect(second.groups.list()).toEqual([])
    await own.remove(second.agent.eid)
    await own.invite(second.agent.eid)
    const again = await groupAt(second, 'board')
    await until([again], () => again.get('k', first.agent.eid) === 1)
  }, 30_000)

  it('[G-48] READY of an EXCLUSIVE session names no group', async () => {
    for (const byte of [0x70, 0x71]) {
      const host = await startHost()
      await world.add(host, addressOf(host), agentOf(byte))
    }
    const [first, second] = world.nodes as [GroupNode, GroupNode]
    const session = await first.sessions.open(first.agent, second.agent.eid, addressOf(second.host), { exclusive: true })
    const { flags } = (session as DurableSession).record
    expect([hasFlag(flags, FLAG.EXCLUSIVE), hasFlag(flags, FLAG.GROUP)]).toEqual([true, false])
  }, 30_000)
})
