import type { Clock } from '../platform/clock.ts'
import { CallerCounts } from '../tasks/caller-counts.ts'
import { stateClass } from '../tasks/states.ts'
import type { Todo, Todos } from '../tasks/todo.ts'
import { A2aError, taskNotFound } from './a2a-error.ts'
import type { Caller } from './caller.ts'
import { eventsBetween, isAfter, positionOf, snapshotEvent, type TaskEvent } from './task-events.ts'
import { STREAM_BUFFER_BYTES_MAX, TaskStream } from './task-stream.ts'

/** TD-R4, with a named reason at each bound. */
export interface TaskStreamsSettings {
  /** open streams of one caller; above it `RATE_LIMITED`, cause `STREAM_LIMIT`, kind `caller` */
  perCallerMax: number
  /** of all; kind `node` */
  nodeMax: number
  /** {@link STREAM_BUFFER_BYTES_MAX} */
  bufferBytesMax: number
  /** events of one task kept for those who come back, and their bytes; beyond it who comes back gets the whole task */
  ringMax: number
  ringBytesMax: number
  /** tasks whose events are kept though nobody reads them now; the oldest goes first */
  idleMax: number
  heartbeatMs: number
}

export const TASK_STREAMS_DEFAULTS: TaskStreamsSettings = {
  perCallerMax: 8,
  nodeMax: 256,
  bufferBytesMax: STREAM_BUFFER_BYTES_MAX,
  ringMax: 64,
  ringBytesMax: 262_144,
  idleMax: 256,
  heartbeatMs: 15_000
}

/** Until when a stream is asked again, where a bound refused it. */
const RETRY_AFTER_SEC = 5

/** A task's events as far as they are kept, and who reads them. */
interface Feed {
  /** as the last commit left it */
  last: Todo
  readonly ring: TaskEvent[]
  ringBytes: number
  /** who has this event or a later one can be given the rest */
  since: { revision: number; at: number }
  readonly streams: Set<TaskStream>
}

/** A stream that was allowed. */
export interface StreamPlace {
  /**
   * @param options.snapshot - `live`: only of a task that has not ended
   * @throws A2aError `UNSUPPORTED_OPERATION`, `TASK_NOT_FOUND`
   */
  open(id: string, options: { snapshot: 'live' | 'any' }): Promise<TaskStream>
  release(): void
}

/** The streams of a node: every one fed by the one commit hook (TD-24), none by asking. */
export class TaskStreams {
  readonly #todos: Todos
  readonly #clock: Clock
  readonly #settings: TaskStreamsSettings
  /** tasks that are read, and at most `idleMax` that were */
  readonly #feeds = new Map<string, Feed>()
  /** tasks whose Todo is being read, with the commits that came meanwhile */
  readonly #opening = new Map<string, { early: Todo[]; feed: Promise<Feed> }>()
  readonly #perCaller = new CallerCounts()
  readonly #beats = new Set<() => void>()
  readonly #unhook: () => void
  #idle = 0
  #cancelBeat: (() => void) | undefined
  #stopped = false

  constructor({ todos, clock }: { todos: Todos; clock: Clock }, settings: Partial<TaskStreamsSettings> = {}) {
    this.#todos = todos
    this.#clock = clock
    this.#settings = { ...TASK_STREAMS_DEFAULTS, ...settings }
    this.#unhook = todos.onCommit((todo) => this.#committed(todo))
  }

  get settings(): Readonly<TaskStreamsSettings> {
    return this.#settings
  }

  /** Streams that are open or about to. */
  get size(): number {
    return this.#perCaller.all
  }

