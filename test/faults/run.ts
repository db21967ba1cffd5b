import { systemRandom } from '../../src/platform/random.ts'
import { scriptOptions, wholeNumber } from '../support/script-options.ts'
import { DISK_CYCLE_KINDS, type DiskCycle, DiskRun } from './disk-run.ts'
import { faultyFs } from './faulty-disk.ts'
import { faultySystem } from './faulty-system.ts'
import { runSystemFaults, SYSTEM_FAULTS, type SystemFault, type SystemFaultReport } from './system-run.ts'

const USAGE = `npm run faults -- [--only disk|system] [--kinds A,B] [--cycles N] [--seed N] [--json]

Runs a node on a disk that fails under it (power cuts, syncs that fail or lie, torn writes, no space, no files, slowness), takes messages all the
while, and checks after each cycle that none that was acknowledged is lost or handled twice, that the node said what was wrong, and that it went on.
Then three nodes under the load of the soak, with clocks that jump, processes that are stopped, UDP that fails, no file descriptors, threads that die
and no memory: the same promises.

  --only       disk or system; default: both
  --kinds A,B  of the system's, by name: ${SYSTEM_FAULTS.map((kind) => `"${kind}"`).join(', ')}; default: all, in this order
  --cycles N   how many of the disk; default ${DISK_CYCLE_KINDS.length}, one of each kind
  --seed N     replays a run; cycle i has the seed N + i. Default: random, printed
  --json       one JSON document on stdout, nothing else
`
const EXIT = { ok: 0, violation: 1, usage: 2, failed: 3, interrupted: 130 } as const

async function main(): Promise<number> {
  const { values } = scriptOptions(USAGE, {
    only: { type: 'string' },
    kinds: { type: 'string' },
    cycles: { type: 'string' },
    seed: { type: 'string' },
    json: { type: 'boolean', default: false }
  })
  const [r0 = 0, r1 = 0] = systemRandom.bytes(2)
  const { only } = values
  if (only !== undefined && only !== 'disk' && only !== 'system') {
    process.stderr.write(`--only is disk or system, not "${only}"\n\n${USAGE}`)
    return EXIT.usage
  }
  const kinds = values.kinds?.split(',').map((kind) => kind.trim())
  const isKind = (kind: string): kind is SystemFault => SYSTEM_FAULTS.some((one) => one === kind)
  if (kinds !== undefined && !kinds.every(isKind)) {
    process.stderr.write(`--kinds names what there is, with commas between, not "${values.kinds}"\n\n${USAGE}`)
    return EXIT.usage
  }
  const cycles = wholeNumber('cycles', values.cycles, DISK_CYCLE_KINDS.length, USAGE)
  const seed = wholeNumber('seed', values.seed, (r0 * 256 + r1) * DISK_CYCLE_KINDS.length, USAGE, 0)
  const [library, system] = [faultyFs(), faultySystem()]
  if (library === undefined || system === undefined) {
    process.stderr.write('this needs Linux and a C compiler that is called as `cc` (for example: apt-get install gcc libc6-dev)\n')
    return EXIT.failed
  }
  let isInterrupted = false
  const stop = new AbortController()
  process.once('SIGINT', () => {
    isInterrupted = true
    stop.abort()
  })
  const say = (line: string) => void (values.json ? process.stderr : process.stdout).write(`${line}\n`)
  const run = new DiskRun(library)
  const done: DiskCycle[] = []
  try {
    if (only !== 'system') await run.open()
    for (let i = 0; i < cycles && !isInterrupted && only !== 'system'; i++) {
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
  if (only !== 'system')
    say(
      `${done.length} cycles, ${sum((one) => one.acknowledged)} messages acknowledged, ${sum((one) => one.failures)} failed calls, ${violations.length} violations`
    )
  const faults: SystemFaultReport[] = []
  if (only !== 'disk' && !isInterrupted) {
    const onFault = ({ kind, ms, said }: SystemFaultReport) =>
      say(`${kind.padEnd(50)} ${(ms / 1_000).toFixed(1).padStart(6)} s  ${said.slice(0, 200)}`)
    const { faults: seen, result } = await runSystemFaults({
      ...(kinds === undefined ? {} : { kinds }),
      length: 'full',
      seed,
      library: system,
      signal: stop.signal,
      onFault
    })
    faults.push(...seen)
    violations.push(...result.violations)
    const { items, tasks, mail } = result.figures
    say(`${seen.length} faults under load: ${items} items, ${tasks} tasks, ${mail} mails, ${result.violations.length} violations`)
    for (const one of result.violations) say(`      ${one}`)
  }
  if (values.json) process.stdout.write(`${JSON.stringify({ seed, cycles: done, faults, violations })}\n`)
  return isInterrupted ? EXIT.interrupted : violations.length > 0 ? EXIT.violation : EXIT.ok
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  process.exitCode = EXIT.failed
}
