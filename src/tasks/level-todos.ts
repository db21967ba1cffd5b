import { fromHex, toHex } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import { SettledTime } from '../platform/settled-time.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import { jsonCodec } from '../store/store.ts'
import { CallerCounts } from './caller-counts.ts'
import type { DeadLetter } from './dead-letters.ts'
import { type ExecutionGate, executed, isUnderContract } from './execution.ts'
import { checkMessage } from './message.ts'
import { type MessageName, todoOfRemains } from './message-names.ts'
import { TODOS_DEFAULTS, type TodosSettings } from './settings.ts'
import { stateClass } from './states.ts'
import type {
  Actor,
  ClaimOptions,
  CommitHook,
  JsonObject,
  LateResult,
  Principal,
  Progress,
  Taker,
  Todo,
  TodoCreate,
  TodoFilter,
  TodoPage,
  Todos
} from './todo.ts'
import { approvalNotNeeded, contextMismatch, leaseLost, notDead, notFailed, todoLimit, todoTerminal, todoUnknown } from './todo-errors.ts'
import { checkAgentMessage, checkArtifacts, checkCreate, checkProgress } from './todo-input.ts'
import { TodoJournal, type TodoJournalComponents } from './todo-journal.ts'
import { TodoTimes } from './todo-times.ts'
import { eventsAfter, type TodoEvent } from './trail.ts'
import {
  actorOfHolder,
  asked,
  canceled,
  claimed,
  completed,
  continued,
  failed,
  judged,
  type Move,
  needsApproval,
  refused,
  rejected,
  released,
  renewed,
  reported,
  retried,
  withheld
} from './transitions.ts'

export interface TodosComponents extends TodoJournalComponents {
  random: Random
  /** absent: nothing here is executed under a contract */
  gate?: ExecutionGate
  /** default: nothing is traced */
  tracer?: Tracer
}

/** A holder with this prefix lives inside this process, so a restart ends its claims at once; all others keep theirs until the lease ends. */
export const IN_PROCESS_HOLDER = 'worker:'

const SWEEP_EVERY_MS = 3_600_000
const LIBRARY: Actor = { door: 'library' }
const OWNER: Actor = { door: 'control', who: 'owner' }

/** Opens the durable Todos of a store and takes up what the last process left behind. */
export async function createTodos(components: TodosComponents, settings: Partial<TodosSettings> = {}): Promise<LevelTodos> {
  const meta = components.store.table('todo-meta', jsonCodec<string>())
  let cursorKey = await meta.get('cursor-key')
  if (cursorKey === undefined) {
    cursorKey = toHex(components.random.bytes(32))
    await components.store.commit([meta.put('cursor-key', cursorKey)])
  }
  const todos = new LevelTodos(components, { ...TODOS_DEFAULTS, ...settings }, fromHex(cursorKey))
  await todos.open()
  return todos
}

/** {@link Todos} over LevelDB: writes to one Todo follow one another, writes to different ones share a sync. */
export class LevelTodos implements Todos {
  readonly #components: TodosComponents
  readonly #settings: TodosSettings
  readonly #settled: SettledTime
  readonly #journal: TodoJournal
  readonly #times: TodoTimes
  /** one worker an agent, so bounded by the hosted agents */
  readonly #offers = new Map<EidHex, () => Taker | undefined>()
  /** creates that passed the bounds and are not committed yet */
  readonly #reserved = new CallerCounts()
  #cancelSweep: (() => void) | undefined
  #stopped = false

  constructor(components: TodosComponents, settings: TodosSettings, cursorKey: Uint8Array) {
    this.#components = components
    this.#settings = settings
    this.#settled = new SettledTime(components.clock)
    this.#journal = new TodoJournal(components, settings, cursorKey)
    this.#times = new TodoTimes({ ...components, journal: this.#journal }, settings)
  }

  /** The bounds in force. */
  get bounds(): Readonly<TodosSettings> {
    return this.#settings
  }

  /** Todos that are not terminal. */
  get openCount(): number {
    return this.#journal.open.size
  }

  /** Loads what is not terminal; claims of the last process's own workers go back to pending, and what was due meanwhile happens now. */
  async open(): Promise<void> {
    await this.#journal.load()
    await this.#times.begin((holder) => holder.startsWith(IN_PROCESS_HOLDER))
    this.#sweepLater()
  }

