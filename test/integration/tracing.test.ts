import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { type CollectedSpan, OtlpCollector } from '../support/otlp-collector.ts'
import { PushReceiver } from '../support/push-receiver.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CLIENT_SPAN = '00f067aa0ba902b7'
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function collector(): Promise<OtlpCollector> {
  const one = new OtlpCollector()
  await one.open()
  cleanups.push(() => one.close())
  return one
}

async function start(config: ConfigInput): Promise<RookeryNode> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const node = await createNode({ ...LOOPBACK, push: { targets: 'loopback' }, dataDir: dir.path, ...config })
  cleanups.push(() => node.stop())
  return node
}

async function pair(tracing: ConfigInput['tracing'], ofSecond = tracing): Promise<{ a: RookeryNode; b: RookeryNode }> {
  const a = await start({ tracing })
  const b = await start({ tracing: ofSecond, bootstrap: a.host.addresses().map((address) => `${address}/p2p/${a.peer}`) })
  while ([a, b].some(({ host }) => host.peers().length === 0 || host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  return { a, b }
}

const bearer = (node: RookeryNode, agent: HostedAgent) => ({
  authorization: `Bearer ${readFileSync(node.agents.tokenFile(agent) as string, 'utf8').trim()}`,
  'content-type': 'application/json'
})

// biome-ignore lint/suspicious/noExplicitAny: tests reach into whatever JSON came
type Answer = any

async function sendOver(
  node: RookeryNode,
  {
    as,
    to,
    traceparent,
    configuration = {},
    messageId = 'm1'
  }: { as: HostedAgent; to: string; traceparent?: string; configuration?: JsonObject; messageId?: string }
): Promise<Answer> {
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'hello' }] }
  const answer = await fetch(`${node.httpUrl}/agents/${to}`, {
    method: 'POST',
    headers: { ...bearer(node, as), 'a2a-version': '1.0', ...(traceparent === undefined ? {} : { traceparent }) },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message, configuration } })
  })
  return await answer.json()
}

async function workOf(node: RookeryNode, agent: HostedAgent, path: string, body: JsonObject): Promise<Answer> {
  const answer = await fetch(`${node.httpUrl}/v1/work/${path}`, {
    method: 'POST',
    headers: bearer(node, agent),
    body: JSON.stringify(body)
  })
  return await answer.json()
}

