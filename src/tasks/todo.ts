import type { EidHex } from '../../protocol/identity/eid.ts'
import type { WriteOp } from '../store/store.ts'

/** The closed set of states of a Todo; every switch over it is exhaustive (TD-08, TD-09, TD-33). */
export type TodoState = 'pending' | 'claimed' | 'input-required' | 'auth-required' | 'done' | 'failed' | 'canceled' | 'rejected'

/** Who asks: a verified principal, never a field of a message (OD-31). */
export interface Principal {
  /** `eid:<hex>` for a session's EID or a local agent's token */
  readonly id: string
  readonly eid: EidHex
}

/** A2A ProtoJSON as it came, validated but not re-serialised. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

/** The one stored shape of work (TD-15, TD-17): an A2A Task is a projection of it. */
export interface Todo {
  id: string
  agent: EidHex
  caller: string
  contextId: string
  state: TodoState
  /** counts from 1 with every commit; compare before you write */
  revision: number
  createdAtMs: number
  changedAtMs: number
  /** `a2a:` + agent + caller + messageId, or what another door uses (TD-Q4) */
  dedupKey: string
  /** sha-256 hex of the request's content without its messageId */
  digest: string
  door: 'a2a-http' | 'a2a-pss' | 'asleep-queue' | 'library'
  /** A2A Messages, oldest first */
  history: JsonObject[]
  /** A2A Artifacts */
  artifacts: JsonObject[]
  /** an A2A Message that goes with the state */
  statusMessage?: JsonObject
  /** while claimed */
  lease?: { holder: string; untilMs: number }
  attempt: number
  /** OD-40: work from the queue with a consequential or undeclared skill waits for the owner */
  approval?: 'needed' | 'given' | 'refused'
  /** who gave or refused it: `owner`, or `policy:NAME` of a rule of the owner's */
  approvedBy?: string
  failure?: string
}

export interface TodoCreate {
  agent: EidHex
  caller: Principal
  message: JsonObject
  door: Todo['door']
  /** written in the same synced batch: the queue record's removal, the replay id (G-15) */
  alongside?: readonly WriteOp[]
  /** called once what is written has its place before all later writes, ahead of its sync: whoever creates in order need not wait for each */
  committing?: () => void
  /** `given`: by the rule that `approvedBy` names */
  approval?: 'needed' | 'given'
  approvedBy?: string
}

export interface TodoPage {
  todos: Todo[]
  next: string | undefined
}

/** Who takes a new Todo in the very batch that creates it: one sync less than a claim afterwards. */
export interface Taker {
  holder: string
  leaseMs: number
  /** the Todo is on disk, claimed by `holder` */
  taken(todo: Todo): void
  /** nothing was written */
  missed(): void
}

/** The durable Todo store: one state machine, one way to create, one commit hook (TD-12, TD-13, TD-24). */
export interface Todos {
  /**
   * Creates, or finds the one that the same message of the same caller made: `created: false` then, and nothing runs again. Where that one made
   * room for others since, what is found is how it ended: no history, no artifacts, and a status message that says so.
   * A message that names a Todo of the same caller is appended; an interrupted Todo goes on with it (G-58).
   * @throws RookeryError `MESSAGE_ID_REUSED` (same id, other content), `TODO_UNKNOWN`, `TODO_TERMINAL` (message names a task),
   * `MESSAGE_INVALID`, `CONTEXT_MISMATCH`, `CONTEXT_INVALID`, `TODO_LIMIT` (data.kind)
   */
  create(input: TodoCreate): Promise<{ todo: Todo; created: boolean }>
  get(id: string): Promise<Todo | undefined>
  /** the Todo that this very message made or went into, if it came before, as {@link create} finds it @throws RookeryError `MESSAGE_ID_REUSED` */
  ofMessage(input: { agent: EidHex; caller: Principal; message: JsonObject }): Promise<Todo | undefined>
  /** newest change first; `limit` 1 to 100, by default 50 @throws RookeryError `CURSOR_INVALID` */
  list(filter: { agent?: EidHex; caller?: string; state?: TodoState; limit?: number; cursor?: string }): Promise<TodoPage>
  /** the oldest pending one that needs no approval, leased to `holder` */
  claim(agent: EidHex, holder: string, options: { leaseMs: number }): Promise<Todo | undefined>
  /** as {@link claim}, up to `countMax` of them in one batch, the oldest first */
  claimSome(agent: EidHex, holder: string, options: { leaseMs: number; countMax: number }): Promise<Todo[]>
  /** this very one, for who works by hand; undefined unless it is pending and needs no approval */
  claimOne(id: string, holder: string, options: { leaseMs: number }): Promise<Todo | undefined>
  /** @throws RookeryError `LEASE_LOST` */
  renew(id: string, holder: string, options: { leaseMs: number }): Promise<Todo>
  complete(id: string, holder: string, artifacts: JsonObject[], message?: JsonObject): Promise<Todo>
  /** ends it as failed @throws RookeryError `LEASE_LOST` */
  fail(id: string, holder: string, reason: string): Promise<Todo>
  /** back to pending after a failed attempt; failed once the attempts are used up @throws RookeryError `LEASE_LOST` */
  retry(id: string, holder: string, reason: string): Promise<Todo>
  /** back to pending without counting the attempt, as at a shutdown @throws RookeryError `LEASE_LOST` */
  release(id: string, holder: string): Promise<Todo>
  /** one that is canceled already is given back @throws RookeryError `TODO_UNKNOWN`, `TODO_TERMINAL` */
  cancel(id: string): Promise<Todo>
  /** a Todo whose approval is needed goes to pending or to rejected @throws RookeryError `TODO_UNKNOWN`, `APPROVAL_NOT_NEEDED` */
  approve(id: string, verdict: 'given' | 'refused'): Promise<Todo>
  /** Called after every commit, in commit order (G-60). Returns the unsubscriber. */
  onCommit(hook: (todo: Todo) => void): () => void
  /** Asked for every new Todo of `agent` that may run at once, where no older one waits. Returns the unsubscriber. */
  onCreate(agent: EidHex, offer: () => Taker | undefined): () => void
  /** Resolves at a terminal or interrupted state, or with the Todo as it is when the signal fires. */
  settled(id: string, options?: { signal?: AbortSignal }): Promise<Todo>
  stop(): Promise<void>
}
