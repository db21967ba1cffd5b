import fc from 'fast-check'
import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { Store, type WriteOp } from '../../src/store/store.ts'
import type { LevelTodos } from '../../src/tasks/level-todos.ts'
import { mayFollow, stateClass, TODO_STATES } from '../../src/tasks/states.ts'
import type { Todo, TodoState } from '../../src/tasks/todo.ts'
import { openLevelStore, openTodos, principal, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const AGENT = testAgent(1).eidHex
const OTHER_AGENT = testAgent(2).eidHex
const ALICE = principal(11)
const BOB = principal(12)
const LEASE = { leaseMs: 60_000 }

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function memoryStore(): Store {
  return new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
}

async function todosInMemory(settings = {}): Promise<{ todos: LevelTodos; store: Store; clock: ManualClock }> {
  const store = memoryStore()
  const clock = new ManualClock()
  const todos = await openTodos(store, clock, settings)
  cleanups.push(() => todos.stop())
  return { todos, store, clock }
}

const create = (todos: LevelTodos, messageId: string, more = {}) =>
  todos.create({ agent: AGENT, caller: ALICE, message: textMessage(messageId), door: 'library', ...more })

describe('states of a Todo', () => {
  it('[TD-08] [TD-09] [TD-33] allows exactly the moves of the table', () => {
    const allowed = TODO_STATES.flatMap((from) => TODO_STATES.filter((to) => mayFollow(from, to)).map((to) => `${from}>${to}`))
    expect(allowed).toEqual([
      'pending>claimed',
      'pending>auth-required',
      'pending>failed',
      'pending>canceled',
      'pending>rejected',
      'claimed>pending',
      'claimed>input-required',
      'claimed>auth-required',
      'claimed>done',
      'claimed>failed',
      'claimed>canceled',
      'claimed>rejected',
      'input-required>pending',
      'input-required>failed',
      'input-required>canceled',
      'input-required>rejected',
      'auth-required>pending',
      'auth-required>failed',
      'auth-required>canceled',
      'auth-required>rejected'
    ])
    expect(TODO_STATES.filter((state) => stateClass(state) === 'terminal')).toEqual(['done', 'failed', 'canceled', 'rejected'])
  })

  it('[TD-33] names every state of the closed set once', () => {
    const all: Record<TodoState, true> = {
      pending: true,
      claimed: true,
      'input-required': true,
      'auth-required': true,
      done: true,
      failed: true,
      canceled: true,
      rejected: true
    }
    expect([...TODO_STATES].sort()).toEqual(Object.keys(all).sort())
  })
})

describe('creating Todos', () => {
  it('[TD-12] [TD-15] stores one shape whichever door it came by', async () => {
    const { todos } = await todosInMemory()
    const shapes = []
    for (const door of ['a2a-http', 'a2a-pss', 'asleep-queue', 'library'] as const) {
      const { todo } = await todos.create({ agent: AGENT, caller: ALICE, message: textMessage(`m-${door}`), door })
      shapes.push(Object.keys((await todos.get(todo.id)) as Todo).sort())
      expect(todo.door).toBe(door)
    }
    expect(new Set(shapes.map((keys) => keys.join())).size).toBe(1)
  })

  it('[F007] [TD-14] gives back the first Todo for the same message of the same caller, and for nobody else', async () => {
    const { todos } = await todosInMemory()
    const first = await create(todos, 'm-1')
    const again = await create(todos, 'm-1')
    const bobs = await create(todos, 'm-1', { caller: BOB })
    const elsewhere = await create(todos, 'm-1', { agent: OTHER_AGENT })
    expect([first.created, again.created, bobs.created, elsewhere.created]).toEqual([true, false, true, true])
    expect(again.todo.id).toBe(first.todo.id)
    expect(new Set([first.todo.id, bobs.todo.id, elsewhere.todo.id]).size).toBe(3)
  })

  it('[F007] makes one Todo of twenty copies that arrive at once', async () => {
    const { todos } = await todosInMemory()
    const all = await Promise.all(Array.from({ length: 20 }, () => create(todos, 'm-1')))
    expect(all.filter(({ created }) => created)).toHaveLength(1)
    expect(new Set(all.map(({ todo }) => todo.id)).size).toBe(1)
    expect((await todos.list({ caller: ALICE.id })).todos).toHaveLength(1)
  })

  it('[F007] refuses a known messageId with other content, and takes another member order for the same', async () => {
    const { todos } = await todosInMemory()
    await todos.create({
      agent: AGENT,
      caller: ALICE,
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'a' }] },
      door: 'library'
    })
    await expect(create(todos, 'm', { message: textMessage('m', 'b') })).rejects.toMatchObject({ code: 'MESSAGE_ID_REUSED' })
    const reordered = await create(todos, 'm', { message: { parts: [{ text: 'a' }], role: 'ROLE_USER', messageId: 'm' } })
    expect(reordered.created).toBe(false)
  })

  it('[TD-14] refuses a message that is none at every door, naming the member, and stores nothing', async () => {
    const { todos, store } = await todosInMemory()
    const syncs = store.syncs
    const bad = [
      [{}, 'message.messageId'],
      [textMessage(''), 'message.messageId'],
      [{ ...textMessage('m'), role: 'ROLE_AGENT' }, 'message.role'],
      [{ ...textMessage('m'), parts: [] }, 'message.parts'],
      [{ ...textMessage('m'), parts: [{}] }, 'message.parts[0]'],
      [{ ...textMessage('m'), parts: [{ text: 'a', url: 'b' }] }, 'message.parts[0]'],
      [{ ...textMessage('m'), parts: [{ raw: '%%' }] }, 'message.parts[0].raw']
    ] as const
    for (const [message, field] of bad) {
      await expect(create(todos, 'x', { message })).rejects.toMatchObject({ code: 'MESSAGE_INVALID', field })
    }
    let deep: unknown = 0
    for (let i = 0; i < 5_000; i++) deep = [deep]
    await expect(create(todos, 'x', { message: { ...textMessage('m'), parts: [{ data: deep }] } })).rejects.toMatchObject({
      code: 'MESSAGE_INVALID'
    })
    expect(store.syncs).toBe(syncs)
  })

  it('keeps context ids of one caller apart from those of others', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'm-1', { message: textMessage('m-1', 'a', { contextId: 'mine' }) })
    expect(todo.contextId).toBe('mine')
    const bobs = { caller: BOB, message: textMessage('m-2', 'a', { contextId: 'mine' }) }
    await expect(create(todos, 'm-2', bobs)).rejects.toMatchObject({ code: 'CONTEXT_INVALID' })
    const odd = { message: textMessage('m-3', 'a', { contextId: 'no spaces' }) }
    await expect(create(todos, 'm-3', odd)).rejects.toMatchObject({ code: 'CONTEXT_INVALID' })
    const second = await create(todos, 'm-4', { message: textMessage('m-4', 'a', { contextId: 'mine' }) })
    expect(second.todo.id).not.toBe(todo.id)
  })

  it('[G-15] writes what belongs to the creation in the same batch', async () => {
    const { todos, store } = await todosInMemory()
    const table = store.table<Uint8Array>('beside', { encode: (value) => value, decode: (bytes) => bytes })
    const syncs = store.syncs
    await create(todos, 'm-1', { alongside: [table.put('k', Uint8Array.of(7))] })
    expect(store.syncs).toBe(syncs + 1)
    expect([...((await table.get('k')) ?? [])]).toEqual([7])
  })

  it('refuses above its bounds and says which one', async () => {
    const { todos } = await todosInMemory({ openPerCallerMax: 2, openMax: 3, historyMax: 2 })
    const { todo } = await create(todos, 'm-1')
    await create(todos, 'm-2')
    await expect(create(todos, 'm-3')).rejects.toMatchObject({ code: 'TODO_LIMIT', data: { kind: 'caller', max: 2 } })
    await create(todos, 'm-1', { caller: BOB })
    await expect(create(todos, 'm-2', { caller: BOB })).rejects.toMatchObject({ code: 'TODO_LIMIT', data: { kind: 'open', max: 3 } })
    await create(todos, 'f-1', { message: textMessage('f-1', 'more', { taskId: todo.id }) })
    const third = { message: textMessage('f-2', 'more', { taskId: todo.id }) }
    await expect(create(todos, 'f-2', third)).rejects.toMatchObject({ code: 'TODO_LIMIT', data: { kind: 'history' } })
    await todos.cancel(todo.id)
    expect((await create(todos, 'm-4')).created).toBe(true)
  })

  it('holds its bounds when many arrive at once', async () => {
    const { todos } = await todosInMemory({ openPerCallerMax: 5 })
    const all = await Promise.allSettled(Array.from({ length: 12 }, (_, i) => create(todos, `m-${i}`)))
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
  })
})

