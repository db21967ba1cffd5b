/** Runs the benchmarks, each in a process of its own, then prints one table of ratios. */
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { linesOf, page, picture, table } from './report.ts'

const HELP = `Runs the benchmarks side by side with what else there is, and prints one table of ratios.

  npm run bench -- [<name> …] [--rounds <n>] [--table] [--docs] [--json]

  <name>     those whose file begins so, as "handshake"; all where none is given
  --rounds   at most so many rounds of each
  --table    runs nothing: the table of what bench/out holds
  --docs     writes docs/benchmarks.md and the picture in it
  --json     the table as JSON

Figures of each: bench/out/*.json.
`

function parsed() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        rounds: { type: 'string' },
        table: { type: 'boolean', default: false },
        docs: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false }
      }
    })
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${HELP}`)
    process.exit(2)
  }
}
const { values, positionals } = parsed()
if (values.help) {
  process.stdout.write(HELP)
  process.exit(0)
}
if (values.rounds !== undefined && !(Number.isInteger(Number(values.rounds)) && Number(values.rounds) >= 1)) {
  process.stderr.write(`--rounds is a whole number from 1, not "${values.rounds}"\n\n${HELP}`)
  process.exit(2)
}
const folder = fileURLToPath(new URL('.', import.meta.url))
const all = readdirSync(folder).filter((file) => file.endsWith('.bench.ts'))
const files = all.filter((file) => positionals.length === 0 || positionals.some((name) => file.startsWith(name))).sort()
if (files.length === 0) {
  process.stderr.write(`no benchmark is named ${positionals.join(', ')}; there are: ${all.join(', ')}\n`)
  process.exit(2)
}
const failed: string[] = []
if (!values.table) {
  for (const [index, file] of files.entries()) {
    process.stderr.write(`\n[${index + 1}/${files.length}] ${file}\n`)
    const env = values.rounds === undefined ? process.env : { ...process.env, BENCH_ROUNDS: values.rounds }
    const { status, signal } = spawnSync(process.execPath, [folder + file], {
      stdio: ['inherit', values.json ? 'ignore' : 'inherit', 'inherit'],
      env
    })
    if (signal === 'SIGINT') process.exit(130)
    if (status !== 0) failed.push(file)
  }
}
const { lines, missing } = linesOf()
if (values.json) process.stdout.write(`${JSON.stringify(lines)}\n`)
else {
  process.stdout.write(`\n${table(lines)}\n`)
  for (const { what, peer } of missing) process.stdout.write(`not measured: ${what}${peer === undefined ? '' : ` beside ${peer}`}\n`)
}
if (values.docs) {
  const note = `Medians of the ratios within each round; ${cpus()[0]?.model}, ${cpus().length} cores, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}.`
  const docs = `${folder}../docs/`
  writeFileSync(`${docs}benchmarks.svg`, picture(lines, `bars: median, line: quartiles, mark: goal. ${note}`))
  writeFileSync(`${docs}benchmarks.md`, page(lines, note))
}
if (failed.length > 0) {
  process.stderr.write(`ended with an error: ${failed.join(', ')}\n`)
  process.exit(1)
}
