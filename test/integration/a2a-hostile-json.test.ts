import { afterEach, describe, expect, it } from 'vitest'
import { JSON_DEPTH_MAX } from '../../src/tasks/json-bounds.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { PAGE_BYTES_MAX } from '../../src/tasks/todo-index.ts'
import { type A2aNode, type A2aNodeInit, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const ANNA = testAgent(1)
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function node(init: Partial<A2aNodeInit> = {}): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const started = await startA2aNode({ dir: dir.path, agents: [ANNA], ...init })
  cleanups.push(() => started.stop())
  return started
}

interface Answer {
  result?: { task: { id: string; status: { state: string } }; tasks: JsonObject[] }
  error?: { code: number; message: string }
  tasks?: JsonObject[]
}

/** Text as it stands, so that it may say what no JSON writer writes. */
async function say({ edge }: A2aNode, text: string | undefined, path = '/'): Promise<Answer> {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${ANNA.token}`, 'A2A-Version': '1.0' }
  const answer = await fetch(`${edge.url}${path}`, text === undefined ? { headers } : { method: 'POST', headers, body: text })
  return (await answer.json()) as Answer
}

const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf']
const ATTACKS = [
  ...NAMES.map((name) => `{${JSON.stringify(name)}:{"polluted":true,"historyLength":0,"limit":1}}`),
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"__proto__":{"__proto__":{"polluted":true}}}'
]

describe('members named as what every object has, in what A2A callers send', () => {
  it('are data in metadata, are nothing in parameters, queries and methods, and change no prototype and no answer', async () => {
    const before = Reflect.ownKeys(Object.prototype)
    const running = await node()
    for (const [i, attack] of ATTACKS.entries()) {
      const message = textMessage(`m-${i}`, 'hello', { metadata: { mark: 1 } })
      const body = JSON.stringify(rpc('SendMessage', { message, metadata: { mark: 1 } })).replaceAll('{"mark":1}', attack)
      const { result } = await say(running, body)
      expect([attack, result?.task.status.state]).toEqual([attack, 'TASK_STATE_COMPLETED'])
      const id = result?.task.id as string
      const asked = JSON.stringify(rpc('GetTask', { id })).replace('"params":{', `"params":{${attack.slice(1, -1)},`)
      expect((await say(running, asked)).result).toMatchObject({ id, history: [{ messageId: `m-${i}` }] })
      const [kept] = (await running.todos.get(id))?.history ?? []
      expect(JSON.stringify(kept?.metadata)).toBe(attack)
    }
    for (const name of NAMES) {
      const { tasks } = await say(running, undefined, `/tasks?${name}=x&${name}[polluted]=1&pageSize=1`)
      expect(tasks).toHaveLength(1)
      expect((await say(running, JSON.stringify(rpc(name, {})))).error?.code).toBe(-32601)
    }
    expect(Reflect.ownKeys(Object.prototype)).toEqual(before)
  })
})

describe('small bodies that ask for much', () => {
  it('nested without end are refused before anything walks them, as array, object or part, and the next is served', async () => {
    const running = await node()
    const deep = (open: string, shut: string, levels: number) => `${open.repeat(levels)}1${shut.repeat(levels)}`
    for (const levels of [JSON_DEPTH_MAX, 1_000, 200_000]) {
      for (const data of [deep('[', ']', levels), deep('{"a":', '}', levels)]) {
        const message = { ...textMessage('deep'), parts: [{ data: 'mark' }] }
        const body = JSON.stringify(rpc('SendMessage', { message })).replace('"mark"', data)
        const { error } = await say(running, body)
        expect([levels, error?.code]).toEqual([levels, -32600])
      }
    }
    expect((await say(running, '['.repeat(1_000_000))).error?.code).toBe(-32700)
    expect((await running.todos.list({})).todos).toEqual([])
    expect((await say(running, JSON.stringify(rpc('SendMessage', { message: textMessage('ok') })))).result?.task.status.state).toBe(
      'TASK_STATE_COMPLETED'
    )
  })

  it('a page of large tasks is read up to its bytes, not its number, and a walk over pages still meets each task once', async () => {
    const running = await node({ workers: 'none', blockingWaitMs: 1 })
    const bytes = 1_000_000
    for (let i = 0; i < 10; i++) {
      await say(running, JSON.stringify(rpc('SendMessage', { message: textMessage(`m-${i}`, 'x'.repeat(bytes)) })))
    }
    const met: string[] = []
    let cursor: string | undefined
    let pages = 0
    do {
      const page = await running.todos.list({ limit: 100, ...(cursor === undefined ? {} : { cursor }) })
      expect(page.todos.length * bytes).toBeLessThan(PAGE_BYTES_MAX + bytes)
      met.push(...page.todos.map(({ id }) => id))
      cursor = page.next
      pages++
    } while (cursor !== undefined)
    expect([new Set(met).size, met.length, pages]).toEqual([10, 10, 2])
    const { result } = await say(running, JSON.stringify(rpc('ListTasks', { pageSize: 100 })))
    expect(result?.tasks).toHaveLength(10)
  })
})
