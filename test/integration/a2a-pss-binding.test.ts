import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { fromUtf8, utf8 } from '../../protocol/bytes.ts'
import { MAILBOX_CHANNEL } from '../../protocol/delivery/mailbox.ts'
import { Operations } from '../../src/a2a/operations.ts'
import { A2A_CHANNEL, A2A_KIND, a2aChannelOf, REQUESTS_PENDING_MAX, type RemoteRefusal, serveA2a } from '../../src/a2a/pss-binding.ts'
import { A2A_TEXT_BYTES_MAX } from '../../src/a2a/pss-texts.ts'
import { ANYONES_CARD_FETCHES, createRemoteAgents } from '../../src/a2a/remote.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { serveMailbox } from '../../src/delivery/mailbox-service.ts'
import { RookeryError } from '../../src/errors.ts'
import { ManualClock, systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import type { LocatorView } from '../../src/spaces/spaces.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { type A2aNode, type A2aNodeInit, post, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { type PairedSession, sessionPair } from '../support/session-pair.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const ANNA = testAgent(1)
const PARAMETERS = { version: '1.0', extensions: [] }
const CALL = { parameters: PARAMETERS, timeoutMs: 5_000 }

async function start(init: Partial<A2aNodeInit> & Pick<A2aNodeInit, 'agents'>): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const node = await startA2aNode({ dir: dir.path, ...init })
  cleanups.push(() => node.stop())
  return node
}

/** Anna's end of a session to an agent of a node that serves A2A and its mailbox. */
async function served(init: Partial<A2aNodeInit> = {}) {
  const bert = testAgent(2)
  const node = await start({ agents: [bert], ...init })
  const [near, far] = sessionPair(ANNA, bert)
  serveA2a(far, {
    local: node.local,
    clock: systemClock,
    logger: silentLogger,
    principal: (agent, remote) => node.access.ofPeer(agent, remote)
  })
  serveMailbox(far, {
    queue: node.queue,
    crypto: nodeCrypto,
    clock: systemClock,
    logger: silentLogger,
    agent: (hex) => (hex === bert.eidHex ? bert : undefined)
  })
  const channel = a2aChannelOf(near, { clock: systemClock, logger: silentLogger })
  return { bert, node, near, far, channel }
}

const answers = (session: PairedSession) =>
  session.received.filter(({ channel }) => channel === A2A_CHANNEL).map(({ payload }) => JSON.parse(fromUtf8(payload)))

/** Sends raw bytes as an item of the A2A channel and gives the answer that comes. */
async function rawRequest(near: PairedSession, payload: Uint8Array) {
  const before = near.received.length
  await near.send(A2A_CHANNEL, A2A_KIND, payload)
  while (near.received.length === before) await new Promise((resolve) => setImmediate(resolve))
  return answers(near).at(-1)
}

