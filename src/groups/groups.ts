import type { Eid } from '../../protocol/identity/eid.ts'
import type { EseValue, EseWrite } from '../../protocol/state/batch.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { SchemaOf } from '../state/standard-schema.ts'
import type { TypedGroup } from './typed-group.ts'

/** Groups that one agent holds; a further invitation is passed over. */
export const GROUPS_MAX = 64
/** Of these, by the invitation of one owner. */
export const GROUPS_OF_OWNER_MAX = 16
/** Groups that our agents left, and that stay left until they are invited anew; the oldest is forgotten. */
export const GROUPS_LEFT_MAX = 1_024
/** Changes that wait for a slow reader; above it they give way to one `missed`. */
export const CHANGES_WAITING_MAX = 1_024

export interface GroupMemberView {
  did: string
  /** epoch with which its membership began */
  since: number
  isOwner: boolean
  isSelf: boolean
  /** a session with it carries items now */
  linked: boolean
  /** keys of its state as this member sees it; absent: nothing was seen of it */
  keys?: number
  /** its newest op that was read here, and held here */
  applied?: string
  held?: string
}

/** A group as one of its members sees it. */
export interface GroupView {
  /** 16 bytes in hex */
  id: string
  name: string
  agent: string
  role: 'owner' | 'member'
  owner: string
  epoch: number
  /** `no-key`: the trust list is known, its key is still to come */
  writable: 'yes' | 'no-key' | 'removed'
  members: GroupMemberView[]
  /** the same at every member that holds the same of every writer */
  hash: string
}

/** Something that happened in a group. */
export type GroupChange =
  /** `keys` of this member's state are other ones now; with `cleared` all that was there before went first */
  | { kind: 'changed'; member: string; keys: readonly string[]; cleared: boolean }
  /** nothing of this member's state is there any more */
  | { kind: 'erased'; member: string }
  | { kind: 'members'; epoch: number; members: readonly string[] }
  /** this agent is a member no longer; the last one */
  | { kind: 'removed' }
  /** the reader was too slow: read the state again */
  | { kind: 'missed' }

/** One group, as one of our agents holds it (protocol/README.md §6, Groups). */
export interface Group {
  /** 16 bytes in hex */
  readonly id: string
  readonly name: string
  readonly agent: LocalAgent
  view(): GroupView
  /** Members by DID, sorted. */
  members(): string[]
  /** Whether it ended: the agent was removed, or left. */
  readonly isOver: boolean
  /**
   * Changes this agent's own state: all of the writes, or none. Resolves when they are sealed and on their way; members who are away get them later.
   * @throws RookeryError `GROUP_OVER`, `GROUP_KEY_MISSING` (nobody with the key was reached within 5 s), `GROUP_WRITE_REFUSED` (field: the bound);
   *   or the signal's reason
   */
  write(writes: readonly EseWrite[], options?: { signal?: AbortSignal }): Promise<void>
  set(key: string, value: EseValue, options?: { signal?: AbortSignal }): Promise<void>
  delete(key: string, options?: { signal?: AbortSignal }): Promise<void>
  /** A member's value: of this agent itself without `of`. */
  get(key: string, of?: Eid): EseValue | undefined
  /** Everything that a member's state holds; a copy. */
  state(of?: Eid): Map<string, EseValue>
  /** What every member says under a key, by DID. */
  everyones(key: string): Map<string, EseValue>
  /** The same with values checked by a Standard Schema: one for every key, or one a key. */
  as<const S extends SchemaOf>(schema: S): TypedGroup<S>
  /** From now on, until the signal fires, the loop is left or the group ends. */
  changes(options?: { signal?: AbortSignal }): AsyncIterableIterator<GroupChange>
  /**
   * @param options.history - `snapshot`: it is shown what the members hold now; default
   * @throws RookeryError `GROUP_NOT_OWNER`, `GROUP_FULL`
   */
  invite(member: Eid, options?: { history?: 'snapshot' | 'none' }): Promise<void>
  /** The next key is in force when this resolves. @throws RookeryError `GROUP_NOT_OWNER`, `GROUP_MEMBER_UNKNOWN` */
  remove(member: Eid): Promise<void>
  /** Another key, as happens hourly. @throws RookeryError `GROUP_NOT_OWNER` */
  rekey(): Promise<void>
  /** Lets go of all of it, until the owner removes and invites this agent anew; what others hold of this agent stays until the owner removes it. The owner cannot. @throws RookeryError `GROUP_OWNER_STAYS` */
  leave(): Promise<void>
  /** Equal at members that hold the same. */
  hash(): string
}

export interface Groups {
  /** @throws RookeryError `GROUPS_FULL`, `GROUP_NAME_INVALID` */
  create(agent: LocalAgent, options: { name: string }): Promise<Group>
  /** @param ref - id, or name where it is the only one. @throws RookeryError `GROUP_UNKNOWN`, `GROUP_AMBIGUOUS` */
  get(agent: LocalAgent, ref: string): Group
  list(agent?: LocalAgent): Group[]
  /** A group came: by an invitation, or by {@link create}. @returns the unsubscriber */
  onGroup(listener: (group: Group) => void): () => void
  /** The agent has another EID: its groups go on under that one (protocol/README.md §6, Groups). */
  rotated(agent: LocalAgent): Promise<void>
  stop(): Promise<void>
}
