import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { Grants } from '../../src/grants/grants.ts'
import { type Clock, ManualClock, systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { CIRCUIT_FAILURES, CIRCUIT_OPEN_MS } from '../../src/push/circuits.ts'
import { NodePush } from '../../src/push/node-push.ts'
import { PUSH_CONFIGS_PER_TASK_MAX } from '../../src/push/push-rows.ts'
import { PUSH_ATTEMPTS_MAX } from '../../src/push/push-sender.ts'
import { pushView } from '../../src/push/push-view.ts'
import type { PushTargets, Resolve } from '../../src/push/target.ts'
import { Store } from '../../src/store/store.ts'
import type { JsonObject, Todo } from '../../src/tasks/todo.ts'
import { openTodos, principal, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { PushReceiver } from '../support/push-receiver.ts'

const agent = testAgent(1)
const receiver = new PushReceiver()
const open: (() => Promise<void>)[] = []

beforeEach(async () => {
  receiver.got.length = 0
  receiver.answer = () => 204
  await receiver.open()
})

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
  await receiver.close()
})

interface World {
  push: NodePush
  grants: Grants
  todos: Awaited<ReturnType<typeof openTodos>>
  stop(): Promise<void>
}

async function world({
  level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }),
  clock = systemClock,
  targets = 'loopback',
  resolve
}: {
  level?: MemoryLevel<string, Uint8Array>
  clock?: Clock
  targets?: PushTargets
  resolve?: Resolve
} = {}): Promise<World> {
  const store = new Store(level, { clock })
  const todos = await openTodos(store, clock)
  const components = { store, clock, random: systemRandom, crypto: nodeCrypto, logger: silentLogger }
  const grants = await Grants.open(components)
  const push = await NodePush.open({
    ...components,
    todos,
    grants,
    rootOf: (eid) => eid,
    view: pushView,
    rules: () => ({ targets, ports: [443] }),
    userAgent: 'rookery/test',
    ...(resolve === undefined ? {} : { resolve })
  })
  push.start()
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= (async () => {
      grants.stop()
      await push.stop()
      await todos.stop()
    })()
    return stopped
  }
  open.push(stop)
  return { push, grants, todos, stop }
}

async function task({ todos }: World, messageId = 'm1', caller = principal(2)): Promise<Todo> {
  return (await todos.create({ agent: agent.eidHex, caller, message: textMessage(messageId), door: 'library' })).todo
}

async function finish({ todos }: World, id: string): Promise<void> {
  await todos.claimOne(id, 'test', { leaseMs: 60_000 })
  await todos.complete(id, 'test', [{ artifactId: 'a', parts: [{ text: 'done' }] }])
}

const statesOf = (bodies: { body: JsonObject }[]) =>
  bodies.flatMap(({ body }) => {
    const { status } = (body.statusUpdate ?? {}) as { status?: { state: string } }
    return status === undefined ? [] : [status.state]
  })
const configOf = async ({ push }: World, id: string) => push.all().find((row) => row.taskId === id)

