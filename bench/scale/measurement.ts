import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { quantile } from '../harness.ts'
import type { Fact, Gave, Said, ScaleFigures, ScaleNews, ScaleOrder, Stage } from './figures.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const MIB = 1_048_576
/** A turn of the event loop above this is something that gave: who asks meanwhile waits. */
const STALL_MS_MAX = 1_000
/** The machine has 24 GiB; the other processes of the run need some. */
const RSS_MIB_MAX = 12 * 1_024
const LOOP_RESOLUTION_MS = 10
const PROGRESS_MS = 2_000

/** The figures of one kind as they come about. One a process: memory and the event loop are the process's. */
export class Measurement {
  readonly order: ScaleOrder
  readonly #folder: string
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  readonly #startedMs = performance.now()
  readonly #stages: Stage[] = []
  readonly #facts: Fact[] = []
  readonly #gave: Gave[] = []
  readonly #said: Said[] = []
  readonly #notes: string[] = []
  #reached = 0
  #stageAtMs = performance.now()
  #toldAtMs = 0

  /** @param folder - whose files are told as the disk's share */
  constructor(order: ScaleOrder, folder: string) {
    this.order = order
    this.#folder = folder
    this.#loop.enable()
  }

  /** At most every two seconds. */
  progress(text: string): void {
    const nowMs = performance.now()
    if (nowMs - this.#toldAtMs < PROGRESS_MS) return
    this.#toldAtMs = nowMs
    this.step(text)
  }

  step(text: string): void {
    process.send?.({ kind: 'progress', text } satisfies ScaleNews)
  }

  /** What follows is on the way to the next stage. */
  begin(): void {
    this.#loop.reset()
    this.#stageAtMs = performance.now()
  }

  /** Reads how it stands; `sample` times single operations and is on nobody's way. */
  async stage(at: number, sample: () => Promise<Record<string, readonly number[]>>): Promise<void> {
    const seconds = (performance.now() - this.#stageAtMs) / 1_000
    const stallMs = Math.max(0, this.#loop.max / 1e6 - LOOP_RESOLUTION_MS)
    const before = this.#stages.at(-1)?.at ?? 0
    const latencyMs = Object.fromEntries(
      Object.entries(await sample())
        .filter(([, all]) => all.length > 0)
        .map(([what, all]) => [what, { p50: quantile(all, 0.5), p99: quantile(all, 0.99) }])
    )
    for (let i = 0; i < 2; i++) collectGarbage()
    const { heapUsed, external, rss } = process.memoryUsage()
    const stage: Stage = {
      at,
      seconds,
      perSecond: seconds > 0 ? (at - before) / seconds : 0,
      heapMib: (heapUsed + external) / MIB,
      rssMib: rss / MIB,
      diskMib: sizeOf(this.#folder) / MIB,
      stallMs,
      latencyMs
    }
    this.#stages.push(stage)
    this.#reached = Math.max(this.#reached, at)
    if (stallMs > STALL_MS_MAX)
      this.gave(at, `the event loop stood still for ${stallMs.toFixed(0)} ms on the way from ${before.toLocaleString('en')}`)
    if (stage.rssMib > RSS_MIB_MAX) throw new Error(`the process takes ${stage.rssMib.toFixed(0)} MiB at ${at}: the run ends here`)
    this.begin()
  }

  /** Times it, and tells the longest turn of the event loop meanwhile. */
  async timed<T>(what: string, work: () => Promise<T> | T): Promise<T> {
    this.#loop.reset()
    const startedMs = performance.now()
    const result = await work()
    this.fact(what, (performance.now() - startedMs) / 1_000, 's')
    const stallMs = this.#loop.max / 1e6 - LOOP_RESOLUTION_MS
    if (stallMs > STALL_MS_MAX) this.gave(this.#reached, `the event loop stood still for ${stallMs.toFixed(0)} ms: ${what}`)
    return result
  }

  fact(what: string, value: number, unit: string): void {
    this.#facts.push({ what, value, unit })
  }

  gave(at: number, what: string): void {
    this.#gave.push({ at, what })
  }

  said(...said: Said[]): void {
    this.#said.push(...said)
  }

  note(text: string): void {
    this.#notes.push(text)
  }

  done(): ScaleFigures {
    const { user, system } = process.cpuUsage()
    return {
      kind: this.order.kind,
      asked: this.order.size,
      reached: this.#reached,
      seconds: (performance.now() - this.#startedMs) / 1_000,
      cpuSeconds: (user + system) / 1e6,
      stages: this.#stages,
      facts: this.#facts,
      gave: this.#gave.toSorted((a, b) => a.at - b.at),
      said: this.#said,
      notes: this.#notes
    }
  }
}

/** The order of this process, its measurement sent to whoever gave it. A Ctrl-C is the parent's: it ends this process. */
export async function serveKind(measure: (order: ScaleOrder) => Promise<ScaleFigures>): Promise<void> {
  process.on('SIGINT', () => {})
  process.on('disconnect', () => process.exit(0))
  const order = JSON.parse(process.argv[2] ?? '') as ScaleOrder
  const last = (news: ScaleNews) => process.send?.(news, () => process.exit(0))
  try {
    last({ kind: 'done', figures: await measure(order) })
  } catch (error) {
    last({ kind: 'failed', error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
}

/** Runs `work` for each of `count`, so many at a time; ends early where `isOver` says so. @returns how many were done */
export async function inLanes(count: number, lanes: number, work: (index: number) => Promise<void>, isOver = () => false): Promise<number> {
  let next = 0
  let done = 0
  await Promise.all(
    Array.from({ length: Math.min(lanes, count) }, async () => {
      while (next < count && !isOver()) {
        await work(next++)
        done++
      }
    })
  )
  return done
}

/** Times `count` runs of `work`, one after the other, ms. */
export async function times(count: number, work: (index: number) => Promise<unknown>): Promise<number[]> {
  const all: number[] = []
  for (let i = 0; i < count; i++) {
    const startedMs = performance.now()
    await work(i)
    all.push(performance.now() - startedMs)
  }
  return all
}

/** Bytes of all files below a folder. */
function sizeOf(folder: string): number {
  let bytes = 0
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    const found = statSync(join(folder, name), { throwIfNoEntry: false })
    if (found?.isFile() === true) bytes += found.size
  }
  return bytes
}
