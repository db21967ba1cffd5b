import { toHex } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { AgentHandler, HandlerContext, HandlerResult, HandlerTask, SideEffects } from './handler.ts'
import { IN_PROCESS_HOLDER } from './level-todos.ts'
import { artifactSchema, fieldPath } from './message.ts'
import { stateClass } from './states.ts'
import type { JsonObject, Taker, Todo, Todos } from './todo.ts'

export interface WorkerComponents {
  todos: Todos
  clock: Clock
  random: Random
  logger: Logger
  /** default: nothing is traced */
  tracer?: Tracer
  /** the span of an attempt */
  traceOf?: (todo: Todo) => string | undefined
}

export interface WorkerSettings {
  /** Todos that run at a time */
  concurrency: number
  leaseMs: number
  /** how long an aborted handler may go on before its place is given to the next, and a stop waits for it */
  graceMs: number
}

export const WORKER_DEFAULTS: WorkerSettings = { concurrency: 1, leaseMs: 60_000, graceMs: 2_000 }
/** For handlers that declare that they have no side effects; all others see one Todo after another. */
export const CONCURRENCY_WITHOUT_EFFECTS = 32

/** Trying again would not help. */
const RESULT_FAULTS: ReadonlySet<string> = new Set(['HANDLER_RESULT_INVALID', 'ARTIFACT_INVALID', 'MESSAGE_INVALID'])

/** Why nobody waits for a run's grace: made once, since a reason of the platform's own costs a stack trace each time. */
const RAN = new DOMException('the handler has ended', 'AbortError')
/** After a claim that the disk refused. */
const CLAIM_RETRY_MS = 5_000

/** Runs an agent's handler over its Todos: woken by the commit hook, never by a timer. */
export interface Worker {
  start(): void
  /** Looks for work: after the agent woke, for instance. */
  poke(): void
  /** Runs that go on now. */
  readonly running: number
  /** Ends all runs; what they held is pending again. */
  stop(): Promise<void>
}

interface Run {
  abort: AbortController
  done: Promise<void>
}

/**
 * @param init.sideEffects - what the handler may do (OD-40)
 * @param init.mayRun - whether the agent takes work now; while it says no, the handler is not called (OD-10)
 */
export function createWorker(
  components: WorkerComponents,
  init: { agent: EidHex; handler: AgentHandler; sideEffects?: SideEffects; mayRun?: () => boolean; settings?: Partial<WorkerSettings> }
): Worker {
  return new HandlerWorker(components, { mayRun: () => true, ...init, settings: { ...WORKER_DEFAULTS, ...init.settings } })
}

class HandlerWorker implements Worker {
  readonly #components: WorkerComponents
  readonly #agent: EidHex
  readonly #handler: AgentHandler
  readonly #declared: { sideEffects?: SideEffects }
  readonly #mayRun: () => boolean
  readonly #settings: WorkerSettings
  readonly #holder: string
  readonly #runs = new Map<string, Run>()
  /** outcomes on their way to the disk; one a run, so bounded with them */
  readonly #writes = new Set<Promise<void>>()
  /** places held for Todos that are being created; at most `concurrency` */
  readonly #taking = new Set<Promise<void>>()
  /** places that a claim under way may fill */
  #asked = 0
  #unhook: (() => void) | undefined
  #claiming: Promise<void> | undefined
  #again = false
  #cancelRetry: () => void = () => {}
  #stopped = false

  constructor(
    components: WorkerComponents,
    {
      agent,
      handler,
      sideEffects,
      mayRun,
      settings
    }: { agent: EidHex; handler: AgentHandler; sideEffects?: SideEffects; mayRun: () => boolean; settings: WorkerSettings }
  ) {
    this.#components = components
    this.#declared = sideEffects === undefined ? {} : { sideEffects }
    this.#agent = agent
    this.#handler = handler
    this.#mayRun = mayRun
    this.#settings = settings
    this.#holder = `${IN_PROCESS_HOLDER}${toHex(components.random.bytes(8))}`
  }

  get running(): number {
    return this.#runs.size
  }

