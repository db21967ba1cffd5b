import { getEventListeners } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import v8 from 'node:v8'
import type { Worker } from 'node:worker_threads'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openControl } from '../../src/daemon.ts'
import { EXIT_CODES, RookeryError } from '../../src/errors.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { Traffic } from '../../src/net/traffic.ts'
import { startNode } from '../../src/node.ts'
import { Observed } from '../../src/ops/observed.ts'
import { openOps } from '../../src/ops/open-ops.ts'
import { ProcessWatch } from '../../src/ops/process-watch.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'
import { randomFraction, systemRandom } from '../../src/platform/random.ts'
import { openChannel } from '../../src/sessions/channel.ts'
import type { Session } from '../../src/sessions/session.ts'
import type { State } from '../../src/state/state.ts'
import { jsonCodec } from '../../src/store/store.ts'
import {
  CALLER,
  type NodeAudit,
  type NodeSample,
  SLEEPING_AGENT,
  SOAK_SPACE,
  type SoakNodeOrder,
  type SoakOrder,
  type SoakReport,
  WORKER
} from './soak-orders.ts'

/** A node of the soak: the product, whole, in a process of its own, with a load that it makes itself. */
const order = JSON.parse(process.argv[2] ?? '{}') as SoakNodeOrder
const tell = (report: SoakReport) => void process.send?.(report)
process.on('disconnect', () => process.exit(0))
process.on('warning', ({ name, message }) => name !== 'ExperimentalWarning' && tell({ kind: 'warning', name, message }))

const CHANNEL = 16
const ITEM_BYTES_MAX = 4_000
const SPACE = 0x20
const UNDER_WAY_MAX = 32
const OPEN_MS = 30_000

const { config } = loadConfig({ dataDir: order.directory, env: {}, flags: order.config })
const logger = createLogger(config.logs)
const traffic = new Traffic()
const observed = new Observed()
const node = await startNode(config, { logger, traffic, observed })
const caller = node.agents.get(CALLER)
const dozer = order.name === 'sleeper' ? node.agents.get(SLEEPING_AGENT) : undefined
const rows = node.store.table<number>('soak-items', jsonCodec<number>())
/** those of this life that were forgotten on disk since: a second coming is seen */
const applied = new Set<string>()
const APPLIED_MAX = 5_000
let isLoading = false
let underWay = 0
let beats = 0

process.on('SIGTERM', () => void node.stop().then(() => process.exit(0)))

// ── what comes in ──

node.sessions.onSession((session) => {
  void (async () => {
    try {
      for await (const item of openChannel(session, CHANNEL)) {
        // not the whole and then cut: a part of a string holds all of it
        const id = new TextDecoder().decode(item.payload.subarray(0, item.payload.indexOf(SPACE)))
        if (applied.has(id) || (await rows.get(id)) !== undefined) {
          tell({ kind: 'failed', what: 'item', code: `APPLIED_TWICE ${id}` })
        }
        applied.add(id)
        if (applied.size > APPLIED_MAX) applied.delete(applied.values().next().value as string)
        await node.store.commit([rows.put(id, 1), ...item.position()])
      }
    } catch (error) {
      if (!node.signal.aborted) tell({ kind: 'failed', what: 'channel', code: codeOf(error) })
    }
  })()
})

// ── what goes out ──

function codeOf(error: unknown): string {
  return error instanceof RookeryError ? error.code : error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}

/** Does it again and again while there is load, and tells what came of it. Never rejects. */
async function again(what: string, everyMs: number, act: () => Promise<void>): Promise<void> {
  while (!node.signal.aborted) {
    await sleep(everyMs * (0.5 + randomFraction(systemRandom)))
    if (!isLoading) continue
    try {
      await act()
      tell({ kind: 'did', what })
    } catch (error) {
      if (!node.signal.aborted) tell({ kind: 'failed', what, code: codeOf(error) })
    }
  }
}

const sessionWith = (did: string): Promise<Session> =>
  node.openSession(caller, eidFromDid(did), { signal: AbortSignal.any([node.signal, AbortSignal.timeout(OPEN_MS)]) })

