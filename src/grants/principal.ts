import { GRANT_VERBS, type GrantVerb } from '../../protocol/grants/friend-messages.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Principal } from '../tasks/todo.ts'

/** What a grant may allow (protocol/README.md §9, Grants): `send` makes tasks and goes on with them, `push` has this node call a webhook. */
export { GRANT_VERBS, type GrantVerb }

/** A grant as the doors see it while it is in force. */
export interface GrantInForce {
  readonly id: string
  /** what the agent's things are filed under: its first EID */
  readonly agent: EidHex
  readonly verbs: readonly GrantVerb[]
  /** queues of the agent that it may put work into, the first where none is named; absent: the agent's only one, or any that is named */
  readonly queues?: readonly string[]
  /** fires when it is revoked or expires: what runs in its name ends then */
  readonly ended: AbortSignal
}

/**
 * Who asks, once a door has verified it. `id` owns the tasks that are made: `eid:<first EID>` for a local agent's token, a peer, and a grant that is
 * bound to an EID, so the same tasks over HTTP and over a session; `grant:<id>` for a bearer credential without an EID.
 */
export interface VerifiedPrincipal extends Principal {
  /** `owner`: an agent of this node; `grant`: a vended endpoint; `peer`: an EID that a session proved, without a grant */
  readonly kind: 'owner' | 'grant' | 'peer'
  /** for lists and logs: the agent's name, the grant's, or the EID in hex */
  readonly name: string
  /** with `owner` */
  readonly owner?: LocalAgent
  /** with `grant` */
  readonly grant?: GrantInForce
}

/** The principal of one of our own agents. */
export function ownerPrincipal(agent: LocalAgent): VerifiedPrincipal {
  return { kind: 'owner', id: `eid:${agent.homeHex ?? agent.eidHex}`, eid: agent.eidHex, name: agent.name, owner: agent }
}
