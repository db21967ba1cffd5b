import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { aContract, aReceipt, arbContract, arbRequirements, someRequirements } from '../../test/support/ecc-values.ts'
import { readContract, readReceipt, readRejection, readRequirements } from './objects.ts'
import { ECC_SCHEMA_FILES } from './schemas.ts'
import { timestampMs, timestampText } from './timestamp.ts'
import { contractUriIn, EDGE_CLOUD_CONTRACT_ALIAS, EDGE_CLOUD_CONTRACT_URI } from './uris.ts'

const here = dirname(fileURLToPath(import.meta.url))

/** The rules once more, by another validator, so that a mistake would have to be made twice. */
const text = (max: number, form: RegExp) => z.string().max(max).regex(form)
const name = text(64, /^[a-z0-9][a-z0-9._~-]*$/i)
const id = text(256, /^[!-~]+$/)
const region = z.union([text(6, /^[A-Z][A-Z](-[A-Z0-9][A-Z0-9]?[A-Z0-9]?)?$/), text(64, /^[a-z][a-z0-9-]{0,31}:[a-z0-9][a-z0-9-]{0,31}$/)])
const method = z.union([text(128, /^[a-z0-9][a-z0-9-]*$/), text(128, /^https:\/\/[!-~]+$/)])
const digest = text(72, /^sha-256:[0-9a-f]{64}$/)
const date = z.string().refine((one) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(one) && isDate(one))
const isDate = (one: string) => Number.isFinite(Date.parse(one)) && new Date(one).toISOString() === one
const kind = z.enum(['device', 'edge', 'cloud'])
const mode = z.enum(['online', 'weak', 'offline'])
const classification = z.enum(['public', 'internal', 'confidential', 'restricted'])
const effect = z.enum(['none', 'idempotent', 'reversible', 'consequential'])
const status = z.enum(['passed', 'failed', 'unavailable'])
const list = <T extends z.ZodType>(one: T, min = 0) =>
  z
    .array(one)
    .min(min)
    .max(64)
    .refine((all) => all.every((a, i) => all.every((b, j) => i === j || !Object.is(JSON.stringify(a), JSON.stringify(b)))))
const year = 365 * 86_400
const contractOracle = z
  .strictObject({
    version: z.literal('1.0'),
    contractId: name,
    notAfter: date.optional(),
    sites: list(z.strictObject({ siteId: name, kind, regions: list(region, 1) }), 1),
    dataClassifications: list(classification, 1),
    latency: z.strictObject({ typicalMs: z.int().min(0), maxMs: z.int().min(1) }).refine((one) => one.typicalMs <= one.maxMs),
    network: z
      .strictObject({ modes: list(mode, 1), maxOfflineSeconds: z.int().min(0).max(year) })
      .refine((one) => (one.maxOfflineSeconds === 0) === one.modes.every((each) => each === 'online')),
    sideEffects: z
      .strictObject({ class: effect, idempotency: z.enum(['none', 'keyed']), idempotencyTtlSeconds: z.int().min(1).max(year).optional() })
      .refine((one) => (one.idempotency === 'none') === !('idempotencyTtlSeconds' in one)),
    verification: list(method),
    attestation: list(method)
  })
  .refine((one) => JSON.stringify(one).length <= 16_384)
