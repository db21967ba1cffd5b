import { canonicalJson } from '../canonical-json.ts'
import { type JsonSchema, type Violation, violationsOf } from './json-schema.ts'
import {
  CAPABILITY_CONTRACT_SCHEMA,
  EXECUTION_RECEIPT_SCHEMA,
  EXECUTION_REJECTION_SCHEMA,
  EXECUTION_REQUIREMENTS_SCHEMA
} from './schemas.ts'
import { timestampMs } from './timestamp.ts'
import type { DataClassification, NetworkMode, RefusalCause, SideEffects, SiteKind, VerifierStatus } from './vocabulary.ts'

/** No object of the contract is longer than this, as RFC 8785 text. */
export const ECC_OBJECT_BYTES_MAX = 16_384

/** `AgentExtension.params` of the card (ECC-03). */
export interface CapabilityContract {
  version: '1.0'
  /** stable over changes of the contract */
  contractId: string
  /** from then on nothing is accepted under it */
  notAfter?: string
  sites: ContractSite[]
  /** the accepted set */
  dataClassifications: DataClassification[]
  /** from the arrival of a request to the end of its task */
  latency: { typicalMs: number; maxMs: number }
  /** how long a site may work on while it is cut off; 0 where it is always online */
  network: { modes: NetworkMode[]; maxOfflineSeconds: number }
  /** `keyed`: a request with a key is executed once, however often it comes within the time */
  sideEffects: { class: SideEffects; idempotency: 'none' | 'keyed'; idempotencyTtlSeconds?: number }
  verification: string[]
  attestation: string[]
}

export interface ContractSite {
  siteId: string
  kind: SiteKind
  /** each a place where it may execute */
  regions: string[]
}

/** `Message.metadata[URI]` of the request (ECC-04). What is absent demands nothing, but for `networkMode` (online) and `maxSideEffect` (none). */
export interface ExecutionRequirements {
  version: '1.0'
  contractDigest?: string
  allowedSites?: SiteKind[]
  allowedRegions?: string[]
  deniedRegions?: string[]
  dataClassification: DataClassification
  maxLatencyMs?: number
  networkMode?: NetworkMode
  maxSideEffect?: SideEffects
  idempotencyKey?: string
  requiredVerification?: string[]
  requiredAttestation?: string[]
}

/** A place that a request was matched to. */
export interface ExecutionSite {
  siteId: string
  kind: SiteKind
  region: string
}

/** `metadata[URI]` of the first artifact, or of the answering message (ECC-05). */
export interface ExecutionReceipt {
  version: '1.0'
  receiptId: string
  taskId: string
  /** of the request */
  messageId: string
  site: ExecutionSite
  contractDigest: string
  /** absent: the request carried no requirements (G-64) */
  requirementsDigest?: string
  resultDigest: string
  /** when the request arrived */
  startedAt: string
  finishedAt: string
  /** the difference of the two: measured, not declared (G-67) */
  latencyMs: number
  networkMode: NetworkMode
  sideEffects: { class: SideEffects; replaySafe: boolean }
  /** `failed` where a required method failed or the latency ran over (G-67) */
  verifierStatus: VerifierStatus
  /** one entry for each required method */
  verification: { method: string; status: VerifierStatus }[]
  /** a detached JWS over the RFC 8785 text of the receipt without this member */
  attestation?: { method: string; protected: string; signature: string }
}

/** `status.message.metadata[URI]` of a task that was rejected after it had been made (G-66, G-70). */
export interface ExecutionRejection {
  version: '1.0'
  cause: RefusalCause
  field: string
}

export type Checked<T> = { ok: true; value: T } | { ok: false; violations: Violation[] }

/** Fails closed: whatever is missing, unknown, of another type or form is named, and there is no value then (ECC-26). Never throws. */
export function readContract(value: unknown): Checked<CapabilityContract> {
  return checked<CapabilityContract>(CAPABILITY_CONTRACT_SCHEMA, value, ({ notAfter, latency, network, sideEffects }) => [
    ...(notAfter === undefined ? [] : dateFault('notAfter', notAfter)),
    ...(latency.typicalMs > latency.maxMs ? [{ field: 'latency.typicalMs', problem: 'is above latency.maxMs' }] : []),
    ...(network.modes.some((mode) => mode !== 'online') === network.maxOfflineSeconds > 0
      ? []
      : [{ field: 'network.maxOfflineSeconds', problem: 'must be above 0 exactly where network.modes names weak or offline' }]),
    ...((sideEffects.idempotency === 'keyed') === (sideEffects.idempotencyTtlSeconds !== undefined)
      ? []
      : [{ field: 'sideEffects.idempotencyTtlSeconds', problem: 'must be there exactly where sideEffects.idempotency is keyed' }])
  ])
}

/** As {@link readContract}. */
export function readRequirements(value: unknown): Checked<ExecutionRequirements> {
  return checked<ExecutionRequirements>(EXECUTION_REQUIREMENTS_SCHEMA, value, () => [])
}

/** As {@link readContract}. */
export function readReceipt(value: unknown): Checked<ExecutionReceipt> {
  return checked<ExecutionReceipt>(EXECUTION_RECEIPT_SCHEMA, value, ({ startedAt, finishedAt, latencyMs }) => {
    const [from, to] = [timestampMs(startedAt), timestampMs(finishedAt)]
    if (from === undefined || to === undefined) return [...dateFault('startedAt', startedAt), ...dateFault('finishedAt', finishedAt)]
    return to - from === latencyMs ? [] : [{ field: 'latencyMs', problem: 'is not the time from startedAt to finishedAt' }]
  })
}

/** As {@link readContract}. */
export function readRejection(value: unknown): Checked<ExecutionRejection> {
  return checked<ExecutionRejection>(EXECUTION_REJECTION_SCHEMA, value, () => [])
}

function checked<T>(schema: JsonSchema, value: unknown, rules: (value: T) => Violation[]): Checked<T> {
  const violations = violationsOf(schema, value)
  if (violations.length === 0) violations.push(...rules(value as T))
  if (violations.length === 0) {
    const { length } = new TextEncoder().encode(canonicalJson(value))
    if (length > ECC_OBJECT_BYTES_MAX) violations.push({ field: '', problem: `is longer than ${ECC_OBJECT_BYTES_MAX} bytes` })
  }
  return violations.length === 0 ? { ok: true, value: value as T } : { ok: false, violations }
}

function dateFault(field: string, text: string): Violation[] {
  return timestampMs(text) === undefined ? [{ field, problem: 'is no date of the calendar' }] : []
}
