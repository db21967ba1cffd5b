import { slotsOf } from './slots.ts'
import type { TodoFilter, TodoSlot } from './todo.ts'

type Counts = Map<TodoSlot, number>

/** How many Todos each agent and caller have in each slot. Holds nothing for who has none, so it is bounded with the kept Todos. */
export class TodoCounts {
  readonly #counts = new Map<string, { agent: string; caller: string; slots: Counts }>()

  add({ agent, caller }: { agent: string; caller: string }, slot: TodoSlot, more: number): void {
    const key = `${agent} ${caller}`
    const held = this.#counts.get(key) ?? { agent, caller, slots: new Map() }
    this.#counts.set(key, held)
    const count = (held.slots.get(slot) ?? 0) + more
    if (count > 0) held.slots.set(slot, count)
    else held.slots.delete(slot)
    if (held.slots.size === 0) this.#counts.delete(key)
  }

  /** By agent, caller and states. */
  of(filter: TodoFilter): number {
    const slots = slotsOf(filter)
    const { agent, caller } = filter
    let all = 0
    const sum = (held: { slots: Counts }) => {
      for (const slot of slots) all += held.slots.get(slot) ?? 0
    }
    if (agent !== undefined && caller !== undefined) {
      const held = this.#counts.get(`${agent} ${caller}`)
      if (held !== undefined) sum(held)
      return all
    }
    for (const held of this.#counts.values()) {
      if ((agent === undefined || held.agent === agent) && (caller === undefined || held.caller === caller)) sum(held)
    }
    return all
  }
}
