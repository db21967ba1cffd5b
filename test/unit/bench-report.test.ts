import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { linesOf, picture, table } from '../../bench/report.ts'
import type { Target } from '../../bench/targets.ts'

const folder = mkdtempSync(join(tmpdir(), 'rookery-bench-report-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const figures = (better: 'lower' | 'higher', samples: Record<string, number[]>) => ({
  question: 'how long?',
  unit: 'ms',
  better,
  placement: 'here',
  baseline: 'peer <a>, as shipped',
  rounds: 3,
  rows: Object.entries(samples).map(([name, values]) => ({ name, samples: values }))
})

describe('the table of benchmarks', () => {
  writeFileSync(
    join(folder, 'dial.json'),
    JSON.stringify(figures('lower', { 'peer <a>, as shipped': [10, 20, 40], 'peer b': [1, 1, 1], 'ours, all of it': [20, 30, 80] }))
  )
  writeFileSync(
    join(folder, 'rate.json'),
    JSON.stringify(figures('higher', { 'peer <a>, as shipped': [10, 10, 10], 'ours, all of it': [5, 5, 5] }))
  )
  const targets: Target[] = [
    { id: 'dial', what: 'dial', ours: 'ours', atMost: 1.9 },
    { id: 'dial', what: 'dial', ours: 'ours', peer: 'peer b' },
    { id: 'rate', what: 'rate', ours: 'ours', atLeast: 0.5 },
    { id: 'rate', what: 'rate', ours: 'ours', peer: 'a server that is not here' },
    { id: 'none', what: 'nothing', ours: 'ours' }
  ]

  it('holds medians of the ratios round by round, against the baseline or the peer named, and whether the goal is met', () => {
    const { lines, missing } = linesOf(targets, folder)
    expect(lines.map(({ peer, ratio, ratioP25, ratioP75, met }) => [peer, ratio, ratioP25, ratioP75, met])).toEqual([
      ['peer <a>, as shipped', 2, 1.75, 2, false],
      ['peer b', 30, 25, 55, undefined],
      ['peer <a>, as shipped', 0.5, 0.5, 0.5, true]
    ])
    expect(missing.map(({ id }) => id)).toEqual(['rate', 'none'])
    expect(table(lines).split('\n').slice(1)).toEqual([
      expect.stringMatching(/^dial {2}peer <a>, as shipped {2}2\.00× .*≤ 1\.9× +missed +ms$/),
      expect.stringMatching(/^dial {2}peer b .*30\.00×/),
      expect.stringMatching(/^rate .*0\.50× .*≥ 0\.5× +met +ms$/)
    ])
  })

  it('is drawn with what is better to the right, whichever way the figure goes, and with names as text', () => {
    const svg = picture(linesOf(targets, folder).lines, 'Node < 25')
    const bars = [...svg.matchAll(/<rect class="(bar|missed)" x="([\d.]+)" y="\d+" width="([\d.]+)"/g)].map(([, kind, x, width]) => [
      kind,
      Number(x) + Number(width)
    ])
    const one = Number(/class="one" x1="([\d.]+)"/.exec(svg)?.[1])
    expect(bars.map(([kind]) => kind)).toEqual(['missed', 'bar', 'bar'])
    for (const [, end] of bars) expect(end).toBeCloseTo(one, 0) // all three are worse than the peer: their bars end there
    expect(svg).not.toContain('<a>')
    expect(svg).toContain('Node &lt; 25')
  })
})
