import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { MODE_WORDS, modeOf, type ReachabilityMode, type WakeWindow } from '../../protocol/delivery/modes.ts'
import { NAME_CHARS_MAX } from '../../protocol/discovery/names.ts'
import { POINT_ACCESS } from '../../protocol/discovery/point-messages.ts'
import type { BackupReport } from '../backup/backup.ts'
import type { CompactReport, DiskUse } from '../care/disk-use.ts'
import { contractNeeds } from '../config/contract.ts'
import type { Reloaded } from '../config/reload.ts'
import type { DrainReport, QueueBounds, QueueUsage } from '../delivery/asleep-queue.ts'
import { ATTACH_LEASE_MAX_MS, ATTACH_LEASE_MIN_MS } from '../delivery/attachments.ts'
import type { QueueExport, QueueRecordView } from '../delivery/queue-files.ts'
import type { DiscoveryPath, FoundAnonymously } from '../discovery/discover.ts'
import type { NetworkFinding } from '../doctor/diagnose-network.ts'
import type { NetworkFacts } from '../doctor/network-facts.ts'
import type { ExecutionStanding } from '../ecc/required-execution.ts'
import { RookeryError } from '../errors.ts'
import type { StandingView } from '../evidence/evidence.ts'
import type { LocalPointView } from '../local/local-points.ts'
import type { ReachabilityReport } from '../net/reachability.ts'
import type { BoundUse } from '../ops/bounds.ts'
import type { OwnPointView, PointView } from '../points/points.ts'
import type { SessionInfo } from '../sessions/session.ts'
import type { SessionDetails } from '../sessions/session-details.ts'
import type { RegistrarReport } from '../spaces/registrar-book.ts'
import type {
  FindResult,
  HandOverView,
  LocatorView,
  MemberView,
  OwnSpaceView,
  PruneView,
  PutCounts,
  SpaceDetails,
  SpaceView
} from '../spaces/spaces.ts'
import type { StoreState } from '../store/store.ts'
import { JSON_DEPTH_MAX, tooDeep } from '../tasks/json-bounds.ts'
import type { Json, JsonObject, Todo, TodoState } from '../tasks/todo.ts'
import type { WorkProgress } from '../work/work-solver.ts'
import { FRIEND_PARAMS, type FriendResults } from './friend-methods.ts'
import { GRANT_PARAMS, type GrantResults } from './grant-methods.ts'
import { GROUP_PARAMS, type GroupResults } from './group-methods.ts'
import { OPERATOR_PARAMS, type OperatorResults } from './operator-methods.ts'
import { OUTBOX_PARAMS, type OutboxResults, type OutboxView } from './outbox-methods.ts'
import { PUSH_PARAMS, type PushResults } from './push-methods.ts'
import { STATE_PARAMS, type StateResults } from './state-methods.ts'
import { TASK_PARAMS, type TaskResults } from './task-methods.ts'
import { TODO_PARAMS, type TodoResults } from './todo-methods.ts'

/** Bounds of the control API; a request above one is refused with the bound's name. */
export const CONTROL_BOUNDS = {
  /** one request's JSON, base64 of files included */
  requestBytesMax: 8 * 1_048_576,
  /** progress lines and result of one answer, as the client accepts them */
  responseBytesMax: 64 * 1_048_576,
  callsMax: 64,
  filesMax: 16,
  listMax: 1_000,
  waitMsMax: 10 * 60_000
} as const

const TODO_STATES = [
  'pending',
  'claimed',
  'input-required',
  'auth-required',
  'done',
  'failed',
  'canceled',
  'rejected'
] as const satisfies readonly TodoState[]

