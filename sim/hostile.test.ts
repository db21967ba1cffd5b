import { beforeAll, describe, expect, it } from 'vitest'
import type { SimReport } from './report/report.ts'
import { runScenario } from './run-scenario.ts'

const SEED = 1

/** What each is called in the report, and so many checks it has at least. */
const ATTACKS: readonly [title: string, attack: string, checks: number][] = [
  [
    '[D-18] [DS-12] [G-23] poisoned, expired and replayed records are taken by no honest registrar or holder, and shown to nobody',
    'poisoned records',
    5
  ],
  ['[G-21] [DS-09] squatters of a DS_ID gain no member and hide none', 'squatted DS_ID', 3],
  ['[G-21] squatters are not seen at all by one who pins the curator', 'squatted DS_ID, curator pinned', 2],
  ['[DS-15] [F029] a crowd of made-up members is bounded at every registrar and keeps no honest one out', 'sybil flood of a space', 5],
  [
    '[AD-02] [AD-03] [G-31] [G-34] a flood of anonymous requests costs a node nothing that stays, while honest nodes search',
    'discovery flood',
    8
  ],
  [
    '[DS-15] [DS-17] a fifth of all nodes, registrars that hide, invent, replay, answer noise or nothing, hide nobody',
    '20 % lying and silent registrars',
    2
  ],
  ['[DS-15] [DS-17] nor do three tenths', '30 % lying and silent registrars', 2],
  ['[DS-17] liars are told by those who asked them, and no honest registrar is', 'lying registrars', 3],
  ['[G-24] twenty ground identities around the key of a space hide none of its members', 'eclipse by 20 ground identities', 3],
  ['[D-19] ground identities around the key of a locator hide no agent', 'eclipse of a locator by 8 ground identities', 3],
  [
    '[AD-03] [F035] streams that hang, and frames that claim 4 GiB, are over in time and leave the node open to others',
    'oversize and slow-loris peers',
    5
  ]
]

describe(`a network of 50 real nodes of which 10 are hostile, then 15 and 20 ground identities more (seed ${SEED})`, () => {
  let report: SimReport
  beforeAll(async () => {
    report = await runScenario('hostile-short', { nodes: 50, seed: SEED })
  }, 600_000)

  it('runs to its end without a fault of its own', () => {
    expect(report.failures, report.replay).toEqual([])
    expect(report.success, report.replay).toBe(true)
  })

  it.each(ATTACKS)('%s', (_title, attack, count) => {
    const checks = report.checks.filter((check) => check.attack === attack)
    expect(checks.length, `${attack}, of ${[...new Set(report.checks.map((check) => check.attack))].join(', ')}`).toBeGreaterThanOrEqual(
      count
    )
    expect(
      checks.filter(({ holds }) => !holds),
      report.replay
    ).toEqual([])
  })

  it('is judged by no check that no test names', () => {
    const named = ATTACKS.map(([, attack]) => attack)
    expect(report.checks.filter(({ attack }) => !named.includes(attack))).toEqual([])
  })
})
