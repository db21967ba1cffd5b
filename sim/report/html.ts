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
<h1>${escaped(report.scenario)} <span class="verdict ${report.success ? 'good' : 'bad'}">${report.success ? 'passed' : report.interrupted ? 'interrupted' : 'failed'}</span></h1>
<p class="lead">${escaped(report.description)}</p>
<p>${report.nodes} real nodes on the ${report.transport} transport, seed ${report.seed}, ${escaped(report.startedAt)}; ${seconds(report.wallMs)} on ${report.machine.cores} cores.</p>
${report.latencyValid ? '' : '<p class="warning">The machine was the bottleneck (its event loop was saturated): latencies below measure this machine, not a network. Counts, hops and success stand.</p>'}
</header>
<section class="tiles" aria-label="Summary">
${tile('Discovery success', `${(report.discovery.successRate * 100).toFixed(1)} %`, `${report.discovery.succeeded} of ${report.discovery.searches} searches; ${(report.discovery.recall * 100).toFixed(1)} % of all members`)}
${tile('Joined the space', `${report.join.joined} / ${report.join.wanted}`, 'nodes')}
${tile('Sessions opened', `${report.sessions.opened} / ${report.sessions.wanted}`, `median handshake ${report.sessions.handshakeMs.p50} ms`)}
${tile('Memory', `${mebibytes(report.memory.rssBytesMax)} MiB`, `at its highest, ${(report.memory.bytesPerNode / 1_048_576).toFixed(2)} MiB a node`)}
</section>
<section>
<h2>Discovery</h2>
<div class="charts">
${chart('Search latency', report.discovery.latencyMs)}
${chart('Hops of a search, to the last registrar', report.discovery.hops)}
${chart('Members found by a search', report.discovery.membersFound)}
</div>
</section>
<section>
<h2>Joining and sessions</h2>
<div class="charts">
${chart('Time to join the space', report.join.latencyMs)}
${chart('Session handshake', report.sessions.handshakeMs)}
${chart('Item there and back over the session', report.sessions.roundTripMs)}
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
  ['phase', 'time', 'processor', 'loop busy', 'memory after'],
  report.phases.map((phase) => [
    phase.name,
    seconds(phase.ms),
    seconds(phase.cpuMs),
    `${(phase.utilization * 100).toFixed(0)} %`,
    `${mebibytes(phase.rssBytes)} MiB`
  ])
)}
${table(
  'The machine',
  ['measure', 'value'],
  [
    [
      'event loop delay, median / p99 / longest',
      `${report.eventLoop.delayP50Ms} / ${report.eventLoop.delayP99Ms} / ${report.eventLoop.delayMaxMs} ms`
    ],
    ['event loop busy while it was measured', `${(report.eventLoop.utilization * 100).toFixed(0)} %`],
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
        report.failuresCount > report.failures.length
          ? `Failures, the first ${report.failures.length} of ${report.failuresCount}`
          : 'Failures',
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
details { color: var(--soft); font-size: .85rem; } summary { cursor: pointer; }
.panel { margin-top: .75rem; overflow-x: auto; } code { background: var(--panel); border: 1px solid var(--line); border-radius: .25rem; padding: .1rem .35rem; overflow-wrap: anywhere; }
@media (max-width: 30rem) { .charts { grid-template-columns: 1fr; } }
`

function tile(title: string, value: string, detail: string): string {
  return `<div class="tile"><small>${escaped(title)}</small><b>${escaped(value)}</b><small>${escaped(detail)}</small></div>`
}

const WIDTH = 480
const HEIGHT = 180
const LEFT = 34
/** room for the unit beside the last label */
const RIGHT = 62
const BOTTOM = 24
const BAR_WIDTH_MAX = 56
const LABELS_MAX = 6

function chart(title: string, data: Distribution): string {
  if (data.count === 0) return `<figure><h3>${escaped(title)}</h3><p>no samples</p></figure>`
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
  const every = Math.ceil(data.bins.length / LABELS_MAX)
  const labels = data.bins
    .map((bin, i) => (i % every === 0 ? `<text x="${(LEFT + i * step + 1).toFixed(1)}" y="${HEIGHT - 8}">${number(bin.from)}</text>` : ''))
    .join('')
  const rows = data.bins.filter((bin) => bin.count > 0).map((bin) => [`${number(bin.from)} to ${number(bin.to)}`, number(bin.count)])
  return `<figure><h3>${escaped(title)}</h3>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(`Histogram of ${title.toLowerCase()}: ${caption}`)}"><line x1="${LEFT}" y1="${floor}" x2="${WIDTH}" y2="${floor}"/>${bars}${labels}<text x="0" y="16">${highest}</text><text x="${WIDTH}" y="${HEIGHT - 8}" text-anchor="end">${escaped(data.unit)}</text></svg>
<figcaption><small>${escaped(caption)}</small><details><summary>numbers</summary>${rowsTable([data.unit, 'samples'], rows)}</details></figcaption></figure>`
}

function table(title: string, head: string[], rows: string[][]): string {
  return `<div class="panel"><h3>${escaped(title)}</h3>${rowsTable(head, rows)}</div>`
}

function rowsTable(head: string[], rows: string[][]): string {
  const line = (cells: string[], tag: string) => `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`
  return `<table><thead>${line(head, 'th')}</thead><tbody>${rows.map((row) => line(row, 'td')).join('')}</tbody></table>`
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
