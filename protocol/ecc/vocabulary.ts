/** Where an agent executes (G-65). */
export const SITE_KINDS = ['device', 'edge', 'cloud'] as const
export type SiteKind = (typeof SITE_KINDS)[number]

/** No order is implied: a contract names each one that it takes. */
export const DATA_CLASSIFICATIONS = ['public', 'internal', 'confidential', 'restricted'] as const
export type DataClassification = (typeof DATA_CLASSIFICATIONS)[number]

/** How the executing site may be connected while the work is done (G-65). */
export const NETWORK_MODES = ['online', 'weak', 'offline'] as const
export type NetworkMode = (typeof NETWORK_MODES)[number]

/**
 * What repeating or undoing the work would mean, the mildest first; one enumeration for contracts, approval and tool annotations (G-72). What is not
 * declared counts as `consequential` (G-19).
 */
export const SIDE_EFFECTS = ['none', 'idempotent', 'reversible', 'consequential'] as const
export type SideEffects = (typeof SIDE_EFFECTS)[number]

export function isAtMost(actual: SideEffects, allowed: SideEffects): boolean {
  return SIDE_EFFECTS.indexOf(actual) <= SIDE_EFFECTS.indexOf(allowed)
}

/** The digest of the result in the receipt is that of the result that came (protocol/ecc/digests.ts). */
export const RESULT_DIGEST_METHOD = 'result-digest-sha256'
/** The receipt carries a JWS by the agent's own key. */
export const SIGNED_RECEIPT_METHOD = 'signed-receipt-ed25519'

export const VERIFIER_STATUSES = ['passed', 'failed', 'unavailable'] as const
export type VerifierStatus = (typeof VERIFIER_STATUSES)[number]

/** The constraint that was not met, by name; the first one in the order of the match (docs/edge-cloud-contract.md). */
export const REFUSAL_CAUSES = [
  'CONTRACT_EXPIRED',
  'CONTRACT_CHANGED',
  'CLASSIFICATION_NOT_ACCEPTED',
  'SITE_NOT_ALLOWED',
  'REGION_NOT_ALLOWED',
  'NETWORK_MODE_UNSUPPORTED',
  'LATENCY_EXCEEDED',
  'SIDE_EFFECT_NOT_PERMITTED',
  'IDEMPOTENCY_UNSUPPORTED',
  'VERIFICATION_UNSUPPORTED',
  'ATTESTATION_UNSUPPORTED',
  'IDEMPOTENCY_CONFLICT',
  'REQUIREMENTS_MALFORMED'
] as const
export type RefusalCause = (typeof REFUSAL_CAUSES)[number]
