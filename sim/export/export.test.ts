import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { loadScenario } from '../scenario/shipped.ts'
import { exportScenario } from './export-scenario.ts'

const options = { nodes: 12, seed: 4, image: 'rookery:test' }
const churn = loadScenario('internet')

/** The parts of the Compose specification that are used, with nothing beside them. */
const compose = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]*$/),
  services: z.record(
    z.string().regex(/^[a-zA-Z0-9._-]+$/),
    z.strictObject({
      image: z.string(),
      hostname: z.string(),
      cap_add: z.array(z.string()),
      environment: z.record(z.string(), z.string()),
      entrypoint: z.array(z.string()),
      networks: z.record(z.string(), z.strictObject({ ipv4_address: z.ipv4() }))
    })
  ),
  networks: z.record(z.string(), z.strictObject({ ipam: z.strictObject({ config: z.array(z.strictObject({ subnet: z.cidrv4() })) }) }))
})

const dnsName = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
const port = z.int().min(1).max(65_535)
const metadata = z.strictObject({ name: dnsName, labels: z.record(z.string(), z.string()) })
const service = z.strictObject({
  apiVersion: z.literal('v1'),
  kind: z.literal('Service'),
  metadata,
  spec: z.strictObject({
    clusterIP: z.literal('None'),
    publishNotReadyAddresses: z.boolean(),
    selector: z.record(z.string(), z.string()),
    ports: z.array(z.strictObject({ name: dnsName, port, protocol: z.enum(['TCP', 'UDP']) }))
  })
})
const pod = z.strictObject({
  apiVersion: z.literal('v1'),
  kind: z.literal('Pod'),
  metadata,
  spec: z.strictObject({
    hostname: dnsName,
    subdomain: dnsName,
    restartPolicy: z.enum(['Always', 'OnFailure', 'Never']),
    volumes: z.array(z.strictObject({ name: dnsName, emptyDir: z.strictObject({}) })),
    containers: z.array(
      z.strictObject({
        name: dnsName,
        image: z.string(),
        command: z.array(z.string()),
        env: z.array(z.strictObject({ name: z.string(), value: z.string() })),
        ports: z.array(z.strictObject({ containerPort: port, protocol: z.enum(['TCP', 'UDP']) })),
        securityContext: z.strictObject({ capabilities: z.strictObject({ add: z.array(z.string()) }) }),
        volumeMounts: z.array(z.strictObject({ name: dnsName, mountPath: z.string().startsWith('/') }))
      })
    )
  })
})

/** As Shadow's configuration specification has them; unknown names end its start. */
const duration = z.string().regex(/^\d+ (ms|s|min)$/)
const shadow = z.strictObject({
  general: z.strictObject({ stop_time: duration, seed: z.int().min(1), model_unblocked_syscall_latency: z.boolean() }),
  network: z.strictObject({ graph: z.strictObject({ type: z.literal('gml'), inline: z.string() }) }),
  hosts: z.record(
    dnsName,
    z.strictObject({
      network_node_id: z.int().min(0),
      ip_addr: z.ipv4(),
      processes: z.array(
        z.strictObject({
          path: z.string(),
          args: z.array(z.string()),
          environment: z.record(z.string(), z.string()),
          start_time: duration,
          expected_final_state: z.literal('running')
        })
      )
    })
  )
})

describe('a scenario written for others', () => {
  it('is a Compose file: one service a node, each with an address of its own, its identity and its link', () => {
    const { services } = compose.parse(parse(exportScenario(churn, 'compose', options)))
    const all = Object.values(services)
    expect(all).toHaveLength(12)
    expect(new Set(all.map(({ networks }) => networks.rookery?.ipv4_address)).size).toBe(12)
    const script = all[11]?.entrypoint[2] as string
    expect(script).toMatch(/tc qdisc add dev eth0 root netem delay \d+ms \d+ms loss [\d.]+% rate \d+bit/)
    expect(script).toContain('$$ROOKERY_HOME/node.key')
    expect(script).toMatch(/--bootstrap \/ip4\/10\.88\.1\.2\/udp\/4711\/quic-v1\/p2p\/12D3Koo\w+/)
    expect(all[0]?.entrypoint[2]).not.toContain('--bootstrap')
  })

  it('is a list of Kubernetes manifests: a headless service and one pod a node', () => {
    const [first, ...pods] = parseAllDocuments(exportScenario(churn, 'kubernetes', options)).map((one) => one.toJS() as unknown)
    service.parse(first)
    expect(pods).toHaveLength(12)
    for (const one of pods) expect(pod.parse(one).spec.containers[0]?.command[2]).toContain('netem')
  })

  it('is a Shadow configuration whose hosts stand on vertices of its graph', () => {
    const { hosts, network, general } = shadow.parse(parse(exportScenario(churn, 'shadow', options)))
    const { inline } = network.graph
    const vertices = [...inline.matchAll(/^ {4}id (\d+)$/gm)].map((match) => Number(match[1]))
    expect(vertices).toEqual(vertices.map((_, i) => i))
    const edges = [...inline.matchAll(/source (\d+)\n {4}target (\d+)\n {4}latency "(\d+) us"/g)]
    expect(edges).toHaveLength((vertices.length * (vertices.length + 1)) / 2)
    expect(edges.every((match) => Number(match[3]) > 0)).toBe(true)
    for (const { network_node_id } of Object.values(hosts)) expect(vertices).toContain(network_node_id)
    expect(general.stop_time).toBe('3660 s')
  })

  it('says the timeline, which others have to play, in comments', () => {
    const text = exportScenario(churn, 'compose', options)
    expect(text).toMatch(/^# internet: /)
    expect(text).toContain('#   - do: join')
  })
})
