import { parseArgs } from 'node:util'
import { runSessionModel } from '../support/session-model.ts'

/** `node test/soak/session-model.ts [--commands 100000] [--length 200] [--seed N]`: prints the seed; exits with 1 at the first violation. */
const { values } = parseArgs({
  options: {
    commands: { type: 'string', default: '100000' },
    length: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) }
  }
})
const [commands, length, seed] = [Number(values.commands), Number(values.length), Number(values.seed)]
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
