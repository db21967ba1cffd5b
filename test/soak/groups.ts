import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { faultsOf, worldPlan } from '../support/group-property.ts'

/**
 * The convergence property of groups (protocol/README.md §6), many times over: random writes, partitions, crashes, joins and removals among three to
 * eight members. `npm run soak:groups -- --runs 50000 --seed 1`; a failure prints the seed and the smallest plan that shows it.
 */
const { values } = parseArgs({ options: { runs: { type: 'string', default: '50000' }, seed: { type: 'string' } } })
const runs = Number(values.runs)
const seed = values.seed === undefined ? Date.now() & 0x7fff_ffff : Number(values.seed)
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
