import type { NodeAudit, SoakName } from './soak-orders.ts'

interface Accepted {
  /** the node that has the task */
  on: SoakName
  atMs: number
}

/** Items that a node has seen are remembered up to so many: an acknowledgement may come after them. */
const SEEN_MAX = 200_000

/** What was accepted, and what became of it. */
export class SoakAccounts {
  /** by node: acknowledged to their sender, and not seen there yet */
  readonly #acked = new Map<SoakName, Set<string>>()
  readonly #seen = new Map<SoakName, Set<string>>()
  readonly #forgotten = new Set<string>()
  /** message ids, and those that became a task, with it */
  readonly #mailed = new Set<string>()
  readonly #handled = new Map<string, string>()
  readonly #ended = new Set<string>()
  readonly #tasks = new Map<string, Accepted>()
  readonly violations: string[] = []
  readonly figures = { items: 0, mail: 0, tasks: 0, tasksChecked: 0 }
  /** tasks are looked for as long as they must be there */
  readonly #taskKeptMs: number

  constructor({ taskKeptMs }: { taskKeptMs: number }) {
    this.#taskKeptMs = taskKeptMs
  }

  ackedItem(to: SoakName, item: string): void {
    this.figures.items++
    if (!this.#of(this.#seen, to).has(item)) this.#of(this.#acked, to).add(item)
  }

  mailed(messageId: string): void {
    this.figures.mail++
    this.#mailed.add(messageId)
  }

  taskAccepted(on: SoakName, id: string, atMs: number): void {
    this.figures.tasks++
    this.#tasks.set(id, { on, atMs })
  }

  /** Tasks that a node must have now. */
  tasksOn(on: SoakName, nowMs: number): string[] {
    for (const [id, { atMs }] of this.#tasks) if (nowMs - atMs > this.#taskKeptMs) this.#tasks.delete(id)
    return [...this.#tasks].filter(([, one]) => one.on === on).map(([id]) => id)
  }

  /** What was acknowledged when an audit began, for {@link audited}. */
  ackedOf(node: SoakName): string[] {
    return [...this.#of(this.#acked, node)]
  }

  /** @param due - {@link ackedOf} of before the audit. Gives the items that the node may forget. */
  audited(node: SoakName, audit: NodeAudit, { due, asked }: { due: readonly string[]; asked: readonly string[] }): string[] {
    const seen = this.#of(this.#seen, node)
    const acked = this.#of(this.#acked, node)
    for (const item of audit.items) {
      if (this.#forgotten.has(item)) this.violations.push(`item ${item} was applied twice at ${node}`)
      seen.add(item)
      acked.delete(item)
    }
    for (const item of due) {
      if (seen.has(item)) continue
      this.violations.push(`item ${item} was acknowledged and is not at ${node}`)
      acked.delete(item)
    }
    while (seen.size > SEEN_MAX) seen.delete(seen.values().next().value as string)
    for (const { messageId, taskId, state } of audit.mail) {
      const known = this.#handled.get(messageId)
      if (known !== undefined && known !== taskId) this.violations.push(`message ${messageId} became two tasks`)
      this.#handled.set(messageId, taskId)
      if (state === 'done') this.#ended.add(messageId)
    }
    this.figures.tasksChecked += asked.length
    for (const id of audit.tasksMissing) {
      this.violations.push(`task ${id} was accepted and is not at ${node}`)
      this.#tasks.delete(id)
    }
    return audit.items
  }

  forgot(items: readonly string[]): void {
    for (const item of items) this.#forgotten.add(item)
    while (this.#forgotten.size > SEEN_MAX) this.#forgotten.delete(this.#forgotten.values().next().value as string)
  }

  /** Mail that was accepted and whose task has not ended. */
  mailWaiting(): string[] {
    return [...this.#mailed].filter((id) => !this.#ended.has(id))
  }

  itemsWaiting(): number {
    return [...this.#acked.values()].reduce((sum, set) => sum + set.size, 0)
  }

  #of(map: Map<SoakName, Set<string>>, node: SoakName): Set<string> {
    const held = map.get(node) ?? new Set()
    map.set(node, held)
    return held
  }
}
