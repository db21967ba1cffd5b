import { z } from 'zod'
import type { Violation } from '../../protocol/ecc/json-schema.ts'
import { type CapabilityContract, readContract, readRequirements } from '../../protocol/ecc/objects.ts'
import type { ExecutionPolicy } from '../../protocol/ecc/tighten.ts'
import { RESULT_DIGEST_METHOD, SIGNED_RECEIPT_METHOD } from '../../protocol/ecc/vocabulary.ts'

/** What a node itself can check and attest; a contract of ours promises nothing else. */
const METHODS = { verification: RESULT_DIGEST_METHOD, attestation: SIGNED_RECEIPT_METHOD } as const

/** A capability contract as docs/edge-cloud-contract.md defines it; what is missing or wrong is named by its place (ECC-03). */
export const executionContract = z.record(z.string(), z.unknown()).transform((value, context): CapabilityContract => {
  const read = readContract(value)
  const violations = read.ok ? unkeptPromises(read.value) : read.violations
  if (read.ok && violations.length === 0) return read.value
  tell(violations, context)
  return z.NEVER
})

/** What every request of our agents must demand at least (ECC-11). */
export const executionPolicy = z.record(z.string(), z.unknown()).transform((value, context): ExecutionPolicy => {
  const { version: _, dataClassification: __, contractDigest, idempotencyKey, networkMode, ...policy } = value
  const own = { contractDigest, idempotencyKey, networkMode }
  const [alien] = Object.entries(own).filter(([, one]) => one !== undefined)
  const read = readRequirements({ ...policy, version: '1.0', dataClassification: 'public' })
  if (read.ok && alien === undefined) return policy as ExecutionPolicy
  tell(read.ok ? [{ field: alien?.[0] ?? '', problem: 'is for single requests, and no policy' }] : read.violations, context)
  return z.NEVER
})

function unkeptPromises(contract: CapabilityContract): Violation[] {
  return (Object.keys(METHODS) as (keyof typeof METHODS)[]).flatMap((list) =>
    contract[list].flatMap((method, i) =>
      method === METHODS[list] ? [] : [{ field: `${list}[${i}]`, problem: `is nothing that this node can do; it can do ${METHODS[list]}` }]
    )
  )
}

function tell(violations: readonly Violation[], context: z.core.$RefinementCtx): void {
  for (const { field, problem } of violations) {
    const path = [...field.matchAll(/[^.[\]]+/g)].map(([step]) => (/^\d+$/.test(step) ? Number(step) : step))
    context.addIssue({ code: 'custom', path, message: problem })
  }
}