const agentRef = z.string().min(1).max(64).optional()
const did = z.string().min(1).max(80)
const spaceName = z.string().min(1).max(NAME_CHARS_MAX)
const todoId = z.string().min(1).max(128)
const sessionId = z.string().regex(/^[0-9a-f]{32}$/, 'must be a session id: 32 hex digits, see session.list')
const tags = z.array(z.string().min(1).max(64)).max(16)
const mode = z.enum(MODE_WORDS).transform((name) => modeOf(name) as ReachabilityMode)
const pointTag = z.string().min(1).max(64)
const leaseMs = z.int().min(ATTACH_LEASE_MIN_MS).max(ATTACH_LEASE_MAX_MS).optional()
const leaseId = z.string().regex(/^[0-9a-f]{32}$/, 'must be the id that agent.attach gave')
const queued = z.string().min(4).max(128)
const seeds = z.array(z.string().min(1).max(128)).max(8)
const limit = z.int().min(1).max(CONTROL_BOUNDS.listMax)
const window = z.strictObject({
  periodSec: z
    .int()
    .min(60)
    .max(7 * 86_400),
  openSec: z
    .int()
    .min(1)
    .max(7 * 86_400),
  /** absent: spread over the period by the agent's EID (OD-49) */
  offsetSec: z
    .int()
    .min(0)
    .max(7 * 86_400)
    .optional()
})

/** The one rule for local names of agents, in files, flags and the API. */
export const AGENT_NAME = /^[a-z0-9][a-z0-9-]{0,31}$/
const agentName = z
  .string()
  .regex(AGENT_NAME, 'must be 1 to 32 characters of a-z, 0-9 and "-", the first no "-"; for example "weather-bot"')

/** `manual` leaves a task in the inbox for a person or a program; `echo` and `digest` are built in. */
export const BUILTIN_HANDLERS = ['manual', 'echo', 'digest'] as const
/** What a local agent does with a task: a built-in, or the absolute path of an ES module whose default export handles it. */
export type HandlerName = string
export const handlerName = z
  .string()
  .max(4_096)
  .refine(
    (value) => BUILTIN_HANDLERS.some((one) => one === value) || (isAbsolute(value) && /\.(mjs|js|mts|ts)$/.test(value)),
    `must be one of ${BUILTIN_HANDLERS.join(', ')}, or the absolute path of an ES module (.mjs, .js, .mts, .ts)`
  )

