import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { callControl } from '../../src/api/control-client.ts'
import { createNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { FaultySystem, faultySystem } from '../faults/faulty-system.ts'
import { type DaemonProcess, LOOPBACK, nodeDir, ready, startDaemon } from '../support/node-dir.ts'

const DAY_SEC = 86_400
const PATIENCE_MS = 120_000

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into whatever JSON came
  body: any
}

interface Node {
  daemon: DaemonProcess
  /** an owner's message for bob: the id of the task that it made */
  send(messageId: string): Promise<string>
  /** the claim API with bob's token */
  work(method: 'GET' | 'POST', path: string, body?: object): Promise<Answer>
}

/** A node in a process of its own, with an agent whose work is done from outside. */
async function node(env: Record<string, string> = {}): Promise<Node> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const config = { ...LOOPBACK, tasks: { retryFirst: '0ms' } }
  const made = await createNode({ ...config, dataDir: dir.path, http: { enabled: false } }, { locators: 'on-demand' })
  await made.addAgent({ name: 'alice' })
  const bob = await made.addAgent({ name: 'bob' })
  const token = readFileSync(made.agents.tokenFile(bob) as string, 'utf8').trim()
  await made.stop()
  const daemon = startDaemon(dir.path, { ...config, logs: { level: 'silent' } }, env)
  cleanups.push(async () => {
    daemon.kill('SIGCONT')
    daemon.kill('SIGTERM')
    await daemon.exited
  })
  const { http } = await ready(daemon)
  return {
    daemon,
    send: async (messageId) => {
      const sent = await callControl(dir.path, 'send', { agent: 'alice', to: 'bob', text: 'two and two?', messageId, waitMs: 0 })
      return String(sent.task?.id)
    },
    work: async (method, path, body) => {
      const response = await fetch(`${http?.url}/v1/work${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      const text = await response.text()
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
    }
  }
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const endMs = systemClock.monotonicMs() + PATIENCE_MS
  while (!(await holds())) {
    if (systemClock.monotonicMs() > endMs) throw new Error(`no ${what} within ${PATIENCE_MS} ms`)
    await systemClock.sleep(50)
  }
}

const library = faultySystem()
const here = library === undefined ? ' (not run: it needs Linux and a C compiler, `cc`)' : ''

describe('work under a lease', () => {
  it('[TD-08] [F007] goes to another holder where the node was stopped beyond the lease; the first one is told, and the result is one', async () => {
    const { daemon, send, work } = await node()
    const id = await send('m1')
    const first = await work('POST', '/claim', { leaseMs: 1_000, sideEffects: 'none' })
    expect(first).toMatchObject({ status: 200, body: { todo: { id, attempt: 1 } } })
    daemon.kill('SIGSTOP')
    await systemClock.sleep(2_000) // the lease is over meanwhile: the time that is tested, not a wait for something
    daemon.kill('SIGCONT')
    await until('task that is pending again', async () => (await work('GET', `/${id}`)).body.state === 'pending')

    const late = await work('POST', `/${id}/complete`, { claim: first.body.claim, text: 'four, from the first' })
    expect(late).toMatchObject({ status: 409, body: { error: { code: 'LEASE_LOST', kind: 'conflict', field: 'id', value: id } } })
    expect(late.body.error.remedy).toContain('claim it again')
    const second = await work('POST', '/claim', { leaseMs: 60_000, sideEffects: 'none' })
    expect(second).toMatchObject({ status: 200, body: { todo: { id, attempt: 2 } } })
    expect((await work('POST', `/${id}/renew`, { claim: first.body.claim })).body.error.code).toBe('LEASE_LOST')
    expect(await work('POST', `/${id}/complete`, { claim: second.body.claim, text: 'four, from the second' })).toMatchObject({
      status: 200,
      body: { state: 'done', attempt: 2 }
    })
    const again = await work('POST', `/${id}/complete`, { claim: first.body.claim, text: 'four, again' })
    expect(again).toMatchObject({ status: 409, body: { error: { code: 'LEASE_LOST', data: { state: 'done' } } } })
    expect(await work('POST', '/claim', {})).toEqual({ status: 204, body: undefined })
    expect(await send('m1')).toBe(id) // whoever sends it again gets the task that was done
  }, 240_000)

  it(`[TD-08] [G-10] stays with its holder where the clock jumps a day ahead and back, and is done once${here}`, async () => {
    if (library === undefined) return expect(here).not.toBe('')
    const system = new FaultySystem(library)
    cleanups.push(() => system.remove())
    const { send, work } = await node(system.env)
    const [id, other] = [await send('m1'), await send('m2')]
    const claim = async (leaseMs: number) => (await work('POST', '/claim', { leaseMs, sideEffects: 'none' })).body
    const mine = await claim(600_000)
    expect(mine.todo).toMatchObject({ id, attempt: 1 })
    system.arm({ clockSec: DAY_SEC })
    // another lease that ends makes the node look at what is due by its clock
    expect((await claim(1_000)).todo).toMatchObject({ id: other })
    await until('other task that is pending again', async () => (await work('GET', `/${other}`)).body.state === 'pending')
    expect(await work('GET', `/${id}`)).toMatchObject({ body: { state: 'claimed', attempt: 1 } })
    expect(await work('POST', `/${id}/renew`, { claim: mine.claim, leaseMs: 600_000 })).toMatchObject({ status: 200 })
    const ahead = await claim(1_000)
    expect(ahead.todo).toMatchObject({ id: other, attempt: 2 })
    system.heal()
    // nobody holds it any more, though by the clock its lease ends tomorrow
    await until('other task that is pending again', async () => (await work('GET', `/${other}`)).body.state === 'pending')
    const lost = await work('POST', `/${other}/complete`, { claim: ahead.claim })
    expect(lost).toMatchObject({ status: 409, body: { error: { code: 'LEASE_LOST' } } })
    for (const [name, held] of [
      [id, mine],
      [other, await claim(60_000)]
    ] as const) {
      expect(await work('POST', `/${name}/complete`, { claim: held.claim, text: 'four' })).toMatchObject({
        status: 200,
        body: { state: 'done' }
      })
    }
    expect(await work('POST', '/claim', {})).toEqual({ status: 204, body: undefined })
  }, 240_000)
})
