import type { SideEffects } from '../../protocol/ecc/vocabulary.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { isObject } from './json-rpc.ts'

/** What bounds one caller now (TD-R1). */
export const LIMITS_EXTENSION_URI = 'rookery:extension/limits/v1'
/** What each skill may do for good (G-72). */
export const SIDE_EFFECTS_EXTENSION_URI = 'rookery:extension/side-effects/v1'

/** Whole numbers by name, such as `sendPerMinute`; a group of them for each part of the node that sets some. */
export type CallerLimits = { [group: string]: { [name: string]: number } }

/**
 * The card that a caller with a credential sees: the public one, the limits in force for this very caller, and the class of side effects of each skill.
 * @param sideEffects - of the agent's handler, whose skills share it
 */
export function extendedCard(card: JsonObject, { limits, sideEffects }: { limits: CallerLimits; sideEffects: SideEffects }): JsonObject {
  const capabilities = isObject(card.capabilities) ? card.capabilities : {}
  const extensions = Array.isArray(capabilities.extensions) ? capabilities.extensions : []
  const skills = (Array.isArray(card.skills) ? card.skills : []).filter(isObject)
  return {
    ...card,
    capabilities: {
      ...capabilities,
      extensions: [
        ...extensions,
        { uri: LIMITS_EXTENSION_URI, description: 'What bounds this caller now', required: false, params: limits },
        {
          uri: SIDE_EFFECTS_EXTENSION_URI,
          description: 'What work of this agent may do for good',
          required: false,
          params: { agent: sideEffects, skills: Object.fromEntries(skills.map(({ id }) => [String(id), sideEffects])) }
        }
      ]
    }
  }
}
