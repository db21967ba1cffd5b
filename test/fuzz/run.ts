import { availableParallelism } from 'node:os'
import { refused, scriptOptions } from '../support/script-options.ts'
import { writeCorpus } from './engine/corpus.ts'
import type { FuzzStatus } from './engine/fuzzer.ts'
import { Keeper, type Unit } from './engine/keeper.ts'
import { keepFinding, recordRun } from './engine/record.ts'
import type { ThreadNews } from './engine/thread.ts'
import { TARGET_FILES } from './targets/index.ts'

const HELP = `Coverage-guided fuzzing of every decoder and state machine.

  npm run fuzz -- [--target all|<name>[,<name>…]] [--minutes <n> | --seconds <n> | --execs <n>] [--seed <n>] [--jobs <n>] [--json] [--dry]

  --target   names, or the name of a module in test/fuzz/targets; all of them where it is left out
  --minutes  CPU minutes of each target (default 1)
  --seconds  CPU seconds of all targets together
  --execs    runs of each target: the same seed and corpus then give the same run
  --seed     of the fuzzer's random numbers (default: from the clock, and printed)
  --jobs     threads (default: one for each processor)
  --json     one line of JSON at the end instead of a table
  --dry      keep neither corpus nor record

Kept: test/fuzz/corpus (inputs that reach something), regressions.json (inputs that broke something), record.json (what was measured).
Ends with 1 where something was found.
`

interface Row {
  readonly target: string
  cpuSeconds: number
  status: FuzzStatus
  found: number
}

const { values } = scriptOptions(HELP, {
  target: { type: 'string', default: 'all' },
  minutes: { type: 'string' },
  seconds: { type: 'string' },
  execs: { type: 'string' },
  seed: { type: 'string' },
  jobs: { type: 'string' },
  json: { type: 'boolean', default: false },
  dry: { type: 'boolean', default: false }
})
const usage = (message: string): never => refused(message, HELP)
const positive = (name: 'minutes' | 'seconds' | 'execs' | 'seed' | 'jobs'): number | undefined => {
  const text = values[name]
  if (text === undefined) return undefined
  const number = Number(text)
  return number > 0 && Number.isFinite(number) ? number : usage(`--${name} is a number above 0, not "${text}"`)
}

/** One unit for each target, or, where each target gets seconds only, one for each module: loading it costs seconds too. */
function unitsOf(wanted: string, together: boolean): Unit[] {
  const asked = wanted === 'all' ? undefined : new Set(wanted.split(','))
  const units: Unit[] = []
  for (const [file, all] of Object.entries(TARGET_FILES)) {
    const names = all.filter((name) => asked === undefined || asked.has(name) || asked.has(file))
    if (together) units.push({ file, names })
    else for (const name of names) units.push({ file, names: [name] })
  }
  const known = new Set<string>([...Object.keys(TARGET_FILES), ...Object.values(TARGET_FILES).flat()])
  for (const name of asked ?? []) if (!known.has(name)) usage(`no target "${name}"; there are ${[...known].join(', ')}`)
  return units.filter(({ names }) => names.length > 0)
}

const seconds = positive('seconds')
const execs = positive('execs')
const units = unitsOf(values.target, seconds !== undefined || execs !== undefined)
const count = units.reduce((sum, { names }) => sum + names.length, 0)
const limit = execs !== undefined ? { execs } : { cpuSeconds: seconds !== undefined ? seconds / count : (positive('minutes') ?? 1) * 60 }
const seed = positive('seed') ?? Date.now() % 2 ** 31
const jobs = Math.min(positive('jobs') ?? availableParallelism(), units.length)
const rows = new Map<string, Row>()
const say = (text: string) => {
  if (!values.json) process.stderr.write(text)
}

function rowOf(target: string): Row {
  const none: FuzzStatus = { execs: 0, edges: 0, features: 0, corpus: 0, findings: 0 }
  const row = rows.get(target) ?? { target, cpuSeconds: 0, status: none, found: 0 }
  rows.set(target, row)
  return row
}

function onNews(news: ThreadNews): void {
  if (news.kind === 'begun') {
    rowOf(news.target)
  } else if (news.kind === 'finding') {
    const { finding } = news
    rowOf(finding.target).found++
    process.stderr.write(
      `\nfound in ${finding.target}: ${finding.error}\n  input (${finding.input.length} bytes): ${Buffer.from(finding.input).toString('base64')}\n`
    )
    if (!values.dry) keepFinding(finding)
  } else {
    const row = rowOf(news.target)
    row.cpuSeconds = news.cpuSeconds
    row.status = news.status
    if (process.stderr.isTTY) say(`\r${line(row)}`)
    if (news.kind === 'ended') {
      say(process.stderr.isTTY ? '\n' : `${line(row)}\n`)
      if (!values.dry) {
        writeCorpus(news.target, news.corpus)
        recordRun(news.target, news.status, news.cpuSeconds, row.found)
      }
    }
  }
}

function line({ target, cpuSeconds, status, found }: Row): string {
  const rate = cpuSeconds > 0 ? Math.round(status.execs / cpuSeconds) : 0
  const cells = [
    target.padEnd(22),
    `${cpuSeconds.toFixed(0)} s`.padStart(7),
    `${status.execs} runs`.padStart(15),
    `${rate}/s`.padStart(9),
    `${status.edges} edges`.padStart(12),
    `${status.features} features`.padStart(15),
    `${status.corpus} kept`.padStart(10),
    `${found} found`
  ]
  return cells.join(' ')
}

const keepers = new Set<Keeper>()
process.once('SIGINT', () => {
  say('\nstopping; a second Ctrl-C ends at once\n')
  waiting.length = 0
  for (const keeper of keepers) keeper.stop()
  process.once('SIGINT', () => process.exit(130))
})

say(`${count} targets, ${jobs} threads, seed ${seed}\n`)
const waiting = [...units]
await Promise.all(
  Array.from({ length: jobs }, async () => {
    for (let unit = waiting.shift(); unit !== undefined; unit = waiting.shift()) {
      const keeper = new Keeper({ seed, limit, news: onNews })
      keepers.add(keeper)
      await keeper.run(unit)
      keepers.delete(keeper)
    }
  })
)
const all = [...rows.values()]
const found = all.reduce((sum, row) => sum + row.found, 0)
if (values.json) process.stdout.write(`${JSON.stringify({ seed, found, targets: all })}\n`)
else
  process.stdout.write(`${all.map(line).join('\n')}\n${found === 0 ? 'nothing found' : `${found} found: see test/fuzz/regressions.json`}\n`)
process.exitCode = found === 0 ? 0 : 1
