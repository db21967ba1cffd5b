import type { SideEffects } from '../../protocol/ecc/vocabulary.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { WriteOp } from '../store/store.ts'
import type { ExecutionRefusal, TodoExecution } from './execution.ts'
import type { TodoEvent } from './trail.ts'

/** The closed set of states of a Todo; every switch over it is exhaustive (TD-08, TD-09, TD-33). */
export type TodoState = 'pending' | 'claimed' | 'input-required' | 'auth-required' | 'done' | 'failed' | 'canceled' | 'rejected'

/** By which protocol something came: what a Todo was made by, and what each entry of its trail names (TD-16). `node`: nobody asked, time passed. */
export type TodoDoor = 'a2a-http' | 'a2a-rest' | 'a2a-pss' | 'asleep-queue' | 'library' | 'mcp' | 'agent-http' | 'control' | 'node'

/** Who asks: a verified principal, never a field of a message (OD-31). */
export interface Principal {
  /** `eid:<hex>` for a session's EID or a local agent's token */
  readonly id: string
  readonly eid: EidHex
}

/** Who did it, for the trail: the protocol, and the principal or holder where there is one. */
export interface Actor {
  door: TodoDoor
  who?: string
}

/** A2A ProtoJSON as it came, validated but not re-serialised. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

/** The one stored shape of work (TD-15, TD-17): an A2A Task is a projection of it. Rows of former versions lack what is optional here. */
export interface Todo {
  id: string
  agent: EidHex
  caller: string
  contextId: string
  state: TodoState
  /** counts from 1 with every write; compare before you write */
  revision: number
  createdAtMs: number
  /** of the last event; a renewed lease is none */
  changedAtMs: number
  /** `a2a:` + agent + caller + messageId, or the key that was given in its place (TD-Q4) */
  dedupKey: string
  /** keys that messages were given in place of their messageId, without agent and caller */
  dedupKeys?: string[]
  /** sha-256 hex of the request's content without its messageId */
  digest: string
  door: TodoDoor
  /** a named queue of the agent; absent: its only one */
  queue?: string
  /** 0 to 9, the highest first; absent: 0 */
  priority?: number
  /** A2A Messages, oldest first */
  history: JsonObject[]
  /** A2A Artifacts */
  artifacts: JsonObject[]
  /** an A2A Message that goes with the state */
  statusMessage?: JsonObject
  /** while claimed */
  lease?: { holder: string; untilMs: number }
  attempt: number
  /** attempts that ended with a question: the answer begins the count anew */
  attemptsAsked?: number
  /** pending, but not claimed before this: after an attempt that failed, Unix ms */
  notBeforeMs?: number
  /** interrupted, and failed then unless somebody answers (TD-Q2), Unix ms */
  deadlineMs?: number
  /** OD-40: work from the queue with a consequential or undeclared skill waits for the owner */
  approval?: 'needed' | 'given' | 'refused'
  /** who gave or refused it: `owner`, or `policy:NAME` of a rule of the owner's */
  approvedBy?: string
  failure?: string
  /** under which contract it is executed; absent: under none */
  execution?: TodoExecution
  /** it lies among the dead letters since: its attempts are used up, Unix ms */
  deadAtMs?: number
  /** the failed Todo in whose place it was made */
  retryOf?: string
  /** the span that made it, where traces are on */
  traceparent?: string
  /** number of its newest event; they count from 1 without a gap (G-60) */
  seq?: number
  /** the newest events, oldest first: what streams resume from, and who did what by which protocol */
  trail?: TodoEvent[]
}

export interface TodoCreate {
  agent: EidHex
  caller: Principal
  message: JsonObject
  door: TodoDoor
  /** in place of the messageId (G-69): the same key with the same content is the same Todo, with another content an error; known for 7 days */
  dedupKey?: string
  queue?: string
  priority?: number
  /** written in the same synced batch: the queue record's removal, the replay id (G-15) */
  alongside?: readonly WriteOp[]
  /** `given`: by the rule that `approvedBy` names */
  approval?: 'needed' | 'given'
  approvedBy?: string
  /** under this contract */
  execution?: TodoExecution
  /** it is rejected as it is made, or with this message: its contract does not hold any more (G-70) */
  refused?: ExecutionRefusal
}

/** What index and counts tell apart: a state, and `again` for a Todo that is pending after an attempt (outside it stays WORKING, G-57). */
export type TodoSlot = TodoState | 'again'

