import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import { stateClass } from '../tasks/states.ts'
import type { JsonObject, Todo, Todos } from '../tasks/todo.ts'
import type { TodoEvent } from '../tasks/trail.ts'
import { Circuits } from './circuits.ts'
import { post } from './post.ts'
import type { PushPlace, PushRow, PushRows } from './push-rows.ts'
import { PUSH_KEPT_MS } from './push-rows.ts'
import { type Resolve, readTarget, type TargetRules } from './target.ts'

/** Tries of one event; with {@link PUSH_FAILING_MS_MAX}, whichever comes first, the webhook is given up. */
export const PUSH_ATTEMPTS_MAX = 12
export const PUSH_FAILING_MS_MAX = 86_400_000
export const PUSH_RETRY_FIRST_MS = 1_000
export const PUSH_RETRY_LAST_MS = 300_000
/** One notification; an event above it is told as the task without its history and artifacts. */
export const PUSH_BODY_BYTES_MAX = 1_048_576
/** Calls at a time, to all receivers. */
export const PUSH_CALLS_MAX = 32
const FULL_WAIT_MS = 100
/** After a fault of our own, such as a disk that takes no write. */
const STORE_WAIT_MS = 5_000
const SWEEP_EVERY_MS = 3_600_000

/** What a receiver is shown: an A2A StreamResponse, and its id within the task. */
export interface PushEvent {
  /** the number of the Todo's event, or with a point and its place among several that tell of one */
  readonly id: string
  readonly response: JsonObject
}

/** How a Todo and its events look outside. */
export interface PushView {
  events(todo: Todo, event: TodoEvent): readonly PushEvent[]
  snapshot(todo: Todo, how: 'whole' | 'lean'): JsonObject
}

export interface PushSenderComponents {
  rows: PushRows
  todos: Pick<Todos, 'get' | 'eventsAfter' | 'onCommit'>
  view: PushView
  clock: Clock
  random: Random
  logger: Logger
  resolve: Resolve
  rules: () => TargetRules
  userAgent: string
  /** how long what ended is still shown; default {@link PUSH_KEPT_MS} */
  keptMs?: number
  /** default: nothing is traced */
  tracer?: Tracer
}

/** Since the start. */
export interface PushCounts {
  delivered: number
  failed: number
  givenUp: number
}

/**
 * Tells webhooks of their tasks' events, in order and at least once each. What is owed follows from the row's place and the Todo's own trail, both on disk: no event waits
 * in memory, and a restart goes on where the last answer was written down.
 */
export class PushSender {
  readonly #c: PushSenderComponents
  readonly #circuits: Circuits
  readonly #counts: PushCounts = { delivered: 0, failed: 0, givenUp: 0 }
  /** webhooks at work or waiting for their time; one entry each */
  readonly #busy = new Map<string, { cancel: () => void; isRunning: boolean; again: boolean }>()
  readonly #stopping = new AbortController()
  readonly #working = new Set<Promise<void>>()
  #calls = 0
  #off: () => void = () => {}
  #cancelSweep: () => void = () => {}

  constructor(components: PushSenderComponents) {
    this.#c = components
    this.#circuits = new Circuits(components.clock)
  }

