import type { Progress } from './engine/run-log.ts'
import { runScenario } from './run-scenario.ts'
import { parseScenario } from './scenario/parse.ts'

/** By how much the two engines may part. */
export const AGREEMENT = 0.1
const FAILURES_TOLD = 5

const SCENARIO = parseScenario(
  `name: validation
description: Some join a space, a hundred search it one after the other; played by both engines.
nodes:
  - { group: curator, count: 1 }
  - { group: agents, count: 99 }
timeline:
  - stage: announce the space
  - { do: announce, who: { group: curator, node: 0 }, space: org.agentnet/marketplace.energy@1 }
  - stage: join the space
  - { do: join, who: { group: agents, count: 20 }, space: org.agentnet/marketplace.energy@1, atOnce: 4 }
  - { stage: search it, measured: true }
  - { do: discover, who: { count: 100 }, space: org.agentnet/marketplace.energy@1, atOnce: 4 }
`,
  'validation.yaml'
)

export interface Agreement {
  nodes: number
  seed: number
  hops: { real: number; model: number }
  success: { real: number; model: number }
  /** what went wrong with the real nodes; the first few */
  failures: string[]
  /** |model − real| of real, the larger of the two */
  apart: number
  /** of the real nodes' run: processor time, and the process's memory at its highest */
  cost: { wallMs: number; cpuMs: number; rssBytesMax: number; simulatedMs: number }
}

export interface AgreementOptions {
  seed?: number
  signal?: AbortSignal
  onProgress?: (progress: Progress & { engine: 'real' | 'model' }) => void
}

/**
 * Mean hops of a search, and the part of the searches that found somebody, in both engines. The real nodes run in virtual time: a machine that is busy
 * makes no node silent.
 */
export async function agreementAt(nodes: number, { seed = 1, signal, onProgress }: AgreementOptions = {}): Promise<Agreement> {
  const of = (engine: 'real' | 'model') => ({
    nodes,
    seed,
    engine,
    ...(signal === undefined ? {} : { signal }),
    ...(onProgress === undefined ? {} : { onProgress: (progress: Progress) => onProgress({ ...progress, engine }) })
  })
  const real = await runScenario(SCENARIO, { ...of('real'), time: 'virtual' })
  const model = await runScenario(SCENARIO, of('model'))
  const hops = { real: real.discovery.hops.mean, model: model.discovery.hops.mean }
  const success = { real: real.discovery.successRate, model: model.discovery.successRate }
  const part = ({ real: a, model: b }: { real: number; model: number }) => (a === 0 ? Number.POSITIVE_INFINITY : Math.abs(b - a) / a)
  const cost = {
    wallMs: real.wallMs,
    cpuMs: real.phases.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    rssBytesMax: real.memory.rssBytesMax,
    simulatedMs: real.virtual?.simulatedMs ?? 0
  }
  const failures = real.failures.slice(0, FAILURES_TOLD).map(({ what, node, message }) => `${what}, node ${node}: ${message}`)
  return { nodes, seed, hops, success, failures, apart: Math.max(part(hops), part(success)), cost }
}
