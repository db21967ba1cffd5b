import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { aContract, aReceipt, arbContract, arbRequirements, someRequirements } from '../../test/support/ecc-values.ts'
import { matchRequirements } from './match.ts'
import type { CapabilityContract, ExecutionRequirements } from './objects.ts'
import { covers, isOutside } from './regions.ts'
import { annotationsOf, sideEffectsOf, tighten, tightenByAnnotations } from './tighten.ts'
import { SIDE_EFFECTS } from './vocabulary.ts'

const NOW = Date.parse('2026-11-30T10:00:00.000Z')
const DIGEST = `sha-256:${'00'.repeat(32)}`
const match = (contract: unknown, requirements: unknown, nowMs = NOW) =>
  matchRequirements({ contract, contractDigest: DIGEST, requirements, nowMs })
const KEY = 'inv-2026-000117'

describe('one constraint after the other', () => {
  it.each([
    ['[ECC-03] a contract that has ended', { notAfter: '2026-11-30T10:00:00.000Z' }, {}, 'CONTRACT_EXPIRED', ''],
    [
      '[ECC-05] another contract than the caller read',
      {},
      { contractDigest: `sha-256:${'11'.repeat(32)}` },
      'CONTRACT_CHANGED',
      'contractDigest'
    ],
    ['[ECC-16] data that it does not take', {}, { dataClassification: 'restricted' }, 'CLASSIFICATION_NOT_ACCEPTED', 'dataClassification'],
    [
      '[ECC-20] a control loop that must stay on the device',
      { sites: [{ siteId: 'c', kind: 'cloud', regions: ['DE'] }] },
      { allowedSites: ['device'] },
      'SITE_NOT_ALLOWED',
      'allowedSites'
    ],
    [
      '[ECC-19] input bound to the EU on a site in the US',
      { sites: [{ siteId: 'c', kind: 'cloud', regions: ['US'] }] },
      { allowedRegions: ['EU'] },
      'REGION_NOT_ALLOWED',
      'allowedRegions'
    ],
    ['[ECC-19] a region that is denied', {}, { deniedRegions: ['DE'] }, 'REGION_NOT_ALLOWED', 'deniedRegions'],
    [
      '[ECC-19] a part of a region that is denied',
      { sites: [{ siteId: 'c', kind: 'cloud', regions: ['US'] }] },
      { deniedRegions: ['US-CA'] },
      'REGION_NOT_ALLOWED',
      'deniedRegions'
    ],
    [
      '[ECC-19] a place that cannot be told from a denied one',
      { sites: [{ siteId: 'c', kind: 'cloud', regions: ['aws:us-east-1'] }] },
      { deniedRegions: ['US'] },
      'REGION_NOT_ALLOWED',
      'deniedRegions'
    ],
    [
      '[ECC-17] work offline at a site that is always online',
      { network: { modes: ['online'], maxOfflineSeconds: 0 } },
      { networkMode: 'offline' },
      'NETWORK_MODE_UNSUPPORTED',
      'networkMode'
    ],
    [
      '[ECC-17] work online, unsaid, at a site that never is',
      { network: { modes: ['offline'], maxOfflineSeconds: 9 } },
      {},
      'NETWORK_MODE_UNSUPPORTED',
      'networkMode'
    ],
    ['[ECC-21] [G-67] a latency below the declared one', {}, { maxLatencyMs: 1_999 }, 'LATENCY_EXCEEDED', 'maxLatencyMs'],
    ['[ECC-18] side effects beyond the permitted ones', {}, { maxSideEffect: 'idempotent' }, 'SIDE_EFFECT_NOT_PERMITTED', 'maxSideEffect'],
    [
      '[ECC-18] side effects where none were permitted, unsaid',
      {},
      { maxSideEffect: undefined },
      'SIDE_EFFECT_NOT_PERMITTED',
      'maxSideEffect'
    ],
    [
      '[ECC-14] a key that the contract does not heed',
      { sideEffects: { class: 'reversible', idempotency: 'none' } },
      { idempotencyKey: KEY },
      'IDEMPOTENCY_UNSUPPORTED',
      'idempotencyKey'
    ],
    [
      '[ECC-22] a verifier that is not on offer',
      {},
      { requiredVerification: ['result-digest-sha256', 'json-schema'] },
      'VERIFICATION_UNSUPPORTED',
      'requiredVerification'
    ],
    [
      '[ECC-22] an attestation that is not on offer',
      { attestation: [] },
      { requiredAttestation: ['signed-receipt-ed25519'] },
      'ATTESTATION_UNSUPPORTED',
      'requiredAttestation'
    ]
  ] as const)('[ECC-16] refuses %s', (_what, contract, requirements, cause, field) => {
    const wanted = Object.fromEntries(
      Object.entries({ maxSideEffect: 'consequential', ...requirements }).filter(([, value]) => value !== undefined)
    )
    expect(match(aContract(contract as Partial<CapabilityContract>), someRequirements(wanted))).toEqual({
      outcome: 'refused',
      cause,
      field
    })
  })

  it('[ECC-07] accepts what meets them all, and says where it will run', () => {
    const contract = aContract({
      sites: [
        { siteId: 'c', kind: 'cloud', regions: ['US'] },
        { siteId: 'e', kind: 'edge', regions: ['US', 'DE-BE', 'FR'] }
      ]
    })
    const requirements = someRequirements({
      contractDigest: DIGEST,
      allowedSites: ['edge'],
      allowedRegions: ['EU'],
      deniedRegions: ['US'],
      maxLatencyMs: 2_000,
      networkMode: 'weak',
      maxSideEffect: 'reversible',
      idempotencyKey: KEY,
      requiredVerification: ['result-digest-sha256'],
      requiredAttestation: ['signed-receipt-ed25519']
    })
    const site = { siteId: 'e', kind: 'edge', region: 'DE-BE' }
    expect(match(contract, requirements)).toEqual({ outcome: 'accepted', site, replaySafe: true, reason: 'KEYED' })
  })

  it.each([
    ['none', undefined, 'keyed', { outcome: 'accepted', replaySafe: true, reason: 'NO_SIDE_EFFECTS' }],
    ['none', KEY, 'none', { outcome: 'accepted', replaySafe: true, reason: 'NO_SIDE_EFFECTS' }],
    ['reversible', undefined, 'none', { outcome: 'accepted', replaySafe: false, reason: 'NO_KEY' }],
    ['reversible', undefined, 'keyed', { outcome: 'accepted', replaySafe: false, reason: 'NO_KEY' }],
    ['reversible', KEY, 'none', { outcome: 'refused', cause: 'IDEMPOTENCY_UNSUPPORTED' }],
    ['reversible', KEY, 'keyed', { outcome: 'accepted', replaySafe: true, reason: 'KEYED' }]
  ] as const)(
    '[ECC-14] [ECC-18] says of class %s, key %s and a contract that is %s whether a repetition is safe',
    (name, key, idempotency, expected) => {
      const ttl = idempotency === 'keyed' ? { idempotencyTtlSeconds: 60 } : {}
      const contract = aContract({ sideEffects: { class: name, idempotency, ...ttl } })
      const wanted = someRequirements({ maxSideEffect: 'consequential', ...(key === undefined ? {} : { idempotencyKey: key }) })
      expect(match(contract, wanted)).toMatchObject(expected)
    }
  )

  it('[ECC-26] refuses when either object does not hold, the requirements first', () => {
    expect(match({}, {})).toMatchObject({ outcome: 'malformed', object: 'requirements' })
    expect(match({}, someRequirements())).toMatchObject({ outcome: 'malformed', object: 'contract' })
    expect(match(aReceipt(), someRequirements())).toMatchObject({ outcome: 'malformed', object: 'contract' })
    expect(match(undefined, undefined)).toMatchObject({ outcome: 'malformed' })
  })
})

