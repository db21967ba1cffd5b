import { underKey } from '../ecc/execution-contracts.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { stateClass } from '../tasks/states.ts'
import type { Json, JsonObject, Todo, Todos } from '../tasks/todo.ts'
import { A2aError, grantEnded, invalidParams, taskNotFound, toA2aError } from './a2a-error.ts'
import type { Caller } from './caller.ts'
import { isObject } from './json-rpc.ts'
import { listTasks } from './list-tasks.ts'
import type { A2aMethod, StreamMethod } from './params.ts'
import { taskJson } from './projection.ts'
import type { PushConfigs } from './push-configs.ts'
import type { TaskStream } from './task-stream.ts'
import type { TaskStreams } from './task-streams.ts'

export const BLOCKING_WAIT_DEFAULT_MS = 600_000

export interface OperationsOptions {
  agent: LocalAgent
  todos: Todos
  clock: Clock
  /** how long a blocking send waits before it returns the task as it is */
  blockingWaitMs: number
  /** undefined where streaming is off */
  streams: TaskStreams | undefined
  /** undefined where push notifications are off */
  push: PushConfigs | undefined
  extendedCard: (caller: Caller) => JsonObject | Promise<JsonObject>
}

/**
 * A2A's operations as views of one local agent's durable Todos (TD-13, TD-15), in ProtoJSON on both sides: what every binding calls with checked
 * params, and no state of its own.
 */
export class Operations {
  readonly #options: OperationsOptions

  constructor(options: OperationsOptions) {
    this.#options = options
  }

  /** @returns the result as JSON-RPC carries it @throws A2aError */
  async answer(method: Exclude<A2aMethod, StreamMethod>, params: JsonObject, caller: Caller): Promise<Json> {
    try {
      const answer = await this.#answer(method, params, caller)
      if (caller.principal.grant?.ended.aborted === true) throw grantEnded()
      return answer
    } catch (error) {
      throw toA2aError(error)
    }
  }

  /**
   * Opens the stream of a task. The task of a message is on disk by then, and goes on whatever becomes of the stream.
   * @throws A2aError `UNSUPPORTED_OPERATION` (no streaming; a task that has ended), `TASK_NOT_FOUND`, `RATE_LIMITED` (cause `STREAM_LIMIT`)
   */
  async open(method: StreamMethod, params: JsonObject, caller: Caller): Promise<TaskStream> {
    const { streams } = this.#options
    try {
      if (streams === undefined)
        throw new A2aError('UNSUPPORTED_OPERATION', 'this agent does not stream: send with SendMessage, read with GetTask')
      const place = streams.reserve(caller)
      try {
        if (method === 'SubscribeToTask') {
          const todo = await this.#own(caller, params.id as string)
          return await place.open(todo.id, { snapshot: 'live' })
        }
        const todo = await this.#create(params, caller)
        return await place.open(todo.id, { snapshot: 'any' })
      } catch (error) {
        place.release()
        throw error
      }
    } catch (error) {
      throw toA2aError(error)
    }
  }