describe('messages for a Todo that exists', () => {
  it('[G-58] appends, infers the context, and counts a repeat once', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'm-1')
    const follow = { message: textMessage('f-1', 'more', { taskId: todo.id }) }
    expect((await create(todos, 'f-1', follow)).created).toBe(true)
    expect((await create(todos, 'f-1', follow)).created).toBe(false)
    const now = (await todos.get(todo.id)) as Todo
    expect(now.history.map(({ messageId, contextId }) => [messageId, contextId])).toEqual([
      ['m-1', todo.contextId],
      ['f-1', todo.contextId]
    ])
  })

  it('[F022] answers for another caller as for an id that nobody has', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'm-1')
    const bobs = create(todos, 'x', { caller: BOB, message: textMessage('x', 'a', { taskId: todo.id }) })
    await expect(bobs).rejects.toMatchObject({ code: 'TODO_UNKNOWN' })
    const nobodys = create(todos, 'y', { message: textMessage('y', 'a', { taskId: 'no-such-id' }) })
    await expect(nobodys).rejects.toMatchObject({ code: 'TODO_UNKNOWN' })
    expect((await todos.list({ caller: ALICE.id })).todos).toHaveLength(1)
  })

  it('refuses a foreign context, and any message once the Todo has ended', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'm-1')
    const foreign = { message: textMessage('x', 'a', { taskId: todo.id, contextId: 'other' }) }
    await expect(create(todos, 'x', foreign)).rejects.toMatchObject({ code: 'CONTEXT_MISMATCH' })
    await todos.cancel(todo.id)
    const late = { message: textMessage('y', 'a', { taskId: todo.id }) }
    await expect(create(todos, 'y', late)).rejects.toMatchObject({ code: 'TODO_TERMINAL' })
    expect((await todos.get(todo.id))?.history).toHaveLength(1)
  })
})

