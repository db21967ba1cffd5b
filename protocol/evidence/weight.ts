/** A proof weighs half after this. */
export const PROOF_HALF_LIFE_MS = 30 * 86_400_000
/** So long without a new proof, and an identity that was never slashed counts as rehabilitated. */
export const REHABILITATION_MS = 7 * 86_400_000
/** This many fresh proofs make the full score. */
const PROOFS_FULL = 5

/**
 * How heavily proofs weigh in a local reputation, 0 to 1: min(1, count / 5), each proof halved every 30 days and nothing left after 7 days without
 * a new one. Never a reason to lift a blacklist: SLASHED is terminal.
 * @param provenAtMs - when this node verified each proof
 */
export function proofScore(provenAtMs: readonly number[], nowMs: number): number {
  const last = Math.max(...provenAtMs, Number.NEGATIVE_INFINITY)
  if (nowMs - last >= REHABILITATION_MS) return 0
  const weight = provenAtMs.reduce((sum, atMs) => sum + 0.5 ** (Math.max(0, nowMs - atMs) / PROOF_HALF_LIFE_MS), 0)
  return Math.min(1, weight / PROOFS_FULL)
}
