import { escaped, wakeStormSvg } from './charts.ts'
import type { SimReport } from './report.ts'

const WIDTH = 480
const ROW = 214

/** Wake storms of several runs below each other, as one SVG that looks well on light and dark grounds. */
export function wakePicture(reports: readonly { title: string; report: Pick<SimReport, 'wakes' | 'nodes'> }[], periodSec = 3_600): string {
  const rows = reports.map(({ title, report }, i) => {
    const all = report.wakes.reduce((sum, { count }) => sum + count, 0)
    const most = Math.max(0, ...report.wakes.map(({ count }) => count))
    const caption = `${title}: most in one second ${most} of ${all} wakes (${((most / Math.max(1, all)) * 100).toFixed(1)} %)`
    const chart = wakeStormSvg(report.wakes, periodSec).replace('<svg ', `<svg x="0" y="${i * ROW + 26}" width="${WIDTH}" height="180" `)
    return `<text x="0" y="${i * ROW + 18}" class="title">${escaped(caption)}</text>${chart}`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${reports.length * ROW}" width="${WIDTH}" height="${reports.length * ROW}" role="img" aria-label="Wakes by second of the period: with jitter they are spread, without it they come at once">
<style>text { font: 11px system-ui, sans-serif; fill: #59646c; } .title { font-size: 13px; font-weight: 600; } rect { fill: #2f6f8f; } line { stroke: #9aa5ab; } @media (prefers-color-scheme: dark) { text { fill: #a3adb2; } rect { fill: #6cb3d4; } }</style>
${rows.join('\n')}
</svg>
`
}