describe('A2A over a session', () => {
  it('[TD-01] sends, reads, lists and cancels in the name of the EID that the session proved', async () => {
    const { channel, node } = await served()
    const sent = (await channel.request('SendMessage', { message: textMessage('m-1') }, CALL)) as { task: JsonObject }
    expect(sent.task).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } })
    const todo = await node.todos.get(sent.task.id as string)
    expect([todo?.caller, todo?.door]).toEqual([`eid:${ANNA.eidHex}`, 'a2a-pss'])
    expect(await channel.request('GetTask', { id: sent.task.id as string }, CALL)).toEqual(sent.task)
    expect(await channel.request('ListTasks', {}, CALL)).toMatchObject({ totalSize: 1, nextPageToken: '' })
    await expect(channel.request('CancelTask', { id: sent.task.id as string }, CALL)).rejects.toMatchObject({ error: { code: -32002 } })
  })

  it('[TD-12] [TD-R3] makes the same rows as HTTP from the same messages', async () => {
    const { channel, node, bert } = await served()
    const twin = await start({ agents: [testAgent(2), ANNA] })
    const fixtures = [
      textMessage('a'),
      textMessage('b', 'x', { contextId: 'ctx', metadata: { k: [1, null] } }),
      { ...textMessage('c'), parts: [{ data: null }] }
    ]
    for (const message of fixtures) {
      await channel.request('SendMessage', { message }, CALL)
      await post(`${twin.edge.url}/agents/${bert.did}`, rpc('SendMessage', { message }), { agent: ANNA })
    }
    const rows = async ({ todos }: A2aNode) => {
      const { todos: all } = await todos.list({ agent: bert.eidHex })
      return all
        .map(({ id: _, contextId: __, createdAtMs: ___, changedAtMs: ____, door: _____, history, trail, ...rest }) => ({
          ...rest,
          trail: trail?.map(({ kind, n, state }) => ({ kind, n, state })),
          history: history.map(({ taskId: ______, contextId: _______, ...message }) => message)
        }))
        .sort((a, b) => (a.dedupKey < b.dedupKey ? -1 : 1))
    }
    expect(await rows(node)).toEqual(await rows(twin))
  })

  it('[TD-12] [TD-14] creates by the same call whether a message came by HTTP or by a session', async () => {
    const { channel, node, bert } = await served({ agents: [testAgent(2), ANNA] })
    const create = vi.spyOn(node.todos, 'create')
    await channel.request('SendMessage', { message: textMessage('m') }, CALL)
    const url = `${node.edge.url}/agents/${bert.did}`
    const again = await post(url, rpc('SendMessage', { message: textMessage('m') }), { agent: ANNA })
    expect(create.mock.calls.map(([{ door, caller }]) => [door, caller.id])).toEqual([
      ['a2a-pss', `eid:${ANNA.eidHex}`],
      ['a2a-http', `eid:${ANNA.eidHex}`]
    ])
    expect((await node.todos.list({ agent: bert.eidHex })).todos.map(({ id }) => id)).toEqual([again.body.result.task.id])
  })

  it('acknowledges a blocking send once its Todo is on disk, and answers in a transaction of its own', async () => {
    const { near, node } = await served({ workers: 'none', blockingWaitMs: 60_000 })
    const payload = utf8(
      JSON.stringify({ ...rpc('SendMessage', { message: textMessage('m') }), 'a2a-service-parameters': { 'a2a-version': '1.0' } })
    )
    await near.send(A2A_CHANNEL, A2A_KIND, payload)
    expect((await node.todos.list({})).todos).toHaveLength(1)
    expect(near.received).toEqual([])
    await node.todos.cancel((await node.todos.list({})).todos[0]?.id as string)
    while (near.received.length === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(answers(near)[0]).toMatchObject({ id: 1, result: { task: { status: { state: 'TASK_STATE_CANCELED' } } } })
  })

  it('sends the service parameters beside the envelope, and refuses a request without a version', async () => {
    const { channel, near, far } = await served()
    await channel.request('ListTasks', {}, { ...CALL, parameters: { version: '1.0', extensions: ['urn:a', 'urn:b'] } })
    expect(answers(far)[0]).toMatchObject({
      jsonrpc: '2.0',
      method: 'ListTasks',
      'a2a-service-parameters': { 'a2a-version': '1.0', 'a2a-extensions': 'urn:a,urn:b' }
    })
    const none = await rawRequest(near, utf8(JSON.stringify(rpc('ListTasks', {}))))
    expect(none.error).toMatchObject({ code: -32009, data: [{ metadata: { requested: '0.3' } }] })
    const odd = [
      { 'a2a-version': 1 },
      [],
      { 'a2a-version': 'x'.repeat(5_000) },
      Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`n${i}`, 'x'.repeat(4_000)]))
    ]
    for (const member of odd) {
      const answer = await rawRequest(near, utf8(JSON.stringify({ ...rpc('ListTasks', {}), 'a2a-service-parameters': member })))
      expect(answer.error.code).toBe(-32600)
    }
    const patch = { ...rpc('ListTasks', {}), 'a2a-service-parameters': { 'A2A-Version': '1.0.3' } }
    expect((await rawRequest(near, utf8(JSON.stringify(patch)))).result).toMatchObject({ totalSize: 0 })
  })

  it('answers with the codes of JSON-RPC, every refusal named by its reason', async () => {
    const { channel } = await served({ streams: 'off' })
    const cases: [string, JsonObject, number, string][] = [
      ['GetTask', { id: 'none' }, -32001, 'TASK_NOT_FOUND'],
      ['SendMessage', { message: { ...textMessage('m'), parts: [] } }, -32602, 'INVALID_PARAMS'],
      ['MakeCoffee', {}, -32601, 'METHOD_NOT_FOUND'],
      ['SendStreamingMessage', { message: textMessage('m') }, -32004, 'UNSUPPORTED_OPERATION'],
      ['SubscribeToTask', { id: 't' }, -32004, 'UNSUPPORTED_OPERATION'],
      ['CreateTaskPushNotificationConfig', {}, -32003, 'PUSH_NOTIFICATION_NOT_SUPPORTED']
    ]
    for (const [method, params, code, reason] of cases) {
      const refused = (await channel.request(method, params, CALL).catch((err) => err)) as RemoteRefusal
      expect([method, refused.error.code, refused.toA2aError().reason]).toEqual([method, code, reason])
    }
  })

  it('[F022] shows a task to the EID that made it only', async () => {
    const { channel, node, bert } = await served({ workers: 'none', blockingWaitMs: 1 })
    const sent = (await channel.request('SendMessage', { message: textMessage('m') }, CALL)) as { task: JsonObject }
    const [near, far] = sessionPair(testAgent(3), bert)
    serveA2a(far, {
      local: node.local,
      clock: systemClock,
      logger: silentLogger,
      principal: (agent, remote) => node.access.ofPeer(agent, remote)
    })
    const other = a2aChannelOf(near, { clock: systemClock, logger: silentLogger })
    const id = sent.task.id as string
    for (const method of ['GetTask', 'CancelTask']) {
      const foreign = (await other.request(method, { id }, CALL).catch((err) => err)) as RemoteRefusal
      const nobodys = (await other.request(method, { id: 'none' }, CALL).catch((err) => err)) as RemoteRefusal
      expect(foreign.error).toEqual(nobodys.error)
      expect(foreign.error.code).toBe(-32001)
    }
    expect(await other.request('ListTasks', {}, CALL)).toMatchObject({ totalSize: 0 })
    expect((await node.todos.get(id))?.state).toBe('pending')
  })

  it('meets arbitrary bytes with an answer or silence, and goes on', async () => {
    const { near, channel } = await served()
    const texts = fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.json().map(utf8), fc.constant(utf8('[[[[')), fc.constant(utf8('{"id":1}')))
    await fc.assert(
      fc.asyncProperty(texts, async (payload) => {
        await near.send(A2A_CHANNEL, A2A_KIND, payload)
      }),
      { numRuns: 60 }
    )
    await near.send(A2A_CHANNEL, 0x03, utf8('{}'))
    expect(await channel.request('ListTasks', {}, CALL)).toMatchObject({ totalSize: 0 })
  })

  it('names a text above the bound of a transaction, in both directions', async () => {
    const { channel } = await served({ handlers: { 'agent-2': async () => ({ text: 'x'.repeat(A2A_TEXT_BYTES_MAX) }) } })
    const large = { message: textMessage('m', 'x'.repeat(A2A_TEXT_BYTES_MAX)) }
    await expect(channel.request('SendMessage', large, CALL)).rejects.toMatchObject({ reason: 'PAYLOAD_TOO_LARGE' })
    await expect(channel.request('SendMessage', { message: textMessage('m') }, CALL)).rejects.toMatchObject({
      error: { code: -31006, data: [{ reason: 'PAYLOAD_TOO_LARGE' }] }
    })
  })

  it('bounds what waits for an answer, and tells those who wait when the session is lost that the outcome is unknown', async () => {
    const bert = testAgent(2)
    const [near, far] = sessionPair(ANNA, bert)
    far.onChannel(A2A_CHANNEL, async () => {})
    const channel = a2aChannelOf(near, { clock: new ManualClock(), logger: silentLogger })
    const waiting = Array.from({ length: REQUESTS_PENDING_MAX }, () => channel.request('ListTasks', {}, CALL))
    await expect(channel.request('ListTasks', {}, CALL)).rejects.toMatchObject({ reason: 'RATE_LIMITED' })
    near.lose('gone')
    const settled = await Promise.allSettled(waiting)
    expect(new Set(settled.map((one) => one.status === 'rejected' && (one.reason as { reason: string }).reason))).toEqual(
      new Set(['OUTCOME_UNKNOWN'])
    )
  })

  it('gives up after its time, and when the caller does', async () => {
    const [near, far] = sessionPair(ANNA, testAgent(2))
    far.onChannel(A2A_CHANNEL, async () => {})
    const clock = new ManualClock()
    const channel = a2aChannelOf(near, { clock, logger: silentLogger })
    const late = channel.request('ListTasks', {}, CALL)
    clock.advance(5_000)
    await expect(late).rejects.toMatchObject({ reason: 'OUTCOME_UNKNOWN', status: 504 })
    const stop = new AbortController()
    const left = channel.request('ListTasks', {}, { ...CALL, signal: stop.signal })
    stop.abort(new Error('enough'))
    await expect(left).rejects.toThrow('enough')
    await near.peer.send(A2A_CHANNEL, A2A_KIND, utf8(JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} })))
    expect(channel.ignored).toBe(1)
  })

  it('[TD-13] ends in the operations that HTTP uses', async () => {
    const { channel, node, bert } = await served({ agents: [testAgent(2), ANNA] })
    const answer = vi.spyOn(Operations.prototype, 'answer')
    await channel.request('ListTasks', {}, CALL)
    await post(`${node.edge.url}/agents/${bert.did}`, rpc('ListTasks', {}), { agent: ANNA })
    expect(answer.mock.calls.map(([method]) => method)).toEqual(['ListTasks', 'ListTasks'])
    answer.mockRestore()
  })
})

