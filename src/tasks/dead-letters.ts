import type { EidHex } from '../../protocol/identity/eid.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import type { Todo } from './todo.ts'

/** A Todo whose attempts are used up, as its owner lists it. */
export interface DeadLetter {
  id: string
  agent: EidHex
  deadAtMs: number
  attempts: number
  reason: string
}

/** What waits for its owner's word: to be tried again, or dropped. Bounded with the kept Todos: the room that one makes takes its letter along. */
export class DeadLetters {
  readonly #rows: Table<DeadLetter>

  constructor(store: Store) {
    this.#rows = store.table('todo-dead', jsonCodec<DeadLetter>())
  }

  put({ id, agent, deadAtMs = 0, attempt, failure = '' }: Todo): WriteOp {
    return this.#rows.put(keyOf({ id, agent, deadAtMs }), { id, agent, deadAtMs, attempts: attempt, reason: failure })
  }

  /** None for a Todo that never was one. */
  del({ id, agent, deadAtMs }: Todo): WriteOp[] {
    return deadAtMs === undefined ? [] : [this.#rows.del(keyOf({ id, agent, deadAtMs }))]
  }

  async has({ id, agent, deadAtMs }: Todo): Promise<boolean> {
    return deadAtMs !== undefined && (await this.#rows.has(keyOf({ id, agent, deadAtMs })))
  }

  /** The oldest first. */
  async list({ agent, limit }: { agent?: EidHex | undefined; limit: number }): Promise<DeadLetter[]> {
    const letters: DeadLetter[] = []
    const range = agent === undefined ? {} : { gt: `${agent}:`, lt: `${agent};` }
    for await (const [, letter] of this.#rows.entries({ ...range, limit })) letters.push(letter)
    return letters
  }
}

function keyOf({ id, agent, deadAtMs }: { id: string; agent: EidHex; deadAtMs: number }): string {
  return `${agent}:${deadAtMs.toString(16).padStart(12, '0')}:${id}`
}
