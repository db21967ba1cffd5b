import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { nonceBytes, SOLVER_BITS_MAX, WORK_BITS_MAX, workBits, workSeed } from '../../protocol/discovery/work.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { JOB_AT, SLICE_TRIES, SLICES_AT, type SolverFound, type SolverJob, type SolverThreadData } from './solver-thread.ts'
import {
  type SolveOptions,
  solverBusy,
  solverFailed,
  solverStopped,
  tooHard,
  WAITING_MAX,
  type WorkSolver,
  workProgress
} from './work-solver.ts'

/** More threads than this find nothing sooner that anyone would notice. */
const THREADS_MAX = 16
/** Threads without work end after this: each holds some megabytes. */
const IDLE_MS = 10_000
const PROGRESS_MS = 200
const THREAD_HEAP_MB = 32

/** Times that the threads of one search are replaced */
const THREADS_LOST_MAX = 3

class ThreadEnded extends Error {
  constructor(cause: unknown) {
    super('a thread of the solver ended', { cause })
  }
}

export interface WorkSolverInit {
  /** default: as many as there are cores, at most 16 */
  threads?: number
  /** work of more bits is refused; default 24, at most 32 */
  bitsMax?: number
}

export function createWorkSolver(components: { clock: Clock; random: Random }, init: WorkSolverInit = {}): WorkSolver {
  const threads = Math.max(1, Math.min(init.threads ?? availableParallelism(), THREADS_MAX))
  return new ThreadedSolver(components, threads, Math.min(init.bitsMax ?? SOLVER_BITS_MAX, WORK_BITS_MAX))
}

class ThreadedSolver implements WorkSolver {
  readonly #clock: Clock
  readonly #random: Random
  readonly #threads: number
  readonly #bitsMax: number
  readonly #shared: Int32Array
  #workers: Worker[] = []
  #job = 0
  #turn: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #stopped = false
  /** ends the job under way with an error */
  #fail: ((error: Error) => void) | undefined
  #cancelIdle: () => void = () => {}

  constructor({ clock, random }: { clock: Clock; random: Random }, threads: number, bitsMax: number) {
    this.#clock = clock
    this.#random = random
    this.#threads = threads
    this.#bitsMax = bitsMax
    this.#shared = new Int32Array(new SharedArrayBuffer(4 * (SLICES_AT + threads)))
  }

  async solve(seed: Uint8Array, bits: number, options: SolveOptions = {}): Promise<Uint8Array> {
    workSeed(seed)
    if (!Number.isInteger(bits) || bits < 0 || bits > this.#bitsMax) throw tooHard(bits, this.#bitsMax)
    options.signal?.throwIfAborted()
    if (this.#waiting >= WAITING_MAX) throw solverBusy()
    this.#waiting++
    const run = this.#turn.then(() => this.#solve(seed, bits, options))
    this.#turn = run.catch(() => {})
    try {
      return await run
    } finally {
      this.#waiting--
    }
  }

  /** What a lost thread had tried is lost with it: every try has the same chance, so the search begins anew with new threads. */
  async #solve(seed: Uint8Array, bits: number, options: SolveOptions): Promise<Uint8Array> {
    for (let left = THREADS_LOST_MAX; ; left--) {
      try {
        return await this.#search(seed, bits, options)
      } catch (error) {
        if (!(error instanceof ThreadEnded)) throw error
        if (left === 0) throw solverFailed('a thread of the solver ended, again and again', error.cause)
      }
    }
  }

  async #search(seed: Uint8Array, bits: number, { signal, onProgress }: SolveOptions): Promise<Uint8Array> {
    signal?.throwIfAborted()
    if (this.#stopped) throw solverStopped()
    this.#cancelIdle()
    const job = ++this.#job
    const startedMs = this.#clock.monotonicMs()
    const tell = () => onProgress?.(workProgress(bits, this.#tries(), this.#clock.monotonicMs() - startedMs))
    const { promise, resolve, reject } = Promise.withResolvers<bigint>()
    this.#fail = reject
    const aborted = () => reject(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
    let cancelTick = () => {}
    const tick = () => {
      tell()
      cancelTick = this.#clock.after(PROGRESS_MS, tick)
    }
    try {
      this.#shared.fill(0)
      Atomics.store(this.#shared, JOB_AT, job)
      this.#startThreads()
      const base = new DataView(this.#random.bytes(4).buffer).getUint32(0)
      for (const [thread, worker] of this.#workers.entries()) {
        worker.ref()
        worker.removeAllListeners('message')
        worker.on('message', (found: SolverFound) => {
          if (found.job === job) resolve(found.nonce)
        })
        const order: SolverJob = { job, seed: seed.slice(), hi: (base + thread) % 2 ** 32, step: this.#threads, bits }
        worker.postMessage(order)
      }
      if (onProgress !== undefined) cancelTick = this.#clock.after(PROGRESS_MS, tick)
      const nonce = nonceBytes(await promise)
      if (workBits(seed, nonce) < bits) throw solverFailed('a thread found work that is none')
      tell()
      return nonce
    } finally {
      cancelTick()
      signal?.removeEventListener('abort', aborted)
      this.#fail = undefined
      Atomics.store(this.#shared, JOB_AT, 0)
      for (const worker of this.#workers) worker.unref()
      this.#cancelIdle = this.#clock.after(IDLE_MS, () => void this.#endThreads())
    }
  }

  /** Whole slices only: a search that hits within its first one has tried less. */
  #tries(): number {
    let slices = 0
    for (let i = 0; i < this.#threads; i++) slices += Atomics.load(this.#shared, SLICES_AT + i)
    return slices * SLICE_TRIES
  }

  #startThreads(): void {
    while (this.#workers.length < this.#threads) {
      const data: SolverThreadData = { shared: this.#shared, thread: this.#workers.length }
      const file = import.meta.url.endsWith('.ts') ? './solver-thread.ts' : './solver-thread.js'
      const worker = new Worker(new URL(file, import.meta.url), {
        workerData: data,
        execArgv: [],
        resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB }
      })
      const gone = (cause?: unknown) => {
        if (!this.#workers.includes(worker)) return
        this.#workers = this.#workers.filter((one) => one !== worker)
        void this.#endThreads() // the others' places are by number: all start anew
        this.#fail?.(new ThreadEnded(cause))
      }
      worker.on('error', gone)
      worker.on('exit', () => gone())
      this.#workers.push(worker)
    }
  }

  async #endThreads(): Promise<void> {
    const ending = this.#workers
    this.#workers = []
    await Promise.all(ending.map((worker) => worker.terminate()))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelIdle()
    this.#fail?.(solverStopped())
    await this.#turn
    this.#cancelIdle()
    await this.#endThreads()
  }
}
