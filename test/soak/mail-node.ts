import { join } from 'node:path'
import { Level } from 'level'
import { outboxStateText } from '../../protocol/delivery/outbox-state.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../../src/errors.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { Todo } from '../../src/tasks/todo.ts'
import { FaultyLevel } from '../support/faulty-level.ts'
import { type MailNodeOrder, type MailOrder, type MailReport, type MailView, messageIdOf } from './mail-orders.ts'

/** A node of the mail scenario: the product, whole, in a process of its own, over a disk and a clock that its parent can spoil. Killed by its parent. */
const order = JSON.parse(process.argv[2] ?? '{}') as MailNodeOrder
const tell = (report: MailReport) => void process.send?.(report)
process.on('disconnect', () => process.exit(0))

const directory = join(order.directory, 'store')
const level = new Level<string, Uint8Array>(directory, { keyEncoding: 'utf8', valueEncoding: 'view' })
await level.open()
const die = (): never => {
  process.kill(process.pid, 'SIGKILL')
  throw new Error('dead')
}
const disk = new FaultyLevel(level, { directory, die, written: () => {} })
let isFull = false
const write = level.batch.bind(level) as unknown as (...args: unknown[]) => Promise<void>
level.batch = (async (...args: unknown[]) => {
  if (isFull) throw Object.assign(new Error('no space left on device'), { code: 'LEVEL_IO_ERROR' })
  await write(...args)
}) as never
if (order.fault !== undefined) disk.arm(order.fault)

let offsetMs = order.clockMs
const clock: Clock = {
  nowMs: () => systemClock.nowMs() + offsetMs,
  monotonicMs: () => systemClock.monotonicMs(),
  sleep: (ms, options) => systemClock.sleep(ms, options),
  after: (ms, call) => systemClock.after(ms, call)
}

const node: RookeryNode = await createNode({ ...order.config, dataDir: order.directory }, { level, clock, locators: 'on-demand' })
const agent = node.agents.get(order.role)
node.mail.outbox.onEvent(({ entry }) => tell({ kind: 'told', messageId: entry.messageId, state: outboxStateText(entry.state) }))
node.locators.publish(agent).catch((error: unknown) => process.stderr.write(`the locator: ${String(error)}\n`))
const [listening] = node.host.addresses()
tell({ kind: 'up', address: `${listening}/p2p/${node.peer}` })

process.on('message', (message: MailOrder) => {
  carryOut(message).catch((error: unknown) => {
    process.stderr.write(`${message.kind}: ${error instanceof Error ? error.message : String(error)}\n`)
    if ('id' in message) tell({ kind: 'done', id: message.id })
  })
})

async function carryOut(message: MailOrder): Promise<void> {
  switch (message.kind) {
    case 'post':
      return await post(message.first, message.count)
    case 'fault':
      return disk.arm(message.fault)
    case 'disk':
      isFull = message.state === 'full'
      return
    case 'clock':
      offsetMs = message.ms
      return
    case 'agent':
      if (message.state === 'asleep') await node.sleep(agent)
      else await node.wake(agent)
      return
    case 'mend':
      offsetMs = 0
      isFull = false
      await node.trustClock()
      if (order.role === 'sleeper') await node.wake(agent)
      return tell({ kind: 'done', id: message.id })
    case 'push':
      await push()
      return tell({ kind: 'done', id: message.id })
    case 'view':
      return tell({ kind: 'view', id: message.id, view: await view() })
  }
}

async function post(first: number, count: number): Promise<void> {
  for (let k = first; k < first + count; k++) {
    try {
      const message = { messageId: messageIdOf(k), role: 'ROLE_USER', parts: [{ text: `message ${k}` }] }
      await node.mail.post({ from: agent, to: eidFromDid(order.to), message })
      tell({ kind: 'accepted', k })
    } catch (error) {
      tell({ kind: 'failed', k, code: error instanceof RookeryError ? error.code : String(error) })
    }
  }
}

async function push(): Promise<void> {
  if (order.role === 'sender') {
    const [waiting] = node.mail.outbox
      .list()
      .filter(({ state }) => state.name !== 'handled' && state.name !== 'refused' && state.name !== 'expired')
    if (waiting !== undefined) await node.mail.retry(waiting)
  } else if (order.role === 'sleeper') {
    await node.mail.fetch(agent)
    await node.drain(agent)
  }
}

async function view(): Promise<MailView> {
  const todos: Todo[] = []
  let cursor: string | undefined
  do {
    const page = await node.todos.list({ agent: homeOf(agent), limit: 100, ...(cursor === undefined ? {} : { cursor }) })
    todos.push(...page.todos)
    cursor = page.next === '' ? undefined : page.next
  } while (cursor !== undefined)
  todos.sort((a, b) => a.createdAtMs - b.createdAtMs)
  return {
    outbox: node.mail.outbox
      .list()
      .map(({ messageId, state, keepers }) => ({ messageId, state: outboxStateText(state), keepers: keepers.length })),
    tasks: todos.map(({ history, state, createdAtMs }) => ({ messageId: String(history[0]?.messageId), state, createdAtMs })),
    queued: (await node.queueUsage(agent)).messages,
    held: (await node.mail.held()).reduce((sum, { messages }) => sum + messages, 0)
  }
}
