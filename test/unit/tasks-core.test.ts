import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { jsonCodec, Store } from '../../src/store/store.ts'
import type { LevelTodos } from '../../src/tasks/level-todos.ts'
import type { JsonObject, Todo, TodoFilter } from '../../src/tasks/todo.ts'
import { artifactOf, type TodoEvent, TRAIL_EVENTS_MAX } from '../../src/tasks/trail.ts'
import { openTodos, principal, testAgent, textMessage } from '../support/a2a-fixture.ts'

const AGENT = testAgent(1).eidHex
const ALICE = principal(11)
const BOB = principal(12)
const LEASE = { leaseMs: 60_000 }
const DAY_MS = 86_400_000
const text = (value: string): JsonObject => ({ parts: [{ text: value }] })
const chunk = (artifactId: string, ...texts: string[]): JsonObject => ({ artifactId, parts: texts.map((one) => ({ text: one })) })

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function inMemory(settings = {}) {
  const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  const store = new Store(level)
  const clock = new ManualClock()
  let todos = await openTodos(store, clock, settings)
  cleanups.push(() => todos.stop())
  const restart = async () => {
    await todos.stop()
    todos = await openTodos(store, clock, settings)
    return todos
  }
  return { todos, store, clock, restart }
}

const create = async (todos: LevelTodos, messageId: string, more: object = {}) =>
  (await todos.create({ agent: AGENT, caller: ALICE, message: textMessage(messageId), door: 'a2a-http', ...more })).todo

function recorded(todos: LevelTodos): TodoEvent[] {
  const seen: TodoEvent[] = []
  todos.onCommit((_todo, events) => seen.push(...events))
  return seen
}

