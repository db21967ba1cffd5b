import type { Clock } from '../platform/clock.ts'
import { CallerCounts } from '../tasks/caller-counts.ts'
import { stateClass } from '../tasks/states.ts'
import type { Todo, TodoState, Todos } from '../tasks/todo.ts'
import type { TodoEvent } from '../tasks/trail.ts'
import { A2aError, taskNotFound } from './a2a-error.ts'
import type { Caller } from './caller.ts'
import { eventsOf, isAfter, placeOf, snapshotEvent, type TaskEvent } from './task-events.ts'
import { STREAM_BUFFER_BYTES_MAX, TaskStream } from './task-stream.ts'

/** TD-R4, with a named reason at each bound. */
export interface TaskStreamsSettings {
  /** open streams of one caller; above it `RATE_LIMITED`, cause `STREAM_LIMIT`, kind `caller` */
  perCallerMax: number
  /** of all; kind `node` */
  nodeMax: number
  /** {@link STREAM_BUFFER_BYTES_MAX} */
  bufferBytesMax: number
  heartbeatMs: number
}

export const TASK_STREAMS_DEFAULTS: TaskStreamsSettings = {
  perCallerMax: 8,
  nodeMax: 256,
  bufferBytesMax: STREAM_BUFFER_BYTES_MAX,
  heartbeatMs: 15_000
}

/** When a stream may be asked for again, where a bound refused it. */
const RETRY_AFTER_SEC = 5

/** One reader of a task. */
interface Reader {
  readonly stream: TaskStream
  /** number of the last event that its beginning covers; undefined while that is read */
  covered: number | undefined
  /** commits that came while the beginning was read */
  early: { events: readonly TaskEvent[]; n: number; state: TodoState }[]
}

/** All who read one task: one watch of its Todo, and each event made once. */
interface Feed {
  readonly readers: Set<Reader>
  readonly unwatch: () => void
}

/** A stream that was allowed. */
export interface StreamPermit {
  /**
   * @param options.snapshot - `live`: only of a task that has not ended
   * @throws A2aError `UNSUPPORTED_OPERATION`, `TASK_NOT_FOUND`
   */
  open(id: string, options: { snapshot: 'live' | 'any' }): Promise<TaskStream>
  release(): void
}

/** The streams of a node: every one is fed by the one commit hook (TD-24), none by asking again (TD-25). */
export class TaskStreams {
  readonly #todos: Pick<Todos, 'watch' | 'eventsAfter'>
  readonly #clock: Clock
  readonly #settings: TaskStreamsSettings
  /** tasks that are read, so bounded by the streams */
  readonly #feeds = new Map<string, Feed>()
  readonly #perCaller = new CallerCounts()
  readonly #beats = new Set<() => void>()
  #cancelBeat: (() => void) | undefined
  #stopped = false

  constructor(
    { todos, clock }: { todos: Pick<Todos, 'watch' | 'eventsAfter'>; clock: Clock },
    settings: Partial<TaskStreamsSettings> = {}
  ) {
    this.#todos = todos
    this.#clock = clock
    this.#settings = { ...TASK_STREAMS_DEFAULTS, ...settings }
  }

  get settings(): Readonly<TaskStreamsSettings> {
    return this.#settings
  }

  /** What is held now. */
  get held(): { streams: number; tasks: number; heartbeats: number; timers: number } {
    return {
      streams: this.#perCaller.all,
      tasks: this.#feeds.size,
      heartbeats: this.#beats.size,
      timers: this.#cancelBeat === undefined ? 0 : 1
    }
  }

