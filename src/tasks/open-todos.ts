import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Clock } from '../platform/clock.ts'
import { DueTimes } from '../platform/due-times.ts'
import { CallerCounts } from './caller-counts.ts'
import { stateClass } from './states.ts'
import type { TodoState } from './todo.ts'

/** What memory keeps of a Todo that is not terminal; the same members lie in the `todo-open` table. */
export interface OpenTodo {
  agent: EidHex
  caller: string
  /** order of arrival, kept when a claim goes back */
  arrival: number
  state: TodoState
  /** of its row on disk */
  bytes: number
  queue?: string
  priority?: number
  holder?: string
  /** end of the lease, Unix ms */
  untilMs?: number
  /** not claimed before this, Unix ms */
  notBeforeMs?: number
  /** end of the wait for an answer, Unix ms */
  deadlineMs?: number
}

interface Waiting {
  id: string
  arrival: number
  priority: number
  queue: string | undefined
}

/**
 * All Todos that are not terminal: what may be claimed next, what time does to them, who has how many. Bounded by the store's open limit. Their ends
 * are reckoned in elapsed time from when they were set or read: a wall clock that jumps neither ends a lease nor makes it last.
 */
export class OpenTodos {
  readonly #open = new Map<string, OpenTodo>()
  /** what may be claimed, the next one first, per agent */
  readonly #pending = new Map<EidHex, Waiting[]>()
  readonly #due = new DueTimes()
  readonly #perCaller = new CallerCounts()
  readonly #clock: Pick<Clock, 'nowMs' | 'monotonicMs'>
  #arrival = 0

  constructor(clock: Pick<Clock, 'nowMs' | 'monotonicMs'>) {
    this.#clock = clock
  }

  get size(): number {
    return this.#open.size
  }

  callerSize(caller: string): number {
    return this.#perCaller.of(caller)
  }

  nextArrival(): number {
    return ++this.#arrival
  }

  get(id: string): OpenTodo | undefined {
    return this.#open.get(id)
  }

  entries(): IterableIterator<[id: string, entry: OpenTodo]> {
    return this.#open.entries()
  }

  /** @returns whether it may be claimed and could not before */
  set(id: string, entry: OpenTodo): boolean {
    const before = this.#open.get(id)
    const couldBefore = before !== undefined && claimable(before)
    if (before !== undefined && couldBefore && claimable(entry)) {
      // A message came: its place stays.
      this.#open.set(id, entry)
      return false
    }
    this.delete(id)
    this.#open.set(id, entry)
    this.#perCaller.add(entry.caller, 1)
    this.#arrival = Math.max(this.#arrival, entry.arrival)
    const endMs = endOf(entry)
    this.#due.set(id, endMs === undefined ? undefined : endMs - this.#clock.nowMs() + this.#clock.monotonicMs())
    if (claimable(entry)) this.#queue(id, entry)
    return claimable(entry)
  }

  delete(id: string): void {
    const entry = this.#open.get(id)
    if (entry === undefined) return
    this.#open.delete(id)
    this.#due.set(id, undefined)
    this.#perCaller.add(entry.caller, -1)
    const queue = this.#pending.get(entry.agent)
    const at = queue?.findIndex((one) => one.id === id) ?? -1
    if (at >= 0) queue?.splice(at, 1)
    if (queue?.length === 0) this.#pending.delete(entry.agent)
  }

  /** A Todo that waited out its time after a failed attempt may be claimed. */
  ripen(id: string): void {
    const entry = this.#open.get(id)
    if (entry?.notBeforeMs === undefined) return
    const { notBeforeMs: _, ...ripe } = entry
    this.set(id, ripe)
  }

  /** The next ones of the agent, or of one queue of it. */
  nextPending(agent: EidHex, countMax = 1, queue?: string): string[] {
    const waiting = this.#pending.get(agent) ?? []
    if (queue === undefined) return waiting.slice(0, countMax).map(({ id }) => id)
    const ids: string[] = []
    for (const one of waiting) {
      if (one.queue === queue) ids.push(one.id)
      if (ids.length === countMax) break
    }
    return ids
  }

  /** What time does something to next, and when on the monotonic clock: a lease or a wait ends, or a failed attempt may be tried again. */
  nextDue(): { id: string; atMs: number } | undefined {
    return this.#due.first()
  }

  #queue(id: string, { agent, arrival, priority = 0, queue: name }: OpenTodo): void {
    const queue = this.#pending.get(agent) ?? []
    this.#pending.set(agent, queue)
    let low = 0
    let high = queue.length
    while (low < high) {
      const at = (low + high) >> 1
      const one = queue[at] as Waiting
      if (one.priority > priority || (one.priority === priority && one.arrival < arrival)) low = at + 1
      else high = at
    }
    queue.splice(low, 0, { id, arrival, priority, queue: name })
  }
}

function claimable({ state, notBeforeMs }: OpenTodo): boolean {
  return state === 'pending' && notBeforeMs === undefined
}

/** Unix ms */
function endOf({ state, untilMs, notBeforeMs, deadlineMs }: OpenTodo): number | undefined {
  if (state === 'claimed') return untilMs
  if (state === 'pending') return notBeforeMs
  return stateClass(state) === 'interrupted' ? deadlineMs : undefined
}