describe('claims and leases', () => {
  it('[TD-08] hands out pending Todos in order of arrival, each to one holder', async () => {
    const { todos } = await todosInMemory()
    const ids = []
    for (const messageId of ['a', 'b', 'c']) ids.push((await create(todos, messageId)).todo.id)
    await create(todos, 'elsewhere', { agent: OTHER_AGENT })
    const claims = await Promise.all(['w1', 'w2', 'w3', 'w4'].map((holder) => todos.claim(AGENT, holder, LEASE)))
    expect(claims.map((todo) => todo?.id)).toEqual([...ids, undefined])
    expect(claims[0]).toMatchObject({ state: 'claimed', attempt: 1, lease: { holder: 'w1' } })
  })

  it('[TD-08] [TD-34] gives a claim back when its lease ends, in its old place, and fails it when the attempts are used up', async () => {
    const { todos, clock } = await todosInMemory({ attemptsMax: 2 })
    const { todo } = await create(todos, 'a')
    await create(todos, 'b')
    await todos.claim(AGENT, 'w1', { leaseMs: 1_000 })
    const back = new Promise<Todo>((resolve) => todos.onCommit((one) => one.state === 'pending' && resolve(one)))
    clock.advance(1_000)
    expect(await back).toMatchObject({ id: todo.id, failure: 'the lease ran out' })
    expect((await todos.claim(AGENT, 'w2', { leaseMs: 1_000 }))?.id).toBe(todo.id)
    await expect(todos.complete(todo.id, 'w1', [])).rejects.toMatchObject({ code: 'LEASE_LOST' })
    const ended = todos.settled(todo.id)
    clock.advance(1_000)
    expect(await ended).toMatchObject({ state: 'failed', failure: 'the lease ran out', attempt: 2 })
  })

  it('renews a lease for its holder only', async () => {
    const { todos, clock } = await todosInMemory()
    const { todo } = await create(todos, 'a')
    await todos.claim(AGENT, 'w1', { leaseMs: 1_000 })
    clock.advance(900)
    await todos.renew(todo.id, 'w1', { leaseMs: 1_000 })
    await expect(todos.renew(todo.id, 'w2', LEASE)).rejects.toMatchObject({ code: 'LEASE_LOST' })
    clock.advance(900)
    expect((await todos.get(todo.id))?.state).toBe('claimed')
  })

  it('[TD-08] tries again after a failure, and gives an attempt back on release', async () => {
    const { todos } = await todosInMemory({ attemptsMax: 2, retryFirstMs: 0 })
    const { todo } = await create(todos, 'a')
    await todos.claim(AGENT, 'w', LEASE)
    expect(await todos.release(todo.id, 'w')).toMatchObject({ state: 'pending', attempt: 0 })
    await todos.claim(AGENT, 'w', LEASE)
    expect(await todos.retry(todo.id, 'w', 'first')).toMatchObject({ state: 'pending', attempt: 1, failure: 'first' })
    await todos.claim(AGENT, 'w', LEASE)
    expect(await todos.retry(todo.id, 'w', 'second')).toMatchObject({ state: 'failed', failure: 'second' })
    expect(await todos.claim(AGENT, 'w', LEASE)).toBeUndefined()
  })

  it('[OD-40] [TD-34] keeps a Todo that needs approval from every worker until it is given, or rejects it', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'a', { approval: 'needed' })
    const { todo: other } = await create(todos, 'b', { approval: 'needed' })
    expect(todo.state).toBe('auth-required')
    expect(await todos.claim(AGENT, 'w', LEASE)).toBeUndefined()
    expect(await todos.approve(other.id, 'refused')).toMatchObject({ state: 'rejected', approval: 'refused' })
    expect(await todos.approve(todo.id, 'given')).toMatchObject({ state: 'pending', approval: 'given' })
    await expect(todos.approve(todo.id, 'given')).rejects.toMatchObject({ code: 'APPROVAL_NOT_NEEDED' })
    expect((await todos.claim(AGENT, 'w', LEASE))?.id).toBe(todo.id)
  })
})

