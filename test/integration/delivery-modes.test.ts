import { readFileSync, statSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MODE_NAMES, REACHABILITY_MODES } from '../../protocol/delivery/modes.ts'
import { decodeObject } from '../../protocol/delivery/object.ts'
import { callControl } from '../../src/api/control-client.ts'
import type { AgentView, ControlMethod, ControlParams, ControlResults } from '../../src/api/methods.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

let dir: ReturnType<typeof nodeDir>
let node: RookeryNode
const start = async (approve: string[] = []) => {
  const delivery = approve.length === 0 ? {} : { approve: [{ name: 'family', agent: 'tidy', from: approve }] }
  node = await createNode({ ...LOOPBACK, dataDir: dir.path, http: { port: 0 }, delivery })
  await openControl(node, dir.path)
}
beforeAll(async () => {
  dir = nodeDir()
  await start()
  await call('agent.add', { name: 'alice' })
  await call('agent.add', { name: 'bob' })
})
afterAll(async () => {
  await node.stop()
  dir.remove()
})

const call = <M extends ControlMethod>(method: M, params: ControlParams<M>): Promise<ControlResults[M]> =>
  callControl(dir.path, method, params)
const bob = async () => (await call('agent.list', {})).find(({ name }) => name === 'bob') as AgentView
const send = (messageId: string, text = 'hello') => call('send', { agent: 'alice', to: 'bob', text, messageId, waitMs: 0 })
const extensions = async () => {
  const { url } = await bob()
  const card = (await (await fetch(`${url}/.well-known/agent-card.json`)).json()) as {
    capabilities: { extensions: { uri: string; params: Record<string, unknown> }[] }
  }
  return card.capabilities.extensions
}
const always = { periodSec: 3_600, openSec: 3_600, offsetSec: 0 }

