import { readFileSync, writeFileSync } from 'node:fs'
import type { MetricObjectWithValues, MetricValue } from 'prom-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { callControl } from '../../src/api/control-client.ts'
import { openControl } from '../../src/daemon.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { Traffic } from '../../src/net/traffic.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { type NodeMetrics, nodeMetrics } from '../../src/ops/metrics.ts'
import { Observed } from '../../src/ops/observed.ts'
import { openOps } from '../../src/ops/open-ops.ts'
import type { OpsServer } from '../../src/ops/ops-server.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'
import { METRICS_BEGIN, METRICS_END, type MetricFacts, metricsTable } from '../support/metrics-reference.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const ROOT = new URL('../../', import.meta.url)
/** What a peer or caller writes here must be in no label. */
const FOREIGN = 'foreign-text-4711'

let a: RookeryNode
let b: RookeryNode
let alice: HostedAgent
let bob: HostedAgent
let metrics: NodeMetrics
let ops: OpsServer
const observed = new Observed()
const traffic = new Traffic()
const dirs: ReturnType<typeof nodeDir>[] = []
const logger = createLogger({ level: 'info', sink: { write: () => {} } })

const token = (node: RookeryNode, agent: HostedAgent) => readFileSync(node.agents.tokenFile(agent) as string, 'utf8').trim()

async function ask(
  path: string,
  { method = 'GET', body, headers = {} }: { method?: string; body?: unknown; headers?: Record<string, string> } = {}
) {
  const answer = await fetch(`${a.httpUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${token(a, alice)}`, 'a2a-version': '1.0', 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  await answer.text()
  return answer.status
}

/** All that a peer and a caller can write, so that whatever would become a label has become one. */
async function busy(): Promise<void> {
  const message = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: FOREIGN }], metadata: { [FOREIGN]: 1 } })
  await b.send({ from: bob, to: alice.eid, message: message(`${FOREIGN}-1`) }, { waitMs: 0 })
  await a.send({ from: alice, to: bob.eid, message: message(`${FOREIGN}-2`) })
  const rpc = (method: string, params: object) => ({ jsonrpc: '2.0', id: FOREIGN, method, params })
  await ask(`/agents/${alice.did}`, {
    method: 'POST',
    body: rpc('SendMessage', { message: message('m3'), configuration: { returnImmediately: true } })
  })
  await ask('/', { method: 'POST', body: rpc(FOREIGN, {}) })
  await ask(`/${FOREIGN}`)
  await ask(`/agents/${FOREIGN}/${FOREIGN}`)
  await ask(`/v1/work/${FOREIGN}`)
  await ask(`/v1/work/${FOREIGN}/complete`, { method: 'POST', body: { claim: FOREIGN } })
  await ask('/v1/work/claim', { method: 'POST', body: { sideEffects: 'none' } })
  await ask('/.well-known/agent-card.json')
  await ask('/mcp', { method: 'POST', body: rpc('initialize', {}) })
  await ask('/', { method: 'PATCH' })
  await ask('/tasks')
  await fetch(`${ops.url}/readyz`).then((answer) => answer.text())
  await b.spaces.announce({ name: `org.${FOREIGN}/topic@1`, curator: bob, description: FOREIGN })
  await b.spaces.join({ name: `org.${FOREIGN}/topic@1`, agent: bob, tags: [FOREIGN] })
  await a.spaces.find({ name: `org.${FOREIGN}/topic@1` })
  await callControl(a.config.dataDir as string, 'status', {})
  await callControl(a.config.dataDir as string, 'inbox.show', { id: FOREIGN }).catch(() => {})
}

