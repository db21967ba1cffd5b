/** How long a challenge waits for a rebuttal (protocol/README.md §8); the deadline is fixed when it begins. */
export const ESCROW_MS = 3_600_000

/** What can clear a charge: the owner had done with the identity before. */
export const REBUTTAL_KINDS = ['rotation', 'tombstone'] as const
export type RebuttalKind = (typeof REBUTTAL_KINDS)[number]

/** Where the two-phase slashing of one identity stands. `firstSeenMs`: when the verifier first saw any of the items that it is charged with. */
export type EscrowState =
  | { readonly phase: 'nominal' }
  | { readonly phase: 'challenged'; readonly sinceMs: number; readonly deadlineMs: number; readonly firstSeenMs: number }
  | { readonly phase: 'slashed'; readonly sinceMs: number; readonly atMs: number }

export type EscrowInput =
  /** evidence that has been verified; `firstSeenMs`: when the verifier first saw the earlier of its two items */
  | { readonly kind: 'challenge'; readonly nowMs: number; readonly firstSeenMs: number }
  /** a verified rotation certificate or locator tombstone of the target; `heldSinceMs`: since when the verifier itself holds it */
  | { readonly kind: 'rebuttal'; readonly rebuttal: RebuttalKind; readonly nowMs: number; readonly heldSinceMs: number }
  | { readonly kind: 'tick'; readonly nowMs: number }

export interface EscrowStep {
  readonly state: EscrowState
  /** what came of the input: `rebutted` led back to NOMINAL; `slashed` is told to the ledger, once; `too-late`: a rebuttal that proves nothing */
  readonly outcome: 'challenged' | 'rebutted' | 'slashed' | 'too-late' | 'unchanged'
}

export const NOMINAL: EscrowState = { phase: 'nominal' }

/**
 * NOMINAL → CHALLENGED → SLASHED, the last for good. A rebuttal leads back to NOMINAL only where the verifier held it before it first saw any of the
 * items: its own date proves nothing. A further challenge moves no deadline. At the deadline itself the escrow is over, and a rebuttal that comes
 * with it is too late. Pure: the same arguments give the same step.
 */
export function stepEscrow(state: EscrowState, input: EscrowInput): EscrowStep {
  switch (state.phase) {
    case 'slashed':
      return { state, outcome: input.kind === 'rebuttal' ? 'too-late' : 'unchanged' }
    case 'nominal': {
      if (input.kind !== 'challenge') return { state, outcome: 'unchanged' }
      const { nowMs, firstSeenMs } = input
      return { state: { phase: 'challenged', sinceMs: nowMs, deadlineMs: nowMs + ESCROW_MS, firstSeenMs }, outcome: 'challenged' }
    }
    case 'challenged': {
      if (input.nowMs >= state.deadlineMs)
        return { state: { phase: 'slashed', sinceMs: state.sinceMs, atMs: input.nowMs }, outcome: 'slashed' }
      if (input.kind === 'rebuttal') {
        return input.heldSinceMs < state.firstSeenMs ? { state: NOMINAL, outcome: 'rebutted' } : { state, outcome: 'too-late' }
      }
      if (input.kind === 'challenge' && input.firstSeenMs < state.firstSeenMs) {
        return { state: { ...state, firstSeenMs: input.firstSeenMs }, outcome: 'unchanged' }
      }
      return { state, outcome: 'unchanged' }
    }
  }
}
