import { z } from 'zod'
import type { GroupView } from '../groups/groups.ts'
import type { StateEntry } from './state-methods.ts'

const agent = z.string().min(1).max(64).optional()
/** its id, or its name where that is the only one */
const group = z.string().min(1).max(64)
/** did:key of anyone, or the name of an agent of this node */
const member = z.string().min(1).max(80)
const key = z.string().min(1).max(256)

/** Control methods over groups (protocol/README.md §6, Groups). */
export const GROUP_PARAMS = {
  'group.create': z.strictObject({ agent, name: z.string().min(1).max(64) }),
  /** `history`: whether the new member is shown what the members hold now; default `snapshot` */
  'group.invite': z.strictObject({ agent, group, member, history: z.enum(['snapshot', 'none']).optional() }),
  'group.remove': z.strictObject({ agent, group, member }),
  'group.leave': z.strictObject({ agent, group }),
  /** without `group`: all of the agent's, or of all agents */
  'group.list': z.strictObject({ agent }),
  /** with the values of every member, or of one key */
  'group.show': z.strictObject({ agent, group, key: key.optional() }),
  /** changes the agent's own state in the group; without `value` the key is deleted */
  'group.set': z.strictObject({ agent, group, key, value: z.json().optional() })
} as const

/** What one member's state holds. */
export interface GroupMemberState {
  did: string
  entries: StateEntry[]
}

export interface GroupResults {
  'group.create': GroupView
  'group.invite': GroupView
  'group.remove': GroupView
  'group.leave': { id: string }
  'group.list': GroupView[]
  'group.show': GroupView & { states: GroupMemberState[] }
  'group.set': GroupView
}