describe('the trail of a Todo', () => {
  it('[TD-24] [G-60] numbers its events from 1 without a gap, tells each once after its commit, and none for a renewed lease', async () => {
    const { todos, clock } = await inMemory()
    const seen = recorded(todos)
    const { id } = await create(todos, 'a')
    await todos.claim(AGENT, 'agent-http:w', LEASE)
    const { changedAtMs, revision } = (await todos.get(id)) as Todo
    clock.advance(10)
    const renewed = await todos.renew(id, 'agent-http:w', LEASE)
    expect([renewed.changedAtMs, renewed.revision]).toEqual([changedAtMs, revision + 1])
    await todos.progress(id, 'agent-http:w', { message: text('half way'), artifact: chunk('r', 'one') })
    await todos.progress(id, 'agent-http:w', { artifact: chunk('r', 'two', 'three'), append: true, lastChunk: true })
    await todos.complete(id, 'agent-http:w', [chunk('s', 'four')], text('done'))
    expect(seen.map(({ n, kind, state }) => [n, kind, state])).toEqual([
      [1, 'created', 'pending'],
      [2, 'claimed', 'claimed'],
      [3, 'artifact', 'claimed'],
      [4, 'progress', 'claimed'],
      [5, 'artifact', 'claimed'],
      [6, 'artifact', 'claimed'],
      [7, 'ended', 'done']
    ])
    const { todo, events } = await todos.eventsAfter(id, 0)
    expect(events).toEqual(seen)
    expect(todo.artifacts).toEqual([chunk('r', 'one', 'two', 'three'), chunk('s', 'four')])
    expect(seen.map((event) => artifactOf(todo, event)).filter((one) => one !== undefined)).toEqual([
      chunk('r', 'one'),
      chunk('r', 'two', 'three'),
      chunk('s', 'four')
    ])
    expect((await todos.eventsAfter(id, 5)).events?.map(({ n }) => n)).toEqual([6, 7])
  })

  it('[TD-16] has one shape for every protocol and names it as a field', async () => {
    const { todos } = await inMemory()
    const a = await create(todos, 'a', { door: 'a2a-pss' })
    const b = await create(todos, 'b', { door: 'mcp' })
    await todos.claim(AGENT, 'mcp:1', LEASE)
    await todos.fail(a.id, 'mcp:1', 'no')
    await todos.cancel(b.id, { door: 'a2a-rest', who: ALICE.id })
    const trail = async (id: string) => (await todos.get(id))?.trail?.map(({ door, who, kind }) => [door, who, kind])
    expect(await trail(a.id)).toEqual([
      ['a2a-pss', ALICE.id, 'created'],
      ['mcp', 'mcp:1', 'claimed'],
      ['mcp', 'mcp:1', 'ended']
    ])
    expect(await trail(b.id)).toEqual([
      ['mcp', ALICE.id, 'created'],
      ['a2a-rest', ALICE.id, 'ended']
    ])
  })

  it('[TD-R4] [G-60] stays within its bound, and says that it was overrun rather than leave a gap', async () => {
    const { todos, restart } = await inMemory()
    const { id } = await create(todos, 'a')
    await todos.claim(AGENT, 'agent-http:w', LEASE)
    for (let i = 0; i < TRAIL_EVENTS_MAX + 20; i++) await todos.progress(id, 'agent-http:w', { message: text(`${i}`) })
    const again = await restart()
    const { todo, events } = await again.eventsAfter(id, 0)
    expect(events).toBeUndefined()
    expect(todo.trail).toHaveLength(TRAIL_EVENTS_MAX)
    expect(todo.trail?.slice(0, 2).map(({ kind }) => kind)).toEqual(['created', 'claimed'])
    const seq = todo.seq as number
    expect((await again.eventsAfter(id, seq - 5)).events?.map(({ n }) => n)).toEqual([seq - 4, seq - 3, seq - 2, seq - 1, seq])
    expect((await again.eventsAfter(id, seq)).events).toEqual([])
  })

  it('[G-60] lets go of large messages first, and of what was told of an artifact that was replaced', async () => {
    const { todos } = await inMemory()
    const { id } = await create(todos, 'a')
    await todos.claim(AGENT, 'agent-http:w', LEASE)
    for (let i = 0; i < 3; i++) await todos.progress(id, 'agent-http:w', { message: text('x'.repeat(100_000)) })
    expect((await todos.get(id))?.trail?.map(({ n }) => n)).toEqual([1, 2, 4, 5])
    await todos.progress(id, 'agent-http:w', { artifact: chunk('r', 'one') })
    await todos.progress(id, 'agent-http:w', { artifact: chunk('r', 'other') })
    const { events } = await todos.eventsAfter(id, 5)
    expect(events).toBeUndefined()
    expect((await todos.eventsAfter(id, 6)).events?.map(({ n }) => n)).toEqual([7])
  })

  it('[TD-24] [TD-26] tells one transition to all hooks, to who watches this Todo, and to nobody who has left', async () => {
    const { todos } = await inMemory()
    const told: string[] = []
    const { id } = await create(todos, 'a')
    const other = await create(todos, 'b')
    todos.onCommit((todo, [event]) => told.push(`all ${todo.id === id} ${event?.n}`))
    const leave = todos.watch(id, (_todo, [event]) => told.push(`one ${event?.n} ${event?.state}`))
    await todos.cancel(other.id)
    await todos.claimOne(id, 'w', LEASE)
    leave()
    await todos.complete(id, 'w', [])
    expect(told).toEqual(['all false 2', 'all true 2', 'one 2 claimed', 'all true 3'])
  })
})

