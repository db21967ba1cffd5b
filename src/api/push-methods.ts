import { z } from 'zod'

/** Control methods over webhooks of callers (protocol/README.md §9, Push notifications). */
export const PUSH_PARAMS = {
  'push.list': z.strictObject({ state: z.enum(['active', 'done', 'given-up']).optional() }),
  /** tried now, as if it had not failed */
  'push.retry': z.strictObject({ task: z.string().min(1).max(128), id: z.string().min(1).max(64) })
} as const

/** A webhook without its secrets. */
export interface PushConfigView {
  id: string
  task: string
  owner: string
  /** name of the local agent */
  agent: string
  url: string
  state: 'active' | 'done' | 'given-up'
  /** number of the newest event that it was told */
  told: number
  /** tries of the event that is due */
  attempts: number
  nextAttemptAtMs?: number
  lastError?: string
}

export interface PushResults {
  'push.list': { configs: PushConfigView[]; enabled: boolean; delivered: number; failed: number; givenUp: number }
  'push.retry': { task: string; id: string }
}