describe('how an agent can be reached', () => {
  it('[OD-04] [OD-08] [OD-30] publishes mode and window alike in status, locator and card, in each mode, at once', async () => {
    for (const mode of REACHABILITY_MODES) {
      const window = { periodSec: 7_200, openSec: 60 }
      const view = await call('mode.set', { agent: 'bob', mode, ...(mode === 'hourly_wake' ? { window } : {}) })
      const status = (await call('status', {})).agents.find(({ name }) => name === 'bob')
      const locator = await node.locators.resolve(node.agents.get('bob').eid)
      const own = (await extensions()).at(-1)?.params
      expect([view.mode, status?.mode, locator.mode, own?.mode]).toEqual(Array(4).fill(mode))
      expect(own?.name).toBe(MODE_NAMES[mode])
      expect([status?.window, locator.window, own?.window]).toEqual(Array(3).fill(view.window))
      if (mode === 'hourly_wake') expect(view.window).toMatchObject({ periodSec: 7_200, openSec: 60, offsetSec: expect.any(Number) })
      const keeps = mode === 'sleep' || mode === 'hourly_wake'
      expect((await extensions()).map(({ uri, params }) => [uri, params.mode])).toEqual([
        ...(keeps ? [['https://atom.qwixl.dev/a2a/offline-delivery/v1', mode]] : []),
        ['rookery:extension/reachability/v1', mode]
      ])
    }
  })

  it('[OD-09] [OD-11] [G-01] keeps nothing where the owner turned queueing off: 503, queued false, an empty queue, on all doors', async () => {
    await call('mode.set', { agent: 'bob', mode: 'sleep', queueing: 'off' })
    expect(await send('off-1')).toMatchObject({ outcome: 'asleep', asleep: { status: 503, queued: false } })
    const straight = await call('send', { agent: 'alice', to: 'bob', text: 'x', messageId: 'off-2', via: 'mailbox' })
    expect(straight).toMatchObject({ outcome: 'asleep', asleep: { queued: false } })
    expect((await bob()).queue.messages).toBe(0)
    expect((await bob()).queueing).toBe('off')
    expect((await extensions()).map(({ uri }) => uri)).toEqual(['rookery:extension/reachability/v1'])
    await call('mode.set', { agent: 'bob', mode: 'hourly_wake', window: { periodSec: 86_400, openSec: 1, offsetSec: 0 } })
    expect(await send('off-3')).toMatchObject({ outcome: 'asleep', asleep: { queued: false } })
    await call('mode.set', { agent: 'bob', mode: 'sleep', queueing: 'on' })
    expect(await send('on-1')).toMatchObject({ outcome: 'queued', asleep: { queued: true } })
    expect((await bob()).queueing).toBeUndefined()
    expect(await call('queue.drop', { agent: 'bob', all: true })).toMatchObject({ dropped: 1 })
  })

  it('[G-09] [OD-27] ends what waits when its sender wished, through every door, and keeps no copy of what did not need to wait', async () => {
    await call('mode.set', { agent: 'bob', mode: 'sleep' })
    const short = { agent: 'alice', to: 'bob', text: 'hello', waitMs: 0, ttlMs: 60_000 } as const
    expect(await call('send', { ...short, messageId: 'ttl-1' })).toMatchObject({ outcome: 'queued' })
    expect(await call('send', { ...short, messageId: 'ttl-2', via: 'mailbox' })).toMatchObject({ outcome: 'queued' })
    expect(await send('ttl-3')).toMatchObject({ outcome: 'queued' })
    const lives = (await call('queue.list', { agent: 'bob' })).map(({ enqueuedAtMs, expiresAtMs }) => expiresAtMs - enqueuedAtMs)
    expect(lives.map((lifeMs) => lifeMs > 0 && lifeMs <= 60_000)).toEqual([true, true, false])
    await call('queue.drop', { agent: 'bob', all: true })
    await call('mode.set', { agent: 'bob', mode: 'always_on' })
    expect(await call('send', { ...short, messageId: 'ttl-4' })).toMatchObject({ outcome: 'task' })
    await call('mode.set', { agent: 'bob', mode: 'sleep' })
    expect(await call('queue.list', { agent: 'bob' })).toEqual([])
    await expect(call('send', { ...short, messageId: 'ttl-5', ttlMs: 7 * 86_400_000 })).rejects.toMatchObject({
      code: 'TTL_INVALID',
      field: 'ttlMs',
      value: 7 * 86_400_000
    })
  })

  it('[OD-06] [OD-07] [G-16] takes work in the mode session while a process is attached, keeps nothing at other times', async () => {
    await call('mode.set', { agent: 'bob', mode: 'session' })
    expect(await send('s-1')).toMatchObject({ outcome: 'asleep', asleep: { status: 503, queued: false } })
    const { id, agent, leaseMs } = await call('agent.attach', { agent: 'bob', leaseMs: 60_000 })
    expect({ agent, leaseMs }).toEqual({ agent: 'bob', leaseMs: 60_000 })
    expect(await bob()).toMatchObject({ attached: 1, reachable: { now: 'accepts' } })
    expect(await send('s-2')).toMatchObject({ outcome: 'task' })
    expect(await call('agent.renew', { id })).toMatchObject({ id, agent: 'bob' })
    expect(await call('agent.detach', { id })).toEqual({ id, detached: true })
    expect(await send('s-3')).toMatchObject({ outcome: 'asleep', asleep: { queued: false } })
    expect((await bob()).queue.messages).toBe(0)
    await expect(call('agent.renew', { id })).rejects.toMatchObject({ code: 'ATTACHMENT_UNKNOWN' })
  })

  it('[G-16] [OD-08] [OD-09] queues inside the window while no process is attached, and hands over as soon as one is', async () => {
    await call('mode.set', { agent: 'bob', mode: 'hourly_wake', window: always })
    expect(await send('h-1')).toMatchObject({ outcome: 'queued' })
    const handed = Promise.withResolvers<void>()
    const off = node.todos.onCommit((todo) => {
      if (todo.door === 'asleep-queue') handed.resolve()
    })
    const { id } = await call('agent.attach', { agent: 'bob' })
    await handed.promise
    off()
    expect((await bob()).queue.messages).toBe(0)
    await call('agent.detach', { id })
  })

  it('[OD-09] keeps mode, window, end and queueing through a restart, and a sleep set so wakes into what was before', async () => {
    await call('mode.set', { agent: 'bob', mode: 'hourly_wake', window: { periodSec: 7_200, openSec: 61, offsetSec: 5 }, queueing: 'off' })
    const untilMs = Date.now() + 3_600_000
    const before = await call('mode.set', { agent: 'bob', mode: 'sleep', untilMs })
    await node.stop()
    await start()
    expect(await bob()).toMatchObject({ mode: 'sleep', untilMs, queueing: 'off', did: before.did })
    await call('wake', { agent: 'bob' })
    expect(await bob()).toMatchObject({ mode: 'hourly_wake', window: { periodSec: 7_200, openSec: 61, offsetSec: 5 }, queueing: 'off' })
    await call('mode.set', { agent: 'bob', mode: 'always_on', queueing: 'on' })
  })

  it('refuses what does not go together, and names it', async () => {
    const refused = (params: ControlParams<'mode.set'>) =>
      call('mode.set', params).then(
        () => undefined,
        (error) => [error.code, error.field]
      )
    expect(await refused({ agent: 'bob', mode: 'sleep', window: always })).toEqual(['MODE_MEMBER', 'window'])
    expect(await refused({ agent: 'bob', mode: 'always_on', untilMs: Date.now() + 1_000 })).toEqual(['MODE_MEMBER', 'untilMs'])
    expect(await refused({ agent: 'bob', mode: 'sleep', untilMs: 1 })).toEqual(['UNTIL_PAST', 'untilMs'])
    expect(await refused({ agent: 'bob', mode: 'hourly_wake', window: { periodSec: 60, openSec: 61 } })).toEqual([
      'RANGE',
      'window.openSec'
    ])
    expect((await bob()).mode).toBe('always_on')
  })
})

