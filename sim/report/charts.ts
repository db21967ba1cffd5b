import type { SeriesPoint, Topology } from '../run/recorder.ts'
import type { Distribution } from './distribution.ts'

const WIDTH = 480
const HEIGHT = 180
const LEFT = 44
const RIGHT = 8
const BOTTOM = 24
const BAR_WIDTH_MAX = 56
/** Labels stand at least this far apart: room for the longest in the larger letters of a narrow screen */
const LABEL_ROOM = 84

export function histogram(title: string, data: Distribution): string {
  if (data.count === 0) return `<figure><h3>${escaped(title)}</h3><p>no samples</p></figure>`
  const heading = title.toLowerCase().includes(data.unit) ? title : `${title}, ${data.unit}`
  const caption = `median ${number(data.p50)}, p90 ${number(data.p90)}, p99 ${number(data.p99)}, most ${number(data.max)} ${data.unit}; ${data.count} samples`
  const highest = Math.max(...data.bins.map((bin) => bin.count))
  const step = Math.min(BAR_WIDTH_MAX, (WIDTH - LEFT - RIGHT) / data.bins.length)
  const floor = HEIGHT - BOTTOM
  const bars = data.bins
    .map((bin, i) => {
      const height = (bin.count / highest) * (floor - 12)
      const name = `${number(bin.from)} to ${number(bin.to)} ${escaped(data.unit)}: ${bin.count}`
      return `<rect x="${(LEFT + i * step + 1).toFixed(1)}" y="${(floor - height).toFixed(1)}" width="${Math.max(1, step - 2).toFixed(1)}" height="${height.toFixed(1)}"><title>${name}</title></rect>`
    })
    .join('')
  const every = Math.ceil(LABEL_ROOM / step)
  const labels = data.bins
    .map((bin, i) => {
      const x = LEFT + i * step + 1
      // the last one must not be cut by the edge
      return i % every === 0 && x <= WIDTH - LABEL_ROOM / 2 ? `<text x="${x.toFixed(1)}" y="${HEIGHT - 8}">${short(bin.from)}</text>` : ''
    })
    .join('')
  const rows = data.bins.filter((bin) => bin.count > 0).map((bin) => [`${number(bin.from)} to ${number(bin.to)}`, number(bin.count)])
  return `<figure><h3>${escaped(heading)}</h3>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(`Histogram of ${title.toLowerCase()}: ${caption}`)}"><line x1="${LEFT}" y1="${floor}" x2="${WIDTH}" y2="${floor}"/>${bars}${labels}<text x="0" y="16">${short(highest)}</text></svg>
<figcaption><small>${escaped(caption)}</small><details><summary>numbers</summary>${rowsTable([data.unit, 'samples'], rows)}</details></figcaption></figure>`
}

export interface Curve {
  name: string
  /** of the palette: `a` or `b` */
  ink: 'a' | 'b'
  value(point: SeriesPoint): number
}

/** Curves over the time of the run. */
export function curves(title: string, points: readonly SeriesPoint[], stepMs: number, list: readonly Curve[], unit: string): string {
  const highest = Math.max(0, ...points.flatMap((point) => list.map(({ value }) => value(point))))
  if (points.length === 0 || highest === 0) return `<figure><h3>${escaped(title)}</h3><p>no samples</p></figure>`
  const first = points[0]?.atMs ?? 0
  const span = Math.max(stepMs, (points.at(-1)?.atMs ?? 0) + stepMs - first)
  const floor = HEIGHT - BOTTOM
  const x = (atMs: number) => LEFT + ((atMs - first) / span) * (WIDTH - LEFT - 8)
  const y = (value: number) => floor - (value / highest) * (floor - 12)
  const lines = list
    .map(({ ink, value, name }) => {
      const path = points.map((point, i) => `${i === 0 ? 'M' : 'L'}${x(point.atMs).toFixed(1)} ${y(value(point)).toFixed(1)}`).join('')
      return `<path class="${ink}" d="${path}"><title>${escaped(name)}</title></path>${points.length === 1 ? `<circle class="${ink}" cx="${x(first).toFixed(1)}" cy="${y(value(points[0] as SeriesPoint)).toFixed(1)}" r="3"/>` : ''}`
    })
    .join('')
  const caption = list.map(({ name, value }) => `${name}: most ${number(Math.max(...points.map(value)))}`).join('; ')
  const rows = points.map((point) => [seconds(point.atMs), ...list.map(({ value }) => number(value(point)))])
  return `<figure><h3>${escaped(title)}</h3>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(`${title}: ${caption}`)}"><line x1="${LEFT}" y1="${floor}" x2="${WIDTH}" y2="${floor}"/>${lines}<text x="0" y="16">${short(highest)}</text><text x="${LEFT}" y="${HEIGHT - 8}">${seconds(first)}</text><text x="${WIDTH}" y="${HEIGHT - 8}" text-anchor="end">${seconds(first + span)}</text></svg>
<figcaption><small>${list.map(({ name, ink }) => `<span class="key ${ink}"></span>${escaped(name)}`).join(' ')}; ${escaped(unit)} in each ${seconds(stepMs)}</small><details><summary>numbers</summary>${rowsTable(['time', ...list.map(({ name }) => name)], rows)}</details></figcaption></figure>`
}

