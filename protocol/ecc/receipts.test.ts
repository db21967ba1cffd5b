import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { aContract, arbContract, arbRequirements, someRequirements } from '../../test/support/ecc-values.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { digestOf, resultDigest, sha256Plain } from './digests.ts'
import { matchRequirements } from './match.ts'
import { contractMetadata, receiptIn, rejectionOf, requirementsOf } from './metadata.ts'
import { readReceipt } from './objects.ts'
import { type ExecutionResult, receiptOf, receiptText, verifyExecution } from './receipts.ts'
import { EDGE_CLOUD_CONTRACT_ALIAS, EDGE_CLOUD_CONTRACT_URI } from './uris.ts'

const vectors = JSON.parse(readFileSync(new URL('../vectors/edge-cloud.json', import.meta.url), 'utf8')) as {
  values: { id: string; value: unknown; digest: string }[]
  results: { id: string; result: ExecutionResult; digest: string }[]
}

describe('digests', () => {
  it.each(vectors.values)('[G-68] digests the value $id as another implementation does', ({ value, digest }) => {
    expect(digestOf(value)).toBe(digest)
    expect(digestOf(value, (bytes) => nobleCrypto.sha256(bytes))).toBe(digest)
  })

  it.each(vectors.results)('[ECC-05] [G-68] digests the result $id as another implementation does', ({ result, digest }) => {
    expect(resultDigest(result)).toBe(digest)
  })

  it('[ECC-25] hashes with nothing but the language as the platform does', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(sha256Plain(bytes)).toEqual(nobleCrypto.sha256(bytes))
      })
    )
  })

  it('[G-68] depends on the order of parts and artifacts, and on every byte', () => {
    const [a, b] = [
      { artifactId: 'a', parts: [{ text: 'x' }, { raw: 'AAEC' }] },
      { artifactId: 'b', parts: [{ data: null }] }
    ]
    const all = [
      [a, b],
      [b, a],
      [{ ...a, parts: [...a.parts].reverse() }, b],
      [{ ...a, parts: [{ text: 'x' }, { raw: 'AAED' }] }, b],
      [{ ...a, parts: [{ text: 'x ' }, { raw: 'AAEC' }] }, b],
      [{ ...a, artifactId: 'c' }, b],
      [a, { ...b, parts: [{ data: false }] }],
      [a]
    ].map((artifacts) => resultDigest({ artifacts }))
    expect(new Set(all).size).toBe(all.length)
  })
})

const SITE = { siteId: 's1', kind: 'edge', region: 'DE-BE' } as const
const ARTIFACTS = [{ artifactId: 'text', name: 'text', parts: [{ text: 'three rolls' }] }]

function execution(more: { requirements?: object; tookMs?: number } = {}) {
  const contract = aContract()
  const requirements = someRequirements({
    maxSideEffect: 'reversible',
    requiredVerification: ['result-digest-sha256'],
    ...more.requirements
  })
  const run = {
    receiptId: 'r-1',
    taskId: 't-1',
    messageId: 'm-1',
    startedAtMs: 1_796_032_800_000,
    finishedAtMs: 1_796_032_800_000 + (more.tookMs ?? 412)
  }
  const receipt = receiptOf(
    { contract, contractDigest: digestOf(contract), requirements, site: SITE },
    { ...run, result: { artifacts: ARTIFACTS } }
  )
  return { contract, requirements, receipt }
}

const verify = ({ contract, requirements, receipt }: ReturnType<typeof execution>, more: object = {}) =>
  verifyExecution({ contract, requirements, receipt, result: { artifacts: ARTIFACTS }, messageId: 'm-1', taskId: 't-1', ...more })

