import type { ReachabilityMode } from './modes.ts'
import { OFFLINE_DELIVERY_EXTENSION_URI } from './refusals.ts'

/** The modes that may keep messages: the only ones that the author's extension names. */
export const OFFLINE_MODES = ['sleep', 'hourly_wake'] as const satisfies readonly ReachabilityMode[]
export type OfflineMode = (typeof OFFLINE_MODES)[number]

/** An entry of `capabilities.extensions` in the shape of the author's schema: no member more, none less. */
export interface OfflineDeliveryExtension {
  uri: typeof OFFLINE_DELIVERY_EXTENSION_URI
  description: string
  required: false
  params: { mode: OfflineMode }
}

/** @returns undefined for a mode that never keeps anything */
export function offlineDeliveryExtension(mode: ReachabilityMode): OfflineDeliveryExtension | undefined {
  const offline = OFFLINE_MODES.find((one) => one === mode)
  if (offline === undefined) return undefined
  return {
    uri: OFFLINE_DELIVERY_EXTENSION_URI,
    description: 'Messages that arrive while the agent sleeps are refused with 503 agent_asleep and kept until it wakes',
    required: false,
    params: { mode: offline }
  }
}

/** The mode that such an entry of somebody's card names; undefined for anything that the schema does not allow. */
export function readOfflineDeliveryExtension(value: unknown): OfflineMode | undefined {
  if (!isObject(value) || !hasExactly(value, ['uri', 'description', 'required', 'params'])) return undefined
  const { uri, description, required, params } = value
  if (uri !== OFFLINE_DELIVERY_EXTENSION_URI || typeof description !== 'string' || description === '' || required !== false)
    return undefined
  if (!isObject(params) || !hasExactly(params, ['mode'])) return undefined
  return OFFLINE_MODES.find((mode) => mode === params.mode)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function hasExactly(value: Record<string, unknown>, names: readonly string[]): boolean {
  return Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
}
