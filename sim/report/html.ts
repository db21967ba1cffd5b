import { stringify } from 'yaml'
import { eventLines } from '../run/event-lines.ts'
import { curves, escaped, histogram, mebibytes, number, seconds, table, topology, wakeStorm } from './charts.ts'
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
<p>${report.nodes} ${report.engine === 'model' ? 'modelled nodes on a clock of their own' : `real nodes on the ${report.transport} transport, in ${report.time} time${report.threads > 1 ? `, in ${report.threads} threads` : ''}`}, seed ${report.seed}, ${escaped(report.startedAt.slice(0, 16).replace('T', ' '))} UTC; ${seconds(report.wallMs)} on ${report.machine.cores} cores.</p>
${report.latencyValid ? '' : `<p class="warning">The machine was the bottleneck (${escaped(limitsText(report))}): latencies below measure this machine, not a network. Counts, hops and success stand.</p>`}
</header>
<section class="tiles" aria-label="Summary">
${tile('Discovery success', `${(report.discovery.successRate * 100).toFixed(1)} %`, `${report.discovery.succeeded} of ${report.discovery.searches} searches; ${(report.discovery.recall * 100).toFixed(1)} % of all members`)}
${tile('Joined the space', `${report.join.joined} / ${report.join.wanted}`, 'nodes')}
${tile('Sessions opened', `${report.sessions.opened} / ${report.sessions.wanted}`, `median handshake ${report.sessions.handshakeMs.p50} ms`)}
${tile('Memory', `${mebibytes(report.memory.rssBytesMax)} MiB`, `at its highest, ${(report.memory.bytesPerNode / 1_048_576).toFixed(2)} MiB a node`)}
</section>
<section>
<h2>Invariants</h2>
${table(
  'Judged all the time',
  ['invariant', 'state', 'judged', 'broken'],
  report.invariants.map(({ says, state, judged, brokenCount }) => [says, STATES[state], number(judged), number(brokenCount)])
)}
${
  report.broken.length === 0
    ? ''
    : table(
        'What broke',
        ['invariant', 'at', 'node', 'what'],
        report.broken.map((one) => [one.invariant, seconds(one.atMs), String(one.node), one.message])
      )
}
${
  report.checks.length === 0
    ? ''
    : table(
        'Attacks',
        ['attack', 'measured', 'value', 'bound', 'holds'],
        report.checks.map((one) => [one.attack, one.what, number(one.value), `${one.is} ${number(one.bound)}`, one.holds ? 'yes' : 'no'])
      )
}
${
  report.plan === undefined
    ? ''
    : table(
        report.shrunk === undefined
          ? 'What happened'
          : `The shortest list found that still fails: ${report.shrunk.events} of ${report.shrunk.of} events`,
        ['event'],
        eventLines(report.plan).map((line) => [line])
      )
}
</section>
<section>
<h2>Discovery</h2>
<div class="charts">
${histogram('Search latency', report.discovery.latencyMs)}
${histogram('Hops of a search, to the last registrar', report.discovery.hops)}
${histogram('Members found by a search', report.discovery.membersFound)}
${curves(
  'Success over time',
  report.series.points,
  report.series.stepMs,
  [
    { name: 'went well', ink: 'a', value: (point) => point.ok },
    { name: 'failed', ink: 'b', value: (point) => point.failed }
  ],
  'actions'
)}
</div>
</section>
<section>
<h2>Joining and sessions</h2>
<div class="charts">
${histogram('Time to join the space', report.join.latencyMs)}
${histogram('Session handshake', report.sessions.handshakeMs)}
${histogram('Item there and back over the session', report.sessions.roundTripMs)}
${histogram('Message until it is acknowledged', report.sends.latencyMs)}
</div>
</section>
<section>
<h2>Sleep</h2>
<div class="charts">
${curves(
  'Messages that wait',
  report.series.points,
  report.series.stepMs,
  [
    { name: 'in all queues', ink: 'a', value: (point) => point.queued },
    { name: 'in the longest', ink: 'b', value: (point) => point.queuedMost }
  ],
  'the most'
)}
${wakeStorm('Wakes by second of the period', report.wakes)}
</div>
</section>
<section>
<h2>The network</h2>
<div class="charts">
${report.topologies.map(topology).join('\n')}
</div>
</section>
<section>
<h2>Load</h2>
<div class="charts">
${histogram('Messages sent a node', report.messages.perNode)}
${histogram('Bytes sent a node', report.messages.bytesPerNode)}
</div>
${
  report.messages.byProtocol.length === 0
    ? ''
    : table(
        'Messages by protocol',
        ['protocol', 'messages', 'bytes'],
        report.messages.byProtocol.map((one) => [one.protocol, number(one.messages), number(one.bytes)])
      )
}
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
    ['memory left to the process, least', `${mebibytes(report.memory.availableBytesMin)} MiB`],
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
<section>
<h2>The scenario</h2>
<pre class="panel" role="region" aria-label="The scenario" tabindex="0">${escaped(stringify(report.definition))}</pre>
</section>
</main>
</body>
</html>
`
}

const STATES = { holds: 'holds', broken: 'BROKEN', 'not-seen': 'not seen in this run', off: 'off' } as const

const STYLE = `
:root { color-scheme: light dark; --ground: #fbfaf7; --panel: #fff; --ink: #1d2327; --soft: #59646c; --line: #d9dcd6; --edge: #aab4b0; --bar: #2f6f8f; --good: #1f7a4d; --bad: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181b; --panel: #1c2226; --ink: #e8ebe9; --soft: #a3adb2; --line: #333c42; --edge: #5b6871; --bar: #6cb3d4; --good: #6fcf97; --bad: #ff8a80; --warn: #f2c14e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; } h3 { font-size: .95rem; margin: 0 0 .5rem; }
p { margin: .25rem 0; } .lead { font-size: 1.05rem; } .warning { color: var(--warn); font-weight: 600; margin-top: .75rem; }
.verdict { font-size: .85rem; vertical-align: middle; border: 1px solid; border-radius: 1rem; padding: .1rem .6rem; } .good { color: var(--good); } .bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .75rem; margin-top: 1.5rem; }
.tile, figure, .panel { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 0; }
.tile b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums; } .tile small, figcaption small { color: var(--soft); } figcaption small { font-size: .85rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: .75rem; } .charts > * { min-width: 0; }
svg { width: 100%; height: auto; display: block; } svg rect { fill: var(--bar); } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } svg line { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; } td, th { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; } td:not(:first-child), th:not(:first-child) { text-align: right; white-space: nowrap; } .words td { white-space: normal; }
details { color: var(--soft); font-size: .85rem; } summary { cursor: pointer; }
svg path { fill: none; stroke: var(--bar); stroke-width: 1.5; } svg path.b { stroke: var(--bad); } svg .edge { stroke: var(--edge); stroke-width: .5; } svg circle.up, svg circle.a { fill: var(--bar); } svg circle.asleep { fill: var(--warn); } svg circle.down { fill: none; stroke: var(--soft); } svg circle.hostile, svg circle.b { fill: var(--bad); } svg.net { max-width: 26rem; margin: 0 auto; }
.key { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin: 0 .3em 0 .5em; background: var(--bar); } .key.b, .key.hostile { background: var(--bad); } .key.asleep { background: var(--warn); } .key.down { background: none; border: 1px solid var(--soft); }
pre { overflow-x: auto; font-size: .85rem; }
.panel { margin-top: .75rem; overflow-x: auto; } code { background: var(--panel); border: 1px solid var(--line); border-radius: .25rem; padding: .1rem .35rem; overflow-wrap: anywhere; }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; }
@media (max-width: 30rem) { main { padding: 1.25rem .75rem 3rem; } .charts { grid-template-columns: minmax(0, 1fr); } .tiles { grid-template-columns: 1fr 1fr; } .tile, figure, .panel { padding: .75rem; } .tile b { font-size: 1.25rem; } table { font-size: .8rem; } td, th { padding: .3rem .25rem; } svg text { font-size: 17px; } }
`

function limitsText({ machineLimits }: SimReport): string {
  return machineLimits.map((limit) => LIMITS[limit]).join('; ') || 'nothing was measured'
}

const LIMITS = { 'event-loop': 'its event loop was saturated', memory: 'its memory was nearly used up' } as const

function tile(title: string, value: string, detail: string): string {
  return `<div class="tile"><small>${escaped(title)}</small><b>${escaped(value)}</b><small>${escaped(detail)}</small></div>`
}