describe('work out of the asleep queue', () => {
  it('[OD-40] [G-19] waits for the owner where who claims it may do what cannot be undone, however it was judged as it came', async () => {
    const { todos, clock } = await todosInMemory({ interruptMs: 1_000 })
    const queued = { door: 'asleep-queue' }
    const { todo } = await create(todos, 'a', queued)
    const { todo: live } = await create(todos, 'b')
    const seen: string[] = []
    todos.onCommit((one, events) => void (one.id === todo.id && seen.push(...events.map(({ kind }) => kind))))
    expect((await todos.claim(AGENT, 'mcp:1', { ...LEASE, sideEffects: 'consequential' }))?.id).toBe(live.id)
    expect(await todos.get(todo.id)).toMatchObject({ state: 'auth-required', approval: 'needed', attempt: 0 })
    expect(seen).toEqual(['asked'])
    await todos.approve(todo.id, 'given')
    expect((await todos.claim(AGENT, 'mcp:1', { ...LEASE, sideEffects: 'consequential' }))?.id).toBe(todo.id)
    for (const [id, sideEffects] of [
      ['c', 'none'],
      ['d', 'idempotent'],
      ['e', 'reversible'],
      ['f', undefined]
    ] as const) {
      const { todo: next } = await create(todos, id, queued)
      expect((await todos.claim(AGENT, 'w', { ...LEASE, ...(sideEffects === undefined ? {} : { sideEffects }) }))?.id).toBe(next.id)
    }
    const { todo: left } = await create(todos, 'g', queued)
    expect(await todos.claim(AGENT, 'mcp:1', { ...LEASE, sideEffects: 'consequential' })).toBeUndefined()
    const failed = todos.settled(left.id)
    expect((await failed).state).toBe('auth-required')
    const over = new Promise<void>((resolve) => todos.onCommit((one) => one.id === left.id && one.state === 'failed' && resolve()))
    clock.advance(1_000)
    await over
    expect(await todos.get(left.id)).toMatchObject({ state: 'failed', failure: 'interrupt_timeout' })
  })
})

describe('ends', () => {
  it('[F005] keeps the first terminal state of 200 races of cancel against completion, and says so to both', async () => {
    const { todos } = await todosInMemory()
    const outcomes = new Set<string>()
    for (let round = 0; round < 200; round++) {
      const { todo } = await create(todos, `m-${round}`)
      await todos.claim(AGENT, 'w', LEASE)
      const seen: TodoState[] = []
      const off = todos.onCommit((one) => one.id === todo.id && seen.push(one.state))
      const rivals = [() => todos.cancel(todo.id), () => todos.complete(todo.id, 'w', [])]
      const results = await Promise.allSettled((round % 2 === 0 ? rivals : rivals.reverse()).map((rival) => rival()))
      off()
      const final = (await todos.get(todo.id)) as Todo
      const won = results.filter(({ status }) => status === 'fulfilled') as PromiseFulfilledResult<Todo>[]
      expect(won).toHaveLength(1)
      expect(won[0]?.value.state).toBe(final.state)
      expect(seen).toEqual([final.state])
      outcomes.add(final.state)
    }
    expect([...outcomes].sort()).toEqual(['canceled', 'done'])
  })

  it('[F005] drops whatever comes after the end', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'a')
    await todos.claim(AGENT, 'w', LEASE)
    await todos.complete(todo.id, 'w', [{ artifactId: 'r', parts: [{ text: 'done' }] }])
    for (const late of [
      () => todos.fail(todo.id, 'w', 'x'),
      () => todos.retry(todo.id, 'w', 'x'),
      () => todos.complete(todo.id, 'w', []),
      () => todos.renew(todo.id, 'w', LEASE)
    ]) {
      await expect(late()).rejects.toMatchObject({ code: 'LEASE_LOST', data: { state: 'done' } })
    }
    await expect(todos.cancel(todo.id)).rejects.toMatchObject({ code: 'TODO_TERMINAL' })
    expect(await todos.get(todo.id)).toMatchObject({ state: 'done', artifacts: [{ artifactId: 'r' }] })
  })

  it('cancels twice with one answer', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'a')
    const first = await todos.cancel(todo.id)
    expect(await todos.cancel(todo.id)).toEqual(first)
    await expect(todos.cancel('no-such-id')).rejects.toMatchObject({ code: 'TODO_UNKNOWN' })
  })

  it('[F005] never leaves a terminal state, whatever is done in whatever order', async () => {
    const { todos } = await todosInMemory()
    let round = 0
    const action = fc.constantFrom('claim', 'complete', 'fail', 'retry', 'release', 'cancel', 'append', 'approve')
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 12 }), fc.boolean(), async (actions, needsApproval) => {
        const agent = testAgent(1_000 + (round % 200)).eidHex
        const { todo } = await todos.create({
          agent,
          caller: ALICE,
          message: textMessage(`p-${round++}`),
          door: 'library',
          ...(needsApproval ? { approval: 'needed' as const } : {})
        })
        const states: TodoState[] = [todo.state]
        const off = todos.onCommit((one) => one.id === todo.id && states.push(one.state))
        for (const name of actions) {
          const done =
            name === 'claim'
              ? todos.claim(agent, 'w', LEASE)
              : name === 'complete'
                ? todos.complete(todo.id, 'w', [])
                : name === 'append'
                  ? create(todos, `f-${round++}`, { agent, message: textMessage(`f-${round}`, 'x', { taskId: todo.id }) })
                  : name === 'cancel'
                    ? todos.cancel(todo.id)
                    : name === 'approve'
                      ? todos.approve(todo.id, 'given')
                      : name === 'release'
                        ? todos.release(todo.id, 'w')
                        : todos[name as 'fail' | 'retry'](todo.id, 'w', 'why')
          await Promise.resolve(done).catch((err) => {
            if (err.name !== 'RookeryError') throw err
          })
        }
        off()
        const end = states.findIndex((state) => stateClass(state) === 'terminal')
        if (end >= 0) expect(states.slice(end).every((state) => state === states[end])).toBe(true)
        for (let i = 1; i < states.length; i++) {
          const [from, to] = [states[i - 1] as TodoState, states[i] as TodoState]
          expect(from === to || mayFollow(from, to)).toBe(true)
        }
        if (end < 0) await todos.cancel(todo.id)
      }),
      { numRuns: 60 }
    )
  })
})

