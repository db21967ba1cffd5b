import type { JsonObject, Todo, TodoDoor, TodoState } from './todo.ts'

export type TodoEventKind =
  | 'created'
  | 'claimed'
  | 'returned'
  | 'message'
  | 'progress'
  | 'artifact'
  | 'asked'
  | 'answered'
  | 'approved'
  | 'ended'

/** One thing that happened to a Todo: an entry of its audit trail, and an event of its streams (TD-16, G-60). */
export interface TodoEvent {
  /** counts from 1 in each Todo, without a gap */
  n: number
  atMs: number
  kind: TodoEventKind
  /** after it */
  state: TodoState
  attempt: number
  /** the protocol that it came by */
  door: TodoDoor
  /** principal or holder */
  who?: string
  reason?: string
  /** the A2A Message that came with the state */
  status?: JsonObject
  /** place in `history` of the message that came */
  message?: number
  /** what was told of an artifact: its parts from `from` up to and without `to` */
  artifact?: { id: string; from: number; to: number; append: boolean; lastChunk: boolean }
}

/** An event before it has its number. */
export type NewEvent = Omit<TodoEvent, 'n' | 'atMs' | 'state' | 'attempt'> & Partial<Pick<TodoEvent, 'state' | 'attempt'>>

/** What bounds a trail; at a bound what was told on the way goes first, then the oldest. */
export const TRAIL_EVENTS_MAX = 128
export const TRAIL_STATUS_CHARS_MAX = 262_144

const PASSING: ReadonlySet<TodoEventKind> = new Set(['progress', 'artifact', 'message'])

/** The Todo with these events at the end of its trail, and the events as they were numbered. */
export function withEvents(todo: Todo, added: readonly NewEvent[], nowMs: number): { todo: Todo; events: TodoEvent[] } {
  if (added.length === 0) return { todo, events: [] }
  let seq = todo.seq ?? 0
  const events = added.map((event): TodoEvent => ({ n: ++seq, atMs: nowMs, state: todo.state, attempt: todo.attempt, ...event }))
  const replaced = new Set(events.flatMap(({ artifact }) => (artifact !== undefined && !artifact.append ? [artifact.id] : [])))
  const kept = (todo.trail ?? []).filter(({ artifact }) => artifact === undefined || !replaced.has(artifact.id))
  return { todo: { ...todo, seq, trail: bounded([...kept, ...events]) }, events }
}

/** Those after number `n`, or undefined where one is missing. */
export function eventsAfter({ seq = 0, trail = [] }: Todo, n: number): TodoEvent[] | undefined {
  const events = trail.filter((event) => event.n > n)
  return events.length === Math.max(0, seq - n) ? events : undefined
}

/** The artifact that an event told of, an A2A Artifact with the parts that came then; undefined where it was replaced since. */
export function artifactOf(todo: Todo, { artifact }: TodoEvent): JsonObject | undefined {
  if (artifact === undefined) return undefined
  const whole = todo.artifacts.find((one) => one.artifactId === artifact.id)
  if (whole === undefined || !Array.isArray(whole.parts)) return undefined
  return { ...whole, parts: whole.parts.slice(artifact.from, artifact.to) }
}

function bounded(trail: TodoEvent[]): TodoEvent[] {
  const sizes = new Map<TodoEvent, number>()
  let chars = 0
  for (const event of trail) {
    if (event.status === undefined) continue
    const size = JSON.stringify(event.status).length
    sizes.set(event, size)
    chars += size
  }
  const kept = [...trail]
  while (kept.length > TRAIL_EVENTS_MAX || chars > TRAIL_STATUS_CHARS_MAX) {
    const tooLong = kept.length > TRAIL_EVENTS_MAX
    const drops = (event: TodoEvent) => (tooLong ? PASSING.has(event.kind) : sizes.has(event))
    const at = Math.max(0, kept.findIndex(drops))
    const [gone] = kept.splice(at, 1) as [TodoEvent]
    chars -= sizes.get(gone) ?? 0
  }
  return kept
}
