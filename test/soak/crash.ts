import { parseArgs } from 'node:util'
import cliProgress from 'cli-progress'
import { systemRandom } from '../../src/platform/random.ts'
import { type CrashResult, runCrash } from './crash-run.ts'
import { type MailResult, runMailCrash } from './mail-run.ts'

const USAGE = `npm run crash -- [--scenario sessions|mail] [--cycles N] [--seed N] [--json] [--keep]

Runs two nodes with durable traffic both ways, kills them at random instants and inside their writes, restarts them, and checks after each
cycle that nothing acknowledged is lost and nothing is applied twice.

  --scenario   sessions (default): as above. mail: a sender, a keeper and a sleeper, killed at random, on clocks that jump and disks that fill; all
               that was accepted is handled in the end, nothing twice, and no state is ahead of the truth
  --cycles N   how many; default 20
  --seed N     replays a run; cycle i has the seed N + i. Default: random, printed
  --json       one JSON document on stdout, nothing else
  --keep       keeps the data directories (always kept after a violation)
`

const EXIT = { ok: 0, violation: 1, usage: 2, failed: 3, interrupted: 130 } as const

function numberOf(text: string | undefined, name: string, fallback: number, max: number): number {
  if (text === undefined) return fallback
  const value = Number(text)
  if (!Number.isInteger(value) || value < 0 || value > max)
    throw new TypeError(`--${name} is a whole number from 0 to ${max}, not "${text}"`)
  return value
}

function options() {
  const { values } = parseArgs({
    options: {
      cycles: { type: 'string' },
      seed: { type: 'string' },
      scenario: { type: 'string', default: 'sessions' },
      json: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false }
    }
  })
  const [r0 = 0, r1 = 0, r2 = 0] = systemRandom.bytes(3)
  if (values.scenario !== 'sessions' && values.scenario !== 'mail')
    throw new TypeError(`--scenario is sessions or mail, not "${values.scenario}"`)
  return {
    ...values,
    cycles: numberOf(values.cycles, 'cycles', 20, 1_000_000),
    seed: numberOf(values.seed, 'seed', r0 * 65_536 + r1 * 256 + r2, 2 ** 32 - 1)
  }
}

async function main(): Promise<number> {
  let asked: ReturnType<typeof options>
  try {
    asked = options()
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    return EXIT.usage
  }
  const { cycles, seed, json, keep, help, scenario } = asked
  if (help) {
    process.stdout.write(USAGE)
    return EXIT.ok
  }
  const stop = new AbortController()
  const interrupted = () => stop.abort(new Error('interrupted'))
  process.on('SIGINT', interrupted)
  process.on('SIGTERM', interrupted)
  const progress = new Progress(cycles, json ? 'quiet' : process.stderr.isTTY ? 'bar' : 'lines')
  if (!json) process.stderr.write(`seed ${seed}, ${cycles} cycles\n`)
  const startedMs = performance.now()
  const common = { cycles, seed, signal: stop.signal, keep }
  let result: CrashResult | MailResult
  try {
    result =
      scenario === 'mail'
        ? await runMailCrash({ ...common, onCycle: (one) => progress.cycle({ ...one, items: one.accepted }) })
        : await runCrash({ ...common, onCycle: (one) => progress.cycle(one) })
  } catch (error) {
    process.stderr.write(`the harness itself failed: ${error instanceof Error ? error.message : String(error)}\n`)
    return EXIT.failed
  } finally {
    progress.done()
  }
  const seconds = (performance.now() - startedMs) / 1_000
  if (json) process.stdout.write(`${JSON.stringify({ ...result, seconds }, undefined, 2)}\n`)
  else process.stdout.write('accepted' in result ? mailSummary(result, seconds) : summary(result, seconds))
  if (result.cycles.some(({ violations }) => violations.length > 0)) return EXIT.violation
  return stop.signal.aborted ? EXIT.interrupted : EXIT.ok
}

class Progress {
  readonly #how: 'quiet' | 'bar' | 'lines'
  readonly #total: number
  readonly #bar: cliProgress.SingleBar | undefined

