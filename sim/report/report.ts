import type { Distribution } from './distribution.ts'

/** What a run writes as `report.json`; times in milliseconds, sizes in bytes. */
export interface SimReport {
  scenario: string
  description: string
  seed: number
  engine: 'real'
  transport: 'memory'
  nodes: number
  startedAt: string
  wallMs: number
  machine: { cores: number; node: string; platform: string }
  phases: { name: string; ms: number }[]
  memory: { rssBytesBefore: number; rssBytesBooted: number; rssBytesMax: number; bytesPerNode: number }
  eventLoop: { delayP50Ms: number; delayP99Ms: number; delayMaxMs: number; utilization: number }
  /** false where the machine, not the network, set the pace: latencies then say nothing about a network */
  latencyValid: boolean
  join: { wanted: number; joined: number; latencyMs: Distribution }
  discovery: { searches: number; succeeded: number; successRate: number; latencyMs: Distribution; hops: Distribution; membersFound: Distribution }
  sessions: { wanted: number; opened: number; handshakeMs: Distribution }
  messages: { perNode: Distribution; bytesPerNode: Distribution; byProtocol: { protocol: string; messages: number; bytes: number }[] }
  failures: { what: string; node: number; code: string; message: string }[]
  success: boolean
  /** runs the same again */
  replay: string
}