  start(): void {
    const { todos } = this.#components
    const hooks = [
      todos.onCommit((todo) => this.#committed(todo)),
      todos.onClaimable(this.#agent, () => this.poke()),
      todos.onCreate(this.#agent, () => this.#offer())
    ]
    this.#unhook = () => {
      for (const unhook of hooks) unhook()
    }
    this.poke()
  }

  poke(): void {
    if (this.#stopped || this.#unhook === undefined) return
    this.#again = true
    this.#claiming ??= this.#claimAll().finally(() => {
      this.#claiming = undefined
      // Whoever asked after the last look found this promise still there.
      if (this.#again) this.poke()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#unhook?.()
    this.#cancelRetry()
    await this.#claiming
    await Promise.all(this.#taking)
    for (const { abort } of this.#runs.values()) abort.abort(stopping())
    await Promise.all([...this.#runs.values()].map(({ done }) => done))
    await Promise.all(this.#writes)
  }

  #committed(todo: Todo): void {
    if (todo.agent === this.#agent && stateClass(todo.state) === 'terminal') this.#runs.get(todo.id)?.abort.abort(ended(todo))
  }

  /** Takes a new Todo as it is created, where a place is free. */
  #offer(): Taker | undefined {
    if (this.#stopped || this.#places() < 1 || !this.#mayRun()) return undefined
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#taking.add(promise)
    const settled = () => {
      this.#taking.delete(promise)
      resolve()
    }
    return {
      holder: this.#holder,
      leaseMs: this.#settings.leaseMs,
      taken: (todo) => {
        this.#run(todo)
        settled()
      },
      missed: () => {
        settled()
        this.poke()
      }
    }
  }

  #places(): number {
    return this.#settings.concurrency - this.#runs.size - this.#taking.size - this.#asked
  }

  async #claimAll(): Promise<void> {
    while (this.#again) {
      this.#again = false
      for (let places = this.#places(); places > 0 && !this.#stopped && this.#mayRun(); places = this.#places()) {
        let todos: Todo[]
        this.#asked = places
        try {
          const claiming = { leaseMs: this.#settings.leaseMs, countMax: places, ...this.#declared }
          todos = await this.#components.todos.claimSome(this.#agent, this.#holder, claiming)
        } catch (err) {
          // A full disk must not spin here.
          this.#components.logger.warn({ err, agent: this.#agent }, 'no Todo could be claimed')
          this.#again = false
          this.#cancelRetry()
          this.#cancelRetry = this.#components.clock.after(CLAIM_RETRY_MS, () => this.poke())
          return
        } finally {
          this.#asked = 0
        }
        if (todos.length === 0) break
        for (const todo of todos) this.#run(todo)
      }
    }
  }

  #run(todo: Todo): void {
    const abort = new AbortController()
    const stopRenewing = this.#renew(todo.id, abort)
    const done = this.#handle(todo, abort.signal).then(
      (result) => this.#ran(todo, abort.signal, stopRenewing, () => this.#ended(todo, result)),
      (err) => this.#ran(todo, abort.signal, stopRenewing, () => this.#failed(todo, err))
    )
    this.#runs.set(todo.id, { abort, done })
  }

  /** The place is free as soon as the handler has ended: its outcome and the next claim share a sync. */
  #ran(todo: Todo, signal: AbortSignal, stopRenewing: () => void, outcome: () => Promise<Todo>): void {
    this.#runs.delete(todo.id)
    const written = this.#report(todo.id, async () => (signal.aborted ? await this.#given(todo, signal.reason) : await outcome())).finally(
      () => {
        stopRenewing()
        this.#writes.delete(written)
      }
    )
    this.#writes.add(written)
    this.poke()
  }

  async #ended(todo: Todo, result: HandlerResult | undefined): Promise<Todo> {
    const { todos } = this.#components
    if (result?.reject !== undefined) return await todos.reject(todo.id, this.#holder, result.reject)
    if (result?.ask === undefined) return await todos.complete(todo.id, this.#holder, artifactsOf(result))
    const { text, for: wanted = 'input' } = result.ask
    return await todos.ask(todo.id, this.#holder, { for: wanted, message: { parts: [{ text }] } })
  }

  async #failed(todo: Todo, err: unknown): Promise<Todo> {
    const { todos, logger } = this.#components
    const reason = err instanceof Error ? err.message : String(err)
    logger.warn({ err, todo: todo.id, attempt: todo.attempt }, 'a handler failed')
    return await todos.retry(todo.id, this.#holder, reason)
  }

  /** After an abort: at a stop the Todo is pending again; else it has ended already, and whatever came is dropped. */
  async #given(todo: Todo, reason: unknown): Promise<Todo> {
    if (!(reason instanceof RookeryError) || reason.code !== 'NODE_STOPPING') return todo
    return await this.#components.todos.release(todo.id, this.#holder)
  }

  /** The handler's result; or undefined soon after the signal, so that one that ignores it does not block the rest for ever. */
  async #handle(todo: Todo, signal: AbortSignal): Promise<HandlerResult | undefined> {
    const { tracer = noTracer, traceOf } = this.#components
    const traceparent = traceOf?.(todo)
    const task: HandlerTask = {
      id: todo.id,
      contextId: todo.contextId,
      caller: todo.caller,
      message: todo.history.at(-1) as JsonObject,
      history: todo.history,
      attempt: todo.attempt,
      ...(traceparent === undefined ? {} : { traceparent })
    }
    const late = new AbortController()
    const grace = new Promise<undefined>((resolve) => {
      const passed = () => resolve(undefined)
      const wait = () => void this.#components.clock.sleep(this.#settings.graceMs, { signal: late.signal }).then(passed, () => undefined)
      if (signal.aborted) wait()
      else signal.addEventListener('abort', wait, { once: true })
    })
    try {
      const progress: HandlerContext['progress'] = async ({ text, ...told }) => {
        const message = text === undefined ? {} : { message: { parts: [{ text }] } }
        await this.#components.todos.progress(todo.id, this.#holder, { ...told, ...message })
      }
      const run = tracer.within(traceparent, async () => await this.#handler(task, { signal, progress }))
      return await Promise.race([run, grace])
    } finally {
      late.abort(RAN)
    }
  }

  async #report(id: string, write: () => Promise<Todo>): Promise<void> {
    try {
      await write()
    } catch (err) {
      if (err instanceof RookeryError && err.code === 'LEASE_LOST') return
      if (err instanceof RookeryError && RESULT_FAULTS.has(err.code)) {
        return await this.#report(id, () => this.#components.todos.fail(id, this.#holder, err.message))
      }
      // Nothing was written, so the lease runs out and another attempt follows.
      this.#components.logger.error({ err, todo: id }, 'the outcome of a run could not be written')
    }
  }

  #renew(id: string, abort: AbortController): () => void {
    const { todos, clock, logger } = this.#components
    let cancel = () => {}
    let over = false
    const again = () => {
      if (over) return
      cancel = clock.after(this.#settings.leaseMs / 2, () => {
        todos.renew(id, this.#holder, { leaseMs: this.#settings.leaseMs }).then(again, (err) => {
          if (over) return
          logger.warn({ err, todo: id }, 'a lease could not be renewed')
          if (err instanceof RookeryError && err.code === 'LEASE_LOST') abort.abort(err)
          else again()
        })
      })
    }
    again()
    return () => {
      over = true
      cancel()
    }
  }
}

/** @throws RookeryError `HANDLER_RESULT_INVALID`: trying again would not help */
function artifactsOf(result: HandlerResult | undefined): JsonObject[] {
  const given = result ?? {}
  const artifacts = [...(given.artifacts ?? [])]
  if (given.text !== undefined) artifacts.push({ artifactId: 'text', name: 'text', parts: [{ text: given.text }] })
  const ids = new Set<unknown>()
  for (const artifact of artifacts) {
    const parsed = artifactSchema.safeParse(artifact)
    const issue = parsed.success ? undefined : parsed.error.issues[0]
    const why =
      issue !== undefined
        ? `${fieldPath(issue.path)} ${issue.message}`
        : ids.has(artifact.artifactId)
          ? 'artifactId is used twice'
          : undefined
    if (why !== undefined) {
      throw new RookeryError('HANDLER_RESULT_INVALID', `the handler gave an artifact that is none: ${why}`, {
        kind: 'internal',
        field: 'artifacts'
      })
    }
    ids.add(artifact.artifactId)
  }
  return artifacts
}

function stopping(): RookeryError {
  return new RookeryError('NODE_STOPPING', 'the node is stopping', { kind: 'interrupted' })
}

function ended(todo: Todo): RookeryError {
  return new RookeryError('TODO_TERMINAL', `the Todo is ${todo.state}`, { kind: 'conflict', data: { state: todo.state } })
}
