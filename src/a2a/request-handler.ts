import type {
  AgentCard,
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  Task
} from '@a2a-js/sdk'
import type { A2ARequestHandler, ServerCallContext, User } from '@a2a-js/sdk/server'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { WriteOp } from '../store/store.ts'
import { stateClass } from '../tasks/states.ts'
import type { JsonObject, Todo, TodoPage, Todos } from '../tasks/todo.ts'
import { A2aError, grantEnded, noStreams, taskNotFound, toA2aError } from './a2a-error.ts'
import { shownState, taskFromJson, taskJson } from './projection.ts'

/** One call in the name of a verified principal, handed through the SDK as its user. */
export class Caller implements User {
  readonly principal: VerifiedPrincipal
  readonly door: Todo['door']
  /** params as they came: the SDK's reader drops what it does not know */
  readonly params: JsonObject
  /** fires when nobody waits for the answer any more, and when the grant that the call is made with ends (G-56) */
  readonly signal: AbortSignal
  /** runs as soon as a Todo of the request is on disk */
  readonly onDurable: () => void
  /** writes that go into the batch that stores the request's Todo */
  readonly alongside: () => readonly WriteOp[]
  /** `now`: a blocking send returns the task as it is */
  readonly wait: 'settled' | 'now'
  /** to be called where the message had come before: it costs nothing then */
  readonly repeated: () => void
  /** why the call was refused: the SDK keeps neither our codes nor our details, so a binding writes this in place of its error */
  refused: A2aError | undefined

  constructor(init: {
    principal: VerifiedPrincipal
    door: Todo['door']
    params: JsonObject
    signal: AbortSignal
    onDurable?: (() => void) | undefined
    alongside?: (() => readonly WriteOp[]) | undefined
    wait?: 'settled' | 'now'
    repeated?: () => void
  }) {
    this.principal = init.principal
    this.door = init.door
    this.params = init.params
    const ended = init.principal.grant?.ended
    this.signal = ended === undefined ? init.signal : AbortSignal.any([init.signal, ended])
    this.onDurable = init.onDurable ?? (() => undefined)
    this.alongside = init.alongside ?? (() => [])
    this.wait = init.wait ?? 'settled'
    this.repeated = init.repeated ?? (() => undefined)
  }

  get isAuthenticated(): boolean {
    return true
  }

  get userName(): string {
    return this.principal.id
  }
}

export interface RequestHandlerOptions {
  agent: LocalAgent
  todos: Todos
  clock: Clock
  card: () => AgentCard
  /** how long a blocking send waits before it returns the task as it is */
  blockingWaitMs: number
}

export const BLOCKING_WAIT_DEFAULT_MS = 600_000
const LIST_PAGE_DEFAULT = 50

