import type { Json, JsonObject } from './todo.ts'

/**
 * RFC 8785 text of a JSON value: members sorted by UTF-16 code units, no white space, numbers and strings as ECMAScript writes them.
 * What a digest is taken over, so that member order and spacing never make two messages out of one.
 */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (value !== null && typeof value === 'object') {
    const members = Object.keys(value)
      .sort()
      .map((name) => `${JSON.stringify(name)}:${canonicalJson((value as JsonObject)[name] as Json)}`)
    return `{${members.join(',')}}`
  }
  return JSON.stringify(value)
}
