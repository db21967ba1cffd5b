import { stringify } from 'yaml'
import type { Definition } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import type { ExportOptions } from './export-scenario.ts'
import { type ExportedNode, exportedNodes, HOME, P2P_PORT, startScript } from './exported-node.ts'

const SERVICE = 'rookery'

/** Kubernetes manifests: a headless service, and one pod a node that finds the others by their names; links shaped by `tc netem`. */
export function kubernetesFile(definition: Definition, plan: Plan, { seed, image }: ExportOptions): string {
  const nodes = exportedNodes(definition, plan, seed)
  const labels = { app: SERVICE, scenario: definition.name }
  const bootstrap = ({ through }: ExportedNode) =>
    through.map((other) => {
      const { name, peer } = nodes[other] as ExportedNode
      return `/dns4/${name}.${SERVICE}/tcp/${P2P_PORT}/p2p/${peer}`
    })
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: SERVICE, labels },
    spec: {
      clusterIP: 'None',
      publishNotReadyAddresses: true,
      selector: labels,
      ports: [
        { name: 'quic', port: P2P_PORT, protocol: 'UDP' },
        { name: 'tcp', port: P2P_PORT, protocol: 'TCP' }
      ]
    }
  }
  const pod = (node: ExportedNode) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: node.name, labels: { ...labels, group: node.planned.group.group } },
    spec: {
      hostname: node.name,
      subdomain: SERVICE,
      restartPolicy: 'Always',
      volumes: [{ name: 'data', emptyDir: {} }],
      containers: [
        {
          name: 'node',
          image,
          command: ['/bin/sh', '-c', startScript(node, bootstrap(node))],
          env: [
            { name: 'ROOKERY_HOME', value: HOME },
            { name: 'ROOKERY_AGENTS_MODE', value: node.planned.group.reachability }
          ],
          ports: [
            { containerPort: P2P_PORT, protocol: 'UDP' },
            { containerPort: P2P_PORT, protocol: 'TCP' }
          ],
          securityContext: { capabilities: { add: ['NET_ADMIN'] } },
          volumeMounts: [{ name: 'data', mountPath: HOME }]
        }
      ]
    }
  })
  return [service, ...nodes.map(pod)].map((one) => stringify(one, { lineWidth: 0, aliasDuplicateObjects: false })).join('---\n')
}
