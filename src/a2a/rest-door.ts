import { OFFLINE_DELIVERY_EXTENSION_URI, refusalRestResponse } from '../../protocol/delivery/refusals.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { JSON_DEPTH_MAX, tooDeep } from '../tasks/message.ts'
import type { Json } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import type { EdgeHost } from './edge-host.ts'
import type { Route } from './edge-routes.ts'
import { sendRestError } from './http-errors.ts'
import type { Exchange } from './http-exchange.ts'
import { checkContentType, readBody } from './http-guards.ts'
import { isObject, parseJson } from './json-rpc.ts'
import { DeliveryRefused } from './local-a2a.ts'
import { callLocalAgent } from './local-call.ts'
import { type A2aMethod, checkParams, checkTenant } from './params.ts'
import { checkVersion } from './service-parameters.ts'

/** What of the HTTP+JSON binding is served: sends, so that its callers too get their messages kept. */
const SENDS: readonly [verb: string, method: A2aMethod][] = [
  ['send', 'SendMessage'],
  ['stream', 'SendStreamingMessage']
]

/** POST `…/message:send` and `…/message:stream`, through the same checks and the same doors as JSON-RPC. */
export function restRoutes(host: EdgeHost): Route[] {
  return SENDS.map(([verb, method]) => ({
    method: 'POST',
    path: `/message:${verb}`,
    handle: (exchange) => answer(host, method, exchange)
  }))
}

async function answer(host: EdgeHost, method: A2aMethod, exchange: Exchange): Promise<void> {
  try {
    const principal = host.authenticated(exchange)
    checkContentType(exchange, ['application/a2a+json', 'application/json'])
    const bytes = await readBody(exchange, host.settings.bodyBytesMax)
    await host.atWork(async () => exchange.sendJson(200, await call(host, { principal, method, bytes }, exchange)))
  } catch (err) {
    if (!(err instanceof DeliveryRefused)) return sendRestError(exchange, host.logged(err))
    const extension = exchange.parameters.extensions.includes(OFFLINE_DELIVERY_EXTENSION_URI) ? 'asked' : 'none'
    const { status, headers, body } = refusalRestResponse(err.refusal, { extension })
    if (!exchange.isAnswered) exchange.sendText(status, JSON.stringify(body), headers)
  }
}

async function call(
  host: EdgeHost,
  { principal, method, bytes }: { principal: VerifiedPrincipal; method: A2aMethod; bytes: Uint8Array },
  exchange: Exchange
): Promise<Json> {
  const { components } = host
  const params = parseJson(bytes)
  if (!isObject(params)) throw new A2aError('INVALID_REQUEST', 'the body is not a JSON object')
  if (tooDeep(params)) throw new A2aError('INVALID_REQUEST', `the body nests deeper than ${JSON_DEPTH_MAX}`)
  const { parameters } = exchange
  checkVersion(parameters)
  checkParams(method, params)
  checkTenant(params)
  const target = host.targetOf(exchange)
  const agent = host.agentAt(target)
  if (agent !== undefined)
    return await callLocalAgent(components, { principal, to: agent, method, params, door: 'a2a-http' }, exchange.gone)
  const { remote, from } = host.remoteFor(principal)
  return await remote.call(from, target, { method, params, parameters }, { signal: exchange.gone })
}
