import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import { ServerCallContext, UnauthenticatedUser } from '@a2a-js/sdk/server'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import type { A2aError } from './a2a-error.ts'
import type { EdgeHost } from './edge-host.ts'
import type { Exchange } from './http-exchange.ts'
import { isObject, type JsonRpcId } from './json-rpc.ts'
import { callLocalAgent, streamLocalAgent } from './local-call.ts'
import { createRequestHandler } from './request-handler.ts'
import { A2A_VERSION_ABSENT } from './service-parameters.ts'
import { type SseEvent, sendEvents } from './sse.ts'
import type { TaskStream } from './task-stream.ts'

/**
 * Answers a request of A2A 0.3, as the SDK's compatibility layer turns it into 1.0 and the answer back: the same checks, operations and streams.
 * @throws A2aError, DeliveryRefused: nothing was written
 */
export async function answerLegacy(
  host: EdgeHost,
  {
    agent,
    principal,
    request
  }: { agent: LocalAgent; principal: VerifiedPrincipal; request: { id: JsonRpcId; method: string; params: JsonObject } },
  exchange: Exchange
): Promise<void> {
  const { components } = host
  const call = { principal, to: agent, door: 'a2a-http' } as const
  let refused: { error: unknown } | undefined
  let opened: TaskStream | undefined
  let eventId: string | undefined
  const remembering = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      // The SDK keeps neither our codes nor our details.
      refused = { error }
      throw error
    }
  }
  const handler = new LegacyJsonRpcTransportHandler(
    createRequestHandler({
      card: () => components.local.card(agent),
      answer: (method, params) => remembering(callLocalAgent(components, { ...call, method, params }, exchange.gone)),
      open: async (method, params) => {
        opened = await remembering(streamLocalAgent(components, { ...call, method, params }, exchange.gone))
        return opened
      },
      onEvent: ({ id }) => {
        eventId = id
      }
    })
  )
  const context = new ServerCallContext({ user: new UnauthenticatedUser(), requestedVersion: A2A_VERSION_ABSENT })
  const answer: unknown = await handler.handle({ jsonrpc: '2.0', ...request }, context)
  if (!isStream(answer)) {
    if (refused !== undefined) throw refused.error
    exchange.sendJson(200, answer)
    return
  }
  const events = answer[Symbol.asyncIterator]()
  const first = await events.next().catch((error: unknown) => {
    throw refused?.error ?? error
  })
  async function* frames(): AsyncGenerator<SseEvent> {
    try {
      for (let next = first; next.done !== true; next = await events.next()) yield { id: eventId, data: JSON.stringify(next.value) }
    } finally {
      opened?.close()
    }
  }
  void host.streaming(() =>
    sendEvents(exchange.res, frames(), {
      clock: host.clock,
      onHeartbeat: (beat) => components.local.streams?.onHeartbeat(beat) ?? (() => {}),
      over: opened?.over ?? exchange.gone,
      failure: (error) => JSON.stringify(legacyError(request.id, error))
    })
  )
}

/** Data is an object in 0.3. */
export function legacyError(id: JsonRpcId, error: A2aError): JsonObject {
  const { code, message, reason, metadata } = error
  return { jsonrpc: '2.0', id, error: { code, message, data: { reason, ...metadata } } }
}

/** The card as clients of 0.3 read it; the interfaces of 1.0 stay in it, as in the SDK's own. */
export function legacyCard(card: JsonObject, url: string): JsonObject {
  const { name, description, version, defaultInputModes, defaultOutputModes, skills, supportedInterfaces } = card
  const capabilities = isObject(card.capabilities) ? card.capabilities : {}
  return {
    protocolVersion: '0.3.0',
    name: name ?? '',
    description: description ?? '',
    version: version ?? '',
    url,
    preferredTransport: 'JSONRPC',
    capabilities: { streaming: capabilities.streaming === true, pushNotifications: capabilities.pushNotifications === true },
    supportsAuthenticatedExtendedCard: capabilities.extendedAgentCard === true,
    defaultInputModes: defaultInputModes ?? [],
    defaultOutputModes: defaultOutputModes ?? [],
    skills: skills ?? [],
    securitySchemes: { bearer: { type: 'http', scheme: 'Bearer' } },
    security: [{ bearer: [] }],
    supportedInterfaces: supportedInterfaces ?? ([] as Json[])
  }
}

function isStream(answer: unknown): answer is AsyncIterable<unknown> {
  return typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer
}
