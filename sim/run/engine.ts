import type { ProtocolTraffic } from '../../src/net/traffic.ts'
import type { Definition } from '../scenario/definition.ts'
import type { PlannedStage } from '../scenario/events.ts'
import type { Invariants } from './invariants.ts'
import type { Recorder } from './recorder.ts'

/** What both engines are handed. */
export interface RunContext {
  definition: Definition
  invariants: Invariants
  recorder: Recorder
  /** one line of the event log */
  log(line: string): void
  signal: AbortSignal
  /** lets timers, progress and Ctrl-C have a turn */
  breathe(): Promise<void>
}

/** By node, and by protocol where the engine has any. */
export interface Sent {
  messages: number[]
  bytes: number[]
  byProtocol: ProtocolTraffic[]
}

/** One run of one plan: what the runner asks of an engine, in this order. */
export interface EngineRun {
  readonly kind: 'real' | 'model'
  /** @param step - so many nodes have joined */
  boot(step: (count: number) => void): Promise<void>
  /** Does all that the stage plans; resolves when it has ended and the stage has lasted. @param done - so many of its events */
  stage(stage: PlannedStage, done: (count: number) => void): Promise<void>
  /** Records a picture of the network as it is. */
  draw(label: string): Promise<void>
  /** Whatever waits is handed over; then the last facts are told. */
  finish(): Promise<void>
  sent(): Sent
  /** Closes everything, after a failure too. */
  stop(step: (count: number) => void): Promise<void>
}
