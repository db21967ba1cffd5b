import { MemoryLevel } from 'memory-level'
import { utf8 } from '../../../protocol/bytes.ts'
import { encodeCbor } from '../../../protocol/cbor.ts'
import { A2aError } from '../../../src/a2a/a2a-error.ts'
import { A2A_CHANNEL, A2A_KIND, A2aChannel, RemoteRefusal } from '../../../src/a2a/pss-binding.ts'
import { A2A_TEXT_BYTES_MAX } from '../../../src/a2a/pss-texts.ts'
import { RookeryError } from '../../../src/errors.ts'
import { isOfSameIp, readQuestion } from '../../../src/net/dial-back.ts'
import { ADDRS_MAX, CLOSER_MAX, namesIn } from '../../../src/net/find-node.ts'
import { toldIn } from '../../../src/net/identify.ts'
import { delimited, FieldWriter, fieldsOf } from '../../../src/net/protobuf.ts'
import { openAddrs } from '../../../src/net/signed-peer-record.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import type { Inbound, Session } from '../../../src/sessions/session.ts'
import { Store } from '../../../src/store/store.ts'
import type { A2aNode, TestAgent } from '../../support/a2a-fixture.ts'
import { mutateJson, mutateLines } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { REQUESTS_MAX } from './http-support.ts'
import { mustBe, mustEqual, refusedOr } from './support.ts'

/** Readers of libp2p's messages throw any Error, but none that says that the code is at fault. */
function refusedBy(error: unknown): undefined {
  const isFault = error instanceof TypeError || error instanceof ReferenceError
  if (error instanceof Error && !isFault && !error.message.includes('call stack')) return undefined
  throw error
}

function orRefused<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch (error) {
    return refusedBy(error)
  }
}

const PEER = Uint8Array.from([0x00, 0x24, 0x08, 0x01, 0x12, 0x20, ...new Uint8Array(32).fill(9)])
const ADDR = Uint8Array.from([4, 127, 0, 0, 1, 6, 0x10, 0x01])

/** Messages of other nodes below our own protocol: identify, FIND_NODE, signed addresses, "can you reach me?". */
const libp2pMessages: FuzzTarget = {
  name: 'libp2p-messages',
  bytesMax: 2_048,
  mutators: [],
  seeds: () => {
    const named = new FieldWriter().bytes(1, PEER).bytes(2, ADDR).finish()
    const told = new FieldWriter()
      .bytes(1, PEER.subarray(2))
      .bytes(2, ADDR)
      .bytes(3, utf8('/rookery/pss/1'))
      .bytes(4, ADDR)
      .bytes(5, utf8('ipfs/0.1.0'))
      .bytes(6, utf8('rookery'))
      .bytes(8, named)
      .finish()
    const payload = new FieldWriter().bytes(1, PEER).varint(2, 7).bytes(3, new FieldWriter().bytes(1, ADDR).finish()).finish()
    return [
      new FieldWriter().varint(1, 4).bytes(8, named).bytes(8, named).finish(),
      new FieldWriter().lengthAndBytes(told).lengthAndBytes(told).finish(),
      new FieldWriter().bytes(1, PEER.subarray(2)).bytes(2, Uint8Array.of(3, 1)).bytes(3, payload).bytes(5, new Uint8Array(64)).finish(),
      encodeCbor({ v: 1, addrs: ['/ip4/127.0.0.1/tcp/1', '/dns4/a.example/tcp/443/wss'] })
    ]
  },
  async run(bytes) {
    const before = bytes.slice()
    const fields = orRefused(() => [...fieldsOf(bytes)])
    for (const field of fields ?? []) mustBe(field.bytes.length <= bytes.length, 'a field is a part of its message')
    const messages = orRefused(() => delimited(bytes, 1_024)) ?? []
    mustBe(messages.reduce((sum, { length }) => sum + length, 0) <= bytes.length, 'messages are parts of what came')
    const names = orRefused(() => namesIn(bytes)) ?? []
    mustBe(names.length <= CLOSER_MAX && names.every(({ multiaddrs }) => multiaddrs.length <= ADDRS_MAX), 'an answer names so many')
    const told = orRefused(() => toldIn(bytes))
    if (told !== undefined) mustBe(told.protocols.length <= 64 && told.listenAddrs.length <= 64, 'a peer says so much of itself')
    const addrs = await openAddrs(bytes).catch(refusedBy)
    mustBe(addrs === undefined, 'nobody signs by chance')
    for (const addr of refusedOr(() => readQuestion(bytes)) ?? []) isOfSameIp(addr, '/ip4/127.0.0.1/tcp/1')
    mustEqual(bytes, before, 'a reader leaves its input as it is')
  }
}

interface Here {
  readonly node: A2aNode
  readonly agent: TestAgent
  readonly peer: TestAgent
  sessions: number
  readonly stop: () => Promise<void>
}

let here: Here | undefined

async function opened(): Promise<Here> {
  if (here !== undefined && here.sessions < REQUESTS_MAX) return here
  await here?.stop()
  const { startA2aNode, tempDir, testAgent } = await import('../../support/a2a-fixture.ts')
  const dir = tempDir()
  const agent = testAgent(1)
  const stores: Store[] = []
  const node = await startA2aNode({
    dir: dir.path,
    agents: [agent],
    blockingWaitMs: 10,
    wrapStore: (store) => {
      stores.push(store)
      return new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    }
  })
  here = {
    node,
    agent,
    peer: testAgent(2),
    sessions: 0,
    async stop() {
      await node.stop()
      for (const store of stores) await store.close()
      dir.dispose()
    }
  }
  return here
}

