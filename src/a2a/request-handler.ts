import {
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTaskPushNotificationConfigsResponse,
  ListTasksRequest,
  ListTasksResponse,
  SendMessageRequest,
  SubscribeToTaskRequest,
  TaskPushNotificationConfig
} from '@a2a-js/sdk'
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { toA2aError } from './a2a-error.ts'
import { cardFromJson } from './agent-card.ts'
import { Caller } from './caller.ts'
import type { Operations } from './operations.ts'
import { type A2aMethod, checkParams, checkTenant, type StreamMethod } from './params.ts'
import { streamResponseFromJson, taskFromJson } from './projection.ts'

/** {@link Operations} as the SDK's transport handlers call them, for callers of A2A 0.3 whose texts the SDK turns into 1.0 and back. */
export function createRequestHandler(operations: Operations, card: () => JsonObject): A2ARequestHandler {
  const guarded = async <T>({ user }: ServerCallContext, work: (caller: Caller) => Promise<T>): Promise<T> => {
    if (!(user instanceof Caller)) throw new TypeError('a call reached the request handler without its caller')
    try {
      return await work(user)
    } catch (err) {
      user.refused = toA2aError(err)
      throw user.refused
    }
  }
  const checked = (method: A2aMethod, params: Json): JsonObject => {
    checkParams(method, params as JsonObject)
    checkTenant(params as JsonObject)
    return params as JsonObject
  }
  const answer = async (context: ServerCallContext, method: Exclude<A2aMethod, StreamMethod>, params: unknown): Promise<JsonObject> =>
    await guarded(context, async (caller) => (await operations.answer(method, checked(method, params as Json), caller)) as JsonObject)

  async function* stream(context: ServerCallContext, method: StreamMethod, params: unknown) {
    const events = await guarded(context, (caller) => operations.open(method, checked(method, params as Json), caller))
    for await (const { response } of events) yield streamResponseFromJson(response)
  }

  return {
    getAgentCard: async () => cardFromJson(card()),
    getAuthenticatedExtendedAgentCard: async (_request, context) => cardFromJson(await answer(context, 'GetExtendedAgentCard', {})),
    sendMessage: async (request, context) =>
      taskFromJson((await answer(context, 'SendMessage', SendMessageRequest.toJSON(request))).task as JsonObject),
    sendMessageStream: (request, context) => stream(context, 'SendStreamingMessage', SendMessageRequest.toJSON(request)),
    resubscribe: (request, context) => stream(context, 'SubscribeToTask', SubscribeToTaskRequest.toJSON(request)),
    getTask: async (request, context) => taskFromJson(await answer(context, 'GetTask', GetTaskRequest.toJSON(request))),
    cancelTask: async (request, context) => taskFromJson(await answer(context, 'CancelTask', CancelTaskRequest.toJSON(request))),
    listTasks: async (request, context) => ListTasksResponse.fromJSON(await answer(context, 'ListTasks', ListTasksRequest.toJSON(request))),
    createTaskPushNotificationConfig: async (request, context) =>
      TaskPushNotificationConfig.fromJSON(
        await answer(context, 'CreateTaskPushNotificationConfig', TaskPushNotificationConfig.toJSON(request))
      ),
    getTaskPushNotificationConfig: async (request, context) =>
      TaskPushNotificationConfig.fromJSON(
        await answer(context, 'GetTaskPushNotificationConfig', GetTaskPushNotificationConfigRequest.toJSON(request))
      ),
    listTaskPushNotificationConfigs: async (request, context) =>
      ListTaskPushNotificationConfigsResponse.fromJSON(
        await answer(context, 'ListTaskPushNotificationConfigs', ListTaskPushNotificationConfigsRequest.toJSON(request))
      ),
    deleteTaskPushNotificationConfig: async (request, context) => {
      await answer(context, 'DeleteTaskPushNotificationConfig', DeleteTaskPushNotificationConfigRequest.toJSON(request))
    }
  }
}
