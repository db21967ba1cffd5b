/**
 * Fails where a main path became slower, by the ratio to what stands beside it in the same process run: `npm run bench:guard`. The bounds are far
 * from what is measured, so that a busy machine does not trip them; what does is run once more before it counts.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Line, linesOf } from './report.ts'
import { TARGETS } from './targets.ts'

const HELP = `Fails where a main path became slower beside what stands next to it in the same run.

  npm run bench:guard

The bounds: bench/targets.ts. Ends with 1 where one is passed twice, or a figure is missing.
`
const ROUNDS = 3

try {
  const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h', default: false } } })
  if (values.help) {
    process.stdout.write(HELP)
    process.exit(0)
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${HELP}`)
  process.exit(2)
}
const guarded = TARGETS.filter(({ guard }) => guard !== undefined)
const folder = mkdtempSync(join(tmpdir(), 'rookery-bench-guard-'))

function run(id: string): void {
  const file = fileURLToPath(new URL(`./${id}.bench.ts`, import.meta.url))
  const { status } = spawnSync(process.execPath, [file], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, BENCH_ROUNDS: String(ROUNDS), BENCH_OUT: folder }
  })
  if (status !== 0) throw new Error(`${id}.bench.ts ended with ${status}`)
}

const isSlow = ({ better, ratio, target: { guard = Number.NaN } }: Line) => (better === 'lower' ? ratio > guard : ratio < guard)

try {
  for (const id of new Set(guarded.map((target) => target.id))) {
    run(id)
    const measure = () =>
      linesOf(
        guarded.filter((target) => target.id === id),
        folder
      )
    let { lines, missing } = measure()
    if (lines.some(isSlow)) {
      run(id)
      ;({ lines, missing } = measure())
    }
    for (const { what, peer } of missing) {
      console.log(`${what}: there is no figure of ours or of ${peer ?? 'its baseline'}`)
      process.exitCode = 1
    }
    for (const line of lines) {
      const { target, ratio, peer } = line
      const slow = isSlow(line)
      if (slow) process.exitCode = 1
      console.log(
        `${slow ? 'SLOWER' : 'ok'}  ${target.what}: ${ratio.toFixed(2)}× of ${peer}, bound ${line.better === 'lower' ? '≤' : '≥'} ${target.guard}×`
      )
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
