import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SendResult } from '../../src/api/methods.ts'
import type { TaskEventView } from '../../src/api/task-methods.ts'
import { main } from '../../src/cli/main.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { found } from '../support/found.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { rookery } from './cli-fixture.ts'

const TEST_MS = 60_000
const [here, there] = [nodeDir(), nodeDir()]
const nodes: RookeryNode[] = []
/** what names an agent on the command line of Alice's node */
const at: Record<string, string> = { 'of the same node': 'bob' }

beforeAll(async () => {
  const carls = await createNode({ ...LOOPBACK, dataDir: there.path })
  nodes.push(carls)
  const bootstrap = carls.host.addresses().map((address) => `${address}/p2p/${carls.peer}`)
  const own = await createNode({ ...LOOPBACK, bootstrap, dataDir: here.path })
  nodes.push(own)
  for (const [node, dir] of [
    [carls, there],
    [own, here]
  ] as const) {
    await openControl(node, dir.path)
  }
  await own.addAgent({ name: 'alice' })
  await own.addAgent({ name: 'bob', handler: 'manual' })
  const carl = await carls.addAgent({ name: 'carl', handler: 'manual' })
  await found(own, carl)
  at['of another node'] = carl.did
}, TEST_MS)
afterAll(async () => {
  for (const node of nodes.reverse()) await node.stop()
  for (const dir of [here, there]) dir.remove()
})

const run = (...argv: string[]) => rookery(...argv, '--agent', 'alice', '--data', here.path)
const json = (...argv: string[]) => run(...argv, '--json')
/** the agent's owner, at the node where it lives */
const owner = (agent: string, ...argv: string[]) => rookery(...argv, '--data', agent === 'bob' ? here.path : there.path)
const lines = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
const stateOf = (task: JsonObject | undefined) => (task?.status as { state: string } | undefined)?.state

/** A watch in this process, which is at work once it has told the task. */
function watching(agent: string, id: string) {
  const begun = Promise.withResolvers<void>()
  let text = ''
  const stdout = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      begun.resolve()
      done()
    }
  })
  const stderr = new Writable({ write: (_chunk, _encoding, done) => done() })
  const argv = ['task', 'watch', agent, id, '--agent', 'alice', '--data', here.path, '--json']
  const code = main(argv, { streams: { stdout, stderr }, env: {}, signal: new AbortController().signal })
  return { begun: begun.promise, code, text: () => text }
}

async function openTask(agent: string): Promise<string> {
  for (;;) {
    const { tasks } = (await json('task', 'list', agent, '--state', 'submitted')).json<{ tasks: { id: string }[] }>()
    if (tasks[0] !== undefined) return tasks[0].id
    await systemClock.sleep(20)
  }
}

describe.each(['of the same node', 'of another node'])('tasks given to an agent %s, on the command line', (which) => {
  it(
    '[TD-01] are streamed by a send, listed, shown and watched',
    async () => {
      const agent = at[which] as string
      const sending = json('send', agent, '--text', 'what does power cost?', '--stream')
      const id = await openTask(agent)
      const watch = watching(agent, id)
      await watch.begun
      expect((await json('task', 'show', agent, id, '--history', '1')).json<{ task: JsonObject }>().task).toMatchObject({
        id,
        status: { state: 'TASK_STATE_SUBMITTED' },
        history: [{ parts: [{ text: 'what does power cost?' }] }]
      })
      await owner(agent, 'inbox', 'complete', id, '--text', '31 cents')
      const told = lines((await sending).stdout) as (TaskEventView & SendResult)[]
      const events = told.slice(0, -1)
      expect(Object.keys(events[0]?.response ?? {})).toEqual(['task'])
      expect(events.map(({ id: number }) => Number(number))).toEqual(events.map(({ id: number }) => Number(number)).sort((a, b) => a - b))
      expect(JSON.stringify(events)).toContain('31 cents')
      expect(stateOf(events.at(-1)?.response.statusUpdate as JsonObject)).toBe('TASK_STATE_COMPLETED')
      expect([told.at(-1)?.outcome, stateOf(told.at(-1)?.task)]).toEqual(['task', 'TASK_STATE_COMPLETED'])
      expect(await watch.code).toBe(0)
      expect(lines(watch.text())).toEqual(events)
      expect((await run('task', 'list', agent, '--state', 'completed')).stdout).toContain(`${id}  completed`)
      expect((await run('task', 'show', agent, id)).stdout).toMatch(/state +completed[\s\S]*artifact +answer {2}31 cents/)
    },
    TEST_MS
  )

  it(
    '[TD-01] are canceled, and what cannot be done is told with its place and what to do',
    async () => {
      const agent = at[which] as string
      const { task } = (await json('send', agent, '--text', 'book it', '--wait', '0s')).json<{ task: { id: string } }>()
      const canceled = await json('task', 'cancel', agent, task.id)
      expect(stateOf(canceled.json<{ task: JsonObject }>().task)).toBe('TASK_STATE_CANCELED')
      const late = await json('task', 'watch', agent, task.id)
      expect([late.code === 0, late.error()]).toMatchObject([
        false,
        { code: 'UNSUPPORTED_OPERATION', field: 'id', value: task.id, remedy: expect.stringContaining('rookery task show') }
      ])
      for (const verb of ['show', 'cancel', 'watch']) {
        const unknown = await json('task', verb, agent, 'no-such-task')
        expect(unknown.error()).toMatchObject({ code: 'TASK_NOT_FOUND', field: 'id', value: 'no-such-task', remedy: expect.any(String) })
      }
    },
    TEST_MS
  )
})

it('a stream goes with no other way of sending', async () => {
  const refused = await json('send', 'bob', '--text', 'x', '--stream', '--outbox')
  expect(refused.error()).toMatchObject({
    code: 'STREAM_WITH_OTHER',
    kind: 'usage',
    field: 'via',
    value: 'outbox',
    remedy: expect.any(String)
  })
})
