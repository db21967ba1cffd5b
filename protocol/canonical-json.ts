import { ProtocolError } from './errors.ts'

/** Lists and objects inside each other; deeper is refused. */
export const JSON_DEPTH_MAX = 64

/**
 * The one text of a JSON value (RFC 8785): no white space, members sorted by UTF-16 code units, numbers and texts as ECMAScript writes them. A member
 * whose value is undefined is left out. It is what digests and signatures are taken over, so that member order and spacing never make two values of one.
 * @throws ProtocolError `FIELD_INVALID`: no JSON value (NaN, a function, a class instance, half a surrogate pair …), or nested deeper than `depthMax`
 */
export function canonicalJson(value: unknown, depthMax: number = JSON_DEPTH_MAX): string {
  return textOf(value, depthMax)
}

function textOf(value: unknown, depthLeft: number): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return stringText(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw invalid(`${value} is no JSON number`)
    return JSON.stringify(value)
  }
  if (typeof value !== 'object') throw invalid(`a ${typeof value} is no JSON value`)
  if (depthLeft === 0) throw invalid('nests too deep')
  if (Array.isArray(value)) return `[${Array.from(value, (item) => textOf(item, depthLeft - 1)).join(',')}]`
  const kind = Object.getPrototypeOf(value)
  if (kind !== Object.prototype && kind !== null) throw invalid('an object of a class is no JSON value')
  const members: string[] = []
  for (const name of Object.keys(value).sort()) {
    const member = (value as Record<string, unknown>)[name]
    if (member !== undefined) members.push(`${stringText(name)}:${textOf(member, depthLeft - 1)}`)
  }
  return `{${members.join(',')}}`
}

function stringText(text: string): string {
  if (!text.isWellFormed()) throw invalid('a text holds half a surrogate pair')
  return JSON.stringify(text)
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', message, { field: 'json' })
}
