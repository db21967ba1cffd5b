import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import cliProgress from 'cli-progress'
import { systemRandom } from '../../src/platform/random.ts'
import { soakSvg } from './soak-chart.ts'
import { runSoak, type SoakProgress, type SoakResult } from './soak-run.ts'
import type { SoakMetric } from './soak-verdict.ts'

const USAGE = `npm run soak -- [--hours N | --minutes N] [--seed N] [--out PREFIX] [--json] [--keep]

Runs three nodes, each a process of its own, under mixed load: tasks over A2A with the official client, durable items and state in sessions over
QUIC, searches by topic, mail for an agent that sleeps. Two of the nodes are stopped or killed and started again now and then; the agent wakes
"hourly" (twelve times over the run, an hour apart at most), and what is past its time is swept then. In the end: nothing that was accepted is lost
or done twice; memory, handles, listeners and disk were flat over the second half; no line at warn or above that the churn does not explain.

  --hours N     length; default 1
  --minutes N   the same in minutes; from 2 on
  --seed N      of the churn and the mix. Default: random, printed
  --out PREFIX  where the report goes: PREFIX.json and PREFIX.svg. Default: soak-report
  --json        the report on stdout, nothing else there
  --keep        keeps the data folders (always kept after a finding)
`
const EXIT = { ok: 0, violation: 1, usage: 2, failed: 3, interrupted: 130 } as const

function options() {
  const { values } = parseArgs({
    options: {
      hours: { type: 'string' },
      minutes: { type: 'string' },
      seed: { type: 'string' },
      out: { type: 'string', default: 'soak-report' },
      json: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false }
    }
  })
  const minutes = values.minutes === undefined ? Number(values.hours ?? '1') * 60 : Number(values.minutes)
  if (!Number.isFinite(minutes) || minutes < 2 || minutes > 60 * 24 * 30) throw new TypeError('a soak lasts from 2 minutes to 30 days')
  const [r0 = 0, r1 = 0] = systemRandom.bytes(2)
  const seed = values.seed === undefined ? r0 * 256 + r1 : Number(values.seed)
  if (!Number.isInteger(seed) || seed < 0) throw new TypeError(`--seed is a whole number from 0 on, not "${values.seed}"`)
  return { ...values, lengthMs: minutes * 60_000, seed }
}

async function main(): Promise<number> {
  let asked: ReturnType<typeof options>
  try {
    asked = options()
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    return EXIT.usage
  }
  if (asked.help) {
    process.stdout.write(USAGE)
    return EXIT.ok
  }
  const { lengthMs, seed, json, keep, out } = asked
  const stop = new AbortController()
  const interrupted = () => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted)
    process.stderr.write('\nstopping: what is under way ends, then the report is written; once more ends at once\n')
    stop.abort()
  }
  process.on('SIGINT', interrupted)
  process.on('SIGTERM', interrupted)
  const progress = new Progress(lengthMs)
  process.stderr.write(`${lengthMs / 60_000} minutes, seed ${seed}\n`)
  let result: SoakResult
  try {
    result = await runSoak({ lengthMs, seed, keep, signal: stop.signal, onProgress: (one) => progress.show(one) })
  } finally {
    progress.done()
  }
  const text = `${JSON.stringify(result, undefined, 1)}\n`
  mkdirSync(dirname(out), { recursive: true })
  writeFileSync(`${out}.json`, text)
  writeFileSync(`${out}.svg`, soakSvg(result.samples, { lengthMs, title: `A soak of ${lengthMs / 60_000} minutes: ${result.verdict}` }))
  process.stdout.write(json ? text : summary(result, out))
  return result.violations.length > 0 ? EXIT.violation : result.interrupted ? EXIT.interrupted : EXIT.ok
}

/** On a terminal one bar with an estimate, else a line every now and then. */
class Progress {
  readonly #lengthMs: number
  readonly #bar: cliProgress.SingleBar | undefined
  #saidMs = Number.NEGATIVE_INFINITY
  #said = ''

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
    if (!process.stderr.isTTY) return
    const format = '{bar} {percentage} %, {left} left, {text}'
    const options = { format, stream: process.stderr, hideCursor: true, clearOnComplete: true, gracefulExit: false, barsize: 24 }
    this.#bar = new cliProgress.SingleBar(options, cliProgress.Presets.shades_classic)
    this.#bar.start(lengthMs, 0, { left: '', text: '' })
  }

  show({ elapsedMs, text }: SoakProgress): void {
    const left = Math.max(0, (this.#lengthMs - elapsedMs) / 60_000).toFixed(1)
    this.#bar?.update(Math.min(this.#lengthMs, elapsedMs), { left: `${left} min`, text })
    const isNumbers = /^\d/.test(text)
    if (this.#bar !== undefined || (isNumbers && elapsedMs - this.#saidMs < Math.min(60_000, this.#lengthMs / 12)) || text === this.#said)
      return
    this.#said = text
    if (isNumbers) this.#saidMs = elapsedMs
    process.stderr.write(`${(elapsedMs / 60_000).toFixed(1).padStart(6)} min, ${left} left: ${text}\n`)
  }

  done(): void {
    this.#bar?.stop()
  }
}

function shown(metric: SoakMetric, value: number): string {
  return metric.endsWith('Bytes') ? `${(value / 1_048_576).toFixed(1)} MiB` : value.toFixed(0)
}

function summary({ ranMs, seed, verdict, violations, figures, trends, lines, failures, directory }: SoakResult, out: string): string {
  const { items, tasks, tasksChecked, mail, hours, restarts, kills } = figures
  const text = [
    `${(ranMs / 60_000).toFixed(1)} minutes, seed ${seed}: ${items} items acknowledged, ${tasks} tasks done (${tasksChecked} looked up again), ${mail} mails, ${hours} wakes, ${restarts} restarts, ${kills} kills`
  ]
  for (const { node, metric, median, rise, allowed, flat } of trends) {
    const sign = rise < 0 ? '' : '+'
    text.push(
      `  ${node.padEnd(8)} ${metric.padEnd(10)} ${shown(metric, median).padStart(10)}  ${(sign + shown(metric, rise)).padStart(10)} of ${shown(metric, allowed)} allowed${flat ? '' : '  NOT FLAT'}`
    )
  }
  for (const [name, count] of Object.entries(lines)) text.push(`  ${count} log lines: ${name}`)
  const failed = Object.entries(failures)
  if (failed.length > 0)
    text.push(`  acts that failed while a node was away: ${failed.map(([what, count]) => `${count} × ${what}`).join('; ')}`)
  text.push(`${violations.length} findings; ${verdict}; report in ${out}.json and ${out}.svg`, ...violations.map((one) => `  ${one}`))
  if (directory !== undefined) text.push(`data kept in ${directory}`)
  return `${text.join('\n')}\n`
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`the soak itself failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  process.exitCode = EXIT.failed
}
