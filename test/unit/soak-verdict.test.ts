import { describe, expect, it } from 'vitest'
import { SoakAccounts } from '../soak/soak-accounts.ts'
import { soakSvg } from '../soak/soak-chart.ts'
import { ALLOWED_LINES, lineOf, ruleFor } from '../soak/soak-logs.ts'
import type { NodeAudit } from '../soak/soak-orders.ts'
import { SOAK_METRICS, type SoakSample, TOLERANCES, trendsOf, WARM_UP_MS } from '../soak/soak-verdict.ts'

const LENGTH_MS = 3_600_000
const MIB = 1_048_576

/** A sample every 15 s, `heapBytes` as told, all else at rest. */
function run(heap: (minute: number) => number, node = 'rock'): SoakSample[] {
  return Array.from({ length: 240 }, (_, i) => ({
    node,
    atMs: i * 15_000,
    ageMs: WARM_UP_MS + i * 15_000,
    heapBytes: heap(i / 4),
    rssBytes: 200 * MIB,
    handles: 40,
    resources: 20,
    listeners: 300,
    diskBytes: 5 * MIB
  }))
}
const heapOf = (samples: SoakSample[]) => trendsOf(samples, LENGTH_MS).find(({ metric }) => metric === 'heapBytes')

describe('the verdict of a soak', () => {
  it('takes noise, single peaks and a warm-up in the first half as flat', () => {
    const samples = run((minute) => (70 + Math.min(20, minute) + (Math.round(minute * 4) % 40 === 0 ? 60 : 0) + 3 * Math.sin(minute)) * MIB)
    expect(heapOf(samples)).toMatchObject({ flat: true })
    expect(trendsOf(samples, LENGTH_MS).map(({ metric, flat }) => [metric, flat])).toEqual(SOAK_METRICS.map((metric) => [metric, true]))
  })

  it('finds a leak of half a MiB a minute under such noise, and what shrinks is none', () => {
    const leak = heapOf(run((minute) => (70 + 0.5 * minute + 3 * Math.sin(minute)) * MIB))
    expect(leak).toMatchObject({ flat: false })
    expect(leak?.rise).toBeGreaterThan(12 * MIB)
    expect(heapOf(run((minute) => (90 - 0.5 * minute) * MIB))).toMatchObject({ flat: true })
  })

  it('leaves out processes that still warm up, and says nothing of too few samples', () => {
    const young = run(() => 70 * MIB).map((one) => ({ ...one, ageMs: WARM_UP_MS - 1 }))
    expect(trendsOf(young, LENGTH_MS)).toEqual([])
    expect(TOLERANCES.handles).toEqual({ share: 0.1, least: 12 })
  })

  it('explains lines by name and only while a node is away or just back; all else is a finding', () => {
    const away = lineOf(
      'rock',
      0,
      JSON.stringify({ level: 'warn', component: 'net', msg: 'a bootstrap peer does not answer; it is tried again' })
    )
    expect(ruleFor(away, true)?.name).toBe('a bootstrap peer that is away')
    expect(ruleFor(away, false)).toBeUndefined()
    const other = lineOf('rock', 0, JSON.stringify({ level: 'error', component: 'store', msg: 'the disk is gone' }))
    expect(ruleFor(other, true)).toBeUndefined()
    const strange = lineOf('rock', 0, '(node:1) MaxListenersExceededWarning: Possible EventTarget memory leak detected')
    expect([strange.level, ruleFor(strange, true)]).toEqual(['error', undefined])
    for (const { name, why } of ALLOWED_LINES) expect([name, why].every((text) => text.length > 10)).toBe(true)
  })
})

describe('the accounts of a soak', () => {
  const audit = (more: Partial<NodeAudit>): NodeAudit => ({
    items: [],
    mail: [],
    tasksMissing: [],
    states: [],
    underWay: 0,
    outbox: 0,
    ...more
  })
  const accounts = () => new SoakAccounts({ taskKeptMs: 60_000 })

  it('miss an item that was acknowledged and is nowhere, and take one that came before its acknowledgement', () => {
    const of = accounts()
    of.audited('rock', audit({ items: ['early'] }), { due: of.ackedOf('rock'), asked: [] })
    of.ackedItem('rock', 'early')
    of.ackedItem('rock', 'lost')
    expect(of.itemsWaiting()).toBe(1)
    of.audited('rock', audit({}), { due: of.ackedOf('rock'), asked: [] })
    expect(of.violations).toEqual(['item lost was acknowledged and is not at rock'])
  })

  it('see what comes twice: an item after it was forgotten, a message that became two tasks', () => {
    const of = accounts()
    of.forgot(of.audited('rock', audit({ items: ['a'] }), { due: [], asked: [] }))
    of.audited('rock', audit({ items: ['a'] }), { due: [], asked: [] })
    of.mailed('m-1')
    of.audited('sleeper', audit({ mail: [{ messageId: 'm-1', taskId: 't-1', state: 'done' }] }), { due: [], asked: [] })
    of.audited('sleeper', audit({ mail: [{ messageId: 'm-1', taskId: 't-2', state: 'done' }] }), { due: [], asked: [] })
    expect(of.violations).toEqual(['item a was applied twice at rock', 'message m-1 became two tasks'])
  })

  it('wait for mail until its task has ended, and name tasks that a node lost', () => {
    const of = accounts()
    of.mailed('m-1')
    of.taskAccepted('rock', 't-1', 0)
    of.audited('sleeper', audit({ mail: [{ messageId: 'm-1', taskId: 't-9', state: 'claimed' }] }), { due: [], asked: [] })
    expect(of.mailWaiting()).toEqual(['m-1'])
    of.audited('sleeper', audit({ mail: [{ messageId: 'm-1', taskId: 't-9', state: 'done' }] }), { due: [], asked: [] })
    expect(of.mailWaiting()).toEqual([])
    expect([of.tasksOn('rock', 1_000), of.tasksOn('rock', 60_001)]).toEqual([['t-1'], []])
    of.taskAccepted('rock', 't-1', 0)
    of.audited('rock', audit({ tasksMissing: ['t-1'] }), { due: [], asked: of.tasksOn('rock', 1) })
    expect(of.violations).toEqual(['task t-1 was accepted and is not at rock'])
  })
})

describe('the picture of a soak', () => {
  it('draws each metric of each node, and parts the lives of a node', () => {
    const twoLives = run(() => 70 * MIB).map((one, i) => ({ ...one, ageMs: i < 120 ? i * 15_000 : (i - 120) * 15_000 }))
    const svg = soakSvg(twoLives, { lengthMs: LENGTH_MS, title: 'A soak' })
    expect(svg.match(/<path /g)).toHaveLength(SOAK_METRICS.length)
    expect(svg.match(/<path d="([^"]*)"/)?.[1]?.match(/M/g)).toHaveLength(2)
    expect(svg).toContain('60 min')
    expect(svg).not.toMatch(/NaN|undefined|Infinity/)
  })
})
