import fc from 'fast-check'
import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { Store } from '../../src/store/store.ts'
import type { LevelTodos } from '../../src/tasks/level-todos.ts'
import { mayFollow, stateClass } from '../../src/tasks/states.ts'
import type { Todo, TodoState } from '../../src/tasks/todo.ts'
import { openTodos, principal, testAgent, textMessage } from '../support/a2a-fixture.ts'

const AGENT = testAgent(1).eidHex
const ALICE = principal(11)
const HOLDER = 'agent-http:w'
const LEASE = { leaseMs: 60_000 }
const HOUR_MS = 3_600_000
const part = (text: string) => ({ parts: [{ text }] })
const SETTINGS = { attemptsMax: 2, retryFirstMs: 1_000 }

/** A level that dies at its n-th write: before it, or once it is on disk and nobody has heard of it. */
class DyingLevel {
  readonly level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  left = Number.POSITIVE_INFINITY
  how: 'before' | 'after' = 'before'
  writes = 0

  constructor() {
    const write = this.level.batch.bind(this.level) as (...args: unknown[]) => Promise<void>
    const dying = async (...args: unknown[]): Promise<void> => {
      if (this.left <= 0) throw new Error('the process is dead')
      this.left--
      this.writes++
      if (this.left > 0) return await write(...args)
      if (this.how === 'after') await write(...args)
      throw new Error('the process died')
    }
    Object.assign(this.level, { batch: dying })
  }
}

interface Known {
  id: string
  states: TodoState[]
}

/** Every kind of transition once, in an order that goes on from whatever a crash left behind. Notes what was promised. */
async function life(todos: LevelTodos, clock: ManualClock, promised: Map<string, Known>): Promise<void> {
  const note = (todo: Todo) => {
    const known = promised.get(todo.history[0]?.messageId as string) ?? { id: todo.id, states: [] }
    known.states.push(todo.state)
    promised.set(todo.history[0]?.messageId as string, known)
    return todo
  }
  const begin = async (messageId: string, more = {}) =>
    note((await todos.create({ agent: AGENT, caller: ALICE, message: textMessage(messageId), door: 'a2a-http', ...more })).todo)
  const claim = async ({ id }: Todo) => await todos.claimOne(id, HOLDER, LEASE)
  const asked = await begin('asked')
  if ((await claim(asked)) !== undefined) {
    await todos.progress(asked.id, HOLDER, { artifact: { artifactId: 'r', ...part('one') }, append: true, message: part('working') })
    note(await todos.ask(asked.id, HOLDER, { for: 'input', message: part('which?') }))
  }
  const answer = { ...textMessage('answer', 'this'), taskId: asked.id }
  if (stateClass(((await todos.get(asked.id)) as Todo).state) !== 'terminal') {
    await todos.create({ agent: AGENT, caller: ALICE, message: answer, door: 'a2a-http' })
    if ((await claim(asked)) !== undefined) note(await todos.complete(asked.id, HOLDER, [{ artifactId: 's', ...part('two') }]))
  }
  const broken = await begin('broken', { dedupKey: 'key-of-broken' })
  for (let i = 0; i < 2; i++) {
    clock.advance(HOUR_MS)
    if ((await claim(broken)) !== undefined) note(await todos.retry(broken.id, HOLDER, 'broken'))
  }
  if ((await todos.get(broken.id))?.state === 'failed') await todos.requeue(broken.id)
  const released = await begin('released')
  if ((await claim(released)) !== undefined) {
    await todos.renew(released.id, HOLDER, LEASE)
    note(await todos.release(released.id, HOLDER))
  }
  if (stateClass(((await todos.get(released.id)) as Todo).state) !== 'terminal') note(await todos.cancel(released.id))
  await todos.complete(released.id, HOLDER, []).catch(() => undefined)
  const judged = await begin('judged', { approval: 'needed' })
  if ((await todos.get(judged.id))?.approval === 'needed') note(await todos.approve(judged.id, 'refused'))
}

/** What has to hold of a store after any crash. */
async function check(todos: LevelTodos, promised: ReadonlyMap<string, Known>): Promise<void> {
  const all: Todo[] = []
  let cursor: string | undefined
  do {
    const page = await todos.list({ agent: AGENT, limit: 100, ...(cursor === undefined ? {} : { cursor }) })
    all.push(...page.todos)
    cursor = page.next
  } while (cursor !== undefined)
  expect(await todos.count({ agent: AGENT })).toBe(all.length)
  expect(new Set(all.map(({ dedupKey }) => dedupKey)).size).toBe(all.length)
  for (const todo of all) {
    expect(todo.trail?.map(({ n }) => n)).toEqual(Array.from({ length: todo.seq ?? 0 }, (_, i) => i + 1))
    const states = (todo.trail ?? []).map(({ state }) => state)
    expect(states.at(-1)).toBe(todo.state)
    for (const [i, state] of states.slice(1).entries()) {
      const before = states[i] as TodoState
      expect(state === before || mayFollow(before, state)).toBe(true)
    }
    expect(await todos.count({ agent: AGENT, caller: ALICE.id, contextId: todo.contextId, state: todo.state })).toBeGreaterThan(0)
  }
  for (const { id, states } of promised.values()) {
    const todo = all.find((one) => one.id === id) as Todo
    const told = (todo.trail ?? []).map(({ state }) => state)
    for (const state of states) expect([id, told.includes(state)]).toEqual([id, true])
  }
}

