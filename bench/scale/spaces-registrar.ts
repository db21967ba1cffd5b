/** The registrar that holds what spaces.ts announces: a node in a process of its own. */
import type { ConfigInput } from '../../src/config/schema.ts'
import type { RookeryNode } from '../../src/rookery-node.ts'
import { serveChild } from './child.ts'
import { Measurement } from './measurement.ts'
import { NodeUnderTest } from './node-under-test.ts'
import type { Operator } from './operator.ts'

const METRICS = /^rookery_(registry|bound)/
const STATUS = ['registry.bytesMax', 'registry.putsPerMinuteMax']
const MIB = 1_048_576

/** by name: a few */
const registrars = new Map<string, NodeUnderTest>()
let running: { node: RookeryNode; operator: Operator } | undefined

/** @returns where it listens, and how long the start took, ms */
async function start({
  folder,
  name,
  config
}: {
  folder: string
  name: string
  config: ConfigInput
}): Promise<{ addresses: string[]; ms: number }> {
  const under = registrars.get(name) ?? new NodeUnderTest(folder, name)
  registrars.set(name, under)
  const startedMs = performance.now()
  running = await under.start(config)
  return {
    addresses: running.node.host.addresses().map((one) => (one.includes('/p2p/') ? one : `${one}/p2p/${running?.node.peer}`)),
    ms: performance.now() - startedMs
  }
}

async function stats() {
  const { heapUsed, external, rss } = process.memoryUsage()
  return { ...running?.node.registry.stats(), heapMib: (heapUsed + external) / MIB, rssMib: rss / MIB }
}

async function look() {
  if (running === undefined) return []
  const run = new Measurement(
    { kind: 'spaces', size: 0, part: 1, folder: running.node.config.dataDir ?? '' },
    running.node.config.dataDir ?? ''
  )
  return await running.operator.look(running.node, run, { at: 'at the registrar', metrics: METRICS, status: STATUS })
}

async function stop(): Promise<number> {
  const startedMs = performance.now()
  await running?.node.stop()
  return performance.now() - startedMs
}

serveChild({ start, stats, look, stop })
