import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../src/platform/clock.ts'
import type { Session } from '../../../src/sessions/session.ts'
import { SharedState } from '../../../src/state/share.ts'
import { agentOf, MemoryHost, MemoryNet, nodeOn, settle } from '../sessions/memory-net.ts'

/** Alice, and sessions with as many others. */
async function star(count: number, options: { exclusive?: boolean }[] = []) {
  const clock = new ManualClock()
  const net = new MemoryNet()
  const alice = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(1)])
  const all: { mine: Session; theirs: Session }[] = []
  for (let i = 0; i < count; i++) {
    const other = await nodeOn(new MemoryHost(net, 2 + i), clock, [agentOf(2 + i)])
    const to = agentOf(2 + i)
    const mine = await alice.manager.open(agentOf(1), to.eid, { peer: other.host.peer, addrs: [] }, options[i] ?? {})
    await settle()
    all.push({ mine, theirs: other.sessions[0] as Session })
  }
  return all
}

describe('one state in several sessions', () => {
  it('[PSS-02] [G-48] is seen by every peer, those that come later included', async () => {
    const [one, two] = await star(2)
    if (one === undefined || two === undefined) throw new Error('two sessions are needed')
    const shared = new SharedState()
    await shared.add(one.mine)
    for (let i = 0; i < 600; i++) void shared.set(`k${i}`, i)
    expect(
      await shared.write([
        { op: 'set', key: 'task', value: { done: false } },
        { op: 'merge', key: 'task', patch: { done: true } }
      ])
    ).toEqual([])
    await two.mine.states.own.set('goes', 1)
    await shared.add(two.mine)
    expect(two.theirs.states.peer.get('task')).toEqual({ done: true })
    expect(two.theirs.states.peer.has('goes')).toBe(false)
    expect(two.theirs.states.peer.hash()).toBe(one.theirs.states.peer.hash())
    await shared.delete('k0')
    expect([one, two].map(({ theirs }) => theirs.states.peer.has('k0'))).toEqual([false, false])
  })

  it('[PSS-22] [G-48] an EXCLUSIVE session takes no part, and neither of its ESEs is reached', async () => {
    const [plain, exclusive] = await star(2, [{}, { exclusive: true }])
    if (plain === undefined || exclusive === undefined) throw new Error('two sessions are needed')
    const shared = new SharedState()
    await shared.add(plain.mine)
    await expect(shared.add(exclusive.mine)).rejects.toMatchObject({ code: 'ESE_EXCLUSIVE', kind: 'conflict', field: 'session' })
    await shared.set('x', 1)
    expect(shared.members).toEqual([plain.mine.info().id])
    expect([exclusive.theirs.states.peer.size, exclusive.mine.states.own.size]).toEqual([0, 0])
  })

  it('[ESE-05] a session that ends leaves with its reason, and the others go on', async () => {
    const [one, two] = await star(2)
    if (one === undefined || two === undefined) throw new Error('two sessions are needed')
    const shared = new SharedState()
    await shared.add(one.mine)
    await shared.add(two.mine)
    await one.mine.close()
    expect(await shared.set('x', 1)).toMatchObject([{ id: one.mine.info().id, error: { code: 'ESE_GONE' } }])
    expect(two.theirs.states.peer.get('x')).toBe(1)
    await expect(shared.write([{ op: 'patch', key: 'none', patch: [] }])).rejects.toMatchObject({ code: 'ESE_REFUSED' })
    shared.end()
    expect(shared.keys()).toEqual([])
  })
})
