import * as z from 'zod'
import { holdsHalfSurrogate } from '../tasks/json-bounds.ts'
import { fieldPath, messageSchema } from '../tasks/message.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { A2aError, type FieldViolation, invalidParams } from './a2a-error.ts'
import { isObject } from './json-rpc.ts'

const LIST_MAX = 100
const VIOLATIONS_MAX = 16
/** ProtoJSON UTC timestamps. */
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/

const anyObject = z.looseObject({})
const count = z.number().int('is not a whole number').min(0, 'is negative').max(2_147_483_647)

const sendMessage = z.looseObject({
  message: messageSchema,
  configuration: z
    .looseObject({
      acceptedOutputModes: z.array(z.string().max(256)).max(LIST_MAX).nullish(),
      historyLength: count.nullish(),
      returnImmediately: z.boolean().nullish(),
      taskPushNotificationConfig: anyObject.nullish()
    })
    .nullish(),
  metadata: anyObject.nullish()
})

const taskId = z.string().min(1, 'is empty').max(128)
const TASK_STATES = ['SUBMITTED', 'WORKING', 'COMPLETED', 'FAILED', 'CANCELED', 'INPUT_REQUIRED', 'REJECTED', 'AUTH_REQUIRED'].map(
  (state) => `TASK_STATE_${state}`
)

const schemas = {
  SendMessage: sendMessage,
  SendStreamingMessage: sendMessage,
  GetTask: z.looseObject({ id: taskId, historyLength: count.nullish() }),
  CancelTask: z.looseObject({ id: taskId, metadata: anyObject.nullish() }),
  SubscribeToTask: z.looseObject({ id: taskId }),
  ListTasks: z.looseObject({
    contextId: z.string().max(128).nullish(),
    status: z.enum(TASK_STATES as [string, ...string[]]).nullish(),
    pageSize: z.number().int().min(1, 'is not 1 to 100').max(100, 'is not 1 to 100').nullish(),
    pageToken: z.string().max(1_024).nullish(),
    historyLength: count.nullish(),
    statusTimestampAfter: z.string().regex(TIMESTAMP, 'is not a UTC timestamp').nullish(),
    includeArtifacts: z.boolean().nullish()
  }),
  CreateTaskPushNotificationConfig: anyObject,
  GetTaskPushNotificationConfig: anyObject,
  ListTaskPushNotificationConfigs: anyObject,
  DeleteTaskPushNotificationConfig: anyObject,
  GetExtendedAgentCard: anyObject
} as const satisfies Record<string, z.ZodType>

export type A2aMethod = keyof typeof schemas
export function isMethod(name: unknown): name is A2aMethod {
  return typeof name === 'string' && Object.hasOwn(schemas, name)
}

/** Those whose answer is a stream. */
export type StreamMethod = 'SendStreamingMessage' | 'SubscribeToTask'

export function isStream(method: A2aMethod): method is StreamMethod {
  return method === 'SendStreamingMessage' || method === 'SubscribeToTask'
}

/** @throws A2aError `METHOD_NOT_FOUND` */
export function checkMethod(method: string): A2aMethod {
  if (Object.hasOwn(schemas, method)) return method as A2aMethod
  throw new A2aError('METHOD_NOT_FOUND', `there is no method "${method.slice(0, 80)}" in A2A 1.0`)
}

/**
 * Checks `params` as ProtoJSON of A2A 1.0; unknown members pass (§5.7).
 * @throws A2aError `INVALID_PARAMS` whose violations name the members
 */
export function checkParams(method: A2aMethod, params: JsonObject): void {
  const parsed = schemas[method].safeParse(params)
  if (parsed.success) {
    if (isObject(params.message) && holdsHalfSurrogate(params.message)) throw invalidParams('message', 'holds half a surrogate pair')
    return
  }
  const violations: FieldViolation[] = parsed.error.issues.slice(0, VIOLATIONS_MAX).map((issue) => ({
    field: fieldPath(issue.path) || 'params',
    description: issue.message
  }))
  const [first] = violations
  throw new A2aError('INVALID_PARAMS', `${first?.field}: ${first?.description}`, { violations })
}

/** Only one binding carries a tenant here: the URL names the agent. @throws A2aError `INVALID_PARAMS` */
export function checkTenant(params: JsonObject): void {
  if (params.tenant !== undefined && params.tenant !== null && params.tenant !== '') {
    throw invalidParams('tenant', 'this node has no tenants: the URL names the agent')
  }
}