describe('questions', () => {
  it('[TD-09] [TD-34] [G-58] waits for input, takes the answer into the same Todo, and counts no attempt against it', async () => {
    const { todos } = await inMemory({ attemptsMax: 1 })
    const { id } = await create(todos, 'a')
    for (let round = 0; round < 3; round++) {
      await todos.claim(AGENT, 'w', LEASE)
      const asked = await todos.ask(id, 'w', { for: 'input', message: text(`which? ${round}`) })
      expect(asked).toMatchObject({ state: 'input-required', statusMessage: { role: 'ROLE_AGENT', taskId: id } })
      expect(await todos.claim(AGENT, 'w', LEASE)).toBeUndefined()
      const answered = await create(todos, `answer-${round}`, { message: textMessage(`answer-${round}`, 'this', { taskId: id }) })
      expect([answered.id, answered.state, answered.statusMessage]).toEqual([id, 'pending', undefined])
    }
    await todos.claim(AGENT, 'w', LEASE)
    expect(await todos.retry(id, 'w', 'broken')).toMatchObject({ state: 'failed', history: { length: 4 } })
  })

  it('[TD-Q2] fails after the time limit, once, with one event; the deadline is in the row and each question starts it anew', async () => {
    const { todos, clock } = await inMemory()
    const { id } = await create(todos, 'a')
    await todos.claim(AGENT, 'w', LEASE)
    const first = await todos.ask(id, 'w', { for: 'auth', message: text('log in') })
    expect(first).toMatchObject({ state: 'auth-required', deadlineMs: clock.nowMs() + 7 * DAY_MS })
    clock.advance(6 * DAY_MS)
    await create(todos, 'b', { message: textMessage('b', 'ok', { taskId: id }) })
    await todos.claim(AGENT, 'w', LEASE)
    await todos.ask(id, 'w', { for: 'input', message: text('and now?') })
    const seen = recorded(todos)
    clock.advance(6 * DAY_MS)
    expect((await todos.get(id))?.state).toBe('input-required')
    const end = new Promise<Todo>((resolve) => todos.watch(id, resolve))
    clock.advance(DAY_MS)
    expect(await end).toMatchObject({ state: 'failed', failure: 'interrupt_timeout' })
    clock.advance(30 * DAY_MS)
    expect(seen.map(({ kind, state, door }) => [kind, state, door])).toEqual([['ended', 'failed', 'node']])
  })

  it('[TD-Q2] fails it at the next start where the node was off at the time, and never with the limit 0', async () => {
    const off = await inMemory()
    const { id } = await create(off.todos, 'a')
    await off.todos.claim(AGENT, 'w', LEASE)
    await off.todos.ask(id, 'w', { for: 'input', message: text('?') })
    await off.todos.stop()
    off.clock.advance(8 * DAY_MS)
    const again = await off.restart()
    expect(await again.get(id)).toMatchObject({ state: 'failed', failure: 'interrupt_timeout' })

    const never = await inMemory({ interruptMs: 0 })
    const other = await create(never.todos, 'a')
    await never.todos.claim(AGENT, 'w', LEASE)
    expect((await never.todos.ask(other.id, 'w', { for: 'input', message: text('?') })).deadlineMs).toBeUndefined()
    never.clock.advance(400 * DAY_MS)
    expect((await (await never.restart()).get(other.id))?.state).toBe('input-required')
  })
})

