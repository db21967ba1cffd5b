import { readFileSync } from 'node:fs'
import type { StreamResponse } from '@a2a-js/sdk'
import { Role } from '@a2a-js/sdk'
import { afterEach, describe, expect, it } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { DurableSession } from '../../src/sessions/durable-session.ts'
import { fetchAs, rpc, sdkClient, textMessage } from '../support/a2a-fixture.ts'
import { found } from '../support/found.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { openSse, type SseConnection, type SseFrame } from '../support/sse-client.ts'

const HOLDER = 'agent-http:test'
const LEASE = { leaseMs: 600_000 }
const TEST_MS = 60_000

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function node(config: ConfigInput, bootstrap: RookeryNode[] = [], dir = ownDir()): Promise<RookeryNode> {
  const peers = bootstrap.flatMap((one) => one.host.addresses().map((address) => `${address}/p2p/${one.peer}`))
  const started = await createNode({ ...LOOPBACK, ...config, bootstrap: peers, dataDir: dir })
  closing.push(() => started.stop())
  return started
}

function ownDir(): string {
  const dir = nodeDir()
  closing.push(() => dir.remove())
  return dir.path
}

/** Bob's node, whose work waits for a hand, and Alice's with the edge that her client calls. */
async function pair(config: ConfigInput = {}) {
  const dir = ownDir()
  const there = await node(config, [], dir)
  const here = await node({}, [there])
  const bob = await there.addAgent({ name: 'bob', handler: 'manual' })
  const alice = await here.addAgent({ name: 'alice' })
  await found(here, bob)
  const url = here.httpUrl as string
  const token = readFileSync(here.agents.tokenFile(alice) as string, 'utf8').trim()
  const stream = async (messageId: string) =>
    await begun((await sdkClient({ url }, bob.did, fetchAs({ token }))).sendMessageStream(request(messageId)))
  const restart = async () => {
    await there.stop()
    return await node(config, [here], dir)
  }
  return { there, restart, bob, alice, stream, url: `${url}/agents/${bob.did}`, token }
}

const chunk = (there: RookeryNode, id: string, text: string, append = true) =>
  there.todos.progress(id, HOLDER, { artifact: { artifactId: 'a', parts: [{ text }] }, append })

const request = (messageId: string) => ({
  tenant: '',
  metadata: undefined,
  configuration: undefined,
  message: {
    messageId,
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: 'hello' } as const, filename: '', mediaType: '', metadata: undefined }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: []
  }
})

/** What an event tells: the text of its artifact, or its name. */
const told = ({ payload }: StreamResponse): string => {
  if (payload?.$case !== 'artifactUpdate') return payload?.$case ?? ''
  const content = payload.value.artifact?.parts[0]?.content
  return content?.$case === 'text' ? content.value : '?'
}

/** The first event of a stream, which is the task, and the rest. */
async function begun(stream: AsyncGenerator<StreamResponse>) {
  const { value } = await stream.next()
  if (value?.payload?.$case !== 'task') throw new Error('the stream does not begin with its task')
  const rest = async () => {
    const all: string[] = []
    for await (const event of stream) all.push(told(event))
    return all
  }
  return { id: value.payload.value.id, rest, next: async () => told((await stream.next()).value as StreamResponse) }
}

const sessionOf = async (one: RookeryNode): Promise<DurableSession> =>
  (await one.session((await one.sessions.listAll())[0]?.id as string)) as DurableSession

