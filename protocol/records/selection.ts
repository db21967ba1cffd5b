import { equals } from '../bytes.ts'
import type { RecordPayload, SignedRecord } from './envelope.ts'

/**
 * Who keeps a key when a second valid record comes for it, and why. `equivocation`: one signer made two records with one number; the held
 * one stays and both are evidence (protocol/README.md §3, §8).
 */
export interface Selection {
  readonly winner: 'held' | 'offered'
  readonly reason: 'same' | 'newer' | 'older' | 'gone' | 'other-curator' | 'handed-over' | 'equivocation'
}

export const SAME: Selection = { winner: 'held', reason: 'same' }

/** By number alone; at an equal number the held record stays. `equal` says what two different records with one number mean. */
export function byNumber(
  held: { number: number; bytes: Uint8Array },
  offered: { number: number; bytes: Uint8Array },
  equal: 'equivocation' | 'older'
): Selection {
  if (equals(held.bytes, offered.bytes)) return SAME
  if (offered.number > held.number) return { winner: 'offered', reason: 'newer' }
  if (offered.number < held.number) return { winner: 'held', reason: 'older' }
  return { winner: 'held', reason: equal }
}

/**
 * For what an EID says of itself: `gone` for good, then the higher generation; two records of one generation are equivocation, and the held one stays.
 */
export function byGeneration<P extends RecordPayload & { readonly gen: number }>(
  held: SignedRecord<string, P>,
  offered: SignedRecord<string, P>
): Selection {
  const numbered = (record: SignedRecord<string, P>) => ({ number: record.payload.gen, bytes: record.payloadBytes })
  const byGen = byNumber(numbered(held), numbered(offered), 'equivocation')
  if (byGen.reason === 'equivocation' || held.payload.gone === offered.payload.gone) return byGen
  return { winner: offered.payload.gone === true ? 'offered' : 'held', reason: 'gone' }
}