describe('receipts', () => {
  it('[ECC-05] states what was used, and its digests recompute', () => {
    const { contract, requirements, receipt } = execution()
    expect(readReceipt(receipt)).toEqual({ ok: true, value: receipt })
    expect(receipt).toMatchObject({
      site: SITE,
      latencyMs: 412,
      startedAt: '2026-11-30T10:00:00.000Z',
      finishedAt: '2026-11-30T10:00:00.412Z',
      verifierStatus: 'passed'
    })
    expect(receipt.contractDigest).toBe(digestOf(contract))
    expect(receipt.requirementsDigest).toBe(digestOf(requirements))
    expect(receipt.resultDigest).toBe(resultDigest({ artifacts: ARTIFACTS }))
    expect(verify(execution())).toEqual({ outcome: 'verified', receipt })
  })

  it.each([
    ['RECEIPT_INVALID', { receipt: {} }],
    ['RECEIPT_INVALID', { receipt: undefined }],
    ['CONTRACT_INVALID', { contract: {} }],
    ['REQUIREMENTS_INVALID', { requirements: undefined }],
    ['CONTRACT_CHANGED', { contract: aContract({ contractId: 'other' }) }],
    ['REQUIREMENTS_CHANGED', { requirements: someRequirements({ maxSideEffect: 'reversible' }) }],
    ['OTHER_REQUEST', { messageId: 'm-2' }],
    ['OTHER_REQUEST', { taskId: 't-2' }],
    ['RESULT_CHANGED', { result: { artifacts: [{ artifactId: 'text', parts: [{ text: 'four rolls' }] }] } }],
    ['RESULT_CHANGED', { result: { artifacts: [{ artifactId: 'text', parts: [{ text: '\ud800' }] }] } }]
  ] as const)('[ECC-05] refuses a receipt: %s', (fault, more) => {
    expect(verify(execution(), more)).toMatchObject({ outcome: 'refused', fault })
  })

  it('[G-67] an overrun is a failed status, never a silent success', () => {
    const late = execution({ requirements: { maxLatencyMs: 2_000 }, tookMs: 2_001 })
    expect(late.receipt).toMatchObject({ latencyMs: 2_001, verifierStatus: 'failed' })
    expect(verify(late)).toMatchObject({ outcome: 'refused', fault: 'LATENCY_EXCEEDED' })
    expect(execution({ tookMs: 2_001 }).receipt.verifierStatus).toBe('failed')
    expect(verify(execution({ tookMs: 2_001 }))).toMatchObject({ outcome: 'refused', fault: 'VERIFICATION_FAILED' })
    expect(execution({ requirements: { maxLatencyMs: 5_000 }, tookMs: 2_001 }).receipt.verifierStatus).toBe('passed')
  })

  it('[ECC-12] counts an attestation only where the agent’s key made it', () => {
    const signed = execution({ requirements: { requiredAttestation: ['signed-receipt-ed25519'] } })
    expect(verify(signed)).toMatchObject({ outcome: 'refused', fault: 'ATTESTATION_MISSING' })
    const text = receiptText(signed.receipt)
    const attested = {
      ...signed,
      receipt: { ...signed.receipt, attestation: { method: 'signed-receipt-ed25519', protected: 'aa', signature: 'bb' } }
    }
    expect(receiptText(attested.receipt)).toBe(text)
    expect(verify(attested)).toMatchObject({ outcome: 'refused', fault: 'ATTESTATION_INVALID' })
    const asked: unknown[] = []
    const yes = (...args: unknown[]) => asked.push(args) === 1
    expect(verify(attested, { verify: yes })).toMatchObject({ outcome: 'verified' })
    expect(asked).toEqual([[{ method: 'signed-receipt-ed25519', protected: 'aa', signature: 'bb' }, text]])
    expect(verify(attested, { verify: () => false })).toMatchObject({ outcome: 'refused', fault: 'ATTESTATION_INVALID' })
  })

  it('[ECC-07] a receipt of what the matcher accepted verifies; one for another site, class, mode or check does not', () => {
    const result = { artifacts: ARTIFACTS }
    let accepted = 0
    fc.assert(
      fc.property(
        arbContract,
        arbRequirements,
        fc.constantFrom('s9', 's1'),
        (contract, { contractDigest: _, requiredAttestation: __, ...wanted }, other) => {
          const contractDigest = digestOf(contract)
          const verdict = matchRequirements({ contract, contractDigest, requirements: wanted, nowMs: 0 })
          if (verdict.outcome !== 'accepted') return
          accepted++
          const run = { receiptId: 'r', taskId: 't', messageId: 'm', startedAtMs: 0, finishedAtMs: contract.latency.maxMs, result }
          const receipt = receiptOf({ contract, contractDigest, requirements: wanted, site: verdict.site }, run)
          const check = (said: object) =>
            verifyExecution({ contract, requirements: wanted, receipt: said, result, messageId: 'm', taskId: 't' })
          const plain = (wanted.requiredVerification ?? []).every((one) => one === 'result-digest-sha256')
          expect(check(receipt)).toMatchObject({ outcome: plain ? 'verified' : 'refused' })
          expect(check({ ...receipt, site: { ...verdict.site, siteId: `${other}x` } })).toMatchObject({
            outcome: 'refused',
            fault: 'SITE_NOT_ALLOWED'
          })
          expect(check({ ...receipt, site: { ...verdict.site, region: 'ZZ' } })).toMatchObject({ outcome: 'refused' })
          expect(check({ ...receipt, networkMode: receipt.networkMode === 'weak' ? 'online' : 'weak' })).toMatchObject({
            outcome: 'refused'
          })
          expect(check({ ...receipt, verifierStatus: 'unavailable' })).toMatchObject({ outcome: 'refused' })
          if (wanted.maxSideEffect !== 'consequential') {
            expect(check({ ...receipt, sideEffects: { class: 'consequential', replaySafe: true } })).toMatchObject({ outcome: 'refused' })
          }
        }
      ),
      { numRuns: 800 }
    )
    expect(accepted).toBeGreaterThan(10)
  })
})