  /** Goes on with what an earlier run owed. */
  start(): void {
    const { rows, todos } = this.#c
    this.#off = todos.onCommit((todo) => {
      for (const row of rows.ofTask(todo.id)) this.kick(row)
    })
    for (const row of rows.all()) this.#due(row)
    this.#sweepLater()
  }

  async stop(): Promise<void> {
    this.#off()
    this.#cancelSweep()
    this.#stopping.abort(new RookeryError('NODE_STOPPING', 'the node stops', { kind: 'unavailable' }))
    for (const { cancel } of this.#busy.values()) cancel()
    await Promise.all(this.#working)
  }

  counts(): PushCounts & { calling: number } {
    return { ...this.#counts, calling: this.#calls }
  }

  /** Something may be owed to it now. */
  kick(row: PushRow): void {
    if (row.state !== 'active' || this.#stopping.signal.aborted) return
    const busy = this.#busy.get(keyOf(row))
    if (busy === undefined) this.#schedule(row, 0)
    else busy.again = true
  }

  /** The owner's word: tried now, as if it had not failed. */
  async retry(row: PushRow): Promise<void> {
    const next = await this.#c.rows.update(row, { failing: 'ended', state: 'active', attempts: 0 })
    this.forget(row)
    if (next !== undefined) this.kick(next)
  }

  /** Nothing more goes to it. */
  forget(row: PushRow): void {
    const busy = this.#busy.get(keyOf(row))
    if (busy === undefined || busy.isRunning) return
    busy.cancel()
    this.#busy.delete(keyOf(row))
  }

  #due(row: PushRow): void {
    if (row.state !== 'active') return
    this.#schedule(row, Math.max(0, (row.nextAttemptAtMs ?? 0) - this.#c.clock.nowMs()))
  }

  #schedule({ taskId, id }: PushRow, afterMs: number): void {
    if (this.#stopping.signal.aborted) return
    const key = keyOf({ taskId, id })
    const busy = { cancel: () => {}, isRunning: afterMs === 0, again: false }
    const run = () => {
      busy.isRunning = true
      const work = this.#run(taskId, id)
        .catch((err: unknown) => this.#c.logger.error({ err, task: taskId, config: id }, 'a push notification could not be handled'))
        .finally(() => this.#working.delete(work))
      this.#working.add(work)
    }
    this.#busy.set(key, busy)
    if (afterMs === 0) run()
    else busy.cancel = this.#c.clock.after(afterMs, run)
  }

  /** One round: what is owed, in order, until all is told or something fails. */
  async #run(taskId: string, id: string): Promise<void> {
    const key = keyOf({ taskId, id })
    let waitMs: number | 'none' = 'none'
    try {
      waitMs = await this.#tell(taskId, id)
    } catch (error) {
      waitMs = STORE_WAIT_MS
      throw error
    } finally {
      const again = this.#busy.get(key)?.again === true
      this.#busy.delete(key)
      const row = this.#c.rows.get(taskId, id)
      if (row?.state === 'active' && (again || waitMs !== 'none')) this.#schedule(row, waitMs === 'none' ? 0 : waitMs)
    }
  }

  /** @returns how long to wait before the next try; `none` where nothing is owed */
  async #tell(taskId: string, id: string): Promise<number | 'none'> {
    const { rows, todos } = this.#c
    for (;;) {
      const row = rows.get(taskId, id)
      if (row === undefined || row.state !== 'active' || this.#stopping.signal.aborted) return 'none'
      const held = await todos.get(taskId)
      if (held === undefined) {
        await rows.delete([row])
        return 'none'
      }
      const { todo, owed } = await this.#next(taskId, row.place)
      if (owed === undefined) {
        if (stateClass(todo.state) === 'terminal') await rows.update(row, { failing: 'ended', state: 'done' })
        return 'none'
      }
      const { event, place } = owed
      if (event === undefined) {
        await rows.update(row, { failing: 'as before', place })
        continue
      }
      const outcome = await this.#traced(row, todo, event)
      if (typeof outcome === 'number') return outcome
      if (outcome === 'stopped') return 'none'
      const now = rows.get(taskId, id)
      if (outcome === 'told') this.#counts.delivered++
      if (now?.tag !== row.tag) continue
      if (outcome === 'told') {
        await rows.update(now, { failing: 'ended', place, attempts: 0 })
        continue
      }
      return await this.#failed(now, outcome)
    }
  }

  /** The first thing after a place; an event without a view moves the place alone, and one that the trail lost is told as the task is now. */
  async #next(
    taskId: string,
    place: PushPlace
  ): Promise<{ todo: Todo; owed: { event: PushEvent | undefined; place: PushPlace } | undefined }> {
    const { todos, view } = this.#c
    const { todo, events } = await todos.eventsAfter(taskId, place.piece > 0 ? place.n - 1 : place.n)
    const { seq = 0 } = todo
    if (events === undefined) {
      if (seq <= place.n) return { todo, owed: undefined }
      return { todo, owed: { event: { id: String(seq), response: view.snapshot(todo, 'whole') }, place: { n: seq, piece: 0 } } }
    }
    for (const event of events) {
      const shown = view.events(todo, event)
      const at = event.n === place.n ? place.piece : 0
      const next = shown[at]
      if (next !== undefined) return { todo, owed: { event: next, place: { n: event.n, piece: at + 1 < shown.length ? at + 1 : 0 } } }
    }
    const isBehind = seq > place.n || place.piece > 0
    return { todo, owed: isBehind ? { event: undefined, place: { n: Math.max(seq, place.n), piece: 0 } } : undefined }
  }

  /** Every try is a span below the one that made the task. */
  async #traced(row: PushRow, todo: Todo, event: PushEvent): Promise<'told' | 'stopped' | number | RookeryError> {
    const { tracer = noTracer } = this.#c
    if (!tracer.isOn || todo.traceparent === undefined) return await tracer.within(undefined, () => this.#call(row, todo, event))
    const attributes = { 'rookery.task.id': todo.id, 'rookery.push.attempt': row.attempts + 1 }
    const span = tracer.start('push', { kind: 'client', parent: todo.traceparent, attributes })
    const outcome = await tracer.within(span.traceparent, () => this.#call(row, todo, event))
    span.end(outcome instanceof RookeryError ? { error: outcome.code } : {})
    return outcome
  }

  /** @returns a time to wait in ms where the receiver is left alone now: that is no try */
  async #call(row: PushRow, todo: Todo, event: PushEvent): Promise<'told' | 'stopped' | number | RookeryError> {
    const { clock, resolve, rules, userAgent, view } = this.#c
    let url: URL
    try {
      url = readTarget(row.url, rules())
    } catch (error) {
      return error as RookeryError
    }
    const waitMs = this.#circuits.waitMs(url.origin)
    if (waitMs > 0) return waitMs
    if (this.#calls >= PUSH_CALLS_MAX || !this.#circuits.begin(url.origin)) return FULL_WAIT_MS
    this.#calls++
    let how: 'answered' | 'failed' | 'abandoned' = 'failed'
    try {
      const text = JSON.stringify(event.response)
      const body = Buffer.byteLength(text) <= PUSH_BODY_BYTES_MAX ? text : JSON.stringify(view.snapshot(todo, 'lean'))
      const traceparent = (this.#c.tracer ?? noTracer).forPeers()
      const headers = {
        ...headersOf(row),
        'User-Agent': userAgent,
        'A2A-Event-Id': `${row.taskId}:${event.id}`,
        ...(traceparent === undefined ? {} : { traceparent })
      }
      const { status } = await post(url, { body, headers }, { clock, resolve, rules: rules(), signal: this.#stopping.signal })
      if (status >= 200 && status < 300) {
        how = 'answered'
        return 'told'
      }
      const isRedirect = status >= 300 && status < 400
      return new RookeryError(
        isRedirect ? 'PUSH_REDIRECTED' : 'PUSH_REFUSED',
        `the receiver answered ${status}${isRedirect ? '; redirects are not followed' : ''}`,
        { kind: 'unavailable', value: status }
      )
    } catch (error) {
      if (this.#stopping.signal.aborted) {
        how = 'abandoned'
        return 'stopped'
      }
      return error instanceof RookeryError ? error : new RookeryError('PUSH_FAILED', String(error), { kind: 'unavailable', cause: error })
    } finally {
      this.#calls--
      this.#circuits.ended(url.origin, how)
    }
  }

  /** Twice as long each time, up to the last, and anywhere below that by chance; a receiver that is gone for good is not asked again. */
  async #failed(row: PushRow, error: RookeryError): Promise<number | 'none'> {
    const { clock, random, rows, logger } = this.#c
    const nowMs = clock.nowMs()
    const attempts = row.attempts + 1
    const failingSinceMs = row.failingSinceMs ?? nowMs
    const lastError = `${error.code}: ${error.message}`.slice(0, 300)
    this.#counts.failed++
    const isGone = error.code === 'PUSH_REFUSED' && error.value === 410
    if (isGone || attempts >= PUSH_ATTEMPTS_MAX || nowMs - failingSinceMs >= PUSH_FAILING_MS_MAX) {
      this.#counts.givenUp++
      logger.warn({ event: 'push-given-up', task: row.taskId, config: row.id, attempts, code: error.code }, 'a webhook is given up')
      await rows.update(row, { failing: 'ended', state: 'given-up', attempts, failingSinceMs, lastError })
      return 'none'
    }
    const waitMs = Math.ceil(Math.min(PUSH_RETRY_FIRST_MS * 2 ** (attempts - 1), PUSH_RETRY_LAST_MS) * (0.5 + randomFraction(random) / 2))
    await rows.update(row, { failing: 'ended', attempts, failingSinceMs, nextAttemptAtMs: nowMs + waitMs, lastError })
    return waitMs
  }

  #sweepLater(): void {
    this.#cancelSweep = this.#c.clock.after(SWEEP_EVERY_MS, () => {
      this.#sweep().catch((err: unknown) => this.#c.logger.warn({ err }, 'old webhooks could not be swept'))
      this.#sweepLater()
    })
  }

  /** What ended a day ago goes, and what is left of tasks that are gone. */
  async #sweep(): Promise<void> {
    const { rows, todos, clock } = this.#c
    const gone: PushRow[] = []
    for (const row of rows.all()) {
      const isOver = row.state !== 'active' && row.changedAtMs + (this.#c.keptMs ?? PUSH_KEPT_MS) <= clock.nowMs()
      if (isOver || (await todos.get(row.taskId)) === undefined) gone.push(row)
    }
    if (gone.length > 0) await rows.delete(gone)
  }
}

function headersOf({ token, authentication }: PushRow): Record<string, string> {
  return {
    'Content-Type': 'application/a2a+json',
    ...(token === undefined ? {} : { 'X-A2A-Notification-Token': token }),
    ...(authentication === undefined
      ? {}
      : {
          Authorization:
            authentication.credentials === undefined ? authentication.scheme : `${authentication.scheme} ${authentication.credentials}`
        })
  }
}

function keyOf({ taskId, id }: { taskId: string; id: string }): string {
  return `${taskId}:${id}`
}
