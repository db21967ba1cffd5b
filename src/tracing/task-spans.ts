import type { Span, Tracer } from '../platform/tracer.ts'
import { stateClass } from '../tasks/states.ts'
import type { Todo, Todos } from '../tasks/todo.ts'
import type { TodoEvent, TodoEventKind } from '../tasks/trail.ts'

/** Attempts whose end is awaited; as many as Todos may be open. Above it the oldest are given up. */
const ATTEMPTS_MAX = 10_000

/** What ends an attempt. */
const ENDS: ReadonlySet<TodoEventKind> = new Set(['returned', 'asked', 'ended'])

/**
 * What becomes of tasks as spans, read from the commits of their store: one for the time until the first claim, one for each attempt. Both are children of the
 * span that made the task.
 */
export class TaskSpans {
  readonly #tracer: Tracer
  readonly #attempts = new Map<string, { attempt: number; span: Span }>()

  constructor(tracer: Tracer, todos: Pick<Todos, 'onCommit'>) {
    this.#tracer = tracer
    todos.onCommit((todo, events) => this.#committed(todo, events))
  }

  /** The span of the attempt that a claimed Todo is in, for who works at it; undefined for one without a trace. */
  attemptOf({ id, traceparent, attempt, door, lease }: Todo): string | undefined {
    if (traceparent === undefined) return undefined
    const held = this.#attempts.get(id)
    if (held?.attempt === attempt) return held.span.traceparent
    held?.span.end()
    const span = this.#tracer.start('task attempt', {
      kind: 'consumer',
      parent: traceparent,
      attributes: { 'rookery.task.id': id, 'rookery.task.attempt': attempt, 'rookery.door': doorOf(lease?.holder) ?? door }
    })
    this.#attempts.delete(id)
    if (this.#attempts.size >= ATTEMPTS_MAX) {
      const [oldest] = this.#attempts.keys()
      this.#attempts.get(oldest as string)?.span.end({ error: 'ATTEMPTS_MAX' })
      this.#attempts.delete(oldest as string)
    }
    this.#attempts.set(id, { attempt, span })
    return span.traceparent
  }

  #committed(todo: Todo, events: readonly TodoEvent[]): void {
    if (todo.traceparent === undefined) return
    for (const event of events) {
      if (event.kind === 'claimed') {
        if (event.attempt === 1) this.#waited(todo, event.atMs)
        if (todo.state === 'claimed') this.attemptOf(todo)
      } else if (ENDS.has(event.kind)) this.#ended(todo, event)
    }
  }

  #waited({ id, traceparent, createdAtMs }: Todo, endMs: number): void {
    const attributes = { 'rookery.task.id': id }
    this.#tracer
      .start('task waits', { kind: 'internal', parent: traceparent, startMs: createdAtMs, attributes })
      .end({ endMs: Math.max(createdAtMs, endMs) })
  }

  #ended(todo: Todo, { kind, state }: TodoEvent): void {
    const held = this.#attempts.get(todo.id)
    if (held === undefined) return
    this.#attempts.delete(todo.id)
    held.span.set({ 'rookery.task.state': state })
    const failed = kind === 'returned' || (stateClass(state) === 'terminal' && state !== 'done')
    held.span.end(failed ? { error: state === 'pending' ? 'attempt_failed' : state } : {})
  }
}

/** The protocol that a holder came by. */
function doorOf(holder: string | undefined): string | undefined {
  const door = holder?.split(':', 1)[0]
  return door === 'worker' ? 'handler' : door
}