describe('a crash in the middle of a transition', () => {
  it('[TD-08] [G-59] [TD-11] at every write, before it or after it, loses no promise, makes no second Todo and leaves no gap in the trail', async () => {
    const whole = new DyingLevel()
    const clock = new ManualClock()
    const todos = await openTodos(new Store(whole.level), clock, SETTINGS)
    await life(todos, clock, new Map())
    await todos.stop()
    const writes = whole.writes
    expect(writes).toBeGreaterThan(18)
    for (const how of ['before', 'after'] as const) {
      for (let at = 1; at <= writes; at++) {
        const disk = new DyingLevel()
        const now = new ManualClock()
        const promised = new Map<string, Known>()
        disk.how = how
        disk.left = at
        const dying = await openTodos(new Store(disk.level), now, SETTINGS).catch(() => undefined)
        if (dying !== undefined) {
          await life(dying, now, promised).catch(() => undefined)
          await dying.stop()
        }
        disk.left = Number.POSITIVE_INFINITY
        now.advance(LEASE.leaseMs)
        const again = await openTodos(new Store(disk.level), now, SETTINGS)
        await check(again, promised)
        await life(again, now, promised)
        await check(again, promised)
        expect(await again.count({ agent: AGENT })).toBe(5)
        await again.stop()
      }
    }
  })
})

type Act =
  | 'create'
  | 'claim'
  | 'renew'
  | 'progress'
  | 'complete'
  | 'fail'
  | 'retry'
  | 'ask'
  | 'answer'
  | 'cancel'
  | 'reject'
  | 'release'
  | 'hour'
  | 'restart'

describe('any order of acts', () => {
  it('[TD-R2] [TD-33] [G-59] follows the one table, ends once, numbers events without a gap, and counts what it lists', async () => {
    const acts: Act[] = [
      'create',
      'claim',
      'renew',
      'progress',
      'complete',
      'fail',
      'retry',
      'ask',
      'answer',
      'cancel',
      'reject',
      'release',
      'hour',
      'restart'
    ]
    const act = fc.record({ act: fc.constantFrom(...acts), which: fc.nat(3), holder: fc.constantFrom('agent-http:a', 'worker:b') })
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 1, maxLength: 40 }), async (steps) => {
        const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
        const clock = new ManualClock()
        let todos = await openTodos(store, clock, SETTINGS)
        const ids: string[] = []
        const ends = new Map<string, number>()
        const numbers = new Map<string, number>()
        const follow = () =>
          todos.onCommit(({ id, state }, events) => {
            for (const { n } of events) {
              expect(n).toBe((numbers.get(id) ?? 0) + 1)
              numbers.set(id, n)
            }
            if (stateClass(state) === 'terminal') ends.set(id, (ends.get(id) ?? 0) + 1)
          })
        follow()
        let message = 0
        for (const { act, which, holder } of steps) {
          const id = ids[which] ?? 'none'
          const done = async () => {
            switch (act) {
              case 'create':
                if (ids.length < 4) ids.push((await todos.create({ ...CREATE, message: textMessage(`m${message++}`) })).todo.id)
                return
              case 'claim':
                return await todos.claim(AGENT, holder, LEASE)
              case 'renew':
                return await todos.renew(id, holder, LEASE)
              case 'progress':
                return await todos.progress(id, holder, { message: part('p') })
              case 'complete':
                return await todos.complete(id, holder, [{ artifactId: 'a', ...part('a') }])
              case 'fail':
                return await todos.fail(id, holder, 'f')
              case 'retry':
                return await todos.retry(id, holder, 'r')
              case 'ask':
                return await todos.ask(id, holder, { for: 'input', message: part('q') })
              case 'answer':
                return await todos.create({ ...CREATE, message: textMessage(`m${message++}`, 'x', { taskId: id }) })
              case 'cancel':
                return await todos.cancel(id)
              case 'reject':
                return await todos.reject(id, undefined, 'n')
              case 'release':
                return await todos.release(id, holder)
              case 'hour':
                clock.advance(HOUR_MS)
                return
              case 'restart':
                await todos.stop()
                todos = await openTodos(store, clock, SETTINGS)
                for (const one of ids) numbers.set(one, ((await todos.get(one)) as Todo).seq ?? 0)
                follow()
                return
              default: {
                const unknown: never = act
                throw new TypeError(unknown)
              }
            }
          }
          await done().catch((error: { code?: string }) => {
            if (!['LEASE_LOST', 'TODO_UNKNOWN', 'TODO_TERMINAL'].includes(error.code ?? '')) throw error
          })
        }
        // a lease that ran out may still be on its way to disk, and a listing leaves out what changes under it
        for (let turns = 0; ; turns++) {
          try {
            await check(todos, new Map())
            break
          } catch (error) {
            if (turns === 100) throw error
            await new Promise((resolve) => setImmediate(resolve))
          }
        }
        for (const count of ends.values()) expect(count).toBe(1)
        await todos.stop()
      }),
      { numRuns: 60 }
    )
  })
})

const CREATE = { agent: AGENT, caller: ALICE, door: 'a2a-http' as const }
