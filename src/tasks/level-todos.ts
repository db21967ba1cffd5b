import { fromHex, toHex } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Random } from '../platform/random.ts'
import { jsonCodec } from '../store/store.ts'
import { CallerCounts } from './caller-counts.ts'
import { LeaseTimer } from './lease-timer.ts'
import { checkMessage } from './message.ts'
import { type MessageName, todoOfRemains } from './message-names.ts'
import { TODOS_DEFAULTS, type TodosSettings } from './settings.ts'
import { stateClass } from './states.ts'
import type { JsonObject, Principal, Taker, Todo, TodoCreate, TodoPage, TodoState, Todos } from './todo.ts'
import { approvalNotNeeded, contextMismatch, leaseLost, todoLimit, todoTerminal, todoUnknown } from './todo-errors.ts'
import { TodoJournal, type TodoJournalComponents } from './todo-journal.ts'
import { canceled, claimed, completed, continued, failed, judged, released, retried } from './transitions.ts'

export interface TodosComponents extends TodoJournalComponents {
  random: Random
}

/** A holder with this prefix lives inside this process, so a restart ends its claims at once; all others keep theirs until the lease ends. */
export const IN_PROCESS_HOLDER = 'worker:'

const SWEEP_EVERY_MS = 3_600_000

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
  readonly #journal: TodoJournal
  readonly #leases: LeaseTimer
  /** one worker an agent, so bounded by the hosted agents */
  readonly #offers = new Map<EidHex, () => Taker | undefined>()
  /** creates that passed the bounds and are not committed yet */
  readonly #reserved = new CallerCounts()
  #cancelSweep: (() => void) | undefined
  #stopped = false

  constructor(components: TodosComponents, settings: TodosSettings, cursorKey: Uint8Array) {
    this.#components = components
    this.#settings = settings
    this.#journal = new TodoJournal(components, settings, cursorKey)
    this.#leases = new LeaseTimer(components.clock, () => {
      this.#expireLeases().catch((err) => components.logger.error({ err }, 'a lease that ran out could not be given back'))
    })
    this.onCommit((todo) => {
      if (todo.lease !== undefined) this.#watchLeases()
    })
  }

  /** The bounds in force. */
  get bounds(): Readonly<TodosSettings> {
    return this.#settings
  }

  /** Loads what is not terminal; claims of the last process's own workers go back to pending. */
  async open(): Promise<void> {
    await this.#journal.load()
    for (const { id, holder } of this.#journal.open.leases()) {
      if (holder.startsWith(IN_PROCESS_HOLDER)) await this.#giveBack(id, holder, 'the node stopped while an attempt ran')
    }
    await this.#expireLeases()
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

  async ofMessage(input: { agent: EidHex; caller: Principal; message: JsonObject }): Promise<Todo | undefined> {
    return await this.#known(this.#journal.names.of({ ...input, caller: input.caller.id }), input)
  }

  async #known(name: MessageName, { agent, caller }: { agent: EidHex; caller: Principal }): Promise<Todo | undefined> {
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
    if (wanted !== undefined) await this.#journal.contexts.check(wanted, input.caller.id)
    const release = this.#reserve(input.caller.id)
    let taker: Taker | undefined
    try {
      const { clock, random } = this.#components
      const id = uuid(random.bytes(16))
      const contextId = wanted ?? uuid(random.bytes(16))
      const nowMs = clock.nowMs()
      const todo: Todo = {
        id,
        agent: input.agent,
        caller: input.caller.id,
        contextId,
        state: input.approval === 'needed' ? 'auth-required' : 'pending',
        revision: 1,
        createdAtMs: nowMs,
        changedAtMs: nowMs,
        dedupKey: name.dedupKey,
        digest: name.digest,
        door: input.door,
        history: [{ ...input.message, taskId: id, contextId }],
        artifacts: [],
        attempt: 0,
        ...(input.approval !== undefined ? { approval: input.approval } : {}),
        ...(input.approvedBy !== undefined ? { approvedBy: input.approvedBy } : {})
      }
      taker = todo.state === 'pending' ? this.#takerFor(todo.agent) : undefined
      const begun = taker === undefined ? todo : { ...claimed(todo, this.#lease(taker.holder, taker)), revision: 2 }
      const alongside = [
        this.#journal.names.put(name, id),
        this.#journal.contexts.put(contextId, input.caller.id),
        ...(input.alongside ?? [])
      ]
      await this.#journal.add(begun, alongside)
      taker?.taken(begun)
      return begun
    } catch (error) {
      taker?.missed()
      throw error
    } finally {
      release()
    }
  }

  /** An older Todo that waits goes first. */
  #takerFor(agent: EidHex): Taker | undefined {
    return this.#stopped || this.#journal.open.oldestPending(agent).length > 0 ? undefined : this.#offers.get(agent)?.()
  }

  async #append(taskId: string, contextId: string | undefined, input: TodoCreate, name: MessageName): Promise<Todo> {
    const todo = await this.#journal.get(taskId)
    if (todo === undefined || todo.caller !== input.caller.id || todo.agent !== input.agent) throw todoUnknown(taskId)
    if (contextId !== undefined && contextId !== todo.contextId) throw contextMismatch()
    if (stateClass(todo.state) === 'terminal') throw todoTerminal(todo)
    if (todo.history.length >= this.#settings.historyMax) throw todoLimit('history', this.#settings.historyMax)
    const alongside = [this.#journal.names.put(name, todo.id), ...(input.alongside ?? [])]
    return await this.#journal.move(todo, continued(todo, input.message), 'bounded', alongside)
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

  async list(filter: { agent?: EidHex; caller?: string; state?: TodoState; limit?: number; cursor?: string }): Promise<TodoPage> {
    const { limit: wanted = 50, cursor, ...where } = filter
    const page = await this.#journal.index.page(where, Math.max(1, Math.min(100, wanted)), cursor)
    const todos: Todo[] = []
    for (const id of page.ids) {
      const todo = await this.#journal.get(id)
      if (todo !== undefined) todos.push(todo)
    }
    return { todos, next: page.next }
  }

  async claim(agent: EidHex, holder: string, { leaseMs }: { leaseMs: number }): Promise<Todo | undefined> {
    return (await this.claimSome(agent, holder, { leaseMs, countMax: 1 }))[0]
  }

  async claimSome(agent: EidHex, holder: string, { leaseMs, countMax }: { leaseMs: number; countMax: number }): Promise<Todo[]> {
    return await this.#journal.lock.run([`claim ${agent}`], async () => {
      for (;;) {
        const ids = this.#journal.open.oldestPending(agent, countMax)
        if (ids.length === 0 || this.#stopped) return []
        const tried = await Promise.allSettled(ids.map((id) => this.#claimPending(id, holder, leaseMs)))
        const todos = tried.flatMap((one) => (one.status === 'fulfilled' && one.value !== undefined ? [one.value] : []))
        if (todos.length > 0) return todos
        for (const one of tried) if (one.status === 'rejected') throw one.reason
      }
    })
  }

  async claimOne(id: string, holder: string, { leaseMs }: { leaseMs: number }): Promise<Todo | undefined> {
    const todo = await this.#journal.must(id)
    return await this.#journal.lock.run([`claim ${todo.agent}`], () => this.#claimPending(id, holder, leaseMs))
  }

  async #claimPending(id: string, holder: string, leaseMs: number): Promise<Todo | undefined> {
    return await this.#journal.change(id, (todo) =>
      todo.state === 'pending' ? claimed(todo, this.#lease(holder, { leaseMs })) : undefined
    )
  }

  #lease(holder: string, { leaseMs }: { leaseMs: number }): { holder: string; untilMs: number } {
    return { holder, untilMs: this.#components.clock.nowMs() + leaseMs }
  }

  async renew(id: string, holder: string, options: { leaseMs: number }): Promise<Todo> {
    return await this.#held(id, holder, (todo) => ({ ...todo, lease: this.#lease(holder, options) }))
  }

  async complete(id: string, holder: string, artifacts: JsonObject[], message?: JsonObject): Promise<Todo> {
    return await this.#held(id, holder, (todo) => completed(todo, artifacts, message))
  }

  async fail(id: string, holder: string, reason: string): Promise<Todo> {
    return await this.#held(id, holder, (todo) => failed(todo, reason))
  }

  async retry(id: string, holder: string, reason: string): Promise<Todo> {
    return await this.#held(id, holder, (todo) => retried(todo, reason, this.#settings.attemptsMax))
  }

  async release(id: string, holder: string): Promise<Todo> {
    return await this.#held(id, holder, released)
  }

  async cancel(id: string): Promise<Todo> {
    const after = await this.#journal.change(id, (todo) => {
      if (todo.state === 'canceled') return undefined
      if (stateClass(todo.state) === 'terminal') throw todoTerminal(todo)
      return canceled(todo)
    })
    return after ?? (await this.#journal.must(id))
  }

  async approve(id: string, verdict: 'given' | 'refused'): Promise<Todo> {
    const after = await this.#journal.change(id, (todo) =>
      todo.approval === 'needed' && stateClass(todo.state) !== 'terminal' ? judged(todo, verdict) : undefined
    )
    if (after === undefined) throw approvalNotNeeded(id)
    return after
  }

  onCommit(hook: (todo: Todo) => void): () => void {
    return this.#journal.listeners.hook(hook)
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
      const now = await this.#journal.must(id)
      if (stateClass(now.state) !== 'active' || signal?.aborted === true || this.#stopped) return now
      signal?.addEventListener('abort', fired, { once: true })
      return await promise
    } finally {
      signal?.removeEventListener('abort', fired)
      unsubscribe()
    }
  }

  /** Forgets terminal Todos older than `retainMs`, and the messageIds that need not be known any more; told how many Todos. */
  async sweep(): Promise<number> {
    return await this.#journal.sweep(this.#components.clock.nowMs() - this.#settings.retainMs)
  }

  /** Timers end and those who wait get the Todo as it is; what is claimed stays claimed on disk. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#leases.stop()
    this.#cancelSweep?.()
    await this.#journal.listeners.release((id) => this.#journal.get(id))
    await this.#journal.told()
  }

  async #held(id: string, holder: string, next: (todo: Todo) => Todo): Promise<Todo> {
    const changed = await this.#journal.change(id, (todo) => {
      if (todo.state !== 'claimed' || todo.lease?.holder !== holder) {
        this.#components.logger.info({ todo: id, state: todo.state }, 'a late result was dropped: the Todo is no longer held')
        throw leaseLost(todo)
      }
      return next(todo)
    })
    return changed as Todo
  }

  #watchLeases(): void {
    this.#leases.set(this.#journal.open.leases()[0]?.untilMs)
  }

  async #expireLeases(): Promise<void> {
    const nowMs = this.#components.clock.nowMs()
    for (const { id, holder, untilMs } of this.#journal.open.leases()) {
      if (untilMs > nowMs) break
      await this.#giveBack(id, holder, 'the lease ran out')
    }
    this.#watchLeases()
  }

  async #giveBack(id: string, holder: string, reason: string): Promise<void> {
    const untilMs = this.#journal.open.get(id)?.untilMs
    await this.#journal.change(id, (todo) => {
      if (todo.state !== 'claimed' || todo.lease?.holder !== holder || todo.lease.untilMs !== untilMs) return undefined
      return retried(todo, reason, this.#settings.attemptsMax)
    })
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