describe('where the objects stand', () => {
  const requirements = someRequirements()

  it('[ECC-04] [G-63] finds requirements under either spelling, and refuses both at once', () => {
    for (const uri of [EDGE_CLOUD_CONTRACT_URI, EDGE_CLOUD_CONTRACT_ALIAS]) {
      expect(requirementsOf({ metadata: { [uri]: requirements } })).toEqual({ ok: true, value: requirements })
    }
    expect(
      requirementsOf({ metadata: { [EDGE_CLOUD_CONTRACT_URI]: requirements, [EDGE_CLOUD_CONTRACT_ALIAS]: requirements } })
    ).toMatchObject({ ok: false })
    for (const none of [
      {},
      { metadata: null },
      { metadata: {} },
      null,
      7,
      { metadata: Object.create({ [EDGE_CLOUD_CONTRACT_URI]: {} }) }
    ]) {
      expect(contractMetadata(none)).toBeUndefined()
    }
    expect(requirementsOf({ metadata: { [EDGE_CLOUD_CONTRACT_URI]: null } })).toMatchObject({ ok: false })
  })

  it('[ECC-05] takes one receipt of a result, never a choice of them', () => {
    const { receipt } = execution()
    const metadata = { [EDGE_CLOUD_CONTRACT_URI]: receipt }
    expect(receiptIn({ artifacts: [{ artifactId: 'a' }, { artifactId: 'b', metadata }] })).toEqual({ ok: true, value: receipt })
    expect(receiptIn({ message: { metadata } })).toEqual({ ok: true, value: receipt })
    expect(receiptIn({ artifacts: [] })).toBeUndefined()
    expect(receiptIn({ artifacts: [{ metadata }, { metadata }] })).toMatchObject({ ok: false })
  })

  it('[G-66] reads why a task was rejected from its status message', () => {
    const rejection = { version: '1.0', cause: 'CONTRACT_EXPIRED', field: '' }
    expect(rejectionOf({ metadata: { [EDGE_CLOUD_CONTRACT_ALIAS]: rejection } })).toEqual({ ok: true, value: rejection })
    expect(rejectionOf({ metadata: { [EDGE_CLOUD_CONTRACT_ALIAS]: { ...rejection, cause: 'BECAUSE' } } })).toMatchObject({ ok: false })
  })
})
