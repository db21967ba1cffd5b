import type { SideEffects } from '../../protocol/ecc/vocabulary.ts'
import type { ExecutionRefusal } from './execution.ts'
import { stateClass } from './states.ts'
import type { Actor, JsonObject, Progress, Todo, TodoDoor } from './todo.ts'
import type { NewEvent } from './trail.ts'

type Lease = NonNullable<Todo['lease']>

/** What an act makes of a Todo, and what is told of it. Which state may follow which is said in `states.ts`. */
export interface Move {
  todo: Todo
  events: NewEvent[]
}

/** Reasons are for people. */
const REASON_CHARS_MAX = 1_000

/** A Todo waits for no time and nobody's answer. */
function unbound({ lease: _, notBeforeMs: __, deadlineMs: ___, ...todo }: Todo): Todo {
  return todo
}

function unspoken({ statusMessage: _, ...todo }: Todo): Todo {
  return todo
}

const heldBy = (todo: Todo): Actor => (todo.lease === undefined ? { door: 'node' } : actorOfHolder(todo.lease.holder))

/** Holders begin with the door that they came by; a handler inside the process is the library. */
export function actorOfHolder(holder: string): Actor {
  const prefix = holder.slice(0, Math.max(0, holder.indexOf(':')))
  const door: TodoDoor = prefix === 'mcp' || prefix === 'agent-http' || prefix === 'control' ? prefix : 'library'
  return { door, who: holder }
}

/** One more attempt, under a lease. */
export function claimed(todo: Todo, lease: Lease): Move {
  return {
    todo: { ...unbound(todo), state: 'claimed', attempt: todo.attempt + 1, lease },
    events: [{ kind: 'claimed', ...actorOfHolder(lease.holder) }]
  }
}

export function renewed(todo: Todo, lease: Lease): Move {
  return { todo: { ...todo, lease }, events: [] }
}

export function reported(todo: Todo, { message, artifact, append = false, lastChunk = false }: Progress): Move {
  const by = heldBy(todo)
  const events: NewEvent[] = []
  let after = todo
  if (artifact !== undefined) {
    const { artifacts, event } = withArtifact(after.artifacts, artifact, { append, lastChunk })
    after = { ...after, artifacts }
    events.push({ kind: 'artifact', ...by, artifact: event })
  }
  if (message !== undefined) {
    const status = ownMessage(todo, message)
    after = { ...after, statusMessage: status }
    events.push({ kind: 'progress', ...by, status })
  }
  return { todo: after, events }
}

export function completed(todo: Todo, artifacts: JsonObject[], message?: JsonObject): Move {
  const by = heldBy(todo)
  const events: NewEvent[] = []
  let all = todo.artifacts
  for (const artifact of artifacts) {
    const { artifacts: next, event } = withArtifact(all, artifact, { append: false, lastChunk: true })
    all = next
    events.push({ kind: 'artifact', state: todo.state, ...by, artifact: event })
  }
  const status = message === undefined ? undefined : ownMessage(todo, message)
  const said = status === undefined ? {} : { statusMessage: status }
  return {
    todo: { ...unspoken(unbound(todo)), state: 'done', artifacts: all, ...said },
    events: [...events, { kind: 'ended', ...by, ...(status === undefined ? {} : { status }) }]
  }
}

export function failed(todo: Todo, reason: string, by: Actor = heldBy(todo)): Move {
  const failure = reason.slice(0, REASON_CHARS_MAX)
  return { todo: { ...unspoken(unbound(todo)), state: 'failed', failure }, events: [{ kind: 'ended', ...by, reason: failure }] }
}

/** Pending again after an attempt that came to nothing; failed after the last, and then a dead letter. */
export function retried(
  todo: Todo,
  reason: string,
  { attemptsMax, notBeforeMs, nowMs, by = heldBy(todo) }: { attemptsMax: number; notBeforeMs?: number; nowMs: number; by?: Actor }
): Move {
  if (isOnce(todo) || todo.attempt - (todo.attemptsAsked ?? 0) >= attemptsMax) {
    const end = failed(todo, reason, by)
    return { ...end, todo: { ...end.todo, deadAtMs: nowMs } }
  }
  const failure = reason.slice(0, REASON_CHARS_MAX)
  const later = notBeforeMs === undefined ? {} : { notBeforeMs }
  return {
    todo: { ...unspoken(unbound(todo)), state: 'pending', failure, ...later },
    events: [{ kind: 'returned', ...by, reason: failure }]
  }
}

/** Its contract lets nobody begin it twice: what an attempt that was cut off has done is not known (ECC-14). */
function isOnce({ execution }: Todo): boolean {
  return execution?.replaySafe === 'no'
}