/** A2A's operations as views of one local agent's durable Todos (TD-13, TD-15): no state of its own. */
export function createRequestHandler(options: RequestHandlerOptions): A2ARequestHandler {
  const { agent, todos } = options

  const guarded = async <T>(context: ServerCallContext, work: (caller: Caller) => Promise<T>): Promise<T> => {
    const caller = context.user
    if (!(caller instanceof Caller)) throw new TypeError('a call reached the request handler without its caller')
    try {
      const answer = await work(caller)
      if (caller.principal.grant?.ended.aborted === true) throw grantEnded()
      return answer
    } catch (err) {
      caller.refused = toA2aError(err)
      throw caller.refused
    }
  }

  /** A task that is missing, another caller's or another agent's gives one answer (F022). */
  const own = async (caller: Caller, id: string): Promise<Todo> => {
    const todo = await todos.get(id)
    if (todo === undefined || todo.caller !== caller.principal.id || todo.agent !== homeOf(agent)) throw taskNotFound()
    return todo
  }

  const refusePush = (context: ServerCallContext): Promise<never> =>
    guarded(context, async () => {
      throw new A2aError('PUSH_NOTIFICATION_NOT_SUPPORTED', 'this agent sends no push notifications')
    })

  async function* noStream(context: ServerCallContext): AsyncGenerator<StreamResponse, void, undefined> {
    await guarded(context, async () => {
      throw noStreams()
    })
  }

  return {
    getAgentCard: async () => options.card(),

    getAuthenticatedExtendedAgentCard: (_request, context) =>
      guarded(context, async () => {
        if (options.card().capabilities?.extendedAgentCard !== true) {
          throw new A2aError('UNSUPPORTED_OPERATION', 'this agent has no extended card')
        }
        return options.card()
      }),

    sendMessage: (_request: SendMessageRequest, context): Promise<Message | Task> =>
      guarded(context, async (caller) => {
        const message = caller.params.message as JsonObject
        const configuration = (caller.params.configuration ?? {}) as JsonObject
        const { principal, door } = caller
        const { todo, created } = await todos.create({
          agent: homeOf(agent),
          caller: principal,
          message,
          door,
          alongside: caller.alongside()
        })
        if (!created) caller.repeated()
        caller.onDurable()
        const waits = caller.wait === 'settled' && configuration.returnImmediately !== true && stateClass(todo.state) === 'active'
        const shown = waits ? await settled(options, todo, caller.signal) : todo
        return taskFromJson(taskJson(shown, { historyLength: count(configuration.historyLength) }))
      }),

    sendMessageStream: (_request, context) => noStream(context),
    resubscribe: (_request, context) => noStream(context),

    getTask: (request: GetTaskRequest, context): Promise<Task> =>
      guarded(context, async (caller) =>
        taskFromJson(taskJson(await own(caller, request.id), { historyLength: count(caller.params.historyLength) }))
      ),

    cancelTask: (request: CancelTaskRequest, context): Promise<Task> =>
      guarded(context, async (caller) => {
        const { id } = await own(caller, request.id)
        const canceled = await todos.cancel(id).catch((err) => {
          const known = toA2aError(err)
          throw known.reason === 'UNSUPPORTED_OPERATION' ? new A2aError('TASK_NOT_CANCELABLE', 'the task has ended', { cause: err }) : known
        })
        return taskFromJson(taskJson(canceled))
      }),

    listTasks: (_request: ListTasksRequest, context): Promise<ListTasksResponse> =>
      guarded(context, (caller) => listTasks(options, caller)),

    createTaskPushNotificationConfig: (_request, context) => refusePush(context),
    getTaskPushNotificationConfig: (_request, context) => refusePush(context),
    listTaskPushNotificationConfigs: (_request, context) => refusePush(context),
    deleteTaskPushNotificationConfig: (_request, context) => refusePush(context)
  }
}

async function settled({ todos, clock, blockingWaitMs }: RequestHandlerOptions, todo: Todo, signal: AbortSignal): Promise<Todo> {
  const waited = new AbortController()
  const cancelTimer = clock.after(blockingWaitMs, () => waited.abort())
  try {
    return await todos.settled(todo.id, { signal: AbortSignal.any([waited.signal, signal]) })
  } finally {
    cancelTimer()
  }
}

/** Newest change first; filters that no index serves are applied while reading on. */
async function listTasks({ agent, todos }: RequestHandlerOptions, caller: Caller): Promise<ListTasksResponse> {
  const { contextId, status, pageSize, pageToken, historyLength, statusTimestampAfter, includeArtifacts } = caller.params
  const limit = count(pageSize) ?? LIST_PAGE_DEFAULT
  const afterMs = typeof statusTimestampAfter === 'string' ? Date.parse(statusTimestampAfter) : 0
  const matches = (todo: Todo) =>
    (typeof contextId !== 'string' || contextId === '' || todo.contextId === contextId) &&
    (typeof status !== 'string' || shownState(todo) === status) &&
    todo.changedAtMs >= afterMs
  const filter = { agent: homeOf(agent), caller: caller.principal.id }
  const view = { historyLength: count(historyLength), artifacts: includeArtifacts === true ? 'with' : 'without' } as const

  const tasks: Task[] = []
  let cursor = typeof pageToken === 'string' && pageToken !== '' ? pageToken : undefined
  do {
    const page: TodoPage = await todos.list({ ...filter, limit: limit - tasks.length, ...(cursor !== undefined ? { cursor } : {}) })
    for (const todo of page.todos) if (matches(todo)) tasks.push(taskFromJson(taskJson(todo, view)))
    cursor = page.next
  } while (cursor !== undefined && tasks.length < limit)

  let totalSize = 0
  let from: string | undefined
  do {
    const page: TodoPage = await todos.list({ ...filter, limit: 100, ...(from !== undefined ? { cursor: from } : {}) })
    totalSize += page.todos.filter(matches).length
    from = page.next
  } while (from !== undefined)
  return { tasks, nextPageToken: cursor ?? '', pageSize: limit, totalSize }
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
