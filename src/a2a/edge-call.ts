import type { Eid } from '../../protocol/identity/eid.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { Caller } from './caller.ts'
import type { EdgeHost } from './edge-host.ts'
import type { Exchange } from './http-exchange.ts'
import { callLocalAgent, streamLocalAgent } from './local-call.ts'
import { type A2aMethod, isStream, type StreamMethod } from './params.ts'
import { type SseEvent, sendEvents } from './sse.ts'
import type { TaskEvent } from './task-events.ts'
import type { TaskStream } from './task-stream.ts'

/** A checked call, to an agent of this node or to one behind a session. */
export interface EdgeCall {
  principal: VerifiedPrincipal
  to: Eid
  /** undefined: of another node */
  agent: LocalAgent | undefined
  method: A2aMethod
  params: JsonObject
  /** as of LocalCall */
  admitted?: () => void
}

/** How a binding writes a stream. */
export interface StreamForm {
  data(event: TaskEvent): string
  failure(error: A2aError): string
}

/**
 * Handles a call: gives its result, or writes its stream, which goes on after this has resolved and holds no place among the requests at work.
 * @returns undefined where a stream is the answer
 * @throws A2aError, DeliveryRefused: nothing was written
 */
export async function answerCall(host: EdgeHost, call: EdgeCall, exchange: Exchange, form: StreamForm): Promise<Json | undefined> {
  const { method } = call
  if (!isStream(method)) return await resultOf(host, call, method, exchange)
  const stream = await streamOf(host, call, method, exchange)
  void host.streaming(() => writeStream(host, stream, exchange, form))
  return undefined
}

async function resultOf(
  host: EdgeHost,
  { principal, to, agent, params, admitted }: EdgeCall,
  method: Exclude<A2aMethod, StreamMethod>,
  exchange: Exchange
): Promise<Json> {
  const { components } = host
  const { gone, parameters } = exchange
  const { extensions } = parameters
  const activated = (uris: readonly string[]) => echo(exchange, uris)
  if (agent !== undefined) {
    const call = { principal, to: agent, method, params, extensions, door: 'a2a-http', admitted, activated } as const
    return await callLocalAgent(components, call, gone)
  }
  const { remote, from } = host.remoteFor(principal)
  return await remote.call(from, to, { method, params, parameters }, { signal: gone, activated })
}

async function streamOf(
  host: EdgeHost,
  { principal, to, agent, params, admitted }: EdgeCall,
  method: StreamMethod,
  exchange: Exchange
): Promise<TaskStream> {
  const { components } = host
  const { gone, parameters } = exchange
  const lastEventId = exchange.header('last-event-id')
  const { extensions } = parameters
  const activated = (uris: readonly string[]) => echo(exchange, uris)
  if (agent !== undefined) {
    const call = { principal, to: agent, method, params, extensions, door: 'a2a-http', admitted, activated, lastEventId } as const
    return await streamLocalAgent(components, call, gone)
  }
  const { remote, from } = host.remoteFor(principal)
  const { streams } = components.local
  if (streams === undefined) throw new A2aError('UNSUPPORTED_OPERATION', 'streaming is off on this node')
  const permit = streams.reserve(new Caller({ principal, door: 'a2a-http', signal: gone }))
  try {
    const stream = await remote.stream(from, to, { method, params, parameters }, { signal: gone, lastEventId, activated })
    exchange.res.once('close', () => permit.release())
    return stream
  } catch (error) {
    permit.release()
    throw error
  }
}

/** Names what is active in the answer, beside what was named before. */
export function echo({ res }: Exchange, uris: readonly string[]): void {
  const before = String(res.getHeader('A2A-Extensions') ?? '')
  const all = new Set([...before.split(',').map((uri) => uri.trim()), ...uris])
  all.delete('')
  if (all.size > 0) res.setHeader('A2A-Extensions', [...all].join(', '))
}

async function writeStream(host: EdgeHost, stream: TaskStream, exchange: Exchange, { data, failure }: StreamForm): Promise<void> {
  const { clock } = host
  const { local } = host.components
  // Whoever asks for the head alone reads no event: the answer ends with it.
  if (exchange.req.method === 'HEAD') stream.close()
  async function* events(): AsyncGenerator<SseEvent> {
    for await (const event of stream) yield { id: event.id, data: data(event) }
  }
  await sendEvents(exchange.res, events(), {
    clock,
    onHeartbeat: (beat) => local.streams?.onHeartbeat(beat) ?? (() => {}),
    over: stream.over,
    failure,
    headers: { 'Rookery-Stream': stream.began }
  })
}