const requirementsOracle = z.strictObject({
  version: z.literal('1.0'),
  contractDigest: digest.optional(),
  allowedSites: list(kind, 1).optional(),
  allowedRegions: list(region, 1).optional(),
  deniedRegions: list(region).optional(),
  dataClassification: classification,
  maxLatencyMs: z.int().min(1).optional(),
  networkMode: mode.optional(),
  maxSideEffect: effect.optional(),
  idempotencyKey: text(128, /^[\w.~-]{8,128}$/).optional(),
  requiredVerification: list(method).optional(),
  requiredAttestation: list(method).optional()
})
const receiptOracle = z
  .strictObject({
    version: z.literal('1.0'),
    receiptId: id,
    taskId: id,
    messageId: id,
    site: z.strictObject({ siteId: name, kind, region }),
    contractDigest: digest,
    requirementsDigest: digest.optional(),
    resultDigest: digest,
    startedAt: date,
    finishedAt: date,
    latencyMs: z.int().min(0),
    networkMode: mode,
    sideEffects: z.strictObject({ class: effect, replaySafe: z.boolean() }),
    verifierStatus: status,
    verification: list(z.strictObject({ method, status })),
    attestation: z.strictObject({ method, protected: text(1_024, /^[\w-]+$/), signature: text(1_024, /^[\w-]+$/) }).optional()
  })
  .refine((one) => Date.parse(one.finishedAt) - Date.parse(one.startedAt) === one.latencyMs)

/** The object with one or two places of it put wrong, or perhaps right. */
function arbBroken(value: fc.Arbitrary<object>): fc.Arbitrary<unknown> {
  const junk = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('none', 'keyed', 'DE', 'EU', 'edge', 'online', 'offline', 'passed', '1.0', 0, 1, -1, 0.5, 1e300, '', ' ', null, [], {}),
    fc.constantFrom('DE ', 'de', 'DE\n', 'Edge', 'a:b:c', 'result-digest-sha256 ', 'http://x', '__proto__', 'sha-256:00')
  )
  const step = fc.record({
    pick: fc.nat(200),
    act: fc.constantFrom('replace', 'delete', 'add', 'twice'),
    junk,
    key: fc.string({ maxLength: 12 })
  })
  return fc.tuple(value, fc.array(step, { minLength: 1, maxLength: 2 })).map(([whole, steps]) => {
    const other = structuredClone(whole) as Record<string, unknown>
    for (const { pick, act, junk: wrong, key } of steps) {
      const places = placesOf(other)
      const [holder, at] = places[pick % places.length] as [Record<string, unknown>, string]
      if (act === 'replace') holder[at] = wrong
      else if (act === 'delete' && Array.isArray(holder)) holder.splice(Number(at), 1)
      else if (act === 'delete') delete holder[at]
      else if (act === 'twice' && Array.isArray(holder)) holder.push(structuredClone(holder[Number(at)]))
      else if (Array.isArray(holder)) holder.push(wrong)
      else Object.defineProperty(holder, key, { value: wrong, enumerable: true, configurable: true, writable: true })
    }
    return JSON.parse(JSON.stringify(other)) as unknown
  })
}

function placesOf(value: object): [object, string][] {
  return Object.entries(value).flatMap(([at, one]): [object, string][] => [
    [value, at],
    ...(typeof one === 'object' && one !== null ? placesOf(one) : [])
  ])
}

