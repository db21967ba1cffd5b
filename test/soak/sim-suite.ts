import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defaultNodes, loadScenario, runScenario, type SimReport, shippedNames } from '../../sim/index.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { refused, scriptOptions } from '../support/script-options.ts'

const FOLDER = 'sim-out'
const USAGE = `npm run sim:suite -- [<scenario> …] [--full] [--real-time]

Every shipped scenario at its small size, one after the other. What was seen goes to ${FOLDER}/suite.json, and as a table to ${FOLDER}/suite.md, after each
of them, Ctrl-C included. Ends with 1 where one fails, with 130 where it was interrupted.

  <scenario>   those only: ${shippedNames().join(', ')}
  --full       at their own size
  --real-time  a second is a second; as a rule real nodes run in virtual time, so that no verdict hangs on how busy the machine is
`

/** One scenario's line in the table. */
interface Row {
  scenario: string
  engine: string
  nodes: number
  seed: number
  passed: boolean
  wallMs: number
  cpuMs: number
  /** judged and held; broken; not seen in this run */
  invariants: { held: string[]; broken: string[]; unseen: string[] }
  /** checks of attacks that held, of all */
  checks: { held: number; of: number }
  why: string[]
}

const say = (line: string) => process.stdout.write(`${line}\n`)
const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

const { values, positionals: wanted } = scriptOptions(
  USAGE,
  { full: { type: 'boolean', default: false }, 'real-time': { type: 'boolean', default: false } },
  true
)
const size = values.full ? 'full' : 'small'
const time = values['real-time'] ? 'real' : 'virtual'
const unknown = wanted.find((word) => !shippedNames().includes(word))
if (unknown !== undefined) refused(`there is no scenario ${unknown}`, USAGE)
// what each attack does alone, the two hostile ones do together: the small suite plays the shorter
const names = shippedNames().filter((name) =>
  wanted.length > 0 ? wanted.includes(name) : name !== (size === 'small' ? 'hostile' : 'hostile-short')
)
const stopping = new AbortController()
process.once('SIGINT', () => stopping.abort(new Error('interrupted')))

const rows: Row[] = []
const startedMs = systemClock.monotonicMs()
await mkdir(FOLDER, { recursive: true })
for (const [i, name] of names.entries()) {
  if (stopping.signal.aborted) break
  const definition = loadScenario(name)
  const timeline = definition.timeline.map((entry) => ('attack' in entry ? { ...entry, with: smaller(entry.with) } : entry))
  const nodes = size === 'full' ? defaultNodes(definition) : (definition.small ?? defaultNodes(definition))
  say(`${String(i + 1).padStart(2)} of ${names.length}  ${name}, ${nodes} nodes; ${seconds(systemClock.monotonicMs() - startedMs)} so far`)
  const report = await runScenario(size === 'full' ? definition : { ...definition, timeline }, {
    nodes,
    signal: stopping.signal,
    ...(definition.engine === 'real' ? { time } : {})
  })
  const row = rowOf(report)
  rows.push(row)
  say(`${row.passed ? 'passed' : 'FAILED'}   ${row.engine}, seed ${row.seed}: ${seconds(row.wallMs)}, processor ${seconds(row.cpuMs)}`)
  for (const what of row.why.slice(0, 8)) say(`         ${what}`)
  if (!row.passed) say(`         ${report.replay}`)
  const wallMs = systemClock.monotonicMs() - startedMs
  await writeFile(join(FOLDER, 'suite.json'), `${JSON.stringify({ size, wallMs: Math.round(wallMs), rows }, null, 2)}\n`)
  await writeFile(join(FOLDER, 'suite.md'), `${table()}\n`)
}
say(`\n${table()}\n`)
const passed = rows.filter((row) => row.passed).length
say(`${passed} of ${names.length} passed in ${seconds(systemClock.monotonicMs() - startedMs)}`)
process.exit(stopping.signal.aborted ? 130 : passed === names.length ? 0 : 1)

function rowOf(report: SimReport): Row {
  const of = (state: string) => report.invariants.filter((one) => one.state === state).map(({ invariant }) => invariant)
  const missed = report.checks.filter(({ holds }) => !holds)
  const broken = of('broken')
  return {
    scenario: report.scenario,
    engine: report.engine === 'model' ? 'modelled' : report.time === 'virtual' ? 'real, virtual time' : 'real',
    nodes: report.nodes,
    seed: report.seed,
    passed: report.success,
    wallMs: report.wallMs,
    cpuMs: report.phases.reduce((sum, phase) => sum + phase.cpuMs, 0),
    invariants: { held: of('holds'), broken, unseen: of('not-seen') },
    checks: { held: report.checks.length - missed.length, of: report.checks.length },
    why: [
      ...broken.map((invariant) => `broken: ${invariant}`),
      ...missed.map(({ attack, what, value, is, bound }) => `${attack}: ${what} ${value}, ${is} ${bound}`),
      ...report.failures.map(({ what, node, message }) => `${what}, node ${node}: ${message}`)
    ]
  }
}

/** As Markdown. */
function table(): string {
  const head = ['Scenario', 'Engine', 'Nodes', 'Seed', 'Result', 'Wall time', 'Processor', 'Invariants that held', 'Attack checks']
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const cells = rows.map(({ scenario, engine, nodes, seed, passed: ok, wallMs, cpuMs, invariants, checks }) => {
    const judged = invariants.held.length + invariants.broken.length
    const held = `${invariants.held.length} of ${judged} judged`
    return [
      scenario,
      engine,
      nodes.toLocaleString('en'),
      String(seed),
      ok ? 'passed' : 'FAILED',
      seconds(wallMs),
      seconds(cpuMs),
      held,
      checks.of === 0 ? '' : `${checks.held} of ${checks.of}`
    ]
  })
  return [line(head), line(head.map(() => '---')), ...cells.map(line)].join('\n')
}

/** The same attack with less of everything. */
function smaller(settings: Readonly<Record<string, number>>): Record<string, number> {
  const most: Record<string, number> = { searches: 12, identities: 20, hosts: 3, lacking: 500, enough: 5, each: 1 }
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, Math.min(value, most[name] ?? value)]))
}