describe('attempts', () => {
  it('[TD-08] waits longer after each failed attempt, also over a restart, and wakes who claims when the wait is over', async () => {
    const { todos, clock, restart } = await inMemory({ attemptsMax: 9, retryFirstMs: 1_000, retryLastMs: 3_000 })
    const { id } = await create(todos, 'a')
    const waits: number[] = []
    for (let attempt = 0; attempt < 4; attempt++) {
      expect((await todos.claim(AGENT, 'w', LEASE))?.id).toBe(id)
      const { notBeforeMs = 0 } = await todos.retry(id, 'w', 'broken')
      waits.push(notBeforeMs - clock.nowMs())
      expect(await todos.claim(AGENT, 'w', LEASE)).toBeUndefined()
      const ripe = new Promise<void>((resolve) => todos.onClaimable(AGENT, resolve))
      clock.advance(notBeforeMs - clock.nowMs())
      await ripe
    }
    for (const [i, full] of [1_000, 2_000, 3_000, 3_000].entries()) {
      expect(waits[i]).toBeGreaterThanOrEqual(full * 0.75)
      expect(waits[i]).toBeLessThanOrEqual(full)
    }
    await todos.claim(AGENT, 'w', LEASE)
    const { notBeforeMs = 0 } = await todos.retry(id, 'w', 'broken')
    const again = await restart()
    expect(await again.claim(AGENT, 'w', LEASE)).toBeUndefined()
    const ripe = new Promise<void>((resolve) => again.onClaimable(AGENT, resolve))
    clock.advance(notBeforeMs - clock.nowMs())
    await ripe
    expect((await again.claim(AGENT, 'w', LEASE))?.attempt).toBe(6)
  })

  it('[TD-08] [TD-34] ends in a dead letter that its owner lists, tries anew as another Todo, or drops', async () => {
    const { todos, clock, restart } = await inMemory({ attemptsMax: 1 })
    const dead = await create(todos, 'a', { priority: 3 })
    const other = await create(todos, 'b')
    const refused = await create(todos, 'c')
    for (const { id } of [dead, other]) {
      clock.advance(1)
      await todos.claimOne(id, 'w', LEASE)
      await todos.retry(id, 'w', `broken ${id === dead.id}`)
    }
    await todos.claimOne(refused.id, 'w', LEASE)
    await todos.fail(refused.id, 'w', 'the answer is no')
    const again = await restart()
    const letters = await again.deadLetters({ agent: AGENT })
    expect(letters.map(({ id, reason, attempts }) => [id, reason, attempts])).toEqual([
      [dead.id, 'broken true', 1],
      [other.id, 'broken false', 1]
    ])
    const { todo, created } = await again.requeue(dead.id)
    expect([created, todo.state, todo.retryOf, todo.contextId, todo.priority, todo.caller]).toEqual([
      true,
      'pending',
      dead.id,
      dead.contextId,
      3,
      ALICE.id
    ])
    expect((await again.requeue(dead.id)).todo.id).toBe(todo.id)
    expect(await again.get(dead.id)).toMatchObject({ state: 'failed' })
    await again.drop(other.id)
    expect(await again.deadLetters()).toEqual([])
    await expect(again.drop(other.id)).rejects.toMatchObject({ code: 'TODO_NOT_DEAD' })
    await expect(again.requeue(todo.id)).rejects.toMatchObject({ code: 'TODO_NOT_FAILED' })
    expect((await again.requeue(refused.id)).created).toBe(true)
  })

  it('[TD-08] hands out the highest priority first, then the oldest, of one queue or of all', async () => {
    const { todos, restart } = await inMemory()
    for (const [messageId, more] of [
      ['a', {}],
      ['b', { priority: 9, queue: 'slow' }],
      ['c', { priority: 9 }],
      ['d', { priority: 5, queue: 'slow' }]
    ] as const)
      await create(todos, messageId, more)
    const again = await restart()
    const order: unknown[] = []
    const take = async (queue?: string) => {
      const todo = await again.claim(AGENT, 'w', { ...LEASE, ...(queue === undefined ? {} : { queue }) })
      order.push(todo?.history[0]?.messageId)
    }
    await take('slow')
    await take()
    await take('none')
    await take()
    await take()
    expect(order).toEqual(['b', 'c', undefined, 'd', 'a'])
    await expect(create(again, 'x', { priority: 10 })).rejects.toMatchObject({ code: 'PRIORITY_INVALID', field: 'priority', value: 10 })
    await expect(create(again, 'x', { queue: 'a b' })).rejects.toMatchObject({ code: 'QUEUE_INVALID', field: 'queue' })
  })

  it('[TD-09] rejects for its holder, and for its owner without a claim', async () => {
    const { todos } = await inMemory()
    const a = await create(todos, 'a')
    const b = await create(todos, 'b')
    await todos.claimOne(a.id, 'w', LEASE)
    const held = await todos.reject(a.id, 'w', 'not my work')
    expect(held).toMatchObject({ state: 'rejected', statusMessage: { parts: [{ text: 'not my work' }] } })
    expect(await todos.reject(b.id, undefined, 'no')).toMatchObject({ state: 'rejected' })
    await expect(todos.reject(b.id, undefined, 'no')).rejects.toMatchObject({ code: 'TODO_TERMINAL' })
    expect(await todos.claim(AGENT, 'w', LEASE)).toBeUndefined()
  })
})

