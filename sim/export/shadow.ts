import { stringify } from 'yaml'
import { derivedRandom } from '../engine/seeds.ts'
import { BANDWIDTH } from '../net/latency.ts'
import { LinkModel } from '../net/link-model.ts'
import type { Definition } from '../scenario/definition.ts'
import type { Plan, PlannedNode } from '../scenario/events.ts'
import { bootstrapOf } from './compose.ts'
import type { ExportOptions } from './export-scenario.ts'
import { addressOf, exportedNodes, startScript } from './exported-node.ts'

/** Time that nodes have to start and to join, before the scenario's own */
const BOOT_SEC = 60
/** Nodes start so far apart. */
const START_EACH_MS = 50
/** The shortest way that Shadow takes */
const LATENCY_MIN_US = 100

/** A Shadow configuration: one host a node, and a graph with a vertex for each region and hardware. Shadow carries TCP; QUIC as far as it emulates UDP. */
export function shadowFile(definition: Definition, plan: Plan, { seed }: ExportOptions): string {
  const nodes = exportedNodes(definition, plan, seed)
  const places = [...new Map(plan.nodes.map((node) => [placeOf(node), node])).values()]
  const vertexOf = (node: PlannedNode) => places.findIndex((place) => placeOf(place) === placeOf(node))
  const lastsMs = plan.stages.reduce((sum, stage) => sum + stage.lastsMs, 0)
  const hosts = nodes.map((node, i) => [
    node.name,
    {
      network_node_id: vertexOf(node.planned),
      ip_addr: addressOf(node.planned.index),
      processes: [
        {
          path: '/bin/sh',
          args: ['-c', startScript({ ...node, delayMs: 0, lossPercent: 0, upBitsPerSec: 0 }, bootstrapOf(node, nodes))],
          environment: { ROOKERY_HOME: `./${node.name}`, ROOKERY_AGENTS_MODE: node.planned.group.reachability },
          start_time: `${1_000 + i * START_EACH_MS} ms`,
          expected_final_state: 'running'
        }
      ]
    }
  ])
  return stringify(
    {
      general: { stop_time: `${BOOT_SEC + Math.ceil(lastsMs / 1_000)} s`, seed: Math.max(1, seed), model_unblocked_syscall_latency: true },
      network: { graph: { type: 'gml', inline: graphOf(definition, places) } },
      hosts: Object.fromEntries(hosts)
    },
    { lineWidth: 0, aliasDuplicateObjects: false }
  )
}

function placeOf({ region, group }: PlannedNode): string {
  return `${region} ${group.hardware}`
}

function graphOf({ network }: Definition, places: readonly PlannedNode[]): string {
  const link = new LinkModel(places, { ...network, jitter: 0, loss: 0, bandwidth: false }, derivedRandom(0, 'export'))
  const lines = ['graph [', '  directed 0']
  for (const [id, { group }] of places.entries()) {
    const { up, down } = BANDWIDTH[group.hardware]
    lines.push(`  node [`, `    id ${id}`, `    host_bandwidth_up "${up * 8} bit"`, `    host_bandwidth_down "${down * 8} bit"`, '  ]')
  }
  for (let a = 0; a < places.length; a++) {
    for (let b = a; b < places.length; b++) {
      const latencyUs = Math.max(LATENCY_MIN_US, Math.round(link.medianMs(a, b) * 1_000))
      lines.push(
        '  edge [',
        `    source ${a}`,
        `    target ${b}`,
        `    latency "${latencyUs} us"`,
        `    jitter "${Math.round(latencyUs * network.jitter)} us"`,
        `    packet_loss ${fraction(network.loss)}`,
        '  ]'
      )
    }
  }
  return `${[...lines, ']'].join('\n')}\n`
}

/** GML tells 0 and 0.0 apart, and Shadow takes a fraction alone. */
function fraction(value: number): string {
  return Number.isInteger(value) ? value.toFixed(1) : String(value)
}