describe('a stream of a remote agent behind the caller’s own edge', () => {
  it(
    '[TD-01] [TD-24] [TD-28] begins with the task, tells every event in order, and ends, for the official client',
    async () => {
      const { there, stream } = await pair()
      const { id, rest } = await stream('m-1')
      await there.todos.claimOne(id, HOLDER, LEASE)
      for (const text of ['a', 'b', 'c']) await chunk(there, id, text, text !== 'a')
      await there.todos.complete(id, HOLDER, [])
      expect(await rest()).toEqual(['statusUpdate', 'a', 'b', 'c', 'statusUpdate'])
      expect((await there.todos.get(id))?.door).toBe('a2a-pss')
    },
    TEST_MS
  )

  it(
    '[G-60] goes on without gap or repeat when the connection under its session is cut',
    async () => {
      const { there, stream } = await pair()
      const { id, rest } = await stream('m-1')
      const events = rest()
      await there.todos.claimOne(id, HOLDER, LEASE)
      await chunk(there, id, 'before', false)
      const session = await sessionOf(there)
      const happened = (kind: string) => new Promise<void>((resolve) => session.onEvent((event) => void (event.kind === kind && resolve())))
      const [lost, resumed] = [happened('disconnected'), happened('resumed')]
      session.epoch?.connection.abort(new Error('cut by the test'))
      await lost
      await chunk(there, id, 'meanwhile')
      await resumed
      await chunk(there, id, 'after')
      await there.todos.complete(id, HOLDER, [])
      expect(await events).toEqual(['statusUpdate', 'before', 'meanwhile', 'after', 'statusUpdate'])
    },
    TEST_MS
  )

  it(
    '[G-60] goes on over another session when its own was closed',
    async () => {
      const { there, stream } = await pair()
      const { id, next, rest } = await stream('m-1')
      await there.todos.claimOne(id, HOLDER, LEASE)
      await chunk(there, id, 'before', false)
      expect([await next(), await next()]).toEqual(['statusUpdate', 'before'])
      const session = await sessionOf(there)
      await session.close()
      await chunk(there, id, 'meanwhile')
      expect(await next()).toBe('meanwhile')
      expect((await sessionOf(there)).info().id).not.toBe(session.info().id)
      await chunk(there, id, 'after')
      await there.todos.complete(id, HOLDER, [])
      expect(await rest()).toEqual(['after', 'statusUpdate'])
    },
    TEST_MS
  )

  it(
    '[TD-24] [G-60] goes on when the agent’s node was restarted in the middle',
    async () => {
      const { there, restart, stream } = await pair()
      const { id, next, rest } = await stream('m-1')
      await there.todos.claimOne(id, HOLDER, LEASE)
      await chunk(there, id, 'before', false)
      expect([await next(), await next()]).toEqual(['statusUpdate', 'before'])
      const again = await restart()
      await chunk(again, id, 'after')
      expect(await next()).toBe('after')
      await again.todos.complete(id, HOLDER, [])
      expect(await rest()).toEqual(['statusUpdate'])
    },
    TEST_MS
  )

  it(
    '[TD-30] [TD-31] leaves the agent’s node when its reader leaves the edge, and cancels nothing',
    async () => {
      const { there, url, token } = await pair({ streams: { perCallerMax: 1 } })
      const open = (body: ReturnType<typeof rpc>) => openSse(url, { body, token })
      const first = await open(rpc('SendStreamingMessage', { message: textMessage('m-1') }))
      const { id } = taskOf(await first.next())
      const subscribe = rpc('SubscribeToTask', { id })
      expect((await open(subscribe)).status).toBe(429)
      first.cut()
      let second: SseConnection
      for (second = await open(subscribe); second.status !== 200; second = await open(subscribe)) await soon()
      expect((await second.next())?.data.result.task.status.state).toBe('TASK_STATE_SUBMITTED')
      second.cut()
      expect((await there.todos.get(id))?.state).toBe('pending')
    },
    TEST_MS
  )

  it(
    '[G-56] ends with the grant that it was opened with, and says so',
    async () => {
      const { there, bob, alice, url, token } = await pair({ grants: { peers: 'required' } })
      const { grant } = await there.grants.create({ agent: homeOf(bob), name: 'alice', peer: alice.eidHex })
      const connection = await openSse(url, { body: rpc('SendStreamingMessage', { message: textMessage('m-1') }), token })
      const { id } = taskOf(await connection.next())
      await there.grants.revoke(grant.id)
      const last = await connection.next()
      expect([last?.event, last?.data.error.message, last?.data.error.data[0].metadata]).toEqual([
        'error',
        'the grant has ended',
        { cause: 'GRANT_ENDED' }
      ])
      expect(await connection.next()).toBeUndefined()
      expect((await there.todos.get(id))?.state).toBe('pending')
    },
    TEST_MS
  )
})

const taskOf = (frame: SseFrame | undefined) => frame?.data.result.task as { id: string }
const soon = () => systemClock.sleep(20)
