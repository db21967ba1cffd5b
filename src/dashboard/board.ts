import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { TODO_STATES } from '../tasks/states.ts'
import type { JsonObject, Todo, TodoState } from '../tasks/todo.ts'

/** Cards of one state that a board holds; how many more there are is counted. */
export const CARDS_PER_STATE_MAX = 50
/** Changes that a watcher can resume from; who knows less gets the board anew. */
const CHANGES_MAX = 500
const PREVIEW_CHARS = 200

/** A task of one of our agents, without what it carries. */
export interface TaskCard {
  id: string
  /** name of the local agent */
  agent: string
  caller: string
  state: TodoState
  door: Todo['door']
  attempt: number
  createdAtMs: number
  changedAtMs: number
  approval?: Todo['approval']
  failure?: string
  queue?: string
  /** the beginning of the text that it began with */
  preview: string
}

export type TaskCounts = Record<TodoState, number>

export interface TaskBoard {
  /** number of the newest change in it */
  rev: number
  cards: TaskCard[]
  counts: TaskCounts
}

/** The tasks of our agents as a board, and what changed on it, by the hook that every commit calls. Follows them only while somebody watches. */
export class Board {
  readonly #node: RookeryNode
  /** by id, oldest change first */
  readonly #changes = new Map<string, { rev: number; card: TaskCard }>()
  #rev = 0
  /** changes up to this one are not all held */
  #floor = 0
  #unfollow: (() => void) | undefined

  constructor(node: RookeryNode) {
    this.#node = node
  }

  get rev(): number {
    return this.#rev
  }

  follow(onChange: () => void): void {
    this.#floor = ++this.#rev
    this.#unfollow = this.#node.todos.onCommit((todo, events) => {
      if (events.length === 0) return
      this.#changes.delete(todo.id)
      this.#changes.set(todo.id, { rev: ++this.#rev, card: this.#card(todo) })
      if (this.#changes.size > CHANGES_MAX) {
        const [id, { rev }] = this.#changes.entries().next().value as [string, { rev: number }]
        this.#changes.delete(id)
        this.#floor = rev
      }
      onChange()
    })
  }

  unfollow(): void {
    this.#unfollow?.()
    this.#unfollow = undefined
    this.#changes.clear()
  }

  /** Cards that changed after `rev`, each as it is now; undefined where that is not known any more. */
  async since(rev: number): Promise<TaskBoard | undefined> {
    if (rev < this.#floor || rev > this.#rev) return undefined
    const cards = [...this.#changes.values()].filter((one) => one.rev > rev).map(({ card }) => card)
    const upTo = this.#rev
    return { rev: upTo, cards, counts: await this.#counts() }
  }

  /** The newest of each state. */
  async whole(): Promise<TaskBoard> {
    const rev = this.#rev
    const pages = await Promise.all(TODO_STATES.map((state) => this.#node.todos.list({ state, limit: CARDS_PER_STATE_MAX })))
    return { rev, cards: pages.flatMap(({ todos }) => todos.map((todo) => this.#card(todo))), counts: await this.#counts() }
  }

  async #counts(): Promise<TaskCounts> {
    const counts = await Promise.all(TODO_STATES.map((state) => this.#node.todos.count({ state })))
    return Object.fromEntries(TODO_STATES.map((state, i) => [state, counts[i] ?? 0])) as TaskCounts
  }

  #card(todo: Todo): TaskCard {
    const { id, agent, caller, state, door, attempt, createdAtMs, changedAtMs, approval, failure, queue } = todo
    return {
      id,
      agent: this.#node.agents.list().find((one) => homeOf(one) === agent)?.name ?? agent,
      caller: caller.slice(0, 200),
      state,
      door,
      attempt,
      createdAtMs,
      changedAtMs,
      ...(approval === undefined ? {} : { approval }),
      ...(failure === undefined ? {} : { failure: failure.slice(0, PREVIEW_CHARS) }),
      ...(queue === undefined ? {} : { queue }),
      preview: previewOf(todo.history[0])
    }
  }
}

function previewOf(message: JsonObject | undefined): string {
  const parts = Array.isArray(message?.parts) ? message.parts : []
  const texts = parts.map((part) => (typeof part === 'object' && part !== null && !Array.isArray(part) ? part.text : undefined))
  const text = texts.filter((one) => typeof one === 'string').join(' ')
  return text.length > PREVIEW_CHARS ? `${text.slice(0, PREVIEW_CHARS - 1)}…` : text
}
