import { canonicalJson } from '../canonical-json.ts'
import { digestOf, resultDigest, type Sha256, sha256Plain } from './digests.ts'
import type { Violation } from './json-schema.ts'
import { replaySafety } from './match.ts'
import {
  type CapabilityContract,
  type ExecutionReceipt,
  type ExecutionRequirements,
  type ExecutionSite,
  readContract,
  readReceipt,
  readRequirements
} from './objects.ts'
import { covers, isOutside } from './regions.ts'
import { timestampText } from './timestamp.ts'
import { isAtMost, RESULT_DIGEST_METHOD, SIGNED_RECEIPT_METHOD, type VerifierStatus } from './vocabulary.ts'

/** The result of a request: the artifacts of its task, or the message that answered it. */
export type ExecutionResult = { artifacts: readonly unknown[] } | { message: unknown }

export interface Execution {
  contract: CapabilityContract
  contractDigest: string
  /** absent: the extension was activated without any (G-64) */
  requirements?: ExecutionRequirements | undefined
  site: ExecutionSite
}

/**
 * The statement about one execution that ended, unsigned. The latency is the measured one: above what was required, or without a requirement above what
 * the contract declares, the status is `failed` (G-67).
 */
export function receiptOf(
  { contract, contractDigest, requirements, site }: Execution,
  run: { receiptId: string; taskId: string; messageId: string; startedAtMs: number; finishedAtMs: number; result: ExecutionResult },
  sha256: Sha256 = sha256Plain
): ExecutionReceipt {
  const latencyMs = Math.max(0, run.finishedAtMs - run.startedAtMs)
  const verification = (requirements?.requiredVerification ?? [RESULT_DIGEST_METHOD]).map((method) => ({
    method,
    status: method === RESULT_DIGEST_METHOD ? ('passed' as const) : ('unavailable' as const)
  }))
  const late = latencyMs > (requirements?.maxLatencyMs ?? contract.latency.maxMs)
  return {
    version: '1.0',
    receiptId: run.receiptId,
    taskId: run.taskId,
    messageId: run.messageId,
    site: { ...site },
    contractDigest,
    ...(requirements === undefined ? {} : { requirementsDigest: digestOf(requirements, sha256) }),
    resultDigest: resultDigest(run.result, sha256),
    startedAt: timestampText(run.startedAtMs),
    finishedAt: timestampText(run.startedAtMs + latencyMs),
    latencyMs,
    networkMode: requirements === undefined ? (contract.network.modes[0] ?? 'online') : (requirements.networkMode ?? 'online'),
    sideEffects: { class: contract.sideEffects.class, replaySafe: replaySafety(contract, requirements ?? {}).replaySafe },
    verifierStatus: late ? 'failed' : worst(verification),
    verification
  }
}

function worst(verification: readonly { status: VerifierStatus }[]): VerifierStatus {
  const has = (status: VerifierStatus) => verification.some((one) => one.status === status)
  return has('failed') ? 'failed' : has('unavailable') ? 'unavailable' : 'passed'
}

/** What the signature of `signed-receipt-ed25519` is over: the RFC 8785 text of the receipt without its attestation. */
export function receiptText({ attestation: _, ...receipt }: ExecutionReceipt): string {
  return canonicalJson(receipt)
}

export type ReceiptFault =
  | 'CONTRACT_INVALID'
  | 'REQUIREMENTS_INVALID'
  | 'RECEIPT_INVALID'
  | 'CONTRACT_CHANGED'
  | 'REQUIREMENTS_CHANGED'
  | 'RESULT_CHANGED'
  | 'OTHER_REQUEST'
  | 'SITE_NOT_ALLOWED'
  | 'REGION_NOT_ALLOWED'
  | 'NETWORK_MODE'
  | 'LATENCY_EXCEEDED'
  | 'SIDE_EFFECT_NOT_PERMITTED'
  | 'VERIFICATION_FAILED'
  | 'ATTESTATION_MISSING'
  | 'ATTESTATION_INVALID'

export type ReceiptVerdict =
  | { outcome: 'verified'; receipt: ExecutionReceipt }
  | { outcome: 'refused'; fault: ReceiptFault; field: string; violations?: Violation[] }

/**
 * Whether a receipt is about this request, this contract and this very result, and says that the requirements were met. Every value may be anything.
 * `verify` tells whether the agent that was asked signed the text; needed only where `signed-receipt-ed25519` is required, or came.
 */
