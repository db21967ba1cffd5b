import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { loadScenario, shippedNames } from '../scenario/shipped.ts'
import { exportScenario } from './export-scenario.ts'

const options = { nodes: 12, seed: 4, image: 'rookery:test' }
const churn = loadScenario('internet')
/** enough for each group to have a node */
const nodesOf = (name: string) => Math.max(6, loadScenario(name).nodes.length)

const fixture = (name: string) => JSON.parse(readFileSync(new URL(`../../test/fixtures/export/${name}`, import.meta.url), 'utf8'))

interface ComposeService {
  environment: Record<string, string>
  entrypoint: string[]
  networks: { rookery?: { ipv4_address?: string } }
}
interface Pod {
  spec: { hostname: string; containers: { command: string[] }[] }
}

const { $schema: _draft7, ...composeSchema } = fixture('compose-spec.json')
const isCompose = addFormats
  .default(new Ajv({ strict: false, allErrors: true }), { formats: ['duration', 'uri-reference', 'uri', 'email'] })
  .compile(composeSchema)

/** What the Compose Specification's own schema has against it. */
function composeFaults(value: unknown): unknown[] {
  return isCompose(value) ? [] : (isCompose.errors ?? [])
}

const kubernetes = fixture('kubernetes.json')
const isOfKind = Object.fromEntries(
  ['Pod', 'Service'].map((kind) => [
    kind,
    new Ajv({ strict: false, allErrors: true }).compile({
      ...kubernetes,
      $ref: `#/definitions/io.k8s.api.core.v1.${kind}`,
      required: ['apiVersion', 'kind', 'metadata', 'spec']
    })
  ])
)

/** What Kubernetes' own definitions have against it; a member that they do not know is a fault. */
function kubernetesFaults(value: unknown): unknown[] {
  const validate = isOfKind[(value as { kind: string }).kind]
  if (validate === undefined) return ['of no known kind']
  return validate(value) ? [] : (validate.errors ?? [])
}

const dnsName = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)

/** As Shadow's Rust types have them (`configuration.rs`, `units.rs`); unknown names end its start. */
const duration = z.string().regex(/^\d+ ?(ns|us|μs|ms|s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hr|hrs|hour|hours)$/)
const hostName = z
  .string()
  .regex(/^[a-z0-9.][a-z0-9.-]*$/)
  .max(253)
const shadow = z.strictObject({
  general: z.strictObject({
    stop_time: duration,
    seed: z
      .int()
      .min(0)
      .max(2 ** 32 - 1),
    model_unblocked_syscall_latency: z.boolean()
  }),
  network: z.strictObject({ graph: z.strictObject({ type: z.literal('gml'), inline: z.string() }) }),
  hosts: z.record(
    hostName,
    z.strictObject({
      network_node_id: z.int().min(0),
      ip_addr: z.ipv4(),
      processes: z.array(
        z.strictObject({
          path: z.string(),
          args: z.array(z.string()),
          environment: z.record(z.string().regex(/^[^=\0]+$/), z.string()),
          start_time: duration,
          expected_final_state: z.literal('running')
        })
      )
    })
  )
})

