import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ECC_SCHEMA_FILES } from '../../protocol/ecc/schemas.ts'
import { EDGE_CLOUD_CONTRACT_URIS } from '../../protocol/ecc/uris.ts'
import {
  DATA_CLASSIFICATIONS,
  NETWORK_MODES,
  REFUSAL_CAUSES,
  RESULT_DIGEST_METHOD,
  SIDE_EFFECTS,
  SIGNED_RECEIPT_METHOD,
  SITE_KINDS
} from '../../protocol/ecc/vocabulary.ts'
import { requirements } from '../../src/cli/values.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/edge-cloud-contract.md'), 'utf8')

describe('the specification of the contract', () => {
  it('[ECC-25] [ECC-27] says every word that the schemas know, and that it is experimental', () => {
    const words = [
      ...SITE_KINDS,
      ...DATA_CLASSIFICATIONS,
      ...NETWORK_MODES,
      ...SIDE_EFFECTS,
      ...REFUSAL_CAUSES,
      RESULT_DIGEST_METHOD,
      SIGNED_RECEIPT_METHOD
    ]
    for (const word of [...words, ...EDGE_CLOUD_CONTRACT_URIS]) expect(page).toContain(`\`${word}\``)
    for (const { properties = {}, title } of Object.values(ECC_SCHEMA_FILES)) {
      expect(page).toContain(`**${title}**`)
      for (const member of Object.keys(properties)) expect([title, member, page.includes(member)]).toEqual([title, member, true])
    }
    expect(page).toContain('**experimental**')
  })

  it('[TD-38] no page says that work never comes as A2A tasks, and none cites what is not here', () => {
    for (const file of ['README.md', 'CHANGELOG.md', 'protocol/README.md', 'docs/edge-cloud-contract.md', 'docs/delivery.md']) {
      const text = readFileSync(join(root, file), 'utf8')
      // [G-62] the register of requirements takes the place of the specifications that the proposal cites
      expect(text, file).not.toMatch(/discovery[- ]only|never flows as|SPEC-00\d\d|ADR-00\d\d/i)
    }
  })
})

describe('execution requirements on the command line', () => {
  it('[ECC-04] are names and values, lists joined by a plus, or JSON', () => {
    expect(
      requirements('dataClassification=internal,allowedRegions=EU+CH,allowedSites=edge,maxLatencyMs=2000,idempotencyKey=inv=2026-1')
    ).toEqual({
      dataClassification: 'internal',
      allowedRegions: ['EU', 'CH'],
      allowedSites: ['edge'],
      maxLatencyMs: 2_000,
      idempotencyKey: 'inv=2026-1'
    })
    expect(requirements('{"dataClassification":"public"}')).toEqual({ dataClassification: 'public' })
    for (const wrong of ['', 'x', 'x=', '=x', 'a=1,a=2', '{']) expect(() => requirements(wrong)).toThrow(/./)
  })
})
