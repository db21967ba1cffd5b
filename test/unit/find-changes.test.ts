import { describe, expect, it } from 'vitest'
import { findChanges } from '../../src/spaces/find-changes.ts'
import type { MemberView } from '../../src/spaces/spaces.ts'

const NOW = 1_767_225_600_000
const member = (did: string, more: Partial<MemberView> = {}): MemberView => ({
  did,
  space: 'org.agentnet/energy@1',
  curator: 'did:key:zCurator',
  tags: ['seller'],
  mode: 'always_on',
  joinedAtMs: NOW,
  expiresAtMs: NOW + 3_600_000,
  servedBy: ['12D3KooA'],
  known: 'registry',
  ...more
})
const told = (changes: { event: string; member: MemberView }[]) => changes.map(({ event, member: { did } }) => `${event} ${did}`)
const start = findChanges(new Map(), { members: [member('a'), member('b')], complete: true }, NOW).now

describe('a search that is watched', () => {
  it('[DS-15] tells who came, went and changed, and nothing of those who were only refreshed', () => {
    const members = [member('a', { joinedAtMs: NOW + 60_000, servedBy: ['12D3KooB'] }), member('c')]
    const { changes, now } = findChanges(start, { members, complete: true }, NOW + 60_000)
    expect(told(changes)).toEqual(['removed b', 'added c'])
    expect([...now.values()].map(({ did }) => did)).toEqual(['a', 'c'])
    for (const more of [{ tags: ['buyer'] }, { mode: 'sleep' as const }, { curator: 'did:key:zOther' }]) {
      expect(told(findChanges(start, { members: [member('a', more), member('b')], complete: true }, NOW).changes)).toEqual(['changed a'])
    }
    const reordered = findChanges(
      findChanges(new Map(), { members: [member('a', { tags: ['x', 'y'] })], complete: true }, NOW).now,
      {
        members: [member('a', { tags: ['y', 'x'] })],
        complete: true
      },
      NOW
    )
    expect(reordered.changes).toEqual([])
  })

  it('[DS-18] does not take a member for gone because too few registrars answered, but does when its join has run out', () => {
    const partial = findChanges(start, { members: [member('a')], complete: false }, NOW + 60_000)
    expect(partial.changes).toEqual([])
    expect([...partial.now.keys()]).toHaveLength(2)
    const later = findChanges(partial.now, { members: [member('a', { expiresAtMs: NOW + 9_000_000 })], complete: false }, NOW + 3_600_000)
    expect(told(later.changes)).toEqual(['removed b'])
  })
})