beforeAll(async () => {
  const start = async (config: object, overrides: object) => {
    const dir = nodeDir()
    dirs.push(dir)
    return await createNode({ ...LOOPBACK, ...config, ops: { port: 0, agentLabels: true }, dataDir: dir.path }, overrides)
  }
  a = await start({ retention: { tasks: '2h' } }, { observed, traffic, logger })
  b = await start({ bootstrap: a.host.addresses().map((address) => `${address}/p2p/${a.peer}`) }, {})
  while ([a, b].some(({ host }) => host.peers().length === 0 || host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  alice = await a.addAgent({ name: 'alice' })
  bob = await b.addAgent({ name: 'bob', handler: 'echo' })
  await openControl(a, a.config.dataDir as string, { observed })
  ops = await openOps(a, { traffic, observed, logger })
  metrics = nodeMetrics(a, { process: 'left out', traffic, observed, logger })
  await busy()
})
afterAll(async () => {
  await b.stop()
  await a.stop()
  for (const dir of dirs) dir.remove()
})

type Read = MetricObjectWithValues<MetricValue<string> & { metricName?: string }>

/** What each label may hold. */
const LABELS: { readonly [label: string]: RegExp } = {
  version: /^\d+\.\d+\.\d+/,
  peer: /^12D3KooW/,
  agent: /^alice$/,
  state:
    /^(accepts|asleep|ok|full|failing|down|established|disconnected|closing|closed|pending|claimed|input-required|auth-required|done|failed|canceled|rejected|waiting|ended|kept|partial)$/,
  door: /^(a2a-json-rpc|a2a-rest|card|agent-http|mcp|ops|none|a2a-http|a2a-pss|asleep-queue|library|control|node)$/,
  route:
    /^(none|\/healthz|\/readyz|\/metrics|(\/agents\/\{did\})?(\/|\/v1\/work(\/events|\/claim|\/\{id\}(\/[a-z]+)?)?|\/mcp|\/\.well-known\/agent-card\.json|\/[a-zA-Z:{}/]*)?)$/,
  method: /^(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|other|[a-z]+[a-zA-Z]*(\.[a-zA-Z]+)?)$/,
  status: /^[1-5]xx$/,
  outcome:
    /^(let_in|rate_limited|near_miss|delivered|failed|given_up|served|found|empty|solved|answered|ended|exported|faulty|late|replayed|work|clock|full)$/,
  reason: /^(stale|invalid|full|need-work)$/,
  protocol: /^\/[a-z0-9/.-]+$/,
  kind: /^(tasks|queue|outbox|keeping|replays|sessions|state|registry|dht|evidence|access|records|node|other|store|agents|keys|exports)$/,
  role: /^(curator|member)$/,
  bound: /^(sessions|tasks|records)$/,
  query: /^(closest_peers|put|values)$/,
  level: /^(debug|info|warn|error)$/,
  le: /^(\+Inf|\d+(\.\d+)?)$/
}

describe('the metrics of a node', () => {
  it('have names with their units, and only labels of closed sets: nothing that a peer or a caller wrote is in them', async () => {
    const read = (await metrics.json()) as Read[]
    expect(read.length).toBeGreaterThan(45)
    for (const { name, help, type, values } of read) {
      expect(name).toMatch(/^rookery_[a-z_]+$/)
      expect(help.length).toBeGreaterThan(5)
      const kind = String(type)
      expect(name.endsWith('_total'), name).toBe(kind === 'counter')
      if (kind === 'histogram') expect(name).toMatch(/_(seconds|bytes)$/)
      for (const { labels } of values) {
        for (const [label, value] of Object.entries(labels)) {
          expect(LABELS[label], `${name}{${label}}`).toBeDefined()
          expect(String(value), `${name}{${label}}`).toMatch(LABELS[label] as RegExp)
        }
      }
    }
    const text = await metrics.text()
    expect(text).not.toContain(FOREIGN)
    expect(text).not.toContain(b.peer)
    expect(text).not.toContain(bob.did)
  })

  it('count and time every door by template of route, method and class of status', async () => {
    const http = ((await metrics.json()) as Read[]).find(({ name }) => name === 'rookery_http_request_duration_seconds') as Read
    const counts = http.values
      .filter(({ metricName }) => metricName?.endsWith('_count'))
      .map(({ labels, value }) => [`${labels.door} ${labels.method} ${labels.route} ${labels.status}`, value])
    expect(Object.fromEntries(counts)).toMatchObject({
      'a2a-json-rpc POST /agents/{did} 2xx': 1,
      'a2a-json-rpc POST / 2xx': 1,
      'none GET none 4xx': expect.any(Number),
      'agent-http GET /v1/work/{id} 4xx': 1,
      'agent-http POST /v1/work/{id}/complete 4xx': 1,
      'agent-http POST /v1/work/claim 2xx': 1,
      'card GET /.well-known/agent-card.json 2xx': 1,
      'none PATCH none 4xx': 1,
      'a2a-rest GET /tasks 2xx': 1,
      'ops GET /readyz 2xx': 1
    })
    expect(counts.some(([key]) => String(key).startsWith('mcp POST /mcp '))).toBe(true)
  })

  it('say what the node did: tasks by door, answers of the DHT, syncs, work, calls of the control API', async () => {
    const lines = (await metrics.text()).split('\n')
    const value = (start: string) =>
      Number(
        lines
          .find((line) => line.startsWith(start))
          ?.split(' ')
          .at(-1) ?? Number.NaN
      )
    expect(value('rookery_tasks_created_total{door="a2a-pss"}')).toBe(1)
    expect(value('rookery_tasks_created_total{door="a2a-http"}')).toBe(1)
    expect(value('rookery_todos{state="claimed"}')).toBe(1)
    expect(value('rookery_todos{state="pending"}')).toBe(1)
    expect(value('rookery_sessions{state="established"}')).toBe(1)
    expect(value('rookery_store_sync_duration_seconds_count')).toBeGreaterThan(5)
    expect(value('rookery_control_call_duration_seconds_count{method="status",outcome="answered"}')).toBe(1)
    expect(value('rookery_control_call_duration_seconds_count{method="inbox.show",outcome="failed"}')).toBe(1)
    expect(value('rookery_dht_query_duration_seconds_count{query="put",outcome="found"}')).toBeGreaterThan(0)
    expect(value('rookery_disk_bytes{kind="store"}')).toBeGreaterThan(0)
    expect(value('rookery_log_lines_total{level="info"}')).toBeGreaterThan(0)
    expect(value('rookery_agent_todos{agent="alice",state="pending"}')).toBe(1)
  })

  it('tell no agent by name unless the owner says so, since any process of the machine can read them', async () => {
    const { ops: settings } = a.config
    settings.agentLabels = false
    try {
      const quiet = await nodeMetrics(a, { process: 'left out', traffic, observed, logger }).text()
      expect(quiet).not.toContain('alice')
      expect(quiet).toContain('rookery_agents{state="accepts"} 1')
    } finally {
      settings.agentLabels = true
    }
  })
})

const namesIn = (text: string) => [...new Set([...text.matchAll(/\b(rookery|nodejs|process)_[a-z0-9_]+/g)].map(([name]) => name))]

/** Every name that a scrape shows, those of histograms with their endings. */
async function exposed(): Promise<Set<string>> {
  const text = await fetch(`${ops.url}/metrics`).then((answer) => answer.text())
  const names = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name, type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name as string]
  )
  return new Set(names)
}