export function verifyExecution(
  input: {
    contract: unknown
    requirements: unknown
    receipt: unknown
    result: ExecutionResult
    messageId: string
    taskId?: string
    verify?: (attestation: { protected: string; signature: string }, text: string) => boolean
  },
  sha256: Sha256 = sha256Plain
): ReceiptVerdict {
  const refused = (fault: ReceiptFault, field: string, violations?: Violation[]): ReceiptVerdict => ({
    outcome: 'refused',
    fault,
    field,
    ...(violations === undefined ? {} : { violations })
  })
  const contract = readContract(input.contract)
  if (!contract.ok) return refused('CONTRACT_INVALID', '', contract.violations)
  const requirements = readRequirements(input.requirements)
  if (!requirements.ok) return refused('REQUIREMENTS_INVALID', '', requirements.violations)
  const receipt = readReceipt(input.receipt)
  if (!receipt.ok) return refused('RECEIPT_INVALID', '', receipt.violations)
  const [said, wanted] = [receipt.value, requirements.value]
  if (said.contractDigest !== digestOf(contract.value, sha256)) return refused('CONTRACT_CHANGED', 'contractDigest')
  if (said.requirementsDigest !== digestOf(wanted, sha256)) return refused('REQUIREMENTS_CHANGED', 'requirementsDigest')
  // A request with a key may have been answered by what an earlier one of the same key made.
  if (said.messageId !== input.messageId && wanted.idempotencyKey === undefined) return refused('OTHER_REQUEST', 'messageId')
  if (input.taskId !== undefined && said.taskId !== input.taskId) return refused('OTHER_REQUEST', 'taskId')
  if (said.resultDigest !== digestOfResult(input.result, sha256)) return refused('RESULT_CHANGED', 'resultDigest')
  const unmet = unmetBy(said, wanted, contract.value)
  if (unmet !== undefined) return refused(...unmet)
  const { attestation } = said
  if ((wanted.requiredAttestation ?? []).some((method) => attestation?.method !== method))
    return refused('ATTESTATION_MISSING', 'attestation')
  if (
    attestation !== undefined &&
    (attestation.method !== SIGNED_RECEIPT_METHOD || input.verify?.(attestation, receiptText(said)) !== true)
  ) {
    return refused('ATTESTATION_INVALID', 'attestation')
  }
  return { outcome: 'verified', receipt: said }
}

/** A result that has no canonical form has no digest that could be the one in a receipt. */
function digestOfResult(result: ExecutionResult, sha256: Sha256): string | undefined {
  try {
    return resultDigest(result, sha256)
  } catch {
    return undefined
  }
}

function unmetBy(said: ExecutionReceipt, wanted: ExecutionRequirements, contract: CapabilityContract): [ReceiptFault, string] | undefined {
  const { site } = said
  const declared = contract.sites.some(
    ({ siteId, kind, regions }) => siteId === site.siteId && kind === site.kind && regions.includes(site.region)
  )
  if (!declared || !(wanted.allowedSites ?? [site.kind]).includes(site.kind)) return ['SITE_NOT_ALLOWED', 'site']
  const { allowedRegions, deniedRegions = [] } = wanted
  const isAllowed = allowedRegions === undefined || allowedRegions.some((one) => covers(one, site.region))
  if (!isAllowed || !deniedRegions.every((one) => isOutside(site.region, one))) return ['REGION_NOT_ALLOWED', 'site.region']
  if (said.networkMode !== (wanted.networkMode ?? 'online')) return ['NETWORK_MODE', 'networkMode']
  if (wanted.maxLatencyMs !== undefined && said.latencyMs > wanted.maxLatencyMs) return ['LATENCY_EXCEEDED', 'latencyMs']
  if (!isAtMost(said.sideEffects.class, wanted.maxSideEffect ?? 'none')) return ['SIDE_EFFECT_NOT_PERMITTED', 'sideEffects.class']
  const passed = (method: string) => said.verification.some((one) => one.method === method && one.status === 'passed')
  if (!(wanted.requiredVerification ?? []).every(passed)) return ['VERIFICATION_FAILED', 'verification']
  return said.verifierStatus === 'passed' ? undefined : ['VERIFICATION_FAILED', 'verifierStatus']
}
