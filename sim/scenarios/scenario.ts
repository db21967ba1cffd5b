import type { RealEngine } from '../engine/real-engine.ts'
import type { RunLog } from '../engine/run-log.ts'
import type { Check } from '../hostile/world.ts'

/** Raw figures of a run; each list has one entry for each success. */
export interface Measured {
  join: { wanted: number; latenciesMs: number[] }
  discovery: {
    wanted: number
    /** members that a search could find */
    members: number
    latenciesMs: number[]
    hops: number[]
    membersFound: number[]
  }
  sessions: { wanted: number; opened: number; handshakesMs: number[]; roundTripsMs: number[] }
  /** what was measured against a bound; where there are any, they and the joins decide whether the run succeeded */
  checks?: Check[]
}

export interface ScenarioRun {
  engine: RealEngine
  log: RunLog
  measured: Measured
  /** marks the phases whose latencies are told: the event loop is watched from the first call to the end of the last */
  measure<T>(work: () => Promise<T>): Promise<T>
  signal: AbortSignal
}

export interface Scenario {
  readonly name: string
  readonly description: string
  readonly nodes: { min: number; max: number; default: number }
  /** What a run of so many nodes means to do, so that a report tells it even where the run ended before. */
  wanted(nodes: number, seed: number): Measured
  /** The nodes run and know each other when it is called. Single failures go to the log; what it throws ends the run. */
  run(run: ScenarioRun, seed: number): Promise<void>
}
