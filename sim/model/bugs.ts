import type { InvariantName } from '../scenario/definition.ts'

/** Deliberate faults of the model, one for each invariant: what shows that an invariant would notice. */
export const BUGS = {
  'forgets-acked': 'acked-kept',
  'hands-over-twice': 'notified-once',
  'hashes-badly': 'hashes-agree',
  'serves-expired': 'no-expired-record',
  'state-at-init': 'cookie-before-state',
  'queue-without-bound': 'queue-bounds',
  'loses-joins': 'honest-found',
  'suspects-repeats': 'no-honest-blacklisted',
  'never-forgets': 'idle-memory-flat'
} as const satisfies Record<string, InvariantName>

export type Bug = keyof typeof BUGS