  constructor(total: number, how: 'quiet' | 'bar' | 'lines') {
    this.#how = how
    this.#total = total
    if (how !== 'bar') return
    this.#bar = new cliProgress.SingleBar(
      {
        format: '{bar} {value}/{total} {duration_formatted} {kind}',
        stream: process.stderr,
        hideCursor: true,
        clearOnComplete: true,
        gracefulExit: false,
        barsize: 30
      },
      cliProgress.Presets.shades_classic
    )
    this.#bar.start(total, 0, { kind: '' })
  }

  cycle({ cycle, kind, ms, items, session }: { cycle: number; kind: string; ms: number; items: number; session?: string }): void {
    this.#bar?.update(cycle + 1, { kind })
    if (this.#how !== 'lines') return
    process.stderr.write(
      `${cycle + 1}/${this.#total} ${kind}: ${items} items, ${Math.round(ms)} ms${session === undefined ? '' : `, ${session} session`}\n`
    )
  }

  done(): void {
    this.#bar?.stop()
  }
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

function summary(result: CrashResult, seconds: number): string {
  const {
    cycles,
    seed,
    kills,
    deathsInWrites,
    diskErrors,
    brokenHandlers,
    restores,
    items,
    acked,
    returned,
    refused,
    checkpoints,
    directory
  } = result
  const recovery = cycles.map(({ recoveryMs }) => recoveryMs)
  const failed = cycles.filter(({ violations }) => violations.length > 0)
  const lines = [
    `${cycles.length} cycles in ${seconds.toFixed(1)} s (median ${Math.round(median(cycles.map(({ ms }) => ms)))} ms a cycle), seed ${seed}`,
    `back in agreement after a median of ${Math.round(median(recovery))} ms, at most ${Math.round(Math.max(0, ...recovery))} ms`,
    `${kills} kills, ${deathsInWrites} of them from inside a write; ${diskErrors} disk errors (${brokenHandlers} broke a handler), ${restores} backups put back`,
    `${items} items: ${acked} acknowledged, ${returned} returned after a restart, ${refused} refused; ${checkpoints} checkpoints signed`,
    `${failed.reduce((sum, { violations }) => sum + violations.length, 0)} violations`
  ]
  lines.push(...told(failed, 'npm run crash --', { seed, directory }))
  return `${lines.join('\n')}\n`
}

function told(
  failed: readonly { cycle: number; kind: string; seed: number; violations: string[] }[],
  command: string,
  { seed, directory }: { seed: number; directory: string | undefined }
): string[] {
  const lines: string[] = []
  for (const { cycle, kind, seed: cycleSeed, violations } of failed) {
    lines.push('', `cycle ${cycle + 1} (${kind}), seed ${cycleSeed}:`, ...violations.slice(0, 20).map((text) => `  ${text}`))
    lines.push(`replay this cycle alone: ${command} --seed ${cycleSeed} --cycles 1`)
    lines.push(`replay the run:          ${command} --seed ${seed} --cycles ${cycle + 1}`)
  }
  if (directory !== undefined) lines.push(`data kept in ${directory}`)
  return lines
}

function mailSummary({ cycles, seed, kills, accepted, failed: refused, kept, handled, directory }: MailResult, seconds: number): string {
  const failed = cycles.filter(({ violations }) => violations.length > 0)
  const recovery = cycles.map(({ recoveryMs }) => recoveryMs)
  const lines = [
    `${cycles.length} cycles in ${seconds.toFixed(1)} s (median ${Math.round(median(cycles.map(({ ms }) => ms)))} ms a cycle), seed ${seed}`,
    `all handled after a median of ${Math.round(median(recovery))} ms, at most ${Math.round(Math.max(0, ...recovery))} ms`,
    `${kills} kills; ${accepted} messages accepted, ${refused} not; ${kept} were with a keeper or in a queue meanwhile; ${handled} handled`,
    `${failed.reduce((sum, { violations }) => sum + violations.length, 0)} violations`
  ]
  lines.push(...told(failed, 'npm run crash -- --scenario mail', { seed, directory }))
  return `${lines.join('\n')}\n`
}

process.exitCode = await main()
