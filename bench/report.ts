import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { outFolder, type Question, quantile, type Row } from './harness.ts'
import { TARGETS, type Target } from './targets.ts'

type Figures = Question & { rows: readonly Row[]; at: string; machine: { cores: number; cpu: string; node: string } }

/** One comparison with one peer. Ratios are ours ÷ theirs, round by round. */
export interface Line {
  readonly target: Target
  readonly peer: string
  readonly unit: string
  readonly better: 'lower' | 'higher'
  readonly ratio: number
  readonly ratioP25: number
  readonly ratioP75: number
  readonly rounds: number
  /** the floor's ratio to the same peer, where one was measured with it */
  readonly floor: { readonly name: string; readonly ratio: number } | undefined
  /** undefined where no goal was set */
  readonly met: boolean | undefined
}

/** @returns what bench/out holds, in the order of {@link TARGETS}, and what of it was not measured */
export function linesOf(targets: readonly Target[] = TARGETS, folder = outFolder()): { lines: Line[]; missing: Target[] } {
  const lines: Line[] = []
  const missing: Target[] = []
  for (const target of targets) {
    const line = lineOf(target, folder)
    if (line === undefined) missing.push(target)
    else lines.push(line)
  }
  return { lines, missing }
}

function lineOf(target: Target, folder: string): Line | undefined {
  const file = join(folder, `${target.id}.json`)
  if (!existsSync(file)) return undefined
  const { rows, baseline, unit, better } = JSON.parse(readFileSync(file, 'utf8')) as Figures
  const ours = rows.find(({ name }) => name.startsWith(target.ours))
  const peer = rows.find(({ name }) => name.startsWith(target.peer ?? baseline))
  if (ours === undefined || peer === undefined || ours === peer) return undefined
  const least = target.floor === undefined ? undefined : rows.find(({ name }) => name.startsWith(target.floor as string))
  const ratios = ours.samples.map((value, i) => value / (peer.samples[i] ?? Number.NaN))
  const ratio = quantile(ratios, 0.5)
  const { atMost, atLeast } = target
  return {
    target,
    peer: peer.name,
    unit,
    better,
    ratio,
    ratioP25: quantile(ratios, 0.25),
    ratioP75: quantile(ratios, 0.75),
    rounds: ratios.length,
    floor:
      least === undefined
        ? undefined
        : {
            name: least.name.replace(/^floor: /, ''),
            ratio: quantile(
              least.samples.map((value, i) => value / (peer.samples[i] ?? Number.NaN)),
              0.5
            )
          },
    met: atMost === undefined && atLeast === undefined ? undefined : ratio <= (atMost ?? ratio) && ratio >= (atLeast ?? ratio)
  }
}

export function goalOf({ atMost, atLeast }: Target): string {
  if (atMost !== undefined) return `≤ ${atMost}×`
  return atLeast === undefined ? '' : `≥ ${atLeast}×`
}

const times = (value: number) => `${value.toFixed(2)}×`

export function table(lines: readonly Line[]): string {
  const rows = lines.map(({ target, peer, unit, ratio, ratioP25, ratioP75, met }) => [
    target.what,
    peer,
    times(ratio),
    `${ratioP25.toFixed(2)} … ${ratioP75.toFixed(2)}`,
    goalOf(target),
    met === undefined ? '' : met ? 'met' : 'missed',
    unit
  ])
  const head = ['what', 'beside', 'ratio', 'quartiles', 'goal', '', 'unit']
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const text = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return [head, ...rows].map((row) => text(row).trimEnd()).join('\n')
}

/** The table as a page of docs/. */
export function page(lines: readonly Line[], note: string): string {
  const rows = lines.map(
    ({ target, peer, unit, ratio, ratioP25, ratioP75, met }) =>
      `| ${target.what} | ${peer.replaceAll('|', '\\|')} | ${times(ratio)} | ${ratioP25.toFixed(2)} … ${ratioP75.toFixed(2)} | ${goalOf(target)}${met === false ? ' (missed)' : ''} | ${unit} |`
  )
  return `# Speed beside others

Ratios of our figure to the other's, taken round by round in one run on one machine, so that what else the machine does weighs on both. Where the unit is a
time, less is better; where it is a rate, more is. \`npm run bench\` measures all of it anew, \`npm run bench -- --docs\` writes this page, and
\`npm run bench:guard\` holds some of the ratios in CI.

![bars of the table below](benchmarks.svg)

| what | beside | ratio | quartiles | goal | unit |
| ---- | ------ | ----- | --------- | ---- | ---- |
${rows.join('\n')}

${note}

What the others do not do weighs in: a session's handshake is signed, cookie-guarded and bound to its transcript, a durable message is synced on both sides
before it is acknowledged, a message for one who sleeps is sealed, signed, checked and synced; an echo server does none of that.

${floors(lines)}`
}