describe('keys of callers', () => {
  it('[TD-Q4] [G-69] [TD-14] give the first Todo for the same content, an error for another, in one name space with messageIds', async () => {
    const { todos, clock } = await inMemory({ keptPerCallerMax: 1 })
    const first = await todos.create({ agent: AGENT, caller: ALICE, message: textMessage('m1'), door: 'a2a-http', dedupKey: 'order-7' })
    const again = await todos.create({ agent: AGENT, caller: ALICE, message: textMessage('m2'), door: 'a2a-pss', dedupKey: 'order-7' })
    expect([again.created, again.todo.id]).toEqual([false, first.todo.id])
    const byMessageId = await todos.create({ agent: AGENT, caller: ALICE, message: textMessage('order-7'), door: 'mcp' })
    expect([byMessageId.created, byMessageId.todo.id]).toEqual([false, first.todo.id])
    const other = { agent: AGENT, caller: ALICE, message: textMessage('m3', 'other'), door: 'a2a-http' as const, dedupKey: 'order-7' }
    await expect(todos.create(other)).rejects.toMatchObject({ code: 'MESSAGE_ID_REUSED' })
    expect((await todos.create({ ...other, caller: BOB })).created).toBe(true)
    await expect(todos.create({ ...other, dedupKey: '' })).rejects.toMatchObject({ code: 'DEDUP_KEY_INVALID' })

    await todos.cancel(first.todo.id)
    clock.advance(1_000)
    await todos.cancel((await create(todos, 'next')).id)
    clock.advance(6 * DAY_MS)
    await todos.sweep()
    expect((await create(todos, 'm9', { dedupKey: 'order-7' })).id).toBe(first.todo.id)
    const other1 = await create(todos, 'm1')
    expect(other1.id).not.toBe(first.todo.id)
    await todos.cancel(other1.id)
    clock.advance(2 * DAY_MS)
    await todos.sweep()
    expect((await create(todos, 'm9', { dedupKey: 'order-7' })).id).not.toBe(first.todo.id)
  })
})

describe('what comes late', () => {
  it('[G-59] [F005] is kept as audit of who held it, bounded, and changes nothing', async () => {
    const { todos, restart } = await inMemory()
    const { id } = await create(todos, 'a')
    await todos.claim(AGENT, 'agent-http:w', LEASE)
    await todos.cancel(id)
    const before = await todos.get(id)
    const seen = recorded(todos)
    await expect(todos.renew(id, 'agent-http:w', LEASE)).rejects.toMatchObject({ code: 'LEASE_LOST', data: { state: 'canceled' } })
    await expect(todos.complete(id, 'agent-http:w', [chunk('r', 'late')])).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await expect(todos.complete(id, 'agent-http:stranger', [chunk('r', 'x')])).rejects.toMatchObject({ code: 'LEASE_LOST' })
    for (let i = 0; i < 6; i++)
      await expect(todos.fail(id, 'agent-http:w', 'x'.repeat(90_000))).rejects.toMatchObject({ code: 'LEASE_LOST' })
    const again = await restart()
    expect(await again.get(id)).toEqual(before)
    expect(seen).toEqual([])
    const late = await again.lateResults(id)
    expect(late.map(({ act, content, bytes }) => [act, content === undefined ? 'digest alone' : 'whole', bytes > 80_000])).toEqual([
      ['complete', 'whole', false],
      ['fail', 'digest alone', true],
      ['fail', 'digest alone', true],
      ['fail', 'digest alone', true]
    ])
    expect(late[0]?.content).toEqual({ artifacts: [chunk('r', 'late')] })
  })
})

