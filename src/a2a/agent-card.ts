import { AgentCard } from '@a2a-js/sdk'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import { offlineDeliveryExtension } from '../../protocol/delivery/card-extension.ts'
import { MODE_NAMES } from '../../protocol/delivery/modes.ts'
import type { QueueBounds } from '../delivery/asleep-queue.ts'
import type { AgentReachability, LocalAgent } from '../identity/agent.ts'
import type { HandlerSkill } from '../tasks/handler.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { isObject } from './json-rpc.ts'
import { A2A_VERSION } from './service-parameters.ts'

/** The custom binding of A2A over a Persistent State Session (protocol/README.md §9); a breaking change takes a new URI. */
export const PSS_BINDING_URI = 'rookery:binding/pss/v1'
/** Mode, window and bounds of an agent on its card (protocol/README.md §9). */
export const REACHABILITY_EXTENSION_URI = 'rookery:extension/reachability/v1'
/** How long a card may be kept. */
export const CARD_MAX_AGE_SEC = 300

export interface AgentCardInput {
  agent: LocalAgent
  skills: readonly HandlerSkill[]
  /** version of the agent, and of the node where it has none */
  version: string
  /** where the JSON-RPC endpoint of this agent is reached from outside, whole */
  rpcUrl: string
  /** whether SendStreamingMessage and SubscribeToTask are answered (TD-28); default: no */
  streaming?: boolean
  /** whether webhooks are told of tasks (TD-36); default: no */
  pushNotifications?: boolean
  /** of its queue; undefined where nothing is kept for it */
  bounds: QueueBounds | undefined
  /** entries of other parts of the node; default: none */
  extensions?: readonly JsonObject[]
}

/** The agent's card in ProtoJSON, from the settings in effect (OD-30, TD-29). */
export function agentCard({
  agent,
  skills,
  version,
  rpcUrl,
  streaming = false,
  pushNotifications = false,
  bounds,
  extensions = []
}: AgentCardInput): JsonObject {
  return {
    name: agent.name,
    description: agent.description === '' ? `The agent ${agent.name}` : agent.description,
    version,
    supportedInterfaces: [
      ...httpInterfaces(rpcUrl),
      { url: `rookery:${agent.did}`, protocolBinding: PSS_BINDING_URI, protocolVersion: A2A_VERSION }
    ],
    capabilities: {
      streaming,
      pushNotifications,
      extendedAgentCard: true,
      extensions: [...offlineDelivery(agent, bounds), reachability(agent.reachability, bounds), ...extensions]
    },
    securitySchemes: {
      bearer: {
        httpAuthSecurityScheme: {
          scheme: 'Bearer',
          description: 'The credential of a grant that this agent’s owner gave, or the token of an agent of its node'
        }
      }
    },
    securityRequirements: [{ schemes: { bearer: {} } }],
    defaultInputModes: ['text/plain', 'application/json', 'application/octet-stream'],
    defaultOutputModes: ['text/plain', 'application/json'],
    skills: skills.map((skill) => ({ ...skill }))
  }
}

/** The extension of the draft's author, only where messages are kept. */
function offlineDelivery({ reachability }: LocalAgent, bounds: QueueBounds | undefined): JsonObject[] {
  const extension = bounds === undefined ? undefined : offlineDeliveryExtension(reachability.mode)
  return extension === undefined ? [] : [{ ...extension }]
}

/** When the agent takes work, and the bounds of what is kept for it at other times, as they apply (OD-04, OD-08, OD-30). */
function reachability({ mode, window, untilMs }: AgentReachability, bounds: QueueBounds | undefined): JsonObject {
  return {
    uri: REACHABILITY_EXTENSION_URI,
    description: 'When this agent takes work, and what is kept for it at other times',
    required: false,
    params: {
      mode,
      name: MODE_NAMES[mode],
      ...(window === undefined ? {} : { window: { ...window } }),
      ...(untilMs === undefined ? {} : { until: new Date(untilMs).toISOString() }),
      ...(bounds === undefined
        ? {}
        : {
            queue: {
              messagesMax: bounds.messagesMax,
              bytesMax: bounds.bytesMax,
              messagesPerPeerMax: bounds.messagesPerPeerMax,
              ttlMaxSec: Math.floor(bounds.ttlMaxMs / 1_000)
            }
          })
    }
  }
}

/**
 * A card with the URL that callers of this node use for its agent; the PSS interface stays as it is. Its signatures are about the card as it was, so they go: this
 * node has checked them.
 */
export function withRpcUrl({ signatures: _, ...card }: JsonObject, rpcUrl: string): JsonObject {
  const interfaces = Array.isArray(card.supportedInterfaces) ? card.supportedInterfaces : []
  const others = interfaces.filter((one) => isObject(one) && one.protocolBinding === PSS_BINDING_URI)
  return { ...card, supportedInterfaces: [...httpInterfaces(rpcUrl), ...others] }
}

/** Both HTTP bindings lie at one URL. */
function httpInterfaces(url: string): JsonObject[] {
  return ['JSONRPC', 'HTTP+JSON'].map((protocolBinding) => ({ url, protocolBinding, protocolVersion: A2A_VERSION }))
}

/** The SDK's object of a card in ProtoJSON. */
export function cardFromJson(card: JsonObject): AgentCard {
  return AgentCard.fromJSON(card)
}

/** The exact text that is served, and what an entity tag is made of. */
export function cardText(card: JsonObject): string {
  const json = AgentCard.toJSON(AgentCard.fromJSON(card)) as JsonObject
  const { capabilities } = json
  // The SDK leaves a false out; the extension's schema wants it there.
  if (isObject(capabilities) && Array.isArray(capabilities.extensions)) {
    capabilities.extensions = capabilities.extensions.map((one) => (isObject(one) ? { ...one, required: one.required === true } : one))
  }
  return canonicalJson(json)
}

/**
 * The endpoint of an agent under the node's public URL, whose path prefix appears exactly once, with or without a slash at its end (F026).
 */
export function rpcUrlOf(publicUrl: string, did: string): string {
  return `${publicUrl.replace(/\/+$/, '')}/agents/${did}`
}