describe('the objects of the contract', () => {
  it('[ECC-01] the values that these tests begin with hold to their schemas', () => {
    expect([readContract(aContract()), readRequirements(someRequirements()), readReceipt(aReceipt())]).toMatchObject(
      Array(3).fill({ ok: true })
    )
    fc.assert(
      fc.property(arbContract, arbRequirements, (a, b) => {
        expect([readContract(a), readRequirements(b)]).toMatchObject([{ ok: true }, { ok: true }])
      })
    )
  })

  it.each([
    ['contract', readContract, contractOracle, arbContract],
    ['requirements', readRequirements, requirementsOracle, arbRequirements],
    ['receipt', readReceipt, receiptOracle, fc.constant(aReceipt())]
  ] as const)('[ECC-26] accepts a %s only where its schema holds entirely, whatever was put into it', (_name, read, oracle, arb) => {
    fc.assert(
      fc.property(fc.oneof(arb as fc.Arbitrary<object>, arbBroken(arb as fc.Arbitrary<object>)), (value) => {
        expect(read(value).ok).toBe(oracle.safeParse(value).success)
      }),
      { numRuns: 600 }
    )
  })

  it('[ECC-26] meets any value at all with a verdict', () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withMap: true, withNullPrototype: true, withDate: true }), (value) => {
        for (const read of [readContract, readRequirements, readReceipt, readRejection]) expect(read(value).ok).toBe(false)
      })
    )
    const deep: unknown[] = []
    let at = deep
    for (let i = 0; i < 50_000; i++) at = at[0] = [] as unknown[]
    expect(readContract({ ...aContract(), sites: deep }).ok).toBe(false)
    expect(readRequirements({ ...someRequirements(), allowedRegions: deep }).ok).toBe(false)
  })

  it.each(Object.keys(aContract()).filter((one) => one !== 'notAfter'))('[ECC-03] misses %s in a contract', (member) => {
    const { [member]: _, ...rest } = { ...aContract() } as Record<string, unknown>
    expect(readContract(rest)).toEqual({ ok: false, violations: [{ field: member, problem: 'is missing' }] })
  })

  it('[ECC-03] names what is wrong, and where', () => {
    const contract = {
      ...aContract(),
      latency: { typicalMs: 5, maxMs: 4 },
      network: { modes: ['online', 'offline'], maxOfflineSeconds: 0 }
    }
    expect(readContract(contract)).toEqual({
      ok: false,
      violations: [
        { field: 'latency.typicalMs', problem: 'is above latency.maxMs' },
        { field: 'network.maxOfflineSeconds', problem: 'must be above 0 exactly where network.modes names weak or offline' }
      ]
    })
    const sites = [{ siteId: 'a', kind: 'edge', regions: ['DE', 'de'] }]
    expect(readContract({ ...aContract(), sites })).toMatchObject({ violations: [{ field: 'sites[0].regions[1]' }] })
  })

  it.each(['__proto__', 'constructor', 'toString', 'dataclassification', 'DataClassification', 'x'])(
    '[ECC-04] [G-71] takes no requirement that it does not know: %s',
    (unknown) => {
      const value = JSON.parse(JSON.stringify(someRequirements()).replace('{', `{"${unknown}":"eu",`))
      expect(readRequirements(value)).toEqual({ ok: false, violations: [{ field: unknown, problem: 'is not known here' }] })
    }
  )

  it('[G-71] has no place for free text, and none is longer than 256 characters or the whole than 16 KiB', () => {
    for (const field of ['contractId', 'sites[0].siteId']) {
      const secret = 'Bearer c2VjcmV0 at 10.0.0.7, see db.internal'
      const contract =
        field === 'contractId'
          ? { ...aContract(), contractId: secret }
          : { ...aContract(), sites: [{ ...aContract().sites[0], siteId: secret }] }
      expect(readContract(contract)).toMatchObject({ ok: false, violations: [{ field }] })
    }
    const sites = Array.from({ length: 64 }, (_, i) => ({
      siteId: `s${i}`,
      kind: 'edge',
      regions: Array.from({ length: 20 }, (_, j) => `provider-${i}:region-${j}`)
    }))
    expect(readContract({ ...aContract(), sites })).toEqual({
      ok: false,
      violations: [{ field: '', problem: 'is longer than 16384 bytes' }]
    })
  })

  it('[G-65] knows its own words alone', () => {
    const requirements = (more: object) => readRequirements({ ...someRequirements(), ...more }).ok
    expect(
      requirements({ allowedSites: ['edge', 'cloud', 'device'], networkMode: 'weak', allowedRegions: ['DE', 'DE-BE', 'aws:eu-central-1'] })
    ).toBe(true)
    for (const region of ['eu.de.fra', 'Germany', 'DEU', 'de', 'aws:', ':x', 'AWS:x', 'aws:eu:1', ''])
      expect(requirements({ allowedRegions: [region] })).toBe(false)
    for (const networkMode of ['intermittent', 'Online', '', null]) expect(requirements({ networkMode })).toBe(false)
    for (const allowedSites of [['fog'], ['edge', 'edge'], [], 'edge', null]) expect(requirements({ allowedSites })).toBe(false)
    for (const maxLatencyMs of [0, -1, 1.5, '2000', 2 ** 53, null]) expect(requirements({ maxLatencyMs })).toBe(false)
  })

  it('[G-72] has one enumeration of side effects, in every object', () => {
    for (const maxSideEffect of ['none', 'idempotent', 'reversible', 'consequential']) {
      expect(readRequirements({ ...someRequirements(), maxSideEffect }).ok).toBe(true)
    }
    expect(readRequirements({ ...someRequirements(), maxSideEffect: 'irreversible' }).ok).toBe(false)
  })
})

