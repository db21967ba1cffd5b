import fc from 'fast-check'
import type { CapabilityContract, ExecutionReceipt, ExecutionRequirements } from '../../protocol/ecc/objects.ts'

export const REGIONS = ['DE', 'DE-BE', 'FR', 'US', 'US-CA', 'CH', 'EU', 'aws:eu-central-1', 'gcp:us-east1']
export const METHODS = ['result-digest-sha256', 'json-schema', 'signed-receipt-ed25519', 'https://example.org/rerun']

export function aContract(more: Partial<CapabilityContract> = {}): CapabilityContract {
  return {
    version: '1.0',
    contractId: 'bakery-vision',
    notAfter: '2030-01-01T00:00:00.000Z',
    sites: [{ siteId: 's1', kind: 'edge', regions: ['DE-BE'] }],
    dataClassifications: ['public', 'internal'],
    latency: { typicalMs: 400, maxMs: 2_000 },
    network: { modes: ['online', 'weak'], maxOfflineSeconds: 60 },
    sideEffects: { class: 'reversible', idempotency: 'keyed', idempotencyTtlSeconds: 604_800 },
    verification: ['result-digest-sha256'],
    attestation: ['signed-receipt-ed25519'],
    ...more
  }
}

export function someRequirements(more: Partial<ExecutionRequirements> = {}): ExecutionRequirements {
  return { version: '1.0', dataClassification: 'internal', ...more }
}

export function aReceipt(more: Partial<ExecutionReceipt> = {}): ExecutionReceipt {
  const digest = `sha-256:${'0f'.repeat(32)}`
  return {
    version: '1.0',
    receiptId: 'r-1',
    taskId: 't-1',
    messageId: 'm-1',
    site: { siteId: 's1', kind: 'edge', region: 'DE-BE' },
    contractDigest: digest,
    requirementsDigest: digest,
    resultDigest: digest,
    startedAt: '2026-11-30T10:00:00.000Z',
    finishedAt: '2026-11-30T10:00:00.412Z',
    latencyMs: 412,
    networkMode: 'online',
    sideEffects: { class: 'reversible', replaySafe: true },
    verifierStatus: 'passed',
    verification: [{ method: 'result-digest-sha256', status: 'passed' }],
    attestation: { method: 'signed-receipt-ed25519', protected: 'e30', signature: 'AA' },
    ...more
  }
}

const some = <T>(values: readonly T[], minLength = 0) => fc.uniqueArray(fc.constantFrom(...values), { minLength, maxLength: 4 })
const kinds = ['device', 'edge', 'cloud'] as const
const classes = ['public', 'internal', 'confidential', 'restricted'] as const
const modes = ['online', 'weak', 'offline'] as const
const effects = ['none', 'idempotent', 'reversible', 'consequential'] as const

/** Contracts that hold to their schema, of few words, so that many pairs with requirements are near each other. */
export const arbContract: fc.Arbitrary<CapabilityContract> = fc
  .record(
    {
      version: fc.constant('1.0' as const),
      contractId: fc.constantFrom('a', 'bakery-vision'),
      notAfter: fc.constantFrom('2020-01-01T00:00:00.000Z', '2030-01-01T00:00:00.000Z'),
      sites: fc.uniqueArray(
        fc.record({ siteId: fc.constantFrom('s1', 's2', 's3'), kind: fc.constantFrom(...kinds), regions: some(REGIONS, 1) }),
        { minLength: 1, maxLength: 3, selector: (one) => JSON.stringify(one) }
      ),
      dataClassifications: some(classes, 1),
      latency: fc
        .tuple(fc.nat(3_000), fc.integer({ min: 1, max: 3_000 }))
        .map(([a, b]) => ({ typicalMs: Math.min(a, b), maxMs: Math.max(a, b, 1) })),
      network: some(modes, 1).map((list) => ({ modes: list, maxOfflineSeconds: list.every((one) => one === 'online') ? 0 : 60 })),
      sideEffects: fc.oneof(
        fc.record({ class: fc.constantFrom(...effects), idempotency: fc.constant('none' as const) }),
        fc.record({
          class: fc.constantFrom(...effects),
          idempotency: fc.constant('keyed' as const),
          idempotencyTtlSeconds: fc.constant(86_400)
        })
      ),
      verification: some(METHODS),
      attestation: some(METHODS)
    },
    {
      requiredKeys: [
        'version',
        'contractId',
        'sites',
        'dataClassifications',
        'latency',
        'network',
        'sideEffects',
        'verification',
        'attestation'
      ]
    }
  )
  .map((one) => one as CapabilityContract)

const optional = {
  contractDigest: fc.constantFrom(`sha-256:${'00'.repeat(32)}`, `sha-256:${'00'.repeat(32)}`, `sha-256:${'11'.repeat(32)}`),
  allowedSites: some(kinds, 1),
  allowedRegions: some(REGIONS, 1),
  deniedRegions: some(REGIONS),
  maxLatencyMs: fc.integer({ min: 1, max: 6_000 }),
  networkMode: fc.constantFrom(...modes),
  idempotencyKey: fc.constantFrom('inv-2026-000117', 'another.key~1'),
  requiredVerification: some(METHODS),
  requiredAttestation: some(METHODS)
}

/** Requirements that hold to their schema; few members each, so that many are met. */
export const arbRequirements: fc.Arbitrary<ExecutionRequirements> = fc
  .tuple(
    fc.constantFrom(...classes),
    fc.option(fc.constantFrom(...effects, 'consequential' as const), { nil: undefined, freq: 6 }),
    fc.record(optional),
    fc.subarray(Object.keys(optional) as (keyof typeof optional)[], { maxLength: 4 })
  )
  .map(([dataClassification, maxSideEffect, all, names]) => ({
    version: '1.0',
    dataClassification,
    ...(maxSideEffect === undefined ? {} : { maxSideEffect }),
    ...Object.fromEntries(names.map((name) => [name, all[name]]))
  }))
