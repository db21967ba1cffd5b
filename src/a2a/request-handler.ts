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
import type { A2ARequestHandler } from '@a2a-js/sdk/server'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { cardFromJson } from './agent-card.ts'
import { type A2aMethod, checkParams, checkTenant, type StreamMethod } from './params.ts'
import { streamResponseFromJson, taskFromJson } from './projection.ts'
import type { TaskEvent } from './task-events.ts'
import type { TaskStream } from './task-stream.ts'

type Unary = Exclude<A2aMethod, StreamMethod>

export interface RequestHandlerOptions {
  card: () => JsonObject
  answer: (method: Unary, params: JsonObject) => Promise<Json>
  open: (method: StreamMethod, params: JsonObject) => Promise<TaskStream>
  /** sees an event before it is given */
  onEvent: (event: TaskEvent) => void
}

/** A2A's operations as the SDK's transport handlers call them, for callers of 0.3 whose texts the SDK turns into 1.0 and back. */
export function createRequestHandler({ card, onEvent, ...operations }: RequestHandlerOptions): A2ARequestHandler {
  const checked = (method: A2aMethod, params: unknown): JsonObject => {
    checkParams(method, params as JsonObject)
    checkTenant(params as JsonObject)
    return params as JsonObject
  }
  const answer = async (method: Unary, params: unknown) => (await operations.answer(method, checked(method, params))) as JsonObject

  async function* stream(method: StreamMethod, params: unknown) {
    for await (const event of await operations.open(method, checked(method, params))) {
      onEvent(event)
      yield streamResponseFromJson(event.response)
    }
  }

  return {
    getAgentCard: async () => cardFromJson(card()),
    getAuthenticatedExtendedAgentCard: async () => cardFromJson(await answer('GetExtendedAgentCard', {})),
    sendMessage: async (request) => taskFromJson((await answer('SendMessage', SendMessageRequest.toJSON(request))).task as JsonObject),
    sendMessageStream: (request) => stream('SendStreamingMessage', SendMessageRequest.toJSON(request)),
    resubscribe: (request) => stream('SubscribeToTask', SubscribeToTaskRequest.toJSON(request)),
    getTask: async (request) => taskFromJson(await answer('GetTask', GetTaskRequest.toJSON(request))),
    cancelTask: async (request) => taskFromJson(await answer('CancelTask', CancelTaskRequest.toJSON(request))),
    listTasks: async (request) => ListTasksResponse.fromJSON(await answer('ListTasks', ListTasksRequest.toJSON(request))),
    createTaskPushNotificationConfig: async (request) =>
      TaskPushNotificationConfig.fromJSON(await answer('CreateTaskPushNotificationConfig', TaskPushNotificationConfig.toJSON(request))),
    getTaskPushNotificationConfig: async (request) =>
      TaskPushNotificationConfig.fromJSON(
        await answer('GetTaskPushNotificationConfig', GetTaskPushNotificationConfigRequest.toJSON(request))
      ),
    listTaskPushNotificationConfigs: async (request) =>
      ListTaskPushNotificationConfigsResponse.fromJSON(
        await answer('ListTaskPushNotificationConfigs', ListTaskPushNotificationConfigsRequest.toJSON(request))
      ),
    deleteTaskPushNotificationConfig: async (request) => {
      await answer('DeleteTaskPushNotificationConfig', DeleteTaskPushNotificationConfigRequest.toJSON(request))
    }
  }
}
