import { toHex } from '../../protocol/bytes.ts'
import type { ExecutionRequirements } from '../../protocol/ecc/objects.ts'
import { eidFromDid, eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import { DeliveryRefused } from '../a2a/delivery-refused.ts'
import { isObject } from '../a2a/json-rpc.ts'
import { taskJson } from '../a2a/projection.ts'
import { outcomeOfRefusal } from '../a2a/send-message.ts'
import { needsOf } from '../config/contract.ts'
import type { Reloaded } from '../config/reload.ts'
import { diagnoseNetwork } from '../doctor/diagnose-network.ts'
import { examineNetwork } from '../doctor/examine-network.ts'
import { RookeryError } from '../errors.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { Json, JsonObject, Todo } from '../tasks/todo.ts'
import type { ControlContext, ControlHandlers } from './control-server.ts'
import { checkUntil, deliveryHandlers } from './delivery-handlers.ts'
import { discover } from './discover-handler.ts'
import { friendHandlers } from './friend-handlers.ts'
import { grantHandlers } from './grant-handlers.ts'
import { groupHandlers } from './group-handlers.ts'
import type { ControlParams, InboxEntry, QueueEntry } from './methods.ts'
import { agentView, nodeStatus } from './node-status.ts'
import { type OperatorParts, operatorHandlers } from './operator-handlers.ts'
import { outboxHandlers, outboxView } from './outbox-handlers.ts'
import { pointHandlers } from './point-handlers.ts'
import { pushHandlers } from './push-handlers.ts'
import { spaceHandlers } from './space-handlers.ts'
import { stateHandlers } from './state-handlers.ts'
import { taskHandlers, tellEvents } from './task-handlers.ts'
import { todoHandlers } from './todo-handlers.ts'

/** Reads the settings of a running node anew. @throws RookeryError as `loadConfig`; nothing is changed then */
export type Reload = () => Reloaded & { warnings: string[] }

const PREVIEW_CHARS = 200
const PAGE = 100
/** A person's answer is one claim and one commit; a node that dies between them frees the task after this. */
const BY_HAND_LEASE_MS = 30_000
const BY_HAND = 'control:'

/** The control API's methods over a running node. Each checks nothing twice: parameters were parsed by their schema. */
export function controlHandlers(node: RookeryNode, daemon: { reload?: Reload } & OperatorParts = {}): ControlHandlers {
  const options = ({ signal, progress }: ControlContext): PublishOptions => ({
    signal: AbortSignal.any([signal, node.signal]),
    onProgress: progress
  })
  return {
    ...deliveryHandlers(node, options),
    ...spaceHandlers(node, options),
    ...pointHandlers(node, options),
    ...stateHandlers(node),
    ...groupHandlers(node),
    ...operatorHandlers(node, daemon),
    ...outboxHandlers(node),
    ...todoHandlers(node),
    ...taskHandlers(node),
    ...grantHandlers(node),
    ...friendHandlers(node),
    ...pushHandlers(node),
    discover: (params, context) => discover(node, params, context),
    status: () => nodeStatus(node),
    async 'doctor.network'(_params, context) {
      const signal = AbortSignal.any([context.signal, node.signal])
      const facts = await examineNetwork({ node, signal, onProgress: (text) => context.progress(text) })
      return { findings: diagnoseNetwork(facts), facts }
    },
    backup: ({ file, passphrase }, context) => node.backUp({ file, passphrase }, options(context)),
    disk: (_params, context) => node.diskUse(options(context)),
    compact: (_params, context) => node.compact(options(context)),
    async 'config.reload'() {
      if (daemon.reload !== undefined) return daemon.reload()
      throw new RookeryError('RELOAD_UNSUPPORTED', 'this node was not started from settings files', {
        kind: 'unavailable',
        remedy: 'restart the program that runs it'
      })
    },
    async stop(_params, context) {
      context.afterAnswer(() => void node.stop())
      return { stopping: true }
    },
    async 'agent.add'(params, context) {
      return await agentView(node, await node.addAgent(params, options(context)))
    },
    'agent.list': () => Promise.all(node.agents.list().map((agent) => agentView(node, agent))),
    async 'agent.rotate'({ name }, context) {
      const agent = node.agents.get(name)
      const { old, unacknowledged } = await node.rotate(agent, options(context))
      return { ...(await agentView(node, agent)), oldDid: old, unacknowledged }
    },
    async resolve({ did, fresh = false }, context) {
      const { mailboxKey, ...view } = await node.locators.resolve(eidFromDid(did), { ...options(context), fresh })
      return { ...view, mailboxKeyHex: toHex(mailboxKey) }
    },
    async 'session.open'({ agent, did, contract, exclusive }, context) {
      const session = await node.openSession(node.agents.get(agent), node.agents.eidOf(did), {
        ...options(context),
        ...(contract === undefined ? {} : { contract: needsOf(contract) }),
        ...(exclusive === undefined ? {} : { exclusive })
      })
      return session.info()
    },
    'session.list': () => node.sessions.listAll(),
    'session.show': async ({ id }) => (await node.session(id)).details(),
    async 'session.close'({ id }, context) {
      const session = await node.session(id)
      await session.close({ signal: context.signal })
      return { id }
    },
    send: (params, context) => send(node, params, context),
    'inbox.list': (params) => inboxList(node, params),
    'inbox.show': async ({ id }) => shown(await todoOf(node, id)),
    async 'inbox.complete'({ id, text }) {
      const holder = await claimByHand(node, id)
      const artifacts: JsonObject[] = text === undefined ? [] : [{ artifactId: 'answer', parts: [{ text }] }]
      return shown(await node.todos.complete(id, holder, artifacts))
    },
    async 'inbox.fail'({ id, reason }) {
      const holder = await claimByHand(node, id)
      return shown(await node.todos.fail(id, holder, reason))
    },
    'inbox.approve': async ({ id, verdict }) => shown(await node.todos.approve(id, verdict)),
    async sleep({ agent, untilMs }, context) {
      const hosted = node.agents.get(agent)
      checkUntil(untilMs, node.clock.nowMs())
      await node.sleep(hosted, { ...options(context), untilMs })
      return await agentView(node, hosted)
    },
    async wake({ agent, clock }, context) {
      const hosted = node.agents.get(agent)
      if (clock === 'trusted') await node.trustClock()
      const drain = await node.wake(hosted, options(context))
      return { ...(await agentView(node, hosted)), drain }
    },
    async standing({ did, limit }, context) {
      if (did === undefined) return node.evidence.list(limit === undefined ? {} : { limit })
      const eid = node.agents.eidOf(did)
      context.progress('asking the registrars')
      await node.evidence.check(eid, { signal: context.signal })
      return [node.evidence.view(eid)]
    },
    async 'queue.list'({ agent, limit }): Promise<QueueEntry[]> {
      const records = await node.queue.list(homeOf(node.agents.get(agent)), limit === undefined ? {} : { limit })
      return records.map(({ key, issuer, objectId, principal, object, enqueuedAtMs, expiresAtMs }) => ({
        key,
        issuer: issuer === '' ? '' : eidToDid(toEid(Uint8Array.from(Buffer.from(issuer, 'hex')))),
        objectId,
        principal,
        bytes: object.length,
        enqueuedAtMs,
        expiresAtMs
      }))
    }
  }
}

async function send(node: RookeryNode, params: ControlParams<'send'>, context: ControlContext) {
  const { agent, to, text, files = [], data, waitMs, via, ttlMs, require: wanted, messageId = crypto.randomUUID() } = params
  const parts: JsonObject[] = []
  if (text !== undefined) parts.push({ text })
  for (const file of files) parts.push({ raw: file.base64, filename: file.name, mediaType: file.mediaType })
  if (data !== undefined) parts.push({ data: data as Json })
  if (parts.length === 0) {
    throw new RookeryError('MESSAGE_EMPTY', 'a message needs a text, a file or data', {
      kind: 'usage',
      field: 'text',
      remedy: 'give at least one of text, files and data'
    })
  }
  const from = node.agents.get(agent)
  const startedMs = node.clock.monotonicMs()
  const message: JsonObject = { messageId, role: 'ROLE_USER', parts }
  const elapsedMs = () => Math.round(node.clock.monotonicMs() - startedMs)
  const requirements = wanted === undefined ? undefined : ({ version: '1.0', ...wanted } as unknown as ExecutionRequirements)
  if (params.stream === true) return { messageId, ...(await streamed(node, params, message, context)), elapsedMs: elapsedMs() }
  if (via === 'outbox') {
    const eid = node.agents.eidOf(to)
    const bound = requirements === undefined ? undefined : await node.bindExecution({ from, to: eid, message }, requirements, context)
    const entry = await node.mail.post({ from, to: eid, message: bound?.message ?? message, ttlMs })
    return { messageId, outcome: 'outbox' as const, outbox: outboxView(node, entry), elapsedMs: elapsedMs() }
  }
  context.progress('sending')
  const outcome = await node.send(
    { from, to: node.agents.eidOf(to), message },
    {
      signal: context.signal,
      require: requirements,
      ttlMs,
      ...(waitMs === undefined ? {} : { waitMs }),
      ...(via === undefined ? {} : { via })
    }
  )
  return { messageId, ...outcome, elapsedMs: elapsedMs() }
}

/** A send whose task is told event by event. One that sleeps is told as by a plain send. */
async function streamed(node: RookeryNode, params: ControlParams<'send'>, message: JsonObject, context: ControlContext) {
  const others = (['via', 'waitMs', 'require', 'ttlMs'] as const).filter((name) => params[name] !== undefined)
  if (others[0] !== undefined) {
    throw new RookeryError('STREAM_WITH_OTHER', `a stream goes with none of via, waitMs, require and ttlMs`, {
      kind: 'usage',
      field: others[0],
      value: params[others[0]],
      remedy: 'leave it out, or send without a stream'
    })
  }
  const from = node.agents.get(params.agent)
  const to = node.agents.eidOf(params.to)
  let id: string | undefined
  let answer: JsonObject | undefined
  try {
    const { signal } = context
    const stream = await node.askForStream({ from, to, method: 'SendStreamingMessage', params: { message } }, { signal })
    await tellEvents(stream, context, ({ response }) => {
      if (isObject(response.task)) id = response.task.id as string
      if (isObject(response.message)) answer = response.message
    })
    if (answer !== undefined) return { outcome: 'message' as const, message: answer }
    if (id === undefined) return { outcome: 'task' as const }
    const task = await node.ask({ from, to, method: 'GetTask', params: { id, historyLength: 0 } }, { signal })
    return { outcome: 'task' as const, task: task as JsonObject }
  } catch (error) {
    if (error instanceof DeliveryRefused) return outcomeOfRefusal(error, { to, message })
    throw error
  }
}

async function inboxList(node: RookeryNode, { agent, state, limit = 50 }: ControlParams<'inbox.list'>): Promise<InboxEntry[]> {
  const hosted = agent === undefined ? undefined : node.agents.get(agent)
  const names = new Map(node.agents.list().map((one) => [homeOf(one), one.name]))
  const entries: InboxEntry[] = []
  let cursor: string | undefined
  do {
    const page = await node.todos.list({
      limit: Math.min(PAGE, limit - entries.length),
      ...(hosted === undefined ? {} : { agent: homeOf(hosted) }),
      ...(state === undefined ? {} : { state }),
      ...(cursor === undefined ? {} : { cursor })
    })
    entries.push(...page.todos.map((todo) => entryOf(todo, names.get(todo.agent) ?? todo.agent)))
    cursor = page.next
  } while (cursor !== undefined && cursor !== '' && entries.length < limit)
  return entries
}

function entryOf(todo: Todo, agent: string): InboxEntry {
  const { id, caller, state, door, createdAtMs, changedAtMs, approval, failure } = todo
  return {
    id,
    agent,
    caller,
    state,
    door,
    createdAtMs,
    changedAtMs,
    ...(approval === undefined ? {} : { approval }),
    ...(failure === undefined ? {} : { failure }),
    preview: previewOf(todo.history.at(-1))
  }
}

function previewOf(message: JsonObject | undefined): string {
  const parts = Array.isArray(message?.parts) ? message.parts : []
  const texts = parts.map((part) => (typeof part === 'object' && part !== null && !Array.isArray(part) ? part.text : undefined))
  return texts
    .filter((text) => typeof text === 'string')
    .join(' ')
    .slice(0, PREVIEW_CHARS)
}

async function todoOf(node: RookeryNode, id: string): Promise<Todo> {
  const todo = await node.todos.get(id)
  if (todo !== undefined) return todo
  throw new RookeryError('TODO_UNKNOWN', `no task has the id ${id}`, {
    kind: 'notFound',
    field: 'id',
    value: id,
    remedy: 'list them with `rookery inbox`'
  })
}

/** @throws RookeryError `TODO_UNKNOWN`, `TODO_NOT_PENDING` */
async function claimByHand(node: RookeryNode, id: string): Promise<string> {
  const held = await todoOf(node, id)
  const holder = `${BY_HAND}${toHex(node.random.bytes(8))}`
  if ((await node.todos.claimOne(id, holder, { leaseMs: BY_HAND_LEASE_MS })) !== undefined) return holder
  const now = await todoOf(node, id)
  throw new RookeryError('TODO_NOT_PENDING', `the task ${id} is ${now.state}, so it cannot be answered by hand`, {
    kind: 'conflict',
    field: 'id',
    value: id,
    remedy: held.approval === 'needed' ? 'approve it first with `rookery inbox approve`' : 'only a pending task can be answered by hand'
  })
}

function shown(todo: Todo): { todo: Todo; task: JsonObject } {
  return { todo, task: taskJson(todo) }
}
