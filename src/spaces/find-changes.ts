import type { FindResult, MemberView } from './spaces.ts'

/** What a later search found otherwise than an earlier one. `changed`: tags, mode or curator; a mere refresh is no change. */
export interface FindChange {
  event: 'added' | 'removed' | 'changed'
  member: MemberView
}

export type KnownMembers = ReadonlyMap<string, MemberView>

/**
 * Compares a search with what was known before. Who is missing from an incomplete search is kept until its join runs out: that too few
 * registrars answered says nothing of a member.
 * @returns the changes in the order of space and DID, and what is known now
 */
export function findChanges(
  before: KnownMembers,
  result: Pick<FindResult, 'members' | 'complete'>,
  nowMs: number
): { changes: FindChange[]; now: Map<string, MemberView> } {
  const now = new Map(result.members.map((member) => [`${member.space},${member.did}`, member]))
  const changes: FindChange[] = []
  for (const [key, member] of now) {
    const held = before.get(key)
    if (held === undefined) changes.push({ event: 'added', member })
    else if (meaning(held) !== meaning(member)) changes.push({ event: 'changed', member })
  }
  for (const [key, member] of before) {
    if (now.has(key)) continue
    if (result.complete || member.expiresAtMs <= nowMs) changes.push({ event: 'removed', member })
    else now.set(key, member)
  }
  const place = ({ member }: FindChange) => `${member.space},${member.did}`
  return { changes: changes.sort((a, b) => (place(a) < place(b) ? -1 : 1)), now }
}

const meaning = ({ tags, mode, curator }: MemberView) => JSON.stringify([[...tags].sort(), mode, curator])
