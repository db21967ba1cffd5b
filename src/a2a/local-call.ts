import { JsonRpcTransportHandler, ServerCallContext } from '@a2a-js/sdk/server'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Json, JsonObject, Todo } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import type { KeepAsleep } from './keep-asleep.ts'
import type { LocalA2a } from './local-a2a.ts'
import type { A2aMethod } from './params.ts'
import { Caller } from './request-handler.ts'
import { A2A_VERSION } from './service-parameters.ts'

/**
 * One checked call of a verified principal to one of our agents: handled, kept while that one sleeps, or refused. What every door of this node without a
 * carrier of its own goes through.
 * @returns the result in ProtoJSON
 * @throws DeliveryRefused, A2aError; or the signal's reason
 */
export async function callLocalAgent(
  { local, keep }: { local: LocalA2a; keep: KeepAsleep },
  call: {
    principal: VerifiedPrincipal
    to: LocalAgent
    method: A2aMethod
    params: JsonObject
    door: Todo['door']
    /** called before the call is handled, when it is neither refused nor kept; what it throws refuses it still */
    admitted?: () => void
  },
  signal: AbortSignal
): Promise<Json> {
  const { principal, to, method, params, door } = call
  const admitted = await local.admit(to, { principal, method, params }, ({ retryAfterSec }) =>
    keep({ principal, to, params, retryAfterSec })
  )
  call.admitted?.()
  const caller = new Caller({ principal, door, params, signal, ...admitted })
  const handler = new JsonRpcTransportHandler(local.handler(to))
  const context = new ServerCallContext({ user: caller, requestedVersion: A2A_VERSION })
  const response = (await handler.handle({ jsonrpc: '2.0', id: 1, method, params }, context)) as unknown as JsonObject
  if (caller.refused !== undefined) throw caller.refused
  if (response.result === undefined) throw new A2aError('INTERNAL_ERROR', 'the local agent gave no result')
  return response.result
}