describe('the commit hook', () => {
  it('[TD-24] [G-60] tells every commit once, after its write, in commit order', async () => {
    const { todos, store } = await todosInMemory()
    const table = store.table('todo', { encode: () => new Uint8Array(), decode: (bytes) => JSON.parse(new TextDecoder().decode(bytes)) })
    const told: string[] = []
    const onDisk: Promise<boolean>[] = []
    todos.onCommit((todo) => {
      told.push(`${todo.history[0]?.messageId}/${todo.revision}`)
      onDisk.push(table.get(todo.id).then((row) => (row as Todo).revision >= todo.revision))
    })
    const made = await Promise.all(Array.from({ length: 30 }, (_, i) => create(todos, `m-${i}`)))
    await Promise.all(made.map(({ todo }) => todos.cancel(todo.id)))
    expect(told).toHaveLength(60)
    expect(new Set(told).size).toBe(60)
    for (let i = 0; i < 30; i++) expect(told.indexOf(`m-${i}/1`)).toBeLessThan(told.indexOf(`m-${i}/2`))
    expect(told.slice(0, 30)).toEqual(Array.from({ length: 30 }, (_, i) => `m-${i}/1`))
    expect((await Promise.all(onDisk)).every((yes) => yes)).toBe(true)
  })

  it('survives a hook that throws', async () => {
    const { todos } = await todosInMemory()
    const seen: string[] = []
    todos.onCommit(() => {
      throw new Error('a bad listener')
    })
    todos.onCommit((todo) => seen.push(todo.state))
    await create(todos, 'a')
    expect(seen).toEqual(['pending'])
  })

  it('[OD-48] reports nothing that the disk refused, and goes on when it takes writes again', async () => {
    let full = true
    class FullStore extends Store {
      override commit(ops: readonly WriteOp[]): Promise<void> {
        return full && ops.some((op) => op.table === 'todo')
          ? Promise.reject(Object.assign(new Error('no space left'), { code: 'STORE_WRITE_FAILED' }))
          : super.commit(ops)
      }
    }
    const store = new FullStore(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    const todos = await openTodos(store, new ManualClock(), { openPerCallerMax: 1 })
    const told: Todo[] = []
    todos.onCommit((todo) => told.push(todo))
    await expect(create(todos, 'a')).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    expect(told).toEqual([])
    expect(await todos.claim(AGENT, 'w', LEASE)).toBeUndefined()
    full = false
    const { todo, created } = await create(todos, 'a')
    expect(created).toBe(true)
    expect(told.map(({ id }) => id)).toEqual([todo.id])
    full = true
    await expect(todos.claim(AGENT, 'w', LEASE)).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    full = false
    expect((await todos.claim(AGENT, 'w', LEASE))?.attempt).toBe(1)
  })

  it('settles at a terminal or interrupted state, or when the signal fires', async () => {
    const { todos } = await todosInMemory()
    const { todo } = await create(todos, 'a')
    const stop = new AbortController()
    const early = todos.settled(todo.id, { signal: stop.signal })
    stop.abort()
    expect((await early).state).toBe('pending')
    const both = [todos.settled(todo.id), todos.settled(todo.id)]
    await todos.claim(AGENT, 'w', LEASE)
    await todos.complete(todo.id, 'w', [])
    expect((await Promise.all(both)).map(({ state }) => state)).toEqual(['done', 'done'])
    const { todo: waits } = await create(todos, 'b', { approval: 'needed' })
    expect((await todos.settled(waits.id)).state).toBe('auth-required')
    await expect(todos.settled('no-such-id')).rejects.toMatchObject({ code: 'TODO_UNKNOWN' })
  })
})

describe('listings', () => {
  it('[TD-15] [TD-Q3] [F010] walks all of a caller by sealed cursors, newest change first, none twice and none missed', async () => {
    const { todos, clock } = await todosInMemory()
    const ids: string[] = []
    for (let i = 0; i < 25; i++) {
      if (i % 5 === 0) clock.advance(1)
      ids.push((await create(todos, `m-${i}`)).todo.id)
      await create(todos, `m-${i}`, { caller: BOB })
    }
    const walked: Todo[] = []
    let cursor: string | undefined
    do {
      const page = await todos.list({ caller: ALICE.id, limit: 4, ...(cursor !== undefined ? { cursor } : {}) })
      walked.push(...page.todos)
      cursor = page.next
    } while (cursor !== undefined)
    expect(walked.map(({ id }) => id).sort()).toEqual([...ids].sort())
    const order = walked.map(({ changedAtMs, id }) => [changedAtMs, id] as const)
    expect(order).toEqual([...order].sort(([a, x], [b, y]) => b - a || (x < y ? 1 : -1)))
    expect((await todos.list({ agent: AGENT, limit: 100 })).todos).toHaveLength(50)
    expect((await todos.list({ agent: OTHER_AGENT })).todos).toHaveLength(0)
  })

  it('[TD-Q3] [F010] misses none that changes its state while the list is read', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const store = await openLevelStore(dir.path)
    cleanups.push(() => store.close())
    const todos = await openTodos(store, new ManualClock())
    cleanups.push(() => todos.stop())
    await Promise.all(Array.from({ length: 20 }, (_, i) => create(todos, `m-${i}`)))
    let changing = true
    const work = async (holder: string) => {
      for (let todo = await todos.claim(AGENT, holder, LEASE); todo !== undefined; todo = await todos.claim(AGENT, holder, LEASE)) {
        await todos.complete(todo.id, holder, [])
      }
    }
    const changes = Promise.all(['a', 'b', 'c', 'd'].map(work)).then(() => {
      changing = false
    })
    const seen = new Set<number>()
    while (changing) for (const filter of [{ agent: AGENT }, { caller: ALICE.id }, {}]) seen.add((await todos.list(filter)).todos.length)
    await changes
    expect([...seen]).toEqual([20])
  })

  it('[TD-Q3] [F011] refuses a cursor that is forged, cut, or made for another filter', async () => {
    const { todos } = await todosInMemory()
    for (let i = 0; i < 3; i++) await create(todos, `m-${i}`)
    const { next } = await todos.list({ caller: ALICE.id, limit: 1 })
    const cursor = next as string
    const flipped = `${cursor.slice(0, -1)}${cursor.endsWith('0') ? '1' : '0'}`
    for (const bad of ['AAAA', '', 'zz', flipped, cursor.slice(2)]) {
      await expect(todos.list({ caller: ALICE.id, limit: 1, cursor: bad })).rejects.toMatchObject({ code: 'CURSOR_INVALID' })
    }
    await expect(todos.list({ caller: BOB.id, cursor })).rejects.toMatchObject({ code: 'CURSOR_INVALID' })
    await expect(todos.list({ caller: ALICE.id, state: 'done', cursor })).rejects.toMatchObject({ code: 'CURSOR_INVALID' })
    expect((await todos.list({ caller: ALICE.id, limit: 1, cursor })).todos).toHaveLength(1)
  })

  it('filters by state, and forgets what ended long ago together with its messageId', async () => {
    const { todos, clock } = await todosInMemory({ retainMs: 1_000, nameRetainMs: 1_000 })
    const { todo } = await create(todos, 'a')
    await create(todos, 'b')
    await todos.cancel(todo.id)
    expect((await todos.list({ caller: ALICE.id, state: 'canceled' })).todos.map(({ id }) => id)).toEqual([todo.id])
    clock.advance(2_000)
    expect(await todos.sweep()).toBe(1)
    expect(await todos.sweep()).toBe(0)
    expect(await todos.get(todo.id)).toBeUndefined()
    expect((await todos.list({ caller: ALICE.id })).todos).toHaveLength(1)
    expect((await create(todos, 'a')).created).toBe(true)
  })
})