  async #answer(method: Exclude<A2aMethod, StreamMethod>, params: JsonObject, caller: Caller): Promise<Json> {
    const { agent, todos } = this.#options
    switch (method) {
      case 'SendMessage':
        return { task: await this.#send(params, caller) }
      case 'GetTask':
        return taskJson(await this.#own(caller, params.id as string), { historyLength: count(params.historyLength) })
      case 'ListTasks':
        return await listTasks(todos, { agent: homeOf(agent), caller: caller.principal.id }, params)
      case 'CancelTask':
        return taskJson(await this.#cancel(params.id as string, caller))
      case 'GetExtendedAgentCard':
        return await this.#options.extendedCard(caller)
      case 'CreateTaskPushNotificationConfig': {
        const push = this.#push()
        const { url } = params
        if (typeof url !== 'string' || url === '') throw invalidParams('url', 'is missing')
        return await push.set(await this.#own(caller, member(params, 'taskId')), params)
      }
      case 'GetTaskPushNotificationConfig': {
        const push = this.#push()
        const { id } = await this.#own(caller, member(params, 'taskId'))
        const config = await push.get(id, member(params, 'id'))
        if (config === undefined) throw taskNotFound()
        return config
      }
      case 'ListTaskPushNotificationConfigs': {
        const push = this.#push()
        const { id } = await this.#own(caller, member(params, 'taskId'))
        return { configs: await push.list(id), nextPageToken: '' }
      }
      case 'DeleteTaskPushNotificationConfig': {
        const push = this.#push()
        const { id } = await this.#own(caller, member(params, 'taskId'))
        await push.delete(id, member(params, 'id'))
        return {}
      }
      default: {
        const unknown: never = method
        throw new TypeError(`"${unknown}" is no operation`)
      }
    }
  }

  async #send(params: JsonObject, caller: Caller): Promise<JsonObject> {
    const configuration = configurationOf(params)
    const todo = await this.#create(params, caller)
    const waits = caller.wait === 'settled' && configuration.returnImmediately !== true && stateClass(todo.state) === 'active'
    const shown = waits ? await this.#settled(todo, caller.signal) : todo
    return taskJson(shown, { historyLength: count(configuration.historyLength) })
  }

  /** The Todo that a message makes, or goes into, or made before: the one door of every send (TD-12). */
  async #create(params: JsonObject, caller: Caller): Promise<Todo> {
    const { agent, todos } = this.#options
    const config = configOf(params)
    const push = isObject(config) ? this.#push() : undefined
    if (isObject(config) && push !== undefined) await push.check(config)
    const { admission } = caller
    const creating = todos.create({
      agent: homeOf(agent),
      caller: caller.principal,
      message: params.message as JsonObject,
      door: caller.door,
      ...queueFor(caller),
      alongside: caller.alongside(),
      ...(admission === undefined ? {} : { execution: admission.execution }),
      ...(admission?.dedupKey === undefined ? {} : { dedupKey: admission.dedupKey })
    })
    const { todo, created } = await underKey(admission, creating)
    if (!created) caller.repeated()
    if (isObject(config) && push !== undefined) await push.set(todo, { ...config, taskId: todo.id })
    caller.onDurable()
    return todo
  }

  async #settled(todo: Todo, signal: AbortSignal): Promise<Todo> {
    const { todos, clock, blockingWaitMs } = this.#options
    const waited = new AbortController()
    const cancelTimer = clock.after(blockingWaitMs, () => waited.abort())
    try {
      return await todos.settled(todo.id, { signal: AbortSignal.any([waited.signal, signal]) })
    } finally {
      cancelTimer()
    }
  }

  async #cancel(wanted: string, caller: Caller): Promise<Todo> {
    const { id } = await this.#own(caller, wanted)
    return await this.#options.todos.cancel(id, { door: caller.door, who: caller.principal.id }).catch((err) => {
      const known = toA2aError(err)
      throw known.reason === 'UNSUPPORTED_OPERATION' ? new A2aError('TASK_NOT_CANCELABLE', 'the task has ended', { cause: err }) : known
    })
  }

  /** A task that is missing, another caller's or another agent's gives one answer (F022). */
  async #own(caller: Caller, id: string): Promise<Todo> {
    const { agent, todos } = this.#options
    const todo = await todos.get(id)
    if (todo === undefined || todo.caller !== caller.principal.id || todo.agent !== homeOf(agent)) throw taskNotFound()
    return todo
  }

  #push(): PushConfigs {
    const { push } = this.#options
    if (push === undefined) throw noPush()
    return push
  }
}

/** The TaskPushNotificationConfig of a send. */
export function configOf(params: JsonObject): Json | undefined {
  return configurationOf(params).taskPushNotificationConfig
}

export function noPush(): A2aError {
  return new A2aError('PUSH_NOTIFICATION_NOT_SUPPORTED', 'this agent sends no push notifications')
}

function configurationOf(params: JsonObject): JsonObject {
  return isObject(params.configuration) ? params.configuration : {}
}

function count(value: Json | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}

/** @throws A2aError `INVALID_PARAMS` */
function member(params: JsonObject, name: string): string {
  const value = params[name]
  if (typeof value === 'string' && value !== '' && value.length <= 256) return value
  throw invalidParams(name, 'is not a text of 1 to 256 characters')
}

/** A message names no queue: it goes into the first that its grant is bound to (TD-04). */
function queueFor({ principal }: Caller): { queue?: string } {
  const queue = principal.grant?.queues?.[0]
  return queue === undefined ? {} : { queue }
}