/** Real sockets answer in real time: the clock moves only while nobody is called, to what is due next. */
async function advanceUntil(clock: ManualClock, { push }: World, is: () => boolean | Promise<boolean>): Promise<void> {
  for (let idle = 0; !(await is()); ) {
    idle = push.counts().calling === 0 ? idle + 1 : 0
    const dueMs = clock.nextDueMs()
    if (idle > 20 && dueMs !== undefined) {
      clock.advance(dueMs)
      idle = 0
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
}

describe('push notifications', () => {
  it('[F025] tell a webhook of every event after it was set, in order, with ids of their own and what its configuration says', async () => {
    const one = await world()
    const todo = await task(one)
    const config = { url: receiver.url('/a?b=c'), token: 'tok', authentication: { scheme: 'Bearer', credentials: 'sesame' } }
    const made = await one.push.set(todo, config)
    expect(made).toEqual({ id: expect.any(String), taskId: todo.id, url: config.url, authentication: { scheme: 'Bearer' } })
    await finish(one, todo.id)
    await receiver.until(() => statesOf(receiver.got).includes('TASK_STATE_COMPLETED'))
    expect(statesOf(receiver.got)).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
    expect(receiver.got.some(({ body }) => body.artifactUpdate !== undefined)).toBe(true)
    expect(new Set(receiver.ids).size).toBe(receiver.ids.length)
    const [first] = receiver.got
    expect(first).toMatchObject({
      path: '/a?b=c',
      headers: {
        'content-type': 'application/a2a+json',
        authorization: 'Bearer sesame',
        'x-a2a-notification-token': 'tok',
        'a2a-event-id': `${todo.id}:${receiver.ids[0]}`,
        'user-agent': 'rookery/test'
      }
    })
    await expect.poll(async () => (await configOf(one, todo.id))?.state).toBe('done')
    expect(one.push.counts()).toMatchObject({ delivered: receiver.got.length, failed: 0 })
  })

  it('[F025] outlive a receiver that is down, answers 500 and a restart of the node in between: nothing is lost or out of order', async () => {
    const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
    const clock = new ManualClock()
    const first = await world({ level, clock })
    const todo = await task(first)
    await receiver.close()
    await first.push.set(todo, { url: receiver.url() })
    await finish(first, todo.id)
    await advanceUntil(clock, first, async () => ((await configOf(first, todo.id))?.attempts ?? 0) >= 2)
    const before = await configOf(first, todo.id)
    expect(before).toMatchObject({
      state: 'active',
      lastError: expect.stringContaining('ECONNREFUSED'),
      nextAttemptAtMs: expect.any(Number)
    })
    await first.stop()

    let left = 2
    receiver.answer = () => (left-- > 0 ? 503 : 200)
    await receiver.open()
    const second = await world({ level, clock })
    expect((await configOf(second, todo.id))?.attempts).toBe(before?.attempts)
    await advanceUntil(clock, second, async () => (await configOf(second, todo.id))?.state === 'done')
    expect(statesOf(receiver.got.slice(2))).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
    expect(receiver.ids.slice(0, 3)).toEqual([receiver.ids[0], receiver.ids[0], receiver.ids[0]])
    expect(receiver.ids.slice(2)).toEqual([...new Set(receiver.ids)])
  })

  it('are given up after so many tries, shown with the reason, and go on by the owner’s word', async () => {
    const clock = new ManualClock()
    const one = await world({ clock })
    const todo = await task(one)
    receiver.answer = () => 500
    const { id } = await one.push.set(todo, { url: receiver.url() })
    await finish(one, todo.id)
    await advanceUntil(clock, one, async () => (await configOf(one, todo.id))?.state === 'given-up')
    expect(receiver.got).toHaveLength(PUSH_ATTEMPTS_MAX)
    expect(await configOf(one, todo.id)).toMatchObject({ attempts: PUSH_ATTEMPTS_MAX, lastError: expect.stringContaining('500') })
    receiver.answer = () => 200
    await one.push.retry(todo.id, id as string)
    await advanceUntil(clock, one, async () => (await configOf(one, todo.id))?.state === 'done')
    await expect(one.push.retry(todo.id, 'nothing')).rejects.toMatchObject({ code: 'PUSH_UNKNOWN' })
  })

  it('are given up at once where the receiver is gone for good', async () => {
    const one = await world()
    const todo = await task(one)
    receiver.answer = () => 410
    await one.push.set(todo, { url: receiver.url() })
    await finish(one, todo.id)
    await expect.poll(async () => (await configOf(one, todo.id))?.state).toBe('given-up')
    expect(receiver.got).toHaveLength(1)
  })

  it('[F020] do not follow a redirect: its target is never called', async () => {
    const inner = new PushReceiver()
    await inner.open()
    open.push(() => inner.close())
    const one = await world()
    const todo = await task(one)
    receiver.answer = () => ({ redirect: inner.url('/inner') })
    await one.push.set(todo, { url: receiver.url() })
    await finish(one, todo.id)
    await expect.poll(async () => (await configOf(one, todo.id))?.lastError).toContain('PUSH_REDIRECTED')
    expect(inner.got).toEqual([])
  })

  it('[F020] are refused where a name leads inward when it is set, and sent nowhere where it turns inward afterwards', async () => {
    let address = '93.184.216.34'
    const clock = new ManualClock()
    const one = await world({ clock, targets: 'public', resolve: async () => [{ address, family: 4 }] })
    const todo = await task(one)
    await expect(one.push.set(todo, { url: `http://127.0.0.1:${receiver.port}/` })).rejects.toMatchObject({
      reason: 'INVALID_PARAMS',
      violations: [{ field: 'url' }]
    })
    await one.push.set(todo, { url: 'https://rebound.example/' })
    address = '127.0.0.1'
    await expect(one.push.check({ url: 'https://rebound.example/' })).rejects.toMatchObject({ metadata: { cause: 'PUSH_URL_REFUSED' } })
    await finish(one, todo.id)
    await advanceUntil(clock, one, async () => ((await configOf(one, todo.id))?.attempts ?? 0) >= 3)
    expect(await configOf(one, todo.id)).toMatchObject({ lastError: expect.stringContaining('leads to this machine') })
    expect(receiver.got).toEqual([])
  })

  it('end a call that gets no answer in time, and leave a receiver alone that fails again and again, whoever’s webhooks it has', async () => {
    const clock = new ManualClock()
    const one = await world({ clock })
    receiver.answer = () => 'hang'
    const slow = await task(one, 'slow')
    await one.push.set(slow, { url: receiver.url() })
    await one.todos.claimOne(slow.id, 'test', { leaseMs: 600_000 })
    await receiver.until(() => receiver.got.length === 1)
    clock.advance(10_000)
    await expect.poll(async () => (await configOf(one, slow.id))?.lastError).toContain('PUSH_TIMEOUT')
    receiver.answer = () => 500
    await advanceUntil(clock, one, () => receiver.got.length >= CIRCUIT_FAILURES)
    await expect.poll(() => one.push.counts().failed).toBe(CIRCUIT_FAILURES)
    const other = await task(one, 'other', principal(3))
    await one.push.set(other, { url: receiver.url('/other') })
    await one.todos.claimOne(other.id, 'test', { leaseMs: 600_000 })
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve))
    expect(receiver.got).toHaveLength(CIRCUIT_FAILURES)
    receiver.answer = () => 200
    clock.advance(CIRCUIT_OPEN_MS)
    await advanceUntil(clock, one, () => receiver.got.some(({ path }) => path === '/other'))
  })

  it('[G-56] end with the grant that they were asked for by', async () => {
    const one = await world()
    const { grant } = await one.grants.create({ agent: agent.eidHex, name: 'desk' })
    const todo = await task(one, 'm1', { id: `grant:${grant.id}`, eid: agent.eidHex })
    const kept = await task(one, 'm2')
    await one.push.set(todo, { url: receiver.url('/ended') })
    await one.push.set(kept, { url: receiver.url('/kept') })
    await one.grants.revoke(grant.id)
    await expect.poll(() => one.push.list(todo.id)).toEqual([])
    await finish(one, todo.id)
    await finish(one, kept.id)
    await receiver.until(() => statesOf(receiver.got).includes('TASK_STATE_COMPLETED'))
    expect(receiver.got.every(({ path }) => path === '/kept')).toBe(true)
  })

  it('are bounded for each task, replaced by id, deleted twice without harm, and refused where they are malformed', async () => {
    const one = await world()
    const todo = await task(one)
    for (let i = 0; i < PUSH_CONFIGS_PER_TASK_MAX; i++) await one.push.set(todo, { id: `c${i}`, url: receiver.url(`/${i}`) })
    await expect(one.push.set(todo, { url: receiver.url() })).rejects.toMatchObject({
      reason: 'INVALID_PARAMS',
      metadata: { cause: 'PUSH_CONFIGS_FULL' }
    })
    await one.push.set(todo, { id: 'c0', url: receiver.url('/anew') })
    expect(await one.push.get(todo.id, 'c0')).toMatchObject({ url: receiver.url('/anew') })
    await one.push.delete(todo.id, 'c0')
    await one.push.delete(todo.id, 'c0')
    expect(await one.push.get(todo.id, 'c0')).toBeUndefined()
    const url = receiver.url()
    const wrong: [JsonObject, string][] = [
      [{}, 'url'],
      [{ url: 7 }, 'url'],
      [{ url, id: 'a b' }, 'id'],
      [{ url, token: 'a\r\nX-Evil: 1' }, 'token'],
      [{ url, authentication: 'Bearer x' }, 'authentication'],
      [{ url, authentication: { scheme: 'Be arer' } }, 'authentication.scheme'],
      [{ url, authentication: { scheme: 'Bearer', credentials: 'x\n' } }, 'authentication.credentials']
    ]
    for (const [config, field] of wrong) await expect(one.push.check(config)).rejects.toMatchObject({ violations: [{ field }] })
  })
})