/** What the guarantees alone cost, measured in the same rounds. */
function floors(lines: readonly Line[]): string {
  const rows = lines.flatMap(({ target, peer, ratio, floor, met }) =>
    floor === undefined
      ? []
      : [
          `| ${target.what} | ${peer.split(/[,(:]/)[0]} | ${floor.name} | ${times(floor.ratio)} | ${times(ratio)} | ${goalOf(target)}${met === false ? ' (missed)' : ''} |`
        ]
  )
  if (rows.length === 0) return ''
  return `## What the guarantees cost at least

Beside some of them a row was measured that does nothing but what the guarantee demands: the syncs of the disk, the signatures, the sealing, and no
protocol, no bounds, no HTTP, one message at a time. Only who gathers several messages into one sync gets past it. Where the time of each path goes:
[performance](performance.md).

| what | beside | floor | floor to the peer | ours to the peer | goal |
| ---- | ------ | ----- | ----------------- | ---------------- | ---- |
${rows.join('\n')}
`
}

const WIDTH = 860
const ROW = 30
const LEFT = 330
const RIGHT = 120
const TOP = 64
/** how much better or worse the picture reaches */
const REACH = 16

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** A picture of the table: how many times as good as the peer, on a logarithmic axis, with quartiles and goals. */
export function picture(lines: readonly Line[], note: string): string {
  const goodness = (line: Line, ratio: number) => (line.better === 'higher' ? ratio : 1 / ratio)
  const span = WIDTH - LEFT - RIGHT
  const x = (good: number) => LEFT + ((Math.log(Math.min(REACH, Math.max(1 / REACH, good))) / Math.log(REACH) + 1) / 2) * span
  const height = TOP + lines.length * ROW + 40
  const axis = [1 / 16, 1 / 4, 1, 4, 16].map((good) => {
    const at = x(good).toFixed(1)
    const name = good === 1 ? 'as the peer' : good < 1 ? `1/${1 / good}` : `${good}×`
    return `<line class="${good === 1 ? 'one' : 'grid'}" x1="${at}" x2="${at}" y1="${TOP - 8}" y2="${height - 36}"/><text class="small" x="${at}" y="${TOP - 14}" text-anchor="middle">${name}</text>`
  })
  const bars = lines.map((line, index) => {
    const y = TOP + index * ROW
    const middle = y + 11
    const good = goodness(line, line.ratio)
    const [low, high] = [goodness(line, line.ratioP25), goodness(line, line.ratioP75)].sort((a, b) => a - b) as [number, number]
    const [from, to] = [x(1), x(good)].sort((a, b) => a - b) as [number, number]
    const goal = line.target.atMost ?? line.target.atLeast
    const mark = goal === undefined ? '' : goalMark(x(goodness(line, goal)), y)
    return [
      `<text x="${LEFT - 12}" y="${middle - 1}" text-anchor="end">${escaped(line.target.what)}</text>`,
      `<text class="small" x="${LEFT - 12}" y="${middle + 11}" text-anchor="end">beside ${escaped(line.peer.split(/[,(:]/)[0] ?? '')}</text>`,
      `<rect class="${line.met === false ? 'missed' : 'bar'}" x="${from.toFixed(1)}" y="${y + 3}" width="${Math.max(1, to - from).toFixed(1)}" height="14"/>`,
      `<line class="spread" x1="${x(low).toFixed(1)}" x2="${x(high).toFixed(1)}" y1="${middle - 1}" y2="${middle - 1}"/>`,
      mark,
      `<text x="${WIDTH - RIGHT + 14}" y="${middle + 3}">${times(line.ratio)} ${escaped(goalOf(line.target))}</text>`
    ].join('')
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="Speed beside others, as ratios">
<style>
text{font:12px system-ui,sans-serif;fill:#1f2430}.small{font-size:9.5px;fill:#667}.title{font-size:15px;font-weight:600}
rect.bar{fill:#3b7a57}rect.missed{fill:#c98a2b}.grid{stroke:#ccd}.one{stroke:#556;stroke-width:1.5}.spread{stroke:#111;stroke-width:2}.goal{fill:none;stroke:#8a1c4a;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6e8ee}.small{fill:#9aa3b5}.grid{stroke:#39404f}.one{stroke:#aab}.spread{stroke:#fff}.goal{stroke:#ff7fb2}}
</style>
<text class="title" x="16" y="24">Speed beside others: to the right is better than the peer</text>
${axis.join('\n')}
${bars.join('\n')}
<text class="small" x="16" y="${height - 12}">${escaped(note)}</text>
</svg>
`
}

function goalMark(at: number, y: number): string {
  return `<path class="goal" d="M${at.toFixed(1)} ${y} v20"/>`
}
