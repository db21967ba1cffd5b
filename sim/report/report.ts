import type { EventLoopFigures, MachineLimit } from '../engine/machine-watch.ts'
import type { Failure, Phase } from '../engine/run-log.ts'
import type { Check } from '../hostile/world.ts'
import type { Broken, Verdict } from '../run/invariants.ts'
import type { SeriesPoint, Topology } from '../run/recorder.ts'
import type { Definition, EngineKind } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import type { Distribution } from './distribution.ts'

/** What a run writes as `report.json`; times in milliseconds, sizes in bytes. */
export interface SimReport {
  scenario: string
  description: string
  seed: number
  engine: EngineKind
  transport: 'memory' | 'quic' | 'model'
  /**
   * `real`: a second of the run is a second; `virtual`: time stands still while nodes work and leaps when they wait; `model`: the model's own clock.
   * Wall and processor time of the phases are always this machine's.
   */
  time: 'real' | 'virtual' | 'model'
  threads: number
  nodes: number
  startedAt: string
  wallMs: number
  machine: { cores: number; node: string; platform: string }
  phases: Phase[]
  memory: { rssBytesBefore: number; rssBytesBooted: number; rssBytesMax: number; bytesPerNode: number; availableBytesMin: number }
  /** over the phases whose latencies are told: searches and sessions */
  eventLoop: EventLoopFigures
  /** false where the machine, not the network, set the pace: latencies then say nothing about a network */
  latencyValid: boolean
  /** what of the machine set the pace; empty where nothing did, or nothing was measured */
  machineLimits: MachineLimit[]
  join: { wanted: number; joined: number; latencyMs: Distribution }
  discovery: {
    searches: number
    succeeded: number
    /** 0 to 1: searches that found a member */
    successRate: number
    /** members there were to find, and the part of them that all searches together found */
    members: number
    recall: number
    latencyMs: Distribution
    /** RPCs in a row to the registrar found last, in the longest look-up of a search */
    hops: Distribution
    membersFound: Distribution
  }
  sessions: { wanted: number; opened: number; handshakeMs: Distribution; roundTripMs: Distribution }
  /** messages; acknowledged as delivered or kept */
  sends: { wanted: number; acked: number; latencyMs: Distribution }
  /** sent on negotiated streams; what carries the streams is not in it */
  messages: { perNode: Distribution; bytesPerNode: Distribution; byProtocol: { protocol: string; messages: number; bytes: number }[] }
  /** actions by kind */
  actions: Record<string, { ok: number; failed: number }>
  series: { stepMs: number; points: SeriesPoint[] }
  /** wakes by second of the period */
  wakes: { second: number; count: number }[]
  topologies: Topology[]
  invariants: Verdict[]
  /** what broke; the first hundred */
  broken: Broken[]
  /** what was measured against a bound, in scenarios with attackers */
  checks: Check[]
  failures: Failure[]
  /** failures in all; the list holds the first hundred */
  failuresCount: number
  /** of the model, whose log is the same for the same seed; of real nodes it tells what was done */
  eventLog: { sha256: string; lines: string[] }
  /** of the model engine */
  model?: { events: number; eventsPerSec: number; simulatedMs: number }
  /** of real nodes in virtual time: what passed for them, and the timers that fired in it */
  virtual?: { simulatedMs: number; timers: number }
  /** ended before its plan was done */
  interrupted: boolean
  success: boolean
  /** runs the same again */
  replay: string
  /** the scenario itself, as it was checked; durations in milliseconds */
  definition: Definition
  /** what happened, where it was not what the scenario plans: a failure made short */
  plan?: Plan
  /** how short a failing run was made */
  shrunk?: { events: number; of: number; runs: number }
}
