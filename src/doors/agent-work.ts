import { toHex } from '../../protocol/bytes.ts'
import { keepsMessages, type Reachability } from '../../protocol/delivery/reachability.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { ATTACH_LEASE_MAX_MS, ATTACH_LEASE_MIN_MS, type Attachments } from '../delivery/attachments.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import type { SideEffects } from '../tasks/handler.ts'
import type { JsonObject, Progress, Todo, TodoDoor, TodoFilter, TodoPage, Todos } from '../tasks/todo.ts'
import { todoUnknown } from '../tasks/todo-errors.ts'

export const WORK_LEASE_DEFAULT_MS = 60_000
export const WORK_WAIT_MAX_MS = 60_000
/** Claims of one agent that wait at a time, and of all; above it `WORK_WAITERS_MAX`. */
export const WORK_WAITERS_PER_AGENT_MAX = 16
export const WORK_WAITERS_MAX = 128
/** A process that asked for work counts as attached for this long after its last call (G-16). */
const PRESENT_MS = 60_000

export type WorkDoor = Extract<TodoDoor, 'agent-http' | 'mcp' | 'library'>

export interface ClaimRequest {
  leaseMs?: number | undefined
  /** how long to wait for work; 0: answer at once */
  waitMs?: number | undefined
  queue?: string | undefined
  /** what the agent's work may do (OD-40, G-72); undeclared counts as consequential */
  sideEffects?: SideEffects | undefined
}

/** A Todo under a lease. Who knows `claim` may go on with it. */
export interface Claimed {
  claim: string
  todo: Todo
  /** the span of this attempt, for a program that traces too */
  traceparent?: string | undefined
}

export interface AgentWorkComponents {
  todos: Todos
  attachments: Attachments
  clock: Clock
  random: Random
  reachability: (agent: LocalAgent) => Reachability
  /** default: nothing is traced */
  traceOf?: (todo: Todo) => string | undefined
}

/** What every door for agents does (TD-13): takes an agent's Todos out under leases and brings their ends back. The doors only translate. */
export class AgentWork {
  readonly #c: AgentWorkComponents
  readonly #waiting = new Map<EidHex, number>()
  /** one attachment an agent and what it declared; bounded by the hosted agents */
  readonly #present = new Map<EidHex, { attachment: string; effects: SideEffects }>()
  #waitingAll = 0

  constructor(components: AgentWorkComponents) {
    this.#c = components
  }

  get todos(): Todos {
    return this.#c.todos
  }

  get clock(): Clock {
    return this.#c.clock
  }

  /** What the program that last asked for this agent's work declared; undefined where none ever did. */
  sideEffects(agent: LocalAgent): SideEffects | undefined {
    return this.#present.get(homeOf(agent))?.effects
  }