describe('the settings of retention', () => {
  it('reach the store of tasks', () => {
    expect(a.todos.bounds.retainMs).toBe(7_200_000)
  })
})

describe('what is written about the metrics', () => {
  it('docs/metrics.md lists all of them', async () => {
    const facts: MetricFacts[] = metrics.facts()
    const file = new URL('docs/metrics.md', ROOT)
    const doc = readFileSync(file, 'utf8')
    const [before = '', rest = ''] = doc.split(METRICS_BEGIN)
    const [, after = ''] = rest.split(METRICS_END)
    const wanted = `${before}${METRICS_BEGIN}\n${metricsTable(facts)}\n${METRICS_END}${after}`
    if (process.env.ROOKERY_WRITE_DOCS === '1') writeFileSync(file, wanted)
    expect(doc, 'run this test with ROOKERY_WRITE_DOCS=1').toBe(wanted)
  })

  it('the dashboard for Grafana asks for metrics that are there, in panels that do not overlap', async () => {
    const text = readFileSync(new URL('packaging/grafana/rookery.json', ROOT), 'utf8')
    const there = await exposed()
    const asked = namesIn(text)
    expect(asked.length).toBeGreaterThan(20)
    expect(asked.filter((name) => !there.has(name))).toEqual([])
    const { panels, uid, title } = JSON.parse(text) as {
      uid: string
      title: string
      panels: {
        id: number
        type: string
        title: string
        gridPos: { x: number; y: number; w: number; h: number }
        targets?: { expr: string }[]
      }[]
    }
    expect([uid, title]).toEqual(['rookery-node', 'Rookery node'])
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = new Set<string>()
    for (const {
      gridPos: { x, y, w, h },
      targets,
      type
    } of panels) {
      expect(x + w).toBeLessThanOrEqual(24)
      for (let i = x; i < x + w; i++) for (let j = y; j < y + h; j++) expect(cells.has(`${i},${j}`) || !cells.add(`${i},${j}`)).toBe(false)
      if (type !== 'row') expect((targets ?? []).every(({ expr }) => expr !== '')).toBe(true)
    }
  })

  it('the alerts for Prometheus ask for metrics that are there, and each says what is wrong and what to do', async () => {
    const text = readFileSync(new URL('packaging/prometheus/rookery.rules.yaml', ROOT), 'utf8')
    const there = await exposed()
    const { groups } = parse(text) as {
      groups: {
        name: string
        rules: { alert: string; expr: string; for?: string; labels: { severity: string }; annotations: Record<string, string> }[]
      }[]
    }
    const rules = groups.flatMap((group) => group.rules)
    expect(rules.length).toBeGreaterThan(8)
    for (const { alert, expr, for: held = '0s', labels, annotations } of rules) {
      expect(alert).toMatch(/^Rookery[A-Z][A-Za-z]+$/)
      expect(
        namesIn(expr).filter((name) => !there.has(name)),
        alert
      ).toEqual([])
      expect(held).toMatch(/^\d+[smhd]$/)
      expect(['critical', 'warning']).toContain(labels.severity)
      expect(Object.keys(annotations).sort()).toEqual(['description', 'summary'])
      expect((expr.match(/\(/g) ?? []).length).toBe((expr.match(/\)/g) ?? []).length)
    }
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
  })
})
