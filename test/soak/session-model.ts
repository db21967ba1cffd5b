import { scriptOptions, wholeNumber } from '../support/script-options.ts'
import { runSessionModel } from '../support/session-model.ts'

const USAGE = `npm run soak:model -- [--commands N] [--length N] [--seed N]

Random commands to a model of a session and to the session itself, which must agree. Ends with 1 at the first violation.

  --commands N  how many in all; default 100000
  --length N    how many in a row before both begin anew; default 200
  --seed N      replays a run. Default: from the clock, printed
`
const { values } = scriptOptions(USAGE, { commands: { type: 'string' }, length: { type: 'string' }, seed: { type: 'string' } })
const commands = wholeNumber('commands', values.commands, 100_000, USAGE)
const length = wholeNumber('length', values.length, 200, USAGE)
const seed = wholeNumber('seed', values.seed, Date.now() % 2 ** 31, USAGE, 0)
const startedMs = performance.now()
process.stdout.write(`session model: ${commands} commands in sequences of ${length}, seed ${seed}\n`)
try {
  const { commands: done } = runSessionModel({ commands, length, seed })
  process.stdout.write(`${done} commands without a violation in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s\n`)
} catch (error) {
  const cause = error instanceof Error && error.cause instanceof Error ? `\n${error.cause.stack}` : ''
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}${cause}\n`)
  process.exitCode = 1
}
