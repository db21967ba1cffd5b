/** `npm run sim:suite`: every shipped scenario at its small size, one after the other. Names as arguments choose some. Exits 1 where one fails. */
import { loadScenario, runScenario, shippedNames } from '../../sim/index.ts'
import { systemClock } from '../../src/platform/clock.ts'

const say = (line: string) => process.stdout.write(`${line}\n`)

const wanted = process.argv.slice(2)
const names = shippedNames().filter((name) => name !== 'hostile' && (wanted.length === 0 || wanted.includes(name)))
let failed = 0
const startedMs = systemClock.monotonicMs()
for (const name of names) {
  const definition = loadScenario(name)
  const timeline = definition.timeline.map((entry) => ('attack' in entry ? { ...entry, with: smaller(entry.with) } : entry))
  const report = await runScenario({ ...definition, timeline }, definition.small === undefined ? {} : { nodes: definition.small })
  if (!report.success) failed++
  const broken = report.invariants.filter(({ state }) => state === 'broken').map(({ invariant }) => invariant)
  const checks = report.checks.filter(({ holds }) => !holds).map(({ what }) => what)
  const cpuMs = report.phases.reduce((sum, phase) => sum + phase.cpuMs, 0)
  say(
    `${report.success ? 'passed' : 'FAILED'}  ${name.padEnd(24)} ${String(report.nodes).padStart(4)} ${report.engine.padEnd(5)} seed ${report.seed}  ${(report.wallMs / 1_000).toFixed(1)} s, processor ${(cpuMs / 1_000).toFixed(1)} s`
  )
  for (const what of [
    ...broken,
    ...checks,
    ...report.failures.map(({ what: step, node, message }) => `${step}, node ${node}: ${message}`)
  ].slice(0, 8)) {
    say(`        ${what}`)
  }
  if (!report.success) say(`        ${report.replay}`)
}
say(`${names.length - failed} of ${names.length} passed in ${((systemClock.monotonicMs() - startedMs) / 1_000).toFixed(0)} s`)
process.exit(failed === 0 ? 0 : 1)

/** The same attack with less of everything. */
function smaller(settings: Readonly<Record<string, number>>): Record<string, number> {
  const most: Record<string, number> = { searches: 12, identities: 20, hosts: 3, lacking: 500, enough: 5, each: 1 }
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, Math.min(value, most[name] ?? value)]))
}