  /** What is held beside the streams: for tests that look for what was left behind. */
  get held(): { feeds: number; beats: number; timers: number } {
    return { feeds: this.#feeds.size, beats: this.#beats.size, timers: this.#cancelBeat === undefined ? 0 : 1 }
  }

  /** @throws A2aError `RATE_LIMITED`, before anything is written */
  reserve(caller: Caller): StreamPlace {
    const { perCallerMax, nodeMax } = this.#settings
    const who = caller.principal.id
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
    return { release, open: (id, options) => this.#open(id, caller, { ...options, release }) }
  }

  /** Calls every `heartbeatMs`, by one timer for all. Returns the unsubscriber. */
  onHeartbeat(beat: () => void): () => void {
    const own = () => beat()
    this.#beats.add(own)
    if (this.#cancelBeat === undefined) this.#beatLater()
    return () => {
      this.#beats.delete(own)
      if (this.#beats.size > 0) return
      this.#cancelBeat?.()
      this.#cancelBeat = undefined
    }
  }

  stop(): void {
    this.#stopped = true
    this.#unhook()
    for (const { streams } of [...this.#feeds.values()]) for (const stream of [...streams]) stream.fail(stopping())
    this.#feeds.clear()
    this.#beats.clear()
    this.#cancelBeat?.()
    this.#cancelBeat = undefined
  }

  #beatLater(): void {
    this.#cancelBeat = this.#clock.after(this.#settings.heartbeatMs, () => {
      this.#beatLater()
      for (const beat of [...this.#beats]) beat()
    })
  }

  async #open(id: string, { signal, lastEventId }: Caller, init: { snapshot: 'live' | 'any'; release: () => void }): Promise<TaskStream> {
    let feed = await this.#feed(id)
    // dropped again as the oldest that nobody reads
    while (this.#feeds.get(id) !== feed && stateClass(feed.last.state) !== 'terminal' && !this.#stopped) feed = await this.#feed(id)
    signal.throwIfAborted()
    if (this.#stopped) throw stopping()
    const { last } = feed
    if (init.snapshot === 'live' && stateClass(last.state) === 'terminal') {
      throw new A2aError('UNSUPPORTED_OPERATION', 'the task has ended and has no more events: read it with GetTask')
    }
    const missed = lastEventId === undefined ? undefined : missedBy(feed, lastEventId)
    const aborted = () => {
      const { reason } = signal
      if (reason instanceof A2aError && reason.reason !== 'OUTCOME_UNKNOWN') stream.fail(reason)
      else stream.close()
    }
    const stream: TaskStream = new TaskStream({
      began: missed === undefined ? 'snapshot' : 'resumed',
      bufferBytesMax: this.#settings.bufferBytesMax,
      left: () => {
        signal.removeEventListener('abort', aborted)
        feed.streams.delete(stream)
        init.release()
        this.#left(id, feed)
      }
    })
    signal.addEventListener('abort', aborted, { once: true })
    if (feed.streams.size === 0 && this.#feeds.get(id) === feed) this.#idle--
    feed.streams.add(stream)
    for (const event of missed ?? [snapshotEvent(last)]) stream.push(event, 'first')
    if (endsStream(last) && (stateClass(last.state) === 'terminal' || init.snapshot === 'any')) stream.end()
    return stream
  }

  /** The feed of a task, begun where nobody reads it yet; idle until a stream is added. @throws A2aError `TASK_NOT_FOUND` */
  async #feed(id: string): Promise<Feed> {
    const known = this.#feeds.get(id)
    if (known !== undefined) return known
    let opening = this.#opening.get(id)
    if (opening === undefined) {
      const early: Todo[] = []
      opening = { early, feed: this.#begin(id, early) }
      this.#opening.set(id, opening)
    }
    return await opening.feed
  }

  async #begin(id: string, early: Todo[]): Promise<Feed> {
    try {
      const todo = await this.#todos.get(id)
      if (todo === undefined) throw taskNotFound()
      const since = { revision: todo.revision, at: Number.POSITIVE_INFINITY }
      const feed: Feed = { last: todo, ring: [], ringBytes: 0, since, streams: new Set() }
      for (const commit of early) this.#tell(feed, commit)
      if (stateClass(feed.last.state) !== 'terminal' && !this.#stopped) {
        this.#feeds.set(id, feed)
        this.#idle++
        this.#boundIdle()
      }
      return feed
    } finally {
      this.#opening.delete(id)
    }
  }

  #committed(todo: Todo): void {
    this.#opening.get(todo.id)?.early.push(todo)
    const feed = this.#feeds.get(todo.id)
    if (feed === undefined) return
    this.#tell(feed, todo)
    if (stateClass(todo.state) !== 'terminal') return
    if (this.#feeds.delete(todo.id) && feed.streams.size === 0) this.#idle--
  }

  #tell(feed: Feed, todo: Todo): void {
    if (todo.revision <= feed.last.revision) return
    const events = eventsBetween(feed.last, todo)
    feed.last = todo
    for (const event of events) {
      feed.ring.push(event)
      feed.ringBytes += event.text.length
    }
    const { ringMax, ringBytesMax } = this.#settings
    while (feed.ring.length > ringMax || (feed.ringBytes > ringBytesMax && feed.ring.length > 0)) {
      const gone = feed.ring.shift() as TaskEvent
      feed.ringBytes -= gone.text.length
      feed.since = positionOf(gone.id) ?? feed.since
    }
    for (const stream of [...feed.streams]) {
      for (const event of events) stream.push(event)
      if (events.length > 0 && endsStream(todo)) stream.end()
    }
  }

  /** A stream is gone, or did not come about: its task's events are kept for a while. */
  #left(id: string, feed: Feed): void {
    if (feed.streams.size > 0 || this.#feeds.get(id) !== feed) return
    // the newest of those that nobody reads
    this.#feeds.delete(id)
    this.#feeds.set(id, feed)
    this.#idle++
    this.#boundIdle()
  }

  #boundIdle(): void {
    if (this.#idle <= this.#settings.idleMax) return
    for (const [id, { streams }] of this.#feeds) {
      if (streams.size > 0) continue
      this.#feeds.delete(id)
      this.#idle--
      return
    }
  }
}

/** A task that will not move by itself any more: it has ended, or waits for its caller's next message. */
function endsStream({ state }: Todo): boolean {
  return stateClass(state) === 'terminal' || state === 'input-required'
}

/** What a reader has not had, or undefined where that is not known any more: it then gets the whole task. */
function missedBy({ last, ring, since }: Feed, lastEventId: string): TaskEvent[] | undefined {
  const place = positionOf(lastEventId)
  if (place === undefined || place.revision > last.revision) return undefined
  if (place.revision < since.revision || (place.revision === since.revision && place.at < since.at)) return undefined
  return ring.filter(({ id }) => isAfter(id, place))
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