describe('a scenario written for others', () => {
  it.each(shippedNames())('is a Compose file by the Compose Specification’s own schema: %s', (name) => {
    const scenario = loadScenario(name)
    expect(composeFaults(parse(exportScenario(scenario, 'compose', { ...options, nodes: nodesOf(name) })))).toEqual([])
  })

  it('is a Compose file of one service a node, each with an address of its own, its identity and its link', () => {
    const { services } = parse(exportScenario(churn, 'compose', options)) as { services: Record<string, ComposeService> }
    const all = Object.values(services)
    expect(all).toHaveLength(12)
    expect(new Set(all.map(({ networks }) => networks.rookery?.ipv4_address)).size).toBe(12)
    const script = all[11]?.entrypoint[2] as string
    expect(script).toMatch(/tc qdisc add dev eth0 root netem delay \d+ms \d+ms loss [\d.]+% rate \d+bit/)
    expect(script).toContain('$$ROOKERY_HOME/node.key')
    expect(script).toMatch(/--bootstrap \/ip4\/10\.88\.1\.2\/udp\/4711\/quic-v1\/p2p\/12D3Koo\w+/)
    expect(all[0]?.entrypoint[2]).not.toContain('--bootstrap')
  })

  it.each(shippedNames())('is a list of Kubernetes manifests by the API server’s own definitions: %s', (name) => {
    const text = exportScenario(loadScenario(name), 'kubernetes', { ...options, nodes: nodesOf(name) })
    const manifests = parseAllDocuments(text).map((one) => one.toJS() as unknown)
    expect(manifests).toHaveLength(nodesOf(name) + 1)
    for (const manifest of manifests.slice(0, 4)) expect(kubernetesFaults(manifest)).toEqual([])
  })

  it('is a headless service and one pod a node, which finds the others by their names and shapes its own link', () => {
    const [service, ...pods] = parseAllDocuments(exportScenario(churn, 'kubernetes', options)).map((one) => one.toJS() as unknown)
    expect(service).toMatchObject({ kind: 'Service', spec: { clusterIP: 'None' } })
    expect(pods).toHaveLength(12)
    for (const { spec } of pods as Pod[]) {
      expect(dnsName.parse(spec.hostname)).toBe(spec.hostname)
      expect(spec.containers[0]?.command[2]).toContain('netem')
    }
  })

  it('would not pass with a fault: a wrong type, a name that nobody knows, a member that is missing', () => {
    const compose = parse(exportScenario(churn, 'compose', options)) as { services: Record<string, Record<string, unknown>> }
    const [name] = Object.keys(compose.services) as [string]
    const broken = (more: object) => ({ ...compose, services: { [name]: { ...compose.services[name], ...more } } })
    expect(composeFaults(broken({ cap_add: 'NET_ADMIN' }))).not.toEqual([])
    expect(composeFaults(broken({ entry_point: [] }))).not.toEqual([])
    const [, pod] = parseAllDocuments(exportScenario(churn, 'kubernetes', options)).map((one) => one.toJS())
    expect(kubernetesFaults({ ...pod, spec: { ...pod.spec, hostName: 'a' } })).not.toEqual([])
    expect(kubernetesFaults({ ...pod, spec: { ...pod.spec, containers: [{ image: 'a' }] } })).not.toEqual([])
    expect(kubernetesFaults({ ...pod, spec: { ...pod.spec, hostname: 7 } })).not.toEqual([])
  })

  it('is a Shadow configuration whose hosts stand on vertices of its graph', () => {
    const { hosts, network, general } = shadow.parse(parse(exportScenario(churn, 'shadow', options)))
    const { inline } = network.graph
    const vertices = [...inline.matchAll(/^ {4}id (\d+)$/gm)].map((match) => Number(match[1]))
    expect(vertices).toEqual(vertices.map((_, i) => i))
    // every edge as Shadow reads it: times with units, and a loss that is a fraction even where it is 0
    const edge = /source (\d+)\n {4}target (\d+)\n {4}latency "(\d+) us"\n {4}jitter "\d+ us"\n {4}packet_loss \d\.\d+\n/g
    const edges = [...inline.matchAll(edge)]
    expect(edges).toHaveLength((vertices.length * (vertices.length + 1)) / 2)
    expect(edges.every((match) => Number(match[3]) > 0)).toBe(true)
    for (const { network_node_id } of Object.values(hosts)) expect(vertices).toContain(network_node_id)
    expect(general.stop_time).toBe('3660 s')
  })

  it.each(shippedNames())('is a Shadow configuration by its types: %s', (name) => {
    const { network } = shadow.parse(parse(exportScenario(loadScenario(name), 'shadow', { ...options, nodes: nodesOf(name) })))
    expect(network.graph.inline.match(/packet_loss/g)).toHaveLength(network.graph.inline.match(/packet_loss \d\.\d+\n/g)?.length ?? -1)
  })

  it('says the timeline, which others have to play, in comments', () => {
    const text = exportScenario(churn, 'compose', options)
    expect(text).toMatch(/^# internet: /)
    expect(text).toContain('#   - do: join')
  })
})