  #sweepLater(): void {
    this.#cancelSweep = this.#components.clock.after(SWEEP_EVERY_MS, () => {
      this.sweep()
        .catch((err) => this.#components.logger.warn({ err }, 'old Todos could not be swept'))
        .finally(() => this.#stopped || this.#sweepLater())
    })
  }

  async create(input: TodoCreate): Promise<{ todo: Todo; created: boolean }> {
    checkMessage(input.message)
    checkCreate(input)
    const name = this.#journal.names.of({ ...input, caller: input.caller.id })
    const taskId = textMember(input.message, 'taskId')
    const contextId = textMember(input.message, 'contextId')
    const locks = [`dedup ${name.row}`]
    if (taskId !== undefined) locks.push(`todo ${taskId}`)
    else if (contextId !== undefined) locks.push(`context ${contextId}`)
    return await this.#journal.lock.run(locks, async () => {
      const known = await this.#known(name, input)
      if (known !== undefined) {
        if (input.alongside !== undefined && input.alongside.length > 0) await this.#components.store.commit(input.alongside)
        return { todo: known, created: false }
      }
      const todo = taskId !== undefined ? await this.#append(taskId, contextId, input, name) : await this.#begin(contextId, input, name)
      return { todo, created: true }
    })
  }

  async ofMessage(input: { agent: EidHex; caller: Principal; message: JsonObject; dedupKey?: string }): Promise<Todo | undefined> {
    return await this.#known(this.#journal.names.of({ ...input, caller: input.caller.id }), input)
  }

  async #known(name: MessageName, { agent, caller }: { agent: EidHex; caller: Pick<Principal, 'id'> }): Promise<Todo | undefined> {
    const look = async (): Promise<Todo | 'gone' | undefined> => {
      const found = await this.#journal.names.find(name)
      if (found === undefined) return undefined
      const { remains } = found
      if (remains !== undefined) return todoOfRemains({ ...found, remains }, { agent, caller: caller.id, dedupKey: name.dedupKey })
      return (await this.#journal.get(found.id)) ?? 'gone'
    }
    const first = await look()
    // Forgotten between the two reads, in one batch with what its name became.
    const todo = first === 'gone' ? await look() : first
    if (todo === 'gone') throw new TypeError('a messageId names a Todo that is not there')
    return todo
  }

  async #begin(wanted: string | undefined, input: TodoCreate, name: MessageName): Promise<Todo> {
    const { caller, agent, door, message, dedupKey, queue, priority, approval, approvedBy, execution } = input
    if (wanted !== undefined) await this.#journal.contexts.check(wanted, caller.id)
    const { random } = this.#components
    const id = uuid(random.bytes(16))
    const contextId = wanted ?? uuid(random.bytes(16))
    const { interruptMs } = this.#settings
    const { clock, tracer = noTracer } = this.#components
    const traceparent = tracer.current()
    const nowMs = clock.nowMs()
    const waits = approval === 'needed' && interruptMs > 0 ? { deadlineMs: nowMs + interruptMs } : {}
    const todo: Todo = {
      id,
      agent,
      caller: caller.id,
      contextId,
      state: input.approval === 'needed' ? 'auth-required' : 'pending',
      revision: 1,
      createdAtMs: nowMs,
      changedAtMs: nowMs,
      dedupKey: name.dedupKey,
      digest: name.digest,
      door,
      history: [{ ...message, taskId: id, contextId }],
      artifacts: [],
      attempt: 0,
      ...(dedupKey !== undefined ? { dedupKeys: [dedupKey] } : {}),
      ...(queue !== undefined ? { queue } : {}),
      ...(priority !== undefined && priority > 0 ? { priority } : {}),
      ...(approval !== undefined ? { approval } : {}),
      ...(approvedBy !== undefined ? { approvedBy } : {}),
      ...(execution !== undefined ? { execution } : {}),
      ...(traceparent !== undefined ? { traceparent } : {}),
      ...waits
    }
    const by = { door, who: caller.id }
    return await this.#add(todo, by, name, { alongside: input.alongside ?? [], refusal: input.refused })
  }

  /** The one place where a Todo begins; a worker with a place free takes it in the same batch. */
  async #add(
    todo: Todo,
    by: Actor,
    name: MessageName,
    { alongside, refusal }: { alongside: NonNullable<TodoCreate['alongside']>; refusal?: TodoCreate['refused'] }
  ): Promise<Todo> {
    const release = this.#reserve(todo.caller)
    let taker: Taker | undefined
    try {
      taker = todo.state === 'pending' && refusal === undefined ? this.#takerFor(todo.agent) : undefined
      const created: Move = { todo, events: [{ kind: 'created', state: todo.state, attempt: 0, ...by }] }
      const later = { ...todo, revision: 2 }
      const next = refusal !== undefined ? refused(later, refusal) : taker && claimed(later, this.#lease(taker.holder, taker))
      const begun: Move = next === undefined ? created : { todo: next.todo, events: [...created.events, ...next.events] }
      const stored = await this.#journal.add(begun, [
        this.#journal.names.put(name, todo.id),
        this.#journal.contexts.put(todo.contextId, todo.caller),
        ...alongside
      ])
      taker?.taken(stored)
      return stored
    } catch (error) {
      taker?.missed()
      throw error
    } finally {
      release()
    }
  }

  /** An older Todo that waits goes first. */
  #takerFor(agent: EidHex): Taker | undefined {
    return this.#stopped || this.#journal.open.nextPending(agent).length > 0 ? undefined : this.#offers.get(agent)?.()
  }

  async #append(taskId: string, contextId: string | undefined, input: TodoCreate, name: MessageName): Promise<Todo> {
    const todo = await this.#journal.get(taskId)
    if (todo === undefined || todo.caller !== input.caller.id || todo.agent !== input.agent) throw todoUnknown(taskId)
    if (contextId !== undefined && contextId !== todo.contextId) throw contextMismatch()
    if (stateClass(todo.state) === 'terminal') throw todoTerminal(todo)
    if (todo.history.length >= this.#settings.historyMax) throw todoLimit('history', this.#settings.historyMax)
    const alongside = [this.#journal.names.put(name, todo.id), ...(input.alongside ?? [])]
    const { dedupKey, execution } = input
    const named: Todo = {
      ...todo,
      ...(dedupKey === undefined ? {} : { dedupKeys: [...(todo.dedupKeys ?? []), dedupKey] }),
      // Work that goes on was begun under what was agreed then.
      ...(execution === undefined || todo.state === 'claimed' ? {} : { execution })
    }
    const told = continued(named, input.message, { door: input.door, who: input.caller.id })
    const end = input.refused === undefined ? undefined : refused(told.todo, input.refused)
    const move = end === undefined ? told : { todo: end.todo, events: [...told.events, ...end.events] }
    return await this.#journal.move(todo, move, 'bounded', alongside)
  }

  #reserve(caller: string): () => void {
    const { openMax, openPerCallerMax } = this.#settings
    if (this.#journal.open.callerSize(caller) + this.#reserved.of(caller) >= openPerCallerMax) throw todoLimit('caller', openPerCallerMax)
    if (this.#journal.open.size + this.#reserved.all >= openMax) throw todoLimit('open', openMax)
    this.#reserved.add(caller, 1)
    return () => this.#reserved.add(caller, -1)
  }

  get(id: string): Promise<Todo | undefined> {
    return this.#journal.get(id)
  }

  async list({ limit: wanted = 50, cursor, ...filter }: TodoFilter & { limit?: number; cursor?: string }): Promise<TodoPage> {
    checkFilter(filter)
    return await this.#journal.page(filter, Math.max(1, Math.min(100, wanted)), cursor)
  }

  async count(filter: TodoFilter): Promise<number> {
    checkFilter(filter)
    return await this.#journal.count(filter)
  }

  async claim(agent: EidHex, holder: string, options: ClaimOptions): Promise<Todo | undefined> {
    return (await this.claimSome(agent, holder, { ...options, countMax: 1 }))[0]
  }

  async claimSome(agent: EidHex, holder: string, options: ClaimOptions & { countMax: number }): Promise<Todo[]> {
    const { countMax, queue } = options
    return await this.#journal.lock.run([`claim ${agent}`], async () => {
      for (;;) {
        const ids = this.#journal.open.nextPending(agent, countMax, queue)
        if (ids.length === 0 || this.#stopped) return []
        const tried = await Promise.allSettled(ids.map((id) => this.#claimPending(id, holder, options)))
        const todos = tried.flatMap((one) => (one.status === 'fulfilled' && one.value !== undefined ? [one.value] : []))
        if (todos.length > 0) return todos
        for (const one of tried) if (one.status === 'rejected') throw one.reason
      }
    })
  }

  async claimOne(id: string, holder: string, { leaseMs }: { leaseMs: number }): Promise<Todo | undefined> {
    const todo = await this.#journal.must(id)
    return await this.#journal.lock.run([`claim ${todo.agent}`], () => this.#claimPending(id, holder, { leaseMs }))
  }

  async #claimPending(id: string, holder: string, { leaseMs, sideEffects }: ClaimOptions): Promise<Todo | undefined> {
    const todo = await this.#journal.change(id, (before) => {
      if (before.state !== 'pending') return undefined
      if (needsApproval(before, sideEffects)) return withheld(before, this.#interruptedUntil())
      const { gate } = this.#components
      const agreed = isUnderContract(before) ? gate?.claim(before) : undefined
      if (agreed !== undefined && 'refused' in agreed) return refused(before, agreed.refused)
      return claimed({ ...before, ...agreed }, this.#lease(holder, { leaseMs }))
    })
    return todo?.state === 'claimed' ? todo : undefined
  }

  #interruptedUntil(): number | undefined {
    const { interruptMs } = this.#settings
    return interruptMs === 0 ? undefined : this.#components.clock.nowMs() + interruptMs
  }

  #lease(holder: string, { leaseMs }: { leaseMs: number }): { holder: string; untilMs: number } {
    return { holder, untilMs: this.#components.clock.nowMs() + leaseMs }
  }

  async renew(id: string, holder: string, options: { leaseMs: number }): Promise<Todo> {
    return await this.#held(id, holder, (todo) => renewed(todo, this.#lease(holder, options)))
  }

  async progress(id: string, holder: string, progress: Progress): Promise<Todo> {
    checkProgress(progress)
    return await this.#held(id, holder, (todo) => reported(todo, progress), { room: 'bounded' })
  }

  async complete(id: string, holder: string, artifacts: JsonObject[], message?: JsonObject): Promise<Todo> {
    checkArtifacts(artifacts)
    if (message !== undefined) checkAgentMessage(message)
    const late = { act: 'complete', content: { artifacts, ...(message === undefined ? {} : { message }) } } as const
    const { gate } = this.#components
    const end = (todo: Todo) => (gate === undefined ? completed(todo, artifacts, message) : executed(todo, artifacts, message, gate))
    return await this.#held(id, holder, end, { late })
  }

  async fail(id: string, holder: string, reason: string): Promise<Todo> {
    return await this.#held(id, holder, (todo) => failed(todo, reason), { late: { act: 'fail', content: { reason } } })
  }

  async ask(id: string, holder: string, question: { for: 'input' | 'auth'; message: JsonObject }): Promise<Todo> {
    checkAgentMessage(question.message)
    const deadlineMs = this.#interruptedUntil()
    const late = { act: 'ask', content: question } as const
    return await this.#held(id, holder, (todo) => asked(todo, question, deadlineMs), { late })
  }

  async reject(id: string, holder: string | undefined, reason: string, by: Actor = OWNER): Promise<Todo> {
    if (holder === undefined) return (await this.#journal.change(id, (todo) => rejected(notEnded(todo), reason, by))) as Todo
    const late = { act: 'reject', content: { reason } } as const
    return await this.#held(id, holder, (todo, held) => rejected(todo, reason, held), { late })
  }

  async retry(id: string, holder: string, reason: string): Promise<Todo> {
    const nowMs = this.#components.clock.nowMs()
    const { attemptsMax } = this.#settings
    const again = (todo: Todo) => {
      const waitMs = this.#backoffMs(todo.attempt - (todo.attemptsAsked ?? 0))
      return retried(todo, reason, { attemptsMax, nowMs, ...(waitMs > 0 ? { notBeforeMs: nowMs + waitMs } : {}) })
    }
    return await this.#held(id, holder, again, { late: { act: 'fail', content: { reason } } })
  }

  #backoffMs(attempt: number): number {
    const { retryFirstMs, retryLastMs } = this.#settings
    const fullMs = Math.min(retryLastMs, retryFirstMs * 2 ** Math.min(30, attempt - 1))
    return Math.round(fullMs * (1 - randomFraction(this.#components.random) / 4))
  }

  async release(id: string, holder: string): Promise<Todo> {
    return await this.#held(id, holder, released)
  }

  async cancel(id: string, by: Actor = LIBRARY): Promise<Todo> {
    const after = await this.#journal.change(id, (todo) => (todo.state === 'canceled' ? undefined : canceled(notEnded(todo), by)))
    return after ?? (await this.#journal.must(id))
  }

  async approve(id: string, verdict: 'given' | 'refused', by: Actor = OWNER): Promise<Todo> {
    const after = await this.#journal.change(id, (todo) =>
      todo.approval === 'needed' && stateClass(todo.state) !== 'terminal' ? judged(todo, verdict, by) : undefined
    )
    if (after === undefined) throw approvalNotNeeded(id)
    return after
  }

  /** What used up its attempts and waits for its owner's word, the oldest first. */
  async deadLetters(options: { agent?: EidHex | undefined; limit?: number } = {}): Promise<DeadLetter[]> {
    return await this.#journal.dead.list({ agent: options.agent, limit: Math.max(1, Math.min(1_000, options.limit ?? 100)) })
  }

  /**
   * Tries a failed Todo anew: as another Todo of the same caller, context and messages, for one that ended stays as it is. Asked twice it gives the same.
   * @throws RookeryError `TODO_UNKNOWN`, `TODO_NOT_FAILED`, `TODO_LIMIT`
   */
  async requeue(id: string, by: Actor = OWNER): Promise<{ todo: Todo; created: boolean }> {
    const failed = await this.#journal.must(id)
    if (failed.state !== 'failed') throw notFailed(failed)
    const name = this.#journal.names.ofRetry(failed)
    return await this.#journal.lock.run([`dedup ${name.row}`, `todo ${id}`], async () => {
      const { agent, caller } = failed
      const known = await this.#known(name, { agent, caller: { id: caller } })
      if (known !== undefined) return { todo: known, created: false }
      const own = uuid(this.#components.random.bytes(16))
      const nowMs = this.#components.clock.nowMs()
      const { contextId, door, queue, priority, approval, approvedBy, digest, execution } = failed
      const todo: Todo = {
        id: own,
        agent,
        caller,
        contextId,
        state: 'pending',
        revision: 1,
        createdAtMs: nowMs,
        changedAtMs: nowMs,
        dedupKey: name.dedupKey,
        digest,
        door,
        history: failed.history.map((message) => ({ ...message, taskId: own })),
        artifacts: [],
        attempt: 0,
        retryOf: id,
        ...(queue === undefined ? {} : { queue }),
        ...(priority === undefined ? {} : { priority }),
        ...(approval === undefined ? {} : { approval: 'given' as const }),
        ...(approvedBy === undefined ? {} : { approvedBy }),
        ...(execution === undefined ? {} : { execution: { ...execution, startedAtMs: nowMs } }),
        ...(failed.traceparent === undefined ? {} : { traceparent: failed.traceparent })
      }
      return { todo: await this.#add(todo, by, name, { alongside: this.#journal.dead.del(failed) }), created: true }
    })
  }

  /** Takes a dead letter off the list; the Todo stays failed until it is old. @throws RookeryError `TODO_UNKNOWN`, `TODO_NOT_DEAD` */
  async drop(id: string): Promise<Todo> {
    return await this.#journal.lock.run([`todo ${id}`], async () => {
      const todo = await this.#journal.must(id)
      if (!(await this.#journal.dead.has(todo))) throw notDead(todo)
      await this.#components.store.commit(this.#journal.dead.del(todo))
      return todo
    })
  }

  /** What came for a Todo after its lease was lost (G-59). */
  async lateResults(id: string): Promise<LateResult[]> {
    return await this.#journal.late.of(id)
  }

  onCommit(hook: CommitHook): () => void {
    return this.#journal.listeners.hook(hook)
  }

  watch(id: string, hook: CommitHook): () => void {
    return this.#journal.listeners.watch(id, hook)
  }

  async eventsAfter(id: string, n: number): Promise<{ todo: Todo; events: readonly TodoEvent[] | undefined }> {
    const todo = await this.#journal.must(id)
    return { todo, events: eventsAfter(todo, n) }
  }

  onClaimable(agent: EidHex, hook: () => void): () => void {
    return this.#journal.listeners.onClaimable(agent, hook)
  }

  reconsider(agent: EidHex): void {
    this.#journal.listeners.claimable(agent)
  }

  onCreate(agent: EidHex, offer: () => Taker | undefined): () => void {
    this.#offers.set(agent, offer)
    return () => {
      if (this.#offers.get(agent) === offer) this.#offers.delete(agent)
    }
  }

  async settled(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<Todo> {
    const { promise, resolve } = Promise.withResolvers<Todo>()
    const unsubscribe = this.#journal.listeners.wait(id, resolve)
    const fired = () => this.#journal.must(id).then(resolve, () => undefined)
    try {
      // What memory knows to be active will tell its end; all else is read.
      const known = this.#journal.open.get(id)
      if (known === undefined || stateClass(known.state) !== 'active' || signal?.aborted === true || this.#stopped) {
        const now = await this.#journal.must(id)
        if (stateClass(now.state) !== 'active' || signal?.aborted === true || this.#stopped) return now
      }
      signal?.addEventListener('abort', fired, { once: true })
      return await promise
    } finally {
      signal?.removeEventListener('abort', fired)
      unsubscribe()
    }
  }

  /** Forgets terminal Todos older than `retainMs`, and the messageIds that need not be known any more; told how many Todos. */
  async sweep(): Promise<number> {
    return await this.#journal.sweep(this.#settled.nowMs() - this.#settings.retainMs)
  }

  /** Timers end and those who wait get the Todo as it is; what is claimed stays claimed on disk. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#times.stop()
    this.#cancelSweep?.()
    await this.#journal.listeners.release((id) => this.#journal.get(id))
    await this.#journal.told()
  }

  /** First committed transition wins (G-59): what a holder brings after that is kept as audit, not as state. */
  async #held(
    id: string,
    holder: string,
    next: (todo: Todo, by: Actor) => Move,
    { room, late }: { room?: 'bounded'; late?: { act: LateResult['act']; content: JsonObject } } = {}
  ): Promise<Todo> {
    const changed = await this.#journal.change(
      id,
      async (todo) => {
        if (todo.state === 'claimed' && todo.lease?.holder === holder) return next(todo, actorOfHolder(holder))
        if (late !== undefined) await this.#keepLate(todo, holder, late)
        throw leaseLost(todo)
      },
      room
    )
    return changed as Todo
  }

  async #keepLate(todo: Todo, holder: string, { act, content }: { act: LateResult['act']; content: JsonObject }): Promise<void> {
    const { logger, clock, store } = this.#components
    logger.info({ todo: todo.id, state: todo.state, act }, 'a late result does not count: the Todo is no longer held')
    await store
      .commit(await this.#journal.late.put(todo, { atMs: clock.nowMs(), holder, act }, content))
      .catch((err: unknown) => logger.warn({ err, todo: todo.id }, 'a late result could not be kept'))
  }
}

/** @throws RookeryError `TODO_TERMINAL` */
function notEnded(todo: Todo): Todo {
  if (stateClass(todo.state) === 'terminal') throw todoTerminal(todo)
  return todo
}

function checkFilter({ agent, caller, contextId }: TodoFilter): void {
  if (contextId !== undefined && (agent === undefined || caller === undefined)) {
    throw new TypeError('a context is listed with its agent and its caller')
  }
}

function textMember(message: JsonObject, name: string): string | undefined {
  const value = message[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** RFC 9562 version 4 text of 16 random bytes. */
function uuid(bytes: Uint8Array): string {
  const own = bytes.slice()
  own[6] = ((own[6] as number) & 0x0f) | 0x40
  own[8] = ((own[8] as number) & 0x3f) | 0x80
  const hex = toHex(own)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
