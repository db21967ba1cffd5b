import type { Progress } from '../engine/run-log.ts'
import type { SimReport } from '../report/report.ts'
import type { RunOptions } from '../run-scenario.ts'
import type { Definition } from '../scenario/definition.ts'

/** What of a run's options crosses into another thread. */
export type PlainOptions = Omit<RunOptions, 'signal' | 'onProgress' | 'onStart' | 'onLog' | 'seams'>

export interface VirtualWorkerData {
  definition: Definition
  options: PlainOptions
  /** whether each line of the event log is asked for */
  log: boolean
}

/** From the thread to who started it; the other way there is one word, `abort`. */
export type VirtualReply =
  | { progress: Progress }
  | { log: string }
  | { report: SimReport }
  | { error: { message: string; code?: string; kind?: string } }
