import { parentPort, workerData } from 'node:worker_threads'
import type { FuzzTarget } from '../target.ts'
import { readCorpus } from './corpus.ts'
import { type Finding, Fuzzer, type FuzzStatus } from './fuzzer.ts'
// before any module under test
import './hooks.ts'
import { FuzzRandom } from './random.ts'
import { INPUT_BYTES_MAX, SharedInput } from './shared.ts'

export interface ThreadOrder {
  readonly memory: SharedArrayBuffer
  /** a module of targets/, without its ending */
  readonly file: string
  readonly names: readonly string[]
  readonly seed: number
  /** of each target: seconds of this thread's CPU, or runs */
  readonly limit: { readonly cpuSeconds: number } | { readonly execs: number }
}

export type ThreadNews =
  | { readonly kind: 'begun'; readonly target: string }
  | { readonly kind: 'status'; readonly target: string; readonly cpuSeconds: number; readonly status: FuzzStatus }
  | { readonly kind: 'finding'; readonly finding: Finding }
  | {
      readonly kind: 'ended'
      readonly target: string
      readonly cpuSeconds: number
      readonly status: FuzzStatus
      readonly corpus: readonly Uint8Array[]
    }

const order = workerData as ThreadOrder
const shared = new SharedInput(order.memory)
const tell = (news: ThreadNews) => parentPort?.postMessage(news)
const cpuSeconds = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1e6
}

let current: Fuzzer | undefined
function onStray(error: unknown): void {
  if (current === undefined) throw error
  current.stray(error)
}
process.on('unhandledRejection', onStray)
process.on('uncaughtException', onStray)

async function runTarget(target: FuzzTarget): Promise<void> {
  if (target.bytesMax > INPUT_BYTES_MAX) throw new RangeError(`${target.name} takes more than ${INPUT_BYTES_MAX} bytes`)
  tell({ kind: 'begun', target: target.name })
  const startCpu = cpuSeconds()
  const fuzzer = new Fuzzer({
    target,
    random: new FuzzRandom(order.seed),
    about: (input) => shared.put(input),
    found: (finding) => tell({ kind: 'finding', finding }),
    nowMs: () => performance.now()
  })
  current = fuzzer
  await fuzzer.feed([...target.seeds(), ...readCorpus(target.name)])
  let toldMs = 0
  await fuzzer.run((execs) => {
    const used = cpuSeconds() - startCpu
    if (performance.now() - toldMs > 1_000) {
      toldMs = performance.now()
      tell({ kind: 'status', target: target.name, cpuSeconds: used, status: fuzzer.status })
    }
    return shared.stopped || ('execs' in order.limit ? execs >= order.limit.execs : used >= order.limit.cpuSeconds)
  })
  tell({ kind: 'ended', target: target.name, cpuSeconds: cpuSeconds() - startCpu, status: fuzzer.status, corpus: fuzzer.corpus })
}

const { targets } = (await import(`../targets/${order.file}.ts`)) as { targets: readonly FuzzTarget[] }
for (const name of order.names) {
  const target = targets.find((one) => one.name === name)
  if (target === undefined) throw new RangeError(`targets/${order.file}.ts has no target "${name}"`)
  if (shared.stopped) break
  await runTarget(target)
}
process.exit(0)
