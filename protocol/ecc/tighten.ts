import type { ExecutionRequirements } from './objects.ts'
import { covers } from './regions.ts'
import { isAtMost, type SideEffects } from './vocabulary.ts'

/** What a caller's own rules demand of every request that it sends (ECC-11); the members mean what they mean in {@link ExecutionRequirements}. */
export type ExecutionPolicy = Omit<
  Partial<ExecutionRequirements>,
  'version' | 'contractDigest' | 'dataClassification' | 'idempotencyKey' | 'networkMode'
>

/**
 * The requirements with a policy on top: no member allows more than it did without.
 * @returns undefined where the two leave nothing that could be allowed
 */
export function tighten(requirements: ExecutionRequirements, policy: ExecutionPolicy): ExecutionRequirements | undefined {
  const allowedSites = both(requirements.allowedSites, policy.allowedSites, (a, b) => (a === b ? a : undefined))
  const allowedRegions = both(requirements.allowedRegions, policy.allowedRegions, (a, b) =>
    covers(a, b) ? b : covers(b, a) ? a : undefined
  )
  if (allowedSites?.length === 0 || allowedRegions?.length === 0) return undefined
  const maxLatencyMs = least(requirements.maxLatencyMs, policy.maxLatencyMs)
  const deniedRegions = union(requirements.deniedRegions, policy.deniedRegions)
  const requiredVerification = union(requirements.requiredVerification, policy.requiredVerification)
  const requiredAttestation = union(requirements.requiredAttestation, policy.requiredAttestation)
  const maxSideEffect = milder(requirements.maxSideEffect ?? 'none', policy.maxSideEffect ?? 'consequential')
  return {
    ...requirements,
    ...(allowedSites === undefined ? {} : { allowedSites }),
    ...(allowedRegions === undefined ? {} : { allowedRegions }),
    ...(deniedRegions === undefined ? {} : { deniedRegions }),
    ...(maxLatencyMs === undefined ? {} : { maxLatencyMs }),
    ...(requirements.maxSideEffect === undefined ? {} : { maxSideEffect }),
    ...(requiredVerification === undefined ? {} : { requiredVerification }),
    ...(requiredAttestation === undefined ? {} : { requiredAttestation })
  }
}

/** The hints of an MCP tool; what is absent has MCP's default: it may destroy, and repeating it may do more. */
export interface ToolAnnotations {
  readOnlyHint?: boolean
  destructiveHint?: boolean
  idempotentHint?: boolean
}

/** The class that a tool's hints claim. They are claims, so they serve to ask for less and never to permit more. */
export function sideEffectsOf({ readOnlyHint, destructiveHint, idempotentHint }: ToolAnnotations): SideEffects {
  if (readOnlyHint === true) return 'none'
  if (destructiveHint !== false) return 'consequential'
  return idempotentHint === true ? 'idempotent' : 'reversible'
}

/** The hints that a class of side effects claims for a tool of ours (G-72). */
export function annotationsOf(sideEffects: SideEffects): Required<ToolAnnotations> {
  return {
    readOnlyHint: sideEffects === 'none',
    destructiveHint: sideEffects === 'consequential',
    idempotentHint: sideEffects === 'none' || sideEffects === 'idempotent'
  }
}

/** Requirements for work that a tool asks for: its hints can only lower the permitted side effects (ECC-23). */
export function tightenByAnnotations(requirements: ExecutionRequirements, annotations: ToolAnnotations): ExecutionRequirements {
  return { ...requirements, maxSideEffect: milder(requirements.maxSideEffect ?? 'none', sideEffectsOf(annotations)) }
}

function milder(a: SideEffects, b: SideEffects): SideEffects {
  return isAtMost(a, b) ? a : b
}

function both<T>(a: readonly T[] | undefined, b: readonly T[] | undefined, meet: (a: T, b: T) => T | undefined): T[] | undefined {
  if (a === undefined || b === undefined) return a === undefined ? b?.slice() : a.slice()
  return [...new Set(a.flatMap((one) => b.flatMap((other) => meet(one, other) ?? [])))]
}

function union<T>(a: readonly T[] | undefined, b: readonly T[] | undefined): T[] | undefined {
  return a === undefined && b === undefined ? undefined : [...new Set([...(a ?? []), ...(b ?? [])])]
}

function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
