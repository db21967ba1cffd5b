import { stringify } from 'yaml'
import type { Definition } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import type { ExportOptions } from './export-scenario.ts'
import { addressOf, type ExportedNode, exportedNodes, HOME, P2P_PORT, startScript } from './exported-node.ts'

/** A Docker Compose file: one service a node, each at an address of its own, links shaped by `tc netem`. */
export function composeFile(definition: Definition, plan: Plan, { seed, image }: ExportOptions): string {
  const nodes = exportedNodes(definition, plan, seed)
  const service = (node: ExportedNode) => ({
    image,
    hostname: node.name,
    cap_add: ['NET_ADMIN'],
    environment: { ROOKERY_HOME: HOME, ROOKERY_AGENTS_MODE: node.planned.group.reachability },
    // `$` begins a variable in Compose
    entrypoint: ['/bin/sh', '-c', startScript(node, bootstrapOf(node, nodes)).replaceAll('$', '$$$$')],
    networks: { rookery: { ipv4_address: addressOf(node.planned.index) } }
  })
  return stringify(
    {
      name: definition.name,
      services: Object.fromEntries(nodes.map((node) => [node.name, service(node)])),
      networks: { rookery: { ipam: { config: [{ subnet: '10.88.0.0/16' }] } } }
    },
    { lineWidth: 0, aliasDuplicateObjects: false }
  )
}

export function bootstrapOf({ through }: ExportedNode, nodes: readonly ExportedNode[]): string[] {
  return through.map((other) => `/ip4/${addressOf(other)}/udp/${P2P_PORT}/quic-v1/p2p/${(nodes[other] as ExportedNode).peer}`)
}