/** Both ends of an A2A channel need a session; this one only carries what the input says. */
function sessionOf({ agent, peer }: Here) {
  const sent: Uint8Array[] = []
  const closed = Promise.withResolvers<{ reason: string }>()
  const given: { take?: (item: Inbound) => unknown } = {}
  const session = {
    local: agent,
    remote: peer.eid,
    closed: closed.promise,
    info: () => ({ txSeq: 7 }),
    breach() {},
    onResumed() {},
    onChannel(_channel: number, take: (item: Inbound) => unknown) {
      given.take = take
    },
    async send(_channel: number, _kind: number, payload: Uint8Array) {
      sent.push(payload)
    }
  } as unknown as Session
  const take = async (payload: Uint8Array) => {
    await given.take?.({ channel: A2A_CHANNEL, kind: A2A_KIND, payload, position: () => [] })
  }
  return { session, sent, take, end: () => closed.resolve({ reason: 'over' }) }
}

const PARAMETERS = { version: '1.0', extensions: [] }

/** Lines, each an A2A text that a peer sends: requests of its own, and answers to ours, whose ids are `7-1` (a call) and `7-2` (a stream). */
const a2aChannel: FuzzTarget = {
  name: 'a2a-channel',
  bytesMax: 4_096,
  mutators: [
    mutateLines(
      mutateJson([
        'jsonrpc',
        'id',
        '7-1',
        '7-2',
        'result',
        'error',
        'a2a-event',
        'a2a-end',
        'a2a-leave',
        'task',
        'statusUpdate',
        'artifactUpdate',
        'status',
        'state',
        'TASK_STATE_WORKING',
        'TASK_STATE_COMPLETED',
        'method',
        'params',
        'SendMessage',
        'SendStreamingMessage',
        'SubscribeToTask'
      ])
    )
  ],
  seeds: () => {
    const lines = (...all: object[]) => text(all.map((one) => JSON.stringify(one)).join('\n'))
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] }
    const task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } }
    const answer = (id: string, more: object) => ({ jsonrpc: '2.0', id, ...more })
    const event = (n: number, result: object) => answer('7-2', { result, 'a2a-event': `t:${n}` })
    const update = { statusUpdate: { taskId: 't', contextId: 'c', status: { state: 'TASK_STATE_COMPLETED' } } }
    const call = (method: string, params: object, id = 'a') => answer(id, { method, params })
    return [
      json(call('SendMessage', { message })),
      lines(call('SendStreamingMessage', { message }), answer('a', { 'a2a-leave': true })),
      lines(call('ListTasks', { pageSize: 1 }), call('GetTask', { id: 't' }), call('SubscribeToTask', { id: 't' })),
      json({ ...call('SendMessage', { message }), 'a2a-service-parameters': { 'a2a-version': '1.0', 'a2a-extensions': 'x:y' } }),
      lines(answer('7-1', { result: { task } })),
      lines(answer('7-1', { error: { code: -31_003, message: 'asleep', data: [{ reason: 'asleep' }] } })),
      lines(event(1, { task }), event(2, update), answer('7-2', { result: {}, 'a2a-end': true })),
      lines(event(1, { task }), answer('7-2', { error: { code: -32_001, message: 'gone' } }))
    ]
  },
  async run(bytes) {
    const at = await opened()
    at.sessions++
    const { session, sent, take, end } = sessionOf(at)
    const channel = new A2aChannel(session, { clock: systemClock, logger: silentLogger })
    channel.serve(at.node.local, (agent, remote) => at.node.access.ofPeer(agent, remote))
    const gone = new AbortController()
    const options = { parameters: PARAMETERS, timeoutMs: 60_000, signal: gone.signal }
    const asked = mustRefuse(channel.request('GetTask', { id: 't' }, options))
    const streamed = mustRefuse(
      channel.stream('SubscribeToTask', { id: 't' }, options).then(async (stream) => {
        for await (const _event of stream);
      })
    )
    for (const line of linesOf(bytes)) await take(line)
    end()
    await Promise.all([asked, streamed])
    gone.abort(new DOMException('over', 'AbortError'))
    for (const payload of sent) {
      mustBe(payload.length <= A2A_TEXT_BYTES_MAX, 'a text is within its bound')
      const said = JSON.parse(new TextDecoder().decode(payload)) as { error?: { code?: number } }
      mustBe(said.error?.code !== -32_603, `no text of a peer makes the node fail: ${JSON.stringify(said).slice(0, 300)}`)
    }
  }
}

function* linesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let start = 0; start <= bytes.length; ) {
    const end = bytes.indexOf(10, start)
    yield bytes.slice(start, end < 0 ? bytes.length : end)
    if (end < 0) return
    start = end + 1
  }
}

/** It ends, with a value or as calls to others may. */
async function mustRefuse(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (error instanceof A2aError || error instanceof RookeryError || error instanceof RemoteRefusal) return
    throw error
  }
}

export const targets: readonly FuzzTarget[] = [libp2pMessages, a2aChannel]
