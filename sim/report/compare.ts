import type { SimReport } from './report.ts'

export interface Comparison {
  what: string
  unit: string
  a: number
  b: number
  /** b of a; absent where a is 0 */
  ratio?: number
  /** set where one of the two may not be read as a latency */
  invalid?: true
}

/** Figures of two reports side by side. Latencies of a saturated machine are marked. */
export function compareReports(a: SimReport, b: SimReport): Comparison[] {
  const rows: Comparison[] = []
  const row = (what: string, unit: string, of: (report: SimReport) => number, isLatency = false) => {
    const [one, two] = [of(a), of(b)]
    rows.push({
      what,
      unit,
      a: one,
      b: two,
      ...(one === 0 ? {} : { ratio: Math.round((two / one) * 1_000) / 1_000 }),
      ...(isLatency && !(a.latencyValid && b.latencyValid) ? { invalid: true as const } : {})
    })
  }
  row('nodes', '', (report) => report.nodes)
  row('searches that found a member', '%', (report) => report.discovery.successRate * 100)
  row('members found by a search', '%', (report) => report.discovery.recall * 100)
  row('hops of a search, mean', '', (report) => report.discovery.hops.mean)
  row('hops of a search, p99', '', (report) => report.discovery.hops.p99)
  row('joined the space', '', (report) => report.join.joined)
  row('sessions opened', '', (report) => report.sessions.opened)
  row('messages acknowledged', '', (report) => report.sends.acked)
  row('search, median', 'ms', (report) => report.discovery.latencyMs.p50, true)
  row('search, p99', 'ms', (report) => report.discovery.latencyMs.p99, true)
  row('join, median', 'ms', (report) => report.join.latencyMs.p50, true)
  row('handshake, median', 'ms', (report) => report.sessions.handshakeMs.p50, true)
  row('message until acknowledged, median', 'ms', (report) => report.sends.latencyMs.p50, true)
  row('messages sent a node, median', '', (report) => report.messages.perNode.p50)
  row('bytes sent a node, median', 'bytes', (report) => report.messages.bytesPerNode.p50)
  row('memory a node', 'bytes', (report) => report.memory.bytesPerNode)
  row('most wakes in one second', '', (report) => Math.max(0, ...report.wakes.map(({ count }) => count)))
  row('invariants broken', '', (report) => report.invariants.filter(({ state }) => state === 'broken').length)
  row('failures', '', (report) => report.failuresCount)
  row('wall time', 'ms', (report) => report.wallMs, true)
  return rows
}