/** Anna's node, whose edge reaches Bert's node through a session. */
async function twoNodes(init: Partial<A2aNodeInit> & { locate?: () => Promise<LocatorView>; open?: () => Promise<never> } = {}) {
  const far = await served(init)
  const { bert, near } = far
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const locator: LocatorView = {
    did: bert.did,
    address: { peer: 'p', addrs: [] },
    mailboxKey: bert.mailboxKey,
    mode: bert.reachability.mode,
    gen: 1,
    expiresAtMs: Number.MAX_SAFE_INTEGER
  }
  const store: { outgoing?: A2aNode['outgoing'] } = {}
  const remote = createRemoteAgents(
    {
      locators: { resolve: init.locate ?? (async () => locator) },
      sessions: { open: init.open ?? (async () => near) },
      outgoing: {
        seal: (input) => (store.outgoing as A2aNode['outgoing']).seal(input),
        keepReceipt: (key, receipt) => (store.outgoing as A2aNode['outgoing']).keepReceipt(key, receipt)
      },
      crypto: nodeCrypto,
      clock: systemClock,
      logger: silentLogger
    },
    { openTimeoutMs: 300 }
  )
  const caller = await startA2aNode({ dir: dir.path, agents: [ANNA], remote })
  cleanups.push(() => caller.stop())
  store.outgoing = caller.outgoing
  return { ...far, caller, url: `${caller.edge.url}/agents/${bert.did}` }
}