describe('a restart, on LevelDB', () => {
  it('[TD-08] [F007] finds every Todo, its order, its dedup and its leases again', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const clock = new ManualClock()
    let store = await openLevelStore(dir.path)
    let todos = await openTodos(store, clock)
    const ids = []
    for (const messageId of ['a', 'b', 'c', 'd']) ids.push((await create(todos, messageId)).todo.id)
    await todos.claim(AGENT, 'worker:of-this-process', LEASE)
    await todos.claim(AGENT, 'remote-holder', { leaseMs: 5_000 })
    const { next } = await todos.list({ caller: ALICE.id, limit: 1 })
    await todos.stop()
    await store.close()

    store = await openLevelStore(dir.path)
    todos = await openTodos(store, clock)
    cleanups.push(() => store.close())
    expect((await create(todos, 'a')).todo.id).toBe(ids[0])
    expect((await todos.get(ids[0] as string))?.state).toBe('pending')
    expect((await todos.get(ids[1] as string))?.state).toBe('claimed')
    expect((await todos.claim(AGENT, 'w', LEASE))?.id).toBe(ids[0])
    const back = new Promise<Todo>((resolve) => todos.onCommit((one) => one.state === 'pending' && resolve(one)))
    clock.advance(5_000)
    expect((await back).id).toBe(ids[1])
    expect((await todos.claim(AGENT, 'w', LEASE))?.id).toBe(ids[1])
    expect((await todos.claim(AGENT, 'w', LEASE))?.id).toBe(ids[2])
    expect((await todos.list({ caller: ALICE.id, limit: 1, cursor: next as string })).todos).toHaveLength(1)
    await todos.stop()
  })
})