/** Every control method's parameters. Unknown members are refused. */
export const CONTROL_PARAMS = {
  status: z.strictObject({}),
  'doctor.network': z.strictObject({}),
  'config.reload': z.strictObject({}),
  /** what the data directory holds; reads the whole store */
  disk: z.strictObject({}),
  /** rewrites the store without what was deleted or replaced; the node goes on */
  compact: z.strictObject({}),
  backup: z.strictObject({ file: z.string().min(1).max(4_096), passphrase: z.string().min(8).max(4_096).optional() }),
  stop: z.strictObject({}),
  'agent.add': z.strictObject({
    name: agentName,
    description: z.string().max(1_024).optional(),
    handler: handlerName.optional(),
    mode: mode.optional(),
    window: window.optional()
  }),
  'agent.list': z.strictObject({}),
  /** gives it another EID; name, token, tasks, queue and mailbox stay */
  'agent.rotate': z.strictObject({ name: agentName }),
  'space.announce': z.strictObject({
    name: spaceName,
    agent: agentRef,
    description: z.string().max(256).optional(),
    seeds: seeds.optional(),
    /** as many parts at least, for a space that is known to be big */
    shards: z.int().min(1).max(256).optional()
  }),
  /** what is left out stays as it is */
  'space.update': z.strictObject({
    name: spaceName,
    agent: agentRef,
    description: z.string().max(256).optional(),
    seeds: seeds.optional()
  }),
  /** `to`: the DID of another curator, or "nobody" to take an offer back */
  'space.handover': z.strictObject({ name: spaceName, agent: agentRef, to: did }),
  'space.tombstone': z.strictObject({ name: spaceName, agent: agentRef }),
  /** Unix ms; "shown": the member is listed again */
  'space.prune': z.strictObject({
    name: spaceName,
    agent: agentRef,
    member: did,
    untilMs: z.union([z.int().min(0), z.literal('shown')]).optional()
  }),
  'space.show': z.strictObject({ name: spaceName }),
  /** `curator`: a DID, or "nobody" to forget whom this node follows */
  'space.trust': z.strictObject({ name: spaceName, curator: did }),
  'space.join': z.strictObject({
    name: spaceName,
    agent: agentRef,
    tags: tags.optional(),
    listing: z.enum(['listed', 'unlisted']).optional()
  }),
  'space.leave': z.strictObject({ name: spaceName, agent: agentRef }),
  'space.list': z.strictObject({}),
  /** without `limit` in pages: `after` is the `next` of the page before, and 1,000 a page's size by default */
  find: z.strictObject({
    name: spaceName,
    tags: tags.optional(),
    mode: mode.optional(),
    limit: limit.optional(),
    page: z.strictObject({ size: limit, after: z.string().min(1).max(400).optional() }).optional()
  }),
  /** anonymous: nobody is shown who searches. Tells {@link DiscoverEventView} on the way */
  discover: z.strictObject({
    name: spaceName.optional(),
    point: z.strictObject({ did, tag: z.string().min(1).max(64) }).optional(),
    tags: tags.optional(),
    mode: mode.optional(),
    minReputation: z.int().min(0).max(100).optional(),
    want: z.enum(['records', 'contact', 'both']).optional(),
    fanOut: z.int().min(1).max(16).optional(),
    shards: z.int().min(1).max(256).optional()
  }),
  'point.add': z.strictObject({
    agent: agentRef,
    tag: pointTag,
    access: z.enum(POINT_ACCESS).default('open'),
    value: z.json(),
    trust: z.array(did).max(64).optional()
  }),
  'point.remove': z.strictObject({ agent: agentRef, tag: pointTag }),
  'point.list': z.strictObject({}),
  /** the secret is shown this once */
  'point.grant': z.strictObject({
    agent: agentRef,
    tag: pointTag,
    ttlMs: z
      .int()
      .min(1_000)
      .max(366 * 86_400_000)
  }),
  'point.revoke': z.strictObject({
    agent: agentRef,
    tag: pointTag,
    id: z.string().regex(/^[0-9a-f]{16}$/, 'must be a grant’s id, see point.list')
  }),
  'localPoint.add': z.strictObject({
    agent: agentRef,
    tag: pointTag,
    access: z.enum(['open', 'trust']).default('open'),
    value: z.json(),
    trust: z.array(did).max(64).optional()
  }),
  'localPoint.remove': z.strictObject({ agent: agentRef, tag: pointTag }),
  'localPoint.list': z.strictObject({}),
  'localPoint.read': z.strictObject({ agent: agentRef, did, tag: pointTag }),
  'point.show': z.strictObject({ did, tag: pointTag }),
  'point.read': z.strictObject({
    agent: agentRef,
    did,
    tag: pointTag,
    grant: z
      .string()
      .regex(/^[\w-]{43}$/, 'must be what point.grant gave')
      .optional()
  }),
  /** `fresh`: ask the network, also where an answer is remembered */
  resolve: z.strictObject({ did, fresh: z.boolean().optional() }),
  /** `contract`: ask for one that grants at least this; without members any will do. `exclusive`: ask for an ESE pair that no other session shares */
  'session.open': z.strictObject({ agent: agentRef, did, contract: contractNeeds.optional(), exclusive: z.boolean().optional() }),
  'session.list': z.strictObject({}),
  /** a session with a connection is pinged for its round-trip time */
  'session.show': z.strictObject({ id: sessionId }),
  'session.close': z.strictObject({ id: sessionId }),
  send: z.strictObject({
    agent: agentRef,
    /** did:key of anyone, or the name of an agent of this node */
    to: z.string().min(1).max(80),
    text: z.string().optional(),
    files: z
      .array(
        z.strictObject({
          name: z.string().min(1).max(255),
          mediaType: z
            .string()
            .regex(/^[\w.+-]+\/[\w.+-]+$/, 'must be a media type such as "text/plain"')
            .max(128),
          base64: z.base64('must be base64 (RFC 4648 §4, with padding)')
        })
      )
      .max(CONTROL_BOUNDS.filesMax)
      .optional(),
    data: z.json().optional(),
    messageId: z.string().min(1).max(128).optional(),
    /** how long to wait for the task to end; 0: answer once it is accepted. Default 30 s */
    waitMs: z.int().min(0).max(CONTROL_BOUNDS.waitMsMax).optional(),
    /** `mailbox`: straight into the asleep queue of an agent that sleeps, as a governed object, without asking it to handle the message */
    via: z.enum(['live', 'mailbox', 'outbox']).optional(),
    /** tells every event of the task as it comes (`TaskEventView`), and answers after its last; not with `via`, `waitMs`, `require` and `ttlMs` */
    stream: z.literal(true).optional(),
    /** execution requirements (docs/edge-cloud-contract.md); without `version`, which is 1.0 */
    require: z.record(z.string(), z.json()).optional(),
    /** wherever it waits, it ends after so long; with `outbox` it is no longer tried either; default: the longest */
    ttlMs: z.int().min(1_000).optional()
  }),
  'inbox.list': z.strictObject({ agent: agentRef, state: z.enum(TODO_STATES).optional(), limit: limit.optional() }),
  'inbox.show': z.strictObject({ id: todoId }),
  'inbox.complete': z.strictObject({ id: todoId, text: z.string().optional() }),
  'inbox.fail': z.strictObject({ id: todoId, reason: z.string().min(1).max(1_024) }),
  'inbox.approve': z.strictObject({ id: todoId, verdict: z.enum(['given', 'refused']) }),
  sleep: z.strictObject({
    agent: agentRef,
    /** Unix ms */
    untilMs: z.int().min(0).optional()
  }),
  wake: z.strictObject({
    agent: agentRef,
    /** the owner vouches for the clock as it is, though the disk knows a later time (G-10) */
    clock: z.literal('trusted').optional()
  }),
  /** how an agent can be reached from now on; what is absent stays as it was */
  'mode.set': z.strictObject({
    agent: agentRef,
    mode,
    window: window.optional(),
    /** of `sleep`, Unix ms */
    untilMs: z.int().min(0).optional(),
    queueing: z.enum(['on', 'off']).optional()
  }),
  /** a process of the agent is at work: renew before the lease ends (G-16) */
  'agent.attach': z.strictObject({ agent: agentRef, leaseMs }),
  'agent.renew': z.strictObject({ id: leaseId, leaseMs }),
  'agent.detach': z.strictObject({ id: leaseId }),
  'queue.list': z.strictObject({ agent: agentRef, limit: limit.optional() }),
  /** `object`: a key, an object id, or the beginning of one */
  'queue.show': z.strictObject({ agent: agentRef, object: queued }),
  /** drops one, or with `all` whatever waits */
  'queue.drop': z.strictObject({ agent: agentRef, object: queued.optional(), all: z.literal(true).optional() }),
  /** looks again at what waits, and at rows that were set aside */
  'queue.retry': z.strictObject({ agent: agentRef }),
  /** writes what waits, sealed as it is, into the data directory */
  'queue.export': z.strictObject({ agent: agentRef }),
  ...STATE_PARAMS,
  ...GROUP_PARAMS,
  ...OPERATOR_PARAMS,
  ...OUTBOX_PARAMS,
  ...TODO_PARAMS,
  ...TASK_PARAMS,
  ...GRANT_PARAMS,
  ...PUSH_PARAMS,
  ...FRIEND_PARAMS,
  /** with `did` (or the name of an agent of this node): that one, after asking its registrars */
  standing: z.strictObject({ did: did.optional(), limit: limit.optional() })
} as const