  /**
   * The next Todo of the agent, or undefined when none came in time; nothing while it takes no work (OD-10).
   * @throws RookeryError `LEASE_INVALID`, `WAIT_INVALID`, `WORK_WAITERS_MAX`; the signal's reason
   */
  async claim(agent: LocalAgent, door: WorkDoor, request: ClaimRequest, signal: AbortSignal): Promise<Claimed | undefined> {
    const { leaseMs = WORK_LEASE_DEFAULT_MS, waitMs = 0, queue, sideEffects = 'consequential' } = request
    checkLease(leaseMs)
    checkWait(waitMs)
    this.present(agent, sideEffects)
    const claim = toHex(this.#c.random.bytes(16))
    const options = { leaseMs, sideEffects, ...(queue === undefined ? {} : { queue }) }
    const take = async (): Promise<Claimed | undefined> => {
      if (this.#c.reachability(agent).state !== 'accepts') return undefined
      const todo = await this.#c.todos.claim(homeOf(agent), `${door}:${claim}`, options)
      return todo === undefined ? undefined : { claim, todo, traceparent: this.#c.traceOf?.(todo) }
    }
    const first = await take()
    if (first !== undefined || waitMs === 0) return first
    const leave = this.#enter(homeOf(agent))
    try {
      return await this.#wait(agent, take, waitMs, signal)
    } finally {
      leave()
      this.present(agent, sideEffects)
    }
  }

  /** Woken by the commit hook, never by a timer but the one that ends it (TD-25). */
  async #wait(
    agent: LocalAgent,
    take: () => Promise<Claimed | undefined>,
    waitMs: number,
    signal: AbortSignal
  ): Promise<Claimed | undefined> {
    let over = false
    let wake = () => {}
    let woken = new Promise<void>((resolve) => (wake = resolve))
    const end = () => {
      over = true
      wake()
    }
    const off = this.#c.todos.onClaimable(homeOf(agent), () => wake())
    const cancel = this.#c.clock.after(waitMs, end)
    signal.addEventListener('abort', end, { once: true })
    try {
      // What came before the hook was there is found by this look.
      for (let found = await take(); ; found = await take()) {
        if (found !== undefined || over) return found
        signal.throwIfAborted()
        await woken
        woken = new Promise<void>((resolve) => (wake = resolve))
        if (signal.aborted) throw signal.reason
      }
    } finally {
      off()
      cancel()
      signal.removeEventListener('abort', end)
    }
  }

  /** The process is there: it attaches, and stays so for a while. */
  present(agent: LocalAgent, declared?: SideEffects): void {
    const home = homeOf(agent)
    const held = this.#present.get(home)
    const effects = declared ?? held?.effects ?? 'consequential'
    if (held !== undefined) {
      // Told first, so that what is handed over on attaching sees it.
      held.effects = effects
      try {
        this.#c.attachments.renew(held.attachment, { leaseMs: WORK_WAIT_MAX_MS + PRESENT_MS })
        return
      } catch (error) {
        if (!(error instanceof RookeryError) || error.code !== 'ATTACHMENT_UNKNOWN') throw error
      }
    }
    const entry = { attachment: '', effects }
    this.#present.set(home, entry)
    try {
      entry.attachment = this.#c.attachments.attach(agent, { leaseMs: WORK_WAIT_MAX_MS + PRESENT_MS }).id
    } catch (error) {
      // Enough others are attached, and one is all that counts.
      if (!(error instanceof RookeryError) || error.code !== 'ATTACHMENTS_MAX') throw error
    }
  }

  async renew(agent: LocalAgent, door: WorkDoor, held: { id: string; claim: string; leaseMs?: number | undefined }): Promise<Todo> {
    const { leaseMs = WORK_LEASE_DEFAULT_MS } = held
    checkLease(leaseMs)
    this.present(agent)
    return await this.#held(agent, held.id, () => this.#c.todos.renew(held.id, holder(door, held.claim), { leaseMs }))
  }

  async progress(agent: LocalAgent, door: WorkDoor, held: { id: string; claim: string }, progress: Progress): Promise<Todo> {
    return await this.#held(agent, held.id, () => this.#c.todos.progress(held.id, holder(door, held.claim), progress))
  }

  async complete(
    agent: LocalAgent,
    door: WorkDoor,
    held: { id: string; claim: string },
    { artifacts, message }: { artifacts: JsonObject[]; message?: JsonObject | undefined }
  ): Promise<Todo> {
    return await this.#held(agent, held.id, () => this.#c.todos.complete(held.id, holder(door, held.claim), artifacts, message))
  }

  /** @param again - `retry`: another attempt follows, unless they are used up */
  async fail(
    agent: LocalAgent,
    door: WorkDoor,
    held: { id: string; claim: string },
    { reason, again }: { reason: string; again: 'retry' | 'never' }
  ): Promise<Todo> {
    const { todos } = this.#c
    const by = holder(door, held.claim)
    return await this.#held(agent, held.id, () => (again === 'retry' ? todos.retry(held.id, by, reason) : todos.fail(held.id, by, reason)))
  }

  async ask(
    agent: LocalAgent,
    door: WorkDoor,
    held: { id: string; claim: string },
    question: { for: 'input' | 'auth'; message: JsonObject }
  ): Promise<Todo> {
    return await this.#held(agent, held.id, () => this.#c.todos.ask(held.id, holder(door, held.claim), question))
  }

  async reject(agent: LocalAgent, door: WorkDoor, held: { id: string; claim: string }, reason: string): Promise<Todo> {
    return await this.#held(agent, held.id, () => this.#c.todos.reject(held.id, holder(door, held.claim), reason))
  }

  async release(agent: LocalAgent, door: WorkDoor, held: { id: string; claim: string }): Promise<Todo> {
    return await this.#held(agent, held.id, () => this.#c.todos.release(held.id, holder(door, held.claim)))
  }

  /** Todos that others gave this agent. */
  async list(agent: LocalAgent, filter: Omit<TodoFilter, 'agent'> & { limit?: number; cursor?: string }): Promise<TodoPage> {
    return await this.#c.todos.list({ ...filter, agent: homeOf(agent) })
  }

  /** @throws RookeryError `TODO_UNKNOWN`, also for another agent's */
  async get(agent: LocalAgent, id: string): Promise<Todo> {
    const todo = await this.#c.todos.get(id)
    if (todo === undefined || todo.agent !== homeOf(agent)) throw todoUnknown(id)
    return todo
  }

  /** Whether it takes work, and how it keeps what comes meanwhile. */
  standing(agent: LocalAgent): { state: Reachability['state']; keeps: boolean } {
    return { state: this.#c.reachability(agent).state, keeps: keepsMessages(agent.reachability) }
  }

  async #held(agent: LocalAgent, id: string, act: () => Promise<Todo>): Promise<Todo> {
    await this.get(agent, id)
    return await act()
  }

  #enter(home: EidHex): () => void {
    const own = this.#waiting.get(home) ?? 0
    if (own >= WORK_WAITERS_PER_AGENT_MAX || this.#waitingAll >= WORK_WAITERS_MAX) {
      const max = own >= WORK_WAITERS_PER_AGENT_MAX ? WORK_WAITERS_PER_AGENT_MAX : WORK_WAITERS_MAX
      throw new RookeryError('WORK_WAITERS_MAX', `${max} claims wait for work already`, {
        kind: 'refused',
        field: 'waitMs',
        data: { max },
        remedy: 'let fewer processes wait, or ask with waitMs 0'
      })
    }
    this.#waiting.set(home, own + 1)
    this.#waitingAll++
    return () => {
      this.#waitingAll--
      const left = (this.#waiting.get(home) ?? 1) - 1
      if (left > 0) this.#waiting.set(home, left)
      else this.#waiting.delete(home)
    }
  }
}

function holder(door: WorkDoor, claim: string): string {
  return `${door}:${claim}`
}

function checkLease(leaseMs: number): void {
  if (Number.isInteger(leaseMs) && leaseMs >= ATTACH_LEASE_MIN_MS && leaseMs <= ATTACH_LEASE_MAX_MS) return
  throw new RookeryError('LEASE_INVALID', `a lease is ${ATTACH_LEASE_MIN_MS} to ${ATTACH_LEASE_MAX_MS} ms`, {
    kind: 'usage',
    field: 'leaseMs',
    value: leaseMs,
    remedy: `leave it out for ${WORK_LEASE_DEFAULT_MS} ms`
  })
}

function checkWait(waitMs: number): void {
  if (Number.isInteger(waitMs) && waitMs >= 0 && waitMs <= WORK_WAIT_MAX_MS) return
  throw new RookeryError('WAIT_INVALID', `a claim waits 0 to ${WORK_WAIT_MAX_MS} ms`, {
    kind: 'usage',
    field: 'waitMs',
    value: waitMs,
    remedy: `ask again after ${WORK_WAIT_MAX_MS} ms`
  })
}
