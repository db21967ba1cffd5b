import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callControl } from '../../src/api/control-client.ts'
import type { ControlMethod, ControlParams } from '../../src/api/methods.ts'
import { openControl } from '../../src/daemon.ts'
import { RookeryError } from '../../src/errors.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { aContract } from '../support/ecc-values.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const STRANGER = 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'

let dir: ReturnType<typeof nodeDir>
let node: RookeryNode
beforeAll(async () => {
  dir = nodeDir()
  node = await createNode({ ...LOOPBACK, dataDir: dir.path })
  await openControl(node, dir.path)
})
afterAll(async () => {
  await node.stop()
  dir.remove()
})

const call = <M extends ControlMethod>(method: M, params: ControlParams<M>) => callControl(dir.path, method, params)

async function refusal<M extends ControlMethod>(method: M, params: ControlParams<M>): Promise<RookeryError> {
  const error = await call(method, params).then(
    () => new Error('nothing was refused'),
    (reason: unknown) => reason
  )
  if (error instanceof RookeryError) return error
  throw error
}

describe('the control API of a running node', () => {
  it('adds agents, lists them, and answers what came in by hand', async () => {
    const alice = await call('agent.add', { name: 'alice' })
    const shop = await call('agent.add', { name: 'shop', description: 'answers by hand' })
    expect(alice).toMatchObject({ name: 'alice', isDefault: true, mode: 'always_on', handler: 'manual' })
    expect((await call('agent.list', {})).map((one) => one.name)).toEqual(['alice', 'shop'])

    const sent = await call('send', { to: 'shop', text: 'how much?', messageId: 'm1', waitMs: 0 })
    expect(sent).toMatchObject({ messageId: 'm1', outcome: 'task' })
    const [entry] = await call('inbox.list', { agent: 'shop', state: 'pending' })
    expect(entry).toMatchObject({ agent: 'shop', state: 'pending', preview: 'how much?', door: 'library' })
    const id = entry?.id as string
    expect((await call('inbox.show', { id })).task.id).toBe(sent.task?.id)
    const done = await call('inbox.complete', { id, text: '31 cents' })
    expect(JSON.stringify(done.task.artifacts)).toContain('31 cents')
    const again = await call('send', { to: shop.did, text: 'how much?', messageId: 'm1' })
    expect(JSON.stringify(again.task)).toContain('31 cents')
    expect(await refusal('inbox.complete', { id })).toMatchObject({ code: 'TODO_NOT_PENDING', kind: 'conflict' })

    await call('send', {
      to: 'shop',
      data: { a: [1] },
      files: [{ name: 'f', mediaType: 'text/plain', base64: 'aGk=' }],
      messageId: 'm2',
      waitMs: 0
    })
    const [second] = await call('inbox.list', { state: 'pending' })
    expect((await call('inbox.fail', { id: second?.id as string, reason: 'no idea' })).todo).toMatchObject({
      state: 'failed',
      failure: 'no idea'
    })
    expect(await refusal('inbox.approve', { id, verdict: 'given' })).toMatchObject({ code: 'APPROVAL_NOT_NEEDED' })
  })

  it('[ECC-05] [ECC-06] sends with execution requirements, and says what became of them', async () => {
    await call('agent.add', { name: 'baker' })
    const require = { dataClassification: 'internal', maxSideEffect: 'reversible', allowedRegions: ['EU'] }
    expect(await refusal('send', { to: 'baker', text: 'bake', require })).toMatchObject({ code: 'CONTRACT_MISSING', kind: 'refused' })
    node.config.edgeCloud.contracts.baker = aContract()
    const sent = await call('send', { to: 'baker', text: 'bake', messageId: 'e1', waitMs: 0, require })
    expect(sent).toMatchObject({ outcome: 'task', execution: { status: 'pending' } })
    const [entry] = await call('inbox.list', { agent: 'baker', state: 'pending' })
    await call('inbox.complete', { id: entry?.id as string, text: 'three rolls' })
    const done = await call('send', { to: 'baker', text: 'bake', messageId: 'e1', require })
    expect(done).toMatchObject({ execution: { status: 'verified', receipt: { messageId: 'e1', site: { region: 'DE-BE' } } } })
    const wrong = await refusal('send', { to: 'baker', text: 'bake', require: { ...require, dataClassification: 'secret' } })
    expect(wrong).toMatchObject({ code: 'REQUIREMENTS_INVALID', field: 'requirements.dataClassification', value: 'secret' })
    const unmet = await refusal('send', { to: 'baker', text: 'bake', require: { ...require, networkMode: 'offline' } })
    expect(unmet).toMatchObject({ code: 'EXECUTION_REFUSED', field: 'requirements.networkMode', kind: 'refused' })
    expect(await call('send', { to: 'baker', text: 'bake', messageId: 'e2', via: 'outbox', require })).toMatchObject({ outcome: 'outbox' })
  })

  it('puts agents to sleep and shows what waits by name and size alone [OD-50]', async () => {
    const untilMs = Date.now() + 3_600_000
    expect(await call('sleep', { agent: 'shop', untilMs })).toMatchObject({ mode: 'sleep', untilMs })
    const queued = await call('send', { to: 'shop', text: 'later', messageId: 'm3' })
    expect(queued).toMatchObject({ outcome: 'queued', asleep: { status: 503, queued: true } })
    expect(queued.asleep?.retryAfterSec).toBeGreaterThan(3_500)
    const [entry] = await call('queue.list', { agent: 'shop' })
    expect(Object.keys(entry ?? {}).sort()).toEqual(['bytes', 'enqueuedAtMs', 'expiresAtMs', 'issuer', 'key', 'objectId', 'principal'])
    expect(await call('wake', { agent: 'shop' })).toMatchObject({ mode: 'always_on', drain: { accepted: 1 } })
    expect(await call('queue.list', { agent: 'shop' })).toEqual([])
  })

  it('puts the module at a path to work, and refuses one that is not there, without making the agent', async () => {
    const path = join(dir.path, 'shout.mjs')
    writeFileSync(path, 'export default async ({ message }) => ({ text: message.parts[0].text.toUpperCase() })\n')
    await call('agent.add', { name: 'shout', handler: path })
    const { task } = await call('send', { to: 'shout', text: 'hello' })
    expect(JSON.stringify(task?.artifacts)).toContain('HELLO')
    expect(await refusal('agent.add', { name: 'ghost', handler: join(dir.path, 'none.mjs') })).toMatchObject({
      code: 'HANDLER_LOAD_FAILED'
    })
    expect((await call('agent.list', {})).map((one) => one.name)).not.toContain('ghost')
  })
})

