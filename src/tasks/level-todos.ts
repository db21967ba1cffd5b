import { fromHex, toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { canonicalJson } from './canonical-json.ts'
import { type KeptBounds, KeptTodos } from './kept-todos.ts'
import { KeyedLock } from './keyed-lock.ts'
import { checkMessage } from './message.ts'
import { type OpenTodo, OpenTodos } from './open-todos.ts'
import { mayFollow, stateClass } from './states.ts'
import type { JsonObject, Principal, Taker, Todo, TodoCreate, TodoPage, TodoState, Todos } from './todo.ts'
import { type IndexedTodo, TodoIndex } from './todo-index.ts'

export interface TodosComponents {
  store: Store
  crypto: CryptoProvider
  clock: Clock
  random: Random
  logger: Logger
}

/** What bounds the store, and what happens at the bound. */
export interface TodosSettings extends KeptBounds {
  /** Todos that are not terminal, in all; above it `TODO_LIMIT` (open) */
  openMax: number
  /** of one caller; above it `TODO_LIMIT` (caller) */
  openPerCallerMax: number
  /** messages in one Todo's history; above it `TODO_LIMIT` (history) */
  historyMax: number
  /** bytes of one Todo's row, its messages and artifacts in it, that a message may make it; above it `TODO_LIMIT` (bytes) */
  todoBytesMax: number
  /** claims of one Todo; when the last of them fails, so does the Todo */
  attemptsMax: number
  /** how long a terminal Todo and the memory of its messageId stay, where the bounds of {@link KeptBounds} leave them */
  retainMs: number
}

export const TODOS_DEFAULTS: TodosSettings = {
  openMax: 10_000,
  openPerCallerMax: 1_000,
  historyMax: 200,
  todoBytesMax: 8 * 1_048_576,
  keptMax: 100_000,
  keptBytesMax: 2 * 2 ** 30,
  keptPerCallerMax: 25_000,
  keptBytesPerCallerMax: 512 * 1_048_576,
  attemptsMax: 3,
  retainMs: 30 * 86_400_000
}

/** A holder with this prefix lives inside this process, so a restart ends its claims at once; all others keep theirs until the lease ends. */
export const IN_PROCESS_HOLDER = 'worker:'

const CONTEXT_ID = /^[A-Za-z0-9._:-]{1,128}$/
/** A timer longer than this overflows; it is set again when it fires. */
const TIMER_MS_MAX = 86_400_000
const SWEEP_EVERY_MS = 3_600_000
/** Ended Todos that make room at a time. */
const FORGET_AT_ONCE = 64
/** no Todo's lock: their names begin with `todo ` */
const ROOM_LOCK = 'room'

interface DedupRow {
  id: string
  digest: string
}

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
  readonly #rows: Table<Todo>
  readonly #dedup: Table<DedupRow>
  readonly #contexts: Table<string>
  readonly #openRows: Table<OpenTodo>
  readonly #index: TodoIndex
  readonly #lock = new KeyedLock()
  readonly #open = new OpenTodos()
  readonly #kept: KeptTodos
  readonly #hooks = new Set<(todo: Todo) => void>()
  readonly #waiting = new Map<string, Set<(todo: Todo) => void>>()
  /** one worker an agent, so bounded by the hosted agents */
  readonly #offers = new Map<EidHex, () => Taker | undefined>()
  /** creates that passed the bounds and are not committed yet, in all and by caller */
  readonly #reserved = new Map<string, number>()
  #reservedAll = 0
  #lastEmit: Promise<void> = Promise.resolve()
  #cancelTimer: (() => void) | undefined
  #cancelSweep: (() => void) | undefined
  #stopped = false

  constructor(components: TodosComponents, settings: TodosSettings, cursorKey: Uint8Array) {
    const { store } = components
    this.#components = components
    this.#settings = settings
    this.#rows = store.table('todo', jsonCodec<Todo>())
    this.#dedup = store.table('todo-dedup', jsonCodec<DedupRow>())
    this.#contexts = store.table('todo-context', jsonCodec<string>())
    this.#openRows = store.table('todo-open', jsonCodec<OpenTodo>())
    this.#kept = new KeptTodos(settings)
    this.#index = new TodoIndex(store, components.crypto, cursorKey)
  }

  /** The bounds in force. */
  get bounds(): Readonly<TodosSettings> {
    return this.#settings
  }

  /** Loads what is not terminal; claims of the last process's own workers go back to pending. */
  async open(): Promise<void> {
    for await (const { caller, bytes } of this.#index.oldest()) this.#kept.add(caller, 1, bytes)
    for await (const [id, entry] of this.#openRows.entries()) this.#open.set(id, entry)
    for (const { id, holder } of this.#open.leases()) {
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
    const { dedupKey, dedupName, digest } = this.#names({ ...input, caller: input.caller.id })
    const taskId = textMember(input.message, 'taskId')
    const contextId = textMember(input.message, 'contextId')
    const locks = [`dedup ${dedupName}`]
    if (taskId !== undefined) locks.push(`todo ${taskId}`)
    else if (contextId !== undefined) locks.push(`context ${contextId}`)
    return await this.#lock.run(locks, async () => {
      const known = await this.#known(dedupName, digest)
      if (known !== undefined) {
        if (input.alongside !== undefined && input.alongside.length > 0) await this.#components.store.commit(input.alongside)
        return { todo: known, created: false }
      }
      const dedupOp = (id: string) => this.#dedup.put(dedupName, { id, digest })
      if (taskId !== undefined) return { todo: await this.#append(taskId, contextId, input, dedupOp), created: true }
      return { todo: await this.#begin(contextId, input, dedupKey, digest, dedupOp), created: true }
    })
  }

  async ofMessage(input: { agent: EidHex; caller: Principal; message: JsonObject }): Promise<Todo | undefined> {
    const { dedupName, digest } = this.#names({ ...input, caller: input.caller.id })
    return await this.#known(dedupName, digest)
  }

  /** The dedup key, the name of its row and the digest of what came: scoped to agent and caller, so nobody can burn another's id. */
  #names(input: { agent: EidHex; caller: string; message: JsonObject }): { dedupKey: string; dedupName: string; digest: string } {
    const { messageId, ...content } = input.message
    const dedupKey = `a2a:${input.agent}:${input.caller}:${String(messageId)}`
    return { dedupKey, dedupName: this.#sha256(dedupKey), digest: this.#sha256(canonicalJson(content)) }
  }

  async #known(dedupName: string, digest: string): Promise<Todo | undefined> {
    const row = await this.#dedup.get(dedupName)
    if (row === undefined) return undefined
    if (row.digest === digest) return await this.#must(row.id)
    throw new RookeryError('MESSAGE_ID_REUSED', 'this messageId was used for another message before', {
      kind: 'conflict',
      field: 'message.messageId',
      remedy: 'give every new message an id of its own; send the same message again only unchanged'
    })
  }

  async #begin(
    wanted: string | undefined,
    input: TodoCreate,
    dedupKey: string,
    digest: string,
    dedupOp: (id: string) => WriteOp
  ): Promise<Todo> {
    if (wanted !== undefined) await this.#checkContext(wanted, input.caller.id)
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
        dedupKey,
        digest,
        door: input.door,
        history: [{ ...input.message, taskId: id, contextId }],
        artifacts: [],
        attempt: 0,
        ...(input.approval !== undefined ? { approval: input.approval } : {})
      }
      taker = todo.state === 'pending' ? this.#takerFor(todo.agent) : undefined
      const begun = taker === undefined ? todo : { ...this.#leased(todo, taker.holder, taker.leaseMs), revision: 2 }
      await this.#write(undefined, begun, 'bounded', [
        dedupOp(id),
        this.#contexts.put(this.#sha256(contextId), input.caller.id),
        ...(input.alongside ?? [])
      ])
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
    return this.#stopped || this.#open.oldestPending(agent).length > 0 ? undefined : this.#offers.get(agent)?.()
  }

  async #append(taskId: string, contextId: string | undefined, input: TodoCreate, dedupOp: (id: string) => WriteOp): Promise<Todo> {
    const todo = await this.#rows.get(taskId)
    if (todo === undefined || todo.caller !== input.caller.id || todo.agent !== input.agent) throw unknown(taskId)
    if (contextId !== undefined && contextId !== todo.contextId) {
      throw new RookeryError('CONTEXT_MISMATCH', 'the message names a task and a context that do not belong together', {
        kind: 'usage',
        field: 'message.contextId',
        remedy: 'leave contextId out: it follows from taskId'
      })
    }
    if (stateClass(todo.state) === 'terminal') throw terminal(todo)
    if (todo.history.length >= this.#settings.historyMax) throw limit('history', this.#settings.historyMax)
    const message: JsonObject = { ...input.message, taskId: todo.id, contextId: todo.contextId }
    const resumes = stateClass(todo.state) === 'interrupted' && todo.approval !== 'needed'
    const { statusMessage: _, ...rest } = todo
    const next: Todo = {
      ...(resumes ? rest : todo),
      history: [...todo.history, message],
      ...(resumes ? { state: 'pending' as const } : {})
    }
    return await this.#move(todo, next, 'bounded', [dedupOp(todo.id), ...(input.alongside ?? [])])
  }

  async #checkContext(contextId: string, caller: string): Promise<void> {
    const owner = CONTEXT_ID.test(contextId) ? await this.#contexts.get(this.#sha256(contextId)) : undefined
    if (!CONTEXT_ID.test(contextId) || (owner !== undefined && owner !== caller)) {
      throw new RookeryError('CONTEXT_INVALID', 'contextId has 1 to 128 characters of A-Z a-z 0-9 . _ : - and must be free', {
        kind: 'usage',
        field: 'message.contextId',
        remedy: 'leave contextId out to get a new one'
      })
    }
  }

  #reserve(caller: string): () => void {
    const mine = this.#reserved.get(caller) ?? 0
    if (this.#open.callerSize(caller) + mine >= this.#settings.openPerCallerMax) throw limit('caller', this.#settings.openPerCallerMax)
    if (this.#open.size + this.#reservedAll >= this.#settings.openMax) throw limit('open', this.#settings.openMax)
    this.#reserved.set(caller, mine + 1)
    this.#reservedAll++
    return () => {
      this.#reservedAll--
      const left = (this.#reserved.get(caller) ?? 1) - 1
      if (left > 0) this.#reserved.set(caller, left)
      else this.#reserved.delete(caller)
    }
  }

  get(id: string): Promise<Todo | undefined> {
    return this.#rows.get(id)
  }

  async list(filter: { agent?: EidHex; caller?: string; state?: TodoState; limit?: number; cursor?: string }): Promise<TodoPage> {
    const { limit: wanted = 50, cursor, ...where } = filter
    const page = await this.#index.page(where, Math.max(1, Math.min(100, wanted)), cursor)
    const todos: Todo[] = []
    for (const id of page.ids) {
      const todo = await this.#rows.get(id)
      if (todo !== undefined) todos.push(todo)
    }
    return { todos, next: page.next }
  }

  async claim(agent: EidHex, holder: string, { leaseMs }: { leaseMs: number }): Promise<Todo | undefined> {
    return (await this.claimSome(agent, holder, { leaseMs, countMax: 1 }))[0]
  }

  async claimSome(agent: EidHex, holder: string, { leaseMs, countMax }: { leaseMs: number; countMax: number }): Promise<Todo[]> {
    return await this.#lock.run([`claim ${agent}`], async () => {
      for (;;) {
        const ids = this.#open.oldestPending(agent, countMax)
        if (ids.length === 0 || this.#stopped) return []
        const tried = await Promise.allSettled(ids.map((id) => this.#lease(id, holder, leaseMs)))
        const claimed = tried.flatMap((one) => (one.status === 'fulfilled' && one.value !== undefined ? [one.value] : []))
        if (claimed.length > 0) return claimed
        for (const one of tried) if (one.status === 'rejected') throw one.reason
      }
    })
  }

  async claimOne(id: string, holder: string, { leaseMs }: { leaseMs: number }): Promise<Todo | undefined> {
    const todo = await this.#must(id)
    return await this.#lock.run([`claim ${todo.agent}`], () => this.#lease(id, holder, leaseMs))
  }

  async #lease(id: string, holder: string, leaseMs: number): Promise<Todo | undefined> {
    return await this.#change(id, async (todo) => {
      return todo.state === 'pending' ? this.#leased(todo, holder, leaseMs) : undefined
    })
  }

  #leased(todo: Todo, holder: string, leaseMs: number): Todo {
    const lease = { holder, untilMs: this.#components.clock.nowMs() + leaseMs }
    return { ...todo, state: 'claimed', attempt: todo.attempt + 1, lease }
  }

  async renew(id: string, holder: string, { leaseMs }: { leaseMs: number }): Promise<Todo> {
    return await this.#held(id, holder, (todo) => ({
      ...todo,
      lease: { holder, untilMs: this.#components.clock.nowMs() + leaseMs }
    }))
  }

  async complete(id: string, holder: string, artifacts: JsonObject[], message?: JsonObject): Promise<Todo> {
    return await this.#held(id, holder, ({ lease: _, statusMessage: __, ...todo }) => ({
      ...todo,
      state: 'done',
      artifacts,
      ...(message !== undefined ? { statusMessage: message } : {})
    }))
  }

  async fail(id: string, holder: string, reason: string): Promise<Todo> {
    return await this.#held(id, holder, (todo) => failed(todo, reason))
  }

  async retry(id: string, holder: string, reason: string): Promise<Todo> {
    return await this.#held(id, holder, (todo) => this.#back(todo, reason))
  }

  async release(id: string, holder: string): Promise<Todo> {
    return await this.#held(id, holder, ({ lease: _, ...todo }) => ({ ...todo, state: 'pending', attempt: todo.attempt - 1 }))
  }

  #back({ lease: _, ...todo }: Todo, reason: string): Todo {
    if (todo.attempt >= this.#settings.attemptsMax) return failed(todo, reason)
    return { ...todo, state: 'pending', failure: reason }
  }

  async cancel(id: string): Promise<Todo> {
    const canceled = await this.#change(id, async (todo) => {
      if (todo.state === 'canceled') return undefined
      if (stateClass(todo.state) === 'terminal') throw terminal(todo)
      const { lease: _, ...rest } = todo
      return { ...rest, state: 'canceled' }
    })
    return canceled ?? (await this.#must(id))
  }

  async approve(id: string, verdict: 'given' | 'refused'): Promise<Todo> {
    const judged = await this.#change(id, async (todo) => {
      if (todo.approval !== 'needed' || stateClass(todo.state) === 'terminal') return undefined
      const { statusMessage: _, ...rest } = todo
      return { ...rest, approval: verdict, state: verdict === 'given' ? 'pending' : 'rejected' }
    })
    if (judged !== undefined) return judged
    throw new RookeryError('APPROVAL_NOT_NEEDED', `Todo ${id} waits for no approval`, { kind: 'conflict', field: 'id', value: id })
  }

  onCommit(hook: (todo: Todo) => void): () => void {
    this.#hooks.add(hook)
    return () => this.#hooks.delete(hook)
  }

  onCreate(agent: EidHex, offer: () => Taker | undefined): () => void {
    this.#offers.set(agent, offer)
    return () => {
      if (this.#offers.get(agent) === offer) this.#offers.delete(agent)
    }
  }

  async settled(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<Todo> {
    const { promise, resolve } = Promise.withResolvers<Todo>()
    const waiters = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiters)
    waiters.add(resolve)
    const fired = () => this.#must(id).then(resolve, () => undefined)
    try {
      const now = await this.#must(id)
      if (stateClass(now.state) !== 'active' || signal?.aborted === true || this.#stopped) return now
      signal?.addEventListener('abort', fired, { once: true })
      return await promise
    } finally {
      signal?.removeEventListener('abort', fired)
      waiters.delete(resolve)
      if (waiters.size === 0 && this.#waiting.get(id) === waiters) this.#waiting.delete(id)
    }
  }

  /** Forgets terminal Todos older than `retainMs`, with their messageIds; told how many. */
  async sweep(): Promise<number> {
    let gone = 0
    for await (const one of this.#index.oldest({ beforeMs: this.#components.clock.nowMs() - this.#settings.retainMs })) {
      if (stateClass(one.state) === 'terminal' && (await this.#forget(one))) gone++
    }
    return gone
  }

  /** Timers end and those who wait get the Todo as it is; what is claimed stays claimed on disk. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelTimer?.()
    this.#cancelSweep?.()
    for (const [id, waiters] of this.#waiting) {
      const todo = await this.#rows.get(id)
      if (todo !== undefined) for (const resolve of waiters) resolve(todo)
    }
    await this.#lastEmit
  }

  /** `next` sees the Todo under its lock; giving undefined leaves it alone. */
  async #change(id: string, next: (todo: Todo) => Promise<Todo | undefined>): Promise<Todo | undefined> {
    return await this.#lock.run([`todo ${id}`], async () => {
      const before = await this.#must(id)
      const after = await next(before)
      return after === undefined ? undefined : await this.#move(before, after, 'free', [])
    })
  }

  async #held(id: string, holder: string, next: (todo: Todo) => Todo): Promise<Todo> {
    const changed = await this.#change(id, async (todo) => {
      if (todo.state !== 'claimed' || todo.lease?.holder !== holder) {
        this.#components.logger.info({ todo: id, state: todo.state }, 'a late result was dropped: the Todo is no longer held')
        throw new RookeryError('LEASE_LOST', `Todo ${id} is ${todo.state} and not held by this worker any more`, {
          kind: 'conflict',
          data: { state: todo.state }
        })
      }
      return next(todo)
    })
    return changed as Todo
  }

  async #move(before: Todo, after: Todo, room: 'bounded' | 'free', alongside: readonly WriteOp[]): Promise<Todo> {
    if (before.state !== after.state && !mayFollow(before.state, after.state)) {
      throw new TypeError(`a Todo never goes from ${before.state} to ${after.state}`)
    }
    const nowMs = this.#components.clock.nowMs()
    const next: Todo = { ...after, revision: before.revision + 1, changedAtMs: Math.max(nowMs, before.changedAtMs) }
    await this.#write(before, next, room, alongside)
    return next
  }

  /**
   * The only place that writes Todos: one synced batch, then memory, then the hooks in commit order. What a caller sends is `bounded`; what
   * becomes of it here is never refused for its size, and counts.
   */
  async #write(before: Todo | undefined, after: Todo, room: 'bounded' | 'free', alongside: readonly WriteOp[]): Promise<void> {
    const row = this.#rows.put(after.id, after)
    const bytes = row.value?.length ?? 0
    const more = before === undefined ? 1 : 0
    const grown = bytes - (this.#open.get(after.id)?.bytes ?? 0)
    if (room === 'bounded') {
      if (bytes > this.#settings.todoBytesMax) throw limit('bytes', this.#settings.todoBytesMax)
      while (this.#kept.overflow(after.caller, more, grown) !== undefined) await this.#makeRoom(after.caller, more, grown)
    }
    this.#kept.add(after.caller, more, grown)
    const open = this.#openEntry(after, bytes)
    const written = this.#components.store.commit([
      row,
      open === undefined ? this.#openRows.del(after.id) : this.#openRows.put(after.id, open),
      ...this.#index.ops(before, after, bytes),
      ...alongside
    ])
    const earlier = this.#lastEmit
    const emitted = (async () => {
      await written.catch((error: unknown) => {
        this.#kept.add(after.caller, -more, -grown)
        throw error
      })
      await earlier
      if (open === undefined) this.#open.delete(after.id)
      else this.#open.set(after.id, open)
      this.#emit(after)
    })()
    this.#lastEmit = emitted.catch(() => earlier)
    await emitted
    if (after.lease !== undefined) this.#watchLeases()
  }

  /** @throws RookeryError `TODO_LIMIT` (the bound's name) where too little has ended */
  async #makeRoom(caller: string, count: number, bytes: number): Promise<void> {
    await this.#lock.run([ROOM_LOCK], async () => {
      for (;;) {
        const full = this.#kept.overflow(caller, count, bytes)
        if (full === undefined) return
        const ofAll = full.bound === 'keptMax' || full.bound === 'keptBytesMax'
        if ((await this.#forgetOldest(full.caller)) === 0 && !(ofAll && (await this.#forgetOldest(undefined)) > 0)) {
          throw limit(full.bound, full.max)
        }
      }
    })
  }

  async #forgetOldest(caller: string | undefined): Promise<number> {
    const ended: IndexedTodo[] = []
    for await (const one of this.#index.oldest(caller === undefined ? {} : { caller })) {
      if (stateClass(one.state) === 'terminal') ended.push(one)
      if (ended.length === FORGET_AT_ONCE) break
    }
    return (await Promise.all(ended.map((one) => this.#forget(one)))).filter((gone) => gone).length
  }

  /** @returns whether it was there; one that ended never changes again */
  async #forget({ id, bytes }: IndexedTodo): Promise<boolean> {
    return await this.#lock.run([`todo ${id}`], async () => {
      const todo = await this.#rows.get(id)
      if (todo === undefined) return false
      await this.#components.store.commit([
        this.#rows.del(id),
        ...todo.history.map((message) => this.#dedup.del(this.#names({ ...todo, message }).dedupName)),
        this.#contexts.del(this.#sha256(todo.contextId)),
        ...this.#index.removal(todo)
      ])
      this.#kept.add(todo.caller, -1, -bytes)
      return true
    })
  }

  #openEntry(todo: Todo, bytes: number): OpenTodo | undefined {
    if (stateClass(todo.state) === 'terminal') return undefined
    const arrival = this.#open.get(todo.id)?.arrival ?? this.#open.nextArrival()
    return {
      agent: todo.agent,
      caller: todo.caller,
      arrival,
      state: todo.state,
      bytes,
      ...(todo.lease !== undefined ? { holder: todo.lease.holder, untilMs: todo.lease.untilMs } : {})
    }
  }

  #emit(todo: Todo): void {
    for (const hook of this.#hooks) {
      try {
        hook(todo)
      } catch (err) {
        this.#components.logger.error({ err, todo: todo.id }, 'a commit hook threw')
      }
    }
    if (stateClass(todo.state) !== 'active') for (const resolve of this.#waiting.get(todo.id) ?? []) resolve(todo)
  }

  #watchLeases(): void {
    if (this.#stopped) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    const [soonest] = this.#open.leases()
    if (soonest === undefined) return
    const inMs = Math.min(TIMER_MS_MAX, Math.max(0, soonest.untilMs - this.#components.clock.nowMs()))
    this.#cancelTimer = this.#components.clock.after(inMs, () => {
      this.#expireLeases().catch((err) => this.#components.logger.error({ err }, 'a lease that ran out could not be given back'))
    })
  }

  async #expireLeases(): Promise<void> {
    const nowMs = this.#components.clock.nowMs()
    for (const { id, holder, untilMs } of this.#open.leases()) {
      if (untilMs > nowMs) break
      await this.#giveBack(id, holder, 'the lease ran out')
    }
    this.#watchLeases()
  }

  async #giveBack(id: string, holder: string, reason: string): Promise<void> {
    const untilMs = this.#open.get(id)?.untilMs
    await this.#change(id, async (todo) => {
      if (todo.state !== 'claimed' || todo.lease?.holder !== holder || todo.lease.untilMs !== untilMs) return undefined
      return this.#back(todo, reason)
    })
  }

  async #must(id: string): Promise<Todo> {
    const todo = await this.#rows.get(id)
    if (todo === undefined) throw unknown(id)
    return todo
  }

  #sha256(text: string): string {
    return toHex(this.#components.crypto.sha256(utf8(text)))
  }
}