export type ControlMethod = keyof typeof CONTROL_PARAMS
export type ControlParams<M extends ControlMethod> = z.infer<(typeof CONTROL_PARAMS)[M]>

export interface AgentView {
  name: string
  did: string
  description: string
  handler: HandlerName
  /** why the handler is not at work: its tasks wait */
  handlerFault?: { code: string; message: string }
  /** without a name in a call, this one is meant */
  isDefault: boolean
  mode: ReachabilityMode
  window?: WakeWindow
  untilMs?: number
  /** nothing is kept for it while it sleeps */
  queueing?: 'off'
  /** processes that hold a lease (G-16); a handler inside the node counts beside them */
  attached: number
  /** whether it takes work now, and when it does again where that is known */
  reachable: { now: 'accepts' | 'asleep'; retryAfterSec?: number }
  queue: QueueUsage
  /** the agent's A2A endpoint on loopback, where HTTP is served */
  url?: string
  /** the file that holds the token for that endpoint */
  tokenFile?: string
}

export interface NodeStatus {
  node: { peer: string; version: string; pid: number; startedAtMs: number; uptimeMs: number; dataDir: string }
  /** `isolated`: no peer answers; what was announced is not seen by anyone */
  network: 'isolated' | 'connected'
  /** what is wrong with the sockets of the network, in words; absent: nothing that is known */
  networkFault?: string
  /** setting `network`: whether private addresses are dialled and published */
  scope: 'lan' | 'public'
  addresses: string[]
  /** how others reach this node; absent in memory */
  reachability?: ReachabilityReport
  peers: number
  routingTableSize: number
  dhtMode: 'client' | 'server'
  /** registrars that hid entries which they took, or served what nobody signed, within the last day; the latest fault first */
  faultyRegistrars: RegistrarReport[]
  /** the modes that this software offers an agent (OD-04) */
  modesOffered: ReachabilityMode[]
  agents: AgentView[]
  sessions: number
  /** whether the data directory takes writes (F065, F070) */
  store: StoreState
  /** rows of asleep queues that could not be read and were set aside since the start */
  queueDamaged: number
  /** messages that our agents undertook to deliver, those not delivered yet among them, and bytes */
  outbox: { messages: number; waiting: number; bytes: number }
  /** friend requests that wait for the owner's answer */
  friendRequests: number
  /** for whom this node holds sealed mail, until when it does so without being asked again, and how much it granted (G-18) */
  keeping: { did: string; messages: number; bytes: number; bounds: QueueBounds; untilMs: number }[]
  /** why no queue is handed over now: the clock reads too early (G-10) */
  drainHeld?: string
  spaces: { role: 'curator' | 'member'; agent: string; name: string; expiresAtMs: number }[]
  http: { url: string } | undefined
  /** health, metrics and dashboard for the operator */
  ops: { url: string } | undefined
  /** every bound in force, by setting name (OD-30) */
  bounds: Record<string, number>
  /** bounds of the whole node that what others do has filled to nine tenths or more; absent: none */
  boundsNear?: BoundUse[]
}