describe('listings', () => {
  async function listed(todos: LevelTodos, filter: TodoFilter, limit: number): Promise<string[]> {
    const ids: string[] = []
    let cursor: string | undefined
    do {
      const page = await todos.list({ ...filter, limit, ...(cursor === undefined ? {} : { cursor }) })
      ids.push(...page.todos.map(({ id }) => id))
      cursor = page.next
    } while (cursor !== undefined)
    return ids
  }

  it('[TD-15] [TD-Q3] pages by agent, caller, context, state and time, newest change first, and counts what it lists', async () => {
    const { todos, clock, restart } = await inMemory({ attemptsMax: 9, retryFirstMs: 0 })
    const made: Todo[] = []
    for (let i = 0; i < 40; i++) {
      clock.advance(i % 3)
      const contextId = i % 4 === 0 ? 'ctx' : undefined
      const message = textMessage(`m${i}`, 'x', contextId === undefined ? {} : { contextId })
      made.push(await create(todos, `m${i}`, { caller: i % 5 === 0 && i % 4 !== 0 ? BOB : ALICE, message }))
    }
    for (const [i, { id }] of made.entries()) {
      clock.advance(1)
      if (i % 3 === 0) await todos.cancel(id)
      if (i % 3 === 1) await todos.claimOne(id, 'w', LEASE)
      if (i % 6 === 1) await todos.retry(id, 'w', 'again')
    }
    const fromMs = clock.nowMs() - 20
    const now = await Promise.all(made.map(async ({ id }) => (await todos.get(id)) as Todo))
    const order = [...now].sort((a, b) => b.changedAtMs - a.changedAtMs || (a.id < b.id ? 1 : -1))
    const filters: [TodoFilter, (todo: Todo) => boolean][] = [
      [{}, () => true],
      [{ agent: AGENT }, () => true],
      [{ agent: AGENT, state: 'pending' }, ({ state }) => state === 'pending'],
      [{ agent: AGENT, caller: ALICE.id }, ({ caller }) => caller === ALICE.id],
      [{ caller: BOB.id }, ({ caller }) => caller === BOB.id],
      [
        { agent: AGENT, caller: ALICE.id, slots: ['again', 'claimed'] },
        ({ caller, state, attempt }) => caller === ALICE.id && (state === 'claimed' || (state === 'pending' && attempt > 0))
      ],
      [{ agent: AGENT, caller: ALICE.id, contextId: 'ctx' }, ({ contextId }) => contextId === 'ctx'],
      [
        { agent: AGENT, caller: ALICE.id, contextId: 'ctx', state: 'canceled' },
        ({ contextId, state }) => contextId === 'ctx' && state === 'canceled'
      ],
      [{ agent: AGENT, caller: BOB.id, contextId: 'ctx' }, () => false],
      [{ agent: AGENT, caller: ALICE.id, changedFromMs: fromMs }, ({ caller, changedAtMs }) => caller === ALICE.id && changedAtMs >= fromMs]
    ]
    const again = await restart()
    for (const [filter, fits] of filters) {
      const expected = order.filter(fits).map(({ id }) => id)
      expect([filter, await listed(again, filter, 7)]).toEqual([filter, expected])
      expect([filter, await again.count(filter)]).toEqual([filter, expected.length])
    }
  })

  it('[TD-Q3] refuses a cursor that is forged, or came from another filter', async () => {
    const { todos } = await inMemory()
    for (let i = 0; i < 4; i++) await create(todos, `m${i}`)
    const filter = { agent: AGENT, caller: ALICE.id }
    const { next = '' } = await todos.list({ ...filter, limit: 2 })
    expect((await todos.list({ ...filter, limit: 2, cursor: next })).todos).toHaveLength(2)
    const forged = `${next.startsWith('0') ? '1' : '0'}${next.slice(1)}`
    for (const [more, cursor] of [
      [{}, forged],
      [{ state: 'pending' }, next],
      [{ changedFromMs: 1 }, next],
      [{ caller: BOB.id }, next],
      [{}, 'zz']
    ] as const) {
      await expect(todos.list({ ...filter, ...more, cursor })).rejects.toMatchObject({ code: 'CURSOR_INVALID' })
    }
  })

  it('[TD-Q3] shows none twice and misses none but those that changed between two pages', async () => {
    const { todos, clock } = await inMemory()
    const made: string[] = []
    for (let i = 0; i < 60; i++) {
      clock.advance(1)
      made.push((await create(todos, `m${i}`)).id)
    }
    const changed = new Set<string>()
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await todos.list({ agent: AGENT, caller: ALICE.id, limit: 10, ...(cursor === undefined ? {} : { cursor }) })
      seen.push(...page.todos.map(({ id }) => id))
      cursor = page.next
      clock.advance(1)
      const id = made[(seen.length * 7) % made.length] as string
      await todos.cancel(id)
      changed.add(id)
      await create(todos, `new${seen.length}`)
    } while (cursor !== undefined)
    expect(new Set(seen).size).toBe(seen.length)
    for (const id of made) expect(seen.includes(id) || changed.has(id)).toBe(true)
  })
})