describe('the queue from the owner’s side', () => {
  it('[OD-50] shows a record by name, times and key, drops it by the beginning of its name, exports it sealed into the owner’s directory', async () => {
    await call('mode.set', { agent: 'bob', mode: 'sleep' })
    for (const id of ['q-1', 'q-2']) expect(await send(id, `the secret of ${id}`)).toMatchObject({ outcome: 'queued' })
    const [first, second] = await call('queue.list', { agent: 'bob' })
    if (first === undefined || second === undefined) throw new TypeError('two wait')
    const shown = await call('queue.show', { agent: 'bob', object: first.objectId.slice(0, 8) })
    expect(shown).toMatchObject({
      key: first.key,
      kind: 'object',
      purpose: 'a2a:message',
      opens: true,
      bytes: first.bytes,
      issuer: first.issuer
    })
    expect(Object.keys(shown)).not.toContain('object')

    const exported = await call('queue.export', { agent: 'bob' })
    expect(exported).toMatchObject({ records: 2, bytes: first.bytes + second.bytes })
    expect(exported.path.startsWith(dir.path)).toBe(true)
    expect(statSync(exported.path).mode & 0o077).toBe(0)
    const text = readFileSync(exported.path, 'utf8')
    expect(text).not.toContain('the secret of')
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { objectId: string; object: string })
    expect(lines.map(({ objectId }) => objectId)).toEqual([first.objectId, second.objectId])
    for (const line of lines) expect(Buffer.from(decodeObject(Buffer.from(line.object, 'base64')).id).toString('hex')).toBe(line.objectId)

    expect(await call('queue.drop', { agent: 'bob', object: first.objectId.slice(0, 8) })).toEqual({ dropped: 1, bytes: first.bytes })
    expect((await call('queue.list', { agent: 'bob' })).map(({ objectId }) => objectId)).toEqual([second.objectId])
    await expect(call('queue.show', { agent: 'bob', object: first.objectId })).rejects.toMatchObject({
      code: 'RECORD_UNKNOWN',
      kind: 'notFound'
    })
    await expect(call('queue.drop', { agent: 'bob' })).rejects.toMatchObject({ code: 'PARAMS_INVALID', field: 'object' })
    await expect(call('queue.retry', { agent: 'bob' })).rejects.toMatchObject({ code: 'AGENT_ASLEEP', kind: 'asleep' })
    expect(await call('wake', { agent: 'bob' })).toMatchObject({ drain: { accepted: 1, waiting: 0 } })
    expect(await call('queue.retry', { agent: 'bob' })).toMatchObject({ accepted: 0, restored: 0 })
  })

  it('[OD-40] [G-19] lets what is consequential wait for the owner, or for a rule of the owner’s, which the task names', async () => {
    const calls: string[] = []
    const work = async (messageId: string) => {
      await call('sleep', { agent: 'tidy' })
      expect(await call('send', { agent: 'alice', to: 'tidy', text: 'delete it', messageId })).toMatchObject({ outcome: 'queued' })
      return await call('wake', { agent: 'tidy' })
    }
    const handle = () =>
      node.onTask('tidy', async ({ message }) => {
        calls.push(String(message.messageId))
        return {}
      })
    const settled = async (id: string) => (await node.todos.settled(id)).state
    await call('agent.add', { name: 'tidy' })
    await handle()
    const { drain } = await work('w-1')
    const id = drain.events[0]?.todo as string
    expect((await call('inbox.show', { id })).todo).toMatchObject({ state: 'auth-required', approval: 'needed' })
    expect(calls).toEqual([])
    expect((await call('inbox.approve', { id, verdict: 'given' })).todo).toMatchObject({ approval: 'given', approvedBy: 'owner' })
    expect(await settled(id)).toBe('done')
    expect(calls).toEqual(['w-1'])

    const alice = (await call('agent.list', {})).find(({ name }) => name === 'alice') as AgentView
    await node.stop()
    await start([alice.did])
    await handle()
    const byRule = (await work('w-2')).drain.events[0]?.todo as string
    expect(await settled(byRule)).toBe('done')
    expect((await call('inbox.show', { id: byRule })).todo).toMatchObject({ approval: 'given', approvedBy: 'policy:family' })
    expect(calls).toEqual(['w-1', 'w-2'])
    await call('sleep', { agent: 'tidy' })
    expect(await call('send', { agent: 'bob', to: 'tidy', text: 'delete all', messageId: 'w-3' })).toMatchObject({ outcome: 'queued' })
    const stranger = (await call('wake', { agent: 'tidy' })).drain.events[0]?.todo as string
    expect((await call('inbox.show', { id: stranger })).todo).toMatchObject({ state: 'auth-required', approval: 'needed' })
  })

  it('[OD-49] shows how far a wake has come', async () => {
    await call('agent.add', { name: 'slow' })
    await call('sleep', { agent: 'slow' })
    for (let i = 0; i < 50; i++) {
      expect(await call('send', { agent: 'alice', to: 'slow', text: 'x', messageId: `p-${i}` })).toMatchObject({ outcome: 'queued' })
    }
    const progress: string[] = []
    const { drain } = await callControl(dir.path, 'wake', { agent: 'slow' }, { onProgress: (text) => progress.push(text) })
    expect(drain.accepted).toBe(50)
    expect(progress).toContain('handing over what waited: 50 of 50')
  })

  it('[F065] tells in status whether the disk takes writes and how much is free and kept', async () => {
    const { store, queueDamaged } = await call('status', {})
    expect(store).toEqual({ state: 'ok', freeBytes: expect.any(Number), reserveBytes: expect.any(Number) })
    expect(queueDamaged).toBe(0)
  })
})
