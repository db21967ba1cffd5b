import type { Violation } from './json-schema.ts'
import { type CapabilityContract, type ExecutionRequirements, type ExecutionSite, readContract, readRequirements } from './objects.ts'
import { covers, isOutside } from './regions.ts'
import { timestampMs } from './timestamp.ts'
import { isAtMost, type RefusalCause } from './vocabulary.ts'

/** Whether the same request may be sent again without having its effect twice (ECC-14, ECC-18), and why. */
export interface ReplaySafety {
  replaySafe: boolean
  reason: 'NO_SIDE_EFFECTS' | 'KEYED' | 'NO_KEY' | 'KEYS_UNSUPPORTED'
}

export type Match =
  | ({ outcome: 'accepted'; site: ExecutionSite } & ReplaySafety)
  /** `cause` names the first constraint that does not hold, `field` the member of the requirements that states it */
  | { outcome: 'refused'; cause: RefusalCause; field: string }
  | { outcome: 'malformed'; object: 'contract' | 'requirements'; violations: Violation[] }

/**
 * Whether work under these requirements may be done under this contract: a function of its arguments alone (ECC-16). Both values may be anything;
 * `accepted` is said only where each holds to its schema and every constraint is met.
 * `contractDigest` is that of `contract`, as its owner published it.
 */
export function matchRequirements(input: { contract: unknown; contractDigest: string; requirements: unknown; nowMs: number }): Match {
  const requirements = readRequirements(input.requirements)
  if (!requirements.ok) return { outcome: 'malformed', object: 'requirements', violations: requirements.violations }
  const contract = readContract(input.contract)
  if (!contract.ok) return { outcome: 'malformed', object: 'contract', violations: contract.violations }
  return matchChecked(contract.value, input.contractDigest, requirements.value, input.nowMs)
}

function matchChecked(contract: CapabilityContract, digest: string, wanted: ExecutionRequirements, nowMs: number): Match {
  const refused = (cause: RefusalCause, field: keyof ExecutionRequirements | ''): Match => ({ outcome: 'refused', cause, field })
  if (isExpired(contract, nowMs)) return refused('CONTRACT_EXPIRED', '')
  if (wanted.contractDigest !== undefined && wanted.contractDigest !== digest) return refused('CONTRACT_CHANGED', 'contractDigest')
  if (!contract.dataClassifications.includes(wanted.dataClassification)) return refused('CLASSIFICATION_NOT_ACCEPTED', 'dataClassification')
  const { allowedSites, allowedRegions, deniedRegions = [] } = wanted
  const sites = contract.sites.filter(({ kind }) => allowedSites === undefined || allowedSites.includes(kind))
  if (sites.length === 0) return refused('SITE_NOT_ALLOWED', 'allowedSites')
  const places = sites.flatMap(({ siteId, kind, regions }) => regions.map((region) => ({ siteId, kind, region })))
  const allowed = places.filter(({ region }) => allowedRegions === undefined || allowedRegions.some((one) => covers(one, region)))
  const [site] = allowed.filter(({ region }) => deniedRegions.every((one) => isOutside(region, one)))
  if (site === undefined) return refused('REGION_NOT_ALLOWED', allowed.length === 0 ? 'allowedRegions' : 'deniedRegions')
  if (!contract.network.modes.includes(wanted.networkMode ?? 'online')) return refused('NETWORK_MODE_UNSUPPORTED', 'networkMode')
  if (wanted.maxLatencyMs !== undefined && contract.latency.maxMs > wanted.maxLatencyMs) return refused('LATENCY_EXCEEDED', 'maxLatencyMs')
  if (!isAtMost(contract.sideEffects.class, wanted.maxSideEffect ?? 'none')) return refused('SIDE_EFFECT_NOT_PERMITTED', 'maxSideEffect')
  const safety = replaySafety(contract, wanted)
  if (safety.reason === 'KEYS_UNSUPPORTED') return refused('IDEMPOTENCY_UNSUPPORTED', 'idempotencyKey')
  const offers = (offered: readonly string[], required: readonly string[] = []) => required.every((one) => offered.includes(one))
  if (!offers(contract.verification, wanted.requiredVerification)) return refused('VERIFICATION_UNSUPPORTED', 'requiredVerification')
  if (!offers(contract.attestation, wanted.requiredAttestation)) return refused('ATTESTATION_UNSUPPORTED', 'requiredAttestation')
  return { outcome: 'accepted', site, ...safety }
}

export function isExpired({ notAfter }: CapabilityContract, nowMs: number): boolean {
  return notAfter !== undefined && (timestampMs(notAfter) ?? 0) <= nowMs
}

/** Side effects repeat safely only where the caller gave a key and the contract declares that it heeds keys (ECC-14). */
export function replaySafety(
  { sideEffects }: CapabilityContract,
  { idempotencyKey }: Pick<ExecutionRequirements, 'idempotencyKey'>
): ReplaySafety {
  if (sideEffects.class === 'none') return { replaySafe: true, reason: 'NO_SIDE_EFFECTS' }
  if (idempotencyKey === undefined) return { replaySafe: false, reason: 'NO_KEY' }
  return sideEffects.idempotency === 'keyed' ? { replaySafe: true, reason: 'KEYED' } : { replaySafe: false, reason: 'KEYS_UNSUPPORTED' }
}