export interface TodoFilter {
  agent?: EidHex
  caller?: string
  /** with agent and caller */
  contextId?: string
  state?: TodoState
  /** in place of `state` */
  slots?: readonly TodoSlot[]
  /** changed then or later, Unix ms */
  changedFromMs?: number
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

export interface ClaimOptions {
  leaseMs: number
  /** of this named queue alone */
  queue?: string
  /** what whoever claims may do with it; absent: it is claimed by hand, with the owner's consent (OD-40) */
  sideEffects?: SideEffects
}

/** What an agent tells while it works. A part of an artifact is appended to the one of its id, or takes its place. */
export interface Progress {
  /** an A2A Message of the agent */
  message?: JsonObject
  artifact?: JsonObject
  append?: boolean
  lastChunk?: boolean
}

/** What came too late for a Todo and is kept as audit, not as state (G-59). */
export interface LateResult {
  atMs: number
  holder: string
  act: 'complete' | 'fail' | 'ask' | 'reject'
  /** sha-256 hex of its RFC 8785 text */
  digest: string
  bytes: number
  /** absent above the bound of size */
  content?: JsonObject
}

export type CommitHook = (todo: Todo, events: readonly TodoEvent[]) => void

/** The durable Todo store: one state machine, one way to create, one commit hook (TD-12, TD-13, TD-24). */
export interface Todos {
  /**
   * Creates, or finds the one that the same message of the same caller made: `created: false` then, and nothing runs again. Where that one made
   * room for others, what is known of it is given: its state, without messages and artifacts. With `taskId` the message goes into that Todo; an
   * interrupted one is pending again with it (G-58).
   * @throws RookeryError `MESSAGE_INVALID`, `MESSAGE_ID_REUSED`, `TODO_UNKNOWN`, `TODO_TERMINAL`, `TODO_LIMIT` (data.kind),
   *   `CONTEXT_INVALID`, `CONTEXT_MISMATCH`, `PRIORITY_INVALID`
   */
  create(input: TodoCreate): Promise<{ todo: Todo; created: boolean }>
  get(id: string): Promise<Todo | undefined>
  /** the Todo that this very message made or went into, if it came before, as {@link create} finds it @throws RookeryError `MESSAGE_ID_REUSED` */
  ofMessage(input: { agent: EidHex; caller: Principal; message: JsonObject; dedupKey?: string }): Promise<Todo | undefined>
  /** newest change first; `limit` 1 to 100, by default 50, fewer where they are large; flat in the number of Todos @throws RookeryError `CURSOR_INVALID` */
  list(filter: TodoFilter & { limit?: number; cursor?: string }): Promise<TodoPage>
  /** how many a filter matches: from memory, unless it names a context or a time, whose keys are counted */
  count(filter: TodoFilter): Promise<number>
  /** the next pending one, the highest priority first, then the oldest; leased to `holder` */
  claim(agent: EidHex, holder: string, options: ClaimOptions): Promise<Todo | undefined>
  /** as {@link claim}, up to `countMax` of them in one batch */
  claimSome(agent: EidHex, holder: string, options: ClaimOptions & { countMax: number }): Promise<Todo[]>
  /** this very one, for who works by hand; undefined unless it is pending and needs no approval */
  claimOne(id: string, holder: string, options: { leaseMs: number }): Promise<Todo | undefined>
  /** @throws RookeryError `LEASE_LOST` with the state in its data: how a holder learns of a cancel (G-59) */
  renew(id: string, holder: string, options: { leaseMs: number }): Promise<Todo>
  /** @throws RookeryError `LEASE_LOST`, `TODO_LIMIT` (bytes), `MESSAGE_INVALID`, `ARTIFACT_INVALID` */
  progress(id: string, holder: string, progress: Progress): Promise<Todo>
  /** artifacts of an id that is there already take its place @throws RookeryError `LEASE_LOST` */
  complete(id: string, holder: string, artifacts: JsonObject[], message?: JsonObject): Promise<Todo>
  /** ends it as failed @throws RookeryError `LEASE_LOST` */
  fail(id: string, holder: string, reason: string): Promise<Todo>
  /** waits for the caller's next message, or for its authorization @throws RookeryError `LEASE_LOST` */
  ask(id: string, holder: string, question: { for: 'input' | 'auth'; message: JsonObject }): Promise<Todo>
  /** the agent will not do it. Without a holder: whoever owns the agent, in every state that is not terminal @throws RookeryError `LEASE_LOST`, `TODO_TERMINAL` */
  reject(id: string, holder: string | undefined, reason: string, by?: Actor): Promise<Todo>
  /** back to pending after a failed attempt, not before a while; failed once the attempts are used up @throws RookeryError `LEASE_LOST` */
  retry(id: string, holder: string, reason: string): Promise<Todo>
  /** back to pending without counting the attempt, as at a shutdown @throws RookeryError `LEASE_LOST` */
  release(id: string, holder: string): Promise<Todo>
  /** one that is canceled already is given back @throws RookeryError `TODO_UNKNOWN`, `TODO_TERMINAL` */
  cancel(id: string, by?: Actor): Promise<Todo>
  /** a Todo whose approval is needed goes to pending or to rejected @throws RookeryError `TODO_UNKNOWN`, `APPROVAL_NOT_NEEDED` */
  approve(id: string, verdict: 'given' | 'refused', by?: Actor): Promise<Todo>
  /** Called after every commit, in commit order, with the events that it made; none for a renewed lease (G-60). Returns the unsubscriber. */
  onCommit(hook: CommitHook): () => void
  /** As {@link onCommit}, for one Todo. */
  watch(id: string, hook: CommitHook): () => void
  /** events after number `n`, oldest first; undefined where the ring has not all of them any more: send the state again */
  eventsAfter(id: string, n: number): Promise<{ todo: Todo; events: readonly TodoEvent[] | undefined }>
  /** Called whenever a Todo of the agent may be claimed that could not before. Returns the unsubscriber. */
  onClaimable(agent: EidHex, hook: () => void): () => void
  /** Whoever claims for the agent looks again: it takes work now and did not before. */
  reconsider(agent: EidHex): void
  /** Asked for every new Todo of `agent` that may run at once, where no older one waits. Returns the unsubscriber. */
  onCreate(agent: EidHex, offer: () => Taker | undefined): () => void
  /** Resolves at a terminal or interrupted state, or with the Todo as it is when the signal fires. */
  settled(id: string, options?: { signal?: AbortSignal }): Promise<Todo>
  stop(): Promise<void>
}