  /** @throws A2aError `RATE_LIMITED`, before anything is written */
  reserve(caller: Caller): StreamPermit {
    const { perCallerMax, nodeMax } = this.#settings
    // a caller may hold several vended endpoints, each with its own bound (TD-31)
    const who = caller.principal.grant?.id ?? caller.principal.id
    if (this.#stopped) throw stopping()
    if (this.#perCaller.of(who) >= perCallerMax) throw streamLimit('caller', perCallerMax)
    if (this.#perCaller.all >= nodeMax) throw streamLimit('node', nodeMax)
    this.#perCaller.add(who, 1)
    let held = true
    const release = () => {
      if (!held) return
      held = false
      this.#perCaller.add(who, -1)
    }
    return { release, open: (id, { snapshot }) => this.#open(id, caller, snapshot, release) }
  }

  /** Calls every `heartbeatMs`, by one timer for all. Returns the unsubscriber. */
  onHeartbeat(beat: () => void): () => void {
    const own = () => beat()
    this.#beats.add(own)
    if (this.#cancelBeat === undefined) this.#beatLater()
    return () => {
      this.#beats.delete(own)
      if (this.#beats.size === 0) this.#stopBeats()
    }
  }

  /** Every reader is told, and none comes in any more. */
  stop(): void {
    this.#stopped = true
    for (const { readers } of [...this.#feeds.values()]) for (const { stream } of [...readers]) stream.fail(stopping())
    this.#beats.clear()
    this.#stopBeats()
  }

  #stopBeats(): void {
    this.#cancelBeat?.()
    this.#cancelBeat = undefined
  }

  #beatLater(): void {
    this.#cancelBeat = this.#clock.after(this.#settings.heartbeatMs, () => {
      this.#beatLater()
      for (const beat of [...this.#beats]) beat()
    })
  }

  async #open(id: string, { signal, lastEventId }: Caller, snapshot: 'live' | 'any', release: () => void): Promise<TaskStream> {
    signal.throwIfAborted()
    const aborted = () => endFor(stream, signal.reason)
    const stream: TaskStream = new TaskStream({
      bufferBytesMax: this.#settings.bufferBytesMax,
      left: () => {
        signal.removeEventListener('abort', aborted)
        this.#leave(id, reader)
        release()
      }
    })
    const reader: Reader = { stream, covered: undefined, early: [] }
    signal.addEventListener('abort', aborted, { once: true })
    this.#join(id, reader)
    try {
      // From here on no commit is missed: what comes while this is read waits in the reader.
      const { todo, first, began } = await this.#beginning(id, lastEventId)
      signal.throwIfAborted()
      if (this.#stopped) throw stopping()
      if (snapshot === 'live' && stateClass(todo.state) === 'terminal') {
        throw new A2aError('UNSUPPORTED_OPERATION', 'the task has ended and has no more events: read it with GetTask')
      }
      stream.begin(began, first)
      reader.covered = todo.seq ?? 0
      if (stateClass(todo.state) === 'terminal' || (snapshot === 'any' && endsStream(todo.state))) stream.end()
      for (const commit of reader.early.splice(0)) tell(reader, commit)
      return stream
    } catch (error) {
      stream.close()
      throw error
    }
  }

  /** What a reader has not had; or the whole task, where that is not known any more or nothing was asked (G-60). */
  async #beginning(
    id: string,
    lastEventId: string | undefined
  ): Promise<{ todo: Todo; first: TaskEvent[]; began: 'snapshot' | 'resumed' }> {
    const place = lastEventId === undefined ? undefined : placeOf(lastEventId)
    const from = place === undefined ? Number.MAX_SAFE_INTEGER : place.n - (Number.isFinite(place.piece) ? 1 : 0)
    const { todo, events } = await this.#todos.eventsAfter(id, from).catch((error) => {
      throw isUnknown(error) ? taskNotFound() : error
    })
    if (place === undefined || events === undefined || place.n > (todo.seq ?? 0)) {
      return { todo, first: [snapshotEvent(todo)], began: 'snapshot' }
    }
    const missed = events.flatMap((event) => eventsOf(todo, event))
    return { todo, first: missed.filter((event) => isAfter(event.id, place)), began: 'resumed' }
  }

  #join(id: string, reader: Reader): void {
    let feed = this.#feeds.get(id)
    if (feed === undefined) {
      const readers = new Set<Reader>()
      feed = { readers, unwatch: this.#todos.watch(id, (todo, events) => this.#committed(readers, todo, events)) }
      this.#feeds.set(id, feed)
    }
    feed.readers.add(reader)
  }

  #leave(id: string, reader: Reader): void {
    const feed = this.#feeds.get(id)
    if (feed === undefined || !feed.readers.delete(reader) || feed.readers.size > 0) return
    this.#feeds.delete(id)
    feed.unwatch()
  }

  #committed(readers: ReadonlySet<Reader>, todo: Todo, events: readonly TodoEvent[]): void {
    if (events.length === 0) return
    const commit = { events: events.flatMap((event) => eventsOf(todo, event)), n: todo.seq ?? 0, state: todo.state }
    for (const reader of [...readers]) {
      if (reader.covered === undefined) reader.early.push(commit)
      else tell(reader, commit)
    }
  }
}

/** A commit whole, or nothing of it where the reader's beginning covers it. */
function tell(reader: Reader, { events, n, state }: Reader['early'][number]): void {
  if (reader.covered === undefined || n <= reader.covered) return
  reader.covered = n
  for (const event of events) reader.stream.push(event)
  if (events.length > 0 && endsStream(state)) reader.stream.end()
}

/** A caller that left needs no word; one whose right ended, or whose node stops, is told. */
function endFor(stream: TaskStream, reason: unknown): void {
  if (reason instanceof A2aError && reason.reason !== 'OUTCOME_UNKNOWN') stream.fail(reason)
  else stream.close()
}

/** A task that will not move by itself any more: it has ended, or waits for its caller's next message. */
function endsStream(state: TodoState): boolean {
  return stateClass(state) === 'terminal' || state === 'input-required'
}

function isUnknown(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'TODO_UNKNOWN'
}

function stopping(): A2aError {
  return new A2aError('INTERNAL_ERROR', 'the node is stopping; the task is kept: subscribe again', { metadata: { cause: 'NODE_STOPPING' } })
}

function streamLimit(kind: 'caller' | 'node', max: number): A2aError {
  const whose = kind === 'caller' ? 'of this caller' : 'of this node'
  return new A2aError('RATE_LIMITED', `${max} streams ${whose} are open already: close one first`, {
    metadata: { cause: 'STREAM_LIMIT', kind, max: String(max) },
    retryAfterSec: RETRY_AFTER_SEC
  })
}
