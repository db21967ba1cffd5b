import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { GroupMemberState } from '../../src/api/group-methods.ts'
import type { GroupView } from '../../src/groups/groups.ts'
import { cleanUp, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

let alice: StartedNode
let bob: StartedNode
let bobDid: string
const at = (node: StartedNode, ...argv: string[]) => rookery('group', ...argv, '--data', node.dataDir, '--json')
const shown = (node: StartedNode, ...argv: string[]) => rookery('group', ...argv, '--data', node.dataDir)

/** Asks until it is so; the test's own time limit ends it. */
async function until<T>(ask: () => Promise<T>, isSo: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (isSo(answer)) return answer
  }
}

beforeAll(async () => {
  const [dataA, dataB] = [tempDir(), tempDir()]
  await rookery('init', '--data', dataA, '--agent', 'alice', '--json')
  await rookery('init', '--data', dataB, '--agent', 'bob', '--json')
  bob = await startNode(dataB)
  const { addresses, node } = bob.status
  alice = await startNode(dataA, '--bootstrap', `${addresses[0]}/p2p/${node.peer}`)
  bobDid = (await rookery('agent', 'list', '--data', dataB, '--json')).json<{ did: string }[]>()[0]?.did ?? ''
}, 60_000)

afterAll(cleanUp)

describe('rookery group', () => {
  it('[PSS-04] [G-54] makes a group, invites, writes, shows what each member wrote, and removes', async () => {
    const made = (await at(alice, 'create', 'board')).json<GroupView>()
    expect(made).toMatchObject({ name: 'board', role: 'owner', epoch: 1 })
    expect((await at(alice, 'invite', 'board', bobDid)).json<GroupView>()).toMatchObject({ epoch: 2 })
    await until(
      async () => (await at(bob, 'show')).json<GroupView[]>(),
      (groups) => groups[0]?.writable === 'yes'
    )
    expect((await at(bob, 'set', 'board', 'task-1', '{"done":false}')).code).toBe(0)
    type Shown = GroupView & { states: GroupMemberState[] }
    const seen = await until(
      async () => (await at(alice, 'show', 'board', '--key', 'task-1')).json<Shown>(),
      ({ states }) => states.some(({ entries }) => entries.length > 0)
    )
    expect(seen.states.find(({ did }) => did === bobDid)?.entries).toEqual([{ key: 'task-1', value: { done: false } }])
    expect((await shown(alice, 'show', made.id)).stdout).toContain('{"done":false}')
    expect((await shown(alice, 'show')).stdout).toMatch(/board +[0-9a-f]{32} +alice +owner/)
    const refused = (await at(bob, 'remove', 'board', bobDid)).error()
    expect(refused).toMatchObject({ code: 'GROUP_NOT_OWNER', field: 'group' })
    expect(refused.remedy).toContain('did:key:')
    expect((await at(alice, 'remove', 'board', bobDid)).code).toBe(0)
    await until(
      async () => (await at(bob, 'show')).json<GroupView[]>(),
      (groups) => groups.length === 0
    )
  }, 60_000)

  it('names what is wrong with a value, a name and an unknown group', async () => {
    expect((await at(alice, 'set', 'board', 'k', 'no json')).error()).toMatchObject({ code: 'VALUE_INVALID', field: 'json' })
    expect((await at(alice, 'show', 'nowhere')).error()).toMatchObject({ code: 'GROUP_UNKNOWN', field: 'group', value: 'nowhere' })
    expect((await at(alice, 'leave', 'board')).error()).toMatchObject({ code: 'GROUP_OWNER_STAYS' })
  })
})
