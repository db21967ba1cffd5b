import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Json, JsonObject, Todo } from '../tasks/todo.ts'
import { Caller } from './caller.ts'
import type { KeepAsleep } from './keep-asleep.ts'
import type { LocalA2a } from './local-a2a.ts'
import type { A2aMethod, StreamMethod } from './params.ts'
import type { TaskStream } from './task-stream.ts'

export interface LocalCall<M extends A2aMethod> {
  principal: VerifiedPrincipal
  to: LocalAgent
  method: M
  params: JsonObject
  door: Todo['door']
  /** URIs that the caller activates */
  extensions?: readonly string[] | undefined
  lastEventId?: string | undefined
  /** called before the call is handled, when it is neither refused nor kept; what it throws refuses it still */
  admitted?: (() => void) | undefined
  /** told which extensions are active in the answer, where any are */
  activated?: ((extensions: readonly string[]) => void) | undefined
}

/**
 * One checked call of a verified principal to one of our agents: handled, kept while that one sleeps, or refused. What every door of this node without a
 * carrier of its own goes through.
 * @returns the result in ProtoJSON
 * @throws DeliveryRefused, A2aError; or the signal's reason
 */
export async function callLocalAgent(
  components: { local: LocalA2a; keep: KeepAsleep },
  call: LocalCall<Exclude<A2aMethod, StreamMethod>>,
  signal: AbortSignal
): Promise<Json> {
  return await components.local.answer(call.to, call.method, call.params, await admitted(components, call, signal))
}

/** As {@link callLocalAgent}, for a call whose answer is a stream; the signal ends it. */
export async function streamLocalAgent(
  components: { local: LocalA2a; keep: KeepAsleep },
  call: LocalCall<StreamMethod>,
  signal: AbortSignal
): Promise<TaskStream> {
  return await components.local.open(call.to, call.method, call.params, await admitted(components, call, signal))
}

async function admitted(
  { local, keep }: { local: LocalA2a; keep: KeepAsleep },
  { principal, to, method, params, extensions, door, lastEventId, admitted, activated }: LocalCall<A2aMethod>,
  signal: AbortSignal
): Promise<Caller> {
  const how = await local.admit(to, { principal, method, params, extensions }, ({ retryAfterSec }) =>
    keep({ principal, to, params, extensions, retryAfterSec })
  )
  admitted?.()
  if (how.admission !== undefined) activated?.([how.admission.uri])
  return new Caller({ principal, door, signal, lastEventId, ...how })
}
