import { z } from 'zod'
import { FRIEND_NAME_BYTES_MAX, FRIEND_NOTE_BYTES_MAX } from '../../protocol/grants/friend-messages.ts'
import type { FriendRow } from '../friends/friend-rows.ts'
import { GRANT_TTL_MAX_MS } from '../grants/grant.ts'
import { GRANT_VERBS, type GrantVerb } from '../grants/principal.ts'

const agent = z.string().min(1).max(64).optional()
const did = z.string().min(1).max(80)
const verbs = z.array(z.enum(GRANT_VERBS)).min(1).max(GRANT_VERBS.length).optional()

/** Control methods over friend requests (protocol/README.md §9, Friends). */
export const FRIEND_PARAMS = {
  /** asks the owner of another agent to let ours in; answers once that one's node has answered, or after `waitMs` */
  'friends.request': z.strictObject({
    agent,
    did,
    name: z.string().min(1).max(FRIEND_NAME_BYTES_MAX).optional(),
    note: z.string().max(FRIEND_NOTE_BYTES_MAX).optional(),
    verbs,
    waitMs: z.int().min(0).max(60_000).optional()
  }),
  'friends.list': z.strictObject({ agent }),
  /** with the credential that we were given, where there is one */
  'friends.show': z.strictObject({ agent, did }),
  'friends.approve': z.strictObject({ agent, did, verbs, ttlMs: z.int().min(1_000).max(GRANT_TTL_MAX_MS).optional() }),
  'friends.deny': z.strictObject({ agent, did }),
  /** in both directions: revokes what they have here, forgets what we asked for */
  'friends.remove': z.strictObject({ agent, did })
} as const

export interface FriendView {
  /** `in`: they asked us; `out`: we asked them */
  direction: FriendRow['direction']
  /** name of the local agent */
  agent: string
  /** the peer as it is now */
  did: string
  /** of who asked, in its own words */
  name: string
  note: string
  verbs: GrantVerb[]
  state: FriendRow['state']
  grant?: { id: string; verbs: GrantVerb[]; untilMs: number }
  createdAtMs: number
  changedAtMs: number
  /** whether the peer has acknowledged the newest state */
  told: boolean
}

export interface FriendResults {
  'friends.request': FriendView
  'friends.list': { friends: FriendView[]; waiting: number; busy: number }
  'friends.show': { friends: (FriendView & { credential?: string })[] }
  'friends.approve': FriendView
  'friends.deny': FriendView
  'friends.remove': { removed: FriendView[] }
}
