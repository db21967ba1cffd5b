import { z } from 'zod'
import {
  BURST_MAX,
  GRANT_NAME,
  GRANT_QUEUES_MAX,
  GRANT_TTL_MAX_MS,
  type GrantState,
  PER_MIN_MAX,
  QUEUE_NAME,
  type SendLimits
} from '../grants/grant.ts'
import { GRANT_VERBS, type GrantVerb } from '../grants/principal.ts'
import type { SendLimitCounts } from '../grants/send-buckets.ts'

const agent = z.string().min(1).max(64).optional()
const id = z.string().regex(/^[0-9a-f]{4,16}$/, 'must be the id of a grant, or its beginning: 4 to 16 hex digits')
const burst = z.int().min(1).max(BURST_MAX)
const perMin = z.int().min(1).max(PER_MIN_MAX)

/** Control methods over vended endpoints (protocol/README.md §9, Grants). */
export const GRANT_PARAMS = {
  /** the credential is in this one answer and nowhere else */
  'grant.create': z.strictObject({
    agent,
    /** the owner's word for its holder */
    name: z.string().regex(GRANT_NAME, 'must be 1 to 64 printable characters'),
    /** did:key of the holder: it may use the grant over sessions too, as itself */
    for: z.string().min(1).max(80).optional(),
    verbs: z.array(z.enum(GRANT_VERBS)).min(1).max(GRANT_VERBS.length).optional(),
    /** named queues of the agent that work goes into, the first where none is named */
    queues: z
      .array(z.string().regex(QUEUE_NAME, 'must be 1 to 64 characters of A-Z a-z 0-9 . _ -'))
      .min(1)
      .max(GRANT_QUEUES_MAX)
      .optional(),
    ttlMs: z.int().min(1_000).max(GRANT_TTL_MAX_MS).optional(),
    burst: burst.optional(),
    perMin: perMin.optional(),
    /** the grant that its holder has is revoked in the same write */
    replace: z.literal(true).optional()
  }),
  'grant.list': z.strictObject({ agent, all: z.literal(true).optional() }),
  'grant.show': z.strictObject({ id }),
  'grant.revoke': z.strictObject({ id }),
  /** what is left out follows the node's setting again */
  'grant.tune': z.strictObject({ id, burst: burst.optional(), perMin: perMin.optional() })
} as const

export interface GrantView {
  id: string
  name: string
  /** name of the local agent */
  agent: string
  state: GrantState
  verbs: GrantVerb[]
  queues?: string[]
  /** DID of the holder, where it is bound to one */
  for?: string
  /** whether it works as a bearer credential over HTTP too */
  bearer: boolean
  /** in force for it now */
  limits: SendLimits
  /** set for this one grant */
  ownLimits: Partial<SendLimits>
  origin: 'owner' | 'friend'
  createdAtMs: number
  expiresAtMs: number
  revokedAtMs?: number
}

export interface GrantResults {
  'grant.create': GrantView & { credential: string; url?: string }
  'grant.list': {
    grants: GrantView[]
    inForce: number
    max: number
    limits: SendLimits
    counts: SendLimitCounts & { withoutGrant: number }
  }
  'grant.show': GrantView
  'grant.revoke': GrantView
  'grant.tune': GrantView
}
