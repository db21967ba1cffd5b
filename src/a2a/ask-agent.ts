import type { Eid } from '../../protocol/identity/eid.ts'
import { ownerPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import type { Activated, RemoteAgents } from './edge.ts'
import type { KeepAsleep } from './keep-asleep.ts'
import type { LocalA2a } from './local-a2a.ts'
import { callLocalAgent, streamLocalAgent } from './local-call.ts'
import { type A2aMethod, checkParams, type StreamMethod } from './params.ts'
import { A2A_VERSION } from './service-parameters.ts'
import type { TaskStream } from './task-stream.ts'

export interface AskComponents {
  agents: { byEid(eid: Eid): LocalAgent | undefined }
  local: LocalA2a
  keep: KeepAsleep
  remote: RemoteAgents
}

/** One operation in the name of one of our agents, on another of ours or on one behind a session. */
export interface Asking<M extends A2aMethod> {
  from: LocalAgent
  to: Eid
  method: M
  params: JsonObject
  extensions?: readonly string[]
}

/** @returns the result in ProtoJSON @throws A2aError, DeliveryRefused; or the signal's reason */
export async function askAgent(
  components: AskComponents,
  asking: Asking<Exclude<A2aMethod, StreamMethod>>,
  { signal, activated }: { signal: AbortSignal; activated?: Activated | undefined }
): Promise<Json> {
  const { from, to, method, params, extensions = [] } = asking
  checkParams(method, params)
  const agent = components.agents.byEid(to)
  if (agent === undefined) {
    const parameters = { version: A2A_VERSION, extensions: [...extensions] }
    return await components.remote.call(from, to, { method, params, parameters }, { signal, activated })
  }
  const call = { principal: ownerPrincipal(from), to: agent, method, params, extensions, door: 'library', activated } as const
  return await callLocalAgent(components, call, signal)
}

/** As {@link askAgent}, for the operations whose answer is a stream; the signal ends it. */
export async function askForStream(
  components: AskComponents,
  { from, to, method, params, extensions = [] }: Asking<StreamMethod>,
  { signal, lastEventId }: { signal: AbortSignal; lastEventId?: string | undefined }
): Promise<TaskStream> {
  checkParams(method, params)
  const agent = components.agents.byEid(to)
  if (agent === undefined) {
    const parameters = { version: A2A_VERSION, extensions: [...extensions] }
    return await components.remote.stream(from, to, { method, params, parameters }, { signal, lastEventId })
  }
  const call = { principal: ownerPrincipal(from), to: agent, method, params, extensions, door: 'library', lastEventId } as const
  return await streamLocalAgent(components, call, signal)
}