describe('a trace', () => {
  it('goes with a task from the HTTP client through one node and another to its agent and its webhook, each span below the one that caused it', async () => {
    const spans = await collector()
    const { a, b } = await pair({ enabled: true, endpoint: spans.url })
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob' })
    const hook = new PushReceiver()
    await hook.open()
    cleanups.push(() => hook.close())
    const configuration = { taskPushNotificationConfig: { url: hook.url() } }
    const sent = sendOver(a, { as: alice, to: bob.did, traceparent: `00-${TRACE}-${CLIENT_SPAN}-00`, configuration })
    const claimed = await workOf(b, bob, 'claim', { waitMs: 60_000, sideEffects: 'none' })
    await workOf(b, bob, `${claimed.todo.id}/complete`, { claim: claimed.claim, text: 'done' })
    expect((await sent).result.task.status.state).toBe('TASK_STATE_COMPLETED')
    await hook.until(() => hook.got.some(({ body }) => JSON.stringify(body).includes('TASK_STATE_COMPLETED')))

    const own = () => spans.spans.filter(({ traceId }) => traceId === TRACE)
    const named = (name: string) => own().find((span) => span.name === name) as CollectedSpan
    const wanted = ['POST /agents/{did}', 'A2A call', 'A2A request', 'task waits', 'task attempt', 'push']
    await spans.until(() => wanted.every((name) => named(name) !== undefined))
    const [door, call, request, waits, attempt, push] = wanted.map(named) as [
      CollectedSpan,
      CollectedSpan,
      CollectedSpan,
      CollectedSpan,
      CollectedSpan,
      CollectedSpan
    ]
    expect(door).toMatchObject({ peer: a.peer, parentSpanId: CLIENT_SPAN, attributes: { 'http.response.status_code': 200 } })
    expect(call).toMatchObject({ peer: a.peer, parentSpanId: door.spanId, attributes: { 'rpc.method': 'SendMessage' } })
    expect(request).toMatchObject({ peer: b.peer, parentSpanId: call.spanId, attributes: { 'rookery.refused': false } })
    for (const span of [waits, attempt, push]) expect(span).toMatchObject({ peer: b.peer, parentSpanId: request.spanId, isFailed: false })
    expect(attempt.attributes).toMatchObject({ 'rookery.door': 'agent-http', 'rookery.task.state': 'done', 'rookery.task.attempt': 1 })
    expect(claimed.traceparent).toBe(`00-${TRACE}-${attempt.spanId}-01`)
    expect(hook.got[0]?.headers.traceparent).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`))
    for (const { startMs, endMs } of own()) expect(endMs).toBeGreaterThanOrEqual(startMs)
    // what carries a text of the task is no span's business
    expect(JSON.stringify(spans.spans)).not.toContain('hello')
  })

  it('waits with a message for an agent that sleeps, and the same message sent again in another trace is the same message', async () => {
    const spans = await collector()
    const { a, b } = await pair({ enabled: true, endpoint: spans.url })
    const alice = await a.addAgent({ name: 'alice' })
    const carol = await b.addAgent({ name: 'carol', handler: 'echo' })
    await b.sleep(carol)
    for (const span of ['a', 'b']) {
      const { error } = await sendOver(a, { as: alice, to: carol.did, traceparent: `00-${TRACE}-${span.repeat(16)}-01` })
      expect(JSON.stringify(error)).toContain('agent_asleep')
    }
    expect((await b.queueUsage(carol)).messages).toBe(1)
    await b.wake(carol)
    const named = (name: string) => spans.spans.filter((span) => span.name === name && span.traceId === TRACE)
    await spans.until(() => named('task attempt').length > 0 && named('asleep queue').length > 0 && named('A2A call').length > 1)
    const [queued] = named('asleep queue')
    expect(named('A2A call').map(({ spanId }) => spanId)).toContain(queued?.parentSpanId)
    expect(queued?.attributes).toMatchObject({ 'rookery.queue.outcome': 'accepted' })
    expect(named('task attempt')).toMatchObject([{ parentSpanId: queued?.spanId, attributes: { 'rookery.door': 'handler' } }])
  })

  it('begins with a message that the outbox undertook to deliver, and goes on below each try', async () => {
    const spans = await collector()
    const { a, b } = await pair({ enabled: true, endpoint: spans.url })
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob', handler: 'echo' })
    const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] }
    const init = { kind: 'internal', parent: undefined } as const
    const traceparent = await a.tracer.run('the owner', init, async (span) => {
      await a.mail.post({ from: alice, to: bob.eid, message })
      return span.traceparent
    })
    const [, trace, owner] = traceparent.split('-')
    const named = (name: string) => spans.spans.filter((span) => span.name === name && span.traceId === trace)
    const names = ['outbox attempt', 'send', 'A2A call', 'A2A request', 'task attempt']
    await spans.until(() => names.every((name) => named(name).length > 0))
    expect(named('outbox attempt').every(({ parentSpanId }) => parentSpanId === owner)).toBe(true)
    expect(named('outbox attempt').map(({ spanId }) => spanId)).toContain(named('send')[0]?.parentSpanId)
    expect(named('A2A call')[0]?.parentSpanId).toBe(named('send')[0]?.spanId)
    expect(named('A2A call').map(({ spanId }) => spanId)).toContain(named('A2A request')[0]?.parentSpanId)
    expect(named('task attempt')).toMatchObject([{ peer: b.peer }])
  })

  it('of another node is not followed where the owner keeps traces to this one, and nothing of one leaves it', async () => {
    const spans = await collector()
    const { a, b } = await pair({ enabled: true, endpoint: spans.url }, { enabled: true, endpoint: spans.url, peers: 'keep' })
    const alice = await a.addAgent({ name: 'alice' })
    const bob = await b.addAgent({ name: 'bob', handler: 'echo' })
    const seen: (string | undefined)[] = []
    await a.onTask(alice, async ({ traceparent }) => {
      seen.push(traceparent)
      return { text: 'thanks' }
    })
    const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] }
    expect(await a.send({ from: alice, to: bob.eid, message })).toMatchObject({ outcome: 'task' })
    expect(await b.send({ from: bob, to: alice.eid, message })).toMatchObject({ outcome: 'task' })
    const of = (node: RookeryNode, name: string) => spans.spans.filter((span) => span.peer === node.peer && span.name === name)
    await spans.until(() => of(b, 'A2A request').length > 0 && of(a, 'A2A request').length > 0 && of(a, 'send').length > 0)
    const [theirs] = of(a, 'send')
    expect(of(b, 'A2A request')[0]).toMatchObject({ parentSpanId: '' })
    expect(of(b, 'A2A request')[0]?.traceId).not.toBe(theirs?.traceId)
    expect(of(a, 'A2A request')[0]).toMatchObject({ parentSpanId: '' })
    expect(seen).toEqual([expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)])
  })

  it('is recorded by this node’s own ratio, whatever the caller’s flag says, and a traceparent that is none begins a new one', async () => {
    const spans = await collector()
    const node = await start({ tracing: { enabled: true, endpoint: spans.url, ratio: 0.5 } })
    const alice = await node.addAgent({ name: 'alice', handler: 'echo' })
    // the ratio goes by the trace's id
    const [recorded, left] = [`${'0'.repeat(31)}1`, `${'f'.repeat(8)}${'0'.repeat(24)}`]
    const flags = { [recorded]: '00', [left]: '01' }
    for (const [trace, flag] of Object.entries(flags)) {
      await sendOver(node, { as: alice, to: alice.did, traceparent: `00-${trace}-${CLIENT_SPAN}-${flag}`, messageId: trace })
    }
    await spans.until(() => spans.spans.some(({ name, traceId }) => name === 'task attempt' && traceId === recorded))
    expect(spans.spans.filter(({ traceId }) => traceId === left)).toEqual([])
    const whole = await start({ tracing: { enabled: true, endpoint: spans.url } })
    const bob = await whole.addAgent({ name: 'bob', handler: 'echo' })
    await sendOver(whole, { as: bob, to: bob.did, traceparent: `00-${TRACE}-${'0'.repeat(16)}-01` })
    const doors = () => spans.spans.filter(({ peer, kind, name }) => peer === whole.peer && kind === 2 && name.startsWith('POST'))
    await spans.until(() => doors().length > 0)
    expect(doors()).toMatchObject([{ parentSpanId: '' }])
    expect(doors()[0]?.traceId).not.toBe(TRACE)
  })

  it('costs no request where the collector refuses: work goes on, and the loss is counted', async () => {
    const spans = await collector()
    spans.answer = 400
    const node = await start({ tracing: { enabled: true, endpoint: spans.url } })
    const alice = await node.addAgent({ name: 'alice', handler: 'echo' })
    expect((await sendOver(node, { as: alice, to: alice.did })).result.task.status.state).toBe('TASK_STATE_COMPLETED')
    await spans.until(() => spans.requests > 0)
    await expect.poll(() => node.spanCounts()?.failed ?? 0, { timeout: 60_000 }).toBeGreaterThan(0)
    expect(node.spanCounts()).toMatchObject({ exported: 0 })
    expect(spans.spans).toEqual([])
  })
})

describe('tracing that is off', () => {
  it('loads nothing of OpenTelemetry’s SDK', async () => {
    const program = `
      import { registerHooks } from 'node:module'
      const loaded = []
      registerHooks({ resolve(name, context, next) { loaded.push(name); return next(name, context) } })
      const { openTracer } = await import('./src/tracing/open-tracer.ts')
      const { parseConfig } = await import('./src/config/load.ts')
      await import('./src/daemon.ts')
      const { silentLogger } = await import('./src/platform/logger.ts')
      const { systemClock } = await import('./src/platform/clock.ts')
      const open = (enabled) => openTracer(parseConfig({ tracing: { enabled } }), { clock: systemClock, logger: silentLogger }, { peer: 'p' })
      const sdk = () => loaded.filter((name) => /opentelemetry\\/(sdk|exporter|resources|otlp)/.test(name)).length
      const off = { tracer: await open(false) === undefined, sdk: sdk() }
      const tracer = await open(true)
      console.log(JSON.stringify({ off, on: { tracer: tracer.isOn, sdk: sdk() > 0 } }))
      await tracer.stop()`
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
      cwd: new URL('../..', import.meta.url).pathname,
      timeout: 120_000
    })
    expect(JSON.parse(stdout)).toEqual({ off: { tracer: true, sdk: 0 }, on: { tracer: true, sdk: true } })
  }, 120_000)
})
