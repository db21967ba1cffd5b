import { SOAK_METRICS, type SoakMetric, type SoakSample } from './soak-verdict.ts'

const WIDTH = 720
const HEIGHT = 130
const LEFT = 70
const RIGHT = 10
const HEAD = 22
const FOOT = 16
const KEY = 26
const INKS = ['#0b6e99', '#b4540a', '#5b7f1f'] as const

const TITLES: Record<SoakMetric, string> = {
  heapBytes: 'Heap after garbage collection, MiB',
  rssBytes: 'Resident memory, MiB',
  handles: 'Open file descriptors',
  resources: 'Active resources (timers, sockets, requests)',
  listeners: 'Event listeners',
  diskBytes: 'Data folder, MiB'
}

/** The curves of all nodes, one small chart a metric, from zero up; the second half, which the verdict goes by, is shaded. */
export function soakSvg(samples: readonly SoakSample[], { lengthMs, title }: { lengthMs: number; title: string }): string {
  const nodes = [...new Set(samples.map(({ node }) => node))]
  const inkOf = (node: string) => INKS[nodes.indexOf(node) % INKS.length] as string
  const step = HEIGHT + HEAD + FOOT
  const height = KEY + SOAK_METRICS.length * step
  const x = (atMs: number) => LEFT + (Math.min(atMs, lengthMs) / lengthMs) * (WIDTH - LEFT - RIGHT)
  const charts = SOAK_METRICS.map((metric, i) => {
    const top = KEY + i * step + HEAD
    const floor = top + HEIGHT
    const highest = Math.max(1, ...samples.map((one) => one[metric]))
    const y = (value: number) => floor - (value / highest) * HEIGHT
    const lines = nodes.map((node) => {
      let lastAge = 0
      const path = samples
        .filter((one) => one.node === node)
        .map((one, k) => {
          const begins = k === 0 || one.ageMs < lastAge // another life of the node
          lastAge = one.ageMs
          return `${begins ? 'M' : 'L'}${x(one.atMs).toFixed(1)} ${y(one[metric]).toFixed(1)}`
        })
        .join('')
      return `<path d="${path}" fill="none" stroke="${inkOf(node)}" stroke-width="1.4"/>`
    })
    return (
      `<rect x="${x(lengthMs / 2).toFixed(1)}" y="${top}" width="${(x(lengthMs) - x(lengthMs / 2)).toFixed(1)}" height="${HEIGHT}" fill="#888" fill-opacity="0.09"/>` +
      `<line x1="${LEFT}" y1="${floor}" x2="${WIDTH - RIGHT}" y2="${floor}" stroke="#888"/>` +
      `<text x="${LEFT}" y="${top - 7}">${TITLES[metric]}</text><text x="${LEFT - 6}" y="${top + 10}" text-anchor="end">${shown(metric, highest)}</text>` +
      `<text x="${LEFT - 6}" y="${floor}" text-anchor="end">0</text>${lines.join('')}` +
      `<text x="${LEFT}" y="${floor + 13}">0</text><text x="${WIDTH - RIGHT}" y="${floor + 13}" text-anchor="end">${(lengthMs / 60_000).toFixed(0)} min</text>`
    )
  })
  const key = nodes.map(
    (node, i) =>
      `<rect x="${LEFT + i * 110}" y="8" width="12" height="4" fill="${inkOf(node)}"/><text x="${LEFT + i * 110 + 18}" y="15">${node}</text>`
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11" fill="#444" role="img" aria-label="${title}"><title>${title}</title><rect width="${WIDTH}" height="${height}" fill="#fff"/>${key.join('')}${charts.join('')}</svg>\n`
}

function shown(metric: SoakMetric, value: number): string {
  return metric.endsWith('Bytes') ? (value / 1_048_576).toFixed(value < 10 * 1_048_576 ? 1 : 0) : String(Math.round(value))
}