describe('a remote agent behind the caller’s own edge', () => {
  it('makes the node look up no more than a bounded number of cards for askers without a token, answers 429 beyond, and its own agents go on', async () => {
    let lookups = 0
    const { caller } = await twoNodes({
      locate: async () => {
        lookups++
        throw new RookeryError('AGENT_UNKNOWN', 'nobody knows it', { kind: 'notFound' })
      }
    })
    const cardUrl = (number: number) => `${caller.edge.url}/agents/${testAgent(number).did}/.well-known/agent-card.json`
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => fetch(cardUrl(100 + i))))
    const refused = answers.filter((one) => one.status === 429)
    expect(answers.filter((one) => one.status === 404).length).toBe(lookups)
    expect(lookups).toBeGreaterThanOrEqual(ANYONES_CARD_FETCHES.burst)
    expect(lookups).toBeLessThan(45)
    expect(refused).toHaveLength(60 - lookups)
    expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    const known = await fetch(cardUrl(200), { headers: { authorization: `Bearer ${ANNA.token}` } })
    expect(known.status).toBe(404)
  })

  it('[TD-01] answers SendMessage and GetTask over the session, under the URL that its card names', async () => {
    const { caller, bert } = await twoNodes()
    const card = await (await fetch(`${caller.edge.url}/agents/${bert.did}/.well-known/agent-card.json`)).json()
    expect(card.name).toBe(bert.name)
    expect(card.supportedInterfaces[0]).toMatchObject({ url: `${caller.edge.url}/agents/${bert.did}`, protocolBinding: 'JSONRPC' })
    const sent = await post(card.supportedInterfaces[0].url, rpc('SendMessage', { message: textMessage('m-1') }, 'id-7'), { agent: ANNA })
    expect(sent.body).toMatchObject({ id: 'id-7', result: { task: { status: { state: 'TASK_STATE_COMPLETED' } } } })
    const { id } = sent.body.result.task
    expect((await post(card.supportedInterfaces[0].url, rpc('GetTask', { id }), { agent: ANNA })).body.result).toEqual(
      sent.body.result.task
    )
    const missing = await post(card.supportedInterfaces[0].url, rpc('GetTask', { id: 'none' }), { agent: ANNA })
    expect([missing.status, missing.body.error.code]).toEqual([200, -32001])
  })

  it('[OD-13] [OD-14] [OD-22] deposits for one that sleeps, and says queued only with its signed receipt', async () => {
    const { url, node, bert, near, caller } = await twoNodes()
    bert.reachability = { mode: 'sleep', untilMs: Date.now() + 840_000 }
    const first = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA })
    expect([first.status, first.body.error.code]).toEqual([503, -31003])
    expect(first.body.error.data[0].metadata).toMatchObject({ queued: 'true' })
    expect(Number(first.headers.get('retry-after'))).toBeGreaterThan(800)
    const [record] = await node.queue.list(bert.eidHex)
    expect(record).toMatchObject({ issuer: ANNA.eidHex, principal: `eid:${ANNA.eidHex}` })
    const again = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA, headers: { 'A2A-Version': '1.0' } })
    expect(again.status).toBe(503)
    expect((await node.queue.usage(bert.eidHex)).messages).toBe(1)
    expect(caller.outgoing.usage().objects).toBe(1)
    const kept = await caller.outgoing.get(`${ANNA.eidHex}/${bert.eidHex}/${record?.objectId}`)
    expect(kept?.object).toEqual(record?.object)
    expect(kept?.receipt?.length).toBeGreaterThan(64)
    expect(near.peer.received.filter(({ channel }) => channel === MAILBOX_CHANNEL)).toHaveLength(2)

    bert.reachability = { mode: 'always_on' }
    expect((await node.drain.drain(bert)).accepted).toBe(1)
    node.workers.get(bert.name)?.poke()
    const done = await post(url, rpc('SendMessage', { message: textMessage('m-1') }), { agent: ANNA })
    expect(done.body.result.task.status.state).toBe('TASK_STATE_COMPLETED')
    expect((await node.todos.list({ agent: bert.eidHex })).todos).toHaveLength(1)
  })

  it('[OD-44] [OD-45] passes on which bound of the remote queue was hit', async () => {
    const { url, bert } = await twoNodes({
      bounds: { messagesMax: 500, bytesMax: 2_097_152, messagesPerPeerMax: 1, ttlMaxMs: 604_800_000 }
    })
    bert.reachability = { mode: 'sleep' }
    expect((await post(url, rpc('SendMessage', { message: textMessage('a') }), { agent: ANNA })).status).toBe(503)
    const full = await post(url, rpc('SendMessage', { message: textMessage('b') }), { agent: ANNA })
    expect([full.status, full.body.error.data[0].metadata.kind]).toEqual([429, 'peer'])
  })

  it('[OD-22] says that the outcome is unknown when no receipt comes', async () => {
    const { url, bert, far } = await twoNodes()
    bert.reachability = { mode: 'sleep' }
    far.onChannel(MAILBOX_CHANNEL, async () => far.lose('cut'))
    const answer = await post(url, rpc('SendMessage', { message: textMessage('a') }), { agent: ANNA })
    expect([answer.status, answer.body.error.data[0].reason]).toEqual([504, 'OUTCOME_UNKNOWN'])
    expect(answer.text).not.toMatch(/"queued":"?true/)
  })

  it('names what keeps it from an agent: unknown, unreachable, late', async () => {
    const refuse = (code: string, kind: 'notFound' | 'unavailable' | 'timeout') => async () => {
      throw new RookeryError(code, code.toLowerCase(), { kind })
    }
    const cases = [
      [{ locate: refuse('AGENT_UNKNOWN', 'notFound') }, 404, 'AGENT_UNKNOWN'],
      [{ open: refuse('DIAL_FAILED', 'unavailable') }, 502, 'AGENT_UNREACHABLE'],
      [{ open: refuse('HANDSHAKE_FAILED', 'timeout') }, 504, 'AGENT_UNREACHABLE'],
      [{ open: () => new Promise<never>(() => {}) }, 504, 'AGENT_UNREACHABLE']
    ] as const
    for (const [init, status, reason] of cases) {
      const { url } = await twoNodes(init)
      const answer = await post(url, rpc('SendMessage', { message: textMessage('a') }), { agent: ANNA })
      expect([answer.status, answer.body.error.data[0].reason]).toEqual([status, reason])
    }
  })

  it('lets no remote error pass for one of our own door', async () => {
    const { url, far } = await twoNodes()
    const errors = [
      [{ code: -31401, message: 'pay me', data: [{ '@type': 'x', reason: 'UNAUTHENTICATED', metadata: { a: 1 } }] }, 500, 'INTERNAL_ERROR'],
      [{ code: -31003, message: 'z', data: [{ reason: 'AGENT_ASLEEP', metadata: { queued: 'true' } }] }, 503, 'AGENT_ASLEEP'],
      [{ code: 'x', message: 7, data: 'y' }, 500, 'INTERNAL_ERROR'],
      [
        { code: -32602, message: 'm'.repeat(9_000), data: [{ fieldViolations: [{ field: 'f', description: 'd' }, 3] }] },
        200,
        'INVALID_PARAMS'
      ]
    ] as const
    for (const [error, status, reason] of errors) {
      far.onChannel(A2A_CHANNEL, async ({ payload }) => {
        const { id } = JSON.parse(fromUtf8(payload))
        void far.send(A2A_CHANNEL, A2A_KIND, utf8(JSON.stringify({ jsonrpc: '2.0', id, error })))
      })
      const answer = await post(url, rpc('SendMessage', { message: textMessage('a') }), { agent: ANNA })
      expect([answer.status, answer.body.error.data[0].reason]).toEqual([status, reason])
      expect(answer.text.length).toBeLessThan(2_500)
      expect(answer.text).not.toMatch(/"queued":"?true/)
    }
  })
})