describe('a store of the former form', () => {
  it('[TD-10] [TD-11] opens as it is: its rows stay byte for byte, and every listing, claim and deadline knows them', async () => {
    const { todos, store, clock, restart } = await inMemory()
    await todos.stop()
    const bytes = jsonCodec<unknown>()
    const rows = store.table('todo', bytes)
    const open = store.table('todo-open', bytes)
    const index = store.table('todo-changed', bytes)
    const nowMs = clock.nowMs()
    const former = (['pending', 'auth-required', 'done'] as const).map((state, i) => ({
      id: `former-${i}`,
      agent: AGENT,
      caller: ALICE.id,
      contextId: 'ctx',
      state,
      revision: 3,
      createdAtMs: nowMs - 5_000,
      changedAtMs: nowMs - 1_000 * i,
      dedupKey: `a2a:${AGENT}:${ALICE.id}:m${i}`,
      digest: '00',
      door: 'a2a-http',
      history: [textMessage(`m${i}`)],
      artifacts: [],
      attempt: state === 'pending' ? 1 : 0,
      ...(state === 'auth-required' ? { approval: 'needed' } : {})
    }))
    const ops = former.flatMap((todo, i) => {
      const at = `:${todo.changedAtMs.toString(16).padStart(12, '0')}:${todo.id}`
      const row = { agent: AGENT, caller: ALICE.id, state: todo.state, bytes: 400 }
      const entry = { agent: AGENT, caller: ALICE.id, arrival: i + 1, state: todo.state, bytes: 400 }
      return [
        rows.put(todo.id, todo),
        index.put(`all${at}`, row),
        index.put(`agent:${AGENT}${at}`, row),
        ...(todo.state === 'done' ? [] : [open.put(todo.id, entry)])
      ]
    })
    await store.commit(ops)
    const raw = store.table<Uint8Array>('todo', { encode: (value) => value, decode: (value) => value.slice() })
    const before = await Promise.all(former.map(({ id }) => raw.get(id)))
    const again = await restart()
    expect(await Promise.all(former.map(({ id }) => raw.get(id)))).toEqual(before)
    const filter = { agent: AGENT, caller: ALICE.id }
    expect((await again.list({ ...filter, contextId: 'ctx' })).todos.map(({ id }) => id)).toEqual(['former-0', 'former-1', 'former-2'])
    expect((await again.list({ ...filter, slots: ['again'] })).todos.map(({ id }) => id)).toEqual(['former-0'])
    expect(await again.count({ ...filter, state: 'done' })).toBe(1)
    const claimed = await again.claim(AGENT, 'w', LEASE)
    expect(claimed).toMatchObject({ id: 'former-0', seq: 1, attempt: 2 })
    const end = new Promise<Todo>((resolve) => again.watch('former-1', resolve))
    clock.advance(7 * DAY_MS)
    expect(await end).toMatchObject({ state: 'failed', failure: 'interrupt_timeout' })
    expect((await (await restart()).list({ agent: AGENT })).todos).toHaveLength(3)
  })
})
