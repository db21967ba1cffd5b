import { OFFLINE_DELIVERY_EXTENSION_URI, refusalRestResponse } from '../../protocol/delivery/refusals.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { JSON_DEPTH_MAX, tooDeep } from '../tasks/json-bounds.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { DeliveryRefused } from './delivery-refused.ts'
import { answerCall, type StreamForm } from './edge-call.ts'
import type { EdgeHost } from './edge-host.ts'
import type { Route } from './edge-routes.ts'
import { sendRestError } from './http-errors.ts'
import type { Exchange } from './http-exchange.ts'
import { checkContentType, readBody } from './http-guards.ts'
import { isObject, parseJson } from './json-rpc.ts'
import { type A2aMethod, checkParams, checkTenant } from './params.ts'
import { checkVersion } from './service-parameters.ts'

type Verb = 'GET' | 'POST' | 'DELETE'
/** Where the request's members are: in a body that has to be there, in one that may, or in the query. */
type Source = 'body' | 'body?' | 'query'

/** A2A's HTTP+JSON binding (§11): names in the path are members of the request. */
const OPERATIONS: readonly [verb: Verb, path: string, method: A2aMethod, source: Source][] = [
  ['POST', '/message:send', 'SendMessage', 'body'],
  ['POST', '/message:stream', 'SendStreamingMessage', 'body'],
  ['GET', '/tasks', 'ListTasks', 'query'],
  ['GET', '/tasks/{id}', 'GetTask', 'query'],
  ['POST', '/tasks/{id}:cancel', 'CancelTask', 'body?'],
  // The text of the specification says POST, its proto GET.
  ['POST', '/tasks/{id}:subscribe', 'SubscribeToTask', 'body?'],
  ['GET', '/tasks/{id}:subscribe', 'SubscribeToTask', 'query'],
  ['POST', '/tasks/{taskId}/pushNotificationConfigs', 'CreateTaskPushNotificationConfig', 'body'],
  ['GET', '/tasks/{taskId}/pushNotificationConfigs', 'ListTaskPushNotificationConfigs', 'query'],
  ['GET', '/tasks/{taskId}/pushNotificationConfigs/{id}', 'GetTaskPushNotificationConfig', 'query'],
  ['DELETE', '/tasks/{taskId}/pushNotificationConfigs/{id}', 'DeleteTaskPushNotificationConfig', 'query'],
  ['GET', '/extendedAgentCard', 'GetExtendedAgentCard', 'query']
]

/** Members that are no text in JSON, as a query writes them. */
const NUMBERS: ReadonlySet<string> = new Set(['pageSize', 'historyLength'])
const FLAGS: ReadonlySet<string> = new Set(['includeArtifacts'])
const STATUS: Partial<Record<A2aMethod, number>> = { CreateTaskPushNotificationConfig: 201, DeleteTaskPushNotificationConfig: 204 }

/** Every operation over HTTP+JSON, through the same checks and the same operations as JSON-RPC. */
export function restRoutes(host: EdgeHost): Route[] {
  return OPERATIONS.map(([verb, path, method, source]) => ({
    method: verb,
    path,
    handle: (exchange) => answer(host, { method, source }, exchange)
  }))
}

async function answer(host: EdgeHost, operation: { method: A2aMethod; source: Source }, exchange: Exchange): Promise<void> {
  const { method, source } = operation
  try {
    const principal = host.authenticated(exchange)
    const members = source === 'query' ? fromQuery(exchange.query) : await fromBody(host, source, exchange)
    await host.atWork(() => call(host, { principal, method, params: merged(members, exchange.params) }, exchange))
  } catch (err) {
    if (!(err instanceof DeliveryRefused)) return sendRestError(exchange, host.logged(err))
    const extension = exchange.parameters.extensions.includes(OFFLINE_DELIVERY_EXTENSION_URI) ? 'asked' : 'none'
    const { status, headers, body } = refusalRestResponse(err.refusal, { extension })
    if (!exchange.isAnswered) exchange.sendText(status, JSON.stringify(body), headers)
  }
}

async function call(
  host: EdgeHost,
  { principal, method, params }: { principal: VerifiedPrincipal; method: A2aMethod; params: JsonObject },
  exchange: Exchange
): Promise<void> {
  if (tooDeep(params)) throw new A2aError('INVALID_REQUEST', `the request nests deeper than ${JSON_DEPTH_MAX}`)
  checkVersion(exchange.parameters)
  checkParams(method, params)
  checkTenant(params)
  const to = host.targetOf(exchange)
  const result = await answerCall(host, { principal, to, agent: host.agentAt(to), method, params }, exchange, FORM)
  if (result === undefined) return
  const status = STATUS[method] ?? 200
  if (status === 204) exchange.res.writeHead(204).end()
  else exchange.sendJson(status, result)
}

/** A stream's event is the bare response, a failure google.rpc.Status. */
const FORM: StreamForm = { data: ({ text }) => text, failure: (error) => JSON.stringify(error.toRest().body) }

async function fromBody(host: EdgeHost, source: 'body' | 'body?', exchange: Exchange): Promise<JsonObject> {
  const mayBeMissing = source === 'body?'
  if (mayBeMissing && (exchange.header('content-length') ?? '0') === '0' && exchange.header('transfer-encoding') === undefined) return {}
  checkContentType(exchange, ['application/a2a+json', 'application/json'])
  const bytes = await readBody(exchange, host.settings.bodyBytesMax)
  if (mayBeMissing && bytes.length === 0) return {}
  const body = parseJson(bytes)
  if (isObject(body)) return body
  throw new A2aError('INVALID_REQUEST', 'the body is not a JSON object')
}

/** What is no number or flag stays a text, which the check of the params then refuses by its name. */
function fromQuery(query: URLSearchParams): JsonObject {
  const members: JsonObject = {}
  for (const [name, value] of query) {
    if (name.toLowerCase() === 'a2a-version' || value === '') continue
    if (Object.hasOwn(members, name)) {
      throw new A2aError('INVALID_PARAMS', `${name.slice(0, 64)}: is given twice`, {
        violations: [{ field: name.slice(0, 64), description: 'is given twice' }]
      })
    }
    if (NUMBERS.has(name) && /^-?\d{1,15}$/.test(value)) members[name] = Number(value)
    else if (FLAGS.has(name) && (value === 'true' || value === 'false')) members[name] = value === 'true'
    else if (name !== '__proto__') members[name] = value
  }
  return members
}

/** The path names what is meant; a body or query that names another is refused. @throws A2aError `INVALID_PARAMS` */
function merged(members: JsonObject, path: Readonly<Record<string, string>>): JsonObject {
  for (const [name, value] of Object.entries(path)) {
    const given = members[name]
    if (given !== undefined && given !== null && given !== '' && given !== value) {
      const description = 'is not what the path names'
      throw new A2aError('INVALID_PARAMS', `${name}: ${description}`, { violations: [{ field: name, description }] })
    }
  }
  return { ...members, ...path }
}
