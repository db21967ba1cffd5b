import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { LeaseTimer } from './lease-timer.ts'
import type { OpenTodo } from './open-todos.ts'
import type { TodosSettings } from './settings.ts'
import { stateClass } from './states.ts'
import type { Actor, Todo } from './todo.ts'
import type { TodoJournal } from './todo-journal.ts'
import { failed, type Move, retried } from './transitions.ts'

/** After something that was due could not be written. */
const RETRY_MS = 5_000
const NODE: Actor = { door: 'node' }

/** What time does to Todos: leases run out, failed attempts may be tried again, waits for an answer end; also what was due while the node was off. */
export class TodoTimes {
  readonly #journal: TodoJournal
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #settings: TodosSettings
  readonly #timer: LeaseTimer
  #running: Promise<void> | undefined
  #stopped = false

  constructor({ journal, clock, logger }: { journal: TodoJournal; clock: Clock; logger: Logger }, settings: TodosSettings) {
    this.#journal = journal
    this.#clock = clock
    this.#logger = logger
    this.#settings = settings
    this.#timer = new LeaseTimer(clock, () => this.#fired())
    journal.listeners.hook(() => this.#watch())
  }

  /** @param isOurs - holders that ended with the process before: what they held is pending again */
  async begin(isOurs: (holder: string) => boolean): Promise<void> {
    for (const [id, entry] of [...this.#journal.open.entries()]) {
      if (entry.holder !== undefined && isOurs(entry.holder)) await this.#giveBack(id, entry, 'the node stopped while an attempt ran')
      else if (stateClass(entry.state) === 'interrupted' && entry.deadlineMs === undefined) await this.#adopt(id, entry)
    }
    await this.#expire()
  }

  stop(): void {
    this.#stopped = true
    this.#timer.stop()
  }

  #watch(): void {
    if (this.#running === undefined) this.#timer.set(this.#journal.open.nextDue()?.atMs)
  }

  #fired(): void {
    this.#expire().catch((err: unknown) => {
      this.#logger.error({ err }, 'what became due could not be written and is tried again')
      this.#timer.set(this.#clock.monotonicMs() + RETRY_MS)
    })
  }

  /** A row of a former version, which knew no end of a wait. */
  async #adopt(id: string, entry: OpenTodo): Promise<void> {
    const todo = await this.#journal.get(id)
    const deadlineMs = todo === undefined ? undefined : this.#deadlineOf(todo)
    if (deadlineMs !== undefined) this.#journal.open.set(id, { ...entry, deadlineMs })
  }

  #deadlineOf({ deadlineMs, changedAtMs }: Todo): number | undefined {
    const { interruptMs } = this.#settings
    return deadlineMs ?? (interruptMs === 0 ? undefined : changedAtMs + interruptMs)
  }

  async #expire(): Promise<void> {
    this.#running ??= this.#expireAll().finally(() => {
      this.#running = undefined
    })
    await this.#running
    this.#watch()
  }

  async #expireAll(): Promise<void> {
    const { open, listeners } = this.#journal
    for (let due = open.nextDue(); due !== undefined && !this.#stopped; due = open.nextDue()) {
      if (due.atMs > this.#clock.monotonicMs()) return
      const entry = open.get(due.id) as OpenTodo
      if (entry.state === 'claimed') await this.#giveBack(due.id, entry, 'the lease ran out')
      else if (entry.state === 'pending') {
        open.ripen(due.id)
        listeners.claimable(entry.agent)
      } else await this.#giveUp(due.id, entry)
      const next = open.nextDue()
      if (next?.id === due.id && next.atMs === due.atMs) throw new TypeError('what was due is due still')
    }
  }

  async #giveBack(id: string, { holder, untilMs }: OpenTodo, reason: string): Promise<void> {
    const { attemptsMax } = this.#settings
    await this.#journal.change(id, (todo): Move | undefined => {
      if (todo.state !== 'claimed' || todo.lease?.holder !== holder || todo.lease?.untilMs !== untilMs) return undefined
      return retried(todo, reason, { attemptsMax, nowMs: this.#clock.nowMs(), by: NODE })
    })
  }

  async #giveUp(id: string, { deadlineMs }: OpenTodo): Promise<void> {
    await this.#journal.change(id, (todo): Move | undefined => {
      if (stateClass(todo.state) !== 'interrupted' || this.#deadlineOf(todo) !== deadlineMs) return undefined
      return failed(todo, 'interrupt_timeout', NODE)
    })
  }
}