function failed({ lease: _, ...todo }: Todo, reason: string): Todo {
  return { ...todo, state: 'failed', failure: reason.slice(0, 1_000) }
}

function textMember(message: JsonObject, name: string): string | undefined {
  const value = message[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

function unknown(id: string): RookeryError {
  return new RookeryError('TODO_UNKNOWN', `no task ${id.slice(0, 80)}`, { kind: 'notFound', field: 'id', value: id.slice(0, 80) })
}

function terminal(todo: Todo): RookeryError {
  return new RookeryError('TODO_TERMINAL', `task ${todo.id} is ${todo.state} and takes nothing more`, {
    kind: 'conflict',
    field: 'taskId',
    value: todo.id,
    data: { state: todo.state },
    remedy: 'send a new message in the same context'
  })
}

function limit(kind: 'open' | 'caller' | 'history' | 'bytes' | keyof KeptBounds, max: number): RookeryError {
  return new RookeryError('TODO_LIMIT', `the bound of ${max} (${kind}) is reached`, {
    kind: 'refused',
    data: { kind, max },
    remedy: 'wait until earlier tasks have ended, or cancel some'
  })
}

/** RFC 9562 version 4 text of 16 random bytes. */
function uuid(bytes: Uint8Array): string {
  const own = bytes.slice()
  own[6] = ((own[6] as number) & 0x0f) | 0x40
  own[8] = ((own[8] as number) & 0x3f) | 0x80
  const hex = toHex(own)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
