import type { Express, Request, RequestHandler, Response } from 'express'
import { OFFLINE_DELIVERY_EXTENSION_URI, refusalRestResponse } from '../../protocol/delivery/refusals.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { JSON_DEPTH_MAX, tooDeep } from '../tasks/message.ts'
import { A2aError, toA2aError } from './a2a-error.ts'
import { type Authenticate, checkBearer } from './bearer.ts'
import type { RemoteAgents } from './edge.ts'
import { readBody, restJsonOnly, sendRestError } from './http-guards.ts'
import { isObject, parseJson } from './json-rpc.ts'
import type { KeepAsleep } from './keep-asleep.ts'
import { DeliveryRefused, type LocalA2a } from './local-a2a.ts'
import { callLocalAgent } from './local-call.ts'
import { type A2aMethod, checkParams, checkTenant } from './params.ts'
import { checkVersion, type ServiceParameters } from './service-parameters.ts'

/** What of the HTTP+JSON binding is served: sends, so that its callers too get their messages kept. */
const SENDS: readonly [verb: string, method: A2aMethod][] = [
  ['send', 'SendMessage'],
  ['stream', 'SendStreamingMessage']
]

/** What the edge lends. */
export interface RestHost {
  components: { local: LocalA2a; keep: KeepAsleep; authenticate: Authenticate; remote?: RemoteAgents }
  bodyBytesMax: number
  /** whom the path means; without a did the default agent @throws A2aError `AGENT_UNKNOWN` */
  target(req: Request): Eid
  /** @throws A2aError `AGENT_ROTATED` */
  agentAt(target: Eid): LocalAgent | undefined
  parametersOf(req: Request): ServiceParameters
  /** fires when nobody waits for the answer any more */
  gone(res: Response): AbortSignal
  /** @throws A2aError `RATE_LIMITED` */
  atWork(work: () => Promise<void>): Promise<void>
  logged(err: unknown): A2aError
}

/** POST `…/message:send` and `…/message:stream`, through the same checks and the same doors as JSON-RPC. */
export function mountRestSends(app: Express, host: RestHost): void {
  const { bodyBytesMax } = host
  for (const [verb, method] of SENDS) {
    const handlers = [authenticated(host), restJsonOnly, readBody(bodyBytesMax), answering(host, method)]
    app.post(`/message\\:${verb}`, handlers)
    app.post(`/agents/:did/message\\:${verb}`, handlers)
  }
}

function authenticated({ components }: RestHost): RequestHandler {
  return (req, res, next) => {
    try {
      res.locals.from = checkBearer(req.headers.authorization, components.authenticate)
    } catch (err) {
      // The body of a stranger is not read.
      res.setHeader('Connection', 'close')
      sendRestError(res, toA2aError(err))
      return
    }
    next()
  }
}

function answering(host: RestHost, method: A2aMethod): RequestHandler {
  return async (req, res) => {
    try {
      await host.atWork(() => answer(host, method, req, res))
    } catch (err) {
      if (!(err instanceof DeliveryRefused)) return sendRestError(res, host.logged(err))
      const extension = host.parametersOf(req).extensions.includes(OFFLINE_DELIVERY_EXTENSION_URI) ? 'asked' : 'none'
      const { status, headers, body } = refusalRestResponse(err.refusal, { extension })
      if (!res.headersSent) res.status(status).set(headers).send(JSON.stringify(body))
    }
  }
}

async function answer(host: RestHost, method: A2aMethod, req: Request, res: Response): Promise<void> {
  const { components } = host
  const from = res.locals.from as LocalAgent
  const params = parseJson(Buffer.isBuffer(req.body) ? req.body : new Uint8Array(0))
  if (!isObject(params)) throw new A2aError('INVALID_REQUEST', 'the body is not a JSON object')
  if (tooDeep(params)) throw new A2aError('INVALID_REQUEST', `the body nests deeper than ${JSON_DEPTH_MAX}`)
  const parameters = host.parametersOf(req)
  checkVersion(parameters)
  checkParams(method, params)
  checkTenant(params)
  const target = host.target(req)
  const agent = host.agentAt(target)
  const signal = host.gone(res)
  if (agent === undefined && components.remote === undefined) throw new A2aError('AGENT_UNKNOWN', 'no such agent on this node')
  const result =
    agent !== undefined
      ? await callLocalAgent(components, { from, to: agent, method: method as 'SendMessage', params, door: 'a2a-http' }, signal)
      : await components.remote?.call(from, target, { method, params, parameters }, { signal })
  res.status(200).json(result ?? null)
}
