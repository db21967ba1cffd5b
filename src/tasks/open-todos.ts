import type { EidHex } from '../../protocol/identity/eid.ts'
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
  holder?: string
  /** end of the lease, Unix ms */
  untilMs?: number
}

/** All Todos that are not terminal: what may be claimed next, which leases run out, who has how many. Bounded by the store's open limit. */
export class OpenTodos {
  readonly #open = new Map<string, OpenTodo>()
  /** ids by arrival, per agent */
  readonly #pending = new Map<EidHex, { arrival: number; id: string }[]>()
  /** ids of what is claimed */
  readonly #claimed = new Set<string>()
  readonly #perCaller = new Map<string, number>()
  #arrival = 0

  get size(): number {
    return this.#open.size
  }

  callerSize(caller: string): number {
    return this.#perCaller.get(caller) ?? 0
  }

  nextArrival(): number {
    return ++this.#arrival
  }

  get(id: string): OpenTodo | undefined {
    return this.#open.get(id)
  }

  set(id: string, entry: OpenTodo): void {
    this.delete(id)
    this.#open.set(id, entry)
    this.#perCaller.set(entry.caller, this.callerSize(entry.caller) + 1)
    this.#arrival = Math.max(this.#arrival, entry.arrival)
    if (entry.state === 'pending') this.#queue(id, entry)
    else if (entry.state === 'claimed') this.#claimed.add(id)
  }

  delete(id: string): void {
    const entry = this.#open.get(id)
    if (entry === undefined) return
    this.#open.delete(id)
    this.#claimed.delete(id)
    const left = this.callerSize(entry.caller) - 1
    if (left > 0) this.#perCaller.set(entry.caller, left)
    else this.#perCaller.delete(entry.caller)
    const queue = this.#pending.get(entry.agent)
    const at = queue?.findIndex((one) => one.id === id) ?? -1
    if (at >= 0) queue?.splice(at, 1)
    if (queue?.length === 0) this.#pending.delete(entry.agent)
  }

  oldestPending(agent: EidHex, countMax = 1): string[] {
    return (this.#pending.get(agent) ?? []).slice(0, countMax).map(({ id }) => id)
  }

  /** Leases, soonest end first. */
  leases(): { id: string; holder: string; untilMs: number }[] {
    const leases: { id: string; holder: string; untilMs: number }[] = []
    for (const id of this.#claimed) {
      const { holder, untilMs } = this.#open.get(id) as OpenTodo
      if (holder !== undefined && untilMs !== undefined) leases.push({ id, holder, untilMs })
    }
    return leases.sort((a, b) => a.untilMs - b.untilMs)
  }

  #queue(id: string, entry: OpenTodo): void {
    const queue = this.#pending.get(entry.agent) ?? []
    this.#pending.set(entry.agent, queue)
    let at = queue.length
    while (at > 0 && (queue[at - 1] as { arrival: number }).arrival > entry.arrival) at--
    queue.splice(at, 0, { arrival: entry.arrival, id })
  }
}
