import fc from 'fast-check'
import { faultsOf, worldPlan } from '../support/group-property.ts'
import { scriptOptions, wholeNumber } from '../support/script-options.ts'

const USAGE = `npm run soak:groups -- [--runs N] [--seed N]

The convergence property of groups (protocol/README.md §6), many times over: random writes, partitions, crashes, joins and removals among three to
eight members. A failure prints the seed and the smallest plan that shows it, and ends with 1.

  --runs N  how many; default 50000
  --seed N  replays a run. Default: from the clock, printed
`
const { values } = scriptOptions(USAGE, { runs: { type: 'string' }, seed: { type: 'string' } })
const runs = wholeNumber('runs', values.runs, 50_000, USAGE)
const seed = wholeNumber('seed', values.seed, Date.now() & 0x7fff_ffff, USAGE, 0)
const BATCH = 500
const startedMs = performance.now()
process.stdout.write(`${runs} runs, seed ${seed}\n`)
for (let done = 0; done < runs; done += BATCH) {
  const details = fc.check(
    fc.property(worldPlan, (plan) => {
      const faults = faultsOf(plan)
      if (faults.length > 0) throw new Error(faults.join('\n'))
    }),
    { numRuns: Math.min(BATCH, runs - done), seed: seed + done }
  )
  if (details.failed) {
    process.stdout.write(`${fc.defaultReportMessage(details)}\n`)
    process.exitCode = 1
    break
  }
  process.stdout.write(`${Math.min(runs, done + BATCH)} of ${runs} in ${Math.round((performance.now() - startedMs) / 1_000)} s\n`)
}
