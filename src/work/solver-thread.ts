import { parentPort, workerData } from 'node:worker_threads'
import { createSearch } from './search.ts'

/** What the solver sends: look for a nonce of `bits` under `seed`, in the nonces whose upper half is `hi`, `hi + step`, … */
export interface SolverJob {
  job: number
  seed: Uint8Array
  hi: number
  step: number
  bits: number
}
/** What a thread answers, once a job that it did not give up. */
export interface SolverFound {
  job: number
  nonce: bigint
}

/** Tries between two looks at whether to go on: a few milliseconds. */
export const SLICE_TRIES = 16_384
/** Places of the shared memory: the job that is on, and behind it the slices that each thread has tried of it. */
export const JOB_AT = 0
export const SLICES_AT = 1

const LO_COUNT = 2 ** 32

export interface SolverThreadData {
  shared: Int32Array
  thread: number
}

// in a worker that runs whole nodes this file is only imported
if (parentPort !== null && (workerData as Partial<SolverThreadData> | null)?.shared !== undefined)
  serve(parentPort, workerData as SolverThreadData)

function serve(port: NonNullable<typeof parentPort>, { shared, thread }: SolverThreadData): void {
  const search = createSearch()
  port.on('message', ({ job, seed, hi, step, bits }: SolverJob) => {
    for (let upper = hi >>> 0; ; upper = (upper + step) % LO_COUNT) {
      search.begin(seed, upper | 0, bits)
      for (let lo = 0; lo < LO_COUNT; lo += SLICE_TRIES) {
        if (Atomics.load(shared, JOB_AT) !== job) return
        const found = search.slice(lo, SLICE_TRIES)
        Atomics.add(shared, SLICES_AT + thread, 1)
        if (found === undefined) continue
        const answer: SolverFound = { job, nonce: (BigInt(upper) << 32n) | BigInt(found) }
        return port.postMessage(answer)
      }
    }
  })
}
