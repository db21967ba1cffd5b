import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { Store } from '../../src/store/store.ts'
import { type AgentHandler, type HandlerTask, loadHandler } from '../../src/tasks/handler.ts'
import type { LevelTodos } from '../../src/tasks/level-todos.ts'
import type { JsonObject, Todo } from '../../src/tasks/todo.ts'
import { createWorker, type Worker } from '../../src/tasks/worker.ts'
import { openTodos, principal, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const AGENT = testAgent(1).eidHex
const ALICE = principal(11)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Bench {
  todos: LevelTodos
  clock: ManualClock
  worker: Worker
  send(messageId: string, message?: JsonObject): Promise<Todo>
}

async function bench(
  handler: AgentHandler,
  init: { mayRun?: () => boolean; concurrency?: number; attemptsMax?: number } = {}
): Promise<Bench> {
  const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
  const clock = new ManualClock()
  const todos = await openTodos(store, clock, {
    retryFirstMs: 0,
    ...(init.attemptsMax !== undefined ? { attemptsMax: init.attemptsMax } : {})
  })
  const worker = createWorker(
    { todos, clock, random: systemRandom, logger: silentLogger },
    {
      agent: AGENT,
      handler,
      ...(init.mayRun !== undefined ? { mayRun: init.mayRun } : {}),
      settings: { leaseMs: 1_000, graceMs: 500, ...(init.concurrency !== undefined ? { concurrency: init.concurrency } : {}) }
    }
  )
  worker.start()
  cleanups.push(async () => {
    await worker.stop()
    await todos.stop()
  })
  return {
    todos,
    clock,
    worker,
    send: async (messageId, message = textMessage(messageId)) =>
      (await todos.create({ agent: AGENT, caller: ALICE, message, door: 'library' })).todo
  }
}

/** A handler that tells when it starts and ends when told. */
function gate() {
  const starts: { task: HandlerTask; signal: AbortSignal; end: () => void; fail: (err: Error) => void }[] = []
  let waiting: (() => void) | undefined
  const handler: AgentHandler = (task, { signal }) =>
    new Promise((resolve, reject) => {
      starts.push({ task, signal, end: () => resolve({ text: 'ended' }), fail: reject })
      waiting?.()
    })
  const started = async (count: number) => {
    while (starts.length < count) await new Promise<void>((resolve) => (waiting = resolve))
    return starts[count - 1] as (typeof starts)[number]
  }
  return { handler, starts, started }
}

describe('a worker', () => {
  it('[TD-08] runs what is committed, without polling, and writes the artifacts', async () => {
    const { todos, send } = await bench(async ({ message }) => ({ text: `got ${(message.parts as JsonObject[])[0]?.text}` }))
    const { id } = await send('a')
    expect(await todos.settled(id)).toMatchObject({
      state: 'done',
      artifacts: [{ artifactId: 'text', parts: [{ text: 'got hello' }] }],
      attempt: 1
    })
  })

  it('runs one at a time by default, and as many as it may', async () => {
    const one = gate()
    const first = await bench(one.handler)
    await first.send('a')
    await first.send('b')
    const a = await one.started(1)
    expect(first.worker.running).toBe(1)
    a.end()
    const b = await one.started(2)
    expect(b.task.message.messageId).toBe('b')
    b.end()

    const two = gate()
    const second = await bench(two.handler, { concurrency: 2 })
    for (const id of ['a', 'b', 'c']) await second.send(id)
    await two.started(2)
    expect(two.starts.map(({ task }) => task.message.messageId)).toEqual(['a', 'b'])
    for (const start of two.starts) start.end()
    ;(await two.started(3)).end()
  })

  it('[TD-08] takes a new Todo in the batch that creates it: two syncs from the message to its result', async () => {
    const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    const todos = await openTodos(store, new ManualClock())
    const seen: string[] = []
    todos.onCommit((todo) => seen.push(`${todo.state} ${todo.revision}`))
    const worker = createWorker(
      { todos, clock: new ManualClock(), random: systemRandom, logger: silentLogger },
      { agent: AGENT, handler: async () => ({ text: 'done' }) }
    )
    worker.start()
    cleanups.push(
      () => todos.stop(),
      () => worker.stop()
    )
    const before = store.syncs
    const { todo } = await todos.create({ agent: AGENT, caller: ALICE, message: textMessage('a'), door: 'library' })
    expect(todo).toMatchObject({ state: 'claimed', attempt: 1 })
    expect((await todos.settled(todo.id)).state).toBe('done')
    expect(store.syncs - before).toBe(2)
    expect(seen).toEqual(['claimed 2', 'done 3'])
  })

  it('[TD-08] runs no more at a time than it may and nothing twice, however many Todos are created at once, the oldest first', async () => {
    const started: string[] = []
    let running = 0
    let most = 0
    const { send, todos } = await bench(
      async ({ message }) => {
        started.push(message.messageId as string)
        most = Math.max(most, ++running)
        await new Promise((resolve) => setImmediate(resolve))
        running--
        return undefined
      },
      { concurrency: 4 }
    )
    const sent = await Promise.all(Array.from({ length: 60 }, (_, i) => send(`m${i}`)))
    for (const { id } of sent) expect((await todos.settled(id)).state).toBe('done')
    expect(most).toBeLessThanOrEqual(4)
    expect(new Set(started).size).toBe(60)
    expect(started).toHaveLength(60)
    expect(started.slice(0, 4).sort()).toEqual(['m0', 'm1', 'm2', 'm3'])
  })

  it('gives a place back when the creation that held it was refused by the disk', async () => {
    let full = false
    class FullLevel extends MemoryLevel<string, Uint8Array> {
      // biome-ignore lint/suspicious/noExplicitAny: the private hook of abstract-level is not in its types
      async _batch(operations: any, options: any): Promise<void> {
        if (full) throw new Error('no space left')
        // biome-ignore lint/suspicious/noExplicitAny: as above
        await (MemoryLevel.prototype as any)._batch.call(this, operations, options)
      }
    }
    const store = new Store(new FullLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    const todos = await openTodos(store, new ManualClock())
    const worker = createWorker(
      { todos, clock: new ManualClock(), random: systemRandom, logger: silentLogger },
      { agent: AGENT, handler: async () => undefined }
    )
    worker.start()
    cleanups.push(
      () => todos.stop(),
      () => worker.stop()
    )
    full = true
    const message = textMessage('a')
    await expect(todos.create({ agent: AGENT, caller: ALICE, message, door: 'library' })).rejects.toMatchObject({
      code: 'STORE_WRITE_FAILED'
    })
    full = false
    const { todo } = await todos.create({ agent: AGENT, caller: ALICE, message, door: 'library' })
    expect((await todos.settled(todo.id)).state).toBe('done')
  })

  it('[TD-08] [TD-34] tries a failing handler three times, then fails the Todo with the reason', async () => {
    const attempts: number[] = []
    const { todos, send } = await bench(async ({ attempt }) => {
      attempts.push(attempt)
      throw new Error(`broken at attempt ${attempt}`)
    })
    const { id } = await send('a')
    expect(await todos.settled(id)).toMatchObject({ state: 'failed', failure: 'broken at attempt 3' })
    expect(attempts).toEqual([1, 2, 3])
  })

  it('takes the next Todo after one has failed', async () => {
    const { todos, send } = await bench(
      async ({ message }) => {
        if (message.messageId === 'bad') throw new Error('bad')
        return undefined
      },
      { attemptsMax: 1 }
    )
    const bad = await send('bad')
    const good = await send('good')
    expect((await todos.settled(bad.id)).state).toBe('failed')
    expect(await todos.settled(good.id)).toMatchObject({ state: 'done', artifacts: [] })
  })

  it('fails at once what is no artifact, naming the member', async () => {
    let runs = 0
    const { todos, send } = await bench(async () => {
      runs++
      return { artifacts: [{ artifactId: 'x', parts: [] }] }
    })
    const { id } = await send('a')
    const ended = await todos.settled(id)
    expect(ended.state).toBe('failed')
    expect(ended.failure).toContain('parts is empty')
    expect(runs).toBe(1)
  })

  it('[F004] aborts the handler of a canceled Todo, drops its late result and goes on with the next', async () => {
    const { handler, started } = gate()
    const { todos, send } = await bench(handler)
    const { id } = await send('a')
    const next = await send('b')
    const run = await started(1)
    const aborted = new Promise<void>((resolve) => run.signal.addEventListener('abort', () => resolve()))
    const terminal: string[] = []
    todos.onCommit((todo) => todo.id === id && terminal.push(todo.state))
    await todos.cancel(id)
    await aborted
    run.end()
    ;(await started(2)).end()
    expect((await todos.settled(next.id)).state).toBe('done')
    expect(await todos.get(id)).toMatchObject({ state: 'canceled', artifacts: [] })
    expect(terminal).toEqual(['canceled'])
  })

  it('[F004] gives the place of a handler that ignores the signal to the next one, after a grace', async () => {
    const { handler, started } = gate()
    const { todos, clock, send } = await bench(handler)
    const { id } = await send('a')
    const next = await send('b')
    const run = await started(1)
    const aborted = new Promise<void>((resolve) => run.signal.addEventListener('abort', () => resolve()))
    await todos.cancel(id)
    await aborted
    clock.advance(500)
    ;(await started(2)).end()
    expect((await todos.settled(next.id)).state).toBe('done')
  })

  it('renews the lease of a long run', async () => {
    const { handler, started } = gate()
    const { todos, clock, send } = await bench(handler)
    const { id } = await send('a')
    const run = await started(1)
    for (let i = 0; i < 6; i++) {
      const renewed = new Promise<void>((resolve) => {
        const off = todos.onCommit((todo) => {
          off()
          expect(todo.state).toBe('claimed')
          resolve()
        })
      })
      clock.advance(500)
      await renewed
      await new Promise((resolve) => setImmediate(resolve)) // every continuation of the renewal has run, so the next one is planned
    }
    run.end()
    expect(await todos.settled(id)).toMatchObject({ state: 'done', attempt: 1 })
  })

  it('[OD-10] never calls the handler while the agent takes no work, and starts when it wakes', async () => {
    let awake = false
    const { handler, starts, started } = gate()
    const { todos, worker, send } = await bench(handler, { mayRun: () => awake })
    const { id } = await send('a')
    worker.poke()
    await todos.list({ agent: AGENT })
    expect(starts).toHaveLength(0)
    awake = true
    worker.poke()
    ;(await started(1)).end()
    expect((await todos.settled(id)).state).toBe('done')
  })

  it('[OD-40] runs nothing that waits for approval', async () => {
    const { handler, starts, started } = gate()
    const { todos, send } = await bench(handler)
    const { todo } = await todos.create({
      agent: AGENT,
      caller: ALICE,
      message: textMessage('queued'),
      door: 'asleep-queue',
      approval: 'needed'
    })
    const other = await send('b')
    ;(await started(1)).end()
    await todos.settled(other.id)
    expect(starts.map(({ task }) => task.message.messageId)).toEqual(['b'])
    await todos.approve(todo.id, 'given')
    ;(await started(2)).end()
    expect((await todos.settled(todo.id)).state).toBe('done')
  })

  it('stops: runs are aborted and their Todos pending again, without an attempt lost', async () => {
    const { handler, started } = gate()
    const { todos, worker, send } = await bench(handler)
    const { id } = await send('a')
    const run = await started(1)
    run.signal.addEventListener('abort', () => run.fail(new Error('interrupted')))
    await worker.stop()
    expect(await todos.get(id)).toMatchObject({ state: 'pending', attempt: 0 })
  })
})

describe('what a handler may say beside its result', () => {
  it('[TD-24] tells progress and artifacts as events, each on disk before the next', async () => {
    const { todos, send } = await bench(async (_task, { progress }) => {
      await progress({ text: 'reading' })
      await progress({ artifact: { artifactId: 'r', parts: [{ text: 'one' }] } })
      await progress({ artifact: { artifactId: 'r', parts: [{ text: 'two' }] }, append: true, lastChunk: true })
      return undefined
    })
    const { id } = await send('a')
    const done = await todos.settled(id)
    expect(done.artifacts).toEqual([{ artifactId: 'r', parts: [{ text: 'one' }, { text: 'two' }] }])
    expect(done.trail?.map(({ kind }) => kind)).toEqual(['created', 'claimed', 'progress', 'artifact', 'artifact', 'ended'])
  })

  it('[TD-09] [G-58] asks, and is called again with the answer in the history; rejects with a reason', async () => {
    const { todos, send } = await bench(async ({ history }) => {
      if (history.length === 1) return { ask: { text: 'which?' } }
      return history.length === 2 ? { ask: { text: 'log in', for: 'auth' } } : { reject: 'not this' }
    })
    const { id } = await send('a')
    expect(await todos.settled(id)).toMatchObject({ state: 'input-required', statusMessage: { parts: [{ text: 'which?' }] } })
    await send('b', textMessage('b', 'that', { taskId: id }))
    expect(await todos.settled(id)).toMatchObject({ state: 'auth-required' })
    await send('c', textMessage('c', 'in', { taskId: id }))
    expect(await todos.settled(id)).toMatchObject({ state: 'rejected', failure: 'not this' })
  })

  it('fails a task whose question is no message, and does not try again', async () => {
    const { todos, send } = await bench(async () => ({ ask: { text: 7 as unknown as string } }))
    const { id } = await send('a')
    expect(await todos.settled(id)).toMatchObject({ state: 'failed', attempt: 1 })
  })
})

describe('built-in handlers and modules', () => {
  const run = (handler: AgentHandler, parts: JsonObject[]) =>
    handler(
      { id: 't', contextId: 'c', caller: ALICE.id, message: { messageId: 'm', role: 'ROLE_USER', parts }, history: [], attempt: 1 },
      { signal: new AbortController().signal, progress: async () => {} }
    )

  it('digest gives the SHA-256 of each file part with its name and size', async () => {
    const { handler, sideEffects, skills } = await loadHandler('builtin:digest')
    const bytes = Buffer.from(systemRandom.bytes(262_144))
    const result = await run(handler, [
      { text: 'two files' },
      { raw: bytes.toString('base64'), filename: 'a.bin' },
      { raw: '', mediaType: 'text/plain' }
    ])
    expect(sideEffects).toBe('none')
    expect(skills[0]?.id).toBe('digest')
    expect(result?.artifacts?.[0]?.parts).toEqual([
      {
        data: { filename: 'a.bin', sizeBytes: 262_144, sha256: createHash('sha256').update(bytes).digest('hex') },
        mediaType: 'application/json'
      },
      {
        data: { filename: '', sizeBytes: 0, sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' },
        mediaType: 'application/json'
      }
    ])
    expect(await run(handler, [{ text: 'none' }])).toEqual({ text: 'the message holds no file part' })
  })

  it('echo gives the parts back', async () => {
    const { handler } = await loadHandler('builtin:echo')
    expect((await run(handler, [{ text: 'x' }, { data: null }]))?.artifacts?.[0]?.parts).toEqual([{ text: 'x' }, { data: null }])
  })

  it('[G-19] loads a module by its path, and takes its effects for consequential unless it says otherwise', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const path = join(dir.path, 'handler.mjs')
    writeFileSync(path, 'export default async () => ({ text: "hi" })')
    const plain = await loadHandler(path)
    expect(plain.sideEffects).toBe('consequential')
    expect(await run(plain.handler, [])).toEqual({ text: 'hi' })
    const declared = join(dir.path, 'declared.mjs')
    writeFileSync(
      declared,
      'export default async () => {}; export const sideEffects = "none"; export const skills = [{ id: "s", name: "S", description: "d", tags: [] }]'
    )
    expect(await loadHandler(declared)).toMatchObject({ sideEffects: 'none', skills: [{ id: 's' }] })
  })

  it('refuses what is no handler with a name for each mistake', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const module = (name: string, text: string) => {
      const path = join(dir.path, name)
      writeFileSync(path, text)
      return path
    }
    const cases = [
      ['builtin:nope', 'HANDLER_UNKNOWN'],
      [join(dir.path, 'missing.mjs'), 'HANDLER_LOAD_FAILED'],
      [module('syntax.mjs', 'export default {'), 'HANDLER_LOAD_FAILED'],
      [module('none.mjs', 'export const x = 1'), 'HANDLER_INVALID'],
      [module('effects.mjs', 'export default async () => {}; export const sideEffects = "maybe"'), 'HANDLER_INVALID'],
      [module('skills.mjs', 'export default async () => {}; export const skills = [{ id: 1 }]'), 'HANDLER_INVALID']
    ] as const
    for (const [spec, code] of cases) {
      await expect(loadHandler(spec)).rejects.toMatchObject({ code, value: spec })
    }
  })
})
