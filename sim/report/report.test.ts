import { describe, expect, it } from 'vitest'
import { type EventLoopFigures, MachineWatch } from '../engine/machine-watch.ts'
import { RunLog } from '../engine/run-log.ts'
import { Invariants } from '../run/invariants.ts'
import { Recorder } from '../run/recorder.ts'
import { loadScenario } from '../scenario/shipped.ts'
import { renderHtml } from './html.ts'
import type { SimReport } from './report.ts'
import { type RunFacts, summarize } from './summarize.ts'

const idle: EventLoopFigures = { delayP50Ms: 0.2, delayP99Ms: 4, delayMaxMs: 12, utilization: 0.4 }

/** The facts of a run in which everything came true. */
function facts(): RunFacts {
  const watch = new MachineWatch()
  watch.stop()
  const recorder = new Recorder()
  Object.assign(recorder.measured, {
    join: { wanted: 2, latenciesMs: [10, 20] },
    discovery: { wanted: 3, members: 2, latenciesMs: [5, 6, 7], hops: [1, 1, 2], membersFound: [2, 2, 1] },
    sessions: { wanted: 3, opened: 3, handshakesMs: [3, 3, 4], roundTripsMs: [1, 1, 1] }
  })
  return {
    definition: loadScenario('first-contact'),
    engine: 'real',
    time: 'real',
    transport: 'memory',
    threads: 1,
    nodes: 3,
    seed: 7,
    startedAtMs: 1_767_225_600_000,
    wallMs: 1_234.5,
    log: new RunLog(watch, () => {}),
    recorder,
    invariants: new Invariants(),
    memory: { rssBytesBefore: 100, rssBytesBooted: 300, rssBytesMax: 400 },
    room: { availableBytesMin: 10_000, availableShareMin: 0.5, heapShareMax: 0.2 },
    eventLoop: idle,
    sent: {
      messages: [4, 2, 1],
      bytes: [400, 100, 1_000],
      byProtocol: [
        { protocol: '/rookery/kad/1.0.0', messages: 4, bytes: 400 },
        { protocol: '/rookery/kad/1.0.0', messages: 2, bytes: 100 },
        { protocol: '/rookery/pss/1.0.0', messages: 1, bytes: 1_000 }
      ]
    },
    eventLog: { sha256: '', lines: [] },
    interrupted: false
  }
}

describe('the report of a run', () => {
  it('sums up what was wanted, done and sent', () => {
    const report = summarize(facts())
    expect(report).toMatchObject({
      success: true,
      latencyValid: true,
      replay: 'rookery sim run first-contact --nodes 3 --seed 7',
      memory: { bytesPerNode: 100 },
      join: { wanted: 2, joined: 2 },
      discovery: { searches: 3, succeeded: 3, successRate: 1, members: 2, hops: { max: 2 } },
      messages: { perNode: { count: 3, max: 4 } }
    })
    expect(report.discovery.recall).toBeCloseTo(5 / 6)
    expect(report.messages.byProtocol).toEqual([
      { protocol: '/rookery/pss/1.0.0', messages: 1, bytes: 1_000 },
      { protocol: '/rookery/kad/1.0.0', messages: 6, bytes: 500 }
    ])
  })

  it.each<[string, (facts: RunFacts) => void]>([
    ['a join is missing', (run) => run.recorder.measured.join.latenciesMs.pop()],
    ['a search found nothing', (run) => run.recorder.measured.discovery.latenciesMs.pop()],
    ['a session did not echo', (run) => run.recorder.measured.sessions.opened--],
    ['an invariant broke', (run) => run.invariants.see({ fact: 'queue', node: 1, length: 2, bound: 1 }, 0)],
    ['something failed', (run) => run.log.failed('join', 1, new Error('no'))],
    ['it was interrupted', (run) => Object.assign(run, { interrupted: true })]
  ])('is no success when %s', (_what, spoil) => {
    const run = facts()
    spoil(run)
    expect(summarize(run).success).toBe(false)
  })

  it.each<[string, EventLoopFigures | undefined]>([
    ['busy nearly all the time', { ...idle, utilization: 0.97 }],
    ['late for its timers', { ...idle, delayP99Ms: 120 }],
    ['never watched', undefined]
  ])('[F107] says that latencies are not valid when the event loop was %s, and lets counts stand', (_what, eventLoop) => {
    const report = summarize({ ...facts(), eventLoop })
    expect(report.latencyValid).toBe(false)
    expect(report.success).toBe(true)
    expect(renderHtml(report)).toContain('latencies below measure this machine')
  })

  it.each([
    ['the system had hardly any left', { availableBytesMin: 1, availableShareMin: 0.01, heapShareMax: 0.2 }],
    ['the heap was nearly full', { availableBytesMin: 10_000, availableShareMin: 0.5, heapShareMax: 0.95 }]
  ])('[F107] says that memory set the pace when %s', (_what, room) => {
    const report = summarize({ ...facts(), room })
    expect(report).toMatchObject({ latencyValid: false, machineLimits: ['memory'], success: true })
    expect(renderHtml(report)).toContain('its memory was nearly used up')
  })

  it('counts failures beyond those that it lists', () => {
    const run = facts()
    for (let i = 0; i < 150; i++) run.log.failed('join', i, new Error(`failure ${i}`))
    const report = summarize(run)
    expect(report.failures).toHaveLength(100)
    expect(report.failuresCount).toBe(150)
    expect(renderHtml(report)).toContain('the first 100 of 150')
  })
})

describe('report.html', () => {
  it('is one file: no script, nothing from elsewhere, and a policy that forbids both', () => {
    const html = renderHtml(summarize(facts()))
    expect(html).not.toMatch(/<script|<link|<img|<iframe|@import|url\(|https?:|\bsrc=|\bon[a-z]+=/i)
    expect(html).toContain("default-src 'none'; style-src 'unsafe-inline'")
    expect(html).toContain('prefers-color-scheme: dark')
    expect(html).toContain('<h3>Hops of a search, to the last registrar</h3>')
  })

  it('shows text from a run as text, whatever it holds', () => {
    const evil = '<script>alert("1")</script>&\''
    const report: SimReport = summarize(facts())
    report.failures = [{ what: evil, node: 1, code: evil, message: evil }]
    report.failuresCount = 1
    report.description = evil
    report.messages.byProtocol = [{ protocol: evil, messages: 1, bytes: 1 }]
    const html = renderHtml(report)
    expect(html).not.toContain('<script')
    expect(html.split('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;')).toHaveLength(6)
  })

  it('says so where there are no samples', () => {
    const run = facts()
    run.recorder.measured.sessions.handshakesMs = []
    expect(renderHtml(summarize(run))).toContain('<h3>Session handshake</h3><p>no samples</p>')
  })
})
