import type { Distribution } from './distribution.ts'
import type { SimReport } from './report.ts'

/** `report.html`: one file, no network, light and dark, charts as SVG with their numbers as tables for those who cannot see them. */
export function renderHtml(report: SimReport): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(report.scenario)}, ${report.nodes} nodes, seed ${report.seed}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<header>
<h1>${escaped(report.scenario)} <span class="verdict ${report.success ? 'good' : 'bad'}">${report.success ? 'passed' : 'failed'}</span></h1>
<p class="lead">${escaped(report.description)}</p>
<p>${report.nodes} real nodes on the ${report.transport} transport, seed ${report.seed}, ${escaped(report.startedAt)}; ${seconds(report.wallMs)} on ${report.machine.cores} cores.</p>
${report.latencyValid ? '' : '<p class="warning">The machine was the bottleneck (its event loop was saturated): latencies below measure this machine, not a network. Counts, hops and success stand.</p>'}
</header>
<section class="tiles" aria-label="Summary">
${tile('Discovery success', `${(report.discovery.successRate * 100).toFixed(1)} %`, `${report.discovery.succeeded} of ${report.discovery.searches} searches`)}
${tile('Joined the space', `${report.join.joined} / ${report.join.wanted}`, 'nodes')}
${tile('Sessions opened', `${report.sessions.opened} / ${report.sessions.wanted}`, `median handshake ${report.sessions.handshakeMs.p50} ms`)}
${tile('Memory', `${mebibytes(report.memory.rssBytesMax)} MiB`, `at its highest, ${(report.memory.bytesPerNode / 1_048_576).toFixed(2)} MiB a node`)}
</section>
<section>
<h2>Discovery</h2>
<div class="charts">
${chart('Search latency', report.discovery.latencyMs)}
${chart('Hops to the nearest registrar', report.discovery.hops)}
</div>
</section>
<section>
<h2>Joining and sessions</h2>
<div class="charts">
${chart('Time to join the space', report.join.latencyMs)}
${chart('Session handshake', report.sessions.handshakeMs)}
</div>
</section>
<section>
<h2>Load</h2>
<div class="charts">
${chart('Messages sent a node', report.messages.perNode)}
${chart('Bytes sent a node', report.messages.bytesPerNode)}
</div>
${table(
  'Messages by protocol',
  ['protocol', 'messages', 'bytes'],
  report.messages.byProtocol.map((one) => [one.protocol, number(one.messages), number(one.bytes)])
)}
</section>
<section>
<h2>The run</h2>
<div class="charts">
${table(
  'Phases',
  ['phase', 'time'],
  report.phases.map((phase) => [phase.name, seconds(phase.ms)])
)}
${table(
  'The machine',
  ['measure', 'value'],
  [
    [
      'event loop delay, median / p99 / longest',
      `${report.eventLoop.delayP50Ms} / ${report.eventLoop.delayP99Ms} / ${report.eventLoop.delayMaxMs} ms`
    ],
    ['event loop utilization', `${(report.eventLoop.utilization * 100).toFixed(0)} %`],
    [
      'memory before, booted, highest',
      `${mebibytes(report.memory.rssBytesBefore)}, ${mebibytes(report.memory.rssBytesBooted)}, ${mebibytes(report.memory.rssBytesMax)} MiB`
    ],
    ['Node', report.machine.node],
    ['platform', report.machine.platform]
  ]
)}
</div>
${
  report.failures.length === 0
    ? '<p>No failures.</p>'
    : table(
        'Failures',
        ['what', 'node', 'code', 'message'],
        report.failures.map((one) => [one.what, String(one.node), one.code, one.message])
      )
}
<p>The same again: <code>${escaped(report.replay)}</code></p>
</section>
</main>
</body>
</html>
`
}

const STYLE = `
:root { color-scheme: light dark; --ground: #fbfaf7; --panel: #fff; --ink: #1d2327; --soft: #59646c; --line: #d9dcd6; --bar: #2f6f8f; --good: #1f7a4d; --bad: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181b; --panel: #1c2226; --ink: #e8ebe9; --soft: #a3adb2; --line: #333c42; --bar: #6cb3d4; --good: #6fcf97; --bad: #ff8a80; --warn: #f2c14e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; } h3 { font-size: .95rem; margin: 0 0 .5rem; }
p { margin: .25rem 0; } .lead { font-size: 1.05rem; } .warning { color: var(--warn); font-weight: 600; margin-top: .75rem; }
.verdict { font-size: .85rem; vertical-align: middle; border: 1px solid; border-radius: 1rem; padding: .1rem .6rem; } .good { color: var(--good); } .bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .75rem; margin-top: 1.5rem; }
.tile, figure, .panel { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 0; }
.tile b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums; } .tile small, figcaption small { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: .75rem; }
svg { width: 100%; height: auto; display: block; } svg rect { fill: var(--bar); } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } svg line { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; } td, th { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; } td:not(:first-child), th:not(:first-child) { text-align: right; }
.panel { margin-top: .75rem; overflow-x: auto; } code { background: var(--panel); border: 1px solid var(--line); border-radius: .25rem; padding: .1rem .35rem; overflow-wrap: anywhere; }
@media (max-width: 30rem) { .charts { grid-template-columns: 1fr; } }
`

function tile(title: string, value: string, detail: string): string {
  return `<div class="tile"><small>${escaped(title)}</small><b>${escaped(value)}</b><small>${escaped(detail)}</small></div>`
}

const WIDTH = 480
const HEIGHT = 180
const LEFT = 34
const BOTTOM = 24

function chart(title: string, data: Distribution): string {
  const caption = `median ${number(data.p50)}, p90 ${number(data.p90)}, p99 ${number(data.p99)}, longest ${number(data.max)} ${data.unit}; ${data.count} samples`
  if (data.count === 0) return `<figure><h3>${escaped(title)}</h3><p>no samples</p></figure>`
  const most = Math.max(...data.bins.map((bin) => bin.count))
  const step = (WIDTH - LEFT) / data.bins.length
  const bars = data.bins
    .map((bin, i) => {
      const height = (bin.count / most) * (HEIGHT - BOTTOM - 12)
      return `<rect x="${(LEFT + i * step + 1).toFixed(1)}" y="${(HEIGHT - BOTTOM - height).toFixed(1)}" width="${Math.max(1, step - 2).toFixed(1)}" height="${height.toFixed(1)}"><title>${number(bin.from)} to ${number(bin.to)} ${escaped(data.unit)}: ${bin.count}</title></rect>`
    })
    .join('')
  const every = Math.ceil(data.bins.length / 6)
  const labels = data.bins
    .filter((_, i) => i % every === 0)
    .map((bin, i) => `<text x="${(LEFT + i * every * step).toFixed(1)}" y="${HEIGHT - 8}">${number(bin.from)}</text>`)
    .join('')
  return `<figure><h3>${escaped(title)}</h3>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(`Histogram of ${title.toLowerCase()}: ${caption}`)}"><line x1="${LEFT}" y1="${HEIGHT - BOTTOM}" x2="${WIDTH}" y2="${HEIGHT - BOTTOM}"/>${bars}${labels}<text x="0" y="16">${most}</text><text x="${WIDTH}" y="${HEIGHT - 8}" text-anchor="end">${escaped(data.unit)}</text></svg>
<figcaption><small>${escaped(caption)}</small></figcaption></figure>`
}

function table(title: string, head: string[], rows: string[][]): string {
  const line = (cells: string[], tag: string) => `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`
  return `<div class="panel"><h3>${escaped(title)}</h3><table><thead>${line(head, 'th')}</thead><tbody>${rows.map((row) => line(row, 'td')).join('')}</tbody></table></div>`
}

function number(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 })
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`
}

function mebibytes(bytes: number): string {
  return Math.round(bytes / 1_048_576).toString()
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;')
}