/** What accepted has to mean, said in another way than the matcher does it. */
function holds(contract: CapabilityContract, wanted: ExecutionRequirements): boolean {
  const rank = (name: (typeof SIDE_EFFECTS)[number]) => SIDE_EFFECTS.indexOf(name)
  const inside = (region: string) => wanted.allowedRegions?.some((one) => covers(one, region)) !== false
  const clear = (region: string) => wanted.deniedRegions?.some((one) => !isOutside(region, one)) !== true
  const effects = contract.sideEffects
  return (
    (contract.notAfter === undefined || Date.parse(contract.notAfter) > NOW) &&
    [undefined, DIGEST].includes(wanted.contractDigest) &&
    new Set(contract.dataClassifications).has(wanted.dataClassification) &&
    contract.sites.some(
      ({ kind, regions }) => (wanted.allowedSites ?? [kind]).includes(kind) && regions.some((region) => inside(region) && clear(region))
    ) &&
    new Set(contract.network.modes).has(wanted.networkMode ?? 'online') &&
    contract.latency.maxMs <= (wanted.maxLatencyMs ?? Number.POSITIVE_INFINITY) &&
    rank(effects.class) <= rank(wanted.maxSideEffect ?? 'none') &&
    !(wanted.idempotencyKey !== undefined && effects.class !== 'none' && effects.idempotency === 'none') &&
    !wanted.requiredVerification?.some((one) => !contract.verification.includes(one)) &&
    !wanted.requiredAttestation?.some((one) => !contract.attestation.includes(one))
  )
}

