import type { ConfigInput } from '../../src/config/schema.ts'
import type { Fault } from '../support/faulty-level.ts'

export const ROLES = ['sender', 'keeper', 'sleeper'] as const
export type Role = (typeof ROLES)[number]

/** What a node is started with, as JSON in its first argument. */
export interface MailNodeOrder {
  role: Role
  /** a data directory with one agent, named as its role */
  directory: string
  config: ConfigInput
  /** DID of the sleeper, whom the sender writes to */
  to: string
  /** the clock of this machine is off by so much, ms */
  clockMs: number
  fault?: Fault
}

/** To a node. */
export type MailOrder =
  /** messages `first` to `first + count - 1`, one after another */
  | { kind: 'post'; first: number; count: number }
  | { kind: 'fault'; fault: Fault }
  /** every write fails, or none does */
  | { kind: 'disk'; state: 'full' | 'roomy' }
  | { kind: 'clock'; ms: number }
  | { kind: 'agent'; state: 'asleep' | 'awake' }
  /** the clock is right again, and the owner says so */
  | { kind: 'mend'; id: number }
  /** what can be done now is done now: attempts of the sender, the sleeper's look at its keepers */
  | { kind: 'push'; id: number }
  | { kind: 'view'; id: number }

export interface MailView {
  /** the sender's outbox, in order */
  outbox: { messageId: string; state: string; keepers: number }[]
  /** the sleeper's tasks, in order of creation */
  tasks: { messageId: string; state: string; createdAtMs: number }[]
  queued: number
  /** names of what the keeper holds */
  held: number
}

/** From a node. */
export type MailReport =
  | { kind: 'up'; address: string }
  /** on disk, as the product promised */
  | { kind: 'accepted'; k: number }
  | { kind: 'failed'; k: number; code: string }
  /** the outbox told a listener */
  | { kind: 'told'; messageId: string; state: string }
  | { kind: 'done'; id: number }
  | { kind: 'view'; id: number; view: MailView }

export const messageIdOf = (k: number) => `m-${String(k).padStart(7, '0')}`