/** What is wrong with the node's network, the worst first, and all that was looked at. */
export interface NetworkReport {
  findings: NetworkFinding[]
  facts: NetworkFacts
}

/** A Todo without what it carries. */
export interface InboxEntry {
  id: string
  agent: string
  caller: string
  state: TodoState
  door: Todo['door']
  createdAtMs: number
  changedAtMs: number
  approval?: Todo['approval']
  failure?: string
  /** first 200 characters of the newest message's text */
  preview: string
}

export interface SendResult {
  messageId: string
  /**
   * `task`: accepted, `task` holds it; `queued`: the agent sleeps and its node has the message on disk; `asleep`: it sleeps and nothing
   * was queued; `queue-full`: a bound of its queue, `asleep.kind`; `message`: it answered directly; `outbox`: on disk here, and tried until it is delivered or ends
   */
  outcome: 'task' | 'message' | 'queued' | 'asleep' | 'queue-full' | 'outbox'
  outbox?: OutboxView
  /** A2A Task */
  task?: JsonObject
  /** A2A Message */
  message?: JsonObject
  /** what became of the execution requirements */
  execution?: ExecutionStanding
  asleep?: { status: 503 | 507 | 429; queued: boolean; retryAfterSec?: number; kind?: 'messages' | 'bytes' | 'peer'; message?: string }
  elapsedMs: number
}

