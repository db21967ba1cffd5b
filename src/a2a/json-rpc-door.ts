import { OFFLINE_DELIVERY_EXTENSION_URI, type Refusal, refusalFormOf, refusalResponse } from '../../protocol/delivery/refusals.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { DeliveryRefused, isSend } from './delivery-refused.ts'
import { answerCall, type EdgeCall, echo, type StreamForm } from './edge-call.ts'
import type { EdgeHost } from './edge-host.ts'
import type { Route } from './edge-routes.ts'
import { sendError } from './http-errors.ts'
import type { Exchange } from './http-exchange.ts'
import { checkContentType, readBody } from './http-guards.ts'
import { checkEnvelope, errorResponse, idOf, isObject, type JsonRpcId, type JsonRpcRequest, parseJson } from './json-rpc.ts'
import { answerLegacy, legacyError } from './legacy-door.ts'
import { isLegacySend, legacyRequest } from './legacy-request.ts'
import { checkMethod, checkParams, checkTenant } from './params.ts'
import { checkVersion, isLegacy } from './service-parameters.ts'

const UNREADABLE: ReadonlySet<string> = new Set(['PARSE_ERROR', 'INVALID_REQUEST', 'INVALID_PARAMS'])

/** POST of JSON-RPC, for the agents of this node. */
export function jsonRpcRoutes(host: EdgeHost): Route[] {
  const door = new JsonRpcDoor(host)
  return [{ method: 'POST', path: '/', handle: (exchange) => door.handle(exchange) }]
}

class JsonRpcDoor {
  readonly #host: EdgeHost

  constructor(host: EdgeHost) {
    this.#host = host
  }

  async handle(exchange: Exchange): Promise<void> {
    const host = this.#host
    let id: JsonRpcId = null
    try {
      const principal = host.authenticated(exchange)
      checkContentType(exchange, ['application/json'])
      const bytes = await readBody(exchange, host.settings.bodyBytesMax)
      await host.atWork(async () => {
        await this.#answer(exchange, { principal, bytes }, (known) => {
          id = known
        })
      })
    } catch (err) {
      const error = host.logged(err)
      if (error.reason === 'UNAUTHENTICATED' && host.sleeps(exchange)) this.#refuse(exchange, { reason: 'unauthenticated' }, id)
      else sendError(exchange, error, id)
    }
  }

  async #answer(
    exchange: Exchange,
    { principal, bytes }: { principal: VerifiedPrincipal; bytes: Uint8Array },
    named: (id: JsonRpcId) => void
  ): Promise<void> {
    const host = this.#host
    const { parameters } = exchange
    const { local } = host.components
    const target = host.targetOf(exchange)
    let id: JsonRpcId = null
    let agent: LocalAgent | undefined
    let sends = true
    try {
      agent = host.agentAt(target)
      const body = parseJson(bytes)
      id = idOf(body)
      named(id)
      const envelope = checkEnvelope(body)
      sends = isSend(envelope.method) || isLegacySend(envelope.method)
      // An older caller is understood only where an asleep agent is refused (G-03).
      const asleep = agent !== undefined && local.reachability(agent).state === 'asleep'
      if (agent !== undefined && !(asleep && sends) && isLegacy(parameters) && host.settings.legacy === 'on') {
        await this.#legacy(agent, principal, envelope, exchange)
        return
      }
      const asked = asleep && isLegacy(parameters) ? legacyRequest(envelope) : envelope
      if (!(asleep && isLegacy(parameters) && isSend(asked.method))) checkVersion(parameters)
      const method = checkMethod(asked.method)
      checkParams(method, asked.params)
      checkTenant(asked.params)
      const call: EdgeCall = { principal, to: target, agent, method, params: asked.params }
      if (agent !== undefined) call.admitted = () => this.#admitted(exchange, local.card(agent as LocalAgent))
      const result = await answerCall(host, call, exchange, streamForm(id))
      if (result !== undefined) exchange.sendJson(200, { jsonrpc: '2.0', id, result })
    } catch (err) {
      const kept = sends ? await this.#keepOpaque(err, { agent, principal, bytes }, exchange) : undefined
      if (kept !== undefined) this.#refuse(exchange, kept, id)
      else if (err instanceof DeliveryRefused) this.#refuse(exchange, err.refusal, id)
      else throw err
    }
  }

  /** Its errors have the form that such a caller reads. */
  async #legacy(agent: LocalAgent, principal: VerifiedPrincipal, request: JsonRpcRequest, exchange: Exchange): Promise<void> {
    try {
      await answerLegacy(this.#host, { agent, principal, request }, exchange)
    } catch (err) {
      if (err instanceof DeliveryRefused) throw err
      const error = this.#host.logged(err)
      if (!exchange.isAnswered) exchange.sendJson(error.status, legacyError(request.id, error))
    }
  }

  #admitted(exchange: Exchange, card: JsonObject): void {
    const { parameters } = exchange
    // An older caller whose message became a task meanwhile has no way to read it here.
    checkVersion(parameters)
    if (parameters.extensions.includes(OFFLINE_DELIVERY_EXTENSION_URI) && declares(card, OFFLINE_DELIVERY_EXTENSION_URI)) {
      echo(exchange, [OFFLINE_DELIVERY_EXTENSION_URI])
    }
  }

  /** What a caller that names no version posts to a sleeping agent is kept as it came where it cannot be read (od-010 and on of the draft's author). */
  async #keepOpaque(
    err: unknown,
    { agent, principal, bytes }: { agent: LocalAgent | undefined; principal: VerifiedPrincipal; bytes: Uint8Array },
    exchange: Exchange
  ): Promise<Refusal | undefined> {
    const { keepOpaque, local } = this.#host.components
    if (!(err instanceof A2aError) || !UNREADABLE.has(err.reason) || agent === undefined || keepOpaque === undefined) return undefined
    if (exchange.header('a2a-version') !== undefined || bytes.length === 0) return undefined
    const reachability = local.reachability(agent)
    if (reachability.state !== 'asleep' || !reachability.queues) return undefined
    local.authorize(agent, { principal, method: 'SendMessage', params: {} })
    return await keepOpaque({ principal, to: agent, body: bytes, retryAfterSec: reachability.retryAfterSec })
  }

  #refuse(exchange: Exchange, refusal: Refusal, id: JsonRpcId): void {
    if (exchange.isAnswered) return
    const { version, extensions } = exchange.parameters
    const { form = 'auto', asleepRpcCode } = this.#host.components.refusals ?? {}
    const chosen = form === 'auto' ? refusalFormOf({ a2aVersion: version, extensions }) : form
    const { status, headers, body } = refusalResponse(refusal, chosen, id, { asleep: asleepRpcCode })
    exchange.sendText(status, JSON.stringify(body), headers)
  }
}

/** Every event is a response under the request's id (A2A §9.4.2). */
function streamForm(id: JsonRpcId): StreamForm {
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`
  return { data: ({ text }) => `${head}${text}}`, failure: (error) => JSON.stringify(errorResponse(id, error)) }
}

function declares(card: JsonObject, uri: string): boolean {
  const extensions = isObject(card.capabilities) ? card.capabilities.extensions : undefined
  return Array.isArray(extensions) && extensions.some((one) => isObject(one) && one.uri === uri)
}