describe('bad values give a named error with a remedy and change nothing', () => {
  const cases: [name: string, work: () => Promise<RookeryError>, code: string, kind: string][] = [
    ['an unknown agent', () => refusal('wake', { agent: 'nobody' }), 'AGENT_UNKNOWN', 'notFound'],
    ['an agent of elsewhere', () => refusal('sleep', { agent: STRANGER }), 'AGENT_UNKNOWN', 'notFound'],
    ['a name that is taken', () => refusal('agent.add', { name: 'alice' }), 'AGENT_EXISTS', 'conflict'],
    ['a bad did:key', () => refusal('resolve', { did: 'did:key:zzzz' }), 'DID_INVALID', 'usage'],
    [
      'a member that is no did',
      () => refusal('space.prune', { name: 'org.agentnet/energy@1', member: 'did:web:x' }),
      'DID_INVALID',
      'usage'
    ],
    [
      'a guest that is no did',
      async () => {
        await call('group.create', { agent: 'alice', name: 'guests' })
        return await refusal('group.invite', { agent: 'alice', group: 'guests', member: 'did:web:x' })
      },
      'DID_INVALID',
      'usage'
    ],
    ['an unknown task', () => refusal('inbox.approve', { id: 'no-such-task', verdict: 'given' }), 'TODO_UNKNOWN', 'notFound'],
    ['a did of another method', () => refusal('send', { to: 'did:web:example.net', text: 'x' }), 'DID_INVALID', 'usage'],
    ['a bad topic', () => refusal('find', { name: 'Not A Topic' }), 'NAME_INVALID', 'usage'],
    ['a topic without a version', () => refusal('space.join', { name: 'org.agentnet/energy' }), 'NAME_INVALID', 'usage'],
    ['a space that nobody announced', () => refusal('space.join', { name: 'org.agentnet/nothing@1' }), 'SPACE_UNKNOWN', 'notFound'],
    ['an empty message', () => refusal('send', { to: 'alice' }), 'MESSAGE_EMPTY', 'usage'],
    ['a time that is past', () => refusal('sleep', { untilMs: 1 }), 'UNTIL_PAST', 'usage'],
    [
      'a window that cannot be',
      () => refusal('agent.add', { name: 'w', mode: 'hourly_wake', window: { periodSec: 60, openSec: 61 } }),
      'RANGE',
      'usage'
    ],
    ['an unknown session', () => refusal('session.close', { id: '0'.repeat(32) }), 'SESSION_UNKNOWN', 'notFound'],
    ['an unknown task', () => refusal('inbox.show', { id: 'none' }), 'TODO_UNKNOWN', 'notFound'],
    ['an agent that no record names', () => refusal('resolve', { did: STRANGER }), 'AGENT_UNKNOWN', 'notFound']
  ]
  for (const [name, work, code, kind] of cases) {
    it(name, async () => {
      const before = await call('status', {})
      const error = await work()
      expect(error).toMatchObject({ code, kind })
      expect(error.remedy).toBeTruthy()
      if (code === 'DID_INVALID' || code === 'TODO_UNKNOWN') {
        expect(error.field).toBeTruthy()
        expect(error.value).toBeTruthy()
      }
      const after = await call('status', {})
      expect(after.agents).toEqual(before.agents)
      expect(after.spaces).toEqual(before.spaces)
    })
  }

  it('a message above the bound', async () => {
    const error = await refusal('send', { to: 'alice', text: 'x'.repeat(3 * 1_048_576), waitMs: 0 })
    expect(error.kind).toMatch(/refused|usage/)
    expect(error.code).toMatch(/TOO_LARGE/)
  })

  it('another message under a used messageId', async () => {
    await call('send', { to: 'shop', text: 'one', messageId: 'used', waitMs: 0 })
    const error = await refusal('send', { to: 'shop', text: 'two', messageId: 'used', waitMs: 0 })
    expect(JSON.stringify(error)).toContain('messageId')
  })
})