/** Pending again as if the attempt had not been. */
export function released(todo: Todo): Move {
  if (isOnce(todo)) return failed(todo, 'interrupted, and its contract does not let it begin again')
  return {
    todo: { ...unbound(todo), state: 'pending', attempt: todo.attempt - 1 },
    events: [{ kind: 'returned', ...heldBy(todo), reason: 'released' }]
  }
}

export function asked(todo: Todo, question: { for: 'input' | 'auth'; message: JsonObject }, deadlineMs: number | undefined): Move {
  const status = ownMessage(todo, question.message)
  const until = deadlineMs === undefined ? {} : { deadlineMs }
  return {
    todo: {
      ...unbound(todo),
      state: question.for === 'input' ? 'input-required' : 'auth-required',
      attemptsAsked: todo.attempt,
      statusMessage: status,
      ...until
    },
    events: [{ kind: 'asked', ...heldBy(todo), status }]
  }
}

export function canceled(todo: Todo, by: Actor): Move {
  return { todo: { ...unspoken(unbound(todo)), state: 'canceled' }, events: [{ kind: 'ended', ...by }] }
}

/** Its contract does not hold any more: nothing of it was begun (G-70). */
export function refused(todo: Todo, { reason, metadata }: ExecutionRefusal): Move {
  return rejected(todo, reason, { door: 'node' }, { metadata, extensions: Object.keys(metadata) })
}

export function rejected(todo: Todo, reason: string, by: Actor, more: JsonObject = {}): Move {
  const text = reason.slice(0, REASON_CHARS_MAX)
  const status = ownMessage(todo, { messageId: `${todo.id}-rejected`, parts: [{ text }], ...more })
  return {
    todo: { ...unbound(todo), state: 'rejected', failure: text, statusMessage: status },
    events: [{ kind: 'ended', ...by, reason: text, status }]
  }
}

export function judged(todo: Todo, verdict: 'given' | 'refused', by: Actor): Move {
  const after = { ...unspoken(unbound(todo)), approval: verdict, approvedBy: 'owner' }
  return verdict === 'given'
    ? { todo: { ...after, state: 'pending' }, events: [{ kind: 'approved', ...by }] }
    : { todo: { ...after, state: 'rejected' }, events: [{ kind: 'ended', ...by, reason: 'not approved' }] }
}

/** Whoever asks for it may do what cannot be undone, and only the queue brought it: it waits for its owner (OD-40, G-19). */
export function withheld(todo: Todo, deadlineMs: number | undefined): Move {
  const until = deadlineMs === undefined ? {} : { deadlineMs }
  return {
    todo: { ...unspoken(unbound(todo)), state: 'auth-required', approval: 'needed', ...until },
    events: [{ kind: 'asked', door: 'node', reason: 'waits for approval' }]
  }
}

/** Whether {@link withheld} is what a claim with these effects makes of it; by hand there are none, since the owner's own act is the consent. */
export function needsApproval({ door, approval }: Todo, sideEffects: SideEffects | undefined): boolean {
  return door === 'asleep-queue' && approval !== 'given' && sideEffects === 'consequential'
}

/** With one more message, whose ids are the Todo's own; an interrupted Todo goes on with it unless it waits for its owner. */
export function continued(todo: Todo, message: JsonObject, by: Actor): Move {
  const history = [...todo.history, { ...message, taskId: todo.id, contextId: todo.contextId }]
  const told = { ...by, message: todo.history.length }
  if (stateClass(todo.state) !== 'interrupted' || todo.approval === 'needed') {
    return { todo: { ...todo, history }, events: [{ kind: 'message', ...told }] }
  }
  return { todo: { ...unspoken(unbound(todo)), history, state: 'pending' }, events: [{ kind: 'answered', ...told }] }
}

/** A message of the agent, in its place: what a door gave for ids and role does not count. */
function ownMessage(todo: Todo, message: JsonObject): JsonObject {
  const messageId = message.messageId ?? `${todo.id}-${(todo.seq ?? 0) + 1}`
  return { ...message, messageId, taskId: todo.id, contextId: todo.contextId, role: 'ROLE_AGENT' }
}

function withArtifact(
  artifacts: readonly JsonObject[],
  artifact: JsonObject,
  { append, lastChunk }: { append: boolean; lastChunk: boolean }
): { artifacts: JsonObject[]; event: NonNullable<NewEvent['artifact']> } {
  const id = artifact.artifactId as string
  const parts = artifact.parts as JsonObject[]
  const at = artifacts.findIndex((one) => one.artifactId === id)
  const before = at < 0 ? undefined : artifacts[at]
  const held = append && before !== undefined ? (before.parts as JsonObject[]) : []
  const whole = { ...(append ? before : {}), ...artifact, parts: [...held, ...parts] }
  return {
    artifacts: at < 0 ? [...artifacts, whole] : artifacts.with(at, whole),
    event: { id, from: held.length, to: held.length + parts.length, append: held.length > 0, lastChunk }
  }
}