describe('what the Todos may take on disk', () => {
  const run = async (todos: LevelTodos, messageId: string, more = {}) => {
    const { todo } = await create(todos, messageId, more)
    await todos.claim(AGENT, 'worker:a', LEASE)
    return await todos.complete(todo.id, 'worker:a', [])
  }

  it('a caller that fills its share forgets its own oldest ended Todos, never those of another or one that is open', async () => {
    const { todos, clock } = await todosInMemory({ keptPerCallerMax: 70 })
    const bobs = await run(todos, 'bob', { caller: BOB })
    const open = (await create(todos, 'open')).todo
    await todos.claim(AGENT, 'worker:b', LEASE)
    const ended: Todo[] = []
    for (let i = 0; i < 75; i++) {
      clock.advance(1)
      ended.push(await run(todos, `m${i}`))
    }
    expect(await todos.get((ended[0] as Todo).id)).toBeUndefined()
    expect(await todos.get((ended[74] as Todo).id)).toBeDefined()
    expect(await todos.get(open.id)).toBeDefined()
    expect(await todos.get(bobs.id)).toBeDefined()
    const left = async (cursor?: string): Promise<number> => {
      const page = await todos.list({ caller: ALICE.id, limit: 100, ...(cursor === undefined ? {} : { cursor }) })
      return page.todos.length + (page.next === undefined ? 0 : await left(page.next))
    }
    expect(await left()).toBeLessThanOrEqual(70)
  })

  it('refuses, by the name of the bound, what only open Todos leave no room for, and counts again from the disk after a restart', async () => {
    const { todos, store, clock } = await todosInMemory({ keptMax: 3 })
    for (const id of ['a', 'b', 'c']) await create(todos, id)
    await expect(create(todos, 'd')).rejects.toMatchObject({ code: 'TODO_LIMIT', data: { kind: 'keptMax', max: 3 } })
    await todos.stop()
    const again = await openTodos(store, clock, { keptMax: 3 })
    cleanups.push(() => again.stop())
    await expect(create(again, 'e')).rejects.toMatchObject({ code: 'TODO_LIMIT', data: { kind: 'keptMax' } })
    await again.cancel((await again.list({})).todos.at(-1)?.id as string)
    expect((await create(again, 'e')).created).toBe(true)
  })

  it('by their bytes: many created at once never pass the bound, and a refused write gives its bytes back', async () => {
    const text = 'x'.repeat(10_000)
    const { todos, store } = await todosInMemory({ keptBytesPerCallerMax: 45_000 })
    const commit = store.commit.bind(store)
    store.commit = () => Promise.reject(new Error('disk'))
    for (let i = 0; i < 10; i++) await expect(create(todos, `refused${i}`, { message: textMessage(`refused${i}`, text) })).rejects.toThrow()
    store.commit = commit
    const tried = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => create(todos, `m${i}`, { message: textMessage(`m${i}`, text) }))
    )
    expect(tried.filter(({ status }) => status === 'fulfilled')).toHaveLength(4)
    expect(tried.at(-1)).toMatchObject({ status: 'rejected', reason: { code: 'TODO_LIMIT', data: { kind: 'keptBytesPerCallerMax' } } })
  })

  it('a task does not grow without end by the messages that are added to it', async () => {
    const { todos } = await todosInMemory({ todoBytesMax: 30_000 })
    const text = 'x'.repeat(12_000)
    const { todo } = await create(todos, 'a', { message: textMessage('a', text) })
    await create(todos, 'b', { message: textMessage('b', text, { taskId: todo.id }) })
    await expect(create(todos, 'c', { message: textMessage('c', text, { taskId: todo.id }) })).rejects.toMatchObject({
      code: 'TODO_LIMIT',
      data: { kind: 'bytes', max: 30_000 }
    })
    expect((await todos.get(todo.id))?.history).toHaveLength(2)
  })
})

