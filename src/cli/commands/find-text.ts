import type { CuratorTrust, MemberView } from '../../spaces/spaces.ts'
import { age, counted } from '../output.ts'

export const MEMBER_HEAD = ['AGENT', 'SPACE', 'MODE', 'TAGS', 'FRESH', 'KNOWN FROM']

/** Who, where, how reachable, what it offers, how long ago it said so, and who says it. */
export function memberRow({ did, space, mode, tags, joinedAtMs, known, servedBy }: MemberView, nowMs: number): string[] {
  const from = known === 'local' ? 'this node alone' : counted(servedBy.length, 'registrar')
  return [did, space, mode, tags.join(','), `${age(nowMs - joinedAtMs)} ago`, from]
}

/** Why a curator is followed, in words. */
export function trustText(trust: CuratorTrust | 'tie' | 'none'): string {
  switch (trust) {
    case 'pinned':
      return 'pinned by the name'
    case 'own':
      return 'an agent of this node'
    case 'remembered':
      return 'the first that this node accepted, or whom you named'
    case 'first-seen':
      return 'the only one alive; not known from before'
    case 'contested':
      return 'contested: held by most registrars, not known from before'
    case 'tie':
      return 'contested: several curators are held equally often; pin one'
    case 'none':
      return 'nobody to follow'
  }
}
