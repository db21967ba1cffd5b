import { performance } from 'node:perf_hooks'
import { RookeryError } from '../../src/errors.ts'
import { realTime } from '../time/real-time.ts'
import type { MachineWatch } from './machine-watch.ts'

export interface Progress {
  phase: string
  done: number
  total: number
}

export interface Phase {
  name: string
  ms: number
  /** processor time of all threads: what the phase costs whatever else the machine does */
  cpuMs: number
  /** of the event loop, 0 to 1 */
  utilization: number
  /** at its end */
  rssBytes: number
}

export interface Failure {
  what: string
  node: number
  code: string
  message: string
}

/** Failures told one by one; more are only counted. */
const FAILURES_MAX = 100

/** What a run did, phase by phase, and what went wrong in it. */
export class RunLog {
  readonly phases: Phase[] = []
  readonly failures: Failure[] = []
  failuresCount = 0
  readonly #watch: MachineWatch
  readonly #tell: (progress: Progress) => void

  constructor(watch: MachineWatch, tell: (progress: Progress) => void) {
    this.#watch = watch
    this.#tell = tell
  }

  /** Times `work`, which calls `done` with how much of `total` there is so far; without a number one more. */
  async phase(name: string, total: number, work: (done: (count?: number) => void) => Promise<void>): Promise<void> {
    const startedMs = realTime.monotonicMs()
    const since = performance.eventLoopUtilization()
    const cpuSince = process.cpuUsage()
    let count = 0
    this.#tell({ phase: name, done: 0, total })
    try {
      await work((now = count + 1) => {
        count = now
        this.#tell({ phase: name, done: count, total })
      })
    } finally {
      const { utilization } = performance.eventLoopUtilization(since)
      const ms = Math.round(realTime.monotonicMs() - startedMs)
      const cpu = process.cpuUsage(cpuSince)
      const cpuMs = Math.round((cpu.user + cpu.system) / 1_000)
      this.phases.push({ name, ms, cpuMs, utilization: Math.round(utilization * 1_000) / 1_000, rssBytes: this.#watch.rssBytes() })
    }
  }

  failed(what: string, node: number, error: unknown): void {
    this.failuresCount++
    if (this.failures.length >= FAILURES_MAX) return
    const code = error instanceof RookeryError ? error.code : 'INTERNAL'
    this.failures.push({ what, node, code, message: error instanceof Error ? error.message : String(error) })
  }
}
