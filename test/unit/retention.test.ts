import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { kindOfTable } from '../../src/care/disk-use.ts'
import { parseConfig } from '../../src/config/load.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { Outbox } from '../../src/delivery/outbox.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { Store } from '../../src/store/store.ts'
import { openTodos, principal, testAgent, textMessage } from '../support/a2a-fixture.ts'

const AGENT = testAgent(1).eidHex
const HOUR = 3_600_000
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
const memoryStore = () => new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))

describe('retention', () => {
  it('has a default of 30 days for tasks, 7 for the outbox and one for webhooks', () => {
    expect(parseConfig({}).retention).toEqual({ tasksMs: 30 * 24 * HOUR, outboxMs: 7 * 24 * HOUR, webhooksMs: 24 * HOUR })
    expect(() => parseConfig({ retention: { tasks: '0s' } })).toThrow(expect.objectContaining({ field: 'retention.tasks' }))
  })

  it('lets go of tasks that ended, and of their dead letters, after the time that is set and not before; what is open stays', async () => {
    const clock = new ManualClock()
    const todos = await openTodos(memoryStore(), clock, { retainMs: 5 * HOUR, nameRetainMs: HOUR, attemptsMax: 1 })
    cleanups.push(() => todos.stop())
    const make = async (messageId: string) =>
      (await todos.create({ agent: AGENT, caller: principal(11), message: textMessage(messageId), door: 'library' })).todo.id
    const [done, dead, open] = [await make('done'), await make('dead'), await make('open')]
    await todos.claimOne(done, 'h', { leaseMs: HOUR })
    await todos.complete(done, 'h', [])
    await todos.claimOne(dead, 'h', { leaseMs: HOUR })
    await todos.retry(dead, 'h', 'it broke')
    expect((await todos.deadLetters()).map(({ id }) => id)).toEqual([dead])
    clock.advance(5 * HOUR - 1)
    expect(await todos.sweep()).toBe(0)
    expect(await todos.get(done)).toBeDefined()
    clock.advance(2)
    await todos.sweep()
    expect([await todos.get(done), await todos.get(dead)]).toEqual([undefined, undefined])
    expect(await todos.deadLetters()).toEqual([])
    expect((await todos.get(open))?.state).toBe('pending')
  })

  it('shows what ended in the outbox for as long as is set, and keeps what waits', async () => {
    const clock = new ManualClock()
    const outbox = await Outbox.open({ store: memoryStore(), crypto: nodeCrypto, clock }, { endedKeptMs: 2 * HOUR, ttlMaxMs: HOUR })
    const [to, other] = [testAgent(2).eidHex, testAgent(3).eidHex]
    const { entry } = await outbox.add({ from: AGENT, to, message: textMessage('m1') })
    await outbox.learn(entry.id, { name: 'delivered' })
    clock.advance(2 * HOUR - 1)
    const late = (await outbox.add({ from: AGENT, to: other, message: textMessage('m2') })).entry
    await outbox.sweep()
    expect(outbox.get(entry.id)).toBeDefined()
    clock.advance(1)
    await outbox.sweep()
    expect(outbox.get(entry.id)).toBeUndefined()
    expect(outbox.get(late.id)?.state.name).toBe('queued-here')
  })
})

describe('the kinds of rows', () => {
  it('cover every table that the node has', () => {
    const src = join(import.meta.dirname, '..', '..', 'src')
    const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
    const tables = files.flatMap((name) => {
      const text = readFileSync(join(src, name), 'utf8')
      const named = [...text.matchAll(/\.table(?:<[^(]*>)?\('([a-z][a-z0-9-]*)'/g)].map(([, table]) => table as string)
      const inInit = [...text.matchAll(/rows: '([a-z-]+)', damaged: '([a-z-]+)'/g)].flatMap(
        ([, rows, damaged]) => [rows, damaged] as string[]
      )
      return [...named, ...inInit]
    })
    expect(tables.length).toBeGreaterThan(40)
    expect(tables.filter((table) => kindOfTable(table) === 'other')).toEqual([])
  })
})
