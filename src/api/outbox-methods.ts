import { z } from 'zod'
import type { OutboxBounds } from '../delivery/outbox.ts'

const id = z.string().regex(/^[0-9a-f]{4,16}$/, 'must be the id of a message in the outbox, or its beginning: 4 to 16 hex digits')

/** Control methods over messages that our agents undertook to deliver (protocol/README.md §7). */
export const OUTBOX_PARAMS = {
  'outbox.list': z.strictObject({ agent: z.string().min(1).max(64).optional(), open: z.boolean().optional() }),
  'outbox.show': z.strictObject({ id }),
  /** one, or with `all` whatever waits: tried now; answers when the attempts have ended */
  'outbox.retry': z.strictObject({ id: id.optional(), all: z.literal(true).optional() }),
  'outbox.drop': z.strictObject({ id }),
  /** every change of a state, as an event, until the caller goes */
  'outbox.watch': z.strictObject({ agent: z.string().min(1).max(64).optional() })
} as const

export interface OutboxView {
  id: string
  messageId: string
  /** name of the local agent */
  agent: string
  /** DID */
  to: string
  bytes: number
  /** `queued-here`, `kept-by-<n>`, `delivered`, `handled`, `expired`, `refused(<REASON>)` */
  state: string
  acceptedAtMs: number
  changedAtMs: number
  expiresAtMs: number
  /** DIDs of those that signed that they hold it */
  keepers: string[]
  /** the task that it became there */
  task?: string
  attempts: number
  nextAttemptAtMs?: number
  /** why it is not delivered yet */
  lastError?: string
}

/** With the signed words themselves, in hex. */
export interface OutboxDetails extends OutboxView {
  receipts: { keeper: string; receiptHex: string }[]
  confirmationHex?: string
}

export interface OutboxResults {
  'outbox.list': { messages: OutboxView[]; waiting: number; bytes: number; damaged: number; bounds: OutboxBounds }
  'outbox.show': OutboxDetails
  'outbox.retry': { messages: OutboxView[] }
  'outbox.drop': { dropped: string }
  'outbox.watch': { events: number; missed: number }
}
