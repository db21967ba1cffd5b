import { runScenario } from './run-scenario.ts'
import { parseScenario } from './scenario/parse.ts'

/** By how much the two engines may part. */
export const AGREEMENT = 0.1

const SCENARIO = parseScenario(
  `name: validation
description: Some join a space, a hundred search it one after the other; played by both engines.
nodes:
  - { group: curator, count: 1 }
  - { group: agents, count: 99 }
timeline:
  - stage: announce the space
  - { do: announce, who: curator, space: org.agentnet/marketplace.energy@1 }
  - stage: join the space
  - { do: join, who: { group: agents, count: 20 }, space: org.agentnet/marketplace.energy@1, atOnce: 4 }
  - { stage: search it, measured: true }
  - { do: discover, who: { count: 100 }, space: org.agentnet/marketplace.energy@1, atOnce: 4 }
`,
  'validation.yaml'
)

export interface Agreement {
  nodes: number
  hops: { real: number; model: number }
  success: { real: number; model: number }
  /** |model − real| of real, the larger of the two */
  apart: number
}

/** Mean hops of a search, and the part of the searches that found somebody, in both engines. */
export async function agreementAt(nodes: number, seed = 1, options: { threads?: number; signal?: AbortSignal } = {}): Promise<Agreement> {
  const { threads = 1, ...rest } = options
  const real = await runScenario(SCENARIO, { nodes, seed, threads, ...rest })
  const model = await runScenario(SCENARIO, { nodes, seed, engine: 'model', ...rest })
  const hops = { real: real.discovery.hops.mean, model: model.discovery.hops.mean }
  const success = { real: real.discovery.successRate, model: model.discovery.successRate }
  const part = ({ real: a, model: b }: { real: number; model: number }) => (a === 0 ? Number.POSITIVE_INFINITY : Math.abs(b - a) / a)
  return { nodes, hops, success, apart: Math.max(part(hops), part(success)) }
}
