import type { Json } from './todo.ts'

/** Deeper JSON is refused before anything walks it recursively. */
export const JSON_DEPTH_MAX = 64
/** Of the canonical text of what a checked message stands in. */
export const ENVELOPE_DEPTH_MAX = JSON_DEPTH_MAX + 8

export function tooDeep(root: Json): boolean {
  let level: Json[] = [root]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > JSON_DEPTH_MAX) return true
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []))
  }
  return false
}

/** A text that no UTF-8 can carry and that RFC 8785 has no canonical form for; the value is checked for its depth before. */
export function holdsHalfSurrogate(value: Json): boolean {
  if (typeof value === 'string') return !value.isWellFormed()
  if (Array.isArray(value)) return value.some(holdsHalfSurrogate)
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, member]) => !name.isWellFormed() || holdsHalfSurrogate(member))
}