/** Who woke in which second of the period. */
export function wakeStorm(title: string, wakes: readonly { second: number; count: number }[], periodSec = 3_600): string {
  const all = wakes.reduce((sum, { count }) => sum + count, 0)
  if (all === 0) return `<figure><h3>${escaped(title)}</h3><p>nobody woke by itself</p></figure>`
  const most = Math.max(...wakes.map(({ count }) => count))
  const busiest = [...wakes].sort((a, b) => b.count - a.count || a.second - b.second).slice(0, BUSIEST_MAX)
  const rows = busiest.map(({ second, count }) => [`${second} s`, number(count)])
  return `<figure><h3>${escaped(title)}</h3>${wakeStormSvg(wakes, periodSec)}<figcaption><small>${number(all)} wakes; most in one second: ${number(most)}, ${((most / all) * 100).toFixed(1)} % of all</small><details><summary>the busiest seconds</summary>${rowsTable(['second', 'wakes'], rows)}</details></figcaption></figure>`
}

const WAKE_BINS = 120
/** Seconds that are told in numbers */
const BUSIEST_MAX = 20

/** The picture alone: bars over the period, as high as the busiest second in each. */
export function wakeStormSvg(wakes: readonly { second: number; count: number }[], periodSec: number): string {
  const bins = Array.from({ length: WAKE_BINS }, () => 0)
  for (const { second, count } of wakes) {
    const at = Math.min(WAKE_BINS - 1, Math.floor((second / periodSec) * WAKE_BINS))
    bins[at] = Math.max(bins[at] as number, count)
  }
  const most = Math.max(...bins)
  const floor = HEIGHT - BOTTOM
  const step = (WIDTH - LEFT) / WAKE_BINS
  const bars = bins
    .map((count, i) => {
      const height = (count / most) * (floor - 12)
      return count === 0
        ? ''
        : `<rect x="${(LEFT + i * step).toFixed(1)}" y="${(floor - height).toFixed(1)}" width="${Math.max(1, step - 0.5).toFixed(1)}" height="${height.toFixed(1)}"/>`
    })
    .join('')
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Wakes by second of the period; most in one second: ${most}"><line x1="${LEFT}" y1="${floor}" x2="${WIDTH}" y2="${floor}"/>${bars}<text x="0" y="16">${most}</text><text x="${LEFT}" y="${HEIGHT - 8}">0 s</text><text x="${WIDTH}" y="${HEIGHT - 8}" text-anchor="end">${periodSec} s</text></svg>`
}

const RADIUS = 150
const MIDDLE = 170

/** The network in a ring, by region; lines are connections (of a model: nearest neighbours). */
export function topology({ label, atMs, nodes, edges, ofNodes, ofEdges }: Topology): string {
  const ring = [...nodes].sort((a, b) => (a.region < b.region ? -1 : a.region > b.region ? 1 : a.index - b.index))
  const place = new Map(
    ring.map(({ index }, i) => {
      const angle = (i / Math.max(1, ring.length)) * 2 * Math.PI - Math.PI / 2
      return [index, [MIDDLE + RADIUS * Math.cos(angle), MIDDLE + RADIUS * Math.sin(angle)] as const]
    })
  )
  const lines = edges
    .map(([a, b]) => {
      const from = place.get(a)
      const to = place.get(b)
      return from === undefined || to === undefined
        ? ''
        : `M${from[0].toFixed(1)} ${from[1].toFixed(1)}L${to[0].toFixed(1)} ${to[1].toFixed(1)}`
    })
    .join('')
  const size = ring.length > 200 ? 2 : ring.length > 60 ? 3 : 5
  const dots = ring
    .map(({ index, region, state }) => {
      const [x, y] = place.get(index) ?? [0, 0]
      return `<circle class="${state}" cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${size}"><title>node ${index}, ${escaped(region)}, ${state}</title></circle>`
    })
    .join('')
  const shown = ofNodes > nodes.length ? `the first ${nodes.length} of ${ofNodes} nodes` : `${nodes.length} nodes`
  const drawn = ofEdges > edges.length ? `${edges.length} of ${ofEdges} lines between them` : `${edges.length} lines between them`
  const states = (['up', 'asleep', 'down', 'hostile'] as const)
    .map((state) => [state, nodes.filter((node) => node.state === state).length] as const)
    .filter(([, count]) => count > 0)
  return `<figure><h3>${escaped(label)}, ${seconds(atMs)}</h3>
<svg class="net" viewBox="0 0 ${2 * MIDDLE} ${2 * MIDDLE}" role="img" aria-label="${escaped(`The network: ${shown}, ${drawn}`)}"><path class="edge" d="${lines}"/>${dots}</svg>
<figcaption><small>${escaped(`${shown}, ${drawn}`)}; ${states.map(([state, count]) => `<span class="key ${state}"></span>${state} ${count}`).join(' ')}</small></figcaption></figure>`
}

/** A table that may be wider than its panel, and can then be moved with the keys. */
export function table(title: string, head: string[], rows: string[][]): string {
  return `<div class="panel" role="region" aria-label="${escaped(title)}" tabindex="0"><h3>${escaped(title)}</h3>${rowsTable(head, rows)}</div>`
}

export function rowsTable(head: string[], rows: string[][]): string {
  const line = (cells: string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}${tag === 'th' ? ' scope="col"' : ''}>${escaped(cell)}</${tag}>`).join('')}</tr>`
  return `<table><thead>${line(head, 'th')}</thead><tbody>${rows.map((row) => line(row, 'td')).join('')}</tbody></table>`
}

export function number(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 })
}

/** As an axis has room for: 2,000 as it is, 2,000,000 as 2M. */
function short(value: number): string {
  return value < 10_000 ? number(value) : value.toLocaleString('en', { notation: 'compact', maximumSignificantDigits: 3 })
}

export function seconds(ms: number): string {
  if (ms >= 600_000) return `${(ms / 60_000).toFixed(0)} min`
  return `${(ms / 1_000).toLocaleString('en', { maximumFractionDigits: ms < 10_000 ? 2 : 1 })} s`
}

export function mebibytes(bytes: number): string {
  return Math.round(bytes / 1_048_576).toString()
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;')
}