let n = 0
const nextId = () => `${order.name}-${order.life}-${n++}`

for (const { name, did } of order.workers) {
  void again('item', order.pace.itemMs, async () => {
    if (underWay >= UNDER_WAY_MAX) return
    const session = await sessionWith(did)
    const item = nextId()
    const text = `${item} `.padEnd(Math.floor(randomFraction(systemRandom) * ITEM_BYTES_MAX))
    underWay++
    openChannel(session, CHANNEL)
      .send(new TextEncoder().encode(text))
      .then(
        () => tell({ kind: 'acked', to: name, item }),
        (error: unknown) => tell({ kind: 'failed', what: 'ack', code: codeOf(error) })
      )
      .finally(() => underWay--)
  })
  void again('state', order.pace.stateMs, async () => {
    const session = await sessionWith(did)
    await session.states.own.set('beat', ++beats)
  })
}
void again('find', order.pace.findMs, async () => {
  const { members } = await node.spaces.find({ name: SOAK_SPACE })
  if (members.length === 0) throw new RookeryError('NOBODY_FOUND', 'a search came back empty', { kind: 'unavailable' })
})
if (dozer === undefined)
  void again('mail', order.pace.mailMs, async () => {
    const messageId = nextId()
    await node.mail.post({
      from: caller,
      to: eidFromDid(order.dozer),
      message: { messageId, role: 'ROLE_USER', parts: [{ text: 'for when you wake' }] }
    })
    tell({ kind: 'mailed', messageId })
  })

// ── what the parent asks ──

/** The class of one listener of an EventTarget: `v8.queryObjects` counts those that are reachable. */
function listenerClass(): unknown {
  const target = new EventTarget()
  target.addEventListener('probe', () => {})
  for (const symbol of Object.getOwnPropertySymbols(target)) {
    const held = (target as unknown as Record<symbol, { get?(type: string): { next?: object } | undefined } | undefined>)[symbol]
    const first = typeof held?.get === 'function' ? held.get('probe')?.next : undefined
    if (first !== undefined) return first.constructor
  }
  return undefined
}
const Listener = listenerClass()
/** Counting walks the whole heap, so it is done for one sample in so many; the others tell the last count. */
const COUNT_EVERY = 4
let samples = 0
let counted = 0

function sample(): NodeSample {
  globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  const ofProcess = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0)
  if (samples++ % COUNT_EVERY === 0) counted = Listener === undefined ? getEventListeners(node.signal, 'abort').length : countOf(Listener)
  return {
    heapBytes: heapUsed + external,
    rssBytes: rss,
    resources: process.getActiveResourcesInfo().length,
    listeners: ofProcess + counted
  }
}

function countOf(type: unknown): number {
  return (v8 as unknown as { queryObjects(type: unknown, options: { format: 'count' }): number }).queryObjects(type, { format: 'count' })
}

async function audit(tasks: string[]): Promise<NodeAudit> {
  const items: string[] = []
  for await (const [id] of rows.entries({})) items.push(id)
  const mail: NodeAudit['mail'] = []
  if (dozer !== undefined) {
    let cursor: string | undefined
    do {
      const page = await node.todos.list({ agent: homeOf(dozer), limit: 100, ...(cursor === undefined ? {} : { cursor }) })
      for (const { history, id, state } of page.todos) mail.push({ messageId: String(history[0]?.messageId), taskId: id, state })
      cursor = page.next === '' ? undefined : page.next
    } while (cursor !== undefined)
  }
  const tasksMissing: string[] = []
  for (const id of tasks) if ((await node.todos.get(id)) === undefined) tasksMissing.push(id)
  const states: NodeAudit['states'] = []
  for (const { id } of node.sessions.list()) {
    const session = await node.sessions.get(id)
    if (session !== undefined) states.push({ session: id, own: beatOf(session.states.own), peer: beatOf(session.states.peer) })
  }
  return { items, mail, tasksMissing, states, underWay, outbox: node.mail.outbox.usage().waiting }
}