describe('what is known of a message whose task made room for others', () => {
  const DAY_MS = 86_400_000
  const end = async (todos: LevelTodos, messageId: string, more = {}) => {
    const { todo } = await create(todos, messageId, more)
    await todos.claim(AGENT, 'worker:a', LEASE)
    return await todos.complete(todo.id, 'worker:a', [{ artifactId: 'text', parts: [{ text: 'result' }] }])
  }

  it('[F007] runs it no second time, also after a restart: its resend finds how the task ended, another content is refused', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const clock = new ManualClock()
    const settings = { keptPerCallerMax: 1 }
    let store = await openLevelStore(dir.path)
    let todos = await openTodos(store, clock, settings)
    const first = await end(todos, 'pay')
    clock.advance(1_000)
    await end(todos, 'next')
    expect(await todos.get(first.id)).toBeUndefined()

    const finds = async () => {
      const again = await create(todos, 'pay')
      expect(again.created).toBe(false)
      expect(again.todo).toMatchObject({ id: first.id, contextId: first.contextId, state: 'done', changedAtMs: first.changedAtMs })
      expect([again.todo.history, again.todo.artifacts]).toEqual([[], []])
      expect(await todos.ofMessage({ agent: AGENT, caller: ALICE, message: textMessage('pay') })).toEqual(again.todo)
      await expect(create(todos, 'pay', { message: textMessage('pay', 'more') })).rejects.toMatchObject({ code: 'MESSAGE_ID_REUSED' })
      expect(await todos.ofMessage({ agent: AGENT, caller: BOB, message: textMessage('pay') })).toBeUndefined()
      expect((await todos.list({ caller: ALICE.id })).todos).toHaveLength(1)
    }
    await finds()
    await todos.stop()
    await store.close()
    store = await openLevelStore(dir.path)
    todos = await openTodos(store, clock, settings)
    cleanups.push(async () => {
      await todos.stop()
      await store.close()
    })
    await finds()
    clock.advance(DAY_MS - 2_000)
    await todos.sweep()
    await finds()
    clock.advance(2_000)
    await todos.sweep()
    expect(await todos.ofMessage({ agent: AGENT, caller: ALICE, message: textMessage('pay') })).toBeUndefined()
  })

  it('[F007] knows every message that went into the task', async () => {
    const { todos } = await todosInMemory({ keptPerCallerMax: 1 })
    const { todo } = await create(todos, 'a')
    await create(todos, 'b', { message: textMessage('b', 'more', { taskId: todo.id }) })
    await todos.cancel(todo.id)
    await create(todos, 'c')
    const again = await create(todos, 'b', { message: textMessage('b', 'more', { taskId: todo.id }) })
    expect(again).toMatchObject({ created: false, todo: { id: todo.id, state: 'canceled' } })
    await expect(create(todos, 'd', { message: textMessage('d', 'more', { taskId: todo.id }) })).rejects.toMatchObject({
      code: 'TODO_UNKNOWN'
    })
  })

  it('[F007] rather refuses new tasks than forgets a name that is due, by the name of the bound, for that caller alone', async () => {
    const { todos, store, clock } = await todosInMemory({ keptPerCallerMax: 1, namesPerCallerMax: 2 })
    const ids = []
    for (const messageId of ['a', 'b', 'c']) {
      clock.advance(1)
      ids.push((await end(todos, messageId)).id)
    }
    const full = { code: 'TODO_LIMIT', data: { kind: 'namesPerCallerMax', max: 2 } }
    await expect(create(todos, 'd')).rejects.toMatchObject(full)
    expect((await create(todos, 'd', { caller: BOB })).created).toBe(true)
    await todos.stop()
    const again = await openTodos(store, clock, { keptPerCallerMax: 1, namesPerCallerMax: 2 })
    cleanups.push(() => again.stop())
    await expect(create(again, 'd')).rejects.toMatchObject(full)
    for (const [i, messageId] of ['a', 'b', 'c'].entries()) expect((await create(again, messageId)).todo.id).toBe(ids[i])
    clock.advance(DAY_MS)
    expect((await create(again, 'd')).created).toBe(true)
  })

  it('[F007] keeps the bound of all names as well, and lets go what needs no name any more', async () => {
    const { todos, clock } = await todosInMemory({ keptMax: 2, namesMax: 1 })
    await end(todos, 'a')
    await end(todos, 'b', { caller: BOB })
    clock.advance(1)
    await end(todos, 'c')
    await expect(create(todos, 'd', { caller: BOB })).rejects.toMatchObject({ code: 'TODO_LIMIT', data: { kind: 'namesMax', max: 1 } })
    clock.advance(DAY_MS)
    expect((await create(todos, 'd', { caller: BOB })).created).toBe(true)
  })

  it('[F007] holds the bound of the names when many Todos make room at once', async () => {
    const { todos, clock } = await todosInMemory({ keptPerCallerMax: 10, namesPerCallerMax: 4 })
    for (let i = 0; i < 10; i++) {
      clock.advance(1)
      await end(todos, `m${i}`)
    }
    expect((await create(todos, 'next')).created).toBe(true)
    expect((await todos.list({ caller: ALICE.id })).todos).toHaveLength(7)
    for (let i = 0; i < 10; i++) expect((await create(todos, `m${i}`)).created).toBe(false)
  })

  it('[F007] counts no name that the disk refused', async () => {
    const { todos, store } = await todosInMemory({ keptPerCallerMax: 1, namesPerCallerMax: 1 })
    await end(todos, 'a')
    const commit = store.commit.bind(store)
    store.commit = () => Promise.reject(new Error('disk'))
    for (let i = 0; i < 3; i++) await expect(create(todos, 'b')).rejects.toThrow('disk')
    store.commit = commit
    expect((await create(todos, 'b')).created).toBe(true)
  })

  it('[F007] gives fifty copies that arrive while the task is forgotten one answer', async () => {
    const { todos } = await todosInMemory({ keptPerCallerMax: 1 })
    const first = await end(todos, 'pay')
    const copies = Array.from({ length: 50 }, () => create(todos, 'pay'))
    const next = create(todos, 'next')
    const looks = Array.from({ length: 50 }, () => todos.ofMessage({ agent: AGENT, caller: ALICE, message: textMessage('pay') }))
    expect((await next).created).toBe(true)
    for (const one of await Promise.all(copies)) expect(one).toMatchObject({ created: false, todo: { id: first.id, state: 'done' } })
    for (const one of await Promise.all(looks)) expect(one).toMatchObject({ id: first.id, state: 'done' })
  })
})
