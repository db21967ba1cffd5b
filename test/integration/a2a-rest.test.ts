import { AgentCard, Role } from '@a2a-js/sdk'
import { ClientFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import { afterEach, describe, expect, it } from 'vitest'
import { OFFLINE_DELIVERY_EXTENSION_URI, readRefusal } from '../../protocol/delivery/refusals.ts'
import { RookeryError } from '../../src/errors.ts'
import type { AgentReachability } from '../../src/identity/agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { type A2aNodeInit, fetchAs, post, rpc, startA2aNode, TEST_BOUNDS, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const [ANNA, BERT] = [testAgent(1), testAgent(2)]
/** A full hour, at which this window opens. */
const HOUR_MS = 1_767_225_600_000
const WINDOW = { periodSec: 3_600, openSec: 300, offsetSec: 0 }

async function bench(reachability: AgentReachability = { mode: 'sleep' }, init: Partial<A2aNodeInit> = {}) {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const sleeper = testAgent(9, reachability)
  const clock = new ManualClock(HOUR_MS)
  const node = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT, sleeper], clock, ...init })
  cleanups.push(() => node.stop())
  const url = `${node.edge.url}/agents/${sleeper.did}`
  const send = (messageId: string, more: Parameters<typeof post>[2] = { agent: ANNA }, verb = 'send', text = 'hello') =>
    post(`${url}/message:${verb}`, { message: textMessage(messageId, text) }, more)
  return { ...node, sleeper, clock, url, send }
}

const infoOf = (body: { error: { details: JsonObject[] } }) => body.error.details.find((one) => one.reason !== undefined)

