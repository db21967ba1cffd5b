import { parseArgs } from 'node:util'
import { systemRandom } from '../../src/platform/random.ts'
import { DISK_CYCLE_KINDS, type DiskCycle, DiskRun } from './disk-run.ts'
import { faultyFs } from './faulty-disk.ts'

const USAGE = `npm run faults -- [--cycles N] [--seed N] [--json]

Runs a node on a disk that fails under it (power cuts, syncs that fail or lie, torn writes, no space, no files, slowness), takes messages all the
while, and checks after each cycle that none that was acknowledged is lost or handled twice, that the node said what was wrong, and that it went on.

  --cycles N   how many; default ${DISK_CYCLE_KINDS.length}, one of each kind
  --seed N     replays a run; cycle i has the seed N + i. Default: random, printed
  --json       one JSON document on stdout, nothing else
`
const EXIT = { ok: 0, violation: 1, usage: 2, failed: 3, interrupted: 130 } as const

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      cycles: { type: 'string', default: String(DISK_CYCLE_KINDS.length) },
      seed: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false }
    }
  })
  if (values.help) {
    process.stdout.write(USAGE)
    return EXIT.ok
  }
  const [r0 = 0, r1 = 0] = systemRandom.bytes(2)
  const cycles = Number(values.cycles)
  const seed = Number(values.seed ?? (r0 * 256 + r1) * DISK_CYCLE_KINDS.length)
  if (!Number.isInteger(cycles) || cycles < 1 || !Number.isInteger(seed) || seed < 0) {
    process.stderr.write(`--cycles is a whole number from 1 on and --seed one from 0 on\n\n${USAGE}`)
    return EXIT.usage
  }
  const library = faultyFs()
  if (library === undefined) {
    process.stderr.write('this needs Linux and a C compiler that is called as `cc` (for example: apt-get install gcc libc6-dev)\n')
    return EXIT.failed
  }
  let isInterrupted = false
  process.once('SIGINT', () => {
    isInterrupted = true
  })
  const say = (line: string) => void (values.json ? process.stderr : process.stdout).write(`${line}\n`)
  const run = new DiskRun(library)
  const done: DiskCycle[] = []
  try {
    await run.open()
    for (let i = 0; i < cycles && !isInterrupted; i++) {
      const cycle = await run.cycle(seed + i)
      done.push(cycle)
      say(
        `${String(i + 1).padStart(4)}/${cycles}  seed ${cycle.seed}  ${cycle.kind.padEnd(22)} ${(cycle.ms / 1_000).toFixed(1).padStart(6)} s  ` +
          `${cycle.acknowledged} acknowledged, ${cycle.refused} refused, ${cycle.failures} failed calls, ${cycle.lostBytes} bytes lost` +
          cycle.violations.map((one) => `\n      ${one}`).join('')
      )
    }
  } finally {
    await run.close()
  }
  const violations = done.flatMap((one) => one.violations)
  const sum = (of: (one: DiskCycle) => number) => done.reduce((all, one) => all + of(one), 0)
  say(
    `${done.length} cycles, ${sum((one) => one.acknowledged)} messages acknowledged, ${sum((one) => one.failures)} failed calls, ${violations.length} violations`
  )
  if (values.json) process.stdout.write(`${JSON.stringify({ seed, cycles: done })}\n`)
  return isInterrupted ? EXIT.interrupted : violations.length > 0 ? EXIT.violation : EXIT.ok
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  process.exitCode = EXIT.failed
}
