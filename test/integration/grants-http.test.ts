import { afterEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import type { Logger } from '../../src/platform/logger.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { type A2aNode, type A2aNodeInit, post, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const agent = testAgent(1)
const other = testAgent(2)
const open: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

async function node(init: Partial<A2aNodeInit> = {}) {
  const dir = tempDir()
  const started = await startA2aNode({ dir: dir.path, agents: [agent, other], peers: 'required', ...init })
  open.push(async () => {
    await started.stop()
    dir.dispose()
  })
  return started
}

async function vend({ grants }: A2aNode, input: Partial<Parameters<A2aNode['grants']['create']>[0]> = {}) {
  const { grant, credential } = await grants.create({ agent: agent.eidHex, name: 'desk', ...input })
  return { grant, token: credential as string }
}

const at = (one: A2aNode, whom = agent) => `${one.edge.url}/agents/${whom.did}`
const send = (one: A2aNode, caller: { token: string } | undefined, message = textMessage('m1'), whom = agent) =>
  post(at(one, whom), rpc('SendMessage', { message, configuration: { returnImmediately: true } }), { agent: caller })
const rest = (one: A2aNode, caller: { token: string } | undefined) =>
  post(`${at(one)}/message:send`, { message: textMessage('r1') }, { agent: caller })
const reasonOf = (body: { error: { data?: { reason: string }[]; details?: { reason: string }[] } }) =>
  (body.error.data ?? body.error.details)?.[0]?.reason

describe('a vended endpoint over HTTP', () => {
  it('[TD-03] [TD-04] refuses a missing, wrong, revoked or other agent’s credential by both bindings, and makes no task', async () => {
    const one = await node()
    const ended = await vend(one, { name: 'ended' })
    await one.grants.revoke(ended.grant.id)
    const foreign = await vend(one, { agent: other.eidHex })
    const callers: [{ token: string } | undefined, number, string][] = [
      [undefined, 401, 'UNAUTHENTICATED'],
      [{ token: 'no-such-token' }, 401, 'UNAUTHENTICATED'],
      [{ token: `${ended.token.slice(0, -1)}x` }, 401, 'UNAUTHENTICATED'],
      [ended, 401, 'UNAUTHENTICATED'],
      [foreign, 403, 'PERMISSION_DENIED']
    ]
    for (const [caller, status, reason] of callers) {
      for (const answer of [await send(one, caller), await rest(one, caller)]) {
        expect([answer.status, reasonOf(answer.body)]).toEqual([status, reason])
        expect(answer.headers.get('www-authenticate') === null).toBe(status !== 401)
      }
    }
    expect((await one.todos.list({})).todos).toEqual([])
    expect((await send(one, foreign, textMessage('m1'), other)).body.result.task.id).toBeTypeOf('string')
  })

  it('[TD-04] puts the work of a grant into its own queue, where only who serves that one claims it', async () => {
    const one = await node({ workers: 'none' })
    const caller = await vend(one, { queues: ['billing'] })
    const { id } = (await send(one, caller)).body.result.task
    expect(await one.todos.claim(agent.eidHex, 'x', { leaseMs: 60_000, queue: 'other' })).toBeUndefined()
    expect(await one.todos.claim(agent.eidHex, 'x', { leaseMs: 60_000, queue: 'billing' })).toMatchObject({ id, queue: 'billing' })
  })

  it('[TD-37] [TD-02] serves the card to anyone, and no call of A2A makes, widens or prolongs a grant', async () => {
    const one = await node()
    expect((await fetch(`${at(one)}/.well-known/agent-card.json`)).status).toBe(200)
    const { grant, token } = await vend(one, { verbs: ['read'], ttlMs: 60_000 })
    for (const method of ['grant.create', 'grant.tune', 'friends.request', 'CreateGrant']) {
      expect((await post(at(one), rpc(method, { id: grant.id }), { agent: { token } })).body.error.code).toBe(-32601)
    }
    expect((await send(one, { token })).status).toBe(403)
    expect(one.grants.list()).toEqual([grant])
  })

  it('[TD-05] [G-56] shows each holder its own tasks alone: another’s id is answered as an unknown one', async () => {
    const one = await node()
    const [a, b] = [await vend(one, { name: 'a' }), await vend(one, { name: 'b' })]
    const { id } = (await send(one, a)).body.result.task
    const ask = async (caller: { token: string }, method: string, of: string) =>
      (await post(at(one), rpc(method, { id: of }), { agent: caller })).body
    expect((await ask(a, 'GetTask', id)).result.id).toBe(id)
    for (const method of ['GetTask', 'CancelTask']) expect(await ask(b, method, id)).toEqual(await ask(b, method, 'no-such-task'))
    const listed = async (caller: { token: string }) => (await post(at(one), rpc('ListTasks', {}), { agent: caller })).body.result.tasks
    expect((await listed(a)).map((task: { id: string }) => task.id)).toEqual([id])
    expect(await listed(b)).toEqual([])
  })

  it('[TD-35] gives the holder of a grant that is bound to an EID the tasks that this EID made over a session', async () => {
    const one = await node()
    const peer = testAgent(3)
    const { token } = await vend(one, { peer: peer.eidHex })
    const { todo } = await one.todos.create({
      agent: agent.eidHex,
      caller: one.access.ofPeer(agent.eidHex, peer.eidHex),
      message: textMessage('over-pss'),
      door: 'a2a-pss'
    })
    expect((await post(at(one), rpc('GetTask', { id: todo.id }), { agent: { token } })).body.result.id).toBe(todo.id)
  })

  it('[G-56] ends a call that waits at the moment its grant is revoked; the task stays', async () => {
    const release = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const one = await node({
      handlers: {
        [agent.name]: async () => {
          begun.resolve()
          await release.promise
          return { text: 'done' }
        }
      }
    })
    const caller = await vend(one)
    const waiting = post(at(one), rpc('SendMessage', { message: textMessage('m1') }), { agent: caller })
    await begun.promise
    await one.grants.revoke(caller.grant.id)
    const answer = await waiting
    expect([answer.status, answer.body.error.data[0].metadata.cause]).toEqual([401, 'GRANT_ENDED'])
    expect((await one.todos.list({})).todos).toHaveLength(1)
    release.resolve()
  })

  it('[G-56] [TD-32] ends an open stream at the moment its grant is revoked, and says why; the task and other streams go on', async () => {
    const one = await node({ workers: 'none' })
    const [a, b] = [await vend(one, { name: 'a' }), await vend(one, { name: 'b' })]
    const open = async (caller: { token: string }) => {
      const response = await fetch(at(one), {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${caller.token}` },
        body: JSON.stringify(rpc('SendStreamingMessage', { message: textMessage('m1') }))
      })
      const reader = (response.body as ReadableStream<Uint8Array>).getReader()
      const next = async () => new TextDecoder().decode((await reader.read()).value)
      return { first: await next(), next }
    }
    const [ending, going] = [await open(a), await open(b)]
    expect(ending.first).toContain('TASK_STATE_SUBMITTED')
    await one.grants.revoke(a.grant.id)
    const last = await ending.next()
    expect(last).toMatch(/^event: error\n/)
    expect(last).toContain('GRANT_ENDED')
    expect(await ending.next()).toBe('')
    const { todos } = await one.todos.list({ caller: `grant:${b.grant.id}` })
    await one.todos.cancel(todos[0]?.id ?? '')
    expect(await going.next()).toContain('TASK_STATE_CANCELED')
    expect((await one.todos.list({ caller: `grant:${a.grant.id}` })).todos).toHaveLength(1)
  })

  it('[TD-Q1] lets streaming sends draw from the same bucket', async () => {
    const one = await node({ workers: 'none' })
    const caller = await vend(one, { limits: { burst: 1, perMin: 1 } })
    expect((await send(one, caller)).status).toBe(200)
    const streamed = await post(at(one), rpc('SendStreamingMessage', { message: textMessage('m2') }), { agent: caller })
    expect([streamed.status, reasonOf(streamed.body)]).toEqual([429, 'SEND_RATE_LIMITED'])
  })

  it('[TD-02] reaches no agent of another node: that is for the tokens of this node’s agents', async () => {
    const one = await node({
      remote: { call: async () => ({ reached: true }), stream: () => Promise.reject(new Error('not asked here')), card: async () => ({}) }
    })
    const caller = await vend(one)
    const stranger = testAgent(9)
    expect((await send(one, caller, textMessage('m1'), stranger)).status).toBe(403)
    expect((await send(one, agent, textMessage('m1'), stranger)).body.result).toEqual({ reached: true })
  })

  it('[TD-Q1] [TD-19] [TD-20] [TD-21] answers the 21st task with 429 and Retry-After, and limits neither reads nor another holder', async () => {
    const lines: { event?: string }[] = []
    const logger: Logger = { ...silentLogger, warn: (fields) => lines.push(fields), child: () => logger }
    const one = await node({ logger, workers: 'none', clock: new ManualClock() })
    const [a, b] = [await vend(one, { name: 'a' }), await vend(one, { name: 'b' })]
    let first = ''
    for (let i = 1; i <= 20; i++) {
      const answer = await send(one, a, textMessage(`m${i}`))
      expect(answer.status).toBe(200)
      first ||= answer.body.result.task.id
    }
    const refused = await send(one, a, textMessage('m21'))
    expect([refused.status, refused.body.error.code, reasonOf(refused.body)]).toEqual([429, -31005, 'SEND_RATE_LIMITED'])
    expect(refused.headers.get('retry-after')).toBe('6')
    const overRest = await rest(one, a)
    expect([overRest.status, overRest.headers.get('retry-after'), reasonOf(overRest.body)]).toEqual([429, '6', 'SEND_RATE_LIMITED'])
    expect(lines.map(({ event }) => event)).toEqual(['grant-rate-limited', 'grant-rate-limited'])
    expect(one.buckets.counts()).toMatchObject({ taken: 20, refused: 2 })
    expect((await send(one, a, textMessage('m1'))).body.result.task.id).toBe(first)
    expect((await send(one, a, { ...textMessage('more'), taskId: first })).status).toBe(200)
    expect((await post(at(one), rpc('GetTask', { id: first }), { agent: a })).status).toBe(200)
    expect((await send(one, b)).status).toBe(200)
    expect((await send(one, agent)).status).toBe(200)
  })

  it('[TD-Q1] gives the token of a repeated message back', async () => {
    const one = await node({ workers: 'none' })
    const caller = await vend(one, { limits: { burst: 2, perMin: 1 } })
    for (let i = 0; i < 5; i++) expect((await send(one, caller)).status).toBe(200)
    expect((await send(one, caller, textMessage('m2'))).status).toBe(200)
    expect((await send(one, caller, textMessage('m3'))).status).toBe(429)
  })

  it('[TD-Q1] takes one token for a message that waits for a sleeping agent, however often it is sent', async () => {
    const sleeper = { ...testAgent(1), reachability: { mode: 'sleep' as const } }
    const one = await node({ agents: [sleeper, other], workers: 'none' })
    const caller = await vend(one, { limits: { burst: 2, perMin: 1 } })
    for (let i = 0; i < 4; i++) expect((await send(one, caller)).status).toBe(503)
    expect((await send(one, caller, textMessage('m2'))).status).toBe(503)
    const refused = await send(one, caller, textMessage('m3'))
    expect([refused.status, reasonOf(refused.body)]).toEqual([429, 'SEND_RATE_LIMITED'])
    expect(await one.queue.list(sleeper.eidHex)).toHaveLength(2)
  })

  it('[G-13] [OD-34] keeps what a holder leaves for a sleeping agent under its grant, and drops it at the wake where that has ended', async () => {
    const sleeper = { ...testAgent(1), reachability: { mode: 'sleep' as const } }
    const one = await node({ agents: [sleeper, other], workers: 'none' })
    const [a, b] = [await vend(one, { name: 'a' }), await vend(one, { name: 'b' })]
    for (const caller of [a, b]) expect((await send(one, caller, textMessage('same-id'))).status).toBe(503)
    const records = await one.queue.list(sleeper.eidHex)
    expect(records.map(({ principal }) => principal).sort()).toEqual([`grant:${a.grant.id}`, `grant:${b.grant.id}`].sort())
    await one.grants.revoke(b.grant.id)
    const report = await one.drain.drain(sleeper)
    expect(report).toMatchObject({ accepted: 1, discarded: 1 })
    expect(report.events.find(({ outcome }) => outcome === 'invalid')?.reason).toBe('NO_GRANT')
    const tasks = (await post(at(one), rpc('ListTasks', {}), { agent: a })).body.result.tasks
    expect(tasks).toHaveLength(1)
  })
})