export interface AttachmentView {
  id: string
  agent: string
  leaseMs: number
}

/** A queued object by its name and size; the control API never returns its bytes (OD-50). */
export interface QueueEntry {
  key: string
  issuer: string
  objectId: string
  principal: string
  bytes: number
  enqueuedAtMs: number
  expiresAtMs: number
}

export interface ControlResults
  extends StateResults,
    GroupResults,
    OperatorResults,
    OutboxResults,
    TodoResults,
    TaskResults,
    GrantResults,
    PushResults,
    FriendResults {
  status: NodeStatus
  'doctor.network': NetworkReport
  backup: BackupReport
  disk: DiskUse
  compact: CompactReport
  'config.reload': Reloaded & { warnings: string[] }
  /** answered before the node stops */
  stop: { stopping: true }
  'agent.add': AgentView
  'agent.list': AgentView[]
  /** `unacknowledged`: former identities that some session still goes by; their secrets go within a day */
  'agent.rotate': AgentView & { oldDid: string; unacknowledged: number }
  'space.announce': SpaceView & PutCounts
  'space.update': SpaceView & PutCounts
  'space.handover': HandOverView
  'space.tombstone': { name: string }
  'space.prune': PruneView
  'space.show': SpaceDetails
  'space.trust': { name: string; curator?: string }
  'space.join': MemberView & PutCounts
  'space.leave': { name: string }
  'space.list': OwnSpaceView[]
  find: FindResult
  discover: DiscoverResult
  'point.add': OwnPointView & { stored: number; asked: number }
  'point.remove': { tag: string }
  'point.list': OwnPointView[]
  'point.grant': { tag: string; grant: string; expiresAtMs: number }
  'point.revoke': { tag: string; id: string }
  'localPoint.add': LocalPointView
  'localPoint.remove': { tag: string }
  'localPoint.list': LocalPointView[]
  'localPoint.read': { did: string; tag: string; value: Json }
  'point.show': PointView
  'point.read': { did: string; tag: string; value: Json }
  resolve: Omit<LocatorView, 'mailboxKey'> & { mailboxKeyHex: string }
  'session.open': SessionInfo
  'session.list': SessionInfo[]
  'session.show': SessionDetails
  'session.close': { id: string }
  send: SendResult
  'inbox.list': InboxEntry[]
  'inbox.show': { todo: Todo; task: JsonObject }
  'inbox.complete': { todo: Todo; task: JsonObject }
  'inbox.fail': { todo: Todo; task: JsonObject }
  'inbox.approve': { todo: Todo; task: JsonObject }
  sleep: AgentView
  wake: AgentView & { drain: DrainReport }
  'mode.set': AgentView
  'agent.attach': AttachmentView
  'agent.renew': AttachmentView
  'agent.detach': { id: string; detached: boolean }
  'queue.list': QueueEntry[]
  'queue.show': QueueRecordView
  'queue.drop': { dropped: number; bytes: number }
  'queue.retry': DrainReport & { restored: number }
  'queue.export': QueueExport
  standing: StandingView[]
}

export type ControlMethods = { [M in ControlMethod]: { params: ControlParams<M>; result: ControlResults[M] } }

/** An agent that an anonymous search found. */
export type DiscoveredView = Omit<FoundAnonymously, 'eid'>

export interface DiscoverResult {
  found: DiscoveredView[]
  /** how the request travelled; undefined where it was not sent */
  path?: DiscoveryPath
  /** bits of work that it carried, and what they cost */
  difficulty: number
  tries: number
  elapsedMs: number
}