/** Absent where a state is lost and waits for its writer. */
function beatOf(state: State): number | undefined {
  if (state.status !== 'current') return undefined
  const value = state.get('beat')
  return typeof value === 'number' ? value : undefined
}

async function hour(after: 'asleep' | 'awake'): Promise<void> {
  if (dozer !== undefined) {
    await node.wake(dozer)
    await node.mail.fetch(dozer)
    await node.drain(dozer)
    if (after === 'asleep') await node.sleep(dozer)
  }
  await node.todos.sweep()
  await node.queue.sweep()
  await node.mail.sweep()
}

async function discover(threadsKilled: number): Promise<void> {
  let left = threadsKilled
  const end = (worker: Worker) => {
    if (left-- > 0) void worker.terminate()
  }
  process.on('worker', end)
  try {
    for await (const found of node.discover({ name: SOAK_SPACE }, { signal: AbortSignal.timeout(OPEN_MS * 2) })) {
      if (left <= 0 && found !== undefined) return
    }
    throw new RookeryError('NOBODY_FOUND', `nobody answered, ${threadsKilled - Math.max(0, left)} threads were ended`, {
      kind: 'unavailable'
    })
  } finally {
    process.off('worker', end)
  }
}

/** In turns, and slowly once there is little left, so that the node is still heard. */
function hog(): void {
  const held: unknown[] = []
  const more = () => {
    const { used_heap_size, heap_size_limit } = v8.getHeapStatistics()
    const count = used_heap_size > 0.7 * heap_size_limit ? 1_000 : 40_000
    for (let i = 0; i < count; i++) held.push({ i, text: `${i} bytes that nobody needs` })
    setTimeout(more, 20)
  }
  more()
}

async function carryOut(message: SoakOrder): Promise<void> {
  switch (message.kind) {
    case 'load':
      isLoading = message.state === 'on'
      return
    case 'space': {
      const agent = node.agents.get(WORKER)
      if (order.name === 'rock') await node.spaces.announce({ name: SOAK_SPACE, curator: agent })
      await node.spaces.join({ name: SOAK_SPACE, agent })
      return tell({ kind: 'done', id: message.id })
    }
    case 'members': {
      const { members } = await node.spaces.find({ name: SOAK_SPACE })
      return tell({ kind: 'members', id: message.id, count: members.length })
    }
    case 'sample':
      return tell({ kind: 'sample', id: message.id, sample: sample() })
    case 'audit':
      return tell({ kind: 'audit', id: message.id, audit: await audit(message.tasks) })
    case 'forget':
      await node.store.commit(message.items.map((id) => rows.del(id)))
      return tell({ kind: 'done', id: message.id })
    case 'discover':
      await discover(message.threadsKilled)
      return tell({ kind: 'done', id: message.id })
    case 'hog':
      return hog()
    case 'hour':
      await hour(message.after)
      return tell({ kind: 'done', id: message.id })
  }
}

process.on('message', (message: SoakOrder) => {
  carryOut(message).catch((error: unknown) => {
    if ('id' in message) tell({ kind: 'done', id: message.id, error: codeOf(error) })
  })
})

await openControl(node, order.directory, { observed })
const { url: opsUrl } = await openOps(node, { traffic, observed, logger })
const needsRestart = () => {
  const fault = node.host.fault?.()
  return fault?.needs === 'restart' ? fault.detail : undefined
}
const watch = new ProcessWatch(node, {
  jumped: () => node.clockJumped(),
  lost: { why: needsRestart, told: () => process.exit(EXIT_CODES.unavailable) }
})
watch.start()
const [listening] = node.host.addresses()
const tokenFile = node.agents.tokenFile(caller)
tell({
  kind: 'up',
  address: `${listening}/p2p/${node.peer}`,
  httpUrl: node.httpUrl ?? '',
  opsUrl,
  token: tokenFile === undefined ? '' : readFileSync(tokenFile, 'utf8').trim(),
  dids: Object.fromEntries(node.agents.list().map(({ name, did }) => [name, did]))
})
