import type { KeptBounds } from './kept-todos.ts'
import type { NameBounds } from './message-names.ts'

/** What bounds the store, and what happens at the bound. */
export interface TodosSettings extends KeptBounds, NameBounds {
  /** Todos that are not terminal, in all; above it `TODO_LIMIT` (open) */
  openMax: number
  /** of one caller; above it `TODO_LIMIT` (caller) */
  openPerCallerMax: number
  /** messages in one Todo's history; above it `TODO_LIMIT` (history) */
  historyMax: number
  /** bytes of one Todo's row, its messages and artifacts in it, that a message may make it; above it `TODO_LIMIT` (bytes) */
  todoBytesMax: number
  /** claims of one Todo; when the last of them fails, so does the Todo, and it lies among the dead letters */
  attemptsMax: number
  /** wait after the first failed attempt, twice as long after each further one, up to the last; up to a quarter less, by chance */
  retryFirstMs: number
  retryLastMs: number
  /** how long a Todo waits for an answer before it fails with `interrupt_timeout` (TD-Q2); 0: without end */
  interruptMs: number
  /** how long a terminal Todo stays, where the bounds of {@link KeptBounds} leave it */
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
  namesMax: 1_000_000,
  namesPerCallerMax: 250_000,
  nameRetainMs: 86_400_000,
  keyRetainMs: 7 * 86_400_000,
  attemptsMax: 3,
  retryFirstMs: 1_000,
  retryLastMs: 300_000,
  interruptMs: 7 * 86_400_000,
  retainMs: 30 * 86_400_000
}