describe('a send over HTTP+JSON', () => {
  it('gives the task of an agent that is awake, as JSON-RPC does, and the same one to the same messageId on either binding', async () => {
    const { send, url } = await bench({ mode: 'always_on' })
    const answer = await send('m-1')
    expect(answer.status).toBe(200)
    expect(answer.body.task.status.state).toBe('TASK_STATE_COMPLETED')
    const again = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA })
    expect(again.body.result.task.id).toBe(answer.body.task.id)
  })

  it('[OD-13] [OD-14] [OD-16] [OD-17] [G-17] tells of sleep in both modes that queue, for send and stream: 503, the token, the wait, and the message is on disk', async () => {
    for (const [reachability, retryAfterSec] of [
      [{ mode: 'sleep' }, undefined],
      [{ mode: 'hourly_wake', window: WINDOW }, 840]
    ] as const) {
      const { send, clock, queue, sleeper } = await bench(reachability)
      clock.advance(46 * 60_000)
      for (const verb of ['send', 'stream']) {
        const { status, headers, body } = await send(`m-${verb}`, { agent: ANNA }, verb)
        expect(status).toBe(503)
        expect(headers.get('retry-after')).toBe(retryAfterSec === undefined ? null : String(retryAfterSec))
        expect(body.error).toMatchObject({ code: 503, status: 'UNAVAILABLE', message: 'agent_asleep: asleep, try later; queued: true' })
        expect(infoOf(body)).toMatchObject({
          reason: 'AGENT_ASLEEP',
          domain: 'rookery',
          metadata: { error: 'agent_asleep', queued: 'true' }
        })
        expect(readRefusal({ status, body })).toMatchObject({ token: 'agent_asleep', queued: true, retryAfterSec, evidence: 'token' })
      }
      expect(await queue.list(sleeper.eidHex)).toHaveLength(2)
    }
  })

  it('[OD-21] [G-02] reports the same enqueue as the other forms, and keeps one record', async () => {
    const { send, url, queue, sleeper } = await bench()
    const rest = await send('m-1')
    const json = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA })
    const plain = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA, headers: { 'A2A-Version': '' } })
    for (const { status, body } of [rest, json, plain]) expect(readRefusal({ status, body })).toMatchObject({ queued: true })
    expect(await queue.list(sleeper.eidHex)).toHaveLength(1)
  })

  it('[OD-44] [OD-45] [OD-46] [OD-47] [G-06] [G-07] answers 429, 507 and 413 with the bound that was hit', async () => {
    const { send, queue, sleeper } = await bench({ mode: 'sleep' }, { bounds: { ...TEST_BOUNDS, messagesMax: 3, messagesPerPeerMax: 2 } })
    for (const id of ['a-1', 'a-2']) expect((await send(id)).status).toBe(503)
    const peer = await send('a-3')
    expect(peer.status).toBe(429)
    expect(peer.body.error.status).toBe('RESOURCE_EXHAUSTED')
    expect(readRefusal(peer)).toMatchObject({ token: 'asleep_queue_full', queued: false, kind: 'peer' })
    expect((await send('b-1', { agent: BERT })).status).toBe(503)
    const full = await send('b-2', { agent: BERT })
    expect([full.status, readRefusal(full)?.kind]).toEqual([507, 'messages'])
    expect((await queue.usage(sleeper.eidHex)).messages).toBe(3)
    const tight = await bench({ mode: 'sleep' }, { bounds: { ...TEST_BOUNDS, bytesMax: 100 } })
    const bytes = await tight.send('c-1')
    expect([bytes.status, readRefusal(bytes)?.kind]).toEqual([507, 'bytes'])
    const big = await tight.send('c-2', { agent: ANNA }, 'send', 'x'.repeat(1_100_000))
    expect([big.status, infoOf(big.body)?.reason]).toEqual([413, 'PAYLOAD_TOO_LARGE'])
  })

  it('[OD-28] [G-13] takes nothing of a caller that is not verified, whatever is advertised: 401, zero writes', async () => {
    const { send, queue, sleeper, store } = await bench()
    const before = store.syncs
    for (const headers of [{}, { Authorization: 'Bearer wrong' }]) {
      const { status, headers: answered, body } = await send('m-1', { headers: headers as Record<string, string> })
      expect(status).toBe(401)
      expect(answered.get('www-authenticate')).toContain('Bearer')
      expect(infoOf(body)).toMatchObject({ reason: 'UNAUTHENTICATED' })
    }
    expect((await queue.usage(sleeper.eidHex)).messages).toBe(0)
    expect(store.syncs).toBe(before)
  })

  it('[OD-07] [G-01] says asleep and not queued in the mode session without a process, and keeps nothing', async () => {
    const { send, queue, sleeper } = await bench({ mode: 'session' }, { attached: () => false })
    const answer = await send('m-1')
    expect(answer.status).toBe(503)
    expect(readRefusal(answer)).toMatchObject({ token: 'agent_asleep', queued: false })
    expect(await queue.list(sleeper.eidHex)).toEqual([])
  })

  it('[OD-22] [OD-48] [G-01] says neither asleep nor full of what was not written: 500', async () => {
    const refusing = { now: false }
    const { send, queue, sleeper } = await bench(
      { mode: 'sleep' },
      {
        wrapStore: (store) => {
          const commit = store.commit.bind(store)
          store.commit = async (ops, options) => {
            if (refusing.now) throw new RookeryError('STORE_FULL', 'the disk is full', { kind: 'storage' })
            await commit(ops, options)
          }
          return store
        }
      }
    )
    refusing.now = true
    const answer = await send('m-1')
    expect([answer.status, infoOf(answer.body)?.reason]).toEqual([500, 'STORE_FAILED'])
    expect(readRefusal(answer)).toBeUndefined()
    expect(answer.text).not.toContain('agent_asleep')
    refusing.now = false
    expect((await send('m-1')).status).toBe(503)
    expect(await queue.list(sleeper.eidHex)).toHaveLength(1)
  })

  it('refuses what is no request in the form of this binding', async () => {
    const { url, send } = await bench()
    const cases: [unknown, Record<string, string>, number, string][] = [
      ['{', {}, 400, 'PARSE_ERROR'],
      ['[]', {}, 400, 'INVALID_REQUEST'],
      [{ message: { messageId: 'x' } }, {}, 400, 'INVALID_PARAMS'],
      [{ message: textMessage('m') }, { 'Content-Type': 'text/plain' }, 400, 'CONTENT_TYPE_NOT_SUPPORTED'],
      [{ message: textMessage('m') }, { 'A2A-Version': '9.0' }, 400, 'VERSION_NOT_SUPPORTED']
    ]
    for (const [body, headers, status, reason] of cases) {
      const answer = await post(`${url}/message:send`, body, { agent: ANNA, headers })
      expect([answer.status, answer.body.error.code, infoOf(answer.body)?.reason]).toEqual([status, status, reason])
    }
    const typed = await send('m-1', { agent: ANNA, headers: { 'Content-Type': 'application/a2a+json' } })
    expect(typed.status).toBe(503)
    expect(
      (await send('m-2', { agent: ANNA, headers: { 'A2A-Extensions': OFFLINE_DELIVERY_EXTENSION_URI } })).headers.get('a2a-extensions')
    ).toBe(OFFLINE_DELIVERY_EXTENSION_URI)
  })

  it('[OD-19] is read by the official client as a refusal with its status, its wait and whether it was queued', async () => {
    const { edge, sleeper, clock } = await bench({ mode: 'hourly_wake', window: WINDOW })
    clock.advance(46 * 60_000)
    const card = AgentCard.fromJSON(await (await fetch(`${edge.url}/agents/${sleeper.did}/.well-known/agent-card.json`)).json())
    card.supportedInterfaces = [
      {
        url: `${edge.url}/agents/${sleeper.did}`,
        protocolBinding: 'HTTP+JSON',
        protocolVersion: '1.0',
        tenant: ''
      } as (typeof card.supportedInterfaces)[number]
    ]
    const factory = new ClientFactory({ transports: [new RestTransportFactory({ fetchImpl: fetchAs(ANNA) })] })
    const client = await factory.createFromAgentCard(card)
    const message = {
      messageId: 'm-1',
      contextId: '',
      taskId: '',
      role: Role.ROLE_USER,
      parts: [{ content: { $case: 'text' as const, value: 'x' }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: []
    }
    const error = await client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined }).catch((err) => err)
    expect(error).toMatchObject({ statusCode: 503, message: 'agent_asleep: asleep, try later; queued: true' })
    expect(error.headers['retry-after']).toBe('840')
    expect(error.name).not.toContain('PushNotification')
  })
})

describe('the owner’s settings for refusals', () => {
  it('[G-03] [G-04] force one form on every caller, and another number on those of 1.0', async () => {
    const forced = await bench({ mode: 'sleep' }, { refusals: { form: 'plain', asleepRpcCode: -31_003 } })
    const call = (url: string, headers = {}) => post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA, headers })
    expect((await call(forced.url)).body).toEqual({ error: 'agent_asleep', message: 'asleep, try later', queued: true })
    const numbered = await bench({ mode: 'sleep' }, { refusals: { form: 'auto', asleepRpcCode: -31_777 } })
    expect((await call(numbered.url)).body.error).toMatchObject({
      code: -31_777,
      data: [{ reason: 'AGENT_ASLEEP' }, { error: 'agent_asleep' }]
    })
    expect((await call(numbered.url, { 'A2A-Extensions': OFFLINE_DELIVERY_EXTENSION_URI })).body.error.code).toBe(-32_003)
    expect((await call(numbered.url, { 'A2A-Version': '' })).body.error).toBe('agent_asleep')
  })
})