/** What `discover` tells before its result. */
export type DiscoverEventView =
  | { kind: 'solving'; progress: WorkProgress }
  | { kind: 'sent'; path: DiscoveryPath; difficulty: number }
  | { kind: 'parts'; shards: number }
  | { kind: 'harder'; difficulty: number }
  | { kind: 'found'; found: DiscoveredView }

/** One line of an answer, NDJSON: any number of `progress` and `event`, then exactly one of the other two. */
export type ControlLine = { progress: string } | { event: Json } | { result: Json } | { error: Json }

/**
 * @throws RookeryError `METHOD_UNKNOWN`, `PARAMS_INVALID` with field, value and remedy
 */
export function parseControlCall(method: unknown, params: unknown): { method: ControlMethod; params: ControlParams<ControlMethod> } {
  if (typeof method !== 'string' || !Object.hasOwn(CONTROL_PARAMS, method)) {
    throw new RookeryError('METHOD_UNKNOWN', `there is no control method ${shown(method)}`, {
      kind: 'usage',
      field: 'method',
      value: shortened(method),
      remedy: `known methods: ${Object.keys(CONTROL_PARAMS).join(', ')}; a newer command line needs a newer node: restart the node`
    })
  }
  if (tooDeep(params as Json)) {
    throw new RookeryError('PARAMS_INVALID', `${method}: the parameters nest deeper than ${JSON_DEPTH_MAX}`, {
      kind: 'usage',
      field: 'params',
      remedy: 'send flatter data'
    })
  }
  const parsed = CONTROL_PARAMS[method as ControlMethod].safeParse(params ?? {})
  if (!parsed.success) {
    const { field, value, message } = firstIssue(parsed.error, params)
    throw new RookeryError('PARAMS_INVALID', `${method}: ${field === '' ? 'parameters' : field} ${message}`, {
      kind: 'usage',
      ...(field === '' ? {} : { field }),
      ...(value === undefined ? {} : { value }),
      remedy: `give ${field === '' ? 'the parameters' : `"${field}"`} as described by \`rookery ${method.replace('.', ' ')} --help\``
    })
  }
  return { method: method as ControlMethod, params: parsed.data as ControlParams<ControlMethod> }
}

/** The first thing zod minds, as field path, shortened value and a sentence's end. */
export function firstIssue(error: z.ZodError, input: unknown): { field: string; value: unknown; message: string } {
  const issue = error.issues[0]
  if (issue === undefined) return { field: '', value: undefined, message: 'is invalid' }
  const path = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] ?? ''] : issue.path
  const field = path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`),
    ''
  )
  let value: unknown = input
  for (const part of path) value = typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[part] : undefined
  return { field, value: shortened(value), message: issueText(issue, value) }
}

function issueText(issue: z.core.$ZodIssue, value: unknown): string {
  switch (issue.code) {
    case 'unrecognized_keys':
      return 'is not a known name here'
    case 'invalid_type':
      return value === undefined ? `is missing (${issue.expected})` : `must be of type ${issue.expected}`
    case 'invalid_value':
      return `must be one of ${issue.values.map((one) => JSON.stringify(one)).join(', ')}`
    case 'too_small':
      return `must be at least ${issue.minimum}${unit(issue.origin)}`
    case 'too_big':
      return `must be at most ${issue.maximum}${unit(issue.origin)}`
    default:
      return issue.message
  }
}

function unit(origin: string): string {
  return origin === 'string' ? ' characters long' : origin === 'array' ? ' entries long' : ''
}

function shortened(value: unknown): unknown {
  if (typeof value === 'string') return value.length > 100 ? `${value.slice(0, 100)}…` : value
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? `(list of ${value.length})` : '(map)'
  return typeof value === 'bigint' ? String(value) : value
}

function shown(value: unknown): string {
  return JSON.stringify(shortened(value)) ?? 'undefined'
}