describe('what is shipped', () => {
  it('[ECC-25] ships each schema as a file that says what the validator checks', () => {
    expect(readdirSync(join(here, 'schemas')).sort()).toEqual(Object.keys(ECC_SCHEMA_FILES).sort())
    for (const [file, schema] of Object.entries(ECC_SCHEMA_FILES)) {
      expect(JSON.parse(readFileSync(join(here, 'schemas', file), 'utf8'))).toEqual(schema)
    }
  })

  it('[ECC-25] imports nothing outside the language from the package entry on', () => {
    const seen = new Set<string>()
    const visit = (file: string): void => {
      if (seen.has(file)) return
      seen.add(file)
      for (const [, target] of readFileSync(file, 'utf8').matchAll(/^(?:(?:import|export) .*|\} )from '([^']+)'$/gm)) {
        expect(target, `${file} imports ${target}`).toMatch(/^\.\.?\//)
        visit(join(dirname(file), target as string))
      }
    }
    visit(join(here, '../ecc.ts'))
    expect(seen.size).toBeGreaterThan(12)
    const { exports, files } = JSON.parse(readFileSync(join(here, '../../package.json'), 'utf8'))
    expect(exports['./ecc']).toEqual({ types: './dist/protocol/ecc.d.ts', default: './dist/protocol/ecc.js' })
    expect(files).toContain('protocol/ecc/schemas')
  })

  it('[ECC-02] [G-63] has both spellings of the URI in one place and prefers the one that it advertises', () => {
    expect(EDGE_CLOUD_CONTRACT_URI).toBe('https://github.com/a2aproject/a2a-samples/extensions/edge-cloud-capability-contract/v1')
    expect(EDGE_CLOUD_CONTRACT_ALIAS).toBe(EDGE_CLOUD_CONTRACT_URI.replace('github.com', 'github.qkg1.top'))
    expect(contractUriIn(['x', EDGE_CLOUD_CONTRACT_ALIAS])).toBe(EDGE_CLOUD_CONTRACT_ALIAS)
    expect(contractUriIn([EDGE_CLOUD_CONTRACT_ALIAS, EDGE_CLOUD_CONTRACT_URI])).toBe(EDGE_CLOUD_CONTRACT_URI)
    for (const other of [
      EDGE_CLOUD_CONTRACT_URI.replace('v1', 'v2'),
      `${EDGE_CLOUD_CONTRACT_URI}/`,
      EDGE_CLOUD_CONTRACT_URI.toUpperCase()
    ]) {
      expect(contractUriIn([other])).toBeUndefined()
    }
  })
})

describe('timestamps', () => {
  it('are those of the calendar', () => {
    fc.assert(
      fc.property(fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31T23:59:59.999Z'), noInvalidDate: true }), (one) => {
        expect(timestampText(one.getTime())).toBe(one.toISOString())
        expect(timestampMs(one.toISOString())).toBe(one.getTime())
      })
    )
    for (const wrong of ['2026-02-29T00:00:00.000Z', '2026-13-01T00:00:00.000Z', '2026-01-01T24:00:00.000Z', '2026-01-01T00:00:00Z', '']) {
      expect(timestampMs(wrong)).toBeUndefined()
    }
  })
})