describe('any contract and any requirements', () => {
  it('[ECC-07] accepts exactly where everything holds, and else names one cause; there is no third outcome', () => {
    let accepted = 0
    fc.assert(
      fc.property(arbContract, arbRequirements, (contract, requirements) => {
        const verdict = match(contract, requirements)
        expect(verdict.outcome).toBe(holds(contract, requirements) ? 'accepted' : 'refused')
        expect(match(structuredClone(contract), structuredClone(requirements))).toEqual(verdict)
        if (verdict.outcome === 'accepted') accepted++
      }),
      { numRuns: 2_000 }
    )
    expect(accepted).toBeGreaterThan(20)
  })

  it('[ECC-11] [ECC-23] a policy or a tool’s hints never make acceptable what was not', () => {
    const hints = fc.record(
      { readOnlyHint: fc.boolean(), destructiveHint: fc.boolean(), idempotentHint: fc.boolean() },
      { requiredKeys: [] }
    )
    fc.assert(
      fc.property(arbContract, arbRequirements, arbRequirements, hints, (contract, requirements, { version: _, ...rules }, annotations) => {
        const { contractDigest: _d, dataClassification: _c, idempotencyKey: _k, networkMode: _n, ...policy } = rules
        const tighter = tighten(requirements, policy)
        const before = match(contract, requirements).outcome
        if (tighter !== undefined && match(contract, tighter).outcome === 'accepted') {
          expect(before).toBe('accepted')
          expect(match(contract, { ...requirements, ...policy, maxSideEffect: tighter.maxSideEffect ?? 'none' }).outcome).toBe('accepted')
        }
        if (match(contract, tightenByAnnotations(requirements, annotations)).outcome === 'accepted') expect(before).toBe('accepted')
      }),
      { numRuns: 1_500 }
    )
  })
})

describe('regions', () => {
  it('[G-65] contain themselves, their parts, and the EU its members; nothing is guessed', () => {
    const inside = [
      ['DE', 'DE'],
      ['DE', 'DE-BE'],
      ['EU', 'DE'],
      ['EU', 'FR-75'],
      ['EU', 'EU'],
      ['aws:eu-1', 'aws:eu-1']
    ] as const
    for (const [outer, inner] of inside) expect(covers(outer, inner), `${outer} ${inner}`).toBe(true)
    const not = [
      ['DE-BE', 'DE'],
      ['EU', 'CH'],
      ['EU', 'GB'],
      ['DE', 'EU'],
      ['US', 'aws:us-east-1'],
      ['aws:eu-1', 'gcp:eu-1']
    ] as const
    for (const [outer, inner] of not) expect(covers(outer, inner), `${outer} ${inner}`).toBe(false)
    const apart = [
      ['DE', 'FR'],
      ['US-NY', 'US-CA'],
      ['CH', 'EU'],
      ['aws:eu-1', 'aws:us-1']
    ] as const
    for (const [region, other] of apart) expect(isOutside(region, other), `${region} ${other}`).toBe(true)
    const perhaps = [
      ['DE', 'DE'],
      ['DE', 'DE-BE'],
      ['DE-BE', 'DE'],
      ['EU', 'DE'],
      ['DE', 'EU'],
      ['aws:eu-1', 'DE'],
      ['DE', 'aws:eu-1'],
      ['aws:a', 'gcp:a']
    ] as const
    for (const [region, other] of perhaps) expect(isOutside(region, other), `${region} ${other}`).toBe(false)
  })
})

describe('policies and hints', () => {
  it('[ECC-11] a stricter policy refuses a contract that matches formally', () => {
    const contract = aContract()
    const wanted = someRequirements({ maxSideEffect: 'reversible' })
    expect(match(contract, wanted).outcome).toBe('accepted')
    for (const policy of [
      { allowedSites: ['device' as const] },
      { deniedRegions: ['DE'] },
      { maxSideEffect: 'none' as const },
      { maxLatencyMs: 500 }
    ]) {
      expect(match(contract, tighten(wanted, policy)).outcome, JSON.stringify(policy)).toBe('refused')
    }
    expect(tighten(someRequirements({ allowedRegions: ['US'] }), { allowedRegions: ['EU'] })).toBeUndefined()
    expect(tighten(someRequirements({ allowedRegions: ['EU', 'US'] }), { allowedRegions: ['DE'] })).toMatchObject({
      allowedRegions: ['DE']
    })
  })

  it('[ECC-23] [G-72] reads the hints of a tool as claims, and claims the same of a class', () => {
    expect(sideEffectsOf({})).toBe('consequential')
    expect(sideEffectsOf({ destructiveHint: false })).toBe('reversible')
    for (const one of SIDE_EFFECTS) expect(sideEffectsOf(annotationsOf(one))).toBe(one)
    const wanted = someRequirements({ maxSideEffect: 'reversible' })
    expect(tightenByAnnotations(wanted, { readOnlyHint: true })).toMatchObject({ maxSideEffect: 'none' })
    expect(tightenByAnnotations(wanted, { destructiveHint: true })).toMatchObject({ maxSideEffect: 'reversible' })
    expect(tightenByAnnotations(someRequirements(), { destructiveHint: true })).toMatchObject({ maxSideEffect: 'none' })
  })
})
