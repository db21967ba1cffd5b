import type { EidHex } from '../../protocol/identity/eid.ts'
import type { GrantVerb } from './principal.ts'

/** How fast tasks may be made with a grant. */
export interface SendLimits {
  /** at once, after a pause */
  burst: number
  /** and then */
  perMin: number
}

/** A grant as it is stored; the credential itself is not. */
export interface GrantRow {
  /** 16 hex digits */
  id: string
  /** the agent's first EID */
  agent: EidHex
  /** the owner's word for it */
  name: string
  /** the EID that its holder was first known by here; absent: whoever shows the credential */
  peer?: EidHex
  verbs: GrantVerb[]
  /** queues of the agent that work goes into, the first where none is named; absent: any */
  queues?: string[]
  /** SHA-256 of the credential, hex; absent: it is used over sessions alone */
  hash?: string
  /** in place of the node's own; what is absent follows those */
  limits?: Partial<SendLimits>
  /** who brought it about: the owner by hand, or a friend request that the owner approved */
  origin: 'owner' | 'friend'
  createdAtMs: number
  expiresAtMs: number
  revokedAtMs?: number
}

export type GrantState = 'in-force' | 'expired' | 'revoked'

export interface GrantEvent {
  kind: 'created' | 'tuned' | 'revoked' | 'expired'
  grant: GrantRow
}

export const GRANT_QUEUES_MAX = 16
/** As a Todo's queue is named. */
export const QUEUE_NAME = /^[A-Za-z0-9._-]{1,64}$/
/** Printable, and short enough for a column. */
export const GRANT_NAME = /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,64}$/u
export const GRANT_TTL_DEFAULT_MS = 90 * 86_400_000
export const GRANT_TTL_MAX_MS = 366 * 86_400_000
/** TD-Q1. */
export const SEND_BURST_DEFAULT = 20
export const SEND_PER_MIN_DEFAULT = 10
export const BURST_MAX = 10_000
export const PER_MIN_MAX = 60_000
